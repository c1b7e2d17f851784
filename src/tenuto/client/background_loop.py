"""An event loop in a background thread, for code that does not await, and the streams that it reads.

Any thread may run coroutines on it, also a thread with a running loop. It ends when its owner is closed or garbage
collected, or at the end of the program. A forked process gets its own loop.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import warnings
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError, Future, InvalidStateError, wait
from contextlib import suppress
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from tenuto.client.reply import Reply
from tenuto.client.stream import AsyncStream
from tenuto.closable import Closable
from tenuto.core.events import ContentDelta, StreamEvent, TextDelta
from tenuto.errors import ClosedError, ConnectionFailed, TenutoError

T = TypeVar("T")
E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)
_POLL = 0.2 if sys.platform == "win32" else None
"""Windows: Ctrl-C does not interrupt a wait without a timeout, so waits are repeated."""
_CANCEL_GRACE = 5.0  # seconds that a cancelled coroutine may take to close its connection
_CLOSE_GRACE = 1.0  # seconds that a call may take to end by itself when its client is closed
_MAX_AHEAD = 4096  # the number of events that may wait for the reader before the loop stops reading


class Submitted(Generic[T]):
    """A coroutine for the loop. Its future is done when the coroutine has really ended, also if it was cancelled.

    It exists before it starts: an interrupt at any line of the caller can then stop it.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None
        self._exit: BaseException | None = None
        self.future: Future[T] = Future()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        loop.call_soon_threadsafe(self._start, loop, copy_context())

    def cancel(self) -> None:
        """Cancel the coroutine. Do not wait for its end."""
        if self._loop is None:
            self.abandon()
        else:
            _call_soon(self._loop, lambda: self._task.cancel() if self._task is not None else self.abandon())

    def stop(self) -> None:
        """Cancel the coroutine, unless it has ended, and wait for its end unless this is the thread of its loop."""
        if not self.future.done():
            self.cancel()
            with suppress(RuntimeError):  # no loop runs in this thread
                if asyncio.get_running_loop() is self._loop:
                    return
            wait((self.future,), _CANCEL_GRACE)

    def abandon(self) -> None:
        """End the future of a coroutine that does not start, or whose loop has ended."""
        with suppress(InvalidStateError):
            self.future.set_exception(CancelledError())
        if self._task is None:
            self._coroutine.close()

    def _start(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        if self.future.done():
            self._coroutine.close()
            return
        self._task = loop.create_task(self._run(), context=context)
        self._task.add_done_callback(self._on_done)

    async def _run(self) -> T:
        try:
            return await self._coroutine
        except (SystemExit, KeyboardInterrupt) as exc:  # raised in the calling thread: it must not end the loop
            self._exit = exc
            raise asyncio.CancelledError from None

    def _on_done(self, task: asyncio.Task[T]) -> None:
        error = self._exit or CancelledError() if task.cancelled() else task.exception()
        with suppress(InvalidStateError):  # abandoned
            if error is None:
                self.future.set_result(task.result())
            else:
                self.future.set_exception(error)


class BackgroundLoop:
    """An event loop in a thread, which the first coroutine starts.

    `close_owner` is the last coroutine on the loop. `owner` is the class name in messages. `warn`: warn if the owner was
    not closed.
    """

    def __init__(
        self, close_owner: Callable[[], Coroutine[Any, Any, None]], *, owner: str = "Client", warn: bool = True
    ) -> None:
        self._close_owner = close_owner
        self._owner = owner
        self._warn = warn
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._finalizer: weakref.finalize[Any, Any] | None = None
        self._live: dict[int, Submitted[Any]] = {}
        self._close_errors: list[BaseException] = []
        self.closed = False

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end. An interrupt cancels it and is raised after its end, a second one at once."""
        submitted = Submitted(coroutine)
        try:
            self.submit(submitted)
            while True:
                try:
                    return submitted.future.result(_POLL)
                except TimeoutError:
                    if submitted.future.done():
                        raise
        except CancelledError:
            if self.closed:
                raise self.closed_error() from None
            raise
        except BaseException:
            submitted.stop()
            raise

    def submit(self, submitted: Submitted[Any]) -> None:
        """Start a coroutine. If this is refused, the future is cancelled."""
        owner = self._owner
        if self.is_own_thread():
            submitted.abandon()
            raise RuntimeError(f"this code runs on the loop of the {owner.lower()}: use Async{owner} in it")
        with self._lock:
            if self.closed:
                submitted.abandon()
                raise ClosedError(f"the {owner.lower()} is closed")
            loop, live, key = self._running_loop(), self._live, id(submitted)
            live[key] = submitted
            # the callback must not refer to self, which is closed when it is collected
            submitted.future.add_done_callback(lambda _: live.pop(key, None))
            submitted.start(loop)

    def is_own_thread(self) -> bool:
        """Tell whether the caller runs in the thread of the loop, which must not wait for the loop."""
        return self._thread is threading.current_thread()

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call a function on the loop, if it runs."""
        if self._loop is not None:
            _call_soon(self._loop, function)

    def closed_error(self) -> ConnectionFailed:
        return ConnectionFailed(f"the {self._owner.lower()} was closed", retryable=False)

    def close(self) -> None:
        """Close the owner, stop the loop, wait for its thread and raise the error of the close. Running calls fail."""
        with self._lock:
            self.closed = True
        if self._loop is not None and self._finalizer is not None and self._finalizer.detach() is not None:
            _call_soon(self._loop, self._loop.stop)  # only once: a second stop would interrupt the close
        thread = self._thread
        if thread is None or self._pid != os.getpid() or self.is_own_thread():
            return
        thread.join(_CANCEL_GRACE)
        if not thread.is_alive():
            for submitted in tuple(self._live.values()):
                submitted.abandon()
        if self._close_errors:
            raise self._close_errors.pop()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop. A forked process has no threads of its parent and starts a new loop."""
        pid = os.getpid()
        if self._loop is None or self._pid != pid:
            loop = asyncio.new_event_loop()
            arguments = (loop, self._close_owner, self._close_errors)
            thread = threading.Thread(target=_run_loop, args=arguments, name="tenuto", daemon=True)
            thread.start()
            self._loop, self._thread, self._pid = loop, thread, pid
            self._live.clear()
            self._finalizer = weakref.finalize(
                self, _on_collected, loop, thread, pid, self._owner if self._warn else ""
            )
        return self._loop


def _run_loop(
    loop: asyncio.AbstractEventLoop, close_owner: Callable[[], Coroutine[Any, Any, None]], errors: list[BaseException]
) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(_close_all(close_owner, errors))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _close_all(close_owner: Callable[[], Coroutine[Any, Any, None]], errors: list[BaseException]) -> None:
    """Close the owner and add its error to `errors`. Running tasks may then end by themselves, or are cancelled."""
    results = await asyncio.gather(close_owner(), return_exceptions=True)
    errors += [result for result in results if isinstance(result, BaseException)]
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    if tasks:
        _, tasks = await asyncio.wait(tasks, timeout=_CLOSE_GRACE)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # the loop is closed, so its coroutines have ended
        loop.call_soon_threadsafe(function)


def _on_collected(loop: asyncio.AbstractEventLoop, thread: threading.Thread, pid: int, owner: str) -> None:
    """Stop the loop of an owner that was not closed. `owner` is empty if no warning is wanted."""
    if pid != os.getpid():
        return
    try:
        if owner:
            warnings.warn(f"a {owner} was not closed", ResourceWarning, stacklevel=2)
    finally:
        _call_soon(loop, loop.stop)
        if thread is not threading.current_thread():
            thread.join(_CANCEL_GRACE)


# --- streams ----------------------------------------------------------------------------------------------------------


class EventSource(Protocol[E_co]):
    """What a background loop can read: a stream, or the run of an agent."""

    def __aiter__(self) -> AsyncIterator[E_co]: ...
    @property
    def reply(self) -> Reply: ...
    async def close(self) -> None: ...


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

    def take(self, loop: BackgroundLoop) -> list[E]:
        """Wait for the next batch. Continue to read if there is room then."""
        batch: list[E] | None = None
        while batch is None:
            with suppress(Empty):
                batch = self.queue.get(timeout=_POLL)
        self._taken += len(batch)
        if self._has_room is not None and self._read - self._taken < _MAX_AHEAD:
            loop.call_soon(self._has_room.set)
        return batch

    async def run(self) -> None:
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
                if self._read - self._taken > _MAX_AHEAD:
                    self._has_room = asyncio.Event()
                    if self._read - self._taken > _MAX_AHEAD:  # the reader may have taken some before it saw the event
                        await self._has_room.wait()
                    self._has_room = None
        finally:
            flush()


class SyncStream(Closable, Generic[E]):
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
        self._check_process()
        try:
            submitted = self._start()
            batch = self._pump.take(self._loop)
        except BaseException:  # an interrupt; without a `with`, nothing else closes the stream
            self._closed = True
            if self._submitted is not None:
                self._submitted.stop()
            raise
        if batch:
            self._pending.extend(batch)
            return
        self._ended = True
        self._pump.queue.put([])  # another thread may wait for the end, too
        try:
            submitted.future.result()
        except CancelledError:
            if not self._closed:
                cancelled = TenutoError("a middleware cancelled the stream")
                raise (self._loop.closed_error() if self._loop.closed else cancelled) from None
        raise StopIteration

    def _start(self) -> Submitted[None]:
        with self._lock:
            if self._submitted is None:
                if self._closed:
                    raise ClosedError("the stream is closed")
                self._submitted = submitted = Submitted(self._pump.run())
                queue = self._pump.queue
                submitted.future.add_done_callback(lambda _: queue.put([]))
                weakref.finalize(self, submitted.stop).atexit = False
                self._loop.submit(submitted)
            return self._submitted

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise TenutoError("the stream belongs to the parent of this forked process")

    async def _stop(self, stop: Callable[[], Coroutine[Any, Any, T]]) -> T:
        result = await stop()
        if self._submitted is not None:
            self._submitted.cancel()
        return result


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
