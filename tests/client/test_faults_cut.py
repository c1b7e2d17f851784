"""A stream that is cut off: at every byte, in every dialect, in both ways of framing a body."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from serving import CLOSE, Request, Server, chunk, chunked, replies, stream_head
from serving.asking import ask, client, is_part_of
from tenuto.core.response import ChatResponse
from tenuto.errors import ConnectionFailed, IncompleteResponse, LLMError, ProtocolError

AT_ONCE = 32
SEAM = 3
"""How many bytes on both sides of a chunk's frame are cut at where not every byte is."""


def judged(outcome: ChatResponse | LLMError, whole: ChatResponse, place: bytes) -> bool:
    """Hold that a reply that looks whole is, and that an error has what came; tell which of the two it is."""
    if isinstance(outcome, ChatResponse):
        assert (outcome.choices, outcome.id, outcome.model) == (whole.choices, whole.id, whole.model), place
        assert outcome.usage in (whole.usage, None), place
        return True
    assert type(outcome) is IncompleteResponse, (place, outcome)
    assert outcome.retryable
    assert outcome.provider == "mine"
    assert outcome.partial is not None
    assert is_part_of(outcome.partial, whole), (place, outcome.partial)
    return False


def at_the_seams(events: list[bytes]) -> list[int]:
    """The places around the frames of the chunks: within the data of one, a line breaks the same way wherever it does."""
    places: set[int] = set()
    at = 0
    for event in (*events, b""):
        start = at + len(chunk(event)) - len(event) - 2
        at += len(chunk(event))
        places |= {*range(start - SEAM - 4, start + SEAM), *range(at - 2 - SEAM, at + 1)}
    return sorted(place for place in places if 0 <= place <= at)


async def cut(answer: bytes, places: Sequence[int], dialect: str) -> list[bool]:
    """Ask once for each place where the answer is cut; tell for each whether the reply was whole."""
    good = [False] * len(places)

    def played(request: Request):
        return answer[: int(request.headers["x-cut"])], CLOSE

    async with Server(played) as server, client(server.url, dialect) as ai:

        async def asked(at: int) -> ChatResponse | LLMError:
            try:
                return await ask(ai, stream=True, extra_headers={"x-cut": str(at)})
            except LLMError as exc:
                return exc

        whole = await asked(len(answer))
        assert isinstance(whole, ChatResponse)

        async def lane(first: int) -> None:
            for number in range(first, len(places), AT_ONCE):
                at = places[number]
                good[number] = judged(await asked(at), whole, answer[max(0, at - 40) : at])

        await asyncio.gather(*map(lane, range(AT_ONCE)))
        assert len(server.requests) == len(good) + 1
    return good


def hold_order(good: list[bool]) -> None:
    """Once a reply is whole, it stays so; and it is not whole before most of it has come."""
    assert good == sorted(good)
    assert not any(good[: len(good) * 2 // 3])
    assert good[-1]


@pytest.mark.parametrize("dialect", replies.DIALECTS)
def test_cut_at_every_byte(dialect):
    """A body that ends with its line ends cleanly, wherever it is cut: only its last word tells.

    Never a hang, never half a reply that looks whole.
    """
    head, body = stream_head("close"), b"".join(replies.events(dialect))
    assert len(body) <= 1500
    places = range(len(head), len(head) + len(body) + 1)

    hold_order(asyncio.run(cut(head + body, places, dialect)))


@pytest.mark.parametrize("dialect", replies.DIALECTS)
def test_cut_in_chunks(dialect):
    """At every byte of the shortest, and around the frames of the chunks of all."""
    events = replies.events(dialect)
    head, body = stream_head(), chunked(events)
    places = range(len(body) + 1) if dialect == "gemini" else at_the_seams(events)

    hold_order(asyncio.run(cut(head + body, [len(head) + place for place in places], dialect)))


@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_cut_head_is_a_broken_line(framing):
    answer = stream_head(framing)

    def played(request: Request):
        return answer[: int(request.headers["x-cut"])], CLOSE

    async def everything() -> None:
        async with Server(played) as server, client(server.url) as ai:
            for at in range(len(answer)):
                with pytest.raises(ConnectionFailed) as caught:
                    await ask(ai, stream=True, extra_headers={"x-cut": str(at)})
                assert type(caught.value) is ConnectionFailed
                assert caught.value.retryable
                assert f"127.0.0.1:{server.port}" in str(caught.value)

    asyncio.run(everything())


@pytest.mark.parametrize("dialect", replies.DIALECTS)
def test_cut_body_is_an_error(dialect):
    """A body whose length was told, and one that ends with the line."""
    body = replies.body(dialect)
    told = (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        % len(body)
    )
    untold = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"

    def played(request: Request):
        head = told if request.headers["x-head"] == "told" else untold
        return head + body[: int(request.headers["x-cut"])], CLOSE

    async def everything() -> None:
        async with Server(played) as server, client(server.url, dialect) as ai:
            for kind in ("told", "untold"):
                expected = IncompleteResponse if kind == "told" else (IncompleteResponse, ProtocolError)
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
        played = (stream_head(), chunked([body]), CLOSE)
        async with Server(lambda _: played) as server, client(server.url, "gemini") as ai:
            with pytest.raises(IncompleteResponse) as caught:
                async for text in ai.stream("mine/m", "Hi").text_deltas():
                    texts.append(text)
        return "".join(texts), caught.value

    said, error = asyncio.run(run())

    assert said == error.partial.text == "It rains"
