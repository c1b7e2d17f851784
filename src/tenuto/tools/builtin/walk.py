"""Going through a folder and those in it, and the patterns that say which files are meant."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator

import msgspec

from tenuto.tools.builtin.confined_dir import ConfinedDir, Directory, names_of
from tenuto.tools.builtin.globs import Glob

__all__ = ["WalkEntry", "path_matcher", "shown_path", "walk"]

_SKIPPED = (".git", ".hg", ".svn")


class WalkEntry(msgspec.Struct, frozen=True):
    """Something that stands in a folder: `kind` is `file`, `folder`, `link` or `other`; `depth` counts from 1."""

    path: str
    kind: str
    size: int
    depth: int
    hidden: bool


def walk(root: ConfinedDir, path: str, *, depth: int, hidden: bool) -> Iterator[tuple[WalkEntry, Directory]]:
    """Yield everything below a folder in the order of the names, each with the folder it stands in, which is open.

    Links are named and not followed. What is hidden is yielded, and only gone into if asked; what keeps versions is
    never gone into.
    """
    with root.open(names_of(path)) as folder:
        yield from _below(folder, 1, depth, hidden=hidden)


def _below(folder: Directory, at: int, depth: int, *, hidden: bool) -> Iterator[tuple[WalkEntry, Directory]]:
    for name, entry in folder.entries():
        veiled = name.startswith(".")
        kind = _kind(entry.st_mode)
        yield WalkEntry(folder.shown(name), kind, entry.st_size, at, veiled), folder
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


def path_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether a path matches a glob; without a slash, the glob is for the name alone.

    Raise `ValueError` for a pattern that `Glob` does not accept.
    """
    pattern = pattern.removeprefix("./")
    if "/" in pattern:
        return Glob(pattern).matches
    if "**" in pattern:
        return Glob(f"**/{pattern}").matches
    name = Glob(pattern)
    return lambda path: name.matches(path.rpartition("/")[2])
