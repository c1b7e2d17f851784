"""Agents and their sessions, synchronous and asynchronous."""

from __future__ import annotations

from decimal import Decimal
from typing import assert_type

from tenuto import Agent, AsyncAgent, Limits, PendingCall, Reply, ToolCallView, ToolContext, Transcript, Usage, tool
from tenuto.core.journal import Entry
from tenuto.events import AgentEvent, ContentDelta, StreamEvent, SubAgentEvent, TextDelta, ToolFinished
from tenuto.middleware import retry

MODEL = "anthropic/claude-opus-4-6"


def large(amount: int, **_: object) -> bool:
    return amount > 100


@tool(effect="keyed", timeout=30, approval=large)
def pay(amount: int, context: ToolContext) -> str:
    """Pay."""
    return context.key


def word(call: ToolCallView) -> bool | str:
    return True if call.name == "pay" else "not this one"


def awaiting_none() -> None:
    limits = Limits(turns=20, usd=Decimal("0.5"), seconds=60)
    with Agent(
        MODEL, system="Be brief.", tools=[pay], limits=limits, approve=word, effort="high", retry=retry(2)
    ) as agent:
        session = agent.session()
        assert_type(session.send("Pay Ada.").reply, Reply)
        assert_type(session.pending, tuple[PendingCall, ...])
        session.approve(*session.pending)
        assert_type(session.transcript, Transcript)
        assert_type(session.usage, Usage)
        assert_type(session.entries(), list[Entry])
        session.steer("Quickly.")
        earlier = session.fork(at=2)
        with earlier.stream("And Bob.") as run:
            for event in run:
                assert_type(event, StreamEvent | AgentEvent)
                match event:
                    case ContentDelta(delta=TextDelta(text=text)):
                        assert_type(text, str)
                    case ToolFinished(result=result) | SubAgentEvent(event=ToolFinished(result=result)):
                        print(result.content)
                    case _:
                        continue
            assert_type(run.reply, Reply)


async def awaiting() -> None:
    async with AsyncAgent(MODEL, store=None, name="payer", keys={"anthropic": "any"}) as agent:
        session = await agent.resume("last")
        assert_type((await session.send("Go on.")).text, str)
        async with session.stream() as run:
            async for event in run:
                assert_type(event, StreamEvent | AgentEvent)
        other = AsyncAgent(MODEL, tools=[agent.as_tool("payer", "Pays.")], store="sqlite:///x.db", max_tokens=100)
        await other.close()
