"""Text for a terminal: control characters made visible, widths in cells, wrapping."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

_JOINERS = "\u200c\u200d"
"""Invisible, and parts of words and emoji: they stay."""
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Control characters, bidirectional overrides and other invisible signs, halves of characters, odd ends of lines."""


class _Escapes(dict[int, str]):
    """A cache for `str.translate`."""

    def __missing__(self, code: int) -> str:
        sign = chr(code)
        hidden = sign not in f"\n\t{_JOINERS}" and unicodedata.category(sign) in _HIDDEN
        self[code] = _escape(code) if hidden else sign
        return self[code]


def _escape(code: int) -> str:
    if code == ord("\r"):
        return "\\r"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_ESCAPES = _Escapes()


def escape_control(text: str) -> str:
    """Return the text with control and other invisible characters escaped, as in a Python string.

    Newlines and tabs stay.
    """
    return text.replace("\r\n", "\n").translate(_ESCAPES)


def one_line(text: str, most: int) -> str:
    """Return the text as one escaped line of at most `most` characters."""
    line = escape_control(" ".join(text[: 4 * most + 100].split()))
    return line if len(line) <= most else f"{line[: most - 3]}..."


def escape_json(document: str) -> str:
    """Return an equal JSON document without characters that a terminal interprets."""
    return "".join(_json_escape(sign) for sign in document) if escape_control(document) != document else document


def _json_escape(sign: str) -> str:
    if escape_control(sign) == sign:
        return sign
    units = sign.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


_TAB = 8


class _Cells(dict[str, int]):
    """A cache of widths."""

    def __missing__(self, sign: str) -> int:
        if unicodedata.category(sign) in ("Mn", "Me", "Cf"):
            cells = 0
        else:
            cells = 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        self[sign] = cells
        return cells


_CELLS = _Cells()


def cell_width(text: str) -> int:
    """Return the number of cells of a text without newlines and tabs."""
    return len(text) if text.isascii() else sum(_CELLS[sign] for sign in text)


def truncate(text: str, most: int) -> str:
    """Return the start of a text in at most `most` cells, with `...` if it is cut."""
    if cell_width(text) <= most:
        return text
    dots = "..."[: max(most, 0)]
    return cut_cells(text, most - len(dots)) + dots


def cut_cells(text: str, most: int) -> str:
    """Return the start of a text in at most `most` cells."""
    return text[: _fit(text, 0, most)]


def count_rows(text: str, columns: int) -> int:
    """Return the number of rows of a line in a window of `columns`."""
    at, count = _fit(text, 0, columns), 1
    while at < len(text):
        at, count = max(_fit(text, at, columns), at + 1), count + 1
    return count


def _fit(text: str, at: int, most: int) -> int:
    """Return the index up to which the text from `at` fits in `most` cells."""
    if text.isascii():
        return min(at + max(most, 0), len(text))
    left = most
    for end in range(at, len(text)):
        left -= _CELLS[text[end]]
        if left < 0:
            return end
    return len(text)


def wrap(text: str, columns: int) -> Iterator[str]:
    """Yield the lines of a text wrapped at `columns`, between words if possible."""
    for line in text.split("\n"):
        yield from _wrap_line(line.expandtabs(_TAB), max(columns, 1))


def _wrap_line(line: str, columns: int) -> Iterator[str]:
    at = 0
    while (end := _fit(line, at, columns)) < len(line):
        end = max(end, at + 1)  # a sign that is wider than all there is
        space = line.rfind(" ", at + 1, end + 1)
        cut = space if space > 0 and not line[at:space].isspace() else end
        yield line[at:cut].rstrip()
        at = cut
        while line[at : at + 1] == " ":
            at += 1
    yield line[at:]


def closest_names(name: str, names: Iterable[str]) -> str:
    """Return which name is meant, or which names are valid, for an error message."""
    import difflib  # only errors need it

    close = difflib.get_close_matches(name.lower(), known := list(names), n=2)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"use one of {', '.join(known)}" if known else "none are defined"
