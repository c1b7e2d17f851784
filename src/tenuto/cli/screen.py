"""Where the command writes: the answer on stdout, everything else on stderr; live on a terminal, plain anywhere else.

On a terminal the answer is written as it comes, and what is invisible in it is spelt out. Anywhere else stdout gets the
answer's own characters, as UTF-8, once it is whole: what a program reads there is the answer and nothing but the answer.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal, NamedTuple, TextIO

from tenuto import settings
from tenuto.cli.escaping import json_shown, one_line, shown
from tenuto.cli.exits import Told
from tenuto.cli.pipe import Unread

__all__ = ["Looks", "Screen", "Style", "complain", "looks", "painted", "write_document", "write_text"]

Style = Literal["", "dim", "bold", "red", "yellow"]
_CODES = {"dim": "2", "bold": "1", "red": "31", "yellow": "33"}
_LINE = 600
"""A provider may answer with a whole page."""
_TURNS = "|/-\\"


class Looks(NamedTuple):
    """How things are shown."""

    out_live: bool
    """Stdout is a terminal."""
    err_live: bool
    """Stderr is a terminal that can rewrite a line."""
    out_color: bool
    err_color: bool
    quiet: bool = False


def looks(color: str = "auto", *, quiet: bool = False) -> Looks:
    """Find out what is a terminal; `color` is `auto`, `always` or `never`, and `auto` heeds `NO_COLOR`."""
    out, err = _is_terminal(sys.stdout), _is_terminal(sys.stderr)
    dumb = settings.value("TERM") == "dumb" or (sys.platform == "win32" and not settings.found(("WT_SESSION", "TERM")))
    plain = color == "never" or (color == "auto" and (dumb or bool(settings.value("NO_COLOR"))))
    return Looks(
        out,
        err and not dumb,
        not plain and (out or color == "always"),
        not plain and (err or color == "always"),
        quiet,
    )


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def painted(text: str, style: Style, *, color: bool) -> str:
    """Return text in a style, where there is color; line by line, so that nothing is left on if it is cut."""
    if not (style and color and text):
        return text
    return "\n".join(f"\x1b[{_CODES[style]}m{line}\x1b[0m" if line else line for line in text.split("\n"))


def write_text(text: str, *, escape: bool | None = None, to: TextIO | None = None) -> None:
    """Write text to stdout: spelt out if it goes to a terminal, as it is and in UTF-8 if not. `escape` decides otherwise.

    `to` is what was stdout before somebody put something else in its place. Raise `Unread` if nobody reads.
    """
    stream = to or sys.stdout
    if stream is None:  # closed by who called
        return
    wanted = shown(text) if escape or (escape is None and _is_terminal(stream)) else text
    try:
        _put(stream, wanted)
    except BrokenPipeError:
        raise Unread from None


def write_document(document: bytes, *, to: TextIO | None = None) -> None:
    """Write a JSON document to stdout, in one line; `to` as for `write_text`."""
    text = document.decode("utf-8", "surrogatepass")
    write_text(f"{json_shown(text) if _is_terminal(to or sys.stdout) else text}\n", escape=False, to=to)


def _put(stream: TextIO, text: str) -> None:
    buffer = getattr(stream, "buffer", None)
    if buffer is None:
        stream.write(text)
    else:
        encoding = (stream.encoding or "utf-8") if _is_terminal(stream) else "utf-8"
        stream.flush()
        buffer.write(text.encode(encoding, "backslashreplace"))
    stream.flush()


def complain(told: Told, error: BaseException | None = None) -> None:
    """Say what went wrong, and what to do next; with `TENUTO_DEBUG`, also where."""
    if error is not None and settings.value("TENUTO_DEBUG"):
        _to_err("".join(traceback.format_exception(error)))
    _to_err(f"error: {one_line(told.what, _LINE)}\n" + (f"  {one_line(told.next, _LINE)}\n" if told.next else ""))


def _to_err(text: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # nobody hears it
            _put(sys.stderr, shown(text))


def _columns() -> int:
    """How wide the terminal is at the moment."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


