"""One pattern of `--allow` or `--deny`, and the calls that it means; see `tenuto.cli.policy` for what holds."""

from __future__ import annotations

import posixpath
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

from tenuto.cli.shellwords import is_plain, simple_commands
from tenuto.tools.builtin import BUILTIN
from tenuto.tools.builtin.walking import matcher_of

__all__ = ["Rule"]

Kind = Literal["command", "path", "text"]

_WINDOWS = sys.platform == "win32"
_FOLDS = sys.platform in ("win32", "darwin")
"""Names that differ in case are the same file here, as a rule."""
_MAIN = {name: "command" if name == "shell" else "path" for name in BUILTIN}
_ROOT = ("list_files", "search_files")
"""What works on the whole folder if it is not told on which."""
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("command", "cmd", "script", "shell"), "command"),
    **dict.fromkeys(("path", "file", "filename", "filepath", "folder", "directory", "dir"), "path"),
}
"""What an argument is, by the last word of its name."""


class _Argument(NamedTuple):
    kind: Kind
    value: str


class Rule:
    """A pattern: a tool's name, which may be a glob, and a glob for its main argument, unless it means every call.

    Raise `ValueError` for a glob that cannot be read.
    """

    def __init__(self, option: str, name: str, glob: str | None) -> None:
        self.name = name
        self._shown = f"{option} {name}" + ("" if glob is None else f"({glob})")
        self._glob = None if glob is None else glob.strip()
        self._wild = any(sign in (glob or "") for sign in "*?[")
        self._path = matcher_of(f"/{_tidy(self._glob)}") if self._glob is not None else None

    def __str__(self) -> str:
        return self._shown

    def concerns(self, name: str) -> bool:
        """Tell whether it is about a tool of this name."""
        return fnmatchcase(name, self.name)

    def allows(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Tell whether it leaves no doubt that a call is meant."""
        if not self.concerns(name):
            return False
        found = _arguments(name, arguments)
        return self._glob is None or (bool(found) and all(map(self._allows, found)))

    def denies(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Tell whether a call may be meant."""
        if not self.concerns(name):
            return False
        found = _arguments(name, arguments) or [_Argument("text", "")]
        return self._glob is None or any(map(self._denies, found))

    # --- one argument ---

    def _allows(self, argument: _Argument) -> bool:
        glob, value = self._glob or "", argument.value
        if argument.kind == "path":
            # what is before a `..` may be a link, and then it leads elsewhere
            return (
                ".." not in _spelt(value).split("/")
                and self._path is not None
                and bool(self._path.fullmatch(f"/{_tidy(value)}"))
            )
        if argument.kind == "command":
            value = value.strip(" \t\n")
            if self._wild and not is_plain(value):
                return False
        return fnmatchcase(value, glob) if self._wild else value == glob

    def _denies(self, argument: _Argument) -> bool:
        glob = _folded(self._glob or "")
        candidates = {"command": _commands, "path": _places, "text": _texts}[argument.kind]
        if argument.kind == "path":
            glob = _tidy(glob)
        return any(one is None or fnmatchcase(_folded(one), glob) for one in candidates(argument.value, glob))


def _commands(value: str, glob: str) -> Iterator[str | None]:
    del glob
    yield value.strip()
    yield from simple_commands(value)


def _places(value: str, glob: str) -> Iterator[str | None]:
    """Yield a path, the folders above it, and for a glob without a slash the names in it."""
    yield value
    path = _tidy(value)
    names = [name for name in path.split("/") if name]
    yield path
    for at in range(1, len(names)):
        yield path[: len(path) - len("/".join(names[at:])) - 1]
    if "/" not in glob:
        yield from names
    elif path.startswith("/") or ".." in value:  # it may be below the root all the same
        yield from ("/".join(names[at:]) for at in range(1, len(names)))


def _texts(value: str, glob: str) -> Iterator[str | None]:
    del glob
    yield value


def _tidy(path: str) -> str:
    """Return a path without what means nothing in it: `./`, doubled slashes, and names that are taken back by `..`."""
    return re.sub("^/+", "/", posixpath.normpath(_spelt(path) or "."))


def _spelt(path: str) -> str:
    return path.replace("\\", "/") if _WINDOWS else path


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold() if _FOLDS else text


# --- what a call is about ---------------------------------------------------------------------------------------------


def _arguments(name: str, given: Mapping[str, Any]) -> list[_Argument]:
    """Return what a pattern is matched against: the main argument of a tool that is known, else every string."""
    main = _MAIN.get(name, "")
    held = given.get(main)
    if name in _ROOT and held is None:
        held = "."
    if isinstance(held, str):
        return [_Argument(_KINDS[main], held)]
    return [_Argument(_kind(key), text) for key, value in given.items() for text in _strings(value)]


def _kind(key: str) -> Kind:
    return _KINDS.get(key.lower().rpartition("_")[2].removesuffix("s"), "text")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from (str(key), *_strings(inner))
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            yield from _strings(inner)
