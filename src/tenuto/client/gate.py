"""Trying again over events: what the reader has not seen may be tried anew, and nothing else.

A failed attempt must leave no trace with whoever reads the stream. So the events that only announce a reply
(`MessageStart`, `UsageUpdate`, and a `ErrorEvent`, after which the error comes) are held back until something of the reply
itself is there. A provider that answers 200, begins, and then reports that it is overloaded can so be asked again.

A drained call has nobody who looks at half a reply: its events pass at once, and it may be tried anew until its end. The
next attempt begins with a `MessageStart`, which voids what came before. Only a `ErrorEvent` is held back there, too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

from tenuto.client.pipeline import Lists, closing
from tenuto.core.events import ErrorEvent, MessageStart, StreamEvent, UsageUpdate
from tenuto.core.request import ChatRequest

__all__ = ["Again", "HoldBack", "Sleep", "retry_events"]

Sleep: TypeAlias = Callable[[float], Awaitable[object]]
Again: TypeAlias = Callable[[ChatRequest, Exception], tuple[ChatRequest, float] | None]
"""Decides after an error: what to ask next and how many seconds to wait before, or None to let the error out."""

_ANNOUNCES = (MessageStart, UsageUpdate, ErrorEvent)


class HoldBack:
    """Holds back what must not reach the reader of an attempt that may fail.

    Once a streamed reply has begun to show, the gate is `open` and need not be asked any more.
    """

    __slots__ = ("_held", "_streamed", "open")

    def __init__(self, *, streamed: bool) -> None:
        self._streamed = streamed
        self._held: list[StreamEvent] = []
        self.open = False

    def take(self, events: list[StreamEvent]) -> list[StreamEvent]:
        """Return what may pass now that these events are there."""
        if self._streamed:
            self.open = not all(isinstance(event, _ANNOUNCES) for event in events)
            self._held += events
            return self.left() if self.open else []
        if not self._held and ErrorEvent not in map(type, events):
            return events
        ready: list[StreamEvent] = []
        for event in events:
            if not isinstance(event, ErrorEvent):
                ready += self.left()
                ready.append(event)
            else:
                self._held.append(event)
        return ready

    def left(self) -> list[StreamEvent]:
        """Hand out what is still held back: the attempt is over."""
        held, self._held = self._held, []
        return held


async def retry_events(
    request: ChatRequest, next: Lists, again: Again, sleep: Sleep
) -> AsyncIterator[list[StreamEvent]]:
    """Yield the events of the first attempt that does not fail; `again` says what follows a failed one.

    Once anything of a streamed reply has reached the reader, its error is raised without asking.
    """
    while True:
        gate = HoldBack(streamed=request.stream)
        try:
            async with closing(next(request)) as lists:
                async for events in lists:
                    yield events if gate.open else gate.take(events)
            yield gate.left()
            return
        except Exception as error:
            following = None if gate.open else again(request, error)
            if following is None:
                yield gate.left()
                raise
        request, delay = following
        if delay > 0:
            await sleep(delay)
