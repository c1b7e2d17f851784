"""The display of a run: the answer on stdout, everything else on stderr.

A terminal that can rewrite lines gets rendered Markdown, block by block. Elsewhere stdout gets exactly the answer's text.
"""

from __future__ import annotations

import errno
import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from tenuto import settings
from tenuto.cli.terminal import output
from tenuto.cli.terminal.live_area import LiveArea, StreamingAnswer, StreamingText, StreamingThinking, Where
from tenuto.cli.terminal.output import Style, TerminalInfo, ansi_style, print_stderr, print_text, window_size
from tenuto.cli.terminal.text import escape_control, truncate, wrap

if TYPE_CHECKING:
    from tenuto.cli.errors import Explanation


_SPINNER = "|/-\\"
_REDRAW_INTERVAL = 0.1  # the minimum time between two redraws, in seconds
_CUTS_LINES = ("XTERM_VERSION", "STY")  # xterm and screen cut existing lines in a narrower window; others wrap them


class Display:
    """The output of one run. Callers pass raw text; it is escaped here."""

    def __init__(self, terminal: TerminalInfo, clock: Callable[[], float] = time.monotonic) -> None:
        self.terminal = terminal if terminal.is_out_terminal else terminal._replace(renders_markdown=False)
        self._out = sys.stdout or io.StringIO()  # a closed stdout: the answer goes nowhere
        self._live_stream = self._out if self.terminal.renders_markdown else sys.stderr
        self._clock = clock
        self._streaming: StreamingText | None = None
        self._has_output = False  # whether part of the reply was printed and cannot be erased
        self._ends_line = True  # whether the text that was written to a pipe ends with a newline
        self.usage = ""  # the text that follows the status
        self._status = ""
        self._since = self._drawn_at = 0.0
        self._spinner_step = 0
        self._deferred: list[Callable[[], None]] | None = None  # output that waits until a question is answered
        self._area = LiveArea(self._live_stream, reflows=not settings.first_set(_CUTS_LINES))

    def answer(self, text: str) -> None:
        """Print a piece of the answer. Without a terminal and `streams` nothing is printed before `finish`."""
        if self.terminal.is_out_terminal:
            self._stream("out", text)
        elif self.terminal.streams and text:
            print_text(text, to=self._out)
            self._has_output, self._ends_line = True, text.endswith("\n")

    def thinking(self, text: str) -> None:
        if not self.terminal.quiet:
            self._stream("err", text)

    def finish(self, text: str, *, streamed: bool = True) -> None:
        """Print the complete answer with a final newline, unless it was streamed to a terminal."""
        if self.terminal.is_out_terminal or (self.terminal.streams and streamed):
            self.answer("" if streamed else text)
            self.end_line()
        elif text:
            self.clear()
            print_text(text if text.endswith("\n") else f"{text}\n", to=self._out)

    def document(self, document: bytes) -> None:
        self.clear()
        output.print_json(document, to=self._out)

    def begin_reply(self) -> None:
        """Start a reply: earlier output does not belong to it."""
        self.end_line()
        self._has_output = False

    def discard_reply(self) -> bool:
        """Erase an interrupted reply as far as possible; return whether a part of it is still visible."""
        if self._streaming is not None and self._streaming.is_live:
            self._streaming = None
        self.end_line()
        had_output, self._has_output = self._has_output, False
        return had_output

    def _stream(self, where: Where, text: str) -> None:
        if not text or self._defer(partial(self._stream, where, text)):
            return
        if self._streaming is None or self._streaming.where != where:
            self.end_line()
            self._streaming = self._new_text(where)
        self._streaming.feed(text)
        if not self._streaming.is_live or self._clock() - self._drawn_at >= _REDRAW_INTERVAL:
            self._advance()

    def _new_text(self, where: Where) -> StreamingText:
        if where == "err":
            kind = StreamingThinking if self.terminal.is_err_live else StreamingText
            return kind("err", self._columns, partial(ansi_style, style="dim italic", color=self.terminal.err_color))
        if self.terminal.renders_markdown:
            return StreamingAnswer(self._columns, color=self.terminal.out_color)
        return StreamingText("out", self._columns, str)

    def _advance(self) -> None:
        """Print what is complete of the text that is streaming, and redraw the rest."""
        if self._streaming is not None and self._deferred is None:
            self._print(self._streaming.where, self._streaming.take())
        self._draw()

    def _print(self, where: Where, text: str) -> None:
        """Print text in place of what is drawn. If the terminal is gone, discard it; a signal follows."""
        if not text:
            return
        self._has_output = True
        if where == "err":
            self.clear()
            print_stderr(text)
            return
        try:
            print_text(self._area.erase_sequence() + text, escape=False, to=self._out)
        except OSError as exc:
            if exc.errno != errno.EIO:
                raise
            output.discard_output(self._out)

    def info(self, line: str, style: Style = "", *, lead: str = "") -> None:
        """Print a line to stderr, unless quiet."""
        if not self.terminal.quiet:
            self.message(line, style, lead=lead)

    def message(self, line: str, style: Style = "", *, lead: str = "") -> None:
        """Print a line to stderr, also if quiet; `lead` before it in cyan. It is deferred during a prompt.

        Text that is streaming continues below it. On a terminal, red and yellow text is wrapped between words; other lines
        may have a command to copy.
        """
        if self._defer(partial(self.message, line, style, lead=lead)):
            return
        if self._streaming is None or not self._streaming.is_live:
            self.end_line()
        self.clear()
        color, text = self.terminal.err_color, escape_control(line)
        if style in ("red", "yellow") and self.terminal.is_err_live:
            text = "\n".join(wrap(text, self._columns()))
        print_stderr(f"{ansi_style(escape_control(lead), 'cyan', color=color)}{ansi_style(text, style, color=color)}\n")
        self._draw()

    def end_line(self) -> None:
        """Complete the text that is streaming, and the current line."""
        if self._defer(self.end_line):
            return
        self.clear()
        if not self._ends_line:
            self._ends_line = True
            print_text("\n", to=self._out)
        if self._streaming is not None:
            streaming, self._streaming = self._streaming, None
            self._print(streaming.where, streaming.end())

    def error(self, told: Explanation, error: BaseException | None = None) -> None:
        self.end_line()
        output.print_error(told, error, color=self.terminal.err_color)

    @contextmanager
    def prompt(self, question: str) -> Iterator[None]:
        """Ask the user; other output waits until the block ends."""
        self.end_line()
        print_stderr(question)
        with self.defer_output():
            try:
                yield
            except BaseException:
                print_stderr("\n")  # no answer has ended the line
                raise

    @contextmanager
    def defer_output(self) -> Iterator[None]:
        self._deferred = []
        try:
            yield
        finally:
            held, self._deferred = self._deferred, None
            for action in held:
                action()

    def _defer(self, action: Callable[[], None]) -> bool:
        """Queue output during a prompt; return whether there is one."""
        if self._deferred is None:
            return False
        self._deferred.append(action)
        return True

    def status(self, text: str) -> None:
        """Set the status line of a terminal; empty removes it."""
        if text != self._status:
            self._status, self._since = text, self._clock()
        if not text:
            self.clear()

    def tick(self) -> None:
        self._spinner_step += 1
        self._advance()

    def clear(self) -> None:
        self._area.erase()

    def _draw(self) -> None:
        terminal, streaming = self.terminal, self._streaming
        if self._deferred is not None or not (terminal.renders_markdown or terminal.is_err_live):
            return
        if streaming is not None and not streaming.is_live:
            return
        self._drawn_at = self._clock()
        window = window_size(self._live_stream)
        rows = streaming.rows(window.columns, max(window.lines - 3, 1)) if streaming else []
        if self._status and terminal.is_err_live and not terminal.quiet:
            rows.append(self._status_row(window.columns))
        self._area.draw(rows)

    def _status_row(self, columns: int) -> str:
        spent = int(self._clock() - self._since)
        spinner = _SPINNER[self._spinner_step % len(_SPINNER)]
        parts = (f"{spinner} {self._status}", f"{spent} s" if spent else "", self.usage)
        row = truncate(escape_control("  ".join(filter(None, parts))), columns - 1)
        return ansi_style(row, "dim", color=self.terminal.err_color)

    def _columns(self) -> int:
        return window_size(self._live_stream).columns
