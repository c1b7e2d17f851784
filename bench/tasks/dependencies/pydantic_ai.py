from dataclasses import dataclass

from pydantic_ai import Agent, RunContext


@dataclass
class Shop:
    name: str
    prices: dict[str, float]


agent = Agent("openai:gpt-5.2", deps_type=Shop)


@agent.instructions
def introduce(context: RunContext[Shop]) -> str:
    return f"You work for {context.deps.name}."


@agent.tool
def price(context: RunContext[Shop], item: str) -> str:
    """Price of an item."""
    return f"{context.deps.prices[item]} USD"


print(agent.run_sync("How much is a lamp?", deps=Shop("Lamps and more", {"lamp": 12.5})).output)
