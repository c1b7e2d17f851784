"""Our client, twenty turns in every style, streamed and not: what it sends back is never refused."""

from __future__ import annotations

import asyncio

import pytest

from tenuto import AsyncClient, tool
from tenuto.catalog import PROVIDERS
from tenuto.sim import Simulator
from tenuto.sim.script import CallTool, Say, Think

LENGTH = 20
MODELS = [
    "anthropic/claude-sonnet-4-5", "anthropic/claude-opus-4-6", "anthropic/claude-opus-4-8", "anthropic/claude-sonnet-5",
    "anthropic/claude-opus-5-5", "anthropic/claude-fable-5-1", "openai/gpt-5.2", "openai/gpt-5.6-sol", "openai/gpt-4o",
    "gemini/gemini-2.5-flash", "gemini/gemini-3-pro-preview", "gemini/gemini-3.5-flash", "deepseek/deepseek-v4-pro",
    "moonshot/kimi-k2.6", "mistral/mistral-medium-latest", "xai/grok-4.5", "groq/llama-3.3-70b-versatile", "zai/glm-4.7",
]  # fmt: skip
"""Real models behind a style, whose rules then hold."""

KNOWN = {"reasoning-withheld", "stripped-parameter"}
"""What a row leaves off on purpose: reasoning that its provider does not want back, tools where there are none."""


@tool
def weather(city: str) -> str:
    """Current weather."""
    return f"rain in {city}"


def turns(count: int) -> tuple:
    """Think, say and call in turns: alone, in parallel, with text between, without thinking."""
    kinds = [
        lambda at: (Think(f"What about {at}?"), CallTool("weather", {"city": f"Oslo {at}"})),
        lambda at: (
            Think(f"Both of {at}."),
            CallTool("weather", {"city": "Oslo"}),
            CallTool("weather", {"city": f"Bergen {at}"}),
        ),
        lambda at: (Think("Hm."), Say(f"Let me look, {at}."), CallTool("weather", {"city": "Ærø"})),
        lambda at: (Think("I know."), Say(f"It rains, {at}.")),
        lambda at: (Say(f"Still rain, {at}."),),
    ]
    return tuple(kinds[at % len(kinds)](at) for at in range(count))


async def converse(ai: AsyncClient, model: str, *, stream: bool) -> int:
    """Go on for `LENGTH` turns; answer every call, say something after every answer."""
    said = "Weather in Oslo?"
    for done in range(LENGTH):
        if stream:
            async with ai.stream(model, said, tools=[weather]) as events:
                async for _ in events:
                    pass
                reply = events.reply
        else:
            reply = await ai.chat(model, said, tools=[weather])
        assert {loss.kind for loss in reply.losses} <= KNOWN, (done, reply.losses)
        answers = [call.answer(weather(**call.parse())) for call in reply.tool_calls]
        said = reply.transcript + (answers or "And now?")
    return done + 1


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("model", [*PROVIDERS["sim"].plays, *MODELS])
def test_twenty_turns(model, stream):
    async def main():
        async with (
            Simulator(script=turns(LENGTH)) as sim,
            AsyncClient(providers={"sim": {"base_url": f"{sim.base_url}/v1"}}, middleware=[]) as ai,
        ):
            assert await converse(ai, f"sim/{model}", stream=stream) == LENGTH
            sim.assert_clean()
            assert len(sim.requests) == LENGTH

    asyncio.run(main())
