"""Functions as tools, which keep their types, and all other ways to name a tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, assert_type

import msgspec

from tenuto import Client, NamedTool, Tool, ToolCallView, ToolContext, ToolDefinition, ToolResult, tool
from tenuto.tools import web_search

MODEL = "anthropic/claude-sonnet-4-6"
PLAIN: dict[str, Any] = {
    "type": "function",
    "function": {"name": "now", "parameters": {"type": "object", "properties": {}}},
}


@tool
def weather(city: str, unit: Literal["C", "F"] = "C") -> str:
    """Current weather."""
    return f"12 {unit} in {city}"


@tool(name="add", description="Add two numbers")
async def added(left: float, right: float) -> float:
    return left + right


async def look_up(arguments: Mapping[str, Any], context: ToolContext) -> str:
    return f"{arguments['city']} {context.key}"


lookup = Tool("lookup", "Look up a city.", {"type": "object"}, look_up, effect="pure", timeout=10)


class Place(msgspec.Struct):
    city: str


def run(call: ToolCallView) -> ToolResult:
    assert_type(call.parse(), Any)
    place = call.parse_args(Place)
    assert_type(place, Place)
    answer = weather(place.city, unit="F")
    assert_type(answer, str)
    return call.answer(answer)


async def sum_of() -> float:
    total = await added(1, right=2)
    assert_type(total, float)
    return total


assert_type(weather.definition, ToolDefinition)
tools: list[Tool] = [weather, added, lookup]
with Client() as ai:
    reply = ai.chat(MODEL, "Weather in Oslo?", tools=[weather, ToolDefinition("stop"), PLAIN, web_search(max_uses=2)])
    reply = ai.chat(MODEL, "Weather in Oslo?", tools=tools)
    while reply.tool_calls:
        answers = [run(call) for call in reply.tool_calls]
        reply = ai.chat(MODEL, reply.transcript + answers, tools=(weather,), tool_choice=NamedTool("weather"))
    print(reply.text)
