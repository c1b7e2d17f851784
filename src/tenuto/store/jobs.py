"""A piece of work for another thread, which whoever gave it awaits.

It is to asyncio what a future is, and less: one task may await it, once. That task goes on in the same turn of the loop in
which it is answered, and not in the next one, as with a future of asyncio's own: a job has had a turn of its own already.
There is one of these for every append: it is one object, and makes no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar

import msgspec

from tenuto.store.bells import Bell
from tenuto.store.driver import Driver

__all__ = ["Job"]

T = TypeVar("T")


class Job(msgspec.Struct, Generic[T], eq=False):
    """Work, who waits for it, and how it ended. Without work it is the last one. `alone`: outside of any transaction.

    Who is cancelled stops waiting, and nothing else: the work is done all the same, and how it ended is nobody's.
    """

    work: Callable[[Driver], T] | None
    bell: Bell | None = None
    """Of the loop in which it is awaited; None if nobody does."""
    get_loop: Callable[[], asyncio.AbstractEventLoop | None] | None = None
    """As its bell has it: a task asks where it belongs, for each."""
    alone: bool = False
    value: Any = None
    error: Exception | None = None
    """How it ended, as its thread says before it rings."""
    answered: bool = False
    """Whether the loop has heard of it."""
    _left: asyncio.CancelledError | None = None
    _wake: Callable[[Any], object] | None = None
    _context: Context | None = None
    _asyncio_future_blocking: bool | None = None
    """By this, a task of asyncio's knows what it may wait for."""

    def heard(self) -> None:
        """Go on with who waits; called by the loop, in a turn of its own and in no task."""
        self.answered = True
        if self._context is not None and self._wake is not None:
            self._context.run(self._wake, self)

    # --- what a task asks for ---

    def __await__(self) -> Generator[Any, None, T]:
        if not self.answered:
            self._asyncio_future_blocking = True
            yield self
        else:
            self.result()
        value: T = self.value
        return value

    def add_done_callback(self, wake: Callable[[Any], object], *, context: Context) -> None:
        """Take note of the task that waits."""
        self._wake = wake
        self._context = context

    def cancel(self, msg: Any | None = None) -> bool:
        """Let the task go, in the loop's next turn; tell whether it waited."""
        loop = None if self.get_loop is None else self.get_loop()
        if self.answered or loop is None or self._wake is None or self._context is None:
            return False
        self._left = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        loop.call_soon(self._wake, self, context=self._context)
        self._wake = None
        return True

    def result(self) -> None:
        """Raise what went wrong, if anything did."""
        if self._left is not None:
            raise self._left
        if self.error is not None:
            raise self.error
