"""Streams that are cut at every byte, in every dialect, with and without chunked encoding."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from serving import CLOSE, Request, Server, chunk, chunked, replies, stream_head
from serving.client import ask, client, is_part_of
from tenuto.core.response import ChatResponse
from tenuto.errors import ConnectionFailed, IncompleteResponse, LLMError, ProtocolError

AT_ONCE = 32
SEAM = 3
"""Bytes before and after each chunk header at which a long stream is cut."""


def check_outcome(outcome: ChatResponse | LLMError, whole: ChatResponse, position: bytes) -> bool:
    """Check that a reply is complete, or that an error has the received part; return whether it is a reply."""
    if isinstance(outcome, ChatResponse):
        assert (outcome.choices, outcome.id, outcome.model) == (whole.choices, whole.id, whole.model), position
        assert outcome.usage in (whole.usage, None), position
        return True
    assert type(outcome) is IncompleteResponse, (position, outcome)
    assert outcome.retryable
    assert outcome.provider == "mine"
    assert outcome.partial is not None
    assert is_part_of(outcome.partial, whole), (position, outcome.partial)
    return False


def positions_near_chunks(events: list[bytes]) -> list[int]:
    """Return the positions around chunk headers: within the data of a chunk, each cut has the same effect."""
    positions: set[int] = set()
    at = 0
    for event in (*events, b""):
        start = at + len(chunk(event)) - len(event) - 2
        at += len(chunk(event))
        positions |= {*range(start - SEAM - 4, start + SEAM), *range(at - 2 - SEAM, at + 1)}
    return sorted(position for position in positions if 0 <= position <= at)


async def cut_at_each(answer: bytes, positions: Sequence[int], dialect: str) -> list[bool]:
    """Send one request per position at which the answer is cut; return whether each reply was complete."""
    good = [False] * len(positions)

    def answer_cut(request: Request):
        return answer[: int(request.headers["x-cut"])], CLOSE

    async with Server(answer_cut) as server, client(server.url, dialect) as ai:

        async def send(at: int) -> ChatResponse | LLMError:
            try:
                return await ask(ai, stream=True, extra_headers={"x-cut": str(at)})
            except LLMError as exc:
                return exc

        whole = await send(len(answer))
        assert isinstance(whole, ChatResponse)

        async def lane(first: int) -> None:
            for number in range(first, len(positions), AT_ONCE):
                at = positions[number]
                good[number] = check_outcome(await send(at), whole, answer[max(0, at - 40) : at])

        await asyncio.gather(*map(lane, range(AT_ONCE)))
        assert len(server.requests) == len(good) + 1
    return good


def check_order(good: list[bool]) -> None:
    """Check that replies are complete from some position on, and that this position is late."""
    assert good == sorted(good)
    assert not any(good[: len(good) * 2 // 3])
    assert good[-1]


@pytest.mark.parametrize("dialect", replies.DIALECTS)
def test_cut_at_every_byte(dialect):
    """A body that ends with the connection ends without an error at any byte: only the last event shows the end."""
    head, body = stream_head("close"), b"".join(replies.events(dialect))
    assert len(body) <= 1500
    positions = range(len(head), len(head) + len(body) + 1)

    check_order(asyncio.run(cut_at_each(head + body, positions, dialect)))


@pytest.mark.parametrize("dialect", replies.DIALECTS)
def test_cut_in_chunks(dialect):
    events = replies.events(dialect)
    head, body = stream_head(), chunked(events)
    positions = range(len(body) + 1) if dialect == "gemini" else positions_near_chunks(events)

    check_order(asyncio.run(cut_at_each(head + body, [len(head) + position for position in positions], dialect)))


@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_cut_head_is_a_connection_error(framing):
    answer = stream_head(framing)

    def answer_cut(request: Request):
        return answer[: int(request.headers["x-cut"])], CLOSE

    async def everything() -> None:
        async with Server(answer_cut) as server, client(server.url) as ai:
            for at in range(len(answer)):
                with pytest.raises(ConnectionFailed) as caught:
                    await ask(ai, stream=True, extra_headers={"x-cut": str(at)})
                assert type(caught.value) is ConnectionFailed
                assert caught.value.retryable
                assert f"127.0.0.1:{server.port}" in str(caught.value)

    asyncio.run(everything())


@pytest.mark.parametrize("dialect", replies.DIALECTS)
def test_cut_body_is_an_error(dialect):
    """A body with a Content-Length, and one that ends with the connection."""
    body = replies.body(dialect)
    heads = (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        % len(body)
    )
    without_length = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"

    def answer_cut(request: Request):
        head = heads if request.headers["x-head"] == "length" else without_length
        return head + body[: int(request.headers["x-cut"])], CLOSE

    async def everything() -> None:
        async with Server(answer_cut) as server, client(server.url, dialect) as ai:
            for kind in ("length", "no length"):
                expected = IncompleteResponse if kind == "length" else (IncompleteResponse, ProtocolError)
                for at in range(0, len(body), 7):
                    with pytest.raises(expected):
                        await ask(ai, stream=False, extra_headers={"x-cut": str(at), "x-head": kind})
                whole = await ask(ai, stream=False, extra_headers={"x-cut": str(len(body)), "x-head": kind})
                assert whole.text == replies.TEXT

    asyncio.run(everything())


def test_last_frame_without_newline_is_emitted_before_the_error():
    frames = [{"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}}]} for text in ("It ", "rains")]
    body = "\n\n".join(f"data: {json.dumps(frame)}" for frame in frames).encode()

    async def run() -> tuple[str, LLMError]:
        texts = []
        answer_cut = (stream_head(), chunked([body]), CLOSE)
        async with Server(lambda _: answer_cut) as server, client(server.url, "gemini") as ai:
            with pytest.raises(IncompleteResponse) as caught:
                async for text in ai.stream("mine/m", "Hi").text_deltas():
                    texts.append(text)
        return "".join(texts), caught.value

    text, error = asyncio.run(run())

    assert text == error.partial.text == "It rains"
