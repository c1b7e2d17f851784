"""Waking an event loop from another thread, at less cost than `call_soon_threadsafe`.

That one writes to a socket, which the loop then reads twice. Here it is an eventfd, where there are any (Linux) and the
loop can watch one; everywhere else it is `call_soon_threadsafe`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import weakref
from collections import deque
from contextlib import suppress
from typing import Protocol

__all__ = ["Bell", "bell_of"]

log = logging.getLogger("tenuto")


class _Rung(Protocol):
    """What is handed over."""

    def heard(self) -> None:
        """Take note of it, in the loop."""


class Bell:
    """The bell of one loop. It lives as long as the loop, and does not keep it alive."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = weakref.ref(loop)
        self._waiting: deque[_Rung] = deque()

    def ring(self, *what: _Rung) -> None:
        """Have these heard in the loop, in their order; from any thread. A loop that is closed has nobody who waits."""
        self._waiting.extend(what)
        loop = self.loop()
        if loop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        waiting = self._waiting
        try:
            while waiting:
                waiting.popleft().heard()
        finally:
            if waiting:  # something was raised: the rest is heard in the next turn
                self.ring()


if sys.platform == "linux":

    class _Eventfd(Bell):
        """A bell that is a file."""

        def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
            super().__init__(loop)
            self._file = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            # Not at the end of the program: there a thread may still be at work, and ring.
            weakref.finalize(self, os.close, self._file).atexit = False
            loop.add_reader(self._file, self._read)

        def ring(self, *what: _Rung) -> None:
            """Have these heard in the loop."""
            self._waiting.extend(what)
            os.eventfd_write(self._file, 1)

        def _read(self) -> None:
            try:
                os.eventfd_read(self._file)
            except BlockingIOError:
                log.debug("a child that was forked off with the loop has heard a bell of its parent's")
            self._hear()


_BELLS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Bell] = weakref.WeakKeyDictionary()


def bell_of(loop: asyncio.AbstractEventLoop) -> Bell:
    """Return a loop's bell; called in that loop."""
    bell = _BELLS.get(loop)
    if bell is None:
        bell = _BELLS[loop] = _made(loop)
    return bell


def _made(loop: asyncio.AbstractEventLoop) -> Bell:
    if sys.platform == "linux":
        # there are no more files to be had, or the loop cannot watch any
        with suppress(OSError, NotImplementedError):
            return _Eventfd(loop)
    return Bell(loop)
