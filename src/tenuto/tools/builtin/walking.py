"""Going through a folder and those in it, and the patterns that say which files are meant."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator

import msgspec

from tenuto.tools.builtin.root import Folder, Root, names_of

__all__ = ["Found", "matcher_of", "shown_path", "walk"]

_SKIPPED = (".git", ".hg", ".svn")
_MOST_STARS = 8


class Found(msgspec.Struct, frozen=True):
    """Something that stands in a folder: `kind` is `file`, `folder`, `link` or `other`; `depth` counts from 1."""

    path: str
    kind: str
    size: int
    depth: int
    hidden: bool


def walk(root: Root, path: str, *, depth: int, hidden: bool) -> Iterator[tuple[Found, Folder]]:
    """Yield everything below a folder in the order of the names, each with the folder it stands in, which is open.

    Links are named and not followed. What is hidden is yielded, and only gone into if asked; what keeps versions is
    never gone into.
    """
    with root.open(names_of(path)) as folder:
        yield from _below(folder, 1, depth, hidden=hidden)


def _below(folder: Folder, at: int, depth: int, *, hidden: bool) -> Iterator[tuple[Found, Folder]]:
    for name, entry in folder.entries():
        veiled = name.startswith(".")
        kind = _kind(entry.st_mode)
        yield Found(folder.shown(name), kind, entry.st_size, at, veiled), folder
        if kind == "folder" and at < depth and name not in _SKIPPED and (hidden or not veiled):
            try:
                inner = folder.folder(name)
            except OSError:  # it may be gone by now, or not ours to read: it was named, at least
                continue
            with inner:
                yield from _below(inner, at + 1, depth, hidden=hidden)


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISREG, "file"), (stat.S_ISDIR, "folder"), (stat.S_ISLNK, "link"))
    return next((kind for test, kind in kinds if test(mode)), "other")


def shown_path(path: str) -> str:
    """Return a path as it can be shown on one line; bytes that are no UTF-8 are replaced."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\n", "\\n")


def matcher_of(pattern: str) -> re.Pattern[str]:
    """Return what tells whether a path matches a glob; one without a slash is for the name alone.

    `*` is anything but a slash, `**` anything, `?` one sign, `[...]` one of several. Raise `ValueError` for a pattern
    that cannot be read, or that would take too long.
    """
    if pattern.count("*") > _MOST_STARS or len(pattern) > 300:
        raise ValueError(f"the pattern {pattern[:80]!r} is too long: use at most {_MOST_STARS} stars")
    pieces = re.findall(r"\*\*/?|\*|\?|\[!?\]?[^\]]*\]|.", pattern.removeprefix("./"), re.DOTALL)
    body = "".join(map(_piece, pieces))
    start = "" if "/" in pattern.removeprefix("./") else "(?:.*/)?"
    try:
        return re.compile(f"{start}{body}", re.DOTALL)
    except re.error as exc:
        raise ValueError(f"the pattern {pattern!r} cannot be read: {exc}") from None


def _piece(piece: str) -> str:
    simple = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if piece in simple:
        return simple[piece]
    if len(piece) == 1:
        return re.escape(piece)
    inside = piece[1:-1].replace("\\", "\\\\").replace("[", "\\[")
    return f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside}]"
