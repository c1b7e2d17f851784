"""Retries, fallback to other models, and a deadline for a whole call.

A retry must not repeat events that the caller has seen, so `MessageStart`, `UsageUpdate` and `ErrorEvent` are held back
until content arrives: a provider that answers 200 and then reports that it is overloaded can be tried again. The caller
of a drained call sees only the end, so only an `ErrorEvent` is held back.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeAlias

import msgspec

from tenuto.client.middleware.base import (
    ALL_OPERATIONS,
    AnyNext,
    AnyRequest,
    Middleware,
    Next,
    closing,
    handles,
    split_model,
)
from tenuto.core.events import ErrorEvent, MessageStart, StreamEvent, UsageUpdate
from tenuto.core.request import ChatRequest
from tenuto.errors import (
    ConnectionFailed,
    LLMError,
    LossError,
    MissingKey,
    TenutoError,
    TimedOut,
    UnknownProvider,
    UnsupportedModel,
)

Sleep: TypeAlias = Callable[[float], Awaitable[object]]
Decide: TypeAlias = Callable[[AnyRequest, Exception], tuple[AnyRequest, float] | None]
"""Return the next request and the seconds to wait before it, or None to raise the error."""

_log = logging.getLogger("tenuto")
_FALLBACK_ERRORS = (LLMError, LossError, MissingKey, UnknownProvider, UnsupportedModel)


@handles(*ALL_OPERATIONS)
@dataclass(frozen=True)
class Retry:
    """Retry a call after a transient error, with growing pauses.

    The pause before retry n is a random part of `base * 2**(n-1)` seconds ("full jitter"), at most `max_delay`. With a
    `jitter` below 1 it is that power plus at most `jitter * base`. If the provider says how long to wait, the pause is that
    long and a little more; if that exceeds `max_delay`, the error is raised at once, with `retry_after`.

    An `LLMError` is retried if it is `retryable`; any other `TenutoError` is raised at once (waiting does not create a
    missing key); every other exception is retried. A streamed call is not retried after its first content. The last error
    has a note with the number of attempts.
    """

    times: int = 3
    """The maximum number of retries."""
    _: KW_ONLY
    base: float = 1.0
    max_delay: float = 60.0
    budget: float = 180.0
    """The maximum of all pauses of one call, in seconds."""
    jitter: float = 1.0
    local_refusals: bool = True
    """Whether a connection that this machine refused is tried again: its server may restart."""
    sleep: Sleep = asyncio.sleep
    random: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if self.times < 0 or min(self.base, self.max_delay, self.budget) < 0:
            raise ValueError("retry takes no negative numbers")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter is {self.jitter}: use a number from 0 to 1")

    def __call__(self, request: AnyRequest, next: AnyNext) -> AsyncIterator[Any]:
        state = RetryState(self)

        def decide(failed: AnyRequest, error: Exception) -> tuple[AnyRequest, float] | None:
            delay = state.after(error)
            return None if delay is None else (failed, delay)

        return retry_events(request, next, decide, self.sleep)


retry = Retry
"""The name for use in a list of middleware: `retry()`, `retry(2)`, `retry(jitter=0.1)`."""


class RetryState(msgspec.Struct):
    retry: Retry
    failures: int = 0
    waited: float = 0.0

    def after(self, error: Exception) -> float | None:
        """Return the seconds to wait before the next attempt, or None if the error must be raised."""
        self.failures += 1
        is_transient = error.retryable if isinstance(error, LLMError) else not isinstance(error, TenutoError)
        if isinstance(error, ConnectionFailed) and error.refused_locally:
            is_transient = self.retry.local_refusals
        delay = self._delay(error) if self.failures <= self.retry.times and is_transient else None
        if delay is not None and self.waited + delay <= self.retry.budget:
            self.waited += delay
            _log.info("retry in %.1f s after %s, %d of %d", delay, _error_name(error), self.failures, self.retry.times)
            return delay
        if self.failures > 1:
            error.add_note(f"gave up after {self.failures} attempts")
        return None

    def _delay(self, error: Exception) -> float | None:
        retry, draw = self.retry, self.retry.random
        retry_after = error.retry_after if isinstance(error, LLMError) else None
        if retry_after is not None:
            return retry_after + draw() * 0.1 * retry.base if retry_after <= retry.max_delay else None
        power = min(retry.max_delay, retry.base * 2.0 ** min(self.failures - 1, 64))
        return draw() * power if retry.jitter == 1 else power + draw() * retry.jitter * retry.base


async def retry_events(request: AnyRequest, next: AnyNext, decide: Decide, sleep: Sleep) -> AsyncIterator[Any]:
    """Yield the events of the first good attempt; before content arrives, `decide` says what follows a failure."""
    while True:
        held_types = (MessageStart, UsageUpdate, ErrorEvent) if request.stream else (ErrorEvent,)
        held: list[Any] = []
        has_content = False
        try:
            async with closing(next(request)) as events:
                async for event in events:
                    if has_content:
                        yield event
                    elif isinstance(event, held_types):
                        held.append(event)
                    else:
                        has_content = request.stream
                        for earlier in held:
                            yield earlier
                        held.clear()
                        yield event
            for event in held:
                yield event
            return
        except Exception as error:
            attempt = None if has_content else decide(request, error)
            if attempt is None:
                for event in held:
                    yield event
                raise
        request, delay = attempt
        if delay > 0:
            await sleep(delay)


def fallback(models: Iterable[str], *, asked_first: bool = True) -> Middleware:
    """Try the model of the chat, then each of these in order, until one answers; raise the error of the last one.

    With `asked_first=False` the models replace that of the request. The next model is tried after any error of a provider
    or connection, and if a key, a provider or a feature is missing; an error in the request itself, or a limit, is raised
    at once. A streamed chat stays with the model whose first content has arrived, as with `retry`.

    Only chats fall back: embeddings and token counts of another model are not comparable.
    """
    if isinstance(models, str):
        raise TypeError(f"fallback takes a list of models: fallback([{models!r}])")
    models = tuple(models)
    if not models:
        raise ValueError("fallback needs at least one model")

    def fall_back(request: ChatRequest, next: Next) -> AsyncIterator[StreamEvent]:
        remaining = deque(models)
        if asked_first:
            remaining = deque([request.model, *(model for model in models if model != request.model)])

        def decide(failed: AnyRequest, error: Exception) -> tuple[AnyRequest, float] | None:
            if not remaining or not isinstance(error, _FALLBACK_ERRORS):
                return None
            model = remaining.popleft()
            _log.info("%s failed with %s; trying %s", failed.model, _error_name(error), model)
            return msgspec.structs.replace(failed, model=model), 0.0

        request = msgspec.structs.replace(request, model=remaining.popleft())
        return retry_events(request, next, decide, asyncio.sleep)

    return fall_back


def _error_name(error: Exception) -> str:
    """Return the type of an error, its HTTP status and its target. Texts of a provider do not belong in a log."""
    if not isinstance(error, LLMError):
        return type(error).__name__
    target = "/".join(filter(None, (error.provider, error.model)))
    status = f" ({error.status})" if error.status else ""
    return f"{type(error).__name__}{status}{f' of {target}' if target else ''}"


@handles(*ALL_OPERATIONS)
class Timeout(msgspec.Struct, frozen=True):
    """Wait at most `seconds` for a complete reply, then raise `TimedOut`.

    Only the time that the caller waits for events counts, not the time between two events that the caller uses.
    """

    seconds: float

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ValueError(f"timeout takes a number of seconds above 0, not {self.seconds}")

    async def __call__(self, request: AnyRequest, next: AnyNext) -> AsyncIterator[Any]:
        clock = asyncio.get_running_loop().time
        remaining = self.seconds
        async with closing(next(request)) as events:
            while True:
                start = clock()
                try:
                    async with asyncio.timeout(remaining) as limit:
                        event = await anext(events, None)
                except TimeoutError as exc:
                    if not limit.expired():
                        raise
                    message = f"no complete reply within {self.seconds:g} s"
                    error = TimedOut(message)
                    error.provider, error.model = split_model(request.model)
                    raise error from exc
                remaining -= clock() - start
                if event is None:
                    return
                yield event


timeout = Timeout
"""The name for use in a list of middleware: `timeout(120)`."""
