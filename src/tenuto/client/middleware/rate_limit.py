"""Limits on requests and tokens over time, and on calls at the same time; first come, first served.

A limiter belongs to no event loop: one object may serve several clients in several threads. The shared state is under a
lock that is never held during a wait, and each waiter is woken on its own loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from tenuto.client.middleware.base import ALL_OPERATIONS, AnyNext, AnyRequest, closing, handles
from tenuto.client.middleware.budget import AttemptUsage, meter_events
from tenuto.client.middleware.retry import Sleep

_ONE = 1 - 1e-6  # a sum of small refills may be less than 1 by a rounding error


class _Bucket:
    """A token bucket. Its level may be negative: then the next `take` waits until it is filled again."""

    def __init__(self, size: float, per: float, now: float) -> None:
        self._size = self._level = size
        self._rate = size / per
        self._updated = now

    def wait(self, now: float) -> float:
        """Return the seconds until the level is 1; 0 if it is."""
        self._level = min(self._size, self._level + max(0.0, now - self._updated) * self._rate)
        self._updated = now
        return 0.0 if self._level >= _ONE else (1 - self._level) / self._rate

    def take(self, count: float) -> None:
        self._level -= count


class _Waiter:
    """A call in the queue."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.woken = asyncio.Event()

    def wake(self) -> bool:
        """Wake the call, from any thread; return False if its loop is closed."""
        try:
            self.loop.call_soon_threadsafe(self.woken.set)
        except RuntimeError:
            return False
        return True


@handles(*ALL_OPERATIONS)
class RateLimit:
    """Allow at most this many requests and tokens in `per` seconds, and `concurrent` calls at the same time.

    A call over the limit waits, in order of arrival; the wait can be cancelled. Unused capacity is saved, up to the whole
    limit. The tokens of a call are known at its end and are charged then: if the limit is exceeded, the next call waits. A
    reply without usage is charged nothing.
    """

    def __init__(
        self,
        requests: float | None = None,
        tokens: float | None = None,
        *,
        per: float = 60.0,
        concurrent: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        limits = [limit for limit in (requests, tokens, concurrent) if limit is not None]
        if not limits or min(limits) < 1 or not per > 0:
            raise ValueError(
                "rate_limit takes at least one of requests, tokens and concurrent, each at least 1, and per > 0"
            )
        now = clock()
        self._requests = None if requests is None else _Bucket(requests, per, now)
        self._tokens = None if tokens is None else _Bucket(tokens, per, now)
        self._concurrent = concurrent
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._queue: deque[_Waiter] = deque()
        self._running = 0

    async def __call__(self, request: AnyRequest, next: AnyNext) -> AsyncIterator[Any]:
        await self._enter()
        try:
            async with closing(meter_events(next(request), self._charge)) as events:
                async for event in events:
                    yield event
        finally:
            self._leave()

    async def _enter(self) -> None:
        """Wait until the call may start."""
        waiter = _Waiter()
        with self._lock:
            self._queue.append(waiter)
        try:
            while (pause := self._try_start(waiter)) != 0:
                if pause is None:
                    await waiter.woken.wait()
                else:
                    await self._sleep(pause)
        except BaseException:
            with self._lock:
                self._queue.remove(waiter)
                self._wake_first()
            raise

    def _try_start(self, waiter: _Waiter) -> float | None:
        """Start the call and return 0, or return the seconds to wait; None: until the waiter is woken."""
        waiter.woken.clear()
        with self._lock:
            while self._queue[0].loop.is_closed():  # nothing can wake it
                self._queue.popleft()
            is_full = self._concurrent is not None and self._running >= self._concurrent
            if is_full or self._queue[0] is not waiter:
                return None
            now = self._clock()
            wait = max((bucket.wait(now) for bucket in (self._requests, self._tokens) if bucket), default=0.0)
            if wait > 0:
                return wait
            if self._requests is not None:
                self._requests.take(1)
            self._running += 1
            self._queue.popleft()
            self._wake_first()
            return 0.0

    def _wake_first(self) -> None:
        while self._queue and not self._queue[0].wake():
            self._queue.popleft()

    def _leave(self) -> None:
        with self._lock:
            self._running -= 1
            self._wake_first()

    def _charge(self, attempt: AttemptUsage) -> None:
        if self._tokens is not None and attempt.usage is not None:
            with self._lock:
                self._tokens.take(attempt.usage.total_tokens or 0)


rate_limit = RateLimit
"""The name for use in a list of middleware: `rate_limit(60)`, `rate_limit(concurrent=4)`."""
