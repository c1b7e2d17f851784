"""The synchronous client: `AsyncClient` on an event loop in a background thread.

Each method runs the coroutine of the same name. Any thread may call, also one with a running event loop (a notebook).
Ctrl-C cancels the request and is raised when its connection is closed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

import tenuto  # annotations load `tenuto.Reply` when they are evaluated: creating a client must not load asyncio
from tenuto.client.client import AsyncClient
from tenuto.client.options import OnLoss, Timeouts
from tenuto.client.parameters import ChatParameters, Key, MessageInput, ProviderConfig
from tenuto.client.signatures import mirror_methods
from tenuto.core.embedding import EmbedRequest, EmbedResponse
from tenuto.core.provider import ModelInfo, Provider
from tenuto.core.request import ChatRequest

if TYPE_CHECKING:
    from tenuto.client.background_loop import BackgroundLoop

T = TypeVar("T")


@mirror_methods(AsyncClient)
class Client:
    """The synchronous client, with the methods of `AsyncClient`.

    Keys come from the environment unless they are passed. Close it with `with` or `close()`. Several threads may share
    one client.
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
        self._async = AsyncClient(
            keys=keys,
            providers=providers,
            middleware=middleware,
            default_provider=default_provider,
            timeout=timeout,
            transport=transport,
            on_loss=on_loss,
            now=now,
        )
        self._lock = threading.Lock()
        self._loop: BackgroundLoop | None = None

    @overload
    def chat(
        self, request: ChatRequest | Mapping[str, Any], /, *, timeout: float | Timeouts | None = ...
    ) -> tenuto.Reply: ...
    @overload
    def chat(self, model: str, messages: MessageInput, **parameters: Unpack[ChatParameters]) -> tenuto.Reply: ...
    def chat(self, model: Any, messages: Any = None, **parameters: Any) -> tenuto.Reply:
        return self._background.run(self._async.chat(model, messages, **parameters))

    @overload
    def stream(
        self, request: ChatRequest | Mapping[str, Any], /, *, timeout: float | Timeouts | None = ...
    ) -> tenuto.Stream: ...
    @overload
    def stream(self, model: str, messages: MessageInput, **parameters: Unpack[ChatParameters]) -> tenuto.Stream: ...
    def stream(self, model: Any, messages: Any = None, **parameters: Any) -> tenuto.Stream:
        return tenuto.Stream(self._background, self._async.stream(model, messages, **parameters))

    @overload
    def chat_structured(
        self,
        request: ChatRequest,
        output_type: type[T],
        /,
        *,
        repairs: int = ...,
        timeout: float | Timeouts | None = ...,
    ) -> tenuto.Structured[T]: ...
    @overload
    def chat_structured(
        self,
        request: ChatRequest,
        output_type: Mapping[str, Any],
        /,
        *,
        repairs: int = ...,
        timeout: float | Timeouts | None = ...,
    ) -> tenuto.Structured[Any]: ...
    @overload
    def chat_structured(
        self,
        model: str,
        messages: MessageInput,
        output_type: type[T],
        *,
        repairs: int = ...,
        **parameters: Unpack[ChatParameters],
    ) -> tenuto.Structured[T]: ...
    @overload
    def chat_structured(
        self,
        model: str,
        messages: MessageInput,
        output_type: Mapping[str, Any],
        *,
        repairs: int = ...,
        **parameters: Unpack[ChatParameters],
    ) -> tenuto.Structured[Any]: ...
    def chat_structured(
        self, model: Any, messages: Any, output_type: Any = None, **parameters: Any
    ) -> tenuto.Structured[Any]:
        return self._background.run(self._async.chat_structured(model, messages, output_type, **parameters))

    @overload
    def embed(
        self, request: EmbedRequest | Mapping[str, Any], /, *, timeout: float | Timeouts | None = ...
    ) -> EmbedResponse: ...
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
        return self._background.run(self._async.embed(model, input, **parameters))

    def count_tokens(self, model: str, messages: MessageInput, **parameters: Unpack[ChatParameters]) -> int:
        return self._background.run(self._async.count_tokens(model, messages, **parameters))

    def models(self, provider: str, /, *, timeout: float | Timeouts | None = None) -> tuple[ModelInfo, ...]:
        return self._background.run(self._async.models(provider, timeout=timeout))

    def fetch(self, value: T, /, *, timeout: float = 60.0) -> T:
        return self._background.run(self._async.fetch(value, timeout=timeout))

    def use(self, *middleware: tenuto.client.Middleware) -> None:
        self._async.use(*middleware)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection and stop the thread."""
        self._background.close()
        self._async.closed = True

    def __repr__(self) -> str:
        return repr(self._async).replace("AsyncClient", "Client")

    @property
    def _background(self) -> BackgroundLoop:
        """The background loop, created at the first call: asyncio takes longer to load than the client."""
        if self._loop is None:
            with self._lock:
                from tenuto.client.background_loop import BackgroundLoop

                self._loop = self._loop or BackgroundLoop(self._async.close)
        return self._loop
