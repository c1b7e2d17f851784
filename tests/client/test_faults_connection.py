"""Connections that are silent, slow, broken or refused; connections that the client closes."""

from __future__ import annotations

import asyncio
import random
import socket
import sys

import pytest

from serving import (
    CLOSE,
    HALF_CLOSE,
    RESET,
    Drip,
    Gate,
    Server,
    chunk,
    replies,
    reply,
    stream_head,
    streamed,
    unused_port,
)
from serving.client import ask, client
from serving.tls import self_signed
from tenuto import AsyncClient
from tenuto.client.parameters import Timeouts
from tenuto.core.blocks import Reasoning
from tenuto.core.events import ContentDelta, SignatureDelta
from tenuto.errors import ConnectionFailed, IncompleteResponse, LLMError, ProtocolError, TimedOut
from tenuto.middleware import retry

SHORT = 0.05
LONG = 30.0
PATIENT = Timeouts(connect=LONG, read=LONG, event=LONG, total=LONG)


def timeouts(**short: float) -> Timeouts:
    """Return long timeouts, except those that are passed."""
    return Timeouts(**{"connect": LONG, "read": LONG, "event": LONG, "total": LONG, **short})


def failing(
    acts: object, *, stream: bool = True, timeout: Timeouts = PATIENT, dialect: str = "openai-chat"
) -> LLMError:
    """Send one request; return its error, and check that the connection is closed."""

    async def run() -> LLMError:
        async with Server(acts) as server, client(server.url, dialect, timeout=timeout) as ai:
            with pytest.raises(LLMError) as caught:
                await ask(ai, stream=stream)
            await server.requests[0].left()
            return caught.value

    return asyncio.run(run())


def stream_start(count: int, dialect: str = "openai-chat") -> bytes:
    """Return the head of a stream and its first events, in chunks."""
    return stream_head() + b"".join(map(chunk, replies.events(dialect)[:count]))


# --- silence ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("deadline", ["event", "total"])
def test_silence_before_the_head_is_a_timeout(deadline, stream):
    error = failing([Gate()], stream=stream, timeout=timeouts(**{deadline: SHORT}))

    assert type(error) is TimedOut
    assert error.retryable == (deadline != "total")  # after the total timeout there is no retry
    assert error.provider == "mine"


@pytest.mark.parametrize("deadline", ["read", "event", "total"])
@pytest.mark.parametrize("sent", [0, 3])
def test_silence_in_a_stream_is_a_timeout(deadline, sent):
    error = failing([stream_start(sent), Gate()], timeout=timeouts(**{deadline: SHORT if not sent else SHORT * 4}))

    assert type(error) is TimedOut
    if sent:
        assert error.partial is not None
        assert error.partial.text == replies.TEXT
        assert error.partial.message.incomplete


@pytest.mark.parametrize("deadline", ["read", "total"])
def test_silence_in_a_body_is_a_timeout(deadline):
    acts = [reply(replies.body("openai-chat"))[:-5], Gate()]
    error = failing(acts, stream=False, timeout=timeouts(**{deadline: SHORT * 4}))

    assert type(error) is TimedOut


@pytest.mark.parametrize("deadline", ["read", "total"])
def test_silence_in_an_error_body_leaves_the_http_error(deadline):
    """The status is known, so the error does not need the body."""
    error = failing([reply(b"x" * 10, 401)[:-5], Gate()], stream=False, timeout=timeouts(**{deadline: SHORT}))

    assert error.status == 401


@pytest.mark.parametrize("dialect", replies.DIALECTS)
def test_comments_do_not_extend_the_event_timeout(dialect):
    error = failing(
        [stream_start(1, dialect), Drip(chunk(b": keep-alive\n\n"))], timeout=timeouts(event=SHORT), dialect=dialect
    )

    assert type(error) is TimedOut


def test_comments_before_the_first_event_do_not_count():
    error = failing([stream_head(), Drip(chunk(b": keep-alive\n\n"))], timeout=timeouts(event=SHORT))

    assert type(error) is TimedOut


@pytest.mark.parametrize("stream", [True, False])
def test_byte_by_byte_stream_ends_at_the_total_timeout(stream):
    if stream:
        acts = [stream_head("close") + b"data: ", Drip(b" ")]
    else:
        acts = [reply(b"", content_length="999999"), Drip(b" ")]
    error = failing(acts, stream=stream, timeout=timeouts(total=SHORT))

    assert type(error) is TimedOut


def test_single_bytes_do_not_count_as_events():
    error = failing([stream_head("close") + b"data: ", Drip(b" ")], timeout=timeouts(event=SHORT))

    assert type(error) is TimedOut


