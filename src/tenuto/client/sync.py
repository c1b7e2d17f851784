"""The door for code that does not await: the same client, on a loop of its own in the background.

Nothing is written twice: each method here runs the coroutine of its namesake. Any thread may call, also one whose own
loop is running (a notebook). Ctrl-C cancels the request and is raised when it has let go of its line.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, wait
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, Unpack, overload

from tenuto.client.bridge import LAST_WORDS, POLL, Bridge, Running, waited
from tenuto.client.client import AsyncClient
from tenuto.client.options import Timeouts
from tenuto.client.stream import AsyncStream
from tenuto.core.events import ContentDelta, Event, TextDelta
from tenuto.core.request import ChatRequest
from tenuto.errors import TenutoError

if TYPE_CHECKING:
    from tenuto.client.messages import Said
    from tenuto.client.parameters import ChatParameters, ClientOptions
    from tenuto.client.pipeline import Middleware
    from tenuto.client.reply import Reply
    from tenuto.client.structured import Structured
    from tenuto.core.embedding import EmbedRequest, EmbedResponse
    from tenuto.wire.listing import ModelInfo

__all__ = ["Client", "Source", "Stream", "Streamed"]

T = TypeVar("T")
E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)
_AHEAD = 4096
"""How many events may wait for a reader before no more are read."""


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


class Source(Protocol[E_co]):
    """What can be read in the background: a stream, or a run of an agent."""

    def __aiter__(self) -> AsyncIterator[E_co]: ...

    @property
    def reply(self) -> Reply:
        """The whole reply, once the events have ended."""

    async def close(self) -> None:
        """Close it."""


class _Pump(Generic[E]):
    """Reads a stream in the background and hands its events over in handfuls. It knows nothing of who takes them.

    What comes in one turn of the loop is handed over when the turn ends; nothing at all is the end.
    """

    def __init__(self, stream: Source[E]) -> None:
        self._stream = stream
        self._room: asyncio.Event | None = None
        self._read = self._handed = 0  # each is written by one thread only
        self.queue: SimpleQueue[list[E]] = SimpleQueue()

    def ahead(self) -> int:
        """How many events were read that nobody took."""
        return self._read - self._handed

    def handed(self, count: int, bridge: Bridge) -> None:
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


class Streamed(Generic[E]):
    """What happens, while it happens: use it in a `with`, and iterate over its events.

    It begins with the first event that is asked for. Leaving the `with` early ends it.
    """

    def __init__(self, bridge: Bridge, stream: Source[E]) -> None:
        self._bridge = bridge
        self._stream = stream
        self._pump = _Pump(stream)
        self._running: Running[None] | None = None
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
        """The whole reply. It is there once the events have ended; before that, `TenutoError`."""
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
            wait((running.future,), LAST_WORDS)
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

    def _started(self) -> Running[None]:
        self._own()
        with self._lock:
            if self._running is None:
                if self._closed:
                    raise TenutoError("the stream is closed")
                self._running = running = self._bridge.start(self._pump.run())
                queue = self._pump.queue
                running.future.add_done_callback(lambda _: queue.put([]))
                weakref.finalize(self, running.cancel).atexit = False
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


class Stream(Streamed[Event]):
    """A reply while it arrives: use it in a `with`, and iterate over its events.

    The request goes out with the first event that is asked for. Leaving the `with` early closes the connection.
    """

    def __init__(self, bridge: Bridge, stream: AsyncStream) -> None:
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
