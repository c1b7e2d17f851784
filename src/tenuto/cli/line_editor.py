"""What somebody types: lines that can be edited and are remembered on a terminal, plain ones from a pipe or a file.

The editing is the standard library's `readline`, GNU's or libedit, where there is one. A text of several lines that is pasted
is one message: GNU's readline is told by the terminal where it begins and ends; anywhere else, what is already waiting
when a line has ended belongs to it, unless it was waiting before the line began: that was typed ahead.
"""

from __future__ import annotations

import importlib
import os
import re
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from tenuto import settings

__all__ = ["Cleared", "Complete", "History", "Lines", "Reader", "Typed", "Unreadable", "message", "reader_of"]

Complete = Callable[[str, int], list[str]]
"""Given the line up to the cursor, and where the word at its end begins: what may stand in the place of that word."""

PROMPT = "you> "
GOES_ON = "...> "
_FENCE = '"""'
_SETTLE = 0.02
"""How long, in seconds, the next piece of a paste may be on its way."""
_MOST = 1_000
_LONGEST = 10_000
"""What is longer, in characters, was pasted, and is not remembered."""


class Cleared(Exception):
    """Somebody typed Ctrl-C at the prompt. `empty`: nothing stood there, as far as that can be told."""

    def __init__(self, *, empty: bool) -> None:
        super().__init__()
        self.empty = empty


class Unreadable(Exception):
    """What was typed, or piped in, is no text."""


class Reader(Protocol):
    """Where lines come from. `live`: somebody sits there; `offers`: a line can be given to be changed."""

    live: bool
    offers: bool

    def line(self, prompt: str, offered: str = "") -> str:
        """Return the next line, without its end. Raise `EOFError` if there is none, `Cleared` or `Unreadable`.

        Then the prompt stands on a line of its own, unless a signal took its place.
        """

    def waiting(self, seconds: float) -> bool:
        """Tell whether more is there to be read, or comes so soon; False where that does not mean anything."""

    def keep(self, said: str) -> None:
        """Remember what was typed. Raise `OSError` if that cannot be written."""


# --- messages of lines ------------------------------------------------------------------------------------------------


class Typed(NamedTuple):
    """A message as it was typed; `literal`: in a block, so that it is no command."""

    text: str
    literal: bool = False


class Lines:
    """Puts a message together. A line that ends in a backslash goes on, and so does a block between two lines of three
    double quotes, in which nothing has a meaning.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._block = False

    def take(self, typed: str, *, more: bool = False) -> Typed | None:
        """Take the next line; return the message if it is whole. `more`: the line was pasted, and others follow."""
        if self._block:
            return self._in_block(typed)
        if not self._parts and (typed.strip() == _FENCE or typed.startswith(f"{_FENCE}\n")):
            self._block = True
            _, _, rest = typed.partition("\n")
            return self._in_block(rest) if rest else None
        if more and (self._parts or not typed.startswith("/")):
            self._parts.append(typed)
            return None
        goes_on = (len(typed) - len(typed.rstrip("\\"))) % 2 == 1  # two are one that is meant
        self._parts.append(typed[:-1] if goes_on else typed)
        return None if goes_on else self.end()

    def _in_block(self, typed: str) -> Typed | None:
        before, newline, last = typed.rpartition("\n")
        if last.strip() != _FENCE:
            self._parts.append(typed)
            return None
        self._parts += [before] if newline else []
        return self.end()

    def end(self) -> Typed | None:
        """Nothing more comes: return what there is; None if that is nothing."""
        text, begun = "\n".join(self._parts), bool(self._parts) or self._block
        whole = Typed(text, literal=self._block) if begun else None
        self._parts, self._block = [], False
        return whole


def message(reader: Reader, offered: str = "") -> Typed:
    """Read a message; `offered` stands there to be changed, where that can be done. Raise what `Reader.line` raises."""
    lines, ahead, prompt = Lines(), reader.waiting(0), PROMPT
    while True:
        try:
            typed = reader.line(prompt, offered)
        except EOFError:
            whole = lines.end()
            if whole is None:
                raise
            return whole
        offered, prompt = "", GOES_ON
        whole = lines.take(typed, more=not ahead and reader.waiting(_SETTLE))
        if whole is not None:
            return whole


# --- what is remembered -----------------------------------------------------------------------------------------------


class History:
    """The last 1,000 messages that were typed, in a file that nobody else can read: one in a line, its ends spelt out.

    Not remembered is what begins with a space, what is very long, and what is the same as the one before.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: list[str] = []

    def read(self) -> list[str]:
        """Return what is remembered, oldest first; nothing if the file cannot be read."""
        try:
            text = self._path.read_bytes().decode("utf-8", "replace")
        except OSError:
            text = ""
        self._kept = [_unescaped(line) for line in text.split("\n") if line]
        return self._kept[-_MOST:]

    def add(self, said: str) -> bool:
        """Remember a message; return whether it is to be remembered. Raise `OSError` if it cannot be written."""
        if said.startswith(" ") or not said.strip() or len(said) > _LONGEST or said in self._kept[-1:]:
            return False
        self._kept.append(said)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if len(self._kept) > _MOST:
            self._kept = self._kept[-_MOST:]
            beside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            _write(beside, self._kept, os.O_TRUNC)
            beside.replace(self._path)
        else:
            _write(self._path, [said], os.O_APPEND)
        return True


