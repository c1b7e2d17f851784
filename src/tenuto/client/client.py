"""The client: one interface to every provider."""

from __future__ import annotations

import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import FunctionType, MethodType, UnionType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack, get_args, overload

import msgspec

import tenuto  # annotations load `tenuto.Reply` when they are evaluated: creating a client must not load asyncio
from tenuto.client.parameters import (
    ChatParameters,
    JsonObject,
    Key,
    MessageInput,
    OnLoss,
    ProviderConfig,
    StructuredParameters,
    TimeoutOption,
    Timeouts,
    expand_parameters,
)
from tenuto.client.routing import Router
from tenuto.closable import AsyncClosable
from tenuto.core.embeddings import EmbedRequest, EmbedResponse
from tenuto.core.provider import ModelInfo, Provider, Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.errors import ClosedError, ConnectionFailed, MissingKey

if TYPE_CHECKING:
    import tenuto.client
    from tenuto.client.exchange import Sender
    from tenuto.client.middleware.base import AnyNext, AnyRequest, OperationCall, OperationDone
    from tenuto.client.operations import Perform, Run
    from tenuto.client.stream import BeforeSend, ClientCall
    from tenuto.wire.body_builder import WrittenMessages

T = TypeVar("T")
RequestInput: TypeAlias = ChatRequest | Mapping[str, Any]
"""A complete request, also as a dictionary of its fields."""


