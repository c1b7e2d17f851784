"""A run as a stream of its events, and the queue between both."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Self

from tenuto.agent.events import AgentEvent, ToolProgress
from tenuto.client.reply import Reply
from tenuto.closable import AsyncClosable
from tenuto.core.events import StreamEvent
from tenuto.core.messages import Message
from tenuto.errors import TenutoError

if TYPE_CHECKING:
    from tenuto.agent.session import AsyncSession

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


class AsyncRun(AsyncClosable):
    """A run as a stream of its events. Use it in `async with`, and iterate over it.

    Leaving early cancels the run and records that. After `Retrying`, discard the events of the failed reply. The run waits
    while `MAX_QUEUED` events are not read.
    """

    def __init__(self, session: AsyncSession, messages: tuple[Message, ...], key: str = "") -> None:
        self._session = session
        self._messages = messages
        self._key = key
        self._events = EventQueue()
        self._task: asyncio.Task[Reply | None] | None = None

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

    def _start(self) -> asyncio.Task[Reply | None]:
        if self._events.closed:
            raise TenutoError("the run is closed")
        events = self._events
        self._session._readers.append(events)
        self._task = task = asyncio.create_task(self._session._run(self._messages, self._key))

        def end(task: asyncio.Task[Reply | None]) -> None:
            if not task.cancelled():
                task.exception()  # a reader that left early does not read it
            events.put(None)

        task.add_done_callback(end)
        weakref.finalize(self, _abandon, asyncio.get_running_loop(), task, events).atexit = False
        return task

    @property
    def reply(self) -> Reply:
        """The last reply; it is available once the run has ended."""
        task = self._task
        if task is None or not task.done():
            raise TenutoError("the run has not ended: read on")
        if task.cancelled():
            raise TenutoError("the run was closed before it ended: the session has the events until then")
        reply = task.result() or self._session.reply
        if reply is None:
            raise TenutoError("no work was pending, so no request was sent")
        return reply

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


def _abandon(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Reply | None], events: EventQueue) -> None:
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
