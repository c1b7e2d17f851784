"""The deadlines of a client: one timer of the loop for all who have one.

To set a timer of the loop and to cancel it costs as much as writing a request does, each call would need three, and hardly
one ever fires. So deadlines stand in a dictionary, and one timer looks at them when the first is due.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

__all__ = ["Alarm", "Clock"]

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
