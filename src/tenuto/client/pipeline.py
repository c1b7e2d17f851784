"""Middleware: functions around a call, over its events.

A middleware takes a request and the next handler, and yields events: those of the next handler, or its own. Streamed
and drained calls go the same way; `request.stream` tells which it is. A second `MessageStart` tells whoever reads the
events that the reply began anew and that what came before is void.

Inside the client, events go in lists: those that one piece of the answer gave. To hand each of a hundred events through
every layer costs more than to decode it. A layer that has a method `listed` takes part in that; all others see one event
after the other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Generic, TypeAlias, TypeVar

from tenuto.core.events import StreamEvent
from tenuto.core.request import ChatRequest

__all__ = ["Lists", "Middleware", "Next", "apart", "closing", "compose", "gathered", "stacked"]

T = TypeVar("T")
E = TypeVar("E")
Next: TypeAlias = Callable[[ChatRequest], AsyncIterator[StreamEvent]]
Middleware: TypeAlias = Callable[[ChatRequest, Next], AsyncIterator[StreamEvent]]
Lists: TypeAlias = Callable[[ChatRequest], AsyncIterator[list[StreamEvent]]]
"""A handler whose events come in lists. `MessageDone` is the last of its list. Whoever is handed a list may empty it."""


class Closing(Generic[T]):
    """Close a stream of events at the end, if it can be closed: an iterator of one's own need not be a generator."""

    def __init__(self, events: AsyncIterator[T]) -> None:
        self._events = events

    async def __aenter__(self) -> AsyncIterator[T]:
        return self._events

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        close = getattr(self._events, "aclose", None)
        if close is not None:
            await close()


closing = Closing
"""The name under which it is used: `async with closing(next(request)) as events`."""


def compose(middleware: Iterable[Middleware], handler: Next) -> Next:
    """Put middleware around a handler; the first is the outermost."""
    for layer in reversed(tuple(middleware)):
        handler = partial(_through, layer, handler)
    return handler


def stacked(middleware: Iterable[Middleware], handler: Lists) -> Lists:
    """Put middleware around a handler whose events come in lists."""
    plain: list[Middleware] = []
    for layer in reversed(tuple(middleware)):
        listed = getattr(layer, "listed", None)
        if listed is None:
            plain.append(layer)
        else:
            handler = partial(_through, listed, _apart_in(plain, handler))
            plain = []
    return _apart_in(plain, handler)


def _apart_in(layers: list[Middleware], handler: Lists) -> Lists:
    """Put layers that see one event after the other around a handler; the first is the innermost."""
    return partial(gathered, compose(reversed(layers), partial(apart, handler))) if layers else handler


def _through(layer: Callable[[ChatRequest, T], AsyncIterator[E]], handler: T, request: ChatRequest) -> AsyncIterator[E]:
    return layer(request, handler)


async def apart(handler: Lists, request: ChatRequest) -> AsyncIterator[StreamEvent]:
    """Yield one event after the other."""
    async with closing(handler(request)) as lists:
        async for events in lists:
            for event in events:
                yield event
            events.clear()  # whoever waits for the next does not hold the last


async def gathered(handler: Next, request: ChatRequest) -> AsyncIterator[list[StreamEvent]]:
    """Yield each event as a list of its own."""
    async with closing(handler(request)) as events:
        async for event in events:
            yield [event]
