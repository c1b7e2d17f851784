"""Test with the local simulator: it needs no key, signs its replies and checks what is sent back."""

from tenuto import Client, tool
from tenuto.errors import BadRequest
from tenuto.testing import Simulator, call, say, think, turn


@tool
def weather(city: str) -> str:
    """Current weather."""
    return f"12 degrees in {city}"


SCRIPT = [turn(think("I have a tool for that."), call("weather", {"city": "Oslo"})), turn(say("Bring a coat."))]

with Simulator(script=SCRIPT) as sim, Client(providers={"sim": {"base_url": f"{sim.base_url}/v1"}}) as ai:
    first = ai.chat("sim/anthropic/claude-opus-4-6", "Weather in Oslo?", tools=[weather], effort="high")
    results = [tool_call.answer(weather(**tool_call.parse())) for tool_call in first.tool_calls]
    second = ai.chat("sim/anthropic/claude-opus-4-6", first.transcript + results, tools=[weather], effort="high")
    print(second.text)
    sim.assert_clean()
    print(len(sim.exercised) > 20, "ANT-THINK-02" in sim.exercised)

    body = sim.requests[1].body
    body["messages"][1]["content"][0]["thinking"] = "I have a spoon for that."  # a changed thinking block is refused
    try:
        ai.chat("sim/anthropic/claude-opus-4-6", "Weather in Oslo?", extra_body=body)
    except BadRequest as error:
        print(error)
