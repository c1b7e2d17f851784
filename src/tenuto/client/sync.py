"""The door for code that does not await: the same client, on a loop of its own in the background.

Nothing is written twice: each method here runs the coroutine of its namesake. Any thread may call, also one whose own
loop is running (a notebook). Ctrl-C cancels the request and is raised when it has let go of its line.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, InvalidStateError, wait
from contextlib import suppress
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from tenuto.client.client import AsyncClient
from tenuto.client.options import ChatParameters, ClientOptions, Timeouts
from tenuto.client.stream import AsyncStream
from tenuto.core.events import ContentDelta, Event, TextDelta
from tenuto.core.request import ChatRequest
from tenuto.errors import ConnectionFailed, TenutoError

if TYPE_CHECKING:
    from tenuto.client.messages import Said
    from tenuto.client.pipeline import Middleware
    from tenuto.client.reply import Reply
    from tenuto.client.structured import Structured
    from tenuto.core.embedding import EmbedRequest, EmbedResponse
    from tenuto.wire.listing import ModelInfo

__all__ = ["Client", "Stream"]

T = TypeVar("T")
_POLL = 0.2 if sys.platform == "win32" else None
"""A wait without end cannot be interrupted by Ctrl-C on Windows: there, waits are cut into pieces."""
_OWN_END = 1.0
"""How long a call may take to fail by itself when its client is closed."""
_LAST_WORDS = 5.0
"""How long a cancelled coroutine may take to let go of its line."""
_AHEAD = 4096
"""How many events may wait for a reader before no more are read."""


class _Left(Exception):
    """Carries what would end the loop's thread to whoever called: it is meant for him."""

    def __init__(self, left: BaseException) -> None:
        self.left = left


