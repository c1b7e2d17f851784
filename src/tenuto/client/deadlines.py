"""The deadlines of one HTTP exchange."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from tenuto.client.options import Timeouts
from tenuto.errors import TimedOut

T = TypeVar("T")


class StreamIdleAfterEnd(Exception):
    """The answer is complete, and the rest of the stream did not arrive in time."""


def out_of_time(timeouts: Timeouts, provider: str = "") -> TimedOut:
    """Return the error of a call that took longer than its total timeout. It is not retryable: no time is left."""
    return TimedOut(f"the call took longer than {timeouts.total:g} s", provider=provider, retryable=False)


class Deadlines:
    """Limit the time that one HTTP exchange waits for the head of the response and for each read of the body.

    Time passes only inside `wait`: deadlines are paused while the caller is not reading. Only `total` is a fixed time.
    """

    def __init__(self, timeouts: Timeouts, total_at: float | None) -> None:
        self._timeouts = timeouts
        self._total_at = total_at
        self._in_body = False
        self._event_left = timeouts.event
        self._end_left: float | None = None

    async def wait(self, operation: Awaitable[T]) -> T:
        """Await an operation. If a deadline passes, cancel it and raise `TimedOut` or `StreamIdleAfterEnd`."""
        now = asyncio.get_running_loop().time
        start = now()
        limits = (
            ("end", self._end_left),
            ("total", None if self._total_at is None else self._total_at - start),
            ("read", self._timeouts.read if self._in_body else None),
            ("event", self._event_left),
        )
        name, seconds = min(limits, key=_seconds)
        try:
            async with asyncio.timeout(seconds) as timeout:
                return await operation
        except TimeoutError:
            if not timeout.expired():
                raise
            raise self._error(name) from None
        finally:
            elapsed = now() - start
            if self._event_left is not None:
                self._event_left -= elapsed
            if self._end_left is not None:
                self._end_left -= elapsed

    def start_body(self) -> None:
        """Start the deadlines of the body: the head of the response has arrived."""
        self._in_body = True
        self.got_event()

    def got_event(self) -> None:
        """Restart the wait for an event. Events come from the model; other bytes may come from its server alone."""
        self._event_left = self._timeouts.event

    def limit_end(self, seconds: float) -> None:
        """Limit the wait for the rest of the stream, whatever arrives: the answer is complete."""
        if self._end_left is None or seconds < self._end_left:
            self._end_left = seconds

    def _error(self, name: str) -> Exception:
        if name == "end":
            return StreamIdleAfterEnd()
        if name == "total":
            return out_of_time(self._timeouts)
        if name == "read":
            return TimedOut(f"no data for {self._timeouts.read:g} s")
        return TimedOut(f"no {'event' if self._in_body else 'response'} within {self._timeouts.event:g} s")


def _seconds(limit: tuple[str, float | None]) -> float:
    return float("inf") if limit[1] is None else limit[1]
