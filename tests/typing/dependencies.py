"""Tools with dependencies, lists of tools, lambdas that approve, instructions and hooks that read the dependencies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import assert_type

from tenuto import Agent, AsyncAgent, Hooks, Limits, ModelRetry, Result, Session, ToolContext, tool
from tenuto.hooks import Instruction, RunInfo

MODEL = "anthropic/claude-sonnet-5-5"


class Shop:
    prices: dict[str, float]


def is_large(amount: float, **_: object) -> bool:
    return amount > 100


@tool(effect="pure")
def price(ctx: ToolContext[Shop], item: str) -> float:
    """Return the price of an item."""
    assert_type(ctx.deps, Shop)
    if item not in ctx.deps.prices:
        raise ModelRetry(f"there is no {item}")
    return ctx.deps.prices[item]


@tool(approval=is_large)
async def refund(amount: float, reason: str = "", *, ctx: ToolContext[Shop]) -> str:
    """Refund an amount."""
    return f"{amount} of {len(ctx.deps.prices)}: {reason}"


def greeting(run: RunInfo[Shop]) -> str:
    return f"The shop has {len(run.deps.prices)} items."


async def season() -> str:
    return "It is winter."


class Audit(Hooks):
    async def around_run(self, run: RunInfo[Shop], next: Callable[[], Awaitable[None]]) -> None:
        assert_type(run.deps, Shop)
        await next()


tools = [price, refund, season]
note = Instruction(season, place="message")
agent = Agent(MODEL, deps_type=Shop, tools=tools, instructions=["Be brief.", greeting, note], hooks=[Audit()])
assert_type(agent, Agent[Shop, str])
result = agent.run("What is a lamp?", deps=Shop(), effort="high", limits=Limits(turns=3), tools=["price"])
assert_type(result, Result[str, Session[Shop, str]])
assert_type(result.session.send("And a chair?", deps=Shop(), metadata={"anthropic": {}}).output, str)
approving = Agent(MODEL, tools=[refund], approve=lambda call: call.name == "refund" or "not this one")


async def work(agent: AsyncAgent[Shop, str]) -> None:
    worker = AsyncAgent(
        MODEL, deps_type=Shop, deps_factory=lambda session: Shop(), tools=[*tools, agent.as_tool("shop")]
    )
    session = await worker.resume("last", deps=Shop())
    assert_type((await session.send("Go on.")).output, str)
