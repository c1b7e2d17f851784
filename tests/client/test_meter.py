"""Usage of one call: each attempt is counted once."""

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


def metered_usage(*script, limit, stream=False):
    async def main():
        transport = ScriptedTransport(*script)
        async with AsyncClient(providers=[ROW], transport=transport, middleware=[limit]) as ai:
            if not stream:
                return await ai.chat("mine/m", "Hi")
            async with ai.stream("mine/m", "Hi") as events:
                return await events.drain()

    return asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
def test_usage_of_one_request_is_counted_once(stream):
    """A body has it once; a stream has it in the first frame, too."""
    purse = budget(tokens=100)
    reply = metered_usage(ScriptedResponse.stream(*EARLY) if stream else chat(), limit=purse, stream=stream)

    assert (reply.text, reply.usage.total_tokens) == ("hello", 5)
    assert (purse.tokens, purse.remaining_tokens, purse.unknown) == (5, 95, 0)


@pytest.mark.parametrize("stream", [False, True])
def test_request_is_charged_once(stream):
    limit = rate_limit(tokens=100, clock=lambda: 0.0)
    metered_usage(ScriptedResponse.stream(*EARLY) if stream else chat(), limit=limit, stream=stream)

    assert limit._tokens._level == 95


def meter_script(*events):
    async def run():
        async def play():
            for event in events:
                yield event

        return [event async for event in meter_events(play(), attempts.append)]

    attempts = []
    assert asyncio.run(run()) == list(events)
    return attempts


def test_usage_before_the_start_is_not_a_second_attempt():
    assert meter_script(TOLD, START, TOLD) == [AttemptUsage(TOLD.usage)]


def test_interrupted_attempt_is_counted_separately():
    assert meter_script(START, TOLD, START, TOLD) == [AttemptUsage(TOLD.usage), AttemptUsage(TOLD.usage)]
