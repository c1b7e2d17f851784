"""A stream for code that does not await: a background loop reads it, and the events are passed on in batches."""

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

from tenuto.client.background_loop import CANCEL_GRACE, POLL, BackgroundLoop, Submitted, wait_for_result
from tenuto.client.reply import Reply
from tenuto.client.stream import AsyncStream
from tenuto.core.events import ContentDelta, StreamEvent, TextDelta
from tenuto.errors import ClosedError, TenutoError

T = TypeVar("T")
E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)
_MAX_AHEAD = 4096
"""The number of events that may wait for the reader before the loop stops reading."""


class EventSource(Protocol[E_co]):
    """What a background loop can read: a stream, or the run of an agent."""

    def __aiter__(self) -> AsyncIterator[E_co]: ...

    @property
    def reply(self) -> Reply:
        """The complete reply, after the last event."""

    async def close(self) -> None:
        """End it."""


class _EventPump(Generic[E]):
    """Reads a stream on the loop and puts its events into a queue; an empty batch is the end.

    The events of one iteration of the loop are one batch: a batch costs a wake-up. The pump does not refer to the
    `SyncStream`, which is closed when it is garbage collected.
    """

    def __init__(self, stream: EventSource[E]) -> None:
        self._stream = stream
        self._has_room: asyncio.Event | None = None
        self._read = self._taken = 0  # each is written by one thread only
        self.queue: SimpleQueue[list[E]] = SimpleQueue()

    def ahead(self) -> int:
        """Return the number of events that wait for the reader."""
        return self._read - self._taken

    def take(self) -> list[E]:
        """Wait for the next batch."""
        while True:
            with suppress(Empty):
                return self.queue.get(timeout=POLL)

    def resume(self, count: int, loop: BackgroundLoop) -> None:
        """Continue to read if there is room after the reader took `count` events."""
        self._taken += count
        has_room = self._has_room
        if has_room is not None and self.ahead() < _MAX_AHEAD:
            loop.call_soon(has_room.set)

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
                if self.ahead() > _MAX_AHEAD:
                    await self._wait_for_room()
        finally:
            flush()

    async def _wait_for_room(self) -> None:
        self._has_room = asyncio.Event()
        if self.ahead() > _MAX_AHEAD:  # the reader may have taken some before it could see the event
            await self._has_room.wait()
        self._has_room = None


class SyncStream(Generic[E]):
    """Events while they happen: use it in a `with`, and iterate over it.

    It starts when the first event is requested. Leaving the `with` early ends it.
    """

    def __init__(self, loop: BackgroundLoop, stream: EventSource[E]) -> None:
        self._loop = loop
        self._stream = stream
        self._pump = _EventPump(stream)
        self._submitted: Submitted[None] | None = None
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
            with suppress(IndexError):  # another thread may take the event that this thread waited for
                return self._pending.popleft()
            self._fill()

    def text_deltas(self) -> Iterator[str]:
        """Yield only the text of the first choice, delta by delta."""
        for event in self:
            if isinstance(event, ContentDelta) and type(event.delta) is TextDelta and event.choice_index == 0:
                yield event.delta.text

    def drain(self) -> Reply:
        """Read the remaining events and return the reply."""
        for _ in self:
            pass
        return self.reply

    @property
    def reply(self) -> Reply:
        """The reply, after the last event; the part that arrived, if the stream was cancelled or closed.

        Raise `TenutoError` before the end, and if the stream failed.
        """
        return self._stream.reply

    def close(self) -> None:
        """Close the connection. A second call has no effect."""
        self._closed = True
        submitted = self._submitted
        is_running = submitted is not None and not submitted.future.done() and not self._loop.closed
        if is_running and self._pid == os.getpid():  # in a forked process, the connection belongs to the parent
            self._loop.run(self._stop(self._stream.close))

    def _fill(self) -> None:
        """Wait for the next batch. At the end, raise the error of the stream or `StopIteration`."""
        if self._ended:
            raise StopIteration
        submitted = self._start()
        try:
            batch = self._pump.take()
        except BaseException:  # an interrupt; without a `with`, nothing else closes the stream
            self._closed = True
            submitted.cancel()
            wait((submitted.future,), CANCEL_GRACE)
            raise
        if batch:
            self._pending.extend(batch)
            self._pump.resume(len(batch), self._loop)
            return
        self._ended = True
        self._pump.queue.put([])  # another thread may wait for the end, too
        try:
            wait_for_result(submitted.future)
        except CancelledError:
            if self._loop.closed and not self._closed:
                raise self._loop.closed_error() from None
            if not self._closed:
                raise TenutoError("a middleware cancelled the stream") from None
        raise StopIteration

    def _start(self) -> Submitted[None]:
        self._check_process()
        with self._lock:
            if self._submitted is None:
                if self._closed:
                    raise ClosedError("the stream is closed")
                self._submitted = submitted = self._loop.submit(self._pump.run())
                queue = self._pump.queue
                submitted.future.add_done_callback(lambda _: queue.put([]))
                weakref.finalize(self, _on_collected, submitted, self._loop).atexit = False
            return self._submitted

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise TenutoError("the stream belongs to the parent of this forked process")

    async def _stop(self, stop: Callable[[], Coroutine[Any, Any, T]]) -> T:
        result = await stop()
        if self._submitted is not None:
            self._submitted.cancel()
        return result


def _on_collected(submitted: Submitted[None], loop: BackgroundLoop) -> None:
    """End a stream that was not closed, and wait for its end unless this is the thread of the loop."""
    submitted.cancel()
    if not loop.is_own_thread():
        wait((submitted.future,), CANCEL_GRACE)


class Stream(SyncStream[StreamEvent]):
    """A reply while it arrives: use it in a `with`, and iterate over its events.

    The request is sent when the first event is requested. Leaving the `with` early closes the connection.
    """

    _stream: AsyncStream

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the provider's response, as soon as it starts."""
        return self._stream.headers

    def cancel(self) -> Reply:
        """Stop and return the part that has arrived: an incomplete reply whose unfinished blocks have no signature.

        Any thread may call it. A thread that iterates over the stream at that moment sees it end.
        """
        self._check_process()
        self._closed = True
        return self._loop.run(self._stop(self._stream.cancel))
