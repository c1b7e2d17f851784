"""Deadlines of an answer that is being read: one timer, which looks at the clock when it fires, not at every byte."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tenuto.client.options import Timeouts
from tenuto.errors import TimedOut

__all__ = ["SETTLED", "Settled", "Watch", "out_of_time"]

SETTLED = 30.0
"""How long to wait for what may follow a finished answer: its usage, the end of the stream."""


_AGAIN = 0.25
"""How soon to look again if nobody waits."""


class Settled(Exception):
    """The answer is whole, and what might have followed did not come."""


def out_of_time(waits: Timeouts, provider: str = "") -> TimedOut:
    """Say that the whole time of a call is over: none is left to try again."""
    return TimedOut(f"the call took longer than {waits.total:g} s", provider=provider, retryable=False)


class Watch:
    """Guards one answer. `bytes` and `event` are told when something came; past a deadline, `abort` is called.

    Silence is measured from the last sign of life, so the timer may fire early and look again, but never late by more
    than the time it takes the loop to wake. What the reader does between two reads is its own affair: the clocks stand
    still then, and nothing that came is thrown away.
    """

    __slots__ = ("_abort", "_handle", "_heard", "_loop", "_settled_by", "_still", "_told", "_total_at", "_waits")

    def __init__(self, waits: Timeouts, total_at: float | None, abort: Callable[[BaseException], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._waits = waits
        self._total_at = total_at
        self._abort = abort
        self._heard = self._told = self._loop.time()
        self._settled_by: float | None = None
        self._still: float | None = None
        self._handle: asyncio.TimerHandle | None = None
        self._arm()

    def reads(self) -> None:
        """Somebody waits for bytes: the clocks run."""
        if self._still is not None:
            pause = self._loop.time() - self._still
            self._heard += pause
            self._told += pause
            if self._settled_by is not None:
                self._settled_by += pause
            self._still = None

    def bytes(self) -> None:
        """Some bytes came, and nobody waits for more just now."""
        self._heard = self._still = self._loop.time()

    def event(self) -> None:
        """An event came: a sign that the model lives, not only its server."""
        self._told = self._loop.time()

    def settled(self) -> None:
        """The answer is whole; from now on, only so long is waited for the end, whatever else comes."""
        if self._settled_by is None:
            self._settled_by = self._loop.time() + SETTLED
            self._arm()

    def close(self) -> None:
        """Stop guarding."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        self.close()
        due = [at for at in self._deadlines() if at is not None]
        if due:
            self._handle = self._loop.call_at(min(due), self._look)

    def _look(self) -> None:
        now = self._loop.time()
        if self._still is not None:  # nobody waits
            self._handle = self._loop.call_at(now + _AGAIN, self._look)
            return
        for at, over in zip(self._deadlines(), (self._settle, self._total, self._silence, self._no_event), strict=True):
            if at is not None and at <= now:
                self._handle = None
                self._abort(over())
                return
        self._arm()

    def _deadlines(self) -> tuple[float | None, float | None, float | None, float | None]:
        waits = self._waits
        return (
            self._settled_by,
            self._total_at,
            None if waits.read is None else self._heard + waits.read,
            None if waits.event is None else self._told + waits.event,
        )

    def _settle(self) -> BaseException:
        return Settled()

    def _total(self) -> BaseException:
        return out_of_time(self._waits)

    def _silence(self) -> BaseException:
        return TimedOut(f"nothing came for {self._waits.read:g} s")

    def _no_event(self) -> BaseException:
        return TimedOut(f"no event came for {self._waits.event:g} s")
