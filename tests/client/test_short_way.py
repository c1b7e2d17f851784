"""The short way past aiohttp's session: on the wire and in what comes back, it is the long one.

Each case is asked on both, of a socket that writes down every byte.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import warnings

import aiohttp
import pytest
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from hypothesis import given
from hypothesis import strategies as st

from serving import CLOSE, RESET, Gate, Server, chunk, reply
from tenuto.client import transport as under_test
from tenuto.client.http import HttpRequest
from tenuto.client.transport import _AT_ONCE, _HEADS, AiohttpTransport
from tenuto.client.transport import _has_short_way as has_short_way
from tenuto.errors import ConnectionFailed, LLMError, TimedOut

LIMIT = 10.0
"""Seconds after which a test is called broken."""
HEADERS = {"user-agent": "tenuto/0.1", "content-type": "application/json", "x-api-key": "key-of-nobody"}
END = b"<end>"
"""With it, every body ends: whoever listens knows by it that a request is there, whatever its head says."""
BYE = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch):
    monkeypatch.setattr("tenuto.settings.proxy", lambda url: None)


@pytest.fixture
def long_ways(monkeypatch) -> list[str]:
    """The methods of the requests that took the long way."""
    taken: list[str] = []
    request = aiohttp.ClientSession._request

    async def told(self, method, *args, **options):
        taken.append(method)
        return await request(self, method, *args, **options)

    monkeypatch.setattr(aiohttp.ClientSession, "_request", told)
    return taken


def both(ask) -> list:
    """What comes of the short way, and of the long one."""

    async def limited():
        return await asyncio.wait_for(ask(), LIMIT)

    found = [asyncio.run(limited())]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(under_test, "_has_short_way", lambda: False)
        found.append(asyncio.run(limited()))
    return found


async def answer_of(transport: AiohttpTransport, request: HttpRequest) -> object:
    """What an answer says; or how it failed, as far as anyone can see."""
    try:
        got = await transport.send(request)
    except LLMError as exc:
        return type(exc), str(exc).replace(request.url, ""), exc.retryable, type(exc.__cause__)
    pieces = []
    try:
        while piece := await got.read():
            pieces.append(piece)
    except ConnectionFailed as exc:
        return got.status, got.headers, b"".join(pieces), str(exc)
    finally:
        got.close()
    return got.status, got.headers, b"".join(pieces)


# --- what goes out ----------------------------------------------------------------------------------------------------


async def sent(headers: dict[str, str], path: str, body: bytes, user: str = "") -> bytes | str:
    """The bytes of a request, or why there are none."""
    heard, whole = bytearray(), asyncio.Event()

    class Listener(asyncio.Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            heard.extend(data)
            if END in heard[-64:]:
                self.transport.write(BYE)

        def connection_lost(self, exc: Exception | None) -> None:
            whole.set()

    loop = asyncio.get_running_loop()
    async with await loop.create_server(Listener, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        transport = AiohttpTransport()
        try:
            got = await transport.send(HttpRequest("POST", f"http://{user}127.0.0.1:{port}{path}", headers, body + END))
            while await got.read():
                pass
            got.close()
            await whole.wait()
        except LLMError as exc:
            return str(exc).replace(str(port), "PORT")
        finally:
            await transport.close()
    return bytes(heard).replace(b":%d" % port, b":PORT")


@pytest.mark.parametrize(
    ("headers", "path", "size"),
    [
        (HEADERS, "/v1/messages", 100),
        (HEADERS, "/v1/messages?key=a%2Fb&alt=sse", 100),
        (HEADERS, "/v1/models/ä ö:generate?q=ü+1#part", 100),
        (HEADERS, "", 1),
        ({}, "/", 1),
        ({"host": "elsewhere.test", "cookie": "a=b; c=d"}, "/", 1),
        ({"connection": "close"}, "/", 1),
        ({"content-length": "105"}, "/", 100),
        ({"transfer-encoding": "chunked"}, "/", 100),
        ({"x-name": "ünï ☃"}, "/", 1),
        ({"x-name": "a\r\nx-other: b"}, "/", 1),
        ({"x\nname": "a"}, "/", 1),
        (HEADERS, "/", _AT_ONCE - len(END)),
        (HEADERS, "/", _AT_ONCE - len(END) + 1),
        (HEADERS, "/", 2_000_000),
    ],
)
def test_the_same_bytes_go_out(headers, path, size):
    short, long = both(lambda: sent(headers, path, b"x" * size))

    assert short == long


def test_a_password_in_the_address_goes_out_as_ever():
    short, long = both(lambda: sent({}, "/", b"", "user:password@"))

    assert short == long
    assert b"Authorization: Basic" in long


def test_a_password_beside_a_key_is_refused_as_ever():
    short, long = both(lambda: sent({"authorization": "Bearer key"}, "/", b"", "user:password@"))

    assert short == long
    assert isinstance(short, str)


@pytest.mark.parametrize(
    "url", ["", "/v1", "http://", "http:///v1", "ftp://127.0.0.1:9/", "http://[::1/", "http://127.0.0.1:99999/"]
)
def test_no_address_is_the_same_on_both_ways(url):
    short, long = both(lambda: failure_of(url))

    assert short == long
    assert short[0] is ConnectionFailed


NAMES = st.sampled_from(["accept", "Host", "CONNECTION", "content-type", "x-a", "x-b", "content-encoding", "te"])


@given(
    headers=st.dictionaries(NAMES, st.text(max_size=12), max_size=5),
    path=st.text(st.characters(codec="utf-8"), max_size=20),
    body=st.binary(max_size=300),
)
def test_the_same_bytes_go_out_whatever_they_are(headers, path, body):
    short, long = both(lambda: sent(headers, "/" + path, body))

    assert short == long


# --- what comes back --------------------------------------------------------------------------------------------------

OK = reply(b'{"a": 1}')
HEAD = b"HTTP/1.1 200 OK\r\n"
ANSWERS = {
    "whole": [OK],
    "head and body apart": [OK[:-8], Gate, OK[-8:]],
    "chunks": [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", chunk(b"one"), Gate, chunk(b"two") + b"0\r\n\r\n"],
    "chunks, cut": [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", chunk(b"one"), CLOSE],
    "body, cut": [HEAD + b"Content-Length: 10\r\n\r\nhalf", CLOSE],
    "body, reset": [HEAD + b"Content-Length: 10\r\n\r\nhalf", Gate, RESET],
    "until the end": [HEAD + b"\r\nwords", CLOSE],
    "old": [b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}"],
    "the last on its line": [HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"],
    "continue": [b"HTTP/1.1 100 Continue\r\n\r\n" + OK],
    "early hints": [b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n", Gate, OK],
    "nothing to say": [b"HTTP/1.1 204 No Content\r\n\r\n"],
    "not modified": [b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"],
    "other protocol": [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nrest", CLOSE],
    "elsewhere": [b"HTTP/1.1 307 Moved\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"],
    "refusal": [reply(b'{"error": "no"}', status=500)],
    "cookies": [HEAD + b"Set-Cookie: a=b\r\nSet-Cookie: c=d\r\nContent-Length: 0\r\n\r\n"],
    "packed": [HEAD + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd"],
    "two answers": [OK + OK],
    "words behind it": [OK + b"and more"],
    "no HTTP": [b"hello, who is there?\r\n\r\n"],
    "a head too long": [HEAD + b"X-A: " + b"a" * 20_000 + b"\r\n\r\n"],
    "two lengths": [HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x"],
    "silence": [CLOSE],
    "a reset": [RESET],
    "half a head": [HEAD[:12], CLOSE],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_same_comes_of_every_answer(name):
    """And the line is kept, or not, as ever: that shows in the question after it."""

    async def ask() -> object:
        gates = [Gate() for act in ANSWERS[name] if act is Gate]
        left = iter(gates)
        acts = [next(left) if act is Gate else act for act in ANSWERS[name]]

        async def opened() -> None:
            for gate in gates:
                await asyncio.wrap_future(gate.reached)
                gate.open()

        async with Server(acts, OK) as server:
            transport = AiohttpTransport()
            request = HttpRequest("POST", server.url + "/v1", HEADERS, b"{}", LIMIT)
            opening = asyncio.create_task(opened())
            first = await answer_of(transport, request)
            await opening
            second = await answer_of(transport, request)
            lines = server.lines
            await transport.close()
            port = f":{server.port}"
            return str((first, second, lines)).replace(port, ":PORT")

    short, long = both(ask)

    assert short == long


async def failure_of(url: str, seconds: float = LIMIT) -> object:
    transport = AiohttpTransport()
    try:
        return await answer_of(transport, HttpRequest("POST", url, HEADERS, b"{}", seconds))
    finally:
        await transport.close()


def test_no_line_is_the_same_on_both_ways():
    short, long = both(lambda: failure_of("http://127.0.0.1:9/"))

    assert short == long
    assert short[0] is ConnectionFailed


def test_a_line_that_does_not_open_in_time_is_the_same_on_both_ways(monkeypatch):
    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(aiohttp.TCPConnector, "_create_connection", never)

    short, long = both(lambda: failure_of("http://127.0.0.1:9/", 0.01))

    assert short == long
    assert short[0] is TimedOut


def test_a_line_that_is_lost_before_anything_is_sent_is_a_broken_line(monkeypatch):
    """It breaks in the turn in which it was opened."""
    connect = aiohttp.TCPConnector.connect

    async def broken(self, request, **options):
        connection = await connect(self, request, **options)
        connection.transport.abort()
        return connection

    async def ask() -> object:
        async with Server(OK) as server:
            monkeypatch.setattr(aiohttp.TCPConnector, "connect", broken)
            failure = await failure_of(server.url)
            monkeypatch.setattr(aiohttp.TCPConnector, "connect", connect)
            return failure, len(server.requests)

    (short, heard), (long, heard_too) = both(ask)

    assert (ConnectionFailed, ConnectionFailed, 0, 0) == (short[0], long[0], heard, heard_too)
    assert "closed before the request was sent" in short[1]


def test_who_reads_when_the_answer_is_closed_is_told():
    async def ask() -> str:
        async with Server([OK[:-8], Gate()]) as server:
            transport = AiohttpTransport()
            got = await transport.send(HttpRequest("POST", server.url, HEADERS, b"{}", LIMIT))
            reading = asyncio.create_task(got.read())
            await asyncio.sleep(0)
            got.close()
            with pytest.raises(ConnectionFailed) as caught:
                await reading
            await server.requests[0].left()
            await transport.close()
            return str(caught.value)

    short, long = both(ask)

    assert short == long


def test_who_gives_up_leaves_no_line_behind():
    async def ask() -> int:
        async with Server([Gate()], OK) as server:
            transport = AiohttpTransport()
            request = HttpRequest("POST", server.url, HEADERS, b"{}", LIMIT)
            waiting = asyncio.create_task(transport.send(request))
            first = await server.asked()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await first.left()
            await answer_of(transport, request)
            await transport.close()
            return server.lines

    assert [2, 2] == both(ask)


def test_an_answer_may_be_closed_when_its_loop_is_no_more():
    """Its line went with the loop."""

    async def ask(url: str) -> object:
        return await AiohttpTransport().send(HttpRequest("POST", url, HEADERS, b"{}", LIMIT))

    with Server([OK[:-8], Gate()]) as server, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # nobody closed anything
        got = asyncio.run(ask(server.url))
        got.close()
        del got
        gc.collect()


# --- which way is taken -----------------------------------------------------------------------------------------------


async def asked(*requests: tuple[str, dict[str, str], bytes]) -> list[dict[str, str]]:
    """Ask all of them in turn; return the heads as they came."""
    async with Server(OK) as server:
        transport = AiohttpTransport()
        for method, headers, body in requests:
            await answer_of(transport, HttpRequest(method, server.url, headers, body, LIMIT))
        await transport.close()
        return [request.headers for request in server.requests]


@pytest.mark.parametrize(
    ("method", "headers", "body", "long"),
    [
        ("POST", HEADERS, b"{}", False),
        ("POST", HEADERS, b"x" * _AT_ONCE, False),
        ("POST", HEADERS, b"x" * (_AT_ONCE + 1), True),
        ("POST", HEADERS, b"", True),
        ("GET", HEADERS, b"", True),
        ("PUT", HEADERS, b"{}", True),
        ("POST", {"Content-Length": "2"}, b"{}", True),
        ("POST", {"connection": "close"}, b"{}", True),
    ],
)
def test_a_small_question_goes_the_short_way(long_ways, method, headers, body, long):
    asyncio.run(asked((method, headers, body)))

    assert [method] * long == long_ways


def test_a_new_key_is_sent_at_once(long_ways):
    keys = ["first", "first", "second", "first"]

    heads = asyncio.run(asked(*(("POST", {"x-api-key": key}, b"{}") for key in keys)))

    assert keys == [head["x-api-key"] for head in heads]
    assert [] == long_ways


def test_the_callers_headers_may_change_under_way():
    headers = {"x-api-key": "first"}

    async def ask() -> list[str]:
        async with Server(OK) as server:
            transport = AiohttpTransport()
            for headers["x-api-key"] in ("first", "second"):
                await answer_of(transport, HttpRequest("POST", server.url, headers, b"{}"))
            await transport.close()
            return [request.headers["x-api-key"] for request in server.requests]

    assert ["first", "second"] == asyncio.run(ask())


def test_only_so_many_heads_are_kept():
    async def ask() -> int:
        async with Server(OK) as server:
            transport = AiohttpTransport()
            for at in range(_HEADS + 3):
                await answer_of(transport, HttpRequest("POST", f"{server.url}/{at}", HEADERS, b"{}"))
            kept = len(transport._heads)
            await transport.close()
            return kept + len(transport._heads)

    assert 3 == asyncio.run(ask())


def test_nobodys_words_are_kept_with_a_head():
    async def ask() -> int:
        body = b"words " * 100
        before = sys.getrefcount(body)
        async with Server(OK) as server:
            transport = AiohttpTransport()
            await answer_of(transport, HttpRequest("POST", server.url, HEADERS, body))
            kept = sys.getrefcount(body) - before
            await transport.close()
            return kept

    assert 0 == asyncio.run(ask())


def test_without_its_writer_of_heads_aiohttp_is_asked_the_long_way(monkeypatch, long_ways):
    monkeypatch.setattr(under_test, "_SERIALIZER", "_of_another_version")

    asyncio.run(asked(("POST", HEADERS, b"{}")))

    assert ["POST"] == long_ways


async def other(self: object, request: object) -> None:
    """What aiohttp does not have under this name, or not with these arguments."""


@pytest.mark.parametrize(
    ("place", "name", "found"),
    [
        (aiohttp.TCPConnector, "connect", other),
        (ResponseHandler, "set_response_params", other),
        (ResponseHandler, "set_response_params", None),
        (ResponseHandler, "read", None),
        (Connection, "release", None),
    ],
)
def test_another_aiohttp_is_asked_the_long_way(place, name, found, monkeypatch):
    """What is not there, or is called otherwise, is not used."""
    has_short_way.cache_clear()
    assert has_short_way()
    with monkeypatch.context() as patch:
        for kind in place.__mro__ if isinstance(place, type) and found is None else (place,):
            if found is not None:
                patch.setattr(kind, name, found)
            elif name in vars(kind):
                patch.delattr(kind, name)
        has_short_way.cache_clear()
        assert not has_short_way()
    has_short_way.cache_clear()
