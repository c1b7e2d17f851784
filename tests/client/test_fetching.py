"""Fetching URLs in messages: what is accepted and what must not be requested."""

from __future__ import annotations

import asyncio
import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.client import transport as transports
from tenuto.client.fetch import fetch, fetch_public, is_public
from tenuto.client.http import HttpRequest
from tenuto.core.blocks import Audio, Document, Image, Text
from tenuto.core.messages import AssistantMessage, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.transcript import Transcript
from tenuto.errors import ConnectionFailed, FetchRefused, TimedOut

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(200))
URL = "https://x.org/a.png?sig=canary-secret"
PICTURE = Image(url=URL)


class Answer:
    """A scripted response that records whether it was closed and how much was read."""

    def __init__(self, body=b"", status=200, *, piece=64, **headers):
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.closed = False
        self.taken = 0
        self._body = body
        self._piece = piece

    async def read(self):
        piece = self._body[self.taken : self.taken + self._piece]
        self.taken += len(piece)
        return piece

    def close(self):
        self.closed = True


class Script:
    """A transport that returns scripted responses and records its requests."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests: list[HttpRequest] = []
        self.closed = False

    async def send(self, request):
        self.requests.append(request)
        answer = self.answers[len(self.requests) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def close(self):
        self.closed = True


def fetch_value(value, *answers):
    script = Script(*answers)
    try:
        return asyncio.run(fetch(value, script)), script
    finally:
        assert all(answer.closed for answer in script.answers[: len(script.requests)] if isinstance(answer, Answer))


def refused(value, *answers):
    """Return the error and the requested URLs; check that the error shows no secrets of the URL."""
    script = Script(*answers)
    with pytest.raises(FetchRefused) as raised:
        asyncio.run(fetch(value, script))
    assert all(answer.closed for answer in script.answers[: len(script.requests)])
    assert "canary" not in str(raised.value)
    return str(raised.value), [request.url for request in script.requests]


# --- accepted --------------------------------------------------------------------------------------------------------


def test_image_gets_its_data():
    found, script = fetch_value(Image(url=URL, detail="low", cache="5m"), Answer(PNG, content_type="image/x-strange"))

    assert found == Image(base64.b64encode(PNG).decode(), "image/png", detail="low", cache="5m")
    assert [(r.method, r.url, r.body) for r in script.requests] == [("GET", URL, b"")]


def test_no_key_or_cookie_is_sent():
    _, script = fetch_value(
        PICTURE,
        Answer(status=302, location="/b", set_cookie="a=canary"),
        Answer(status=302, location="https://y.org/b"),
        Answer(PNG),
    )

    assert [request.url for request in script.requests] == [URL, "https://x.org/b", "https://y.org/b"]
    for request in script.requests:
        assert request.headers.keys() == {"accept", "accept-encoding", "user-agent"}
        assert request.headers["accept-encoding"] == "identity"
        assert "canary" not in str(request.headers)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(status):
    found, script = fetch_value(PICTURE, Answer(b"moved", status, location="//y.org/b#part"), Answer(PNG))

    assert found.mime == "image/png"
    assert script.requests[1].url == "https://y.org/b"


@pytest.mark.parametrize(
    "url, asked",
    [
        ("HTTP://X.org:80/A?b=c#d", "http://x.org:80/A?b=c"),
        ("https://münchen.de/ü", "https://xn--mnchen-3ya.de/ü"),
        ("https://x.org", "https://x.org"),
        ("https://x.org./", "https://x.org./"),
        ("https://８.８.８.８:1/", "https://8.8.8.8:1/"),
        ("https://[2606:4700::1111]:8443/", "https://[2606:4700::1111]:8443/"),
    ],
)
def test_transport_receives_the_ascii_host(url, asked):
    """The host is normalized once, so the checked host is the requested one."""
    _, script = fetch_value(Image(url=url), Answer(PNG))

    assert script.requests[0].url == asked


@pytest.mark.parametrize(
    "block, body, content_type, mime",
    [
        (Image(url="https://x.org/a"), b"\0\1", "image/x-own; q=1", "image/x-own"),
        (Image(url="https://x.org/a.webp?x"), b"\0\1", "application/octet-stream", "image/webp"),
        (Image(url="https://x.org/a", mime="image/x-own"), b"\0\1", "", "image/x-own"),
        (Audio(url="https://x.org/a"), b"ID3\x04", "", "audio/mpeg"),
        (Audio(url="https://x.org/a"), b"\x00\x00\x00\x1cftypisom", "video/mp4", "audio/mp4"),
        (Document(url="https://x.org/a"), b"%PDF-1.7", "text/plain", "application/pdf"),
        (Document(url="https://x.org/a"), b"a,b\xff", "text/csv", "text/csv"),
        (Document(url="https://x.org/a"), b"a,b\x81", "text/csv; charset=windows-1252", "text/csv"),
    ],
)
def test_type_is_detected_from_bytes_before_headers(block, body, content_type, mime):
    found, _ = fetch_value(block, Answer(body, content_type=content_type))

    assert (found.data, found.mime, found.url) == (base64.b64encode(body).decode(), mime, "")


@pytest.mark.parametrize(
    "body, content_type, text",
    [
        ("Grüße".encode(), "text/plain", "Grüße"),
        ("Grüße".encode(), "text/markdown; charset=UTF-8", "Grüße"),
        ("Gr\xfc\xdfe".encode("latin1"), 'text/plain; charset="ISO-8859-1"', "Grüße"),
        (b"<!doctype html>x", "", "<!doctype html>x"),
        (b'{"a":1}', "application/json", '{"a":1}'),
        (b"anything written", "", "anything written"),
    ],
)
def test_text_file_becomes_text(body, content_type, text):
    found, _ = fetch_value(Document(url="https://x.org/a", title="t"), Answer(body, content_type=content_type))

    assert found == Document(text=text, mime="text/plain", title="t")


def test_messages_and_transcripts_are_searched():
    """A URL that occurs twice is fetched once; replies of a model and other URLs stay."""
    other = Image(url="https://x.org/b.png")
    stays = (
        Text("Look:"),
        Image("aGk=", "image/png", url=URL),
        Image(url="gs://b/a"),
        Audio(id="a"),
        Document(text="x", url=URL),
    )
    transcript = Transcript(
        (
            SystemMessage("Hi"),
            UserMessage((*stays, PICTURE, other), name="ann"),
            AssistantMessage((PICTURE,)),
            ToolResults((ToolResult("a", (PICTURE,), is_error=True), ToolResult("b", "words"))),
            UserMessage("words"),
        ),
        unknown_fields='{"later":1}',
    )
    found, script = fetch_value(transcript, Answer(PNG), Answer(PNG + b"2"))
    first, second = (Image(base64.b64encode(body).decode(), "image/png") for body in (PNG, PNG + b"2"))

    assert found == Transcript(
        (
            SystemMessage("Hi"),
            UserMessage((*stays, first, second), name="ann"),
            AssistantMessage((PICTURE,)),
            ToolResults((ToolResult("a", (first,), is_error=True), ToolResult("b", "words"))),
            UserMessage("words"),
        ),
        unknown_fields='{"later":1}',
    )
    assert [request.url for request in script.requests] == [URL, other.url]


@pytest.mark.parametrize(
    "value",
    [Transcript((UserMessage("Hi"),)), UserMessage((Text("Hi"),)), SystemMessage("Hi"), AssistantMessage((PICTURE,))],
)
def test_value_without_urls_stays_the_same_object(value):
    found, script = fetch_value(value)

    assert found is value
    assert script.requests == []


def test_other_values_are_refused():
    with pytest.raises(TypeError, match="got str"):
        fetch_value("https://x.org")


def test_error_of_the_transport_is_raised():
    with pytest.raises(ConnectionFailed):
        fetch_value(PICTURE, ConnectionFailed("no line"))


# --- refused ---------------------------------------------------------------------------------------------------------

INSIDE = [
    "http://127.0.0.1/", "http://127.0.0.1:8080/", "http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/",
    "http://192.168.1.1/", "http://100.64.0.1/", "http://0.0.0.0/", "http://0/", "http://[::1]/", "http://[::]/",
    "http://[::ffff:7f00:1]/", "http://[::ffff:127.0.0.1]/", "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/",
    "http://[fe80::1%25eth0]/", "http://[fc00::1]/", "http://2130706433/", "http://0x7f000001/", "http://0x7f.1/",
    "http://017700000001/", "http://127.1/", "http://0177.0.0.1/", "http://127.0.0.1./", "http://localhost/",
    "http://LOCALHOST./", "http://a.localhost/", "http://１２７.0.0.1/", "http://127。0。0。1/", "http://168.63.129.16/",
    "http://x.0x7f/", "http://1\u00ad27.0.0.1/", "http://⑫7.0.0.1/", "http://%31%32%37.0.0.1/",
]  # fmt: skip
ODD = [
    "file:///etc/passwd", "ftp://x.org/a", "gopher://x.org/", "data:image/png;base64,aGk=", "javascript:1",
    "http://", "http:///a", "http://a..b/", "http://127.0.0.1,x.org/", "https://user@x.org/", "https://user:canary@x.org/", "https://:canary@x.org/",
    "http://x.org:0/", "http://x.org:99999/", "http://x.org:a/", "http://[::1/", "http://x.org\\@127.0.0.1/",
    "http://x.org/a b", "http://x.org/a\r\nhost: y",
]  # fmt: skip


@pytest.mark.parametrize("url", [url for url in (*INSIDE, *ODD) if url.startswith("http")])
def test_private_address_is_not_requested(url):
    why, asked = refused(Image(url=url))

    assert asked == []
    assert why


@pytest.mark.parametrize("url", [*INSIDE, *ODD])
def test_private_address_is_not_requested_after_a_redirect(url):
    _, asked = refused(
        PICTURE, Answer(status=302, location="https://y.org/b"), Answer(status=307, location=url), Answer(PNG)
    )

    assert asked == [URL, "https://y.org/b"]


@given(
    st.text(max_size=30),
    st.sampled_from(("http://{}", "https://{}/a", "{}", "//{}", "http://127.0.0.1{}", "http://{}127.0.0.1/")),
)
def test_any_redirect_is_followed_or_refused(text, form):
    """Any response of a server leads to a result or to `FetchRefused`, and only checked URLs are requested."""
    script = Script(Answer(status=302, location=form.format(text)), Answer(PNG))
    try:
        asyncio.run(fetch(PICTURE, script))
    except FetchRefused:
        assert len(script.requests) == 1
        return
    assert script.requests[1].url.startswith(("http://", "https://"))
    assert form != "http://127.0.0.1{}" or not text.startswith(("/", ":", "?", "#"))


@pytest.mark.parametrize("hops", [0, 1, 5])
def test_number_of_redirects_is_limited(hops, monkeypatch):
    monkeypatch.setattr("tenuto.client.fetch.HOPS", hops)
    moved = [Answer(status=302, location=f"https://x.org/{at}") for at in range(hops + 1)]
    why, asked = refused(PICTURE, *moved)

    assert f"more than {hops} redirects" in why
    assert len(asked) == hops + 1
    assert fetch_value(PICTURE, *moved[:hops], Answer(PNG))[0].data


def test_redirect_without_location_is_refused():
    assert "without a location" in refused(PICTURE, Answer(status=301))[0]


@pytest.mark.parametrize("status", [204, 206, 304, 400, 404, 500])
def test_http_error_is_refused(status):
    assert str(status) in refused(PICTURE, Answer(PNG, status))[0]


def test_large_body_is_cut_off(monkeypatch):
    """The client counts the bytes it reads; it reads nothing if Content-Length is too large."""
    limit = 1000
    monkeypatch.setattr("tenuto.client.fetch.LIMIT", limit)
    exact = PNG[:8] + bytes(limit - 8)
    assert fetch_value(PICTURE, Answer(exact, content_length=str(limit)))[0].data
    endless, announced = Answer(exact + bytes(100_000), content_length="10"), Answer(exact, content_length="9" * 5000)

    assert "larger than 1000 bytes" in refused(PICTURE, endless)[0]
    assert endless.taken <= limit + 64
    assert "larger than 1000 bytes" in refused(PICTURE, announced)[0]
    assert announced.taken == 0
    assert fetch_value(PICTURE, Answer(exact, content_length="odd"))[0].data


def test_compressed_body_is_refused():
    assert "compressed (gzip)" in refused(PICTURE, Answer(PNG, content_encoding="gzip"))[0]


@pytest.mark.parametrize(
    "block, body, content_type, reason",
    [
        (PICTURE, b"<html>", "image/png", "text/html, not an image"),
        (PICTURE, b"%PDF-1.7", "image/png", "application/pdf, not an image"),
        (PICTURE, b"\0\1", "text/plain", "text/plain, not an image"),
        (PICTURE, b"", "image/png", "empty"),
        (Image(url="https://x.org/a"), b"\0\1", "", "unknown media type of the data"),
        (Audio(url=URL), PNG, "audio/wav", "image/png, not audio"),
        (Document(url=URL), PNG, "application/pdf", "image/png, not a document"),
        (Document(url=URL), b"PK\x03\x04", "application/pdf", "application/zip"),
        (Document(url=URL), b"\0\1", "application/x-own", "type application/x-own cannot be read"),
    ],
)
def test_wrong_media_type_is_refused(block, body, content_type, reason):
    why, _ = refused(block, Answer(body, content_type=content_type))

    assert reason in why
    assert why.startswith("https://x.org/a")


# --- over the network -------------------------------------------------------------------------------------------------


def test_transport_for_fetching_is_guarded_and_closed(monkeypatch):
    guards, script = [], Script(Answer(PNG))

    def made(*, guard):
        guards.append(guard)
        return script

    monkeypatch.setattr(transports, "AiohttpTransport", made)

    assert asyncio.run(fetch_public(PICTURE)).mime == "image/png"
    assert guards == [is_public]
    assert script.closed


def test_slow_server_is_a_timeout(monkeypatch):
    class Silent(Script):
        async def send(self, request):
            await asyncio.Event().wait()

    script = Silent()
    monkeypatch.setattr(transports, "AiohttpTransport", lambda guard: script)

    with pytest.raises(TimedOut, match=r"within 0\.01 seconds"):
        asyncio.run(fetch_public(PICTURE, 0.01))
    assert script.closed
