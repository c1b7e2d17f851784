"""Waking an event loop from another thread, at less cost than `call_soon_threadsafe`.

That one writes to a socket, which the loop then reads twice. Here it is an eventfd, where there are any (Linux) and the
loop can watch one; everywhere else it is `call_soon_threadsafe`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

__all__ = ["Bell", "Bells"]

T = TypeVar("T")
_READ_BEFORE = suppress(BlockingIOError)
"""By a child that was forked off with the loop. Made once: it is used with every answer."""


class Bell(Generic[T]):
    """The bell of one loop. It lives as long as the loop, and does not keep it alive."""

    def __init__(self, loop: asyncio.AbstractEventLoop, take: Callable[[T], None]) -> None:
        self.loop = weakref.ref(loop)
        self._take = take
        self._waiting: deque[T] = deque()
        self._file = _watched(loop, self._heard)
        if self._file >= 0:
            # Not at the end of the program: there a thread may still be at work, and ring.
            weakref.finalize(self, os.close, self._file).atexit = False

    def ring(self, what: T) -> None:
        """Have something taken in the loop; from any thread. A loop that is closed has nobody who waits for it."""
        if sys.platform == "linux" and self._file >= 0:
            self._waiting.append(what)
            os.eventfd_write(self._file, 1)
            return
        loop = self.loop()
        if loop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._take, what)

    def _heard(self) -> None:
        if sys.platform == "linux":
            with _READ_BEFORE:
                os.eventfd_read(self._file)
        waiting = self._waiting
        try:
            while waiting:
                self._take(waiting.popleft())
        finally:
            if waiting and sys.platform == "linux":  # something was raised: the rest is heard in the next turn
                os.eventfd_write(self._file, 1)


class Bells(Generic[T]):
    """The bells of all loops; `take` is called in the loop with what is handed over."""

    def __init__(self, take: Callable[[T], None]) -> None:
        self._take = take
        self._last: Bell[T] | None = None
        self._bells: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Bell[T]] = weakref.WeakKeyDictionary()

    def of(self, loop: asyncio.AbstractEventLoop) -> Bell[T]:
        """Return a loop's bell; called in that loop."""
        bell = self._last
        if bell is None or bell.loop() is not loop:
            bell = self._bells.get(loop)
            if bell is None:
                bell = self._bells[loop] = Bell(loop, self._take)
            self._last = bell
        return bell


def _watched(loop: asyncio.AbstractEventLoop, heard: Callable[[], None]) -> int:
    """Return an eventfd that the loop watches; -1 where that cannot be."""
    if sys.platform != "linux":
        return -1
    try:
        file = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    except OSError:  # there are no more files to be had
        return -1
    try:
        loop.add_reader(file, heard)
    except (NotImplementedError, OSError):
        os.close(file)
        return -1
    return file
