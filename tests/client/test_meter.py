"""What one call used: each attempt once."""

from __future__ import annotations

import asyncio
import json

import pytest

from scripted import ROW, chat, frames
from tenuto import AsyncClient
from tenuto.client.middleware.budget import AttemptUsage, meter_events
from tenuto.core.events import MessageStart, UsageUpdate
from tenuto.core.messages import Usage
from tenuto.middleware import budget, rate_limit
from tenuto.testing import ScriptedResponse, ScriptedTransport

START = MessageStart("a", "m")
TOLD = UsageUpdate(Usage(input_tokens=3))
COUNTED = {"id": "c1", "model": "m-1", "choices": [], "usage": chat()["usage"]}
EARLY = [f"data: {json.dumps(COUNTED)}\n\n".encode(), *frames("hel", "lo")]


def asked(*script, limit, stream=False):
    async def main():
        transport = ScriptedTransport(*script)
        async with AsyncClient(providers=[ROW], transport=transport, middleware=[limit]) as ai:
            if not stream:
                return await ai.chat("mine/m", "Hi")
            async with ai.stream("mine/m", "Hi") as events:
                return await events.drain()

    return asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
def test_one_question_is_counted_once(stream):
    """Usage may stand in the body, and in the first frame of a stream."""
    purse = budget(tokens=100)
    reply = asked(ScriptedResponse.stream(*EARLY) if stream else chat(), limit=purse, stream=stream)

    assert (reply.text, reply.usage.total_tokens) == ("hello", 5)
    assert (purse.tokens, purse.remaining_tokens, purse.unknown) == (5, 95, 0)


@pytest.mark.parametrize("stream", [False, True])
def test_one_question_is_charged_once(stream):
    limit = rate_limit(tokens=100, clock=lambda: 0.0)
    asked(ScriptedResponse.stream(*EARLY) if stream else chat(), limit=limit, stream=stream)

    assert limit._tokens._level == 95


def metered(*events):
    async def run():
        async def play():
            for event in events:
                yield event

        return [event async for event in meter_events(play(), attempts.append)]

    attempts = []
    assert asyncio.run(run()) == list(events)
    return attempts


def test_only_a_second_start_breaks_an_attempt_off():
    """Whatever tells its usage before it begins has not begun twice."""
    assert metered(TOLD, START, TOLD) == [AttemptUsage(TOLD.usage)]


def test_an_attempt_that_was_broken_off_counts_for_itself():
    assert metered(START, TOLD, START, TOLD) == [AttemptUsage(TOLD.usage), AttemptUsage(TOLD.usage)]
