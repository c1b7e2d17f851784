"""Where the command writes: the answer on stdout, everything else on stderr; live on a terminal, plain anywhere else.

On a terminal the answer is set as Markdown while it comes, block by block, and what is invisible in it is spelt out; a
terminal that cannot rewrite its lines gets it as it comes. Anywhere else stdout gets the answer's own characters, as UTF-8,
once it is whole: what a program reads there is the answer and nothing but the answer.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TextIO

from tenuto import settings
from tenuto.cli.cells import clipped, size
from tenuto.cli.escaping import json_shown, one_line, shown
from tenuto.cli.pipe import Unread

if TYPE_CHECKING:
    from tenuto.cli.exits import Told
    from tenuto.cli.live import Coming

__all__ = ["Looks", "Screen", "Style", "complain", "looks", "painted", "write_document", "write_text"]

Style = Literal["", "dim", "bold", "red", "yellow"]
_Where = Literal["out", "err"]
_CODES = {"dim": "2", "bold": "1", "red": "31", "yellow": "33"}
_LINE = 600
"""A provider may answer with a whole page."""
_TURNS = "|/-\\"
_PAUSE = 0.1
"""What comes is drawn ten times a second at most."""
_REFLOWING = (
    "TERM_PROGRAM",
    "VTE_VERSION",
    "TMUX",
    "WT_SESSION",
    "KITTY_WINDOW_ID",
    "KONSOLE_VERSION",
    "ALACRITTY_WINDOW_ID",
)
"""Set by terminals that break their lines anew in a narrower window. Those that are not known may do so or not."""


class Looks(NamedTuple):
    """How things are shown."""

    out_live: bool
    """Stdout is a terminal."""
    err_live: bool
    """Stderr is a terminal that can rewrite a line."""
    out_color: bool
    err_color: bool
    quiet: bool = False
    out_drawn: bool = False
    """Stdout is a terminal that can rewrite its lines: Markdown is set there."""


def looks(color: str = "auto", *, quiet: bool = False) -> Looks:
    """Find out what is a terminal; `color` is `auto`, `always` or `never`, and `auto` heeds `NO_COLOR`."""
    out, err = _is_terminal(sys.stdout), _is_terminal(sys.stderr)
    dumb = settings.getenv("TERM") == "dumb" or (
        sys.platform == "win32" and not settings.first_set(("WT_SESSION", "TERM"))
    )
    plain = color == "never" or (color == "auto" and (dumb or bool(settings.getenv("NO_COLOR"))))
    return Looks(
        out,
        err and not dumb and (not out or _is_same()),
        not plain and (out or color == "always"),
        not plain and (err or color == "always"),
        quiet,
        out and not dumb and "utf" in (sys.stdout.encoding or "").lower(),
    )


def _is_same() -> bool:
    """Whether stdout and stderr are the same terminal: of two, one is drawn on."""
    try:
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError):
        return True


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
    if error is not None and settings.getenv("TENUTO_DEBUG"):
        import traceback

        _to_err("".join(traceback.format_exception(error)))
    _to_err(f"error: {one_line(told.what, _LINE)}\n" + (f"  {one_line(told.next, _LINE)}\n" if told.next else ""))


def _to_err(text: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # nobody hears it
            _put(sys.stderr, shown(text))


class Screen:
    """What is seen of one run. Whoever writes here gives text as it came: it is spelt out here."""

    def __init__(self, how: Looks, clock: Callable[[], float] = time.monotonic) -> None:
        self.how = how if how.out_live else how._replace(out_drawn=False)
        self._out = sys.stdout or io.StringIO()  # closed by who called: the answer goes nowhere
        self._clock = clock
        self._open: _Where | Literal[""] = ""
        """On which of the two a line was begun and not ended."""
        self._coming: Coming | None = None
        """What is drawn while it comes."""
        self._stood = False
        """Whether something of the reply stands on the screen, and cannot be taken back."""
        self._status = self._tally = ""
        self._since = self._drawn_at = 0.0
        self._turn = 0
        self._held: list[Callable[[], None]] | None = None
        """What waits while somebody is asked."""
        from tenuto.cli.live import Area  # who only prints a list loads none of it

        reflows = bool(settings.first_set(_REFLOWING)) and not settings.getenv("STY")
        self._area = Area(self._to_area, self._window, reflows=reflows)

    # --- what the model says ---

    def answer(self, text: str) -> None:
        """A piece of what the model says. Off a terminal nothing is written before it is whole: see `finish`."""
        if not (self.how.out_live and text) or self._waits(partial(self.answer, text)):
            return
        if self.how.out_drawn:
            self._came("out", text)
        else:
            self._ready("out")
            self._write(shown(text))
            self._open, self._stood = "" if text.endswith("\n") else "out", True

    def aside(self, text: str, style: Style = "dim") -> None:
        """A piece of what is not the answer, a thought."""
        if self.how.quiet or not text or self._waits(partial(self.aside, text, style)):
            return
        if self.how.err_live:
            self._came("err", text, style)
        else:
            self._ready("err")
            self._err(painted(shown(text), style, color=self.how.err_color))
            self._open, self._stood = "" if text.endswith("\n") else "err", True

    def finish(self, text: str, *, streamed: bool = True) -> None:
        """The whole answer, which ends with a line's end. On a terminal it stands there already if it was streamed."""
        if not (self.how.out_live and streamed) and text:
            self.clear()
            if self.how.out_drawn:
                self.answer(text)
            else:
                write_text(text if text.endswith("\n") else f"{text}\n", to=self._out)
        if self.how.out_live:
            self.end_line()

    def document(self, document: bytes) -> None:
        """A JSON document in the place of the answer."""
        self.clear()
        write_document(document, to=self._out)

    def begin_reply(self) -> None:
        """A reply begins: what stands on the screen is not of it."""
        self.end_line()
        self._stood = False

    def take_back(self) -> bool:
        """The reply broke off: take away what can be taken; return whether something of it is left."""
        self._coming = None
        self.end_line()
        stood, self._stood = self._stood, False
        return stood

    def _came(self, where: _Where, text: str, style: Style = "") -> None:
        coming = self._coming
        if coming is None or coming.where != where:
            self.end_line()
            coming = self._coming = self._new(where, style)
        good = coming.feed(text)
        if good:
            self._for_good(coming, good)
        if good or self._clock() - self._drawn_at >= _PAUSE:
            self._draw()

    def _new(self, where: _Where, style: Style) -> Coming:
        from tenuto.cli.live import Answer, Thought

        if where == "out":
            return Answer(self._columns, color=self.how.out_color)
        return Thought(self._columns, partial(painted, style=style, color=self.how.err_color))

    def _for_good(self, coming: Coming, text: str) -> None:
        self._stood = True
        if coming.where == "out":
            self._write(self._area.taken() + text)
        else:
            self._area.erase()
            self._err(text)

    # --- everything else ---

    def note(self, line: str, style: Style = "") -> None:
        """A line of what is not the answer."""
        if not self.how.quiet:
            self.say(line, style)

    def say(self, line: str, style: Style = "") -> None:
        """A line that is said however quiet it is to be. While somebody is asked, it waits.

        It does not break what is coming: that goes on below it.
        """
        if self._waits(partial(self.say, line, style)):
            return
        if self._coming is None:
            self.end_line()
        self.clear()
        self._err(painted(shown(line), style, color=self.how.err_color) + "\n")
        if self._coming is not None:
            self._draw()

    def end_line(self) -> None:
        """End what is coming, and the line that was begun."""
        if self._waits(self.end_line):
            return
        self.clear()
        coming, self._coming = self._coming, None
        if coming is not None and (good := coming.end()):
            self._for_good(coming, good)
        if self._open == "out":
            self._write("\n")
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
            for said in held:
                said()

    def _waits(self, said: Callable[[], None]) -> bool:
        """While somebody is asked, what is said is kept for later."""
        if self._held is None:
            return False
        self._held.append(said)
        return True

    def _ready(self, where: _Where) -> None:
        """Two that share a terminal do not share a line."""
        self.clear()
        if self._coming is not None or (self._open and self._open != where):
            self.end_line()

    def _write(self, text: str) -> None:
        """Write to the terminal that stdout is. If that is gone, it is a signal that says so; what comes is kept all the same."""
        try:
            write_text(text, escape=False, to=self._out)
        except OSError as exc:
            if exc.errno != errno.EIO:
                raise
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._out.fileno())

    def _err(self, text: str) -> None:
        if sys.stderr is not None:
            with suppress(OSError, ValueError):  # nobody hears it: that is no reason not to work
                _put(sys.stderr, text)

    # --- what is drawn ---

    def status(self, text: str) -> None:
        """Say what goes on; empty: nothing does. It is seen on a terminal only."""
        if text != self._status:
            self._status, self._since = text, self._clock()
        if not text:
            self.clear()

    def tally(self, text: str) -> None:
        """Say what it has come to so far; that stands behind what goes on."""
        self._tally = text

    def tick(self) -> None:
        """Draw what goes on and what comes, where nothing else stands on the line."""
        self._turn += 1
        self._draw()

    def clear(self) -> None:
        """Take what was drawn away."""
        self._area.erase()

    def _draw(self) -> None:
        if self._open or not (self.how.out_drawn or self.how.err_live):
            return
        self._drawn_at = self._clock()
        window = self._window()
        rows = self._coming.rows(window.columns, max(window.lines - 3, 1)) if self._coming is not None else []
        if self._status and self.how.err_live and not self.how.quiet:
            rows.append(self._status_row(window.columns))
        self._area.draw(rows)

    def _status_row(self, columns: int) -> str:
        spent = int(self._clock() - self._since)
        parts = (f"{_TURNS[self._turn % len(_TURNS)]} {self._status}", f"{spent} s" if spent else "", self._tally)
        row = clipped(shown("  ".join(filter(None, parts))), columns - 1)
        return painted(row, "dim", color=self.how.err_color)

    def _window(self) -> os.terminal_size:
        return size(self._out if self.how.out_drawn else sys.stderr)

    def _columns(self) -> int:
        return self._window().columns

    def _to_area(self, text: str) -> None:
        stream = self._out if self.how.out_drawn else sys.stderr
        if stream is not None:
            with suppress(OSError, ValueError):  # it was to be taken away again
                _put(stream, text)
