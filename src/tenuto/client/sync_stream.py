"""A reply while it arrives, for code that does not await: read in the background, handed over in handfuls."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError, wait
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from tenuto.client.background_loop import CANCEL_GRACE, POLL, BackgroundLoop, Submitted, waited
from tenuto.client.reply import Reply
from tenuto.client.stream import AsyncStream
from tenuto.core.events import ContentDelta, StreamEvent, TextDelta
from tenuto.errors import ClosedError, TenutoError

__all__ = ["EventSource", "Stream", "SyncStream"]

T = TypeVar("T")
E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)
_AHEAD = 4096
"""How many events may wait for a reader before no more are read."""


class EventSource(Protocol[E_co]):
    """What can be read in the background: a stream, or a run of an agent."""

    def __aiter__(self) -> AsyncIterator[E_co]: ...

    @property
    def reply(self) -> Reply:
        """The whole reply, once the events have ended."""

    async def close(self) -> None:
        """Close it."""


class _EventPump(Generic[E]):
    """Reads a stream in the background and hands its events over in handfuls. It knows nothing of who takes them.

    What comes in one turn of the loop is handed over when the turn ends; nothing at all is the end.
    """

    def __init__(self, stream: EventSource[E]) -> None:
        self._stream = stream
        self._room: asyncio.Event | None = None
        self._read = self._handed = 0  # each is written by one thread only
        self.queue: SimpleQueue[list[E]] = SimpleQueue()

    def ahead(self) -> int:
        """How many events were read that nobody took."""
        return self._read - self._handed

    def handed(self, count: int, bridge: BackgroundLoop) -> None:
        """Somebody took so many: there may be room for more."""
        self._handed += count
        room = self._room
        if room is not None and self.ahead() < _AHEAD:
            bridge.soon(room.set)

    async def run(self) -> None:
        """Read to the end."""
        loop, batch = asyncio.get_running_loop(), list[E]()

        def flush() -> None:
            if batch:
                self.queue.put(batch.copy())
                batch.clear()

        try:
            async for event in self._stream:
                if not batch:
                    loop.call_soon(flush)
                batch.append(event)
                self._read += 1
                if self.ahead() > _AHEAD:
                    await self._made_room()
        finally:
            flush()

    async def _made_room(self) -> None:
        self._room = asyncio.Event()
        if self.ahead() > _AHEAD:
            await self._room.wait()
        self._room = None


class SyncStream(Generic[E]):
    """What happens, while it happens: use it in a `with`, and iterate over its events.

    It begins with the first event that is asked for. Leaving the `with` early ends it.
    """

    def __init__(self, bridge: BackgroundLoop, stream: EventSource[E]) -> None:
        self._bridge = bridge
        self._stream = stream
        self._pump = _EventPump(stream)
        self._running: Submitted[None] | None = None
        self._pending: deque[E] = deque()
        self._ended = self._closed = False
        self._lock = threading.RLock()
        self._pid = os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[E]:
        return self

    def __next__(self) -> E:
        while True:
            with suppress(IndexError):  # another thread may take what this one waited for
                return self._pending.popleft()
            self._fill()

    def text_deltas(self) -> Iterator[str]:
        """Yield only the text of the first answer, piece by piece."""
        for event in self:
            if isinstance(event, ContentDelta) and type(event.delta) is TextDelta and event.choice_index == 0:
                yield event.delta.text

    def drain(self) -> Reply:
        """Read what is left, and return the reply."""
        for _ in self:
            pass
        return self.reply

    @property
    def reply(self) -> Reply:
        """The reply, once the events have ended; what arrived of it, if the stream was cancelled or closed.

        Raise `TenutoError` before the end, and if the stream failed.
        """
        return self._stream.reply

    def close(self) -> None:
        """Close the connection. To do so twice is harmless."""
        self._closed = True
        running = self._running
        under_way = running is not None and not running.future.done() and not self._bridge.closed
        if under_way and self._pid == os.getpid():  # in a process that was forked off, the line is the parent's
            self._bridge.run(self._stopped(self._stream.close))

    def _fill(self) -> None:
        if self._ended:
            raise StopIteration
        running = self._started()
        try:
            came = self._taken()
        except BaseException:  # an interrupt; there may be no `with` that would close the stream
            self._closed = True
            running.cancel()
            wait((running.future,), CANCEL_GRACE)
            raise
        if came:
            self._pending.extend(came)
            self._pump.handed(len(came), self._bridge)
            return
        self._ended = True
        self._pump.queue.put([])  # another thread may wait for the end, too
        try:
            waited(running.future)  # raises what the stream ended with
        except CancelledError:
            if self._bridge.closed and not self._closed:
                raise self._bridge.gone() from None
            if not self._closed:
                raise TenutoError("the stream was cancelled from inside, by a middleware") from None
        raise StopIteration

    def _started(self) -> Submitted[None]:
        self._own()
        with self._lock:
            if self._running is None:
                if self._closed:
                    raise ClosedError("the stream is closed")
                self._running = running = self._bridge.start(self._pump.run())
                queue = self._pump.queue
                running.future.add_done_callback(lambda _: queue.put([]))
                weakref.finalize(self, _abandon, running, self._bridge).atexit = False
            return self._running

    def _own(self) -> None:
        if self._pid != os.getpid():
            raise TenutoError("the stream belongs to the process that this one was forked off from")

    def _taken(self) -> list[E]:
        while True:
            try:
                return self._pump.queue.get(timeout=POLL)
            except Empty:
                continue

    async def _stopped(self, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        result = await act()
        if self._running is not None:
            self._running.cancel()
        return result


def _abandon(running: Submitted[None], bridge: BackgroundLoop) -> None:
    """End a stream that was dropped without `close`, and wait for its end unless this is the loop's own thread."""
    running.cancel()
    if not bridge.is_own_thread():
        wait((running.future,), CANCEL_GRACE)


class Stream(SyncStream[StreamEvent]):
    """A reply while it arrives: use it in a `with`, and iterate over its events.

    The request goes out with the first event that is asked for. Leaving the `with` early closes the connection.
    """

    def __init__(self, bridge: BackgroundLoop, stream: AsyncStream) -> None:
        super().__init__(bridge, stream)
        self._replying = stream

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the provider's answer, as soon as it began."""
        return self._replying.headers

    def cancel(self) -> Reply:
        """Stop, and return what has come: an incomplete reply, whose unfinished blocks carry no token.

        Any thread may do so; whoever iterates over the stream at that moment sees it end.
        """
        self._own()
        self._closed = True
        return self._bridge.run(self._stopped(self._replying.cancel))
