"""Run tool calls by hand until the model answers."""

from typing import Literal

from tenuto import Client, tool

MODEL = "anthropic/claude-sonnet-4-6"


@tool
def weather(city: str, unit: Literal["C", "F"] = "C") -> str:
    """Current weather.

    Args:
        city: name of a city
        unit: unit of the temperature
    """
    return f"12 {unit} in {city}"


with Client() as ai:
    reply = ai.chat(MODEL, "Weather in Oslo and Bergen?", tools=[weather])
    while reply.tool_calls:
        results = [call.answer(weather(**call.parse())) for call in reply.tool_calls]
        for result in results:
            print("tool: ", result.content)
        reply = ai.chat(MODEL, reply.transcript + results, tools=[weather])
    print("model:", reply.text)
