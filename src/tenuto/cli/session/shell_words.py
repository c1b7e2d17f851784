"""Split shell commands: is a command plain, and which commands does it contain."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator

WINDOWS = sys.platform == "win32"

_PLAIN = re.compile(r"""(?:[\w./,:=+@%^ \t-]|(?<=[\w^~])~|'[^'\0]*'|"[^"$`\\!\0]*")*""")
_PLAIN_WINDOWS = re.compile(r"""(?:[\w./\\,:=+@~ \t-]|"[^"%!^&|<>\r\n\0]*")*""")  # single quotes quote nothing there

_ASSIGNED = re.compile(r"\w+\+?=.*", re.DOTALL)
_RESERVED = frozenset(
    [
        "!",
        "{",
        "}",
        "if",
        "then",
        "elif",
        "else",
        "fi",
        "while",
        "until",
        "do",
        "done",
        "for",
        "case",
        "esac",
        "in",
        "time",
        "coproc",
    ]
)
_CARRIERS = frozenset(
    [
        "sudo",
        "doas",
        "su",
        "env",
        "command",
        "exec",
        "builtin",
        "eval",
        "nohup",
        "nice",
        "ionice",
        "time",
        "timeout",
        "setsid",
        "stdbuf",
        "unbuffer",
        "xargs",
        "parallel",
        "find",
        "watch",
        "busybox",
        "toybox",
        "sh",
        "bash",
        "dash",
        "zsh",
        "ksh",
        "ash",
        "fish",
        "ssh",
        "chroot",
        "flock",
        "strace",
        "script",
        "cmd",
        "powershell",
        "pwsh",
        "start",
        "call",
        "forfiles",
    ]
)
"""What runs another command that is among its arguments."""
_ENDINGS = (".exe", ".com", ".bat", ".cmd")
_TESTS = ("[", "[[", "{", "}")
_DEPTH = 5
_SUFFIXES = 1000
_UNKNOWN = "\0"
"""Stands in a word before what a shell would put something else for; no command has it."""


def is_plain(command: str, *, windows: bool = WINDOWS) -> bool:
    """Tell whether a shell would split a command into words, run it, and do nothing else."""
    return (_PLAIN_WINDOWS if windows else _PLAIN).fullmatch(command) is not None


def simple_commands(command: str, *, windows: bool = WINDOWS) -> Iterator[str | None]:
    """Yield each command that may be run in a command, its words with a space between them and nothing quoted.

    What stands before a command (`X=1`, `sudo -u root`) is left away as well as left there, and so is the folder of its
    program. None stands for one whose program cannot be told before it is run.
    """
    yield from _within(command, windows, _DEPTH)


def _within(command: str, windows: bool, depth: int) -> Iterator[str | None]:
    if not depth:
        yield None
        return
    for words in _Scanner(command, windows=windows).commands():
        rest = _begun(words)
        if not rest:
            continue
        name = _program(rest[0], windows)
        yield None if _UNKNOWN in name and rest[0].replace(_UNKNOWN, "") not in _TESTS else _joined(rest)
        yield _joined([name, *rest[1:]])
        if name.lower() in _CARRIERS:
            yield from _carried(rest[1:], windows, depth)


def _carried(words: list[str], windows: bool, depth: int) -> Iterator[str | None]:
    """Every word may be where the other command begins, or be the whole of it."""
    for at, word in enumerate(words[:_SUFFIXES]):
        yield _joined([_program(word, windows), *words[at + 1 :]])
        if re.search(r"\s|[;&|<>(`]", word):
            yield from _within(word.replace(_UNKNOWN, ""), windows, depth - 1)


def _begun(words: list[str]) -> list[str]:
    """Leave away what stands before a command: words of the shell's own, and variables that are set for it."""
    for at, word in enumerate(words):
        if word.replace(_UNKNOWN, "") not in _RESERVED and not _ASSIGNED.fullmatch(word):
            return words[at:]
    return []


def _program(word: str, windows: bool) -> str:
    """Return a program's name without its folder."""
    name = (word.replace("\\", "/") if windows else word).rpartition("/")[2]
    if windows and name.lower().endswith(_ENDINGS):
        name = name.rpartition(".")[0]
    return name or word


def _joined(words: list[str]) -> str:
    return " ".join(words).replace(_UNKNOWN, "")