async def _carried(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        return await coroutine
    except (SystemExit, KeyboardInterrupt) as exc:
        raise _Left(exc) from None


class Running(Generic[T]):
    """A coroutine that runs on the loop. Its future is done when the coroutine has really ended, cancelled or not."""

    def __init__(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> None:
        self._loop = loop
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None
        self.future: Future[T] = Future()
        loop.call_soon_threadsafe(self._begin, copy_context())

    def cancel(self) -> None:
        """Ask it to end."""
        with suppress(RuntimeError):  # the loop is closed, and so it has ended
            self._loop.call_soon_threadsafe(self._cancel)

    def drop(self) -> None:
        """Its loop has ended: nothing will come of it any more."""
        if not self.future.done():
            if self._task is None:
                self._coroutine.close()
            with suppress(InvalidStateError):
                self.future.set_exception(CancelledError())

    def _begin(self, context: Context) -> None:
        self._task = self._loop.create_task(_carried(self._coroutine), context=context)
        self._task.add_done_callback(self._ended)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _ended(self, task: asyncio.Task[T]) -> None:
        error = CancelledError() if task.cancelled() else task.exception()
        if error is None:
            self.future.set_result(task.result())
        else:
            self.future.set_exception(error.left if isinstance(error, _Left) else error)


class Bridge:
    """A loop in a thread, started by the first coroutine that is run on it. `last` is what is to be run at its end."""

    def __init__(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._last = last
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._forgotten: weakref.finalize[Any, Any] | None = None
        self._live: set[Running[Any]] = set()
        self.closed = False

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return what it gives.

        An interrupt cancels it, and is raised when it has ended; a second one is raised at once.
        """
        running = self.start(coroutine)
        try:
            return _waited(running.future)
        except CancelledError:
            raise self.gone() from None
        except BaseException:
            if not running.future.done():
                running.cancel()
                wait((running.future,), _LAST_WORDS)
            raise

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Running[T]:
        """Run a coroutine in the background."""
        if self._thread is threading.current_thread():
            coroutine.close()
            raise RuntimeError("the client was called from inside its own work: use AsyncClient there")
        with self._lock:
            if self.closed:
                coroutine.close()
                raise RuntimeError("the client is closed")
            running = Running(self._running_loop(), coroutine)
            self._live.add(running)
        running.future.add_done_callback(lambda _: self._live.discard(running))
        return running

    def soon(self, act: Callable[[], object]) -> None:
        """Have something done on the loop."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(act)

    def gone(self) -> ConnectionFailed:
        """Say why a call ended that nobody cancelled."""
        return ConnectionFailed("the client was closed", retryable=False)

    def close(self) -> None:
        """Run the last coroutine, stop the loop and wait for its thread. Calls that are under way fail."""
        with self._lock:
            self.closed = True
            forgotten, self._forgotten = self._forgotten, None
        stop = forgotten.detach() if forgotten is not None else None
        if stop is not None:
            _stopped(*stop[2])
        for running in tuple(self._live):
            running.drop()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop; it is made anew in a process that was forked off, where no thread survives."""
        if self._loop is None or self._pid != os.getpid():
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=_serve, args=(loop, self._last), name="tenuto", daemon=True)
            thread.start()
            self._loop, self._thread, self._pid = loop, thread, os.getpid()
            self._live.clear()
            self._forgotten = weakref.finalize(self, _forgot, loop, thread, os.getpid())
        return self._loop


def _waited(future: Future[T]) -> T:
    while True:
        try:
            return future.result(_POLL)
        except TimeoutError:
            if future.done():
                raise


def _serve(loop: asyncio.AbstractEventLoop, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(_wound_up(last))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _wound_up(last: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the last coroutine; then what is under way may end by itself, and is cancelled if it does not."""
    await last()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        _, left = await asyncio.wait(left, timeout=_OWN_END)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def _stopped(loop: asyncio.AbstractEventLoop, thread: threading.Thread, pid: int) -> None:
    if pid == os.getpid() and not loop.is_closed():
        with suppress(RuntimeError):  # it was closed in the meantime
            loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join(_LAST_WORDS)


def _forgot(loop: asyncio.AbstractEventLoop, thread: threading.Thread, pid: int) -> None:
    if pid == os.getpid():
        warnings.warn("a Client was not closed", ResourceWarning, stacklevel=2)
        _stopped(loop, thread, pid)


class Client:
    """Asks every provider. The methods are those of `AsyncClient`, without the `await`.

    Keys come from the environment unless they are passed. Close it with `with` or `close()`. Several threads may share
    one client.
    """

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        self._async = AsyncClient(**options)
        self._bridge = Bridge(self._async.close)

    @overload
    def chat(self, request: ChatRequest | Mapping[str, Any], /, *, timeout: float | Timeouts | None = ...) -> Reply: ...
    @overload
    def chat(self, model: str, messages: Said, **parameters: Unpack[ChatParameters]) -> Reply: ...
    def chat(self, model: Any, messages: Any = None, **parameters: Any) -> Reply:
        """Ask once and wait for the whole reply."""
        return self._bridge.run(self._async.chat(model, messages, **parameters))

    @overload
    def stream(
        self, request: ChatRequest | Mapping[str, Any], /, *, timeout: float | Timeouts | None = ...
    ) -> Stream: ...
    @overload
    def stream(self, model: str, messages: Said, **parameters: Unpack[ChatParameters]) -> Stream: ...
    def stream(self, model: Any, messages: Any = None, **parameters: Any) -> Stream:
        """Ask, and hand out the reply while it arrives."""
        return Stream(self._bridge, self._async.stream(model, messages, **parameters))

    @overload
    def chat_structured(
        self, request: ChatRequest, kind: type[T], /, *, repairs: int = ..., timeout: float | Timeouts | None = ...
    ) -> Structured[T]: ...
    @overload
    def chat_structured(
        self,
        request: ChatRequest,
        kind: Mapping[str, Any],
        /,
        *,
        repairs: int = ...,
        timeout: float | Timeouts | None = ...,
    ) -> Structured[Any]: ...
    @overload
    def chat_structured(
        self, model: str, messages: Said, kind: type[T], *, repairs: int = ..., **parameters: Unpack[ChatParameters]
    ) -> Structured[T]: ...
    @overload
    def chat_structured(
        self,
        model: str,
        messages: Said,
        kind: Mapping[str, Any],
        *,
        repairs: int = ...,
        **parameters: Unpack[ChatParameters],
    ) -> Structured[Any]: ...
    def chat_structured(self, model: Any, messages: Any, kind: Any = None, **parameters: Any) -> Structured[Any]:
        """Ask for an answer of one shape: a type, or a JSON Schema."""
        return self._bridge.run(self._async.chat_structured(model, messages, kind, **parameters))

    @overload
    def embed(self, request: EmbedRequest, /, *, timeout: float | Timeouts | None = ...) -> EmbedResponse: ...
    @overload
    def embed(
        self,
        model: str,
        input: str | Iterable[str],
        *,
        dimensions: int | None = ...,
        timeout: float | Timeouts | None = ...,
    ) -> EmbedResponse: ...
    def embed(self, model: Any, input: Any = None, **parameters: Any) -> EmbedResponse:
        """Turn texts into vectors, in the order of the texts."""
        return self._bridge.run(self._async.embed(model, input, **parameters))

    def count_tokens(self, model: str, messages: Said, **parameters: Unpack[ChatParameters]) -> int:
        """Ask the provider how many tokens a question has."""
        return self._bridge.run(self._async.count_tokens(model, messages, **parameters))

    def models(self, provider: str, /, *, timeout: float | Timeouts | None = None) -> tuple[ModelInfo, ...]:
        """Ask a provider which models it serves."""
        return self._bridge.run(self._async.models(provider, timeout=timeout))

    def fetch(self, value: T, /, *, timeout: float = 60.0) -> T:
        """Return a picture, sound, document, message or transcript with the data of its web addresses in it."""
        return self._bridge.run(self._async.fetch(value, timeout=timeout))

    def use(self, *middleware: Middleware) -> None:
        """Add middleware to every later call: innermost, closest to the provider."""
        self._async.use(*middleware)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every line and stop the thread."""
        self._bridge.close()
        self._async.closed = True

    def __repr__(self) -> str:
        return repr(self._async).replace("AsyncClient", "Client")


class Stream:
    """A reply while it arrives: use it in a `with`, and iterate over its events.

    The request goes out with the first event that is asked for. Leaving the `with` early closes the connection.
    """

    def __init__(self, bridge: Bridge, stream: AsyncStream) -> None:
        self._bridge = bridge
        self._stream = stream
        self._queue: SimpleQueue[list[Event]] = SimpleQueue()
        self._pending: deque[Event] = deque()
        self._pump: Running[None] | None = None
        self._room: asyncio.Event | None = None
        self._read = self._handed = 0
        self._ended = self._closed = False
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if not self._pending:
            self._fill()
        return self._pending.popleft()

    def text_deltas(self) -> Iterator[str]:
        """Yield only the text of the first answer, piece by piece."""
        for event in self:
            if type(event) is ContentDelta and type(event.delta) is TextDelta and event.choice_index == 0:
                yield event.delta.text

    def drain(self) -> Reply:
        """Read what is left, and return the reply."""
        for _ in self:
            pass
        return self.reply

    @property
    def reply(self) -> Reply:
        """The whole reply. It is there once the events have ended; before that, `TenutoError`."""
        return self._stream.reply

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the provider's answer, as soon as it began."""
        return self._stream.headers

    def cancel(self) -> Reply:
        """Stop, and return what has come: an incomplete reply, whose unfinished blocks carry no token.

        Any thread may do so; whoever iterates over the stream at that moment sees it end.
        """
        self._closed = True
        return self._bridge.run(self._stopped_pump(self._stream.cancel))

    def close(self) -> None:
        """Close the connection. To do so twice is harmless."""
        self._closed = True
        if self._pump is not None and not self._pump.future.done() and not self._bridge.closed:
            self._bridge.run(self._stopped_pump(self._stream.close))

    # --- the pump: events are read in the background and handed over in handfuls --------------------------------------

    def _fill(self) -> None:
        if self._ended:
            raise StopIteration
        pump = self._started()
        try:
            came = self._taken()
        except BaseException:  # an interrupt; there may be no `with` that would close the stream
            pump.cancel()
            wait((pump.future,), _LAST_WORDS)
            raise
        if came:
            self._pending.extend(came)
            self._handed += len(came)
            room = self._room
            if room is not None and self._ahead() < _AHEAD:
                self._bridge.soon(room.set)
            return
        self._ended = True
        self._queue.put([])  # another thread may wait for the end, too
        try:
            _waited(pump.future)  # raises what the stream ended with
        except CancelledError:
            if not self._closed:
                raise self._bridge.gone() from None
        raise StopIteration

    def _started(self) -> Running[None]:
        with self._lock:
            if self._pump is None:
                if self._closed:
                    raise TenutoError("the stream is closed")
                self._pump = self._bridge.start(self._pumped())
            return self._pump

    def _taken(self) -> list[Event]:
        while True:
            try:
                return self._queue.get(timeout=_POLL)
            except Empty:
                continue

    def _ahead(self) -> int:
        return self._read - self._handed  # each is written by one thread only

    async def _pumped(self) -> None:
        """Read the stream. What comes in one turn of the loop is handed over when the turn ends; nothing is the end."""
        loop, batch = asyncio.get_running_loop(), list[Event]()

        def flush() -> None:
            if batch:
                self._queue.put(batch.copy())
                batch.clear()

        try:
            async for event in self._stream:
                if not batch:
                    loop.call_soon(flush)
                batch.append(event)
                self._read += 1
                if self._ahead() > _AHEAD:
                    await self._made_room()
        finally:
            flush()
            self._queue.put([])

    async def _made_room(self) -> None:
        self._room = asyncio.Event()
        if self._ahead() > _AHEAD:
            await self._room.wait()
        self._room = None

    async def _stopped_pump(self, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        result = await act()
        if self._pump is not None:
            self._pump.cancel()
        return result
