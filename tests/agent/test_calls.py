"""The calls of a turn: each gets one result, and the model can act on it, whatever went wrong."""

from __future__ import annotations

import asyncio

import pytest

from agent.acting import Held, add, agent, results, running, scene, story
from tenuto import tool
from tenuto.agent.events import ToolFinished, ToolProgress, ToolStarted
from tenuto.core.journal import CallFinished, CallStarted
from tenuto.testing import call, turn
from tenuto.tools import ToolContext


@tool
def fail() -> str:
    """Fail."""
    raise LookupError("no such city")


@tool(timeout=0.01)
async def slow() -> str:
    """Take too long."""
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    "made, detail, said, begun",
    [
        (call("ad", {"a": 1, "b": 2}), "unknown-tool", "Did you mean add?", False),
        (call("add", {"a": 1}), "arguments", "b", False),
        (call("add", {"a": "one", "b": 2}), "arguments", "a", False),
        (call("add", '{"a": 1,'), "arguments", "not JSON", False),
        (call("fail"), "exception", "no such city", True),
        (call("slow"), "timeout", "timed out after 0.01 s", True),
    ],
)
@scene
async def test_what_goes_wrong_is_a_result_that_the_model_reads(tenuto_sim, made, detail, said, begun):
    """Typed for who reads the journal; and what never began was never started. Its neighbour is not concerned."""
    tenuto_sim.script(turn(made, call("add", {"a": 1, "b": 2})), turn("I see."))
    told = []
    async with agent(add, fail, slow, model="sim/chat", store=None) as ai:
        session = ai.session()
        session.on_event(told.append)
        assert (await session.send("Go.")).text == "I see."
        acts = [entry.payload for entry in await session.entries()]

    returned = {act.call_index: act for act in acts if isinstance(act, CallFinished)}
    assert len([act for act in acts if isinstance(act, CallFinished)]) == 2
    assert (returned[0].detail, returned[0].result.is_error, returned[1].result.content) == (detail, True, "3")
    assert said in returned[0].result.content
    assert {act.call_index for act in acts if isinstance(act, CallStarted)} == ({0, 1} if begun else {1})
    assert {event.ordinal for event in told if isinstance(event, ToolStarted)} == ({0, 1} if begun else {1})
    ended = {event.ordinal: event for event in told if isinstance(event, ToolFinished)}
    assert (ended[0].detail, ended[1].outcome) == (detail, "done")
    assert said in tenuto_sim.requests[1].body["messages"][-2]["content"]
    tenuto_sim.assert_clean()


@scene
async def test_calls_with_the_same_id_are_told_apart(tenuto_sim):
    """By their places: each runs once and has a result of its own, and the next request is taken."""
    tenuto_sim.script(
        turn(call("add", {"a": 1, "b": 1}, id="call_1"), call("add", {"a": 2, "b": 2}, id="call_1")), turn("Done.")
    )
    async with agent(add, model="sim/chat", store=None) as ai:
        session = ai.session()
        assert (await session.send("Go.")).text == "Done."
        assert await results(session) == ["2", "4"]
    tenuto_sim.assert_clean()


@scene
async def test_progress_is_told_while_a_tool_works(tenuto_sim):
    """From a thread or from the loop, and with the call it belongs to."""
    tenuto_sim.script(turn(call("walk"), call("swim")), turn("Done."))

    @tool
    def walk(context: ToolContext) -> str:
        """Walk."""
        context.progress("left")
        return "there"

    @tool
    async def swim(context: ToolContext) -> str:
        """Swim."""
        context.progress("wet")
        return "there"

    told = []
    async with agent(walk, swim, store=None) as ai:
        session = ai.session()
        session.on_event(told.append)
        await session.send("Go.")

    assert sorted((e.call.name, e.text) for e in told if isinstance(e, ToolProgress)) == [
        ("swim", "wet"),
        ("walk", "left"),
    ]


@scene
async def test_a_tool_knows_its_call(tenuto_sim):
    """Its session, its attempt, and a key that no other call has."""
    tenuto_sim.script(turn(call("who"), call("who")), turn("Done."))
    seen = []

    @tool(effect="keyed")
    def who(context: ToolContext) -> str:
        """Say who."""
        seen.append((context.session, context.key, context.attempt))
        return "me"

    async with agent(who, store=None) as ai:
        await ai.session("s").send("Go.")

    assert sorted(seen) == [("s", "s/4/0", 1), ("s", "s/4/1", 1)]


@scene
async def test_fence_of_a_tool_grows_with_each_holder(tenuto_sim, tmp_path):
    tenuto_sim.script(turn(call("who")), turn("Done."), turn(call("who")), turn("Done."))
    fences = []

    @tool
    def who(context: ToolContext) -> str:
        """Say who."""
        fences.append(context.fence)
        return "me"

    for _ in range(2):
        async with agent(who, store=tmp_path / "store.db") as ai:
            session = await ai.resume("s") if fences else ai.session("s")
            await session.send("Go.")

    assert 0 < fences[0] < fences[1]


@scene
async def test_a_tool_that_fails_ends_no_other(tenuto_sim):
    """All run to their end."""
    tenuto_sim.script(turn(call("fail"), call("hold")), turn("Done."))
    held = Held()
    async with agent(fail, held.tool, store=None) as ai:
        session = ai.session()
        returned = asyncio.Event()
        session.on_event(lambda event: returned.set() if isinstance(event, ToolFinished) else None)
        async with running(session.send("Go.")) as run:
            await asyncio.gather(held.begun.wait(), returned.wait())
            held.go.set()
            await run

        assert held.ended == "done"
        assert sorted(line for line in await story(session) if line[-1] in "01)")[:2] == [
            "done 1",
            "failed 0 (exception)",
        ]
