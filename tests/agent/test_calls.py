"""The calls of a turn: each gets one result that the model can use, also after an error."""

from __future__ import annotations

import asyncio

import pytest

from agent.helpers import HeldTool, add, agent, call_results, journal_labels, running_task, scene
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
    "made, detail, text, begun",
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
async def test_failed_call_has_a_result_that_names_the_error(tenuto_sim, made, detail, text, begun):
    """Its outcome is typed in the journal. A call that cannot run is not started. Other calls of the turn are not
    affected.
    """
    tenuto_sim.script(turn(made, call("add", {"a": 1, "b": 2})), turn("I see."))
    events = []
    async with agent(add, fail, slow, model="sim/chat", store=None) as ai:
        session = ai.session()
        session.on_event(events.append)
        assert (await session.send("Go.")).text == "I see."
        acts = [entry.payload for entry in await session.entries()]

    returned = {act.call_index: act for act in acts if isinstance(act, CallFinished)}
    assert len([act for act in acts if isinstance(act, CallFinished)]) == 2
    assert (returned[0].detail, returned[0].result.is_error, returned[1].result.content) == (detail, True, "3")
    assert text in returned[0].result.content
    assert {act.call_index for act in acts if isinstance(act, CallStarted)} == ({0, 1} if begun else {1})
    assert {event.ordinal for event in events if isinstance(event, ToolStarted)} == ({0, 1} if begun else {1})
    ended = {event.ordinal: event for event in events if isinstance(event, ToolFinished)}
    assert (ended[0].detail, ended[1].outcome) == (detail, "done")
    assert text in tenuto_sim.requests[1].body["messages"][-2]["content"]
    tenuto_sim.assert_clean()


@scene
async def test_calls_with_the_same_id_are_separate(tenuto_sim):
    """Each runs once and has its own result, and the next request is accepted."""
    tenuto_sim.script(
        turn(call("add", {"a": 1, "b": 1}, id="call_1"), call("add", {"a": 2, "b": 2}, id="call_1")), turn("Done.")
    )
    async with agent(add, model="sim/chat", store=None) as ai:
        session = ai.session()
        assert (await session.send("Go.")).text == "Done."
        assert await call_results(session) == ["2", "4"]
    tenuto_sim.assert_clean()


@scene
async def test_progress_is_emitted_while_a_tool_runs(tenuto_sim):
    """From a thread or from the loop, with its call."""
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

    progress = []
    async with agent(walk, swim, store=None) as ai:
        session = ai.session()
        session.on_event(progress.append)
        await session.send("Go.")

    assert sorted((e.call.name, e.text) for e in progress if isinstance(e, ToolProgress)) == [
        ("swim", "wet"),
        ("walk", "left"),
    ]


@scene
async def test_context_names_session_call_and_attempt(tenuto_sim):
    """Its key is unique among all calls."""
    tenuto_sim.script(turn(call("who"), call("who")), turn("Done."))
    contexts = []

    @tool(effect="keyed")
    def who(context: ToolContext) -> str:
        """Say who."""
        contexts.append((context.session, context.key, context.attempt))
        return "me"

    async with agent(who, store=None) as ai:
        await ai.session("s").send("Go.")

    assert sorted(contexts) == [("s", "s/4/0", 1), ("s", "s/4/1", 1)]


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
async def test_failing_tool_does_not_end_others(tenuto_sim):
    tenuto_sim.script(turn(call("fail"), call("hold")), turn("Done."))
    held_tool = HeldTool()
    async with agent(fail, held_tool.tool, store=None) as ai:
        session = ai.session()
        returned = asyncio.Event()
        session.on_event(lambda event: returned.set() if isinstance(event, ToolFinished) else None)
        async with running_task(session.send("Go.")) as run:
            await asyncio.gather(held_tool.begun.wait(), returned.wait())
            held_tool.go.set()
            await run

        assert held_tool.ended == "done"
        assert sorted(line for line in await journal_labels(session) if line[-1] in "01)")[:2] == [
            "done 1",
            "failed 0 (exception)",
        ]
