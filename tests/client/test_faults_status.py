"""HTTP errors: by status, inside a 200, with any body; and retries."""

from __future__ import annotations

import asyncio
import json
from email.utils import formatdate

import pytest

from serving import Request, Server, replies, reply, streamed
from serving.client import ask, client
from tenuto import AsyncClient
from tenuto.core.events import ErrorEvent, StreamEvent, TextDelta
from tenuto.errors import (
    AuthenticationFailed,
    BadRequest,
    ContextTooLong,
    IncompleteResponse,
    LLMError,
    NotFound,
    ProtocolError,
    QuotaExceeded,
    RateLimited,
    Unavailable,
)
from tenuto.middleware import retry

NOW = 1_800_000_000.0


def refused(answer: object, *, stream: bool = False, dialect: str = "openai-chat", **options: object) -> LLMError:
    """Send one request; return the error."""

    async def run() -> LLMError:
        async with Server(answer) as server, client(server.url, dialect, now=lambda: NOW, **options) as ai:
            with pytest.raises(LLMError) as caught:
                await ask(ai, stream=stream)
            assert len(server.requests) == 1
            return caught.value

    return asyncio.run(run())


async def read(ai: AsyncClient, received_events: list[StreamEvent]) -> None:
    """Read a stream to its end into a list of events."""
    async with ai.stream("mine/m", "Hi") as stream:
        async for event in stream:
            received_events.append(event)


