from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart, models
from pydantic_ai.models.function import FunctionModel

models.ALLOW_MODEL_REQUESTS = False
agent = Agent("openai:gpt-5.2", defer_model_check=True)


@agent.tool_plain
def weather(city: str) -> str:
    """Current weather in a city."""
    return f"12 degrees in {city}"


def reply(messages, info):
    if len(messages) == 1:
        return ModelResponse([ToolCallPart("weather", {"city": "Oslo"})])
    return ModelResponse([TextPart("Take a coat.")])


def test_agent_asks_for_the_weather():
    with agent.override(model=FunctionModel(reply)):
        result = agent.run_sync("What is it like in Oslo?")
    assert result.output == "Take a coat."
    assert "12 degrees in Oslo" in str(result.all_messages())
