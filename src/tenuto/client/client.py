"""The client: one door to every provider."""

from __future__ import annotations

import time
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

import msgspec

from tenuto.client.options import Timeouts, checked_on_loss
from tenuto.client.routing import Router
from tenuto.errors import ClosedError, ConnectionFailed

if TYPE_CHECKING:
    import asyncio

    from tenuto.client.exchange import Sender
    from tenuto.client.http import Transport
    from tenuto.client.parameters import ChatParameters, ClientOptions
    from tenuto.client.pipeline import Middleware
    from tenuto.client.reply import Reply
    from tenuto.client.request import MessageInput
    from tenuto.client.stream import AsyncStream, BeforeSend, ChatCall
    from tenuto.client.structured import Structured
    from tenuto.core.embedding import EmbedRequest, EmbedResponse
    from tenuto.core.provider import ModelInfo, Target, WireRequest
    from tenuto.core.request import ChatRequest

__all__ = ["OPTIONS", "AsyncClient"]

OPTIONS = ("keys", "providers", "middleware", "default_provider", "timeout", "transport", "on_loss", "now")
"""The names in `ClientOptions`."""

T = TypeVar("T")


class AsyncClient:
    """Asks every provider, awaited.

    Keys come from the environment unless they are passed. Close it with `async with` or `close()`: it keeps lines open.
    One client serves any number of calls at once.
    """

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        strange = options.keys() - set(OPTIONS)
        if strange:
            raise TypeError(f"a client has no option {min(strange)!r}; there are {', '.join(OPTIONS)}")
        self._door = Router(options.get("keys") or {}, options.get("providers") or (), options.get("default_provider"))
        self._transport: Transport | None = options.get("transport")
        self._waits = _waits(options.get("timeout"), Timeouts())
        self._now = options.get("now", time.time)
        self._on_loss = checked_on_loss(options.get("on_loss", "warn"))
        self._line: Sender | None = None
        self._calls: set[ChatCall] = set()
        self._limits: set[asyncio.Timeout] = set()
        self.closed = False
        given = options.get("middleware")
        self._given: tuple[Middleware, ...] | None = None if given is None else tuple(given)
        self._added: tuple[Middleware, ...] = ()

    # --- asking -------------------------------------------------------------------------------------------------------

    @overload
    async def chat(
        self, request: ChatRequest | Mapping[str, Any], /, *, timeout: float | Timeouts | None = ...
    ) -> Reply: ...
    @overload
    async def chat(self, model: str, messages: MessageInput, **parameters: Unpack[ChatParameters]) -> Reply: ...
    async def chat(self, model: Any, messages: Any = None, **parameters: Any) -> Reply:
        """Ask once and wait for the whole reply.

        Raise an `LLMError` for what the provider said or failed to say, `TranscriptError` for calls left unanswered,
        `MissingKey`, `UnknownProvider`.
        """
        return await self._start(model, messages, parameters, stream=False)().drain()

    @overload
    def stream(
        self, request: ChatRequest | Mapping[str, Any], /, *, timeout: float | Timeouts | None = ...
    ) -> AsyncStream: ...
    @overload
    def stream(self, model: str, messages: MessageInput, **parameters: Unpack[ChatParameters]) -> AsyncStream: ...
    def stream(self, model: Any, messages: Any = None, **parameters: Any) -> AsyncStream:
        """Ask, and hand out the reply while it arrives. Errors are raised where the events are read."""
        return _streamed(self._start(model, messages, parameters, stream=True))

    def asked(
        self, request: ChatRequest, before: BeforeSend, *, timeout: float | Timeouts | None = None
    ) -> AsyncStream:
        """Stream, and have something done before each request goes out: whoever keeps a journal writes into it then."""
        checked = self._request(request, None, {}, stream=True)
        return _streamed(partial(self._call, checked, _waits(timeout, self._waits), before=before))

    def qualified(self, model: str) -> str:
        """Return a model name with its provider in front, as far as one is clear."""
        return self._door.qualified(model)

    async def check_key(self, model: str, headers: Iterable[str] = ()) -> None:
        """Raise `MissingKey` if a request to the model would have no key. Nothing is sent, and no key function is called."""
        target = self._door.target(model)
        if not self._door.needs_await(target):
            await self._door.endpoint(target, {name.lower() for name in headers})

    def target(self, model: str) -> Target:
        """Return the target of a model name. Raise `UnknownProvider` if its provider is unknown or not clear."""
        return self._door.target(model)

    @overload
    async def chat_structured(
        self, request: ChatRequest, kind: type[T], /, *, repairs: int = ..., timeout: float | Timeouts | None = ...
    ) -> Structured[T]: ...
    @overload
    async def chat_structured(
        self,
        request: ChatRequest,
        kind: Mapping[str, Any],
        /,
        *,
        repairs: int = ...,
        timeout: float | Timeouts | None = ...,
    ) -> Structured[Any]: ...
    @overload
    async def chat_structured(
        self,
        model: str,
        messages: MessageInput,
        output_type: type[T],
        *,
        repairs: int = ...,
        **parameters: Unpack[ChatParameters],
    ) -> Structured[T]: ...
    @overload
    async def chat_structured(
        self,
        model: str,
        messages: MessageInput,
        output_type: Mapping[str, Any],
        *,
        repairs: int = ...,
        **parameters: Unpack[ChatParameters],
    ) -> Structured[Any]: ...
    async def chat_structured(
        self, model: Any, messages: Any, output_type: Any = None, *, repairs: int = 1, **parameters: Any
    ) -> Structured[Any]:
        """Ask for an answer of one shape: a type, or a JSON Schema.

        An answer that does not fit goes back with the reason, `repairs` times; then `SchemaMismatch` is raised.
        """
        from tenuto.client.structured import ask_structured, takes_schemas

        if output_type is None:
            messages, output_type = None, messages
        waits = _waits(parameters.pop("timeout", None), self._waits)
        request = self._request(model, messages, parameters, stream=False)
        native = takes_schemas(self._door.target(request.model))

        total_at = _total_at(waits)

        async def chat(request: ChatRequest) -> Reply:
            return await self._call(request, waits, total_at).drain()

        return await ask_structured(chat, request, output_type, native=native, repairs=repairs)

    @overload
    async def embed(
        self, request: EmbedRequest | Mapping[str, Any], /, *, timeout: float | Timeouts | None = ...
    ) -> EmbedResponse: ...
    @overload
    async def embed(
        self,
        model: str,
        input: str | Iterable[str],
        *,
        dimensions: int | None = ...,
        timeout: float | Timeouts | None = ...,
    ) -> EmbedResponse: ...
    async def embed(
        self,
        model: Any,
        input: Any = None,
        *,
        dimensions: int | None = None,
        timeout: float | Timeouts | None = None,
    ) -> EmbedResponse:
        """Turn texts into vectors, in the order of the texts; long lists go out in batches."""
        from tenuto.client.batches import embed
        from tenuto.core.embedding import EmbedRequest

        request = model
        if not isinstance(request, EmbedRequest):
            request = EmbedRequest.of(model, input, dimensions)
        return await embed(self._sender(timeout), self._door.target(request.model), request)

    async def count_tokens(self, model: str, messages: MessageInput, **parameters: Unpack[ChatParameters]) -> int:
        """Ask the provider how many tokens a question has. Raise `UnsupportedModel` where nobody can be asked."""
        from tenuto.wire.count_tokens import decode, encode

        given: Any = dict(parameters)
        send = self._sender(given.pop("timeout", None))
        request = self._request(model, messages, given, stream=False)
        target = self._door.target(request.model)
        return decode(await send(target, encode(request, target)), target)

    async def models(self, provider: str, /, *, timeout: float | Timeouts | None = None) -> tuple[ModelInfo, ...]:
        """Ask a provider which models it serves."""
        from tenuto.client.batches import models

        return await models(self._sender(timeout), self._door.row(provider))

    async def fetch(self, value: T, /, *, timeout: float = 60.0) -> T:
        """Return a picture, sound, document, message or transcript with the data of its web addresses in it.

        Only public addresses are fetched, and no key goes there; `FetchRefused` says why one was not.
        """
        from tenuto.client.fetch import fetch_public

        return await fetch_public(value, timeout)

    def use(self, *middleware: Middleware) -> None:
        """Add middleware to every later call: innermost, closest to the provider."""
        self._added = (*self._added, *middleware)

    # --- lifetime -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every line. Calls that are under way fail."""
        self.closed = True
        line, self._line = self._line, None
        if line is not None:
            line.close()
        for call in tuple(self._calls):
            call.stop(ConnectionFailed("the client was closed", retryable=False))
        for limit in tuple(self._limits):
            limit.reschedule(0.0)  # at once
        if self._transport is not None:
            await self._transport.close()
        await self._door.close()

    def __del__(self) -> None:
        if not getattr(self, "closed", True) and self._line is not None:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{' closed' if self.closed else ''}>"

    # --- inside -------------------------------------------------------------------------------------------------------

    def _start(self, asked: Any, messages: Any, parameters: dict[str, Any], *, stream: bool) -> Callable[[], ChatCall]:
        waits = _waits(parameters.pop("timeout", None), self._waits)
        return partial(self._call, self._request(asked, messages, parameters, stream=stream), waits)

    def _request(self, asked: Any, messages: Any, parameters: dict[str, Any], *, stream: bool) -> ChatRequest:
        import tenuto.client.request as reading  # for each question: a `from` would cost five times as much

        return reading.build_checked_request(asked, messages, parameters, self._door.qualified, stream=stream)

    def _call(
        self, request: ChatRequest, waits: Timeouts, total_at: float | None = None, before: BeforeSend | None = None
    ) -> ChatCall:
        sender = self._opened()
        from tenuto.client.stream import ChatCall

        return ChatCall(sender, request, self._layers(), waits, total_at, before, self._calls)

    def _layers(self) -> tuple[Middleware, ...]:
        if self._given is None:
            from tenuto.client.middleware import retry

            self._given = (retry(2),)
        return (*self._given, *self._added)

    def _opened(self) -> Sender:
        if self.closed:
            raise ClosedError("the client is closed")
        if self._line is None:
            from tenuto.client.exchange import Sender

            if self._transport is None:
                from tenuto.client.transport import AiohttpTransport

                self._transport = AiohttpTransport()
            self._line = Sender(self._door, self._transport, self._now, self._on_loss)
        return self._line

    def _sender(self, timeout: float | Timeouts | None) -> Callable[[Target, WireRequest], Awaitable[bytes]]:
        """Return what sends a plain request, with those layers of the middleware around it that know how."""
        import asyncio

        from tenuto.client.deadlines import out_of_time

        line, waits = self._opened(), _waits(timeout, self._waits)
        total_at = _total_at(waits)

        async def send(target: Target, wire: WireRequest) -> bytes:
            line.losses.report(target, wire.losses, once=True)
            act: Callable[[], Awaitable[bytes]] = partial(line.ask, target, wire, waits, total_at)
            for layer in reversed(self._layers()):
                around = getattr(layer, "plain", None)
                if around is not None:
                    act = partial(around, act)
            try:
                async with asyncio.timeout_at(total_at) as limit:
                    self._limits.add(limit)
                    return await act()
            except TimeoutError:
                if not limit.expired():
                    raise
            finally:
                self._limits.discard(limit)
            name = target.provider.name
            if self.closed:
                raise ConnectionFailed("the client was closed", provider=name, retryable=False)
            raise out_of_time(waits, name)

        return send


def _streamed(start: Callable[[], ChatCall]) -> AsyncStream:
    from tenuto.client.stream import AsyncStream

    return AsyncStream(start)


def _total_at(waits: Timeouts) -> float | None:
    import asyncio

    return None if waits.total is None else asyncio.get_running_loop().time() + waits.total


def _waits(given: float | Timeouts | None, otherwise: Timeouts) -> Timeouts:
    """Read a timeout: a number is a total."""
    if given is None:
        return otherwise
    if isinstance(given, Timeouts):
        return given
    return msgspec.structs.replace(otherwise, total=float(given))
