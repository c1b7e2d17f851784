"""Responses that are too large or compressed: memory is bounded, and valid data is read."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
import zlib
from collections.abc import Iterator

import pytest

from serving import CLOSE, Request, Server, chunk, replies, reply, stream_head, streamed
from serving.client import ask, client
from tenuto.errors import BadRequest, ConnectionFailed, IncompleteResponse, LLMError, ProtocolError, Unavailable
from tenuto.wire.framing import MAX_EVENT

MEGABYTE = 1 << 20
GZIP = 16 + zlib.MAX_WBITS
PIECE = b"x" * 65_536


def compress(data: bytes, bits: int = GZIP) -> bytes:
    """Return data as gzip, or in the format that the window bits select."""
    z = zlib.compressobj(wbits=bits)
    return z.compress(data) + z.flush()


def gzip_bomb(start: bytes = b"", filling: bytes = b" ") -> Iterator[bytes]:
    """Yield an endless gzip stream that grows by a factor of 1,000."""
    z = zlib.compressobj(wbits=GZIP)
    yield z.compress(start) + z.flush(zlib.Z_FULL_FLUSH)
    block = z.compress(filling * (MEGABYTE // len(filling))) + z.flush(zlib.Z_FULL_FLUSH)
    while True:
        yield block


def refused(answer: object, *, stream: bool) -> tuple[LLMError, int]:
    """Send a request; return its error and the peak of memory. The server stops an endless response."""

    async def run() -> tuple[LLMError, int]:
        async with Server(answer) as server, client(server.url) as ai:
            tracemalloc.start()
            try:
                with pytest.raises(LLMError) as caught:
                    await ask(ai, stream=stream)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            if callable(answer):
                await server.requests[0].left()
            return caught.value, peak

    return asyncio.run(run())


@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_endless_line_of_a_stream_is_refused(framing):
    def endless(_: Request):
        yield stream_head(framing)
        piece = chunk(PIECE) if framing == "chunked" else PIECE
        yield chunk(b"data: ") if framing == "chunked" else b"data: "
        while True:
            yield piece

    error, peak = refused(endless, stream=True)

    assert type(error) is ProtocolError
    assert str(MAX_EVENT) in str(error)
    assert len(error.raw) <= 4096
    assert peak < 4 * MAX_EVENT


def test_endless_body_is_refused():
    def endless(_: Request):
        yield reply(b"", content_length="", transfer_encoding="chunked")
        while True:
            yield chunk(PIECE)

    error, peak = refused(endless, stream=False)

    assert type(error) is ProtocolError
    assert "larger than" in str(error)
    assert peak < 160 * MEGABYTE


def test_endless_body_instead_of_a_stream_is_refused():
    def endless(_: Request):
        yield reply(b"", content_length="", transfer_encoding="chunked") + chunk(b'{"choices": [')
        while True:
            yield chunk(PIECE)

    error, peak = refused(endless, stream=True)

    assert type(error) is ProtocolError
    assert peak < 4 * MAX_EVENT


def test_endless_header_is_refused():
    def endless(_: Request):
        yield b"HTTP/1.1 200 OK\r\nx-long: "
        while True:
            yield PIECE

    error, peak = refused(endless, stream=True)

    assert type(error) is ProtocolError
    assert peak < 4 * MEGABYTE


BOMBS = {
    "event": (b"data: ", b" ", True, 200),
    "body": (b'{"choices": [', b" ", False, 200),
    "body of a stream": (b'{"choices": [', b" ", True, 200),
    "refusal": (b'{"error": {"message": "', b"x", False, 500),
    "refusal of a stream": (b"", b"\0", True, 500),
}


@pytest.mark.parametrize("name", BOMBS)
def test_gzip_bomb_is_refused(name):
    """The client requests no compression, and decompresses such a response in parts."""
    start, filling, stream, status = BOMBS[name]

    def answer(request: Request):
        assert request.headers["accept-encoding"] == "identity"
        yield reply(b"", status, content_length="", transfer_encoding="chunked", content_encoding="gzip")
        yield from map(chunk, gzip_bomb(start, filling))

    error, peak = refused(answer, stream=stream)

    assert type(error) is (ProtocolError if status == 200 else Unavailable)
    assert peak < 160 * MEGABYTE
    assert len(str(error)) < 10_000
    assert len(error.raw) <= MEGABYTE


def test_gzip_bomb_of_comments_is_refused():
    def answer(_: Request):
        yield stream_head(content_encoding="gzip")
        yield from map(chunk, gzip_bomb(b"", b":" + b" " * 4094 + b"\n"))

    error, peak = refused(answer, stream=True)

    assert type(error) is ProtocolError
    assert peak < 160 * MEGABYTE


ENCODINGS = {
    "gzip": ("gzip", GZIP),
    "x-gzip": ("x-gzip", GZIP),
    "GZIP": ("GZIP", GZIP),
    "deflate": ("deflate", zlib.MAX_WBITS),
    "bare deflate": ("deflate", -zlib.MAX_WBITS),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_compressed_response_is_read(name):
    word, bits = ENCODINGS[name]

    async def run() -> None:
        body = compress(replies.body("openai-chat"), bits)
        stream = compress(b"".join(replies.events("openai-chat")), bits)
        pieces = [stream[at : at + 9] for at in range(0, len(stream), 9)]
        error = compress(b'{"error": {"message": "Told so."}}', bits)
        answers = (
            reply(body, content_encoding=word),
            streamed(pieces, content_encoding=word),
            streamed(pieces, "close", content_encoding=word),
            reply(error, 400, content_encoding=word),
        )
        async with Server(*answers) as server, client(server.url) as ai:
            assert (await ask(ai, stream=False)).text == replies.TEXT
            assert (await ask(ai, stream=True)).text == replies.TEXT
            assert (await ask(ai, stream=True)).text == replies.TEXT
            with pytest.raises(BadRequest, match=r"Told so\."):
                await ask(ai, stream=False)

    asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("word", ["br", "zstd", "gzip, gzip", "nonsense"])
def test_unknown_content_encoding_is_a_protocol_error(word, stream):
    error, _ = refused(reply(replies.body("openai-chat"), content_encoding=word), stream=stream)

    assert type(error) is ProtocolError
    assert word in str(error)
    assert error.provider == "mine"


def test_unreadable_body_of_an_error_leaves_the_http_error():
    error, _ = refused(reply(b"{}", 401, content_encoding="br"), stream=False)

    assert error.status == 401


@pytest.mark.parametrize("stream", [False, True])
def test_invalid_gzip_data_is_a_protocol_error(stream):
    error, _ = refused([stream_head("close", content_encoding="gzip") + b"not packed at all", CLOSE], stream=stream)

    assert type(error) is ProtocolError


def test_compressed_stream_that_is_cut_is_incomplete():
    data = compress(b"".join(replies.events("openai-chat")))

    def cut(request: Request):
        return stream_head("close", content_encoding="gzip") + data[: int(request.headers["x-cut"])], CLOSE

    async def run() -> None:
        async with Server(cut) as server, client(server.url) as ai:
            for at in range(0, len(data) // 2, 9):
                with pytest.raises((IncompleteResponse, ConnectionFailed)):
                    await ask(ai, stream=True, extra_headers={"x-cut": str(at)})

    asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", ["openai-chat", "gemini"])
def test_reply_with_too_many_choices_is_refused(dialect, stream):
    def choices(count: int) -> bytes:
        if dialect == "gemini":
            found = {"candidates": [{"index": at, "content": {"parts": [{"text": "x"}]}} for at in range(count)]}
        else:
            part = "delta" if stream else "message"
            found = {"id": "c", "model": "m", "choices": [{"index": at, part: {"content": "x"}} for at in range(count)]}
        return json.dumps(found).encode()

    def answer(_: Request):
        body = choices(2_000)
        return streamed([b"data: " + body + b"\n\n"]) if stream else reply(body)

    async def run() -> LLMError:
        async with Server(answer) as server, client(server.url, dialect) as ai:
            with pytest.raises(ProtocolError, match="more than 1,002 choices") as caught:
                await ask(ai, stream=stream, n=2)
            return caught.value

    assert not asyncio.run(run()).retryable
