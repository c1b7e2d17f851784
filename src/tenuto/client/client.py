"""The client: one interface to every provider."""

from __future__ import annotations

import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

import msgspec

import tenuto  # annotations load `tenuto.Reply` when they are evaluated: creating a client must not load asyncio
from tenuto.client.options import OnLoss, Timeouts, check_on_loss
from tenuto.client.parameters import ChatParameters, Key, MessageInput, ProviderConfig
from tenuto.client.routing import Router
from tenuto.client.signatures import expand_parameters
from tenuto.core.embedding import EmbedRequest, EmbedResponse
from tenuto.core.provider import ModelInfo, Provider, Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.errors import ClosedError, ConnectionFailed, TenutoError

if TYPE_CHECKING:
    import asyncio

    from tenuto.client.batches import Perform, Run
    from tenuto.client.exchange import Sender
    from tenuto.client.middleware.base import OperationCall, OperationDone
    from tenuto.client.stream import BeforeSend, ChatCall

T = TypeVar("T")


class AsyncClient:
    """The asynchronous client.

    Keys come from the environment unless they are passed. Close it with `async with` or `close()`: it holds connections.
    One client serves any number of calls at the same time.
    """

    def __init__(
        self,
        *,
        keys: Mapping[str, Key] | None = None,
        providers: Sequence[Provider] | Mapping[str, ProviderConfig] = (),
        middleware: Iterable[tenuto.client.Middleware] | None = None,
        default_provider: str | None = None,
        timeout: float | Timeouts | None = None,
        transport: tenuto.client.Transport | None = None,
        on_loss: OnLoss = "warn",
        now: Callable[[], float] = time.time,
    ) -> None:
        """Create a client.

        Parameters:
            keys: API keys by provider; a function is called before each request.
            providers: custom providers, or settings by the name of a provider.
            middleware: wraps every call, the first is the outermost; None means `[retry(2)]`, `[]` means none.
            default_provider: the provider of a model name without one.
            timeout: the total in seconds, or `Timeouts`.
            transport: replaces the network.
            on_loss: if a request cannot carry everything: log one WARNING (`warn`), raise `LossError` before it is sent
                (`raise`), or only fill `reply.losses` (`keep`).
            now: the clock, in Unix seconds.
        """
        self._router = Router(keys or {}, providers, default_provider)
        self._transport = transport
        self._timeouts = _to_timeouts(timeout, Timeouts())
        self._now = now
        self._on_loss = check_on_loss(on_loss)
        self._sender: Sender | None = None
        self._calls: set[ChatCall] = set()
        self._limits: set[asyncio.Timeout] = set()
        self.closed = False
        self._middleware = None if middleware is None else tuple(middleware)
        self._added_middleware: tuple[tenuto.client.Middleware, ...] = ()

    @overload
    async def chat(
        self, request: ChatRequest | Mapping[str, Any], /, *, timeout: float | Timeouts | None = ...
    ) -> tenuto.Reply: ...
    @overload
    async def chat(self, model: str, messages: MessageInput, **parameters: Unpack[ChatParameters]) -> tenuto.Reply: ...
    @expand_parameters(ChatParameters)
    async def chat(
        self, model: str | ChatRequest | Mapping[str, Any], messages: MessageInput | None = None, **parameters: Any
    ) -> tenuto.Reply:
        """Send a chat and return the complete reply.

        Raise an `LLMError` for an error of the provider or the connection, `TranscriptError` for tool calls without a
        result, `MissingKey` and `UnknownProvider`.
        """
        return await self._prepare_call(model, messages, parameters, stream=False)().drain()

    @overload
    def stream(
        self, request: ChatRequest | Mapping[str, Any], /, *, timeout: float | Timeouts | None = ...
    ) -> tenuto.AsyncStream: ...
    @overload
    def stream(
        self, model: str, messages: MessageInput, **parameters: Unpack[ChatParameters]
    ) -> tenuto.AsyncStream: ...
    @expand_parameters(ChatParameters)
    def stream(
        self, model: str | ChatRequest | Mapping[str, Any], messages: MessageInput | None = None, **parameters: Any
    ) -> tenuto.AsyncStream:
        """Send a chat and return its events as they arrive. Errors are raised where the events are read."""
        return tenuto.AsyncStream(self._prepare_call(model, messages, parameters, stream=True))

    def _stream(
        self, request: ChatRequest, before_send: BeforeSend, *, timeout: float | Timeouts | None = None
    ) -> tenuto.AsyncStream:
        """Stream, and call `before_send` each time before a request is sent: the agent writes its journal there."""
        request = self._build_request(request, None, {}, stream=True)
        timeouts = _to_timeouts(timeout, self._timeouts)
        return tenuto.AsyncStream(partial(self._begin_call, request, timeouts, before_send=before_send))

    @overload
    async def chat_structured(
        self,
        request: ChatRequest,
        output_type: type[T],
        /,
        *,
        repairs: int = ...,
        timeout: float | Timeouts | None = ...,
    ) -> tenuto.Structured[T]: ...
    @overload
    async def chat_structured(
        self,
        request: ChatRequest,
        output_type: Mapping[str, Any],
        /,
        *,
        repairs: int = ...,
        timeout: float | Timeouts | None = ...,
    ) -> tenuto.Structured[Any]: ...
    @overload
    async def chat_structured(
        self,
        model: str,
        messages: MessageInput,
        output_type: type[T],
        *,
        repairs: int = ...,
        **parameters: Unpack[ChatParameters],
    ) -> tenuto.Structured[T]: ...
    @overload
    async def chat_structured(
        self,
        model: str,
        messages: MessageInput,
        output_type: Mapping[str, Any],
        *,
        repairs: int = ...,
        **parameters: Unpack[ChatParameters],
    ) -> tenuto.Structured[Any]: ...
    @expand_parameters(ChatParameters)
    async def chat_structured(
        self,
        model: str | ChatRequest,
        messages: MessageInput | type[Any] | Mapping[str, Any],
        output_type: type[Any] | Mapping[str, Any] | None = None,
        *,
        repairs: int = 1,
        **parameters: Any,
    ) -> tenuto.Structured[Any]:
        """Send a chat and return the answer as a value of `output_type`: a type or a JSON Schema.

        An answer that does not match is sent back with the reason, at most `repairs` times; then `SchemaMismatch` is
        raised.
        """
        from tenuto.client.structured import ask_structured, takes_schemas

        chat_messages: Any = messages
        if output_type is None:
            chat_messages, output_type = None, chat_messages
        timeouts = _to_timeouts(parameters.pop("timeout", None), self._timeouts)
        request = self._build_request(model, chat_messages, parameters, stream=False)
        native = takes_schemas(self._router.target(request.model))
        deadline = _deadline(timeouts)

        async def chat(request: ChatRequest) -> tenuto.Reply:
            return await self._begin_call(request, timeouts, deadline).drain()

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
        model: str | EmbedRequest | Mapping[str, Any],
        input: str | Iterable[str] | None = None,
        *,
        dimensions: int | None = None,
        timeout: float | Timeouts | None = None,
    ) -> EmbedResponse:
        """Return one embedding per text, in order. Many texts are sent in batches."""
        from tenuto.client.batches import embed

        request = model
        if not isinstance(request, EmbedRequest):
            request = EmbedRequest.of(request, input, dimensions)
        return await embed(self._call_runner(timeout), self._router.target(request.model), request)

    @expand_parameters(ChatParameters)
    async def count_tokens(self, model: str, messages: MessageInput, **parameters: Unpack[ChatParameters]) -> int:
        """Return the number of input tokens of a chat, counted by the provider.

        Raise `UnsupportedModel` if the provider does not count tokens.
        """
        from tenuto.client.batches import count_tokens
        from tenuto.client.middleware.base import OperationCall

        options: dict[str, Any] = {**parameters}
        run = self._call_runner(options.pop("timeout", None))
        request = self._build_request(model, messages, options, stream=False)
        tokens: int = await run(OperationCall("count_tokens", request.model, request), count_tokens)
        return tokens

    async def models(self, provider: str, /, *, timeout: float | Timeouts | None = None) -> tuple[ModelInfo, ...]:
        """Return the models that a provider serves."""
        from tenuto.client.batches import models

        return await models(self._call_runner(timeout), provider)

    async def fetch(self, value: T, /, *, timeout: float = 60.0) -> T:
        """Return an image, audio, document, message or transcript with the data of its URLs in it.

        Only public addresses are fetched, and no key is sent; `FetchRefused` has the reason for a refusal.
        """
        from tenuto.client.fetch import fetch_public

        return await fetch_public(value, timeout)

    def use(self, *middleware: tenuto.client.Middleware) -> None:
        """Add middleware to every later call: innermost, closest to the provider."""
        self._added_middleware = (*self._added_middleware, *middleware)

    async def check_key(self, model: str, headers: Iterable[str] = ()) -> None:
        """Raise `MissingKey` if a request to the model would have no key.

        Nothing is sent, and no key function is called. `headers` are names of headers that the request will have.
        """
        target = self._router.target(model)
        if not self._router.needs_await(target):
            await self._router.endpoint(target, {name.lower() for name in headers})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection. Running calls fail."""
        self.closed = True
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.close()
        for call in tuple(self._calls):
            call.stop(ConnectionFailed("the client was closed", retryable=False))
        for limit in tuple(self._limits):
            limit.reschedule(0.0)  # expires at once
        if self._transport is not None:
            await self._transport.close()
        await self._router.close()

    def __del__(self) -> None:
        if not getattr(self, "closed", True) and self._sender is not None:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{' closed' if self.closed else ''}>"

    def _full_name(self, model: str) -> str:
        """Return a model name with its provider, if the provider is known."""
        return self._router.qualify(model)

    def _target(self, model: str) -> Target:
        """Return the target of a model name. Raise `UnknownProvider` if its provider is unknown."""
        return self._router.target(model)

    def _prepare_call(
        self, model: Any, messages: Any, parameters: dict[str, Any], *, stream: bool
    ) -> Callable[[], ChatCall]:
        timeouts = _to_timeouts(parameters.pop("timeout", None), self._timeouts)
        return partial(self._begin_call, self._build_request(model, messages, parameters, stream=stream), timeouts)

    def _build_request(self, model: Any, messages: Any, parameters: dict[str, Any], *, stream: bool) -> ChatRequest:
        from tenuto.client.request import build_checked_request

        return build_checked_request(model, messages, parameters, self._router.qualify, stream=stream)

    def _begin_call(
        self,
        request: ChatRequest,
        timeouts: Timeouts,
        deadline: float | None = None,
        before_send: BeforeSend | None = None,
    ) -> ChatCall:
        sender = self._open_sender()
        from tenuto.client.stream import ChatCall

        return ChatCall(sender, request, self._all_middleware(), timeouts, deadline, before_send, self._calls)

    def _all_middleware(self) -> tuple[tenuto.client.Middleware, ...]:
        if self._middleware is None:
            from tenuto.client.middleware.retry import retry

            self._middleware = (retry(2),)
        return (*self._middleware, *self._added_middleware)

    def _open_sender(self) -> Sender:
        if self.closed:
            raise ClosedError("the client is closed")
        if self._sender is None:
            from tenuto.client.exchange import Sender

            if self._transport is None:
                from tenuto.client.transport import AiohttpTransport

                self._transport = AiohttpTransport()
            self._sender = Sender(self._router, self._transport, self._now, self._on_loss)
        return self._sender

    def _call_runner(self, timeout: float | Timeouts | None) -> Run:
        """Return a function that sends a `OperationCall` through the middleware and returns its result."""
        import asyncio

        from tenuto.client.deadlines import out_of_time
        from tenuto.client.middleware.base import OperationDone, closing, compose, split_model

        sender, timeouts = self._open_sender(), _to_timeouts(timeout, self._timeouts)
        deadline = _deadline(timeouts)

        async def send(target: Target, wire: WireRequest) -> bytes:
            sender.losses.report(target, wire.losses, once=True)
            return await sender.ask(target, wire, timeouts, deadline)

        async def run(call: OperationCall, perform: Perform) -> object:
            async def handler(call: OperationCall) -> AsyncIterator[OperationDone]:
                provider, model = split_model(call.model)
                target = self._router.target(call.model) if model else self._router.row(provider)
                yield OperationDone(await perform(call, target, send))

            done: OperationDone | None = None
            try:
                async with asyncio.timeout_at(deadline) as limit:
                    self._limits.add(limit)
                    async with closing(compose(self._all_middleware(), handler, call.operation)(call)) as events:
                        async for event in events:
                            done = event
            except TimeoutError:
                if not limit.expired():
                    raise
                provider = split_model(call.model)[0]
                if self.closed:
                    message = "the client was closed"
                    raise ConnectionFailed(message, provider=provider, retryable=False) from None
                raise out_of_time(timeouts, provider) from None
            finally:
                self._limits.discard(limit)
            if done is None:
                raise TenutoError("the middleware ended without a result: it must yield the event OperationDone")
            return done.result

        return run


def _deadline(timeouts: Timeouts) -> float | None:
    import asyncio

    return None if timeouts.total is None else asyncio.get_running_loop().time() + timeouts.total


def _to_timeouts(timeout: float | Timeouts | None, default: Timeouts) -> Timeouts:
    """Return timeouts: a number is a total, None is the default."""
    if timeout is None or isinstance(timeout, Timeouts):
        return timeout or default
    return msgspec.structs.replace(default, total=float(timeout))
