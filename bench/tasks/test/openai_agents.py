from agents import Agent, RunConfig, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call


@function_tool
def weather(city: str) -> str:
    """Current weather in a city."""
    return f"12 degrees in {city}"


agent = Agent(name="Weather", model="gpt-5.2", tools=[weather])


def test_agent_asks_for_the_weather():
    model = ScriptedModel(
        [function_call("weather", {"city": "Oslo"}, call_id="call_1"), assistant_message("Take a coat.")]
    )
    config = RunConfig(model=model, tracing_disabled=True)
    result = Runner.run_sync(agent, "What is it like in Oslo?", run_config=config)
    assert result.final_output == "Take a coat."
    assert "12 degrees in Oslo" in str(result.to_input_list())
