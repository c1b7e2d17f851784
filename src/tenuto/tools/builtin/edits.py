"""Replacing a text inside a file's text: exact, and in one place unless told otherwise. Pure: bytes in, bytes out."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["replace_text"]

_MARK = b"\xef\xbb\xbf"
_LISTED = 10


def replace_text(data: bytes, old: str, new: str, *, all: bool = False) -> tuple[bytes, list[int]]:
    """Return a file's bytes with `new` in place of `old`, and the lines where it stood.

    A byte order mark stays. In a file whose lines end in CR LF, so do those of `old` and `new`. Raise `ValueError` if
    the file is no UTF-8, or if `old` is not there, or there more than once without `all`: the message says what to do.
    """
    if not old:
        raise ValueError("old is empty: give the exact text that is to be replaced, or use write_file")
    mark = _MARK if data.startswith(_MARK) else b""
    try:
        text = data.removeprefix(_MARK).decode("utf-8")
    except UnicodeDecodeError as exc:
        raise ValueError(
            f"the file is no UTF-8 text ({exc.reason} at byte {exc.start}), and is left as it is"
        ) from None
    old, new = _fitted(text, old, new)
    if old == new:
        raise ValueError("old and new are the same: nothing to change")
    found = list(_places(text, old, apart=all))
    lines = [text.count("\n", 0, at) + 1 for at in found[:_LISTED]]
    if not found:
        raise ValueError(f"old is not in the file{_near(text, old)}; read the file, and give the text exactly as it is")
    if len(found) > 1 and not all:
        listed = ", ".join(map(str, lines)) + (", ..." if len(found) > _LISTED else "")
        raise ValueError(
            f"old is in the file {len(found)} times (lines {listed}): give more of the text around the one you mean, or "
            "all=true to replace each"
        )
    result = text.replace(old, new) if all else text[: found[0]] + new + text[found[0] + len(old) :]
    try:
        return mark + result.encode("utf-8"), [text.count("\n", 0, at) + 1 for at in found]
    except UnicodeEncodeError:
        raise ValueError("new holds half a character, which no file can: leave it out") from None


def _fitted(text: str, old: str, new: str) -> tuple[str, str]:
    """Write the ends of lines as the file does, where it has one way, or where only the other is found."""
    both = text.count("\r\n")
    crlf = tuple(part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new))
    if both and (both == text.count("\n") or (old not in text and crlf[0] in text)):
        return crlf[0], crlf[1]
    return old, new


def _places(text: str, old: str, *, apart: bool) -> Iterator[int]:
    """Find each place, those that overlap too unless they are to be `apart`: of those nobody could say which is meant."""
    at = text.find(old)
    while at >= 0:
        yield at
        at = text.find(old, at + (len(old) if apart else 1))


def _near(text: str, old: str) -> str:
    """Say where the text stands but for its white space."""
    wanted = [" ".join(line.split()) for line in old.strip().splitlines()]
    lines = [" ".join(line.split()) for line in text.splitlines()]
    if not wanted or not any(wanted):
        return ""
    for at in range(len(lines) - len(wanted) + 1):
        if lines[at : at + len(wanted)] == wanted:
            return f", but line {at + 1} differs from it only in white space"
    return ""
