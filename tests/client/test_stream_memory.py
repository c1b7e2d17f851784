"""A waiting stream holds neither bytes that were read nor events that were returned."""

from __future__ import annotations

import asyncio
import sys

import pytest

from scripted import ROW, frames
from tenuto import AsyncClient
from tenuto.core.events import ContentDelta
from tenuto.errors import TenutoError

WORDS = [f"word {at} " for at in range(600)]
EVENTS = frames(*WORDS)
SIZES = {"few events": 30, "more than is decoded at once": 250}
"""Events per read: 3 KB, or 25."""


def count_references(values):
    """Count the references to these values except those of the list."""
    free = [object() for _ in values]
    return sum(map(sys.getrefcount, values)) - sum(map(sys.getrefcount, free))


class Answer:
    """Counts, at each read, the references to the earlier bytes and events."""

    status = 200

    def __init__(self, many):
        self._left = [b"".join(EVENTS[at : at + many]) for at in range(0, len(EVENTS), many)][::-1]
        self._read = []
        self.headers = {"content-type": "text/event-stream"}
        self.seen = []
        self.bytes_held = []
        self.events_held = []

    async def read(self):
        earlier = self.seen[:-1]  # the caller may hold the last one
        self.bytes_held.append(count_references(self._read))
        self.events_held.append(count_references(earlier) - len(earlier))
        self._read.append(self._left.pop() if self._left else b"")
        return self._read[-1]

    def close(self):
        return None


class Once:
    """A transport that returns one response."""

    def __init__(self, answer):
        self._answer = answer

    async def send(self, _request):
        return self._answer

    async def close(self):
        return None


async def no_middleware(request, next):
    async for event in next(request):
        yield event


async def read_stream(answer, *middleware):
    async with AsyncClient(providers=[ROW], transport=Once(answer), middleware=middleware) as ai:
        async with ai.stream("mine/m", "Hi") as stream:
            async for event in stream:
                answer.seen.append(event)
        return stream.reply


@pytest.mark.parametrize("middleware", [(), (no_middleware,)], ids=["as it is", "with a layer that sees single events"])
@pytest.mark.parametrize("many", SIZES.values(), ids=SIZES)
def test_waiting_stream_holds_no_earlier_bytes_or_events(many, middleware):
    """This is most of the memory of a client with hundreds of streams."""
    answer = Answer(many)
    reply = asyncio.run(read_stream(answer, *middleware))

    assert reply.text == "".join(WORDS)
    assert [event.delta.text for event in answer.seen if type(event) is ContentDelta] == WORDS
    assert answer.bytes_held == [0] * len(answer.bytes_held)
    assert answer.events_held == [0] * len(answer.events_held)


def test_reply_exists_with_the_last_event():
    """Also if the last events arrive in one read."""

    async def run():
        there = []
        transport = Once(Answer(len(EVENTS)))
        async with AsyncClient(providers=[ROW], transport=transport) as ai, ai.stream("mine/m", "Hi") as stream:
            async for _ in stream:
                try:
                    there.append(stream.reply.text)
                except TenutoError:
                    there.append("")
        return there

    there = asyncio.run(run())

    assert there[-1] == "".join(WORDS)
    assert set(there[:-1]) == {""}
