from agents import Agent, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call


@function_tool
def weather(city: str) -> str:
    """Current weather in a city."""
    return f"12 degrees in {city}"


agent = Agent(name="Weather", model="gpt-5.2", tools=[weather])


def test_agent_asks_for_the_weather():
    call = function_call("weather", {"city": "Oslo"}, call_id="call_1")
    model = ScriptedModel([[call], [assistant_message("Take a coat.")]])
    result = Runner.run_sync(agent.clone(model=model), "What is it like in Oslo?")
    assert result.final_output == "Take a coat."
    assert "12 degrees in Oslo" in str(result.to_input_list())
