from dataclasses import dataclass

from tenuto import Agent, ToolContext, tool
from tenuto.hooks import RunInfo


@dataclass
class Shop:
    name: str
    prices: dict[str, float]


def introduce(run: RunInfo[Shop]) -> str:
    return f"You work for {run.deps.name}."


@tool(effect="pure")
def price(context: ToolContext[Shop], item: str) -> str:
    """Price of an item."""
    return f"{context.deps.prices[item]} USD"


agent = Agent("openai/gpt-5.2", deps_type=Shop, instructions=introduce, tools=[price])
print(agent.run("How much is a lamp?", deps=Shop("Lamps and more", {"lamp": 12.5})).output)