def _write(path: Path, lines: list[str], how: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600), "wb") as opened:
        if sys.platform != "win32":
            os.fchmod(opened.fileno(), 0o600)  # it may have been there
        opened.write("".join(f"{_escaped(line)}\n" for line in lines).encode("utf-8", "replace"))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _unescaped(line: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], line)


# --- where lines come from --------------------------------------------------------------------------------------------


def reader_of(complete: Complete, history: History | None) -> Reader:
    """Return what reads stdin: with editing if that and stdout are one terminal, and there is a `readline`."""
    if sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty():
        return _Piped()
    if sys.stdout is not None and not sys.stdout.closed and sys.stdout.isatty() and _is_editable():
        return _Edited(complete, history)
    return _Plain(history)


def _is_editable() -> bool:
    try:
        importlib.import_module("readline")
    except ImportError:
        return False
    return True


class _Edited:
    """A terminal, by `readline`."""

    live = True
    offers = True

    def __init__(self, complete: Complete, history: History | None) -> None:
        import readline

        self._complete = complete
        self._history = history
        self._found: list[str] = []
        readline.set_auto_history(False)
        readline.set_completer_delims(" ")
        readline.set_completer(self._completed)
        self._ends_line = False
        if "libedit" in (readline.__doc__ or ""):
            readline.parse_and_bind("bind ^I rl_complete")
        else:
            readline.parse_and_bind("tab: complete")
            if (
                settings.getenv("TERM") != "dumb"
            ):  # Python switches it off, since its own prompt takes single lines only
                readline.parse_and_bind("set enable-bracketed-paste on")
                self._ends_line = getattr(readline, "_READLINE_RUNTIME_VERSION", 0) >= 0x801  # with it on, at Ctrl-D
        for said in history.read() if history is not None else ():
            _remembered(said)

    def line(self, prompt: str, offered: str = "") -> str:
        import readline

        if offered:
            readline.set_startup_hook(lambda: readline.insert_text(offered))
        try:
            return _text(input(prompt))
        except KeyboardInterrupt:
            _end_line()
            raise Cleared(empty=not readline.get_line_buffer()) from None
        except EOFError:
            if not self._ends_line:
                _end_line()
            raise
        except UnicodeDecodeError:
            raise Unreadable from None
        except OSError:  # the terminal is gone
            raise EOFError from None
        finally:
            readline.set_startup_hook(None)

    def waiting(self, seconds: float) -> bool:
        return _waiting(seconds)

    def keep(self, said: str) -> None:
        if self._history is None or self._history.add(said):
            _remembered(said)

    def _completed(self, text: str, state: int) -> str | None:
        """As readline wants it: it asks for one after the other."""
        import readline

        if state == 0:
            line = readline.get_line_buffer()[: readline.get_endidx()]
            self._found = self._complete(line, readline.get_begidx()) if line.startswith("/") else [f"{text}\t"]
        return self._found[state] if state < len(self._found) else None


def _remembered(said: str) -> None:
    import readline

    with suppress(ValueError):  # with a zero in it, which no line of C's can have
        readline.add_history(said)


class _Plain:
    """A terminal that has its own editing, such as it is; the prompt is on stderr, since stdout may be a file."""

    live = True
    offers = False

    def __init__(self, history: History | None) -> None:
        self._history = history

    def line(self, prompt: str, offered: str = "") -> str:
        del offered
        _show(prompt)
        try:
            return _read(sys.stdin.encoding or "utf-8")
        except KeyboardInterrupt:
            _end_line()
            raise Cleared(empty=True) from None
        except EOFError:
            _end_line()
            raise

    def waiting(self, seconds: float) -> bool:
        return _waiting(seconds)

    def keep(self, said: str) -> None:
        if self._history is not None:
            self._history.add(said)


class _Piped:
    """A pipe, a file, or nothing at all."""

    live = False
    offers = False

    def __init__(self) -> None:
        self._first = True

    def line(self, prompt: str, offered: str = "") -> str:
        del prompt, offered
        if sys.stdin is None or sys.stdin.closed:
            raise EOFError
        first, self._first = self._first, False
        return _read("utf-8-sig" if first else "utf-8")

    def waiting(self, seconds: float) -> bool:
        del seconds
        return False

    def keep(self, said: str) -> None:
        """Nobody types here."""


def _show(text: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # nobody sees it
            sys.stderr.write(text)
            sys.stderr.flush()


def _end_line() -> None:
    """Leave the line that the prompt stands on."""
    _show("\n")


def _read(encoding: str) -> str:
    """Read a line of stdin."""
    try:
        line = sys.stdin.buffer.readline()
    except OSError:  # the terminal is gone
        line = b""
    if not line:
        raise EOFError
    try:
        return line.decode(encoding).removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise Unreadable from None


def _text(typed: str) -> str:
    """Return what was typed; bytes that are no characters come in disguise."""
    try:
        return typed.encode("utf-8", "surrogateescape").decode()
    except UnicodeError:
        raise Unreadable from None


def _waiting(seconds: float) -> bool:
    """Tell whether something was typed that nobody has read; on Windows a console cannot be asked."""
    if sys.platform == "win32":
        return False
    try:
        return bool(select.select([sys.stdin.fileno()], [], [], seconds)[0])
    except (OSError, ValueError):
        return False
