"""The budget that a session and its sub-agents share: reservations in the row of the root session."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from agent.helpers import add, agent, call_results, running_task, scene
from tenuto import Limits
from tenuto.agent import runner
from tenuto.agent.events import SubAgentEvent
from tenuto.catalog import find_provider
from tenuto.core.events import ContentDelta
from tenuto.core.journal import SubSessionLinked
from tenuto.errors import LimitReached
from tenuto.testing import call, say, stall, turn

ASK = turn(call("helper", {"prompt": "Help me."}))
ASK_TWO = turn(call("one", {"prompt": "First."}), call("two", {"prompt": "Second."}))
LONG = turn(say([f"word{number} " for number in range(2000)]))


async def children(store) -> list[str]:
    return [one.payload.session for one in await store.read("s") if isinstance(one.payload, SubSessionLinked)]


@pytest.mark.parametrize("limits", [Limits(tokens=10**6), Limits(usd=5)], ids=["tokens", "usd"])
@scene
async def test_request_in_flight_is_reserved_in_the_root(tenuto_sim, stores, limits):
    """The reader of the stream stops, so the request of the sub-agent stays in flight."""
    tenuto_sim.script(ASK, turn("Done."), when="Go.")
    tenuto_sim.script(LONG, when="Help me.")
    row = msgspec.structs.replace(find_provider("anthropic"), base_url=f"{tenuto_sim.base_url}/v1")
    options = {"model": "anthropic/claude-opus-4-6", "providers": [row], "keys": {"anthropic": "k"}}
    child = agent(**options)
    ai = agent(child.as_tool("helper"), limits=limits, **options, store=stores())
    async with ai.store as store, child, ai:
        session = ai.session("s")
        async with session.stream("Go.") as run:
            async for event in run:
                if isinstance(event, SubAgentEvent) and isinstance(event.event, ContentDelta):
                    break
            root, below = sorted(await store.budget("s"), key=lambda member: member.session != "s")
            assert [root.session, below.session] == ["s", *await children(store)]
            assert (root.reserved_tokens, root.spent_tokens) == (0, session._log.spent.tokens)
            assert (below.reserved_tokens > 4096, float(below.reserved_usd) > 0, below.live) == (True, True, True)
            assert below.spent_tokens == 0
            async for _ in run:
                pass
        [root] = await store.budget("s")  # the sub-agent is included in it
        assert (root.spent_tokens, root.reserved_tokens) == (session.usage.total_tokens, 0)
        assert float(root.spent_usd) == pytest.approx(float(session.cost))


@scene
async def test_reservation_of_a_dead_sub_agent_lapses(tenuto_sim, stores, monkeypatch):
    """A request that does not fit next to it waits, and is sent when the other lease ends."""
    monkeypatch.setattr(runner, "_BUDGET_POLL", 0.002)
    tenuto_sim.script(ASK_TWO, turn("Done."), when="Go.")
    for message in ("First.", "Second."):
        tenuto_sim.script(turn(say("So"), stall()), when=message)
    tools = [agent().as_tool(name) for name in ("one", "two")]
    ai = agent(*tools, limits=Limits(tokens=6000), store=stores())
    async with ai.store as store, stores() as other, ai, running_task(ai.session("s").send("Go.")):
        while len(tenuto_sim.requests) < 2:
            await asyncio.sleep(0.001)
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert len(tenuto_sim.requests) == 2  # the root's, and that of one sub-agent
        [holder] = [one for one in await store.budget("s") if one.reserved_tokens]
        await other.release(await other.lease(holder.session, takeover=True))
        while len(tenuto_sim.requests) < 3:
            await asyncio.sleep(0.001)
        members = {one.session: one.live for one in await store.budget("s") if one.reserved_tokens}
        assert members == {child: child != holder.session for child in await children(store)}


@scene
async def test_sub_agents_stop_at_the_limit_of_the_family(tenuto_sim, stores):
    """The one that has no room left stops with the limit; so does the root."""
    tenuto_sim.script(turn(*[call("helper", {"prompt": "Help me."})] * 3), turn("Done."), when="Go.")
    ai = agent(agent(system="word " * 300).as_tool("helper"), limits=Limits(tokens=600), store=stores())
    async with ai.store as store, ai:
        session = ai.session("s")
        with pytest.raises(LimitReached):
            await session.send("Go.")
        rows = [await store.session(child) for child in await children(store)]
        assert ("waiting", "limit") in [(row.status, row.reason) for row in rows]
        assert (session.status, session.waiting_for) == ("waiting", "limit")
        assert any("helper could not answer: LimitReached" in result for result in await call_results(session))


@scene
async def test_new_message_starts_a_new_family_budget(tenuto_sim):
    tenuto_sim.script(ASK, turn("Done."), ASK, turn("Done again."), when="Go.")
    tenuto_sim.script(turn("Helped."), when="Help me.")
    async with agent(agent().as_tool("helper"), limits=Limits(tokens=10**6), store=None) as ai:
        session = ai.session("s")
        await session.send("Go.")
        [first] = await ai.store.budget("s")
        await session.send("More.")
        [second] = await ai.store.budget("s")
    assert first.spent_tokens + second.spent_tokens == session.usage.total_tokens


@scene
async def test_unknown_price_of_a_sub_agent_ends_the_run(tenuto_sim, stores):
    """A limit in USD needs known prices: the sub-agent stops before its next request, and so does the root."""
    tenuto_sim.script(ASK, turn("Done."), when="Go.")
    tenuto_sim.script(turn(call("add", {"a": 1, "b": 2})), turn("It is 3."), when="Help me.")
    base = msgspec.structs.replace(find_provider("anthropic"), base_url=f"{tenuto_sim.base_url}/v1")
    options = {"providers": [base, msgspec.structs.replace(base, name="mine")], "keys": {"anthropic": "k", "mine": "k"}}
    child = agent(add, model="mine/claude-opus-4-6", **options)
    ai = agent(
        child.as_tool("helper"), model="anthropic/claude-opus-4-6", limits=Limits(usd=5), store=stores(), **options
    )
    async with ai.store as store, child, ai:
        session = ai.session("s")
        with pytest.raises(LimitReached, match="the cost of a reply is unknown, so 5 USD cannot be enforced"):
            await session.send("Go.")
        [below] = await children(store)
        assert (await store.session(below)).reason == "limit"
        assert session.cost is None
    assert len(tenuto_sim.requests) == 2
