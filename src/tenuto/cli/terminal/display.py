"""The display of a run: the answer on stdout, everything else on stderr.

On a terminal that can rewrite lines, Markdown is rendered block by block while the answer streams. Elsewhere stdout gets
exactly the answer's characters, as UTF-8, once the answer is complete.
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
from typing import TYPE_CHECKING, Literal

from tenuto import settings
from tenuto.cli.terminal.live_area import LiveArea, StreamingAnswer, StreamingThinking
from tenuto.cli.terminal.output import (
    Style,
    TerminalInfo,
    ansi_style,
    print_error,
    print_json,
    print_stderr,
    print_text,
    window_size,
    write_encoded,
)
from tenuto.cli.terminal.text import escape_control, truncate, wrap

if TYPE_CHECKING:
    from tenuto.cli.errors import Explanation
    from tenuto.cli.terminal.live_area import StreamingText


_Where = Literal["out", "err"]
_SPINNER = "|/-\\"
_REDRAW_INTERVAL = 0.1
"""The minimum time between two redraws, in seconds."""
_REFLOWING_TERMINALS = (
    "TERM_PROGRAM",
    "VTE_VERSION",
    "TMUX",
    "WT_SESSION",
    "KITTY_WINDOW_ID",
    "KONSOLE_VERSION",
    "ALACRITTY_WINDOW_ID",
)
"""Set by terminals that wrap existing lines again in a narrower window. Others are unknown."""


class Display:
    """The output of one run. Callers pass raw text; it is escaped here."""

    def __init__(self, terminal: TerminalInfo, clock: Callable[[], float] = time.monotonic) -> None:
        self.terminal = terminal if terminal.is_out_terminal else terminal._replace(renders_markdown=False)
        self._out = sys.stdout or io.StringIO()  # a closed stdout: the answer goes nowhere
        self._clock = clock
        self._open: _Where | Literal[""] = ""
        """The stream with an incomplete line."""
        self._streaming: StreamingText | None = None
        """The text that is redrawn while it streams."""
        self._has_output = False
        """Whether part of the reply was printed and cannot be erased."""
        self._status = self._usage = ""
        self._since = self._drawn_at = 0.0
        self._spinner_step = 0
        self._deferred: list[Callable[[], None]] | None = None
        """Output that waits until a question is answered."""
        reflows = bool(settings.first_set(_REFLOWING_TERMINALS)) and not settings.getenv("STY")
        self._area = LiveArea(self._write_area, self._window, reflows=reflows)

    # --- the answer and the thinking ---

    def answer(self, text: str) -> None:
        """Print a piece of the answer. Without a terminal nothing is printed before `finish`."""
        if not (self.terminal.is_out_terminal and text) or self._defer(partial(self.answer, text)):
            return
        if self.terminal.renders_markdown:
            self._stream("out", text)
        else:
            self._prepare("out")
            self._print_stdout(escape_control(text))
            self._open, self._has_output = "" if text.endswith("\n") else "out", True

    def thinking(self, text: str) -> None:
        """Print a piece of thinking."""
        if self.terminal.quiet or not text or self._defer(partial(self.thinking, text)):
            return
        if self.terminal.is_err_live:
            self._stream("err", text)
        else:
            self._prepare("err")
            print_stderr(self._style_thinking(escape_control(text)))
            self._open, self._has_output = "" if text.endswith("\n") else "err", True

    def finish(self, text: str, *, streamed: bool = True) -> None:
        """Print the complete answer with a final newline, unless it was streamed to a terminal."""
        if not (self.terminal.is_out_terminal and streamed) and text:
            self.clear()
            if self.terminal.renders_markdown:
                self.answer(text)
            else:
                print_text(text if text.endswith("\n") else f"{text}\n", to=self._out)
        if self.terminal.is_out_terminal:
            self.end_line()

    def document(self, document: bytes) -> None:
        """Print a JSON document in place of the answer."""
        self.clear()
        print_json(document, to=self._out)

    def begin_reply(self) -> None:
        """Start a reply: earlier output does not belong to it."""
        self.end_line()
        self._has_output = False

    def discard_reply(self) -> bool:
        """Erase an interrupted reply as far as possible; return whether a part of it is still visible."""
        self._streaming = None
        self.end_line()
        had_output, self._has_output = self._has_output, False
        return had_output

    def _style_thinking(self, text: str) -> str:
        return ansi_style(text, "dim italic", color=self.terminal.err_color)

    def _stream(self, where: _Where, text: str) -> None:
        streaming = self._streaming
        if streaming is None or streaming.where != where:
            self.end_line()
            streaming = self._streaming = self._new(where)
        good = streaming.feed(text)
        if good:
            self._commit(streaming, good)
        if good or self._clock() - self._drawn_at >= _REDRAW_INTERVAL:
            self._draw()

    def _new(self, where: _Where) -> StreamingText:
        if where == "out":
            return StreamingAnswer(self._columns, color=self.terminal.out_color)
        return StreamingThinking(self._columns, self._style_thinking)

    def _commit(self, streaming: StreamingText, text: str) -> None:
        self._has_output = True
        if streaming.where == "out":
            self._print_stdout(self._area.erase_sequence() + text)
        else:
            self._area.erase()
            print_stderr(text)

    # --- everything else ---

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
        if self._streaming is None:
            self.end_line()
        self.clear()
        color, text = self.terminal.err_color, escape_control(line)
        if style in ("red", "yellow") and self.terminal.is_err_live:
            text = "\n".join(wrap(text, self._columns()))
        head = ansi_style(escape_control(lead), "cyan", color=color)
        print_stderr(f"{head}{ansi_style(text, style, color=color)}\n")
        if self._streaming is not None:
            self._draw()

    def end_line(self) -> None:
        """Complete the text that is streaming, and the current line."""
        if self._defer(self.end_line):
            return
        self.clear()
        streaming, self._streaming = self._streaming, None
        if streaming is not None and (good := streaming.end()):
            self._commit(streaming, good)
        if self._open == "out":
            self._print_stdout("\n")
        elif self._open == "err":
            print_stderr("\n")
        self._open = ""

    def error(self, told: Explanation, error: BaseException | None = None) -> None:
        self.end_line()
        print_error(told, error, color=self.terminal.err_color)

    @contextmanager
    def prompt(self, question: str) -> Iterator[None]:
        """Ask the user. Other output is deferred until the block ends."""
        self.end_line()
        print_stderr(question)
        self._open, self._deferred = "err", []
        try:
            yield
            self._open = ""  # the answer ended the line
        finally:
            held, self._deferred = self._deferred or [], None
            for output in held:
                output()

    def _defer(self, output: Callable[[], None]) -> bool:
        """Queue output during a prompt; return whether there is one."""
        if self._deferred is None:
            return False
        self._deferred.append(output)
        return True

    def _prepare(self, where: _Where) -> None:
        """End the line of the other stream: both may share a terminal."""
        self.clear()
        if self._streaming is not None or (self._open and self._open != where):
            self.end_line()

    def _print_stdout(self, text: str) -> None:
        """Write to the terminal. If it is gone, discard the text; a signal follows."""
        try:
            print_text(text, escape=False, to=self._out)
        except OSError as exc:
            if exc.errno != errno.EIO:
                raise
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._out.fileno())

    # --- the live area ---

    def status(self, text: str) -> None:
        """Set the status line of a terminal; empty removes it."""
        if text != self._status:
            self._status, self._since = text, self._clock()
        if not text:
            self.clear()

    def usage(self, text: str) -> None:
        """Set the usage that follows the status."""
        self._usage = text

    def tick(self) -> None:
        """Redraw status and streaming text."""
        self._spinner_step += 1
        self._draw()

    def clear(self) -> None:
        """Erase what is drawn."""
        self._area.erase()

    def _draw(self) -> None:
        if self._open or not (self.terminal.renders_markdown or self.terminal.is_err_live):
            return
        self._drawn_at = self._clock()
        window = self._window()
        rows = self._streaming.rows(window.columns, max(window.lines - 3, 1)) if self._streaming is not None else []
        if self._status and self.terminal.is_err_live and not self.terminal.quiet:
            rows.append(self._status_row(window.columns))
        self._area.draw(rows)

    def _status_row(self, columns: int) -> str:
        spent = int(self._clock() - self._since)
        parts = (
            f"{_SPINNER[self._spinner_step % len(_SPINNER)]} {self._status}",
            f"{spent} s" if spent else "",
            self._usage,
        )
        row = truncate(escape_control("  ".join(filter(None, parts))), columns - 1)
        return ansi_style(row, "dim", color=self.terminal.err_color)

    def _window(self) -> os.terminal_size:
        return window_size(self._out if self.terminal.renders_markdown else sys.stderr)

    def _columns(self) -> int:
        return self._window().columns

    def _write_area(self, text: str) -> None:
        stream = self._out if self.terminal.renders_markdown else sys.stderr
        if stream is not None:
            with suppress(OSError, ValueError):  # it is temporary
                write_encoded(stream, text)