def test_total_timeout_includes_all_attempts():
    """Each attempt may wait half of the total: there is time for three. A fourth is not started."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async def run() -> None:
        waiting = timeouts(event=SHORT, total=SHORT * 2)
        async with (
            Server([Gate()]) as server,
            client(server.url, middleware=[retry(50, sleep=sleep)], timeout=waiting) as ai,
        ):
            with pytest.raises(TimedOut):
                await ask(ai, stream=False)
            assert len(server.requests) <= 3
            assert len(waited) <= 3

    asyncio.run(run())


def test_total_timeout_includes_the_pauses():
    async def run() -> None:
        async with Server(reply(b"{}", 503, retry_after="50")) as server:
            async with (
                client(server.url, middleware=[retry(1)], timeout=timeouts(total=SHORT)) as ai,
                asyncio.timeout(LONG / 6),
            ):
                with pytest.raises(LLMError):
                    await ask(ai, stream=False)
            assert len(server.requests) == 1

    asyncio.run(run())


# --- broken connections ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("end", [CLOSE, HALF_CLOSE, RESET], ids=repr)
def test_connection_closed_before_the_head_is_an_error(end, stream):
    error = failing([end], stream=stream)

    assert type(error) is ConnectionFailed
    assert error.retryable


@pytest.mark.parametrize("framing", ["chunked", "close"])
@pytest.mark.parametrize("end", [CLOSE, HALF_CLOSE, RESET], ids=repr)
def test_connection_closed_in_a_stream_has_the_partial_reply(end, framing):
    gate = Gate()
    events = replies.events("openai-chat")[:3]
    sent = stream_head(framing) + b"".join(map(chunk, events) if framing == "chunked" else events)

    async def read(ai: AsyncClient, skip_sleep: list[str]) -> None:
        async with ai.stream("mine/m", "Hi") as stream:
            async for piece in stream.text_deltas():
                skip_sleep.append(piece)
                if "".join(skip_sleep) == replies.TEXT:
                    gate.open()

    async def run() -> None:
        async with Server([sent, gate, end]) as server, client(server.url) as ai:
            skip_sleep: list[str] = []
            with pytest.raises(LLMError) as caught:
                await read(ai, skip_sleep)
            assert type(caught.value) is IncompleteResponse
            assert caught.value.partial.text == "".join(skip_sleep) == replies.TEXT
            assert caught.value.partial.message.incomplete
            await server.requests[0].left()

    asyncio.run(run())


@pytest.mark.parametrize("end", [CLOSE, HALF_CLOSE, RESET], ids=repr)
def test_drained_request_is_retried_on_a_lost_connection(end):
    whole = [reply(replies.body("openai-chat"))]

    async def run() -> None:
        async with (
            Server([end], [stream_start(2), end], whole) as server,
            client(server.url, middleware=[retry(2, sleep=skip_sleep)]) as ai,
        ):
            assert (await ask(ai, stream=False)).text == replies.TEXT
            assert len(server.requests) == 3

    async def skip_sleep(_: float) -> None:
        pass

    asyncio.run(run())


def test_refused_connection_is_connection_failed():
    async def run() -> None:
        port = unused_port()
        async with client(f"http://127.0.0.1:{port}") as ai:
            with pytest.raises(ConnectionFailed) as caught:
                await ask(ai, stream=False)
            assert f"127.0.0.1:{port}" in str(caught.value)
            assert caught.value.retryable
            assert caught.value.refused_locally

    asyncio.run(run())


def test_unknown_host_is_connection_failed(monkeypatch):
    """Not a timeout or an OSError; the message has the host."""
    look_up = socket.getaddrinfo

    def nowhere(host, *args, **options):
        if host == "nohost.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return look_up(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)

    async def run() -> None:
        async with client("http://nohost.invalid") as ai:
            with pytest.raises(ConnectionFailed, match=r"nohost\.invalid") as caught:
                await ask(ai, stream=True)
            assert type(caught.value) is ConnectionFailed

    asyncio.run(run())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse a connection if the queue is full")
def test_connect_timeout_is_an_error():
    """A listener with a full queue accepts no connection."""

    async def run() -> None:
        with socket.socket() as full, socket.socket() as first, socket.socket() as second:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            for knock in (first, second):
                knock.setblocking(False)
                knock.connect_ex(full.getsockname())
            async with client(f"http://127.0.0.1:{full.getsockname()[1]}", timeout=timeouts(connect=SHORT)) as ai:
                with pytest.raises(TimedOut):
                    await ask(ai, stream=False)

    asyncio.run(run())


def test_server_that_speaks_no_http_is_an_error():
    error = failing([b"SSH-2.0-OpenSSH_9.6\r\n\r\n", CLOSE], stream=False)

    assert "HTTP" in str(error)
    assert not isinstance(error, TimedOut)


def test_untrusted_certificate_is_connection_failed():
    """The request is not sent to an unverified server."""

    async def run() -> None:
        async with Server(reply(), tls=self_signed()[0]) as server, client(server.url) as ai:
            with pytest.raises(ConnectionFailed, match="certificate"):
                await ask(ai, stream=False)
            assert server.requests == []

    asyncio.run(run())


def test_server_that_speaks_no_tls():
    async def run() -> None:
        async with Server([b"HTTP/1.1 400 Bad\r\n\r\n", CLOSE]) as server:
            async with client(server.url.replace("http:", "https:")) as ai:
                with pytest.raises(ConnectionFailed):
                    await ask(ai, stream=False)
            assert {request.method for request in server.requests} == {""}

    asyncio.run(run())


# --- reused connections ----------------------------------------------------------------------------------------------


def test_connections_are_reused():
    async def run() -> None:
        answers = reply(replies.body("openai-chat")), streamed(replies.events("openai-chat"))
        async with Server(answers[0], answers[1], answers[0], answers[1]) as server, client(server.url) as ai:
            for stream in (False, True, False, True):
                assert (await ask(ai, stream=stream)).text == replies.TEXT
            assert server.lines == 1

    asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("end", [CLOSE, RESET], ids=repr)
def test_reused_connection_closed_by_the_server_is_retried(end, stream, monkeypatch):
    """With the default middleware, the call works whether or not the client has seen the end."""
    monkeypatch.setattr(random, "random", lambda: 0.0)

    async def run() -> None:
        whole = reply(replies.body("openai-chat"))
        with Server([whole, end], whole) as server:
            async with client(server.url, middleware=None) as ai:
                assert (await ask(ai, stream=stream)).text == replies.TEXT
                server.requests[0].gone.result(LONG)
                assert (await ask(ai, stream=stream)).text == replies.TEXT
                assert len(server.requests) == 2

    asyncio.run(run())


# --- odd HTTP ---------------------------------------------------------------------------------------------------------

WHOLE = replies.body("openai-chat")
ODD = {
    "early hints": b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + reply(WHOLE),
    "continue": b"HTTP/1.1 100 Continue\r\n\r\n" + reply(WHOLE),
    "no reason": reply(WHOLE).replace(b"200 Said", b"200", 1),
    "old": [b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n" + WHOLE, CLOSE],
    "extensions": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x;a=b\r\n%b\r\n0\r\nx-more: 1\r\n\r\n"
    % (len(WHOLE), WHOLE),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_http_is_read(name):
    async def run() -> None:
        async with Server(ODD[name]) as server, client(server.url) as ai:
            assert (await ask(ai, stream=False)).text == replies.TEXT

    asyncio.run(run())


CHUNKS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
BROKEN = {
    "no size": CHUNKS + b"zz\r\n",
    "negative size": CHUNKS + b"-5\r\nabc\r\n",
    "endless size": CHUNKS + b"f" * 40 + b"\r\n",
    "no end of a chunk": CHUNKS + b"3\r\nabcdef\r\n",
    "broken later": CHUNKS + chunk(replies.events("openai-chat")[0]) + b"zz\r\n",
    "negative length": b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
    "length and chunks": b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "no colon": b"HTTP/1.1 200 OK\r\nwhat\r\n\r\n",
    "zero byte": b"HTTP/1.1 200 OK\r\na: \0\r\n\r\n",
    "version": b"HTTP/9.9 200 OK\r\n\r\n",
    "no number": b"HTTP/1.1 OK\r\n\r\n",
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", BROKEN)
def test_invalid_http_is_a_typed_error(name, stream):
    error = failing([BROKEN[name], CLOSE], stream=stream)

    assert isinstance(error, ProtocolError | ConnectionFailed | IncompleteResponse)
    assert error.provider == "mine"
    assert str(error)


def test_extra_response_does_not_answer_the_next_request():
    evil = reply(replies.body("openai-chat", "Evil."))

    async def run() -> None:
        async with Server(reply(WHOLE) + evil, reply(WHOLE)) as server, client(server.url) as ai:
            for _ in range(2):
                assert (await ask(ai, stream=False)).text == replies.TEXT
            assert len(server.requests) == 2

    asyncio.run(run())


@pytest.mark.parametrize("dialect", ["anthropic-messages", "openai-responses", "openai-chat"])
def test_connection_left_open_after_last_event_is_closed(dialect):
    """The reply is complete, so the client does not wait for the end of the stream."""

    async def run() -> None:
        sent = stream_head() + b"".join(map(chunk, replies.events(dialect)))
        async with Server([sent, Gate()]) as server, client(server.url, dialect, timeout=PATIENT) as ai:
            async with asyncio.timeout(LONG / 3):
                assert (await ask(ai, stream=True)).text == replies.TEXT
                await server.requests[0].left()

    asyncio.run(run())


@pytest.mark.parametrize("dialect, count", [("openai-chat", 6), ("gemini", 4)])
def test_usage_after_the_last_text_has_a_short_timeout(dialect, count, monkeypatch):
    """Comments do not extend the timeout."""
    monkeypatch.setattr("tenuto.client.stream.USAGE_WAIT", SHORT)

    async def run() -> None:
        acts = [stream_start(count, dialect), Drip(chunk(b": keep-alive\n\n"))]
        async with Server(acts) as server, client(server.url, dialect, timeout=PATIENT) as ai:
            async with asyncio.timeout(LONG / 3):
                assert (await ask(ai, stream=True)).text == replies.TEXT
                await server.requests[0].left()

    asyncio.run(run())


# --- the caller ends the stream --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", replies.DIALECTS)
def test_leaving_early_closes_the_connection(dialect):
    async def run() -> None:
        async with (
            Server([stream_start(1, dialect), Gate()]) as server,
            client(server.url, dialect, timeout=PATIENT) as ai,
        ):
            async with ai.stream("mine/m", "Hi") as stream:
                async for _ in stream:
                    break
            await server.requests[0].left()

    asyncio.run(run())


def test_leaving_without_reading_closes_the_connection():
    async def run() -> None:
        gate = Gate()
        async with Server([gate]) as server, client(server.url, timeout=PATIENT) as ai:
            async with ai.stream("mine/m", "Hi"):
                pass
            for request in server.requests:
                await request.left()

    asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("sent", [0, 2])
def test_cancelled_task_closes_the_connection(sent, stream):
    async def run() -> None:
        gate = Gate()
        async with (
            Server([*([stream_start(sent)] if sent else []), gate]) as server,
            client(server.url, timeout=PATIENT) as ai,
        ):
            task = asyncio.create_task(ask(ai, stream=stream))
            await asyncio.wrap_future(gate.reached)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.requests[0].left()

    asyncio.run(run())


def test_cancelled_stream_returns_the_partial_reply():
    """Open blocks have no token; the finished reasoning block has one."""

    async def run() -> None:
        gate = Gate()
        async with (
            Server([stream_start(6, "anthropic-messages"), gate]) as server,
            client(server.url, "anthropic-messages", timeout=PATIENT) as ai,
        ):
            async with ai.stream("mine/m", "Hi") as stream:
                async for _ in stream.text_deltas():
                    break
                part = await stream.cancel()
            await server.requests[0].left()
            assert part.text == replies.TEXT
            assert part.message.incomplete
            assert part.thinking == replies.THOUGHT
            assert part.content[0].meta.signature == replies.SIGNATURE
            assert part.transcript.messages[-1] == part.message

    asyncio.run(run())


def test_cancelled_reasoning_is_unsigned():
    async def run() -> None:
        gate = Gate()
        async with (
            Server([stream_start(3, "anthropic-messages"), gate]) as server,
            client(server.url, "anthropic-messages", timeout=PATIENT) as ai,
        ):
            async with ai.stream("mine/m", "Hi") as stream:
                async for event in stream:
                    if isinstance(event, ContentDelta) and isinstance(event.delta, SignatureDelta):
                        break
                part = await stream.cancel()
            await server.requests[0].left()
            (thought,) = part.content
            assert isinstance(thought, Reasoning)
            assert thought.text == replies.THOUGHT
            assert thought.meta is None
            assert part.message.incomplete

    asyncio.run(run())


def test_closing_the_client_closes_its_connections():
    async def run() -> None:
        gate = Gate()
        async with Server([stream_start(1), gate]) as server:
            ai = client(server.url, timeout=PATIENT)
            stream = ai.stream("mine/m", "Hi")
            await stream.__aenter__()
            async for _ in stream:
                break
            await ai.close()
            await server.requests[0].left()
            await stream.__aexit__(None, None, None)

    asyncio.run(run())
