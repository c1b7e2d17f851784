"""The synchronous client: each method runs the coroutine of `AsyncClient` on an event loop in a background thread.

Ctrl-C cancels the request and is raised when its connection is closed.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Unpack, overload

import tenuto  # annotations load `tenuto.Stream` when they are evaluated: creating a client must not load asyncio
from tenuto.client.client import AsyncClient, RequestInput
from tenuto.client.parameters import (
    ChatParameters,
    MessageInput,
    TimeoutOption,
    make_sync,
    mirror_methods,
    with_parameters,
)
from tenuto.closable import Closable

if TYPE_CHECKING:
    import tenuto.client
    from tenuto.client.background_loop import BackgroundLoop


@mirror_methods(AsyncClient)
class Client(Closable):
    """The synchronous client, with the methods of `AsyncClient`.

    Keys come from the environment unless they are passed. Close it with `with` or `close()`. Several threads may share
    one client.
    """

    @with_parameters(AsyncClient.__init__)
    def __init__(self, **options: Any) -> None:
        self._async = AsyncClient(**options)
        self._lock = threading.Lock()
        self._loop: BackgroundLoop | None = None

    chat = make_sync(AsyncClient.chat)
    chat_structured = make_sync(AsyncClient.chat_structured)
    embed = make_sync(AsyncClient.embed)
    count_tokens = make_sync(AsyncClient.count_tokens)
    models = make_sync(AsyncClient.models)
    fetch = make_sync(AsyncClient.fetch)

    @overload
    def stream(self, request: RequestInput, /, *, timeout: TimeoutOption = ...) -> tenuto.Stream: ...
    @overload
    def stream(self, model: str, messages: MessageInput, **parameters: Unpack[ChatParameters]) -> tenuto.Stream: ...
    def stream(self, model: Any, messages: Any = None, **parameters: Any) -> tenuto.Stream:
        return tenuto.Stream(self._background, self._async.stream(model, messages, **parameters))

    def use(self, *middleware: tenuto.client.Middleware) -> None:
        self._async.use(*middleware)

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
