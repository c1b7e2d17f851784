"""Allow and deny tool calls by patterns.

A pattern is `NAME`, all calls of a tool, or `NAME(GLOB)`, those whose main argument matches. NAME may be a glob too. The
main argument is `command` for `shell` and `path` for the file tools. Other tools are allowed if all of their text
arguments match, and denied if one does. Arguments of any tool that are called `command` or `path` are treated as such.

Allowing is strict. A command matches a glob only if a shell would split it into words and do nothing else. A path matches
as a whole, without `..`. Denying is generous, and best effort for commands: a shell can hide a program in many ways.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

from tenuto.agent.hooks import CallInfo, Hooks
from tenuto.core import jsonio
from tenuto.core.messages import ToolCallView
from tenuto.tools.builtin import BUILTIN
from tenuto.tools.builtin.globs import Glob

Kind = Literal["command", "path", "text"]
Match = Literal["no", "unclear", "yes"]

_FORM = re.compile(r"([A-Za-z0-9_*?\[\]!-]+)(?:\((.+)\))?", re.DOTALL)
_WINDOWS = sys.platform == "win32"
_FOLDS = sys.platform in ("win32", "darwin")
"""Whether names that differ in case are usually the same file here."""
_MAIN = {name: "command" if name == "shell" else "path" for name in BUILTIN}
_WHOLE_ROOT = ("list_files", "search_files")
"""Tools that work on the whole directory if no path is given."""
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("command", "cmd", "script", "shell"), "command"),
    **dict.fromkeys(("path", "file", "filename", "filepath", "folder", "directory", "dir"), "path"),
}
"""The kind of an argument, by the last word of its name."""
_PLAIN = re.compile(r"""(?:[\w./,:=+@%^ \t-]|(?<=[\w^~])~|'[^'\0]*'|"[^"$`\\!\0]*")*""")
_PLAIN_WINDOWS = re.compile(r"""(?:[\w./\\,:=+@~ \t-]|"[^"%!^&|<>\r\n\0]*")*""")  # single quotes do not quote there
_QUOTES = re.compile(r"""\\\n|['"\\]""")
_QUOTES_WINDOWS = re.compile(r"""['"^]""")
_STARTS_WITH_EXPANSION = re.compile(r"(?:^|[;&|(\n]\s*)[^\s/]*[$?*{`%]")
_RUNS_COMMANDS = frozenset(
    [
        "sh",
        "bash",
        "dash",
        "zsh",
        "ksh",
        "fish",
        "cmd",
        "powershell",
        "pwsh",
        "sudo",
        "doas",
        "su",
        "env",
        "xargs",
        "eval",
        "exec",
        "nohup",
    ]
)
"""Programs whose arguments are commands: no pattern for all of their calls is suggested."""

_LONGEST_PATTERN = 200


class _Argument(NamedTuple):
    kind: Kind
    value: str


