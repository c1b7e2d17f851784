"""Keys are sent to their own URL only, and appear in no error, log or repr."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import traceback

import pytest

from serving import CLOSE, Gate, Request, Server, chunk, replies, reply, stream_head, streamed
from serving.client import QUICK, ask, client, row
from tenuto import AsyncClient, Client, Provider
from tenuto.client.http import HttpReply, HttpRequest
from tenuto.errors import ConnectionFailed, LLMError, MissingKey, TenutoError

CANARY = "sk-canary-5f1d0c9b7e42"
SCHEMES = {
    "bearer": ("authorization", f"Bearer {CANARY}"),
    "x-api-key": ("x-api-key", CANARY),
    "x-goog-api-key": ("x-goog-api-key", CANARY),
    "api-key": ("api-key", CANARY),
}


def error_texts(error: BaseException | None) -> str:
    """Return all texts of an error and of its causes."""
    if error is None:
        return ""
    shown = [str(error), repr(error), repr(error.args), repr(vars(error)), *getattr(error, "__notes__", ())]
    shown += [str(value) for value in vars(error).values()]
    shown += traceback.format_exception(error)
    return "\n".join([*shown, error_texts(error.__cause__), error_texts(error.__context__)])


def all_texts(caught: BaseException, ai: AsyncClient, caplog, capfd) -> str:
    out, err = capfd.readouterr()
    records = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    return "\n".join([error_texts(caught), repr(ai), str(ai), records, caplog.text, out, err])


def keyed(url: str, scheme: str, **options: object) -> AsyncClient:
    return AsyncClient(
        providers=[row(url, auth=scheme)], keys={"mine": CANARY}, **{"middleware": [], "timeout": QUICK, **options}
    )


@pytest.fixture
def wire_log(monkeypatch, caplog):
    monkeypatch.setenv("TENUTO_DEBUG", "wire")
    caplog.set_level(logging.DEBUG)
    return caplog


# --- hidden in errors, logs and reprs --------------------------------------------------------------------------------

ECHO = json.dumps(
    {"error": {"message": f"Incorrect API key provided: {CANARY}.", "type": CANARY, "code": CANARY}}
).encode()
HEADERS = {"x_request_id": CANARY, "x_echo": f"Bearer {CANARY}", "retry_after": CANARY, "set_cookie": f"a={CANARY}"}
IN_STREAM = b"data: " + ECHO + b"\n\n"
ANSWERS = {
    "401": reply(ECHO, 401, **HEADERS),
    "400": reply(ECHO, 400, **HEADERS),
    "500": reply(ECHO, 500, **HEADERS),
    "429 in words": reply(f"too often: {CANARY}".encode(), 429, content_type="text/plain", **HEADERS),
    "502 web page": reply(f"<p>{CANARY}</p>".encode(), 502, content_type="text/html", **HEADERS),
    "200 web page": reply(f"<p>{CANARY}</p>".encode(), 200, content_type="text/html", **HEADERS),
    "200 error": reply(ECHO, **HEADERS),
    "200 rubbish": reply(f"{{{CANARY}".encode(), **HEADERS),
    "stream error": streamed([*replies.events("openai-chat")[:3], IN_STREAM], x_echo=CANARY),
    "stream error first": streamed([IN_STREAM], x_echo=CANARY),
    "stream rubbish": streamed([b"data: {" + CANARY.encode() + b"\n\n"]),
    "redirect": reply(ECHO, 307, location=f"http://127.0.0.1:9/{CANARY}?key={CANARY}", **HEADERS),
    "strange packing": reply(ECHO, content_encoding=CANARY),
    "strange type": reply(ECHO, content_type=f"text/html; {CANARY}"),
    "cut": [reply(ECHO, 200, content_length="999"), CLOSE],
    "no http": [f"{CANARY}\r\n\r\n".encode(), CLOSE],
    "odd status": [f"HTTP/1.1 7 {CANARY}\r\n\r\n".encode(), CLOSE],
    "nothing": [CLOSE],
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ANSWERS)
def test_key_is_in_no_error_and_no_log(name, stream, wire_log, capfd):
    """The server returns the key in each part of its response."""

    async def run() -> str:
        async with Server(ANSWERS[name]) as server, keyed(server.url, "bearer") as ai:
            with pytest.raises(LLMError) as caught:
                await ask(ai, stream=stream)
            assert server.requests[0].headers["authorization"] == f"Bearer {CANARY}"
            return all_texts(caught.value, ai, wire_log, capfd)

    assert CANARY not in asyncio.run(run())


@pytest.mark.parametrize("at", range(1, len(CANARY), 5))
def test_key_in_two_reads_is_not_logged(at, wire_log):
    """A server echoes the key, and the network splits it."""
    text = f"key {CANARY} was seen by ☃"
    gate = Gate()
    events = [b"data: %b\n\n" % json.dumps({"id": "c", "choices": [], "note": text}, ensure_ascii=False).encode()]
    events += replies.events("openai-chat")
    data = b"".join(events)
    cut = data.index(CANARY.encode()) + at

    def answer(_: Request):
        yield stream_head() + chunk(data[:cut])
        yield gate
        yield chunk(data[cut:]) + chunk(b"")

    async def run() -> None:
        async with Server(answer) as server, keyed(server.url, "bearer") as ai:
            stream = ai.stream("mine/m", "Hi")
            reading = asyncio.create_task(stream.drain())
            while not any("<-" in record.getMessage() for record in wire_log.records):
                await asyncio.sleep(0)
            gate.open()
            await reading

    asyncio.run(run())
    shown = "".join(record.args[0] for record in wire_log.records if record.msg == "<- %s")
    assert CANARY not in shown
    assert shown == data.decode().replace(CANARY, "***")


PLAIN = json.dumps({"error": {"message": "no"}}).encode()
WITHOUT_ECHO = {
    "401": reply(PLAIN, 401),
    "500": reply(PLAIN, 500),
    "200 error": reply(PLAIN),
    "stream error": streamed([*replies.events("openai-chat")[:3], b"data: " + PLAIN + b"\n\n"]),
    "redirect": reply(b"", 307, location="http://127.0.0.1:9/"),
    "cut": [reply(PLAIN, 200, content_length="999"), CLOSE],
    "no http": [b"what?\r\n\r\n", CLOSE],
    "nothing": [CLOSE],
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", WITHOUT_ECHO)
def test_key_is_in_no_locals_of_raised_error(name, stream):
    """Error reporters such as Sentry and rich show the locals of each frame."""

    async def run() -> TenutoError:
        async with Server(WITHOUT_ECHO[name]) as server, keyed(server.url, "bearer") as ai:
            with pytest.raises(LLMError) as caught:
                await ask(ai, stream=stream)
            return caught.value

    assert CANARY not in locals_of(asyncio.run(run()))


def test_key_is_in_no_locals_if_connection_is_refused():
    made = Client(providers=[row("http://127.0.0.1:9")], keys={"mine": CANARY}, middleware=[])
    with made as ai, pytest.raises(ConnectionFailed) as caught:
        ai.chat("mine/m", "Hi")

    assert CANARY not in locals_of(caught.value)


def locals_of(error: BaseException | None) -> str:
    """Return the locals of each frame of an error and its causes, without those of tests."""
    shown = []
    while error is not None:
        stack = traceback.TracebackException.from_exception(error, capture_locals=True).stack
        shown += [f"{frame.name}: {frame.locals}" for frame in stack if f"{os.sep}tests{os.sep}" not in frame.filename]
        error = error.__cause__ or error.__context__
    assert shown
    return "\n".join(shown)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_authentication_scheme_is_tested(scheme, wire_log, capfd):
    header, value = SCHEMES[scheme]

    async def run() -> None:
        async with Server(ANSWERS["401"]) as server, keyed(server.url, scheme) as ai:
            with pytest.raises(LLMError) as caught:
                await ask(ai, stream=False)
            assert server.requests[0].headers[header] == value
            assert CANARY not in all_texts(caught.value, ai, wire_log, capfd)
            assert any("***" in record.getMessage() for record in wire_log.records)

    asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
def test_key_is_not_in_logs_of_a_successful_request(stream, wire_log, capfd):
    """Reply headers are available to the caller, so a key in them is covered, too."""

    async def run() -> None:
        good = reply(replies.body("openai-chat"), x_echo=CANARY, x_request_id=CANARY)
        async with Server(good) as server, keyed(server.url, "bearer") as ai:
            if stream:
                async with ai.stream("mine/m", "Hi") as events:
                    async for _ in events:
                        pass
                    answer = events.reply
            else:
                answer = await ai.chat("mine/m", "Hi")
            assert answer.text == replies.TEXT
            assert CANARY not in repr(answer)
            assert CANARY not in repr(dict(answer.headers)) + str(answer.request_id)
            assert CANARY not in all_texts(LLMError(""), ai, wire_log, capfd)

    asyncio.run(run())


def test_key_is_in_no_repr():
    class Recorder:
        """A transport that stores the request and returns no response."""

        def __init__(self) -> None:
            self.requests: list[HttpRequest] = []

        async def send(self, request: HttpRequest) -> HttpReply:
            self.requests.append(request)
            raise ConnectionFailed("no line")

        async def close(self) -> None:
            pass

    async def run() -> None:
        for scheme in SCHEMES:
            recorder = Recorder()
            async with keyed("http://a.invalid", scheme, transport=recorder) as ai:
                with pytest.raises(ConnectionFailed) as caught:
                    await ask(ai, stream=False)
                (request,) = recorder.requests
                assert any(CANARY in value for value in request.headers.values())
                assert CANARY not in str(request.headers)
                assert CANARY not in repr(request) + str(request) + f"{request}"
                assert CANARY not in repr(ai) + repr(vars(ai)) + error_texts(caught.value)

    asyncio.run(run())


def test_key_is_in_no_repr_of_the_sync_client():
    with Client(providers=[row("http://a.invalid", auth="bearer")], keys={"mine": CANARY}) as ai:
        assert CANARY not in repr(ai) + repr(vars(ai))


@pytest.mark.parametrize("end", ["\n", "\r\nx-evil: 1", "\u2028", "é", "\0", "\x7f", "\U0001f511"], ids=ascii)
@pytest.mark.parametrize("made", [False, True])
def test_key_that_no_header_can_hold_is_refused(end, made):
    """The error comes before the request and does not show the key."""
    bad = f"{CANARY}{end}x"

    async def run() -> None:
        async with (
            Server(reply()) as server,
            AsyncClient(
                providers=[row(server.url, auth="bearer")], keys={"mine": (lambda: bad) if made else bad}, middleware=[]
            ) as ai,
        ):
            with pytest.raises(TenutoError, match="key") as caught:
                await ask(ai, stream=False)
            assert CANARY not in error_texts(caught.value)
            assert server.lines == 0

    asyncio.run(run())


def test_whitespace_around_a_key_is_removed():
    """Keys are often read from files."""

    async def run() -> None:
        async with Server(reply(replies.body("openai-chat"))) as server:
            async with AsyncClient(providers=[row(server.url, auth="bearer")], keys={"mine": f" {CANARY}\r\n"}) as ai:
                await ask(ai, stream=False)
            assert server.requests[0].headers["authorization"] == f"Bearer {CANARY}"

    asyncio.run(run())


@pytest.mark.parametrize("place", ["password", "query"])
def test_secret_in_a_url_is_not_shown(place, wire_log, capfd):
    async def run() -> None:
        async with Server(reply(b"<p>", content_type="text/html")) as server:
            address = (
                f"{server.url.replace('://', f'://user:{CANARY}@')}/v1"
                if place == "password"
                else f"{server.url}/v1?key={CANARY}"
            )
            provider = Provider("mine", "openai-chat", address, auth="none")
            async with AsyncClient(providers=[provider], middleware=[]) as ai:
                with pytest.raises(LLMError) as caught:
                    await ask(ai, stream=False)
                request = server.requests[0]
                assert ("authorization" in request.headers) == (place == "password")
                assert request.path == "/v1/chat/completions" + (f"?key={CANARY}" if place == "query" else "")
                assert CANARY not in all_texts(caught.value, ai, wire_log, capfd)

    asyncio.run(run())


# --- sent to its own URL only ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
def test_redirect_is_not_followed(status, stream):
    """The other server receives no request; the error names its URL."""

    async def run() -> None:
        async with Server(reply(replies.body("openai-chat"))) as other:
            place = f"{other.url}/v1/chat/completions"
            async with Server(reply(b"", status, location=place)) as server, keyed(server.url, "bearer") as ai:
                with pytest.raises(LLMError) as caught:
                    await ask(ai, stream=stream)
                assert type(caught.value) is LLMError
                assert caught.value.status == status
                assert not caught.value.retryable
                assert place in str(caught.value)
                assert "base_url" in str(caught.value)
                assert len(server.requests) == 1
            assert (other.lines, other.requests) == (0, [])

    asyncio.run(run())


@pytest.mark.parametrize("location", ["/elsewhere", "//other.invalid/x", "", "\x01", "http://[", "javascript:1"])
def test_invalid_redirect_is_an_error(location):
    async def run() -> None:
        async with Server(reply(b"", 302, location=location)) as server, keyed(server.url, "bearer") as ai:
            with pytest.raises(LLMError):
                await ask(ai, stream=False)
            assert len(server.requests) == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    "name, variable, model",
    [
        ("openai", "OPENAI_API_KEY", "openai/gpt-5.2"),
        ("anthropic", "ANTHROPIC_API_KEY", "anthropic/claude-sonnet-4-5"),
        ("google", "GEMINI_API_KEY", "google/gemini-3-flash-preview"),
        ("groq", "GROQ_API_KEY", "groq/llama-3.3-70b-versatile"),
    ],
)
def test_key_from_environment_is_not_sent_to_a_custom_url(name, variable, model, monkeypatch):
    """A custom URL gets the vendor's key only if the caller passes it."""
    monkeypatch.setenv(variable, CANARY)

    async def run() -> None:
        async with Server(reply()) as server:
            base_url = f"{server.url}/v1"
            async with AsyncClient(providers={name: {"base_url": base_url}}, middleware=[]) as ai:
                with pytest.raises(MissingKey) as caught:
                    await ask(ai, stream=False, model=model)
                assert CANARY not in error_texts(caught.value)
                assert variable in str(caught.value)
                assert server.lines == 0

    asyncio.run(run())


