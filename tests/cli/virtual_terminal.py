"""A terminal emulator: output of a command goes in, lines of text come out."""

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
    """A window with its scrollback.

    `reflows`: a narrower window wraps long lines again, as in most terminals; else it cuts them, as in xterm.
    """

    def __init__(self, columns=80, rows=24, *, reflows=False):
        self._reflows = reflows
        self._new(columns, rows)

    def _new(self, columns, rows):
        self.screen = pyte.HistoryScreen(columns, rows, history=KEPT)
        self._stream = pyte.Stream(self.screen)

    def feed(self, text):
        self._stream.feed(text)
        return self

    def resize(self, columns, rows):
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
        return ["".join(self._signs(self.screen.buffer[at])).rstrip() for at in range(self.screen.lines)]

    @property
    def lines(self):
        """All lines that are still there, without empty ones at the end."""
        lines = [*self._above(), *self.visible]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def text(self):
        return "".join(f"{line}\n" for line in self.lines)


class Window(io.TextIOWrapper):
    """A terminal of this process. In a `with` block it is stdout and stderr."""

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
        return self.buffer.getvalue().decode()

    @property
    def display(self):
        raw = self.raw.replace("\n", "\r\n")  # as a terminal does
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
