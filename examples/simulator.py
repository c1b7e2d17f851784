"""Ask a provider that runs on this machine: no key, no network. It signs what it says and checks what comes back."""

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
    answers = [asked.answer(weather(**asked.parse())) for asked in first.tool_calls]
    second = ai.chat("sim/anthropic/claude-opus-4-6", first.transcript + answers, tools=[weather], effort="high")
    print(second.text)
    sim.assert_clean()
    print(len(sim.exercised) > 20, "ANT-THINK-02" in sim.exercised)

    sent = sim.requests[1].body
    sent["messages"][1]["content"][0]["thinking"] = "I have a spoon for that."  # as a careless program would
    try:
        ai.chat("sim/anthropic/claude-opus-4-6", "Weather in Oslo?", extra_body=sent)
    except BadRequest as refused:
        print(refused)
