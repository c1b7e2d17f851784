"""A transport that answers from a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from tenuto.client.http import HttpRequest

__all__ = ["ScriptedResponse", "ScriptedTransport"]


class ScriptedResponse(msgspec.Struct, frozen=True):
    """The response of a server."""

    body: Any = b""
    """Bytes, a tuple of chunks, or a value that is sent as JSON."""
    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({"content-type": "application/json"})
    error: Exception | None = None
    """Raised after the last chunk, as when the connection breaks."""
    hang: bool = False
    """Whether the connection stays open after the last chunk, without an end."""

    @staticmethod
    def stream(*chunks: bytes, error: Exception | None = None, hang: bool = False) -> ScriptedResponse:
        """Return a streamed response. Each chunk is read separately."""
        return ScriptedResponse(chunks, headers={"content-type": "text/event-stream"}, error=error, hang=hang)

    def chunks(self) -> list[bytes]:
        """Return the chunks in which the body is read."""
        if isinstance(self.body, bytes):
            return [self.body] if self.body else []
        if isinstance(self.body, tuple) and all(isinstance(chunk, bytes) for chunk in self.body):
            return list(self.body)
        return [msgspec.json.encode(self.body)]


Script: TypeAlias = ScriptedResponse | Exception | Mapping[str, Any] | Callable[[HttpRequest], ScriptedResponse]


class ScriptedTransport:
    """Answers each request with the next entry of a script, and stores the requests in `requests`.

    An entry is a `ScriptedResponse`, a dictionary that is sent as JSON, an exception to raise, or a function that returns a
    `ScriptedResponse` for the request. A request after the last entry raises `AssertionError`.
    """

    def __init__(self, *script: Script) -> None:
        self._script = list(script)
        self.requests: list[HttpRequest] = []
        self.open = 0
        """The number of responses that are not closed."""

    @property
    def left(self) -> int:
        """The number of unused entries of the script."""
        return len(self._script)

    async def send(self, request: HttpRequest) -> ScriptedReply:
        """Return the response of the next entry."""
        self.requests.append(request)
        if not self._script:
            raise AssertionError(f"the script has no entry left for this request: {request!r}")
        entry = self._script.pop(0)
        if isinstance(entry, Exception):
            raise entry
        if not isinstance(entry, ScriptedResponse):
            entry = entry(request) if callable(entry) else ScriptedResponse(entry)
        self.open += 1
        return ScriptedReply(self, entry)

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    def bodies(self) -> list[Any]:
        """Return the bodies of the requests so far, parsed as JSON."""
        return [msgspec.json.decode(request.body) for request in self.requests]


class ScriptedReply:
    """The reply that the client reads. `ScriptedTransport.open` counts it until it is closed."""

    def __init__(self, transport: ScriptedTransport, response: ScriptedResponse) -> None:
        self._transport = transport
        self._chunks = response.chunks()
        self._response = response
        self._closed = False
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}

    async def read(self) -> bytes:
        """Return the next chunk; empty at the end."""
        if self._chunks:
            return self._chunks.pop(0)
        if self._response.error is not None:
            raise self._response.error
        if self._response.hang:
            await asyncio.get_running_loop().create_future()
        return b""

    def close(self) -> None:
        """Close the reply. A second call has no effect."""
        if not self._closed:
            self._closed = True
            self._transport.open -= 1
