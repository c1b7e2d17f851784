"""A transport that answers from a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from tenuto.client.http import HttpRequest

__all__ = ["Answer", "ScriptedTransport"]


class Answer(msgspec.Struct, frozen=True):
    """What a server answers: a body whole or in pieces, or the error that breaks the line after the pieces.

    A body that is no bytes is written as JSON. With `hang`, the line stays silent behind the last piece.
    """

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({"content-type": "application/json"})
    error: Exception | None = None
    hang: bool = False

    @staticmethod
    def stream(*pieces: bytes, error: Exception | None = None, hang: bool = False) -> Answer:
        """Answer with the pieces of a stream, each read by itself."""
        return Answer(pieces, headers={"content-type": "text/event-stream"}, error=error, hang=hang)

    def pieces(self) -> list[bytes]:
        """Return the body as the pieces in which it is read."""
        if isinstance(self.body, bytes):
            return [self.body] if self.body else []
        if isinstance(self.body, tuple) and all(isinstance(piece, bytes) for piece in self.body):
            return list(self.body)
        return [msgspec.json.encode(self.body)]


Script: TypeAlias = Answer | Exception | Mapping[str, Any] | Callable[[HttpRequest], Answer]


class ScriptedTransport:
    """Answers each request with the next entry of a script, and keeps the requests in `requests`.

    An entry is an `Answer`, a document that is answered as JSON, an exception that is raised in place of an answer, or
    a function from the request to an `Answer`. A request for which nothing is left is an `AssertionError`.
    """

    def __init__(self, *script: Script) -> None:
        self._script = list(script)
        self.requests: list[HttpRequest] = []
        self.open = 0

    @property
    def left(self) -> int:
        """How many entries of the script were not asked for."""
        return len(self._script)

    async def send(self, request: HttpRequest) -> ScriptedReply:
        """Answer with the next entry."""
        self.requests.append(request)
        if not self._script:
            raise AssertionError(f"the script has ended, and this was asked: {request!r}")
        entry = self._script.pop(0)
        if isinstance(entry, Exception):
            raise entry
        if not isinstance(entry, Answer):
            entry = entry(request) if callable(entry) else Answer(entry)
        self.open += 1
        return ScriptedReply(self, entry)

    async def close(self) -> None:
        """Nothing is open."""

    def bodies(self) -> list[Any]:
        """The bodies of the requests so far, read as JSON."""
        return [msgspec.json.decode(request.body) for request in self.requests]


class ScriptedReply:
    """An answer out of a script. Once it was closed, it is no longer counted in `ScriptedTransport.open`."""

    def __init__(self, transport: ScriptedTransport, answer: Answer) -> None:
        self._transport = transport
        self._pieces = answer.pieces()
        self._answer = answer
        self._closed = False
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.headers.items()}

    async def read(self) -> bytes:
        """Return the next piece."""
        if self._pieces:
            return self._pieces.pop(0)
        if self._answer.error is not None:
            raise self._answer.error
        if self._answer.hang:
            await asyncio.get_running_loop().create_future()
        return b""

    def close(self) -> None:
        """Let go."""
        if not self._closed:
            self._closed = True
            self._transport.open -= 1
