"""Patterns of `--allow` and `--deny`, and the tool calls that they match."""

from __future__ import annotations

import posixpath
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

from tenuto.cli.session.shell_words import is_plain, simple_commands
from tenuto.tools.builtin import BUILTIN
from tenuto.tools.builtin.globs import Glob

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


class CallPattern:
    """A pattern: a tool's name, which may be a glob, and a glob for its main argument, unless it means every call.

    Raise `ValueError` for a glob that cannot be read.
    """

    def __init__(self, option: str, name: str, glob: str | None) -> None:
        self.name = name
        self._shown = f"{option} {name}" + ("" if glob is None else f"({glob})")
        self._glob = None if glob is None else glob.strip()
        self._wild = any(sign in (glob or "") for sign in "*?[")
        text = self._glob or ""
        folded, path = _folded(text), _tidy(_folded(text))
        self._path = Glob(f"/{_tidy(text)}")
        self._text = Glob(text, crosses_slash=True)
        self._folded_text = Glob(folded, crosses_slash=True)
        self._folded_path = Glob(path, crosses_slash=True)
        self._path_end = Glob(f"*/{path}", crosses_slash=True) if "/" in path else None

    def __str__(self) -> str:
        return self._shown

    def matches_tool(self, name: str) -> bool:
        """Tell whether it is about a tool of this name."""
        return fnmatchcase(name, self.name)

    def allows(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Tell whether it leaves no doubt that a call is meant."""
        if not self.matches_tool(name):
            return False
        found = _arguments(name, arguments)
        return self._glob is None or (bool(found) and all(map(self._allows, found)))

    def denies(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Tell whether a call may be meant."""
        if not self.matches_tool(name):
            return False
        found = _arguments(name, arguments) or [_Argument("text", "")]
        return self._glob is None or any(map(self._denies, found))

    # --- one argument ---

    def _allows(self, argument: _Argument) -> bool:
        glob, value = self._glob or "", argument.value
        if argument.kind == "path":
            # the name before a `..` may be a link, and then the path leads elsewhere
            return ".." not in _spelt(value).split("/") and self._path.matches(f"/{_tidy(value)}")
        if argument.kind == "command":
            value = value.strip(" \t\n")
            if self._wild and not is_plain(value):
                return False
        return self._text.matches(value) if self._wild else value == glob

    def _denies(self, argument: _Argument) -> bool:
        if argument.kind == "path":
            return self._denies_path(argument.value)
        values: tuple[str | None, ...] = (argument.value,)
        if argument.kind == "command":
            values = (argument.value.strip(), *simple_commands(argument.value))
        return any(one is None or self._folded_text.matches(_folded(one)) for one in values)

    def _denies_path(self, value: str) -> bool:
        """Match the path, the directories above it, and, for a glob without a slash, each name in it."""
        path, glob = _folded(_tidy(value)), self._folded_path
        if glob.matches(_folded(value)) or glob.matches(path, or_parent=True):
            return True
        if self._path_end is None:
            return any(map(glob.matches, path.split("/")))
        # the end of the path may be below the root all the same
        return (path.startswith("/") or ".." in value) and self._path_end.matches(path)


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