class AsyncClient(AsyncClosable):
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
        self._target = self._router.target
        self._full_name = self._router.qualify
        self._transport = transport
        self._timeouts = Timeouts()
        self._timeouts = self._to_timeouts(timeout)
        self._now = now
        if on_loss not in get_args(OnLoss):
            raise ValueError(f"on_loss: expected {', '.join(map(repr, get_args(OnLoss)))}, got {on_loss!r}")
        self._on_loss = on_loss
        self._sender: Sender | None = None
        self._calls: set[ClientCall] = set()
        self.closed = False
        self._middleware: tuple[tenuto.client.Middleware, ...] | None = None
        if middleware is not None:
            self._middleware = _check_middleware(middleware)
        self._added_middleware: tuple[tenuto.client.Middleware, ...] = ()

    @overload
    async def chat(self, request: RequestInput, /, *, timeout: TimeoutOption = ...) -> tenuto.Reply: ...
    @overload
    async def chat(self, model: str, messages: MessageInput, **parameters: Unpack[ChatParameters]) -> tenuto.Reply: ...
    @expand_parameters(ChatParameters)
    async def chat(
        self, model: str | RequestInput, messages: MessageInput | None = None, **parameters: Any
    ) -> tenuto.Reply:
        """Send a chat and return the complete reply.

        Raise an `LLMError` for an error of the provider or the connection, `TranscriptError` for tool calls without a
        result, `MissingKey` and `UnknownProvider`.
        """
        timeouts = self._to_timeouts(parameters.pop("timeout", None))
        return await self._begin_call(self._build_request(model, messages, parameters, stream=False), timeouts).drain()

    @overload
    def stream(self, request: RequestInput, /, *, timeout: TimeoutOption = ...) -> tenuto.AsyncStream: ...
    @overload
    def stream(
        self, model: str, messages: MessageInput, **parameters: Unpack[ChatParameters]
    ) -> tenuto.AsyncStream: ...
    @expand_parameters(ChatParameters)
    def stream(
        self, model: str | RequestInput, messages: MessageInput | None = None, **parameters: Any
    ) -> tenuto.AsyncStream:
        """Send a chat and return its events as they arrive. Errors are raised where the events are read."""
        from tenuto.client.stream import AsyncStream

        timeouts = self._to_timeouts(parameters.pop("timeout", None))
        request = self._build_request(model, messages, parameters, stream=True)
        return AsyncStream(partial(self._begin_call, request, timeouts))

    def _stream(
        self,
        request: ChatRequest,
        before_send: BeforeSend,
        *,
        timeout: float | Timeouts | None = None,
        written: WrittenMessages | None = None,
    ) -> tenuto.AsyncStream:
        """Stream, and call `before_send` each time before a request is sent: the agent writes its journal there.

        The request is complete: its calls have results. `written` are the messages of the last request of the session.
        """
        from tenuto.client.stream import AsyncStream

        request = msgspec.structs.replace(request, model=self._full_name(request.model), stream=True)
        timeouts = self._to_timeouts(timeout)
        return AsyncStream(partial(self._begin_call, request, timeouts, before_send=before_send, written=written))

    @overload
    async def chat_structured(
        self, request: ChatRequest, output_type: type[T], /, *, repairs: int = ..., timeout: TimeoutOption = ...
    ) -> tenuto.Structured[T]: ...
    @overload
    async def chat_structured(
        self,
        request: ChatRequest,
        output_type: JsonObject | UnionType,
        /,
        *,
        repairs: int = ...,
        timeout: TimeoutOption = ...,
    ) -> tenuto.Structured[Any]: ...
    @overload
    async def chat_structured(
        self, model: str, messages: MessageInput, output_type: type[T], **parameters: Unpack[StructuredParameters]
    ) -> tenuto.Structured[T]: ...
    @overload
    async def chat_structured(
        self,
        model: str,
        messages: MessageInput,
        output_type: JsonObject | UnionType,
        **parameters: Unpack[StructuredParameters],
    ) -> tenuto.Structured[Any]: ...
    @expand_parameters(ChatParameters)
    async def chat_structured(
        self,
        model: str | ChatRequest,
        messages: MessageInput | type[Any] | UnionType | Mapping[str, Any],
        output_type: type[Any] | UnionType | Mapping[str, Any] | None = None,
        *,
        repairs: int = 1,
        **parameters: Any,
    ) -> tenuto.Structured[Any]:
        """Send a chat and return the answer as a value of `output_type`: a type, a union of types, or a JSON Schema.

        An answer that does not match is sent back with the reason, at most `repairs` times; then `SchemaMismatch` is
        raised.
        """
        from tenuto.client.structured_output import ask_structured, takes_schemas

        chat_messages: Any = messages
        if output_type is None:
            chat_messages, output_type = None, chat_messages
        timeouts = self._to_timeouts(parameters.pop("timeout", None))
        request = self._build_request(model, chat_messages, parameters, stream=False)
        native = takes_schemas(self._router.target(request.model))
        deadline = _deadline(timeouts)

        async def chat(request: ChatRequest) -> tenuto.Reply:
            return await self._begin_call(request, timeouts, deadline).drain()

        return await ask_structured(chat, request, output_type, native=native, repairs=repairs)

    @overload
    async def embed(
        self, request: EmbedRequest | Mapping[str, Any], /, *, timeout: TimeoutOption = ...
    ) -> EmbedResponse: ...
    @overload
    async def embed(
        self, model: str, input: str | Iterable[str], *, dimensions: int | None = ..., timeout: TimeoutOption = ...
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
        from tenuto.client.operations import embed

        request = model
        if not isinstance(request, EmbedRequest):
            request = EmbedRequest.of(request, input, dimensions)
        return await embed(self._runner(timeout), self._router.target(request.model), request)

    @expand_parameters(ChatParameters)
    async def count_tokens(self, model: str, messages: MessageInput, **parameters: Unpack[ChatParameters]) -> int:
        """Return the number of input tokens of a chat, counted by the provider.

        Raise `UnsupportedModel` if the provider does not count tokens.
        """
        from tenuto.client.middleware.base import OperationCall
        from tenuto.client.operations import count_tokens

        options: dict[str, Any] = {**parameters}
        run = self._runner(options.pop("timeout", None))
        request = self._build_request(model, messages, options, stream=False)
        tokens: int = await run(OperationCall("count_tokens", request.model, request), count_tokens)
        return tokens

    async def models(self, provider: str, /, *, timeout: float | Timeouts | None = None) -> tuple[ModelInfo, ...]:
        """Return the models that a provider serves."""
        from tenuto.client.operations import models

        return await models(self._runner(timeout), provider)

    async def fetch(self, value: T, /, *, timeout: float = 60.0) -> T:
        """Return an image, audio, document, message or transcript with the data of its URLs in it.

        Only public addresses are fetched, and no key is sent; `FetchRefused` has the reason for a refusal.
        """
        from tenuto.client.fetch import fetch_public

        return await fetch_public(value, timeout)

    def use(self, *middleware: tenuto.client.Middleware) -> None:
        """Add middleware to every later call: innermost, closest to the provider."""
        self._added_middleware = (*self._added_middleware, *_check_middleware(middleware))

    async def check_key(self, model: str, headers: Iterable[str] = ()) -> None:
        """Raise `MissingKey` if a request to the model would have no key.

        Nothing is sent, and no key function is called. `headers` are names of headers that the request will have.
        """
        await self._router.check_key(self._target(model), headers)

    async def _locate(self, model: str, headers: Iterable[str] = ()) -> Target:
        """Return the target of a model with its account and platform, if its key is known."""
        target = self._target(model)
        try:
            endpoint = await self._router.endpoint(target, {name.lower() for name in headers})
        except MissingKey:  # replies may come from a cache
            return target
        return msgspec.structs.replace(target, account=endpoint.account, platform=endpoint.platform)

    async def close(self) -> None:
        """Close every connection. Running calls fail."""
        self.closed = True
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.closed = True
        for call in tuple(self._calls):
            call.stop(ConnectionFailed("the client was closed", retryable=False))
        if self._transport is not None:
            await self._transport.close()
        await self._router.close()

    def __del__(self) -> None:
        if not getattr(self, "closed", True) and self._sender is not None:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{' closed' if self.closed else ''}>"

    def _to_timeouts(self, timeout: TimeoutOption) -> Timeouts:
        """Return timeouts: a number is a total, None is the client's."""
        if timeout is None or isinstance(timeout, Timeouts):
            return timeout or self._timeouts
        try:
            return msgspec.structs.replace(self._timeouts, total=float(timeout))
        except (TypeError, ValueError):
            raise TypeError(f"timeout: expected seconds, Timeouts or None, got {timeout!r:.80}") from None

    def _build_request(self, model: Any, messages: Any, parameters: Mapping[str, Any], *, stream: bool) -> ChatRequest:
        from tenuto.client.request import build_checked_request

        if isinstance(model, Mapping):
            model = _with_tools(model)
        if "tools" in parameters:
            parameters = _with_tools(parameters)
        return build_checked_request(model, messages, parameters, self._router.qualify, stream=stream)

    def _begin_call(
        self,
        request: AnyRequest,
        timeouts: Timeouts,
        deadline: float | None = None,
        *,
        before_send: BeforeSend | None = None,
        handler: AnyNext | None = None,
        written: WrittenMessages | None = None,
    ) -> ClientCall:
        from tenuto.client.stream import ClientCall

        if self.closed:
            raise ClosedError("the client is closed")
        if self._sender is None:
            from tenuto.client.exchange import Sender

            if self._transport is None:
                from tenuto.client.transport import AiohttpTransport

                self._transport = AiohttpTransport()
            if self._middleware is None:
                from tenuto.client.middleware.retry import retry

                self._middleware = (retry(2),)
            self._sender = Sender(self._router, self._transport, self._now, self._on_loss)
        middleware = (*(self._middleware or ()), *self._added_middleware)
        own = (self._calls, before_send, handler, written)
        return ClientCall(self._sender, request, middleware, timeouts, deadline, *own)

    def _runner(self, timeout: TimeoutOption) -> Run:
        """Return a function that sends an `OperationCall` through the middleware and returns its result."""
        from tenuto.client.middleware.base import OperationDone, split_model

        timeouts = self._to_timeouts(timeout)
        deadline = _deadline(timeouts)

        async def run(call: OperationCall, perform: Perform) -> object:
            async def send(target: Target, wire: WireRequest) -> bytes:
                return await running.sender.ask(target, wire, timeouts, deadline)

            async def handler(call: OperationCall) -> AsyncIterator[OperationDone]:
                provider, model = split_model(call.model)
                target = self._router.target(call.model) if model else self._router.row(provider)
                yield OperationDone(await perform(call, target, send))

            running = self._begin_call(call, timeouts, deadline, handler=handler)
            async for _ in running.events():
                pass
            return running.last.result

        return run


def _with_tools(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Make tools of the plain functions in `tools`, as an agent does."""
    tools = parameters.get("tools")
    if not isinstance(tools, Iterable) or isinstance(tools, str | bytes | Mapping) or hasattr(tools, "definitions"):
        return parameters
    made = [tenuto.tool(one) if isinstance(one, FunctionType | MethodType) else one for one in tools]
    return {**parameters, "tools": made}


def _check_middleware(middleware: Iterable[Any]) -> tuple[tenuto.client.Middleware, ...]:
    from tenuto.client.middleware.base import check_middleware

    return check_middleware(middleware)


def _deadline(timeouts: Timeouts) -> float | None:
    import asyncio

    return None if timeouts.total is None else asyncio.get_running_loop().time() + timeouts.total
