"""A run as a stream of its events, and the queue between both."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Generic, Self

from msgspec import UNSET

import tenuto  # annotations load `tenuto.AsyncSession` when they are evaluated
from tenuto.agent.events import AgentEvent, ToolProgress
from tenuto.agent.partial_output import PartialReader
from tenuto.agent.result import Out, Result
from tenuto.agent.run_settings import RunSettings
from tenuto.client.reply import Reply
from tenuto.closable import AsyncClosable
from tenuto.core.events import StreamEvent
from tenuto.core.messages import Message
from tenuto.errors import TenutoError

MAX_QUEUED = 256
"""The run waits while this number of events is unread. The events of one step that follow at once may exceed it."""


class EventQueue:
    def __init__(self) -> None:
        self._queue: asyncio.Queue[StreamEvent | AgentEvent | None] = asyncio.Queue()
        self._room = asyncio.Event()
        self.closed = False

    def put(self, event: StreamEvent | AgentEvent | None) -> None:
        """Add an event; None ends the stream. Progress is omitted while the queue is full."""
        if not (isinstance(event, ToolProgress) and self.is_full):
            self._queue.put_nowait(event)

    async def get(self) -> StreamEvent | AgentEvent | None:
        event = await self._queue.get()
        if not self.is_full:
            self._room.set()
        return event

    @property
    def is_full(self) -> bool:
        return self._queue.qsize() >= MAX_QUEUED and not self.closed

    async def wait_for_room(self) -> None:
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    def close(self) -> None:
        """The reader is gone: the run does not wait for it any more."""
        self.closed = True
        self._room.set()


class AsyncRun(AsyncClosable, Generic[Out]):
    """A run as a stream of its events. Use it in `async with`, and iterate over it.

    Leaving early cancels the run and records that. After `Retrying`, discard the events of the failed reply. The run waits
    while `MAX_QUEUED` events are not read.
    """

    def __init__(
        self,
        session: tenuto.AsyncSession[Any, Any],
        messages: tuple[Message, ...],
        settings: RunSettings,
    ) -> None:
        self._session = session
        self._work = partial(session._run, messages, settings)
        self._events = EventQueue()
        self._task: asyncio.Task[Result[Any, Any] | None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent | AgentEvent:
        task = self._task or self._start()
        try:
            event = await self._events.get()
        except asyncio.CancelledError:
            await self.close()
            raise
        if event is not None:
            return event
        self._events.put(None)  # for another reader, and for the next call
        await self.close()
        if not task.cancelled():  # after close() by another task, the events just end
            task.result()
        raise StopAsyncIteration

    def _start(self) -> asyncio.Task[Result[Any, Any] | None]:
        if self._events.closed:
            raise TenutoError("the run is closed")
        events = self._events
        self._session._readers.append(events)
        self._task = task = asyncio.create_task(self._work())

        def end(task: asyncio.Task[Result[Any, Any] | None]) -> None:
            if not task.cancelled():
                task.exception()  # a reader that left early does not read it
            events.put(None)

        task.add_done_callback(end)
        weakref.finalize(self, _abandon, asyncio.get_running_loop(), task, events).atexit = False
        return task

    async def partial_output(self) -> AsyncIterator[Any]:
        """Yield the output as it grows: JSON values without the parts that are not complete yet, at last the output itself.

        The last string may grow, too. Text is yielded from its start. After a repair it starts again.
        """
        reader = PartialReader()
        async for event in self:
            value = reader.feed(event, self._session._log.next.configured)
            if value is not UNSET:
                yield value
        if self.result.value is not UNSET:
            yield self.result.value

    @property
    def reply(self) -> Reply:
        """The last reply; it is available once the run has ended."""
        result = self._ended()
        reply = self._session.reply if result is None else result.reply
        if reply is None:
            raise TenutoError("no work was pending, so no request was sent")
        return reply

    @property
    def result(self) -> Result[Out, Any]:
        """The result; it is available once the run has ended."""
        result = self._ended()
        if result is None:
            raise TenutoError("no work was pending, so no request was sent")
        return result

    def _ended(self) -> Result[Any, Any] | None:
        task = self._task
        if task is None or not task.done():
            raise TenutoError("the run has not ended: read on")
        if task.cancelled():
            raise TenutoError("the run was closed before it ended: the session has the events until then")
        return task.result()

    async def cancel(self) -> None:
        """Cancel the run; its results so far are saved."""
        await self.close()

    async def close(self) -> None:
        """Cancel the run, if it has not ended."""
        self._events.close()
        task = self._task
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task})


def _abandon(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Result[Any, Any] | None], events: EventQueue) -> None:
    """Cancel a run whose stream was dropped. The garbage collector may call this in any thread."""
    events.closed = True
    try:
        here = asyncio.get_running_loop() is loop
    except RuntimeError:
        here = False
    if here:  # at once, so that the next `send` sees that the run is ending
        task.cancel()
    elif not loop.is_closed():
        loop.call_soon_threadsafe(task.cancel)
