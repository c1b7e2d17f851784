from agents import Agent, Runner, function_tool


@function_tool
def weather(city: str) -> str:
    """Current weather in a city."""
    return f"12 degrees in {city}"


agent = Agent(name="Weather", model="gpt-5.2", tools=[weather])
print(Runner.run_sync(agent, "What is the weather in Oslo?").final_output)
