from pydantic_ai import Agent

agent = Agent("openai:gpt-5.2")


@agent.tool_plain
def weather(city: str) -> str:
    """Current weather in a city."""
    return f"12 degrees in {city}"


print(agent.run_sync("What is the weather in Oslo?").output)
