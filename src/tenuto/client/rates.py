"""A limit of one's own on requests and tokens over time, and on calls at once: who came first goes first.

The limiter belongs to no event loop. One object may stand in several clients, in several threads: what is shared is kept
under a lock that is never held while anybody waits, and whoever waits is woken on its own loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from tenuto.client.budget import UsageMeter
from tenuto.client.gate import Sleep
from tenuto.client.pipeline import Next, closing
from tenuto.core.events import ContentDelta, MessageDone, StreamEvent
from tenuto.core.request import ChatRequest
from tenuto.errors import LLMError

__all__ = ["RateLimit", "rate_limit"]

T = TypeVar("T")
_ENOUGH = 1 - 1e-6  # a sum of small refills may fall short of one by a rounding


class _Bucket:
    """Fills evenly up to its size. It may be overdrawn: then nothing is taken before the debt is made up."""

    def __init__(self, size: float, per: float, now: float) -> None:
        self._size = self._level = size
        self._rate = size / per
        self._seen = now

    def wait(self, now: float) -> float:
        """Return the seconds until there is one to take; 0 if there is one."""
        self._level = min(self._size, self._level + max(0.0, now - self._seen) * self._rate)
        self._seen = now
        return 0.0 if self._level >= _ENOUGH else (1 - self._level) / self._rate

    def take(self, count: float) -> None:
        self._level -= count


class _Place:
    """A place in the queue. It is called on the loop it was taken on."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.called = self._loop.create_future()

    def call(self) -> bool:
        """Wake whoever has this place; False if its loop is gone."""
        try:
            self._loop.call_soon_threadsafe(_wake, self.called)
        except RuntimeError:
            return False
        return True

    @property
    def gone(self) -> bool:
        """Whether nobody can have this place any more: its loop was closed without a word."""
        return self._loop.is_closed()

    def again(self) -> asyncio.Future[None]:
        """Return what the next call will set; only on the place's own loop."""
        if self.called.done():
            self.called = self._loop.create_future()
        return self.called


def _wake(called: asyncio.Future[None]) -> None:
    if not called.done():
        called.set_result(None)


class RateLimit:
    """Lets calls through no faster than it is told. Use `rate_limit`."""

    def __init__(
        self,
        requests: float | None,
        tokens: float | None,
        per: float,
        concurrent: int | None,
        clock: Callable[[], float],
        sleep: Sleep | None,
    ) -> None:
        now = clock()
        self._requests = None if requests is None else _Bucket(requests, per, now)
        self._tokens = None if tokens is None else _Bucket(tokens, per, now)
        self._concurrent = concurrent
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._queue: deque[_Place] = deque()
        self._running = 0

    async def __call__(self, request: ChatRequest, next: Next) -> AsyncIterator[StreamEvent]:
        """Stand around a call."""
        await self._enter()
        meter = UsageMeter()
        try:
            async with closing(next(request)) as events:
                async for event in events:
                    if not isinstance(event, ContentDelta):
                        meter.hear(event)
                        if isinstance(event, MessageDone):
                            self._charge(meter)
                    yield event
        except LLMError as error:
            meter.broke(error)
            raise
        finally:
            self._charge(meter)
            self._leave()

    async def plain(self, act: Callable[[], Awaitable[T]]) -> T:
        """Stand around a call that has no events: it counts as a request; its tokens are not known here."""
        await self._enter()
        try:
            return await act()
        finally:
            self._leave()

    # --- the queue ----------------------------------------------------------------------------------------------------

    async def _enter(self) -> None:
        place = _Place()
        with self._lock:
            self._queue.append(place)
        try:
            while (pause := self._pause(place)) != 0:
                if isinstance(pause, float):
                    await (self._sleep or asyncio.sleep)(pause)
                else:
                    await pause
        except BaseException:
            with self._lock:
                self._queue.remove(place)
                self._call_first()
            raise

    def _pause(self, place: _Place) -> float | asyncio.Future[None]:
        """Go through, and return 0; or return what to wait for: so many seconds, or a call."""
        with self._lock:
            while self._queue[0].gone:
                self._queue.popleft()
            full = self._concurrent is not None and self._running >= self._concurrent
            if full or self._queue[0] is not place:
                return place.again()
            now = self._clock()
            wait = max((bucket.wait(now) for bucket in (self._requests, self._tokens) if bucket), default=0.0)
            if wait > 0:
                return wait
            if self._requests is not None:
                self._requests.take(1)
            self._running += 1
            self._queue.popleft()
            self._call_first()
            return 0.0

    def _call_first(self) -> None:
        while self._queue and not self._queue[0].call():
            self._queue.popleft()

    def _leave(self) -> None:
        with self._lock:
            self._running -= 1
            self._call_first()

    def _charge(self, meter: UsageMeter) -> None:
        used = sum(part.usage.total_tokens or 0 for part in meter.take() if part.usage is not None)
        if self._tokens is not None and used:
            with self._lock:
                self._tokens.take(used)


def rate_limit(
    requests: float | None = None,
    tokens: float | None = None,
    *,
    per: float = 60.0,
    concurrent: int | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Sleep | None = None,
) -> RateLimit:
    """Let through at most so many requests and tokens in `per` seconds, and `concurrent` calls at once.

    Whoever is over the limit waits, in the order of coming; a wait may be cancelled. What a pause has saved up may be
    used at once, up to the whole limit. How many tokens a call uses is known when it is over: they are charged then, and
    a debt is waited off by the next call. A reply that does not tell its usage is charged nothing.
    """
    given = [limit for limit in (requests, tokens, concurrent) if limit is not None]
    if not given or min(given) < 1 or not per > 0:
        raise ValueError(
            "rate_limit takes at least one of requests, tokens and concurrent, each at least 1, and per > 0"
        )
    return RateLimit(requests, tokens, per, concurrent, clock, sleep)