class CallPattern:
    """One pattern. Raise `ValueError` for an invalid one."""

    def __init__(self, pattern: str) -> None:
        found = _FORM.fullmatch(pattern.strip())
        if found is None:
            raise ValueError(
                f"invalid pattern {pattern!r}; use NAME or NAME(GLOB), such as read_file or 'shell(git *)'"
            )
        self.name: str = found[1]
        self._shown = pattern.strip()
        self._glob: str | None = None if found[2] is None else found[2].strip()
        text = self._glob or ""
        self._is_wild = any(sign in text for sign in "*?[")
        folded, path = _fold(text), _normalize(_fold(text))
        self._text = Glob(text, crosses_slash=True)
        self._path = Glob(f"/{_normalize(text)}")
        self._folded_text = Glob(folded, crosses_slash=True)
        self._folded_path = Glob(path, crosses_slash=True)
        self._path_end = Glob(f"*/{path}", crosses_slash=True) if "/" in path else None
        words = filter(None, re.split(r"[\s*?\[\]]+", folded))
        self._words = [
            re.compile(rf"(?<![\w.-]){re.escape(word)}(?:\.(?:exe|com|bat|cmd))?(?![\w.-])") for word in words
        ]

    def __str__(self) -> str:
        return self._shown

    def matches_tool(self, name: str) -> bool:
        return fnmatchcase(name, self.name)

    def allows(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Return whether the call matches beyond doubt."""
        if not self.matches_tool(name):
            return False
        found = _main_arguments(name, arguments)
        return self._glob is None or (bool(found) and all(map(self._allows, found)))

    def denies(self, name: str, arguments: Mapping[str, Any]) -> Match:
        """Return whether the call matches; `unclear` for a command that may run the program in another way."""
        if not self.matches_tool(name):
            return "no"
        if self._glob is None:
            return "yes"
        found = {self._denies(argument) for argument in _main_arguments(name, arguments) or [_Argument("text", "")]}
        return "yes" if "yes" in found else "unclear" if "unclear" in found else "no"

    def _allows(self, argument: _Argument) -> bool:
        value = argument.value
        if argument.kind == "path":  # a directory before `..` may be a link to another place
            return ".." not in _with_slashes(value).split("/") and self._path.matches(f"/{_normalize(value)}")
        if argument.kind == "command":
            value = value.strip(" \t\n")
            if self._is_wild and not is_plain(value):
                return False
        return self._text.matches(value) if self._is_wild else value == self._glob

    def _denies(self, argument: _Argument) -> Match:
        if argument.kind == "path":
            return "yes" if self._denies_path(argument.value) else "no"
        value = _fold(argument.value)
        if self._folded_text.matches(value):
            return "yes"
        return self._denies_command(value.strip()) if argument.kind == "command" else "no"

    def _denies_command(self, command: str) -> Match:
        program, space, rest = command.partition(" ")
        program = re.split(r"[/\\]" if _WINDOWS else "/", program)[-1]
        for form in (command, f"{program}{space}{rest}", f"{command} "):
            if self._folded_text.matches(form):
                return "yes"
        bare = (_QUOTES_WINDOWS if _WINDOWS else _QUOTES).sub("", command)
        return "unclear" if self._has_words(bare) or _STARTS_WITH_EXPANSION.search(command) else "no"

    def _has_words(self, text: str) -> bool:
        """Return whether the literal words of the pattern occur in this order."""
        at = 0
        for word in self._words:
            if (found := word.search(text, at)) is None:
                return False
            at = found.end()
        return True

    def _denies_path(self, value: str) -> bool:
        """Match the path, the directories above it, and, for a glob without a slash, each name in it."""
        path, glob = _fold(_normalize(value)), self._folded_path
        if glob.matches(_fold(value)) or glob.matches(path, or_parent=True):
            return True
        if self._path_end is None:
            return any(map(glob.matches, path.split("/")))
        # the end of the path may be inside the root directory
        return (path.startswith("/") or ".." in value) and self._path_end.matches(path)


class CallPolicy(Hooks):
    """Decides by patterns, denials first. It applies to the tools of sub-agents too.

    `can_ask`: whether an approver asks a person. If not, calls are denied that may match a denied command.
    """

    def __init__(self, allow: Iterable[str] = (), deny: Iterable[str] = (), *, can_ask: bool = False) -> None:
        self.allow = tuple(map(CallPattern, allow))
        self.deny = tuple(map(CallPattern, deny))
        self.can_ask = can_ask

    def permit(self, call: CallInfo) -> bool | str | None:
        name, arguments = call.call.name, call_arguments(call.call)
        matches = {pattern: pattern.denies(name, arguments) for pattern in self.deny}
        for pattern, match in matches.items():
            if match == "yes" or (match == "unclear" and not (self.can_ask and call.needs_approval)):
                return f"denied by the pattern {pattern}"
        if "unclear" in matches.values():
            return None
        return True if any(pattern.allows(name, arguments) for pattern in self.allow) else None


def is_plain(command: str, *, windows: bool = _WINDOWS) -> bool:
    """Return whether a shell would split a command into words, run it, and do nothing else."""
    return (_PLAIN_WINDOWS if windows else _PLAIN).fullmatch(command) is not None


def suggest_pattern(call: ToolCallView, *, plain: bool = False) -> str:
    """Return a pattern that allows calls like this one; empty without one.

    For a plain command it is the program with any arguments, for another command exactly that command (not with `plain`),
    for other tools all calls.
    """
    found = [argument for argument in _main_arguments(call.name, call_arguments(call)) if argument.kind == "command"]
    if not found:
        return call.name
    if len(found) > 1:
        return ""
    command = found[0].value.strip(" \t\n")
    program, space, _ = command.partition(" ")
    is_simple = is_plain(command) and re.fullmatch(r"[\w.+-]+", program)
    if space and is_simple and program not in _RUNS_COMMANDS:
        return f"{call.name}({program} *)"
    if (plain and not is_simple) or not command or re.search(r"[*?\[\n]", command) or len(command) > _LONGEST_PATTERN:
        return ""
    return f"{call.name}({command})"


def call_arguments(call: ToolCallView) -> Mapping[str, Any]:
    """Return the arguments of a call; none if they are invalid, since such a call is not run."""
    if call.kind == "custom":  # free text: a command is the most dangerous reading
        return {"command": call.args}
    try:
        found = call.parse()
    except jsonio.JsonError:
        return {}
    return found if isinstance(found, dict) else {}


def _main_arguments(name: str, given: Mapping[str, Any]) -> list[_Argument]:
    """Return the main argument of a built-in tool, else every text in the arguments."""
    main = _MAIN.get(name, "")
    held = given.get(main)
    if name in _WHOLE_ROOT and held is None:
        held = "."
    if isinstance(held, str):
        return [_Argument(_KINDS[main], held)]
    return [_Argument(_kind(key), text) for key, value in given.items() for text in _texts(value)]


def _kind(key: str) -> Kind:
    return _KINDS.get(key.lower().rpartition("_")[2].removesuffix("s"), "text")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str | os.PathLike):
        yield os.fsdecode(value)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from (str(key), *_texts(inner))
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            yield from _texts(inner)


def _normalize(path: str) -> str:
    """Return a path without `./`, double slashes and names that `..` cancels."""
    return re.sub("^/+", "/", posixpath.normpath(_with_slashes(path) or "."))


def _with_slashes(path: str) -> str:
    return path.replace("\\", "/") if _WINDOWS else path


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold() if _FOLDS else text
