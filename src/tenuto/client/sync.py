"""The door for code that does not await: the same client, on a loop of its own in the background.

Nothing is written twice: each method here runs the coroutine of its namesake. Any thread may call, also one whose own
loop is running (a notebook). Ctrl-C cancels the request and is raised when it has let go of its line.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from tenuto.client.client import AsyncClient

if TYPE_CHECKING:
    from tenuto.client.background_loop import BackgroundLoop
    from tenuto.client.options import Timeouts
    from tenuto.client.parameters import ChatParameters, ClientOptions
    from tenuto.client.pipeline import Middleware
    from tenuto.client.reply import Reply
    from tenuto.client.request import MessageInput
    from tenuto.client.structured import Structured
    from tenuto.client.sync_stream import Stream
    from tenuto.core.embedding import EmbedRequest, EmbedResponse
    from tenuto.core.provider import ModelInfo
    from tenuto.core.request import ChatRequest

__all__ = ["Client"]

T = TypeVar("T")


class Client:
    """Asks every provider. The methods are those of `AsyncClient`, without the `await`.

    Keys come from the environment unless they are passed. Close it with `with` or `close()`. Several threads may share
    one client.
    """

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        self._async = AsyncClient(**options)
        self._lock = threading.Lock()
        self._begun: BackgroundLoop | None = None

    @overload
    def chat(self, request: ChatRequest | Mapping[str, Any], /, *, timeout: float | Timeouts | None = ...) -> Reply: ...
    @overload
    def chat(self, model: str, messages: MessageInput, **parameters: Unpack[ChatParameters]) -> Reply: ...
    def chat(self, model: Any, messages: Any = None, **parameters: Any) -> Reply:
        """Ask once and wait for the whole reply."""
        return self._bridge.run(self._async.chat(model, messages, **parameters))

    @overload
    def stream(
        self, request: ChatRequest | Mapping[str, Any], /, *, timeout: float | Timeouts | None = ...
    ) -> Stream: ...
    @overload
    def stream(self, model: str, messages: MessageInput, **parameters: Unpack[ChatParameters]) -> Stream: ...
    def stream(self, model: Any, messages: Any = None, **parameters: Any) -> Stream:
        """Ask, and hand out the reply while it arrives."""
        bridge = self._bridge
        from tenuto.client.sync_stream import Stream

        return Stream(bridge, self._async.stream(model, messages, **parameters))

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
        self,
        model: str,
        messages: MessageInput,
        output_type: type[T],
        *,
        repairs: int = ...,
        **parameters: Unpack[ChatParameters],
    ) -> Structured[T]: ...
    @overload
    def chat_structured(
        self,
        model: str,
        messages: MessageInput,
        output_type: Mapping[str, Any],
        *,
        repairs: int = ...,
        **parameters: Unpack[ChatParameters],
    ) -> Structured[Any]: ...
    def chat_structured(self, model: Any, messages: Any, output_type: Any = None, **parameters: Any) -> Structured[Any]:
        """Ask for an answer of one shape: a type, or a JSON Schema."""
        return self._bridge.run(self._async.chat_structured(model, messages, output_type, **parameters))

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
        """Turn texts into vectors, in the order of the texts."""
        return self._bridge.run(self._async.embed(model, input, **parameters))

    def count_tokens(self, model: str, messages: MessageInput, **parameters: Unpack[ChatParameters]) -> int:
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

    @property
    def _bridge(self) -> BackgroundLoop:
        """The loop in the background, loaded when something is first asked: a loop costs more to load than the client."""
        if self._begun is None:
            with self._lock:
                from tenuto.client.background_loop import BackgroundLoop

                self._begun = self._begun or BackgroundLoop(self._async.close)
        return self._begun
