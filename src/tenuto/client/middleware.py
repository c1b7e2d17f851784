"""What can be put around a call: trying again, other models, deadlines, a log; and middleware that thinks in responses.

`cache`, `budget` and `rate_limit` have files of their own; `tenuto.middleware` lists them all.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from typing import Literal, TypeAlias, TypeVar

import msgspec

from tenuto.client.gate import Again, Sleep, retry_events
from tenuto.client.pipeline import Lists, Middleware, Next, apart, closing, gathered
from tenuto.client.replay import events_of, response_of
from tenuto.core import jsonio
from tenuto.core.events import MessageDone, StreamEvent
from tenuto.core.messages import Usage
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse
from tenuto.errors import LLMError, LossError, MissingKey, TenutoError, TimedOut, UnknownProvider, UnsupportedModel

__all__ = [
    "LogEntry",
    "NextResponse",
    "Retry",
    "RetryState",
    "Timeout",
    "fallback",
    "logger",
    "response_middleware",
    "retry",
    "timeout",
]

T = TypeVar("T")
NextResponse: TypeAlias = Callable[[ChatRequest], Awaitable[ChatResponse]]

_log = logging.getLogger("tenuto")


def response_middleware(act: Callable[[ChatRequest, NextResponse], Awaitable[ChatResponse]]) -> Middleware:
    """Adapt `async (request, next) -> ChatResponse`, where `next(request)` gives the response, to a middleware.

    A streamed call is drained behind it, and its events come at once at the end. May be used as a decorator.
    """

    async def adapted(request: ChatRequest, next: Next) -> AsyncIterator[StreamEvent]:
        async def answer(asked: ChatRequest) -> ChatResponse:
            return await response_of(next(asked))

        for event in events_of(await act(request, answer)):
            yield event

    return adapted


# --- trying again -----------------------------------------------------------------------------------------------------


class _Times(msgspec.Struct, frozen=True):
    times: int = 3


class Retry(_Times, frozen=True, kw_only=True):
    """Try a call again after an error that may pass, at most `times` times, with growing pauses.

    The pause before the n-th retry is a random part of `base * 2**(n-1)` seconds ("full jitter"), at most `max_delay`.
    With a `jitter` below 1 it is that power itself, plus at most `jitter * base`. Where the provider says how long to
    wait, that long is waited and a little more; if that is longer than `max_delay`, the error is raised at once, and its
    `retry_after` says when to come back. `budget` bounds the seconds waited in one call.

    An `LLMError` that is not `retryable` is raised at once, and so is every other error of ours (a missing key does not
    appear by waiting). Any other exception counts as one that may pass. A streamed call is not tried again once anything
    of its reply has reached the reader; what only announces a reply (`MessageStart`, `UsageUpdate`) is held back until
    then. A drained call is tried again until its end. The last error carries a note of how often was tried.
    """

    base: float = 1.0
    max_delay: float = 60.0
    budget: float = 180.0
    jitter: float = 1.0
    sleep: Sleep | None = None
    random: Callable[[], float] | None = None

    def __post_init__(self) -> None:
        if self.times < 0 or min(self.base, self.max_delay, self.budget) < 0:
            raise ValueError("retry takes no negative numbers")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter is a share between 0 and 1, not {self.jitter}")

    def __call__(self, request: ChatRequest, next: Next) -> AsyncIterator[StreamEvent]:
        """Stand around a call."""
        return apart(partial(self.listed, next=partial(gathered, next)), request)

    def listed(self, request: ChatRequest, next: Lists) -> AsyncIterator[list[StreamEvent]]:
        """The same where the events come in lists."""
        patience = RetryState(self)

        def again(failed: ChatRequest, error: Exception) -> tuple[ChatRequest, float] | None:
            delay = patience.after(error)
            return None if delay is None else (failed, delay)

        return retry_events(request, next, again, self.sleep or asyncio.sleep)

    async def plain(self, act: Callable[[], Awaitable[T]]) -> T:
        """Stand around a call that has no events."""
        patience = RetryState(self)
        while True:
            try:
                return await act()
            except Exception as error:
                delay = patience.after(error)
                if delay is None:
                    raise
            await (self.sleep or asyncio.sleep)(delay)


retry = Retry
"""The name under which it is asked for: `retry()`, `retry(2)`, `retry(jitter=0.1)`."""


class RetryState:
    """How often and how long one call has waited: for whoever tries again by himself, by the rules of `retry`."""

    def __init__(self, retry: Retry) -> None:
        self._retry = retry
        self._failed = 0
        self._waited = 0.0

    def after(self, error: Exception) -> float | None:
        """Return how long to wait before the next attempt; None if there is none."""
        self._failed += 1
        delay = self._delay(error) if self._failed <= self._retry.times and _may_pass(error) else None
        if delay is not None and self._waited + delay <= self._retry.budget:
            self._waited += delay
            _log.info("retry in %.1f s after %s, %d of %d", delay, _named(error), self._failed, self._retry.times)
            return delay
        if self._failed > 1:
            error.add_note(f"gave up after {self._failed} attempts")
        return None

    def _delay(self, error: Exception) -> float | None:
        retry, draw = self._retry, self._retry.random or _random()
        asked = error.retry_after if isinstance(error, LLMError) else None
        if asked is not None:
            return asked + draw() * 0.1 * retry.base if asked <= retry.max_delay else None
        power = min(retry.max_delay, retry.base * 2.0 ** min(self._failed - 1, 64))
        return draw() * power if retry.jitter == 1 else power + draw() * retry.jitter * retry.base


def _random() -> Callable[[], float]:
    import random

    return random.random


def _may_pass(error: Exception) -> bool:
    if isinstance(error, LLMError):
        return error.retryable
    return not isinstance(error, TenutoError)


def _named(error: Exception) -> str:
    """Say which error it is, and nothing that came from outside: a log is no place for another's words."""
    status = error.status if isinstance(error, LLMError) else None
    return type(error).__name__ + (f" ({status})" if status else "")


