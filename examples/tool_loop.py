"""Offer a function as a tool, run the calls that the model makes, and go on until it has its answer."""

from typing import Literal

from tenuto import Client, tool

MODEL = "anthropic/claude-sonnet-4-6"


@tool
def weather(city: str, unit: Literal["C", "F"] = "C") -> str:
    """Current weather.

    Args:
        city: name of a city
        unit: of the temperature
    """
    return f"12 {unit} in {city}"


with Client() as ai:
    reply = ai.chat(MODEL, "Weather in Oslo and Bergen?", tools=[weather])
    while reply.tool_calls:
        answers = [call.answer(weather(**call.parse())) for call in reply.tool_calls]
        for answer in answers:
            print("tool: ", answer.content)
        reply = ai.chat(MODEL, reply.transcript + answers, tools=[weather])
    print("model:", reply.text)