def test_key_is_sent_to_base_url_of_the_environment(monkeypatch):
    async def run() -> None:
        async with Server(reply(replies.body("openai-responses"))) as server:
            monkeypatch.setenv("OPENAI_API_KEY", CANARY)
            monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
            async with AsyncClient(middleware=[]) as ai:
                assert (await ask(ai, stream=False, model="openai/gpt-5.2")).text == replies.TEXT
            assert server.requests[0].headers["authorization"] == f"Bearer {CANARY}"
            assert server.requests[0].path == "/v1/responses"

    asyncio.run(run())


def test_each_key_is_sent_to_its_own_provider():
    def answer(request: Request):
        return reply(replies.body("openai-chat" if "chat" in request.path else "anthropic-messages"))

    async def run() -> None:
        async with Server(answer) as one, Server(answer) as other:
            async with AsyncClient(
                providers={
                    "mine": {"base_url": f"{one.url}/v1", "api_key": "key-one"},
                    "anthropic": {"base_url": f"{other.url}/v1", "api_key": "key-other"},
                },
                middleware=[],
            ) as ai:
                await asyncio.gather(
                    *(ask(ai, stream=False, model=model) for model in ("mine/m", "anthropic/claude-sonnet-4-5") * 5)
                )
            assert {request.headers["authorization"] for request in one.requests} == {"Bearer key-one"}
            assert {request.headers["x-api-key"] for request in other.requests} == {"key-other"}
            assert not any("key-other" in str(request.headers) for request in one.requests)
            assert not any("key-one" in str(request.headers) for request in other.requests)

    asyncio.run(run())


def test_cookies_are_not_stored():
    async def run() -> None:
        good = reply(replies.body("openai-chat"), set_cookie="a=1; Path=/")
        async with Server(good) as server, client(server.url) as ai:
            await ask(ai, stream=False)
            await ask(ai, stream=False)
            assert not any("cookie" in request.headers for request in server.requests)

    asyncio.run(run())
