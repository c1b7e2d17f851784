"""Deadlines of one HTTP exchange, with a clock that the test moves."""

from __future__ import annotations

import asyncio

import pytest

from tenuto.client.exchange import Attempt, StreamIdleAfterEnd
from tenuto.client.parameters import Timeouts
from tenuto.errors import TimedOut

TIMEOUTS = Timeouts(read=300.0, event=600.0, total=3600.0)


def attempt(timeouts=TIMEOUTS, total_at=None, status=200):
    """An exchange; with the status 0 its response has not started."""
    attempt = Attempt(None, "", timeouts, total_at)
    attempt.status = status
    return attempt


class Clock:
    """Replaces the time of the running loop."""

    def __init__(self) -> None:
        self.now = 1000.0
        asyncio.get_running_loop().time = lambda: self.now

    async def pass_time(self, seconds: float) -> str:
        """Move the clock while something waits for this, and let timers run."""
        self.now += seconds
        for _ in range(5):
            await asyncio.sleep(0)
        return "arrived"


@pytest.mark.parametrize(
    ("phase", "seconds", "message"),
    [
        ("head", 601, "no response within 600 s"),
        ("body", 301, "no data for 300 s"),
        ("head", 3601, "no response within 600 s"),
        ("last minute", 61, "the call took longer than 3600 s"),
    ],
)
def test_operation_is_cancelled_at_first_deadline(phase, seconds, message):
    async def run() -> None:
        clock = Clock()
        deadlines = attempt(total_at=clock.now + 3600, status=0 if phase == "head" else 200)
        if phase == "last minute":
            clock.now += 3540
        with pytest.raises(TimedOut, match=message):
            await deadlines.wait(clock.pass_time(seconds))

    asyncio.run(run())


def test_deadlines_are_paused_between_waits():
    async def run() -> None:
        clock = Clock()
        deadlines = attempt()
        deadlines.end_left = 30
        for _ in range(3):
            assert await deadlines.wait(clock.pass_time(9)) == "arrived"
            await clock.pass_time(10_000)  # the caller does not read
        with pytest.raises(StreamIdleAfterEnd):
            await deadlines.wait(clock.pass_time(4))

    asyncio.run(run())


def test_bytes_without_event_do_not_extend_event_deadline():
    async def run() -> None:
        clock = Clock()
        deadlines = attempt()
        for _ in range(5):
            await deadlines.wait(clock.pass_time(250))
            deadlines.event_left = TIMEOUTS.event
        for _ in range(2):
            await deadlines.wait(clock.pass_time(250))
        with pytest.raises(TimedOut, match="no event within 600 s"):
            await deadlines.wait(clock.pass_time(101))

    asyncio.run(run())


def test_no_timeouts_wait_without_limit():
    async def run() -> None:
        clock = Clock()
        deadlines = attempt(Timeouts(read=None, event=None, total=None))
        assert await deadlines.wait(clock.pass_time(1e9)) == "arrived"

    asyncio.run(run())


def test_timeout_error_of_operation_is_propagated():
    async def fail() -> None:
        raise TimeoutError("from the operation")

    async def run() -> None:
        with pytest.raises(TimeoutError, match="from the operation"):
            await attempt().wait(fail())

    asyncio.run(run())
