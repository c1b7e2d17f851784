"""Deadlines of an answer, while it is waited for and while it is read: the clock is looked at when they ring, not at
every byte.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from tenuto.client.options import Timeouts
from tenuto.errors import TimedOut

__all__ = ["SETTLED", "Alarm", "Clock", "Deadlines", "StreamIdleAfterEnd", "out_of_time"]

_NEVER = float("inf")


class Alarm(Protocol):
    """Who has a deadline."""

    def ring(self, now: float, /) -> float | None:
        """Do what is due, if anything is; return when to be rung again, None for never. Must not raise."""


class Clock:
    """Rings alarms, in one loop. It may ring early, and late by no more than the time it takes the loop to wake."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.time = loop.time
        self._due: dict[Alarm, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._at = _NEVER

    def set(self, alarm: Alarm, at: float) -> None:
        """Ring at this time, or before it if so much was set already: only who is rung can put it off."""
        if at < self._due.get(alarm, _NEVER):
            self._due[alarm] = at
            if at < self._at:
                self._arm(at)

    def drop(self, alarm: Alarm) -> None:
        """Ring no more. The timer stays as it is: it will find out."""
        self._due.pop(alarm, None)

    def close(self) -> None:
        """Ring nobody any more."""
        self._due.clear()
        self._arm(_NEVER)

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = None if at == _NEVER else self.loop.call_at(at, self._look)

    def _look(self) -> None:
        self._timer, self._at = None, _NEVER
        now = self.time()
        for alarm in [alarm for alarm, at in self._due.items() if at <= now]:
            if alarm in self._due:  # one that rang may have silenced another
                again = alarm.ring(now)
                if again is None:
                    self._due.pop(alarm, None)
                else:
                    self._due[alarm] = again
        if self._due:
            self._arm(min(self._due.values()))


T = TypeVar("T")

SETTLED = 30.0
"""How long to wait for what may follow a finished answer: its usage, the end of the stream."""


_AGAIN = 0.25
"""How soon to look again if nobody waits."""


class StreamIdleAfterEnd(Exception):
    """The answer is whole, and what might have followed did not come."""


def out_of_time(waits: Timeouts, provider: str = "") -> TimedOut:
    """Say that the whole time of a call is over: none is left to try again."""
    return TimedOut(f"the call took longer than {waits.total:g} s", provider=provider, retryable=False)


class Deadlines:
    """Guards one answer: first its head (`head`), then its body, once `begun` was told how to break it off.

    `bytes` and `event` are told when something came. Silence is measured from the last sign of life, so it may ring early
    and be asked again, but never late by more than the time it takes the loop to wake. What the reader does between two
    reads is its own affair: the clocks stand still then, and nothing that came is thrown away.
    """

    __slots__ = (
        "_abort",
        "_clock",
        "_heard",
        "_late",
        "_missing",
        "_read",
        "_settled_by",
        "_still",
        "_told",
        "_total_at",
        "waits",
    )

    def __init__(self, clock: Clock, waits: Timeouts, total_at: float | None) -> None:
        self._clock = clock
        self.waits = waits
        self._total_at = total_at
        self._abort: Callable[[BaseException], object]
        self._late: BaseException | None = None
        self._missing = "no answer began within"
        self._read: float | None = None
        self._heard = self._told = clock.time()
        self._settled_by: float | None = None
        self._still: float | None = None

    async def head(self, sent: Awaitable[T]) -> T:
        """Wait for the head of the answer; raise `TimedOut` if it does not come in time."""
        task = asyncio.current_task(self._clock.loop)
        assert task is not None
        cancelling = task.cancelling()
        self._abort = lambda _: task.cancel()
        event, first = self.waits.event, self._total_at
        if event is not None and (first is None or self._told + event < first):
            first = self._told + event
        if first is not None:
            self._clock.set(self, first)
        try:
            came = await sent
        except BaseException as exc:
            late = self._late
            if late is not None and task.uncancel() <= cancelling and isinstance(exc, asyncio.CancelledError):
                raise late from None
            raise  # whoever else wanted the task to end gets what he wanted
        if self._late is not None:  # it came all the same: the task is not to be cancelled any more
            task.uncancel()
        return came

    def start_body(self, abort: Callable[[BaseException], None]) -> None:
        """The head is there; past a deadline, `abort` is called from now on."""
        self._abort = abort
        self._missing = "no event came for"
        self._read = self.waits.read
        self._heard = self._told = now = self._clock.time()
        if self._read is not None:
            self._clock.set(self, now + self._read)

    def resume(self) -> None:
        """Somebody waits for bytes: the clocks run."""
        if self._still is not None:
            pause = self._clock.time() - self._still
            self._heard += pause
            self._told += pause
            if self._settled_by is not None:
                self._settled_by += pause
            self._still = None

    def got_bytes(self) -> None:
        """Some bytes came, and nobody waits for more just now."""
        self._heard = self._still = self._clock.time()

    def event(self) -> None:
        """An event came: a sign that the model lives, not only its server."""
        self._told = self._clock.time()

    def answer_complete(self) -> None:
        """The answer is whole; from now on, only so long is waited for the end, whatever else comes."""
        if self._settled_by is None:
            self._settled_by = at = self._clock.time() + SETTLED
            self._clock.set(self, at)

    def close(self) -> None:
        """Stop guarding."""
        self._clock.drop(self)

    def ring(self, now: float) -> float | None:
        """Look which deadline has passed."""
        if self._still is not None:  # nobody waits
            return now + _AGAIN
        for at, over in zip(self._deadlines(), (self._settle, self._total, self._silence, self._no_event), strict=True):
            if at is not None and at <= now:
                self._late = over()
                self._abort(self._late)
                return None
        return min([at for at in self._deadlines() if at is not None], default=None)

    def _deadlines(self) -> tuple[float | None, float | None, float | None, float | None]:
        event = self.waits.event
        return (
            self._settled_by,
            self._total_at,
            None if self._read is None else self._heard + self._read,
            None if event is None else self._told + event,
        )

    def _settle(self) -> BaseException:
        return StreamIdleAfterEnd()

    def _total(self) -> BaseException:
        return out_of_time(self.waits)

    def _silence(self) -> BaseException:
        return TimedOut(f"nothing came for {self.waits.read:g} s")

    def _no_event(self) -> BaseException:
        return TimedOut(f"{self._missing} {self.waits.event:g} s")
