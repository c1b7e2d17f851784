from tenuto import Agent, tool
from tenuto.testing import Simulator, call, say, turn


@tool(effect="pure")
def weather(city: str) -> str:
    """Current weather in a city."""
    return f"12 degrees in {city}"


agent = Agent("openai/gpt-5.2", tools=[weather])


def test_agent_asks_for_the_weather(tenuto_sim: Simulator):
    tenuto_sim.script(turn(call("weather", {"city": "Oslo"})), turn(say("Take a coat.")))
    result = agent.run("What is it like in Oslo?")
    assert result.output == "Take a coat."
    assert "12 degrees in Oslo" in str(result.session.transcript)
