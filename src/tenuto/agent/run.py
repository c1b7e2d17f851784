"""A run while it goes on, as a stream of what happens in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Protocol, Self

from tenuto.agent.events import AgentEvent
from tenuto.client.reply import Reply
from tenuto.core.events import Event
from tenuto.core.messages import Message
from tenuto.errors import TenutoError

__all__ = ["AsyncRun", "Runs"]


class Runs(Protocol):
    """What a run needs of the session whose it is."""

    reply: Reply | None

    def listen(self, hear: Callable[[Event | AgentEvent], object]) -> Callable[[], None]:
        """Have a function called for everything that happens from now on; return what ends that."""

    async def run(self, said: tuple[Message, ...]) -> Reply | None:
        """Say something, if there is something to say, and do what is owed. Return the last reply that came."""


class AsyncRun:
    """A run while it goes on: `async with` it and iterate over what happens. Leaving early cancels the run, and says so.

    What the model says comes as the events of a stream; after `Retrying`, what came of that reply is void.
    """

    def __init__(self, session: Runs, said: tuple[Message, ...]) -> None:
        self._session = session
        self._said = said
        self._task: asyncio.Task[Reply | None] | None = None
        self._events: AsyncIterator[Event | AgentEvent] | None = None
        self._forget: Callable[[], None] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[Event | AgentEvent]:
        if self._events is None:
            if self._closed:
                raise TenutoError("the run is closed")
            self._events = self._heard()
        return self._events

    async def _heard(self) -> AsyncIterator[Event | AgentEvent]:
        queue: asyncio.Queue[Event | AgentEvent | None] = asyncio.Queue()
        self._forget = self._session.listen(queue.put_nowait)
        self._task = task = asyncio.create_task(self._session.run(self._said))
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            if not task.cancelled():  # whoever closed it from elsewhere sees it end
                task.result()
        finally:
            await self.close()

    @property
    def reply(self) -> Reply:
        """The last reply; it is there once the run has ended."""
        task = self._task
        if task is None or not task.done():
            raise TenutoError("the run has not ended: read on")
        if task.cancelled():
            raise TenutoError("the run was closed before it had ended: the session has what came until then")
        reply = task.result() or self._session.reply
        if reply is None:
            raise TenutoError("nothing was owed, so the model was not asked")
        return reply

    async def cancel(self) -> None:
        """End the run; what it did is kept."""
        await self.close()

    async def close(self) -> None:
        """End the run, if it has not ended."""
        self._closed = True
        if self._forget is not None:
            self._forget()
        task = self._task
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # whoever leaves early does not want to know
