"""Trying again over events: what the reader has not seen may be tried anew, and nothing else.

A failed attempt must leave no trace with whoever reads the stream. So the events that only announce a reply
(`MessageStart`, `UsageUpdate`, and a `Failure`, after which the error comes) are held back until something of the reply
itself is there. A provider that answers 200, begins, and then reports that it is overloaded can so be asked again.

A drained call has nobody who looks at half a reply: its events pass at once, and it may be tried anew until its end. The
next attempt begins with a `MessageStart`, which voids what came before. Only a `Failure` is held back there, too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import TypeAlias

from tenuto.client.pipeline import Next
from tenuto.core.events import Event, Failure, MessageStart, UsageUpdate
from tenuto.core.request import ChatRequest

__all__ = ["Again", "Gate", "Sleep", "closing", "tried"]

Sleep: TypeAlias = Callable[[float], Awaitable[object]]
Again: TypeAlias = Callable[[ChatRequest, Exception], tuple[ChatRequest, float] | None]
"""Decides after an error: what to ask next and how many seconds to wait before, or None to let the error out."""

_ANNOUNCES = (MessageStart, UsageUpdate, Failure)


class Closing:
    """Close a stream of events at the end, if it can be closed: an iterator of one's own need not be a generator."""

    def __init__(self, events: AsyncIterator[Event]) -> None:
        self._events = events

    async def __aenter__(self) -> AsyncIterator[Event]:
        return self._events

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        close = getattr(self._events, "aclose", None)
        if close is not None:
            await close()


closing = Closing
"""The name under which it is used: `async with closing(next(request)) as events`."""


class Gate:
    """Holds back what must not reach the reader of an attempt that may fail.

    Once a streamed reply has begun to show, the gate is `open` and need not be asked any more.
    """

    __slots__ = ("_held", "_streamed", "open")

    def __init__(self, *, streamed: bool) -> None:
        self._streamed = streamed
        self._held: list[Event] = []
        self.open = False

    def take(self, event: Event) -> list[Event]:
        """Return what may pass now that this event is there."""
        if isinstance(event, _ANNOUNCES if self._streamed else Failure):
            self._held.append(event)
            return []
        self.open = self._streamed
        return [*self.left(), event] if self._held else [event]

    def left(self) -> list[Event]:
        """Hand out what is still held back: the attempt is over."""
        held, self._held = self._held, []
        return held


async def tried(request: ChatRequest, next: Next, again: Again, sleep: Sleep) -> AsyncIterator[Event]:
    """Yield the events of the first attempt that does not fail; `again` says what follows a failed one.

    Once anything of a streamed reply has reached the reader, its error is raised without asking.
    """
    while True:
        gate = Gate(streamed=request.stream)
        try:
            async with closing(next(request)) as events:
                async for event in events:
                    if gate.open:
                        yield event
                    else:
                        for ready in gate.take(event):
                            yield ready
            for ready in gate.left():
                yield ready
            return
        except Exception as error:
            following = None if gate.open else again(request, error)
            if following is None:
                for ready in gate.left():
                    yield ready
                raise
        request, delay = following
        if delay > 0:
            await sleep(delay)
