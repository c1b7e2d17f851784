"""A terminal's screen: what a command wrote goes in, lines of text come out."""

from __future__ import annotations

import io
import os
import struct
import sys

import pyte

if sys.platform != "win32":
    import fcntl
    import termios

KEPT = 10_000


class VirtualTerminal:
    """A window of so many columns and rows, and what was scrolled out of it at the top.

    `reflows`: in a narrower window long lines are broken anew, as most terminals do; else they are cut, as in xterm.
    """

    def __init__(self, columns=80, rows=24, *, reflows=False):
        self._reflows = reflows
        self._new(columns, rows)

    def _new(self, columns, rows):
        self.screen = pyte.HistoryScreen(columns, rows, history=KEPT)
        self._stream = pyte.Stream(self.screen)

    def feed(self, text):
        """Write to it, as a program does through its terminal."""
        self._stream.feed(text)
        return self

    def resize(self, columns, rows):
        """Somebody makes the window larger or smaller."""
        if not self._reflows:
            self.screen.resize(rows, columns)
            return
        above = self._above()
        lines = self.visible[: self.screen.cursor.y + 1]
        self._new(columns, rows)
        self.feed("\r\n".join([*above, *lines]))

    def _above(self):
        return ["".join(self._signs(line)).rstrip() for line in self.screen.history.top]

    def _signs(self, line):
        return [line[at].data for at in range(self.screen.columns)]

    @property
    def visible(self):
        """What is in the window, line by line."""
        return ["".join(self._signs(self.screen.buffer[at])).rstrip() for at in range(self.screen.lines)]

    @property
    def lines(self):
        """All that was ever written and not taken away, line by line, without empty ones at the end."""
        lines = [*self._above(), *self.visible]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def text(self):
        return "".join(f"{line}\n" for line in self.lines)


class Window(io.TextIOWrapper):
    """A terminal for what runs in this process: it has the size that a terminal has, and nobody has to read from it.

    While it is entered, it is stdout and stderr.
    """

    def __init__(self, columns=80, rows=24, *, reflows=False):
        super().__init__(io.BytesIO(), "utf-8", write_through=True)
        self._master, self._slave = os.openpty()
        self._display = VirtualTerminal(columns, rows, reflows=reflows)
        self._read = 0
        self.resize(columns, rows)

    def isatty(self):
        return True

    def fileno(self):
        return self._slave

    def resize(self, columns, rows):
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.display.resize(columns, rows)

    @property
    def raw(self):
        """All that was written."""
        return self.buffer.getvalue().decode()

    @property
    def display(self):
        """The screen as it is by now."""
        raw = self.raw.replace("\n", "\r\n")  # as a terminal does that was not told otherwise
        self._display.feed(raw[self._read :])
        self._read = len(raw)
        return self._display

    def __enter__(self):
        self._before = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = self
        return self

    def __exit__(self, *_):
        sys.stdout, sys.stderr = self._before
        os.close(self._master)
        os.close(self._slave)
