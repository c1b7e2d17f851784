"""Custom parts: a transport, a store for the cache, a toolbox; and a script in place of the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, assert_type

from tenuto import Client, ToolDefinition
from tenuto.client.http import HttpReply, HttpRequest, Transport
from tenuto.middleware import CacheStore, cache
from tenuto.testing import ScriptedResponse, ScriptedTransport


class Recorder:
    """Stores the requests."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.sent: list[HttpRequest] = []

    async def send(self, request: HttpRequest) -> HttpReply:
        self.sent.append(request)
        return await self.inner.send(request)

    async def close(self) -> None:
        await self.inner.close()


class DictStore:
    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.held.get(key)

    def set(self, key: str, value: bytes, expires: float) -> None:
        self.held[key] = value


class Toolbox:
    def definitions(self) -> Iterator[ToolDefinition]:
        yield ToolDefinition("stop", "Stop everything")


def answered(request: HttpRequest) -> ScriptedResponse:
    return ScriptedResponse({"asked": request.url}, status=200, headers={"content-type": "application/json"})


store: CacheStore = DictStore()
script = ScriptedTransport(
    ScriptedResponse(status=503), {"id": "1", "choices": []}, answered, ScriptedResponse.stream(b"data: {}\n\n")
)
recorder = Recorder(script)
with Client(transport=recorder, middleware=[cache(store), cache(DictStore(), ttl=5)]) as ai:
    reply = ai.chat("openai/gpt-5.2", "Hello", tools=Toolbox())
    assert_type(reply.headers, Mapping[str, str])
assert_type(recorder.sent, list[HttpRequest])
assert_type(script.bodies()[0], Any)