def error_body(dialect: str, kind: str, message: str = "Told so.", code: int = 400) -> bytes:
    """Return an error in the vendor's format."""
    shapes = {
        "anthropic-messages": {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_body"},
        "openai-responses": {"error": {"message": message, "type": kind, "param": None, "code": kind}},
        "openai-chat": {"error": {"message": message, "type": kind, "param": None, "code": kind}},
        "gemini": {"error": {"code": code, "message": message, "status": kind}},
    }
    return json.dumps(shapes[dialect]).encode()


# --- by status --------------------------------------------------------------------------------------------------------

KINDS = {
    400: BadRequest,
    401: AuthenticationFailed,
    402: QuotaExceeded,
    403: AuthenticationFailed,
    404: NotFound,
    413: BadRequest,
    422: BadRequest,
    429: RateLimited,
    500: Unavailable,
    502: Unavailable,
    503: Unavailable,
    529: Unavailable,
}
WORDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", replies.DIALECTS)
def test_status_determines_the_error(dialect, stream):
    """The type, whether it can be retried, and its source, for each vendor's message."""

    async def run() -> None:
        def answer(request: Request):
            status = int(request.headers["x-status"])
            body = error_body(dialect, WORDS.get(status, "unheard_of"), code=status)
            return reply(body, status, request_id=f"req_{status}")

        async with Server(answer) as server, client(server.url, dialect) as ai:
            for status, kind in KINDS.items():
                with pytest.raises(LLMError) as caught:
                    await ask(ai, stream=stream, extra_headers={"x-status": str(status)})
                error = caught.value
                assert type(error) is kind, status
                assert error.status == status
                assert error.retryable == (status in (429, 500, 502, 503, 529))
                assert error.message == "Told so."
                assert error.provider == "mine"
                assert error.request_id == f"req_{status}"
                assert json.loads(error.raw)["error"]["message"] == "Told so."

    asyncio.run(run())


BODIES = {
    "web page": (b"<html><body><h1>502 Bad Gateway</h1></body></html>", "text/html"),
    "nothing": (b"", ""),
    "words": (b"upstream connect error", "text/plain"),
    "no utf-8": (b"\xff\xfe\x00", "text/plain"),
    "null": (b"null", "application/json"),
    "list": (b'[{"error": {"message": "Told so.", "code": 502}}]', "application/json"),
    "string": (b'"Told so."', "application/json"),
    "number": (b"7", "application/json"),
    "half": (b'{"error": {"mess', "application/json"),
    "deep": (b"[" * 100_000, "application/json"),
    "strange": (b'{"error": {"message": {"a": 1}, "type": 3, "code": []}}', "application/json"),
    "event": (b'event: error\ndata: {"error": {"message": "Told so."}}\n\n', "text/event-stream"),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", BODIES)
def test_error_with_any_body_is_read(name, stream):
    """The status determines the type, and the body is available unchanged."""
    body, kind = BODIES[name]
    error = refused(reply(body, 502, content_type=kind), stream=stream)

    assert type(error) is Unavailable
    assert error.status == 502
    assert error.retryable
    assert str(error)
    assert error.raw == body.decode("utf-8", "replace")


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_large_error_body_is_truncated(framing):
    """The server announces 8 MB; the error has the beginning."""
    piece = b"x" * 65_536

    def answer(_: Request):
        if framing == "length":
            yield reply(b"", 500, content_length=str(128 * len(piece)))
        else:
            yield reply(b"", 500, content_length="", transfer_encoding="chunked")
        for _ in range(128):
            yield piece if framing == "length" else b"%x\r\n%b\r\n" % (len(piece), piece)

    error = refused(answer)

    assert type(error) is Unavailable
    assert len(error.raw) <= 1_000_000
    assert len(str(error)) <= 10_000
    assert any("longer" in note for note in error.__notes__)


@pytest.mark.parametrize(
    "status, body, kind",
    [
        (429, error_body("openai-chat", "insufficient_quota"), QuotaExceeded),
        (400, error_body("openai-chat", "context_length_exceeded"), ContextTooLong),
        (
            400,
            error_body("anthropic-messages", "invalid_request_error", "prompt is too long: 9 tokens"),
            ContextTooLong,
        ),
        (
            400,
            error_body("anthropic-messages", "invalid_request_error", "Your credit balance is too low"),
            QuotaExceeded,
        ),
        (400, error_body("gemini", "INVALID_ARGUMENT", "API key not valid"), BadRequest),
    ],
)
def test_error_message_refines_the_type(status, body, kind):
    error = refused(reply(body, status))

    assert type(error) is kind
    assert not error.retryable


# --- Retry-After ------------------------------------------------------------------------------------------------------

WAITS = {
    "seconds": ({"retry_after": "3"}, 3.0),
    "fraction": ({"retry_after": "0.5"}, 0.5),
    "zero": ({"retry_after": "0"}, 0.0),
    "spaces": ({"retry_after": "  7  "}, 7.0),
    "milliseconds": ({"retry_after_ms": "250", "retry_after": "9"}, 0.25),
    "date": ({"retry_after": formatdate(NOW + 20, usegmt=True)}, 20.0),
    "date gone by": ({"retry_after": formatdate(NOW - 20, usegmt=True)}, 0.0),
    "negative": ({"retry_after": "-5"}, None),
    "garbage": ({"retry_after": "soon"}, None),
    "not a number": ({"retry_after": "nan"}, None),
    "endless": ({"retry_after": "inf"}, None),
    "none": ({}, None),
    "no such day": ({"retry_after": "Wed, 99 Foo 2026 00:00:00 GMT"}, None),
}


@pytest.mark.parametrize("status", [429, 503, 529])
@pytest.mark.parametrize("name", WAITS)
def test_retry_after_is_read(name, status):
    headers, seconds = WAITS[name]
    error = refused(reply(b"{}", status, **headers))

    assert error.retry_after == (pytest.approx(seconds) if seconds is not None else None)
    assert error.retryable


def test_empty_retry_after_is_none():
    head = b"HTTP/1.1 429 No\r\nretry-after: \r\ncontent-length: 2\r\n\r\n{}"

    assert refused(head).retry_after is None


def asked_again(*answers: object, attempts: int = 2, **options: object) -> tuple[list[float], int, object]:
    """Send a request with `retry`; return its pauses, the number of requests, and the result."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async def run() -> tuple[int, object]:
        async with Server(*answers) as server:
            async with client(server.url, now=lambda: NOW, middleware=[retry(attempts, sleep=sleep)], **options) as ai:
                try:
                    outcome: object = await ask(ai, stream=False)
                except LLMError as exc:
                    outcome = exc
            return len(server.requests), outcome

    return (waited, *asyncio.run(run()))


WHOLE = reply(replies.body("openai-chat"))


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_temporary_error_is_retried(status):
    waited, asked, outcome = asked_again(reply(b"{}", status), reply(b"{}", status), WHOLE)

    assert outcome.text == replies.TEXT
    assert asked == 3
    assert len(waited) == 2
    assert all(0 <= wait <= 30 for wait in waited)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 413, 418, 422, 451])
def test_permanent_error_is_not_retried(status):
    waited, asked, outcome = asked_again(reply(b"{}", status), WHOLE)

    assert (waited, asked) == ([], 1)
    assert outcome.status == status


def test_lasting_error_is_raised_after_the_retries():
    waited, asked, outcome = asked_again(reply(b"{}", 503))

    assert type(outcome) is Unavailable
    assert (len(waited), asked) == (2, 3)


@pytest.mark.parametrize("name", ["seconds", "date", "milliseconds"])
def test_retry_after_is_the_pause(name):
    headers, seconds = WAITS[name]
    waited, _, outcome = asked_again(reply(b"{}", 429, **headers), WHOLE)

    assert outcome.text == replies.TEXT
    assert len(waited) == 1
    assert seconds <= waited[0] <= seconds + 5


@pytest.mark.parametrize("name", ["negative", "garbage", "not a number", "endless", "date gone by", "zero", "none"])
def test_odd_retry_after_is_ignored(name):
    headers, _ = WAITS[name]
    waited, _, outcome = asked_again(reply(b"{}", 429, **headers), WHOLE)

    assert outcome.text == replies.TEXT
    assert len(waited) == 1
    assert 0 <= waited[0] <= 30


def test_very_long_retry_after_raises_the_error():
    """The error has the requested time."""
    waited, asked, outcome = asked_again(reply(b"{}", 429, retry_after="1000000000"), WHOLE)

    assert (waited, asked) == ([], 1)
    assert type(outcome) is RateLimited
    assert outcome.retry_after == 1e9


def test_server_may_forbid_a_retry():
    assert asked_again(reply(b"{}", 503, x_should_retry="false"), WHOLE)[:2] == ([], 1)
    assert asked_again(reply(b"{}", 400, x_should_retry="true"), WHOLE)[1] == 2


def test_stream_is_not_retried_after_its_first_event():
    async def run() -> None:
        events = replies.events("openai-chat")
        answers = streamed(events[:3]), streamed(events)
        async with Server(*answers) as server, client(server.url, middleware=[retry(2)]) as ai:
            received_events: list[StreamEvent] = []
            with pytest.raises(IncompleteResponse):
                await read(ai, received_events)
            assert received_events
            assert len(server.requests) == 1

    asyncio.run(run())


# --- inside a 200 -----------------------------------------------------------------------------------------------------

IN_STREAM: dict[str, bytes] = {
    "anthropic-messages": b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
    "openai-responses": b'data: {"type":"error","error":{"type":"server_error","code":"server_error","message":"Overloaded"}}\n\n',
    "openai-chat": b'data: {"error":{"message":"Overloaded","type":"server_error","code":503}}\n\n',
    "gemini": b'data: {"error":{"code":503,"message":"Overloaded","status":"UNAVAILABLE"}}\n\n',
}


@pytest.mark.parametrize("dialect", replies.DIALECTS)
@pytest.mark.parametrize("before", [0, 1, 3])
def test_error_in_a_stream_is_typed(dialect, before):
    """The caller receives the events before it, an `ErrorEvent`, and the exception with the partial reply."""
    events = [*replies.events(dialect)[:before], IN_STREAM[dialect]]

    async def run() -> None:
        async with Server(streamed(events)) as server, client(server.url, dialect) as ai:
            received_events: list[StreamEvent] = []
            with pytest.raises(Unavailable) as caught:
                await read(ai, received_events)
            error = caught.value
            assert "Overloaded" in str(error)
            assert error.retryable
            assert error.provider == "mine"
            assert "Overloaded" in error.raw
            assert error.partial is not None
            assert isinstance(received_events[-1], ErrorEvent) if before else len(received_events) <= 1
            assert len(received_events) > before - 1

    asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", replies.DIALECTS)
def test_error_as_a_whole_body_is_typed(dialect, stream):
    words = {"gemini": "UNAVAILABLE", "anthropic-messages": "overloaded_error"}
    body = error_body(dialect, words.get(dialect, "server_error"), "Overloaded", 503)
    error = refused(reply(body), stream=stream, dialect=dialect)

    assert type(error) is Unavailable
    assert "Overloaded" in str(error)
    assert error.retryable


def test_error_as_the_first_event_of_a_stream_is_retried():
    """The caller has received nothing yet."""

    async def sleep(_: float) -> None:
        pass

    async def run() -> None:
        for dialect in replies.DIALECTS:
            good, bad = replies.events(dialect), [IN_STREAM[dialect]]
            async with Server(streamed(bad), streamed(good)) as server:
                async with client(server.url, dialect, middleware=[retry(1, sleep=sleep)]) as ai:
                    assert (await ask(ai, stream=True)).text == replies.TEXT
                assert len(server.requests) == 2

    asyncio.run(run())


# --- responses of another type ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", replies.DIALECTS)
def test_web_page_is_a_protocol_error(dialect, stream):
    error = refused(
        reply(b"<!DOCTYPE html><p>Log in</p>", content_type="text/html; charset=utf-8"), stream=stream, dialect=dialect
    )

    assert type(error) is ProtocolError
    assert "html" in str(error)
    assert "base_url" in str(error) or "address" in str(error)
    assert error.provider == "mine"
    assert not error.retryable


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", replies.DIALECTS)
@pytest.mark.parametrize(
    "answer",
    [reply(), reply(b"", 204, content_length=""), reply(b" \n "), reply(content_type="")],
    ids=["200", "204", "space", "no type"],
)
def test_empty_body_is_an_error(answer, dialect, stream):
    error = refused(answer, stream=stream, dialect=dialect)

    assert isinstance(error, IncompleteResponse | ProtocolError)
    assert error.provider == "mine"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", replies.DIALECTS)
@pytest.mark.parametrize("body", [b"null", b"[]", b"7", b'"x"', b"{}", b'{"a": 1}', b"hello", b"\xff\xfe"], ids=repr)
def test_unexpected_json_is_an_error(body, dialect, stream):
    error = refused(reply(body), stream=stream, dialect=dialect)

    assert isinstance(error, IncompleteResponse | ProtocolError)


@pytest.mark.parametrize("dialect", replies.DIALECTS)
def test_stream_instead_of_a_body_is_read(dialect):
    async def run() -> None:
        async with Server(streamed(replies.events(dialect))) as server, client(server.url, dialect) as ai:
            answer = await ai.chat("mine/m", "Hi")
            assert answer.text == replies.TEXT
            assert answer.thinking == replies.THOUGHT
            assert answer.tool_calls[0].parse() == replies.ARGUMENTS
            assert not server.requests[0].json().get("stream")

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "", "text/plain"])
@pytest.mark.parametrize("dialect", replies.DIALECTS)
def test_body_instead_of_a_stream_is_read(dialect, kind):
    async def run() -> None:
        async with Server(reply(replies.body(dialect), content_type=kind)) as server, client(server.url, dialect) as ai:
            async with ai.stream("mine/m", "Hi") as stream:
                pieces = [
                    event.delta.text async for event in stream if isinstance(getattr(event, "delta", None), TextDelta)
                ]
                answer = stream.reply
            assert answer.text == "".join(pieces) == replies.TEXT
            assert answer.thinking == replies.THOUGHT
            assert answer.tool_calls[0].parse() == replies.ARGUMENTS
            assert answer.usage.total_tokens == replies.INPUT_TOKENS + replies.OUTPUT_TOKENS

    asyncio.run(run())


@pytest.mark.parametrize("dialect", replies.DIALECTS)
def test_streamed_and_plain_replies_are_equal(dialect):
    async def run() -> None:
        answers = streamed(replies.events(dialect)), reply(replies.body(dialect))
        async with Server(*answers) as server, client(server.url, dialect) as ai:
            one, other = await ask(ai, stream=True), await ask(ai, stream=False)
            assert one.message == other.message
            assert one.usage == other.usage
            assert [request.method for request in server.requests] == ["POST", "POST"]

    asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
def test_unexpected_upgrade_is_an_error(stream):
    error = refused([b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"], stream=stream)

    assert (error.message, error.status, error.retryable) == ("HTTP 101: unexpected upgrade", 101, False)