# --- other models -----------------------------------------------------------------------------------------------------

_PASSED_ON = (LLMError, LossError, MissingKey, UnknownProvider, UnsupportedModel)


def fallback(models: Iterable[str], *, asked_first: bool = True) -> Middleware:
    """Try the model of the request, then each of these in order, until one answers; raise the last one's error.

    With `asked_first=False` the models replace the one of the request. The next model is tried after any error of a
    provider or connection, and if a key, a provider or a feature is missing; an error in the request itself, or a limit,
    is raised at once. As with `retry`, a streamed call stays with the model whose reply the reader has begun to see.
    """
    if isinstance(models, str):
        raise TypeError(f"fallback takes a list of models: fallback([{models!r}])")
    listed = tuple(models)
    if not listed:
        raise ValueError("fallback needs at least one model")

    return _Fallback(listed, asked_first=asked_first)


class _Fallback(msgspec.Struct, frozen=True):
    models: tuple[str, ...]
    asked_first: bool

    def __call__(self, request: ChatRequest, next: Next) -> AsyncIterator[StreamEvent]:
        """Stand around a call."""
        return apart(partial(self.listed, next=partial(gathered, next)), request)

    def listed(self, request: ChatRequest, next: Lists) -> AsyncIterator[list[StreamEvent]]:
        """The same where the events come in lists."""
        names = self.models
        if self.asked_first:
            names = (request.model, *(name for name in names if name != request.model))
        left = iter(names[1:])
        return retry_events(msgspec.structs.replace(request, model=names[0]), next, _following(left), asyncio.sleep)


def _following(left: Iterable[str]) -> Again:
    models = iter(left)

    def again(failed: ChatRequest, error: Exception) -> tuple[ChatRequest, float] | None:
        model = next(models, None) if isinstance(error, _PASSED_ON) else None
        if model is None:
            return None
        _log.info("%s failed with %s; asking %s", failed.model, _named(error), model)
        return msgspec.structs.replace(failed, model=model), 0.0

    return again


# --- deadlines --------------------------------------------------------------------------------------------------------


class Timeout(msgspec.Struct, frozen=True):
    """Wait at most `seconds` for a whole reply, then raise `TimedOut`.

    Only the waiting counts, and only the waiting is broken off: what the reader does between two events is its own
    affair, and takes none of the time.
    """

    seconds: float

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ValueError(f"timeout takes a number of seconds above 0, not {self.seconds}")

    async def __call__(self, request: ChatRequest, next: Next) -> AsyncIterator[StreamEvent]:
        """Stand around a call."""
        clock = asyncio.get_running_loop().time
        left = self.seconds
        async with closing(next(request)) as events:
            while True:
                began = clock()
                try:
                    async with asyncio.timeout(left) as limit:
                        event = await anext(events, None)
                except TimeoutError as exc:
                    if not limit.expired():
                        raise
                    raise self._late(_split(request.model)[0]) from exc
                left -= clock() - began
                if event is None:
                    return
                yield event

    async def plain(self, act: Callable[[], Awaitable[T]]) -> T:
        """Stand around a call that has no events."""
        try:
            async with asyncio.timeout(self.seconds) as limit:
                return await act()
        except TimeoutError as exc:
            if not limit.expired():
                raise
            raise self._late("") from exc

    def _late(self, provider: str) -> TimedOut:
        return TimedOut(f"no whole reply within {self.seconds:g} s", provider=provider)


def timeout(seconds: float) -> Timeout:
    """Wait at most so many seconds for a whole reply; see `Timeout`."""
    return Timeout(seconds)


# --- a log ------------------------------------------------------------------------------------------------------------


class LogEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call: whom it went to, how long it took, what it used or what became of it."""

    provider: str
    model: str
    latency_ms: float
    status: Literal["ok", "error"]
    usage: Usage | None = None
    error: str | None = None


def logger(
    log: Callable[[LogEntry], object] | None = None, *, clock: Callable[[], float] = time.perf_counter
) -> Middleware:
    """Hand `log` an entry for each call; without one, write it as a line of JSON to the logger `tenuto` at INFO.

    Errors are raised again. A call that its reader leaves before the end is an error, too: "closed by the reader", or
    "cancelled". A model without a provider has the provider "".
    """
    write = log or _write

    async def logged(request: ChatRequest, next: Next) -> AsyncIterator[StreamEvent]:
        provider, model = _split(request.model)
        began = clock()
        told = False

        def tell(usage: Usage | None, error: str | None) -> None:
            latency = round((clock() - began) * 1000, 3)
            write(LogEntry(provider, model, latency, "ok" if error is None else "error", usage, error))

        try:
            async with closing(next(request)) as events:
                async for event in events:
                    if isinstance(event, MessageDone) and not told:
                        told = True  # first: whoever has the whole reply need not read on
                        tell(event.response.usage, None)
                    yield event
        except BaseException as error:
            if not told:
                tell(None, _ended(error))
            raise
        if not told:
            tell(None, None)

    return logged


def _write(entry: LogEntry) -> None:
    _log.info("%s", jsonio.as_text(jsonio.encode(entry)))


def _ended(error: BaseException) -> str:
    if isinstance(error, GeneratorExit):
        return "closed by the reader"
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    return str(error) or type(error).__name__


def _split(model: str) -> tuple[str, str]:
    provider, slash, name = model.partition("/")
    return (provider, name) if slash else ("", model)
