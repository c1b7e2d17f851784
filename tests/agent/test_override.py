"""`agent.override`: another model, other tools and other settings for the runs of a block."""

from __future__ import annotations

import pytest

from agent.helpers import add, agent, scene
from tenuto import Agent, Limits, tool
from tenuto.core.journal import Configured, HandedOver
from tenuto.errors import LimitReached, UnsupportedModel
from tenuto.store.memory import forget_memory
from tenuto.testing import call, say, think, turn

REAL = "anthropic/claude-sonnet-5-5"


@tool(name="add")
def fake_add(a: int, b: int) -> int:
    """Add."""
    return 42


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


class Source:
    """A tool source with one tool."""

    opened = 0

    async def open(self):
        self.opened += 1
        return [fake_add]

    async def close(self):
        self.opened -= 1


async def payloads(session, *kinds):
    return [entry.payload for entry in await session.entries() if isinstance(entry.payload, kinds)]


@scene
async def test_override_changes_runs_inside_the_block(tenuto_sim):
    tenuto_sim.script(turn(call("add", {"a": 1, "b": 2})), turn(say("Done.")))
    async with agent(add, model=REAL, store=None, system="Old.") as ai:
        with ai.override(model="openai/gpt-5.2", tools=[fake_add], system="New."):
            inside = ai.session()
            assert inside.model == "openai/gpt-5.2"
            await inside.send("Go.")
        outside = ai.session()
        await outside.send("Go.")
        [first] = await payloads(inside, Configured)
        [second] = await payloads(outside, Configured)

        assert (first.model, first.system) == ("openai/gpt-5.2", "New.")
        assert (second.model, second.system) == (REAL, "Old.")
        assert first.tools != second.tools
        assert [session.transcript[2].results[0].content for session in (inside, outside)] == ["42", "3"]
    assert [record.provider for record in tenuto_sim.requests] == ["openai"] * 2 + ["anthropic"] * 2
    assert "New." in str(tenuto_sim.requests[0].body)
    tenuto_sim.assert_clean()


@scene
async def test_open_session_is_handed_over_and_back(tenuto_sim):
    tenuto_sim.script(turn(think("hm"), say("1")), turn(think("hm"), say("2")), turn("3"), turn("4"))
    async with agent(model=REAL, store=None) as ai:
        session = ai.session()
        await session.send("One.")
        with ai.override(model="openai/gpt-5.2", system="New."):
            await session.send("Two.")
            await session.send("Three.")
            assert session.model == "openai/gpt-5.2"
        await session.send("Four.")

        assert session.model == REAL
        switches = await payloads(session, HandedOver)
        assert [switch.model for switch in switches] == ["openai/gpt-5.2", REAL]
        assert all(switch.losses for switch in switches)
        assert (await session.audit()).clean
    assert [record.provider for record in tenuto_sim.requests] == ["anthropic", "openai", "openai", "anthropic"]
    assert ["New." in str(record.body) for record in tenuto_sim.requests] == [False, True, True, False]
    tenuto_sim.assert_clean()


@scene
async def test_new_session_keeps_its_chosen_model_in_an_override(tenuto_sim):
    async with agent(model=REAL, store=None) as ai:
        early = ai.session()
        with ai.override(system="New."):
            for session in (early, ai.session()):
                await session.handover("openai/gpt-5.2")
                await session.send("Hi")
                assert session.model == "openai/gpt-5.2"

    assert [record.provider for record in tenuto_sim.requests] == ["openai", "openai"]


@scene
async def test_handover_in_an_override_is_effective_after_it(tenuto_sim):
    async with agent(model=REAL, store=None) as ai:
        session = ai.session()
        await session.send("One.")
        with ai.override(model="google/gemini-4-argon"):
            await session.send("Two.")
            await session.handover("xai/grok-4.6")
            await session.send("Three.")
        await session.send("Four.")

        assert session.model == "xai/grok-4.6"
    assert [record.provider for record in tenuto_sim.requests] == ["anthropic", "gemini", "gemini", "xai"]


@scene
async def test_overrides_are_nested_and_end_after_an_error(tenuto_sim):
    tenuto_sim.script(turn(call("pay", {"amount": 5})), turn("Done."))
    async with agent(pay, model=REAL, store=None) as ai:
        with ai.override(approve=lambda call: True):
            with pytest.raises(LimitReached), ai.override(model="openai/gpt-5.2", limits=Limits(turns=1)):
                session = ai.session()
                await session.send("Go.")
            assert session.transcript[2].results[0].content == "paid 5"
            again = ai.session()
            await again.send("Go.")
            assert (again.model, again.status) == (REAL, "completed")
        waiting = ai.session()
        await waiting.send("Go.")

        assert (waiting.model, waiting.status) == (REAL, "waiting")


@scene
async def test_override_of_a_sub_agent_reaches_its_calls(tenuto_sim):
    tenuto_sim.script(turn(call("ask", {"prompt": "Hi"})), turn("Done."), when="parent")
    tenuto_sim.script("42", when="child")
    child = agent(model=REAL, store=None, system="child")
    parent = agent(child.as_tool("ask"), model=REAL, store=None, system="parent")
    async with child, parent:
        with child.override(model="openai/gpt-5.2"), parent.override(model="xai/grok-4.6"):
            await parent.session().send("Go.")
        await parent.session().send("Go.")

    providers = [record.provider for record in tenuto_sim.requests]
    assert providers == ["xai", "openai", "xai", "anthropic", "anthropic", "anthropic"]


@scene
async def test_override_keeps_the_tools_of_a_source(tenuto_sim):
    tenuto_sim.script(turn(call("add", {"a": 1, "b": 2})), turn("Done."))
    source = Source()
    async with agent(source, model=REAL, store=None) as ai:
        with ai.override(model="openai/gpt-5.2"):
            session = ai.session()
            await session.send("Go.")
        assert session.transcript[2].results[0].content == "42"
        with pytest.raises(TypeError, match="tool sources"), ai.override(tools=[Source()]):
            pass
    assert source.opened == 0


def test_override_of_the_sync_agent(tenuto_sim):
    with Agent(REAL, store=None) as ai:
        with ai.override(model="openai/gpt-5.2"):
            ai.session().send("Hi")
        with pytest.raises(UnsupportedModel), ai.override(model="anthropic/claude-3-opus-20240229"):
            pass
        ai.session().send("Hi")

    assert [record.provider for record in tenuto_sim.requests] == ["openai", "anthropic"]


# --- agents that exist before a test ---------------------------------------------------------------------------------

APPLICATION = Agent(REAL)
"""An agent of an application: its module creates it without a key."""


@pytest.mark.parametrize("number", [1, 2])
def test_agent_of_a_module_has_a_store_for_each_test(tenuto_sim, number):
    session = APPLICATION.session("user-1")
    assert session.is_new
    session.send("Hi")
    assert APPLICATION.resume("user-1").transcript[0].content == "Hi"


def test_agent_closes_the_stores_of_all_locations(tenuto_sim, monkeypatch, tmp_path):
    with Agent(REAL) as ai:
        for name in ("a", "b", "a"):
            monkeypatch.setenv("TENUTO_STORE", str(tmp_path / f"{name}.db"))
            ai.session(name).send("Hi")
        monkeypatch.setenv("TENUTO_STORE", "memory://elsewhere")
        assert ai.session("a").is_new
        forget_memory("elsewhere")

    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".db") == ["a.db", "b.db"]
