"""Futures that wake who waits for them in the same turn of the loop.

A future of asyncio that gets its result asks the loop to go on with the task in its next turn. One that is answered from
another thread has had a turn of its own already, and the second is a seventh of what an append costs in the loop's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, TypeVar

__all__ = ["Answer"]

T = TypeVar("T")


class Answer(asyncio.Future[T]):
    """A future whose callbacks are called at once by `give` and `refuse`, which the loop itself must call, in a turn of its
    own and in no task. However else it ends (it is cancelled), they are called in the loop's next turn, as ever.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._waiting: list[tuple[Callable[[Any], object], Context]] = []

    def add_done_callback(self, fn: Callable[[Any], object], /, *, context: Context | None = None) -> None:
        """Call `fn` with this future when it is done."""
        if self.done():
            super().add_done_callback(fn, context=context)
        else:
            self._waiting.append((fn, copy_context() if context is None else context))

    def remove_done_callback(self, fn: Callable[[Any], object], /) -> int:
        """Do not call `fn`; return how often it would have been called."""
        kept = [one for one in self._waiting if one[0] != fn]
        gone, self._waiting = len(self._waiting) - len(kept), kept
        return gone + super().remove_done_callback(fn)

    def cancel(self, msg: Any | None = None) -> bool:
        """Stop waiting."""
        if not super().cancel(msg):
            return False
        waiting, self._waiting = self._waiting, []
        self._later(waiting)
        return True

    def give(self, value: T) -> None:
        """Set the result, and go on with who waits for it. One that is done already is left as it is."""
        if not self.done():
            super().set_result(value)
            self._wake()

    def refuse(self, error: Exception) -> None:
        """Set the error, and go on with who waits for it. One that is done already is left as it is."""
        if not self.done():
            super().set_exception(error)
            self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for at, (fn, context) in enumerate(waiting, 1):
            try:
                context.run(fn, self)
            except BaseException:  # a task that ends the program; the others go on if the loop does
                self._later(waiting[at:])
                raise

    def _later(self, waiting: list[tuple[Callable[[Any], object], Context]]) -> None:
        for fn, context in waiting:
            self.get_loop().call_soon(fn, self, context=context)