class _Frame:
    """A command that is being read; those in `$(...)`, in parentheses and in backticks have one of their own."""

    def __init__(self, closer: str = "") -> None:
        self.closer = closer
        self.quote = ""
        self.words: list[str] = []
        self.word: str | None = None
        self.redirected = False
        """The next word is a file's name."""


class _Scanner:
    """Takes a command apart. What is left open at its end is closed there."""

    def __init__(self, text: str, *, windows: bool) -> None:
        self._text = text.replace(_UNKNOWN, " ")
        self._at = 0
        self._frames = [_Frame()]
        self._found: list[list[str]] = []
        escape = "^" if windows else "\\"
        self._anywhere: dict[str, Callable[[str], None]] = {escape: self._escape, '"': self._double}
        self._unquoted: dict[str, Callable[[str], None]] = {
            **dict.fromkeys(" \t\r", self._end_word),
            **dict.fromkeys("\n;&|", self._end_command),
            **dict.fromkeys("<>", self._redirect),
            "(": self._open,
            ")": self._close,
        }
        if windows:
            self._anywhere["%"] = self._expand
        else:
            self._anywhere |= {"$": self._dollar, "`": self._backtick}
            self._unquoted |= {"'": self._single, **dict.fromkeys("*?[{", self._expand)}

    def commands(self) -> list[list[str]]:
        """Return the words of each command, unquoted."""
        while self._at < len(self._text):
            sign = self._text[self._at]
            self._at += 1
            self._step(sign)
        while self._frames:
            self._end_command("")
            self._frames.pop()
        return self._found

    @property
    def _frame(self) -> _Frame:
        return self._frames[-1]

    def _step(self, sign: str) -> None:
        quote = self._frame.quote
        if quote == "'":
            if sign == quote:
                self._frame.quote = ""
            else:
                self._add(sign)
            return
        handler = self._anywhere.get(sign) or (None if quote else self._unquoted.get(sign))
        (handler or self._add)(sign)

    def _add(self, sign: str) -> None:
        self._frame.word = (self._frame.word or "") + sign

    def _expand(self, sign: str) -> None:
        self._add(_UNKNOWN + sign)

    def _escape(self, sign: str) -> None:
        del sign
        following = self._text[self._at : self._at + 1]
        self._at += 1
        if following != "\n":
            self._add(following)

    def _double(self, sign: str) -> None:
        self._frame.quote = "" if self._frame.quote else sign
        self._add("")

    def _single(self, sign: str) -> None:
        self._frame.quote = sign
        self._add("")

    def _dollar(self, sign: str) -> None:
        following = self._text[self._at : self._at + 1]
        if following == "'" and not self._frame.quote:  # $'...' spells signs out: what it comes to is not looked at
            self._add(_UNKNOWN)
        elif following == "(":
            self._at += 1
            self._add(_UNKNOWN)
            self._frames.append(_Frame(")"))
        else:
            self._expand(sign)

    def _backtick(self, sign: str) -> None:
        if any(frame.closer == sign for frame in self._frames):
            while self._frame.closer != sign:
                self._leave()
            self._leave()
        else:
            self._add(_UNKNOWN)
            self._frames.append(_Frame(sign))

    def _open(self, sign: str) -> None:
        del sign
        self._frame.redirected = False
        self._frames.append(_Frame(")"))

    def _close(self, sign: str) -> None:
        if self._frame.closer == sign:
            self._leave()
        else:
            self._end_command(sign)

    def _leave(self) -> None:
        self._end_command("")
        self._frames.pop()

    def _redirect(self, sign: str) -> None:
        del sign
        if (self._frame.word or "").isdigit():
            self._frame.word = None
        self._end_word("")
        self._frame.redirected = True

    def _end_word(self, sign: str) -> None:
        del sign
        frame = self._frame
        if frame.word is not None:
            if not frame.redirected:
                frame.words.append(frame.word)
            frame.word, frame.redirected = None, False

    def _end_command(self, sign: str) -> None:
        if sign in ("&", "|") and self._text[max(self._at - 2, 0) : self._at - 1] in ("<", ">"):
            return  # a part of >& and >|
        self._end_word("")
        if self._frame.words:
            self._found.append(self._frame.words)
        self._frame.words, self._frame.redirected = [], False