class Screen:
    """What is seen of one run. Whoever writes here gives text as it came: it is spelt out here."""

    def __init__(self, how: Looks) -> None:
        self.how = how
        self._out = sys.stdout
        self._open: Literal["", "out", "err"] = ""
        """On which of the two a line was begun and not ended."""
        self._status = ""
        self._since = 0.0
        self._drawn = 0
        self._turn = 0
        self._held: list[tuple[str, Style]] | None = None

    # --- the answer ---

    def answer(self, text: str) -> bool:
        """A piece of what the model says; return whether it was written.

        Off a terminal nothing is written before it is whole: see `finish`.
        """
        if not (self.how.out_live and text):
            return False
        self._ready("out")
        write_text(text, to=self._out)
        self._open = "" if text.endswith("\n") else "out"
        return True

    def finish(self, text: str, *, streamed: bool = True) -> None:
        """The whole answer, which ends with a line's end. On a terminal it stands there already if it was streamed."""
        if self.how.out_live and streamed:
            self.end_line()
        elif text:
            self.clear()
            write_text(text if text.endswith("\n") else f"{text}\n", to=self._out)

    def document(self, document: bytes) -> None:
        """A JSON document in the place of the answer."""
        self.clear()
        write_document(document, to=self._out)

    # --- everything else ---

    def aside(self, text: str, style: Style = "dim") -> bool:
        """A piece of what is not the answer, a thought; return whether it was written."""
        if self.how.quiet or not text:
            return False
        self._ready("err")
        self._err(painted(shown(text), style, color=self.how.err_color))
        self._open = "" if text.endswith("\n") else "err"
        return True

    def note(self, line: str, style: Style = "") -> None:
        """A line of what is not the answer."""
        if not self.how.quiet:
            self.say(line, style)

    def say(self, line: str, style: Style = "") -> None:
        """A line that is said however quiet it is to be. While somebody is asked, it waits."""
        if self._held is not None:
            self._held.append((line, style))
            return
        self.end_line()
        self._err(painted(shown(line), style, color=self.how.err_color) + "\n")

    def end_line(self) -> None:
        """End the line that was begun."""
        self.clear()
        if self._open == "out":
            write_text("\n", to=self._out)
        elif self._open == "err":
            self._err("\n")
        self._open = ""

    def complain(self, told: Told, error: BaseException | None = None) -> None:
        """Say what went wrong."""
        self.end_line()
        complain(told, error)

    @contextmanager
    def asking(self, question: str) -> Iterator[None]:
        """Somebody is asked something: nothing else is written until he has answered."""
        self.end_line()
        self._err(question)
        self._open, self._held = "err", []
        try:
            yield
            self._open = ""  # the answer ended the line
        finally:
            held, self._held = self._held or [], None
            for line, style in held:
                self.say(line, style)

    def _ready(self, where: Literal["out", "err"]) -> None:
        """Two that share a terminal do not share a line."""
        self.clear()
        if self._open and self._open != where:
            self.end_line()

    def _err(self, text: str) -> None:
        if sys.stderr is not None:
            with suppress(OSError, ValueError):  # nobody hears it: that is no reason not to work
                _put(sys.stderr, text)

    # --- that something goes on ---

    def status(self, text: str) -> None:
        """Say what goes on; empty: nothing does. It is seen on a terminal only."""
        self.clear()
        self._status, self._since = text, time.monotonic()

    def tick(self) -> None:
        """Draw what goes on, where nothing else stands on the line."""
        if not self._status or self.how.quiet or not self.how.err_live or self._open or self._held is not None:
            return
        self._turn += 1
        spent = int(time.monotonic() - self._since)
        text = f"{_TURNS[self._turn % len(_TURNS)]} {self._status}{f' {spent} s' if spent else ''}"[: _columns() - 1]
        self._err(f"\r{text}{' ' * max(self._drawn - len(text), 0)}")
        self._drawn = len(text)

    def clear(self) -> None:
        """Take what was drawn away."""
        if self._drawn:
            self._err(f"\r{' ' * self._drawn}\r")
            self._drawn = 0
