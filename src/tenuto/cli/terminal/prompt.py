"""Read chat input: with line editing and history on a terminal, plain lines from a pipe or a file."""

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

Complete = Callable[[str, int], list[str]]
"""Given the line up to the cursor, and where the word at its end begins: what may stand in the place of that word."""

PROMPT = "you> "
CONTINUATION_PROMPT = "...> "
_FENCE = '"""'
_SETTLE = 0.02
"""How long, in seconds, the next piece of a paste may be on its way."""
_MAX_MESSAGES = 1_000
_MAX_LENGTH = 10_000
"""What is longer, in characters, was pasted, and is not remembered."""


class PromptInterrupted(Exception):
    """Somebody typed Ctrl-C at the prompt. `empty`: nothing stood there, as far as that can be told."""

    def __init__(self, *, empty: bool) -> None:
        super().__init__()
        self.empty = empty


class NotUtf8(Exception):
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


class PromptInput(NamedTuple):
    """A message as it was typed; `literal`: in a block, so that it is no command."""

    text: str
    literal: bool = False


class MessageBuilder:
    """Puts a message together. A line that ends in a backslash goes on, and so does a block between two lines of three
    double quotes, in which nothing has a meaning.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._block = False

    def take(self, typed: str, *, more: bool = False) -> PromptInput | None:
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

    def _in_block(self, typed: str) -> PromptInput | None:
        before, newline, last = typed.rpartition("\n")
        if last.strip() != _FENCE:
            self._parts.append(typed)
            return None
        self._parts += [before] if newline else []
        return self.end()

    def end(self) -> PromptInput | None:
        """Nothing more comes: return what there is; None if that is nothing."""
        text, begun = "\n".join(self._parts), bool(self._parts) or self._block
        whole = PromptInput(text, literal=self._block) if begun else None
        self._parts, self._block = [], False
        return whole


def read_message(reader: Reader, offered: str = "") -> PromptInput:
    """Read a message; `offered` stands there to be changed, where that can be done. Raise what `Reader.line` raises."""
    lines, ahead, prompt = MessageBuilder(), reader.waiting(0), PROMPT
    while True:
        try:
            typed = reader.line(prompt, offered)
        except EOFError:
            whole = lines.end()
            if whole is None:
                raise
            return whole
        offered, prompt = "", CONTINUATION_PROMPT
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
        self._kept = [_unescape_line(line) for line in text.split("\n") if line]
        return self._kept[-_MAX_MESSAGES:]

    def add(self, said: str) -> bool:
        """Remember a message; return whether it is to be remembered. Raise `OSError` if it cannot be written."""
        if said.startswith(" ") or not said.strip() or len(said) > _MAX_LENGTH or said in self._kept[-1:]:
            return False
        self._kept.append(said)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if len(self._kept) > _MAX_MESSAGES:
            self._kept = self._kept[-_MAX_MESSAGES:]
            beside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            _write_lines(beside, self._kept, os.O_TRUNC)
            beside.replace(self._path)
        else:
            _write_lines(self._path, [said], os.O_APPEND)
        return True


def _write_lines(path: Path, lines: list[str], how: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600), "wb") as opened:
        if sys.platform != "win32":
            os.fchmod(opened.fileno(), 0o600)  # it may have been there
        opened.write("".join(f"{_escape_line(line)}\n" for line in lines).encode("utf-8", "replace"))


def _escape_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _unescape_line(line: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], line)


# --- where lines come from --------------------------------------------------------------------------------------------


def open_reader(complete: Complete, history: History | None) -> Reader:
    """Return what reads stdin: with editing if that and stdout are one terminal, and there is a `readline`."""
    if sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty():
        return _PipeReader()
    if sys.stdout is not None and not sys.stdout.closed and sys.stdout.isatty() and _is_editable():
        return _EditedReader(complete, history)
    return _TerminalReader(history)


def _is_editable() -> bool:
    try:
        importlib.import_module("readline")
    except ImportError:
        return False
    return True


class _EditedReader:
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
            _add_to_history(said)

    def line(self, prompt: str, offered: str = "") -> str:
        import readline

        if offered:
            readline.set_startup_hook(lambda: readline.insert_text(offered))
        try:
            return _decode_input(input(prompt))
        except KeyboardInterrupt:
            _end_line()
            raise PromptInterrupted(empty=not readline.get_line_buffer()) from None
        except EOFError:
            if not self._ends_line:
                _end_line()
            raise
        except UnicodeDecodeError:
            raise NotUtf8 from None
        except OSError:  # the terminal is gone
            raise EOFError from None
        finally:
            readline.set_startup_hook(None)

    def waiting(self, seconds: float) -> bool:
        return _has_input(seconds)

    def keep(self, said: str) -> None:
        if self._history is None or self._history.add(said):
            _add_to_history(said)

    def _completed(self, text: str, state: int) -> str | None:
        """As readline wants it: it asks for one after the other."""
        import readline

        if state == 0:
            line = readline.get_line_buffer()[: readline.get_endidx()]
            self._found = self._complete(line, readline.get_begidx()) if line.startswith("/") else [f"{text}\t"]
        return self._found[state] if state < len(self._found) else None


def _add_to_history(said: str) -> None:
    import readline

    with suppress(ValueError):  # with a zero in it, which no line of C's can have
        readline.add_history(said)


class _TerminalReader:
    """A terminal that has its own editing, such as it is; the prompt is on stderr, since stdout may be a file."""

    live = True
    offers = False

    def __init__(self, history: History | None) -> None:
        self._history = history

    def line(self, prompt: str, offered: str = "") -> str:
        del offered
        _write_stderr(prompt)
        try:
            return _read_line(sys.stdin.encoding or "utf-8")
        except KeyboardInterrupt:
            _end_line()
            raise PromptInterrupted(empty=True) from None
        except EOFError:
            _end_line()
            raise

    def waiting(self, seconds: float) -> bool:
        return _has_input(seconds)

    def keep(self, said: str) -> None:
        if self._history is not None:
            self._history.add(said)


class _PipeReader:
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
        return _read_line("utf-8-sig" if first else "utf-8")

    def waiting(self, seconds: float) -> bool:
        del seconds
        return False

    def keep(self, said: str) -> None:
        """Nobody types here."""


def _write_stderr(text: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # nobody sees it
            sys.stderr.write(text)
            sys.stderr.flush()


def _end_line() -> None:
    """Leave the line that the prompt stands on."""
    _write_stderr("\n")


def _read_line(encoding: str) -> str:
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
        raise NotUtf8 from None


def _decode_input(typed: str) -> str:
    """Return what was typed; bytes that are no characters come in disguise."""
    try:
        return typed.encode("utf-8", "surrogateescape").decode()
    except UnicodeError:
        raise NotUtf8 from None


def _has_input(seconds: float) -> bool:
    """Tell whether something was typed that nobody has read; on Windows a console cannot be asked."""
    if sys.platform == "win32":
        return False
    try:
        return bool(select.select([sys.stdin.fileno()], [], [], seconds)[0])
    except (OSError, ValueError):
        return False
