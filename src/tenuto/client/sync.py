"""The door for code that does not await: the same client, on a loop of its own in the background.

Nothing is written twice: each method here runs the coroutine of its namesake. Any thread may call, also one whose own
loop is running (a notebook). Ctrl-C cancels the request and is raised when it has let go of its line.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, wait
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
_LAST_WORDS = 5.0
"""How long a cancelled coroutine may take to let go of its line."""
_AHEAD = 4096
"""How many events may wait for a reader before no more are read."""


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
        self._loop.call_soon_threadsafe(self._cancel)

    def _begin(self, context: Context) -> None:
        self._task = self._loop.create_task(self._coroutine, context=context)
        self._task.add_done_callback(self._ended)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _ended(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.future.set_exception(CancelledError())
        elif (error := task.exception()) is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(task.result())


class Bridge:
    """A loop in a thread, started by the first coroutine that is run on it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._stop: Callable[[], object] | None = None

    @property
    def started(self) -> bool:
        """Whether anything was run in this process."""
        return self._loop is not None and self._pid == os.getpid()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return what it gives.

        An interrupt cancels it, and is raised when it has ended; a second one is raised at once.
        """
        running = self.start(coroutine)
        try:
            return _waited(running.future)
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
        return Running(self.loop(), coroutine)

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop; it is made anew in a process that was forked off, where no thread survives."""
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_serve, args=(loop,), name="tenuto", daemon=True)
                thread.start()
                self._loop, self._thread, self._pid = loop, thread, os.getpid()
                self._stop = weakref.finalize(self, _stopped, loop, thread, os.getpid())
            return self._loop

    def close(self) -> None:
        """Stop the loop and wait for its thread."""
        if self._stop is not None:
            self._stop()
        self._loop = self._thread = None


def _waited(future: Future[T]) -> T:
    while True:
        try:
            return future.result(_POLL)
        except TimeoutError:
            if future.done():
                raise


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _stopped(loop: asyncio.AbstractEventLoop, thread: threading.Thread, pid: int) -> None:
    if pid == os.getpid() and not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join(5.0)


class Client:
    """Asks every provider. The methods are those of `AsyncClient`, without the `await`.

    Keys come from the environment unless they are passed. Close it with `with` or `close()`. Several threads may share
    one client.
    """

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        self._async = AsyncClient(**options)
        self._bridge = Bridge()

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
        if self._bridge.started:
            self._bridge.run(self._async.close())
        self._async.closed = True
        self._bridge.close()

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
        self._ended = False

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
        return self._bridge.run(self._stopped_pump(self._stream.cancel))

    def close(self) -> None:
        """Close the connection. To do so twice is harmless."""
        if self._pump is not None:
            self._bridge.run(self._stopped_pump(self._stream.close))

    # --- the pump: events are read in the background and handed over in handfuls --------------------------------------

    def _fill(self) -> None:
        if self._ended:
            raise StopIteration
        if self._pump is None:
            self._pump = self._bridge.start(self._pumped())
        came = self._taken()
        if came:
            self._pending.extend(came)
            self._handed += len(came)
            if self._room is not None and self._ahead() < _AHEAD:
                self._bridge.loop().call_soon_threadsafe(self._room.set)
            return
        self._ended = True
        with suppress(CancelledError):
            _waited(self._pump.future)  # raises what the stream ended with
        raise StopIteration

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
