from dataclasses import dataclass

from agents import Agent, RunContextWrapper, Runner, function_tool


@dataclass
class Shop:
    name: str
    prices: dict[str, float]


def introduce(context: RunContextWrapper[Shop], agent: Agent[Shop]) -> str:
    return f"You work for {context.context.name}."


@function_tool
def price(context: RunContextWrapper[Shop], item: str) -> str:
    """Price of an item."""
    return f"{context.context.prices[item]} USD"


agent = Agent[Shop](name="Seller", model="gpt-5.2", instructions=introduce, tools=[price])
print(Runner.run_sync(agent, "How much is a lamp?", context=Shop("Lamps and more", {"lamp": 12.5})).final_output)
