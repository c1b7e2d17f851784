"""A run while it goes on, as a stream of what happens in it."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from tenuto.agent.events import AgentEvent
from tenuto.client.reply import Reply
from tenuto.core.events import StreamEvent
from tenuto.core.messages import Message
from tenuto.errors import TenutoError

__all__ = ["AsyncRun", "Runs"]


class Runs(Protocol):
    """What a run needs of the session whose it is."""

    reply: Reply | None

    def listen(self, hear: Callable[[StreamEvent | AgentEvent], object]) -> Callable[[], None]:
        """Have a function called for everything that happens from now on; return what ends that."""

    async def run(self, said: tuple[Message, ...]) -> Reply | None:
        """Say something, if there is something to say, and do what is owed. Return the last reply that came."""


class AsyncRun:
    """A run as a stream of its events. Use it in `async with`, and iterate over it.

    Leaving early cancels the run and records that. After `Retrying`, the events of the failed reply are void.
    """

    def __init__(self, session: Runs, said: tuple[Message, ...]) -> None:
        self._session = session
        self._said = said
        self._queue: asyncio.Queue[StreamEvent | AgentEvent | None] = asyncio.Queue()
        self._task: asyncio.Task[Reply | None] | None = None
        self._stop_listening: Callable[[], None] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent | AgentEvent:
        task = self._task or self._start()
        try:
            event = await self._queue.get()
        except asyncio.CancelledError:
            await self.close()
            raise
        if event is not None:
            return event
        self._queue.put_nowait(None)  # for another reader, and for the next call
        await self.close()
        if not task.cancelled():  # after close() by another task, the events just end
            task.result()
        raise StopAsyncIteration

    def _start(self) -> asyncio.Task[Reply | None]:
        if self._closed:
            raise TenutoError("the run is closed")
        queue = self._queue
        self._stop_listening = self._session.listen(queue.put_nowait)
        self._task = task = asyncio.create_task(self._session.run(self._said))

        def end(task: asyncio.Task[Reply | None]) -> None:
            if not task.cancelled():
                task.exception()  # a reader who left early is not interested
            queue.put_nowait(None)

        task.add_done_callback(end)
        weakref.finalize(self, _abandon, asyncio.get_running_loop(), task, self._stop_listening).atexit = False
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
        self._closed = True
        if self._stop_listening is not None:
            self._stop_listening()
        task = self._task
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task})


def _abandon(
    loop: asyncio.AbstractEventLoop, task: asyncio.Task[Reply | None], stop_listening: Callable[[], None]
) -> None:
    """Cancel a run whose stream was dropped. The garbage collector may call this in any thread."""
    stop_listening()
    try:
        here = asyncio.get_running_loop() is loop
    except RuntimeError:
        here = False
    if here:
        task.cancel()
    elif not loop.is_closed():
        loop.call_soon_threadsafe(task.cancel)
