"""Faults of operations without events: embeddings, token counts, lists of models."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from serving import CLOSE, HALF_CLOSE, RESET, Drip, Gate, Request, Server, chunk, reply, unused_port
from serving.client import client, row
from tenuto import AsyncClient
from tenuto.client.parameters import Timeouts
from tenuto.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    IncompleteResponse,
    LLMError,
    ProtocolError,
    RateLimited,
    TimedOut,
    Unavailable,
)
from tenuto.middleware import retry

CANARY = "sk-canary-41b6a7d0e9c3"
SHORT = 0.05
VECTORS = (
    b'{"data": [{"index": 0, "embedding": [0.5, 1.0]}], "model": "m", "usage": {"prompt_tokens": 2, "total_tokens": 2}}'
)
LISTED = b'{"object": "list", "data": [{"id": "m"}], "has_more": false}'
COUNTED = b'{"input_tokens": 7}'
Act = Callable[[AsyncClient], Awaitable[Any]]


async def embed(ai: AsyncClient) -> Any:
    return (await ai.embed("mine/m", "Hi")).embeddings[0]


async def list_models(ai: AsyncClient) -> Any:
    return [model.id for model in await ai.models("mine")]


async def count_tokens(ai: AsyncClient) -> Any:
    return await ai.count_tokens("mine/m", "Hi")


CALLS: dict[str, tuple[str, Act, bytes, Any]] = {
    "embed": ("openai-chat", embed, VECTORS, (0.5, 1.0)),
    "models": ("openai-chat", list_models, LISTED, ["m"]),
    "count": ("anthropic-messages", count_tokens, COUNTED, 7),
}
every = pytest.mark.parametrize("name", CALLS)


def failing(name: str, answer: object, **options: object) -> LLMError:
    """Call once; return the error. aiohttp may repeat a GET after a lost connection."""
    dialect, act, _, _ = CALLS[name]

    async def run() -> LLMError:
        async with Server(answer) as server, client(server.url, dialect, **options) as ai:
            with pytest.raises(LLMError) as caught:
                await act(ai)
            assert len(server.requests) == 1 or server.requests[0].method == "GET"
            assert caught.value.provider == "mine"
            return caught.value

    return asyncio.run(run())


@every
def test_operation_succeeds(name):
    dialect, act, body, expected = CALLS[name]

    async def run() -> None:
        async with Server(reply(body)) as server, client(server.url, dialect) as ai:
            found = await act(ai)
            assert (tuple(found) if name == "embed" else found) == expected

    asyncio.run(run())


@every
def test_operation_is_retried(name):
    dialect, act, body, _ = CALLS[name]
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async def run() -> None:
        answers = [CLOSE], [RESET], reply(b"{}", 429, retry_after="3"), reply(b"{}", 503), reply(body)
        async with Server(*answers) as server, client(server.url, dialect, middleware=[retry(4, sleep=sleep)]) as ai:
            await act(ai)
            assert len(server.requests) == 5
            assert any(3 <= wait <= 4 for wait in waited)

    asyncio.run(run())


@every
@pytest.mark.parametrize("end", [CLOSE, HALF_CLOSE, RESET], ids=repr)
def test_lost_connection_is_an_error(name, end):
    body = CALLS[name][2]

    assert type(failing(name, [end])) is ConnectionFailed
    for sent in (reply(body)[:-3], reply(body, content_length="", transfer_encoding="chunked")[:-3]):
        error = failing(name, [sent, end])
        assert isinstance(error, ConnectionFailed | IncompleteResponse | ProtocolError)


@every
def test_refused_connection_is_connection_failed(name):
    dialect, act, _, _ = CALLS[name]

    async def run() -> None:
        async with client(f"http://127.0.0.1:{unused_port()}", dialect) as ai:
            with pytest.raises(ConnectionFailed):
                await act(ai)

    asyncio.run(run())


@every
@pytest.mark.parametrize("place", ["head", "body", "drip"])
def test_silent_server_is_a_timeout(name, place):
    acts = {
        "head": [Gate()],
        "body": [reply(CALLS[name][2])[:-3], Gate()],
        "drip": [reply(b"", content_length="99999"), Drip(b" ")],
    }

    assert type(failing(name, acts[place], timeout=Timeouts(total=SHORT))) is TimedOut


@every
@pytest.mark.parametrize(
    "status, kind", [(401, AuthenticationFailed), (429, RateLimited), (503, Unavailable), (307, LLMError)]
)
def test_http_error_is_typed(name, status, kind):
    error = failing(name, reply(b'{"error": {"message": "Told so."}}', status, location="http://other.invalid/"))

    assert type(error) is kind
    assert error.status == status
    assert "other.invalid" in str(error) if status == 307 else error.message == "Told so."


@every
@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"7", b"{}", b'{"data": 1}', b"hello", b"\xff", b'{"data": [{}]}']
)
def test_unexpected_json_is_a_protocol_error(name, body):
    """Only a list may be empty."""
    if name == "models" and body == b"[]":
        return
    assert isinstance(failing(name, reply(body)), ProtocolError | IncompleteResponse)


@every
def test_error_with_status_200_is_raised(name):
    error = failing(name, reply(b'{"error": {"message": "Overloaded", "type": "server_error", "code": 503}}'))

    assert "Overloaded" in str(error)
    assert isinstance(error, Unavailable)


@every
def test_web_page_is_a_protocol_error(name):
    error = failing(name, reply(b"<p>Log in</p>", content_type="text/html"))

    assert type(error) is ProtocolError
    assert "html" in str(error)


@every
def test_endless_gzip_body_is_limited(name):
    def endless(_: Request):
        z = zlib.compressobj(wbits=31)
        yield reply(b"", content_length="", transfer_encoding="chunked", content_encoding="gzip")
        yield chunk(z.compress(b'{"data": [') + z.flush(zlib.Z_FULL_FLUSH))
        block = chunk(z.compress(b" " * (1 << 20)) + z.flush(zlib.Z_FULL_FLUSH))
        while True:
            yield block

    assert type(failing(name, endless)) is ProtocolError


@every
@pytest.mark.parametrize("status", [200, 401, 500])
def test_key_is_not_shown(name, status):
    dialect, act, _, _ = CALLS[name]
    echo = f'{{"error": {{"message": "Bad key {CANARY}", "type": "x"}}}}'.encode()

    async def run() -> None:
        async with Server(reply(echo, status, x_request_id=CANARY)) as server:
            provider = row(server.url, dialect, auth="bearer")
            async with AsyncClient(providers=[provider], keys={"mine": CANARY}, middleware=[]) as ai:
                with pytest.raises(LLMError) as caught:
                    await act(ai)
                assert CANARY in server.requests[0].headers["authorization"]
                error = caught.value
                told = [str(error), repr(error), repr(vars(error)), str(error.__cause__), str(error.__context__)]
                assert CANARY not in "\n".join(told)

    asyncio.run(run())
