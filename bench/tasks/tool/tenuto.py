from tenuto import Agent, tool


@tool(effect="pure")
def weather(city: str) -> str:
    """Current weather in a city."""
    return f"12 degrees in {city}"


agent = Agent("openai/gpt-5.2", tools=[weather])
print(agent.run("What is the weather in Oslo?").output)
