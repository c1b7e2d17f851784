"""Events name their session, and each run starts and stops once."""

from __future__ import annotations

import asyncio

import pytest

from agent.helpers import HeldTool, add, agent, journal_labels, pay, running_task, scene
from tenuto import Limits, Provider, ToolContext, tool
from tenuto.agent.events import ModelChanged, RunStarted, RunStopped, SubAgentEvent, ToolProgress, TurnStarted
from tenuto.core.events import ContentDelta, MessageDone, TextDelta
from tenuto.core.inbox import Decision
from tenuto.errors import LLMError, RunCancelled, TenutoError
from tenuto.testing import call, deny, say, turn

ADD = turn(call("add", {"a": 1, "b": 2}))
ASK = turn(call("helper", {"prompt": "Help me."}))
DEAD = Provider("dead", "openai-chat", "http://127.0.0.1:9/v1", auth="none")


def edges(events) -> list[tuple]:
    """Return the starts and stops of runs."""
    return [
        ("start", event.resumed) if isinstance(event, RunStarted) else ("stop", event.reason)
        for event in events
        if isinstance(event, RunStarted | RunStopped)
    ]


# --- session ids ---


@scene
async def test_every_event_has_the_session_id(tenuto_sim, stores):
    """In a stream, for a listener of the session, and for a listener of the agent; each gets the same events."""
    tenuto_sim.script(turn(*ADD, call("pay", {"amount": 5})), turn(deny(500)), turn(say(["It ", "is ", "3."])))
    listener, handler, stream = [], [], []
    async with stores() as store, agent(add, pay, store=store, listeners=[listener.append]) as ai:
        session = ai.session("s")
        session.on_event(handler.append)
        async with session.stream("Go.") as run:
            stream += [event async for event in run]
        assert stream == listener == handler
        await session.steer("Quickly.")
        await session.approve()
        await session.handover("sim/openai")
    assert listener == handler
    assert {event.session_id for event in listener} == {"s"}
    kinds = {type(event) for event in listener}
    assert {RunStarted, TurnStarted, ContentDelta, MessageDone, ModelChanged, RunStopped} <= kinds
    assert len(kinds) >= 14, kinds


@scene
async def test_listener_can_separate_concurrent_sessions(tenuto_sim):
    texts = {"a": "alpha beta", "b": "gamma delta"}
    for id, text in texts.items():
        tenuto_sim.script(
            turn(call("hold")), turn(say([f"{text_part} " for text_part in text.split()])), when=f"Message {id}."
        )
    held_tool, events = HeldTool(), []
    async with agent(held_tool.tool, store=None, listeners=[events.append]) as ai, asyncio.TaskGroup() as group:
        for id in texts:
            group.create_task(ai.session(id).send(f"Message {id}."))
        while held_tool.runs < 2:
            await asyncio.sleep(0.001)
        held_tool.go.set()
    for id, text in texts.items():
        own = [event for event in events if event.session_id == id]
        deltas = [event.delta for event in own if isinstance(event, ContentDelta)]
        assert "".join(one.text for one in deltas if isinstance(one, TextDelta)).split() == text.split()
        assert edges(own) == [("start", False), ("stop", "completed")]
    ids = [event.session_id for event in events]
    assert ids != sorted(ids)  # the runs did overlap


@pytest.mark.parametrize("background", [False, True], ids=["waits", "background"])
@scene
async def test_event_of_a_sub_agent_has_its_own_id_inside(tenuto_sim, background):
    tenuto_sim.script(ASK, *[turn("Done.")] * 2, when="Go.")
    tenuto_sim.script(ADD, turn("Helped."), when="Help me.")
    events, inner = [], []
    helper = agent(add, listeners=[inner.append]).as_tool("helper", background=background)
    async with agent(helper, store=None) as ai:
        session = ai.session("s")
        session.on_event(events.append)
        await session.send("Go.")
    below = [event for event in events if isinstance(event, SubAgentEvent)]
    assert {event.session_id for event in events} == {"s"}
    assert {event.call.name for event in below} == {"helper"}
    [child] = {event.session for event in below}
    assert {event.event.session_id for event in below} == {child}
    assert [event.event for event in below] == inner
    assert [type(event) for event in inner if isinstance(event, RunStarted | RunStopped)] == [RunStarted, RunStopped]
    assert edges([inner[-1]]) == [("stop", "completed")]


@tool
def work(context: ToolContext) -> str:
    """Work."""
    context.progress("half")
    return "done"


@scene
async def test_progress_from_a_thread_has_the_session_id(tenuto_sim):
    tenuto_sim.script(turn(call("work")), turn("Done."))
    events = []
    async with agent(work, store=None, listeners=[events.append]) as ai:
        await ai.session("s").send("Go.")
    assert [(event.text, event.session_id) for event in events if isinstance(event, ToolProgress)] == [("half", "s")]


# --- starts and stops ---

RUNS = {
    "completed": ([turn("Done.")], {}, "completed"),
    "tools": ([ADD, turn("Done.")], {}, "completed"),
    "approval": ([turn(call("pay", {"amount": 5}))], {}, "waiting"),
    "limit": ([ADD, ADD], {"limits": Limits(turns=1)}, "waiting"),
    "seconds": ([turn(call("hold"))], {"limits": Limits(seconds=0.1)}, "waiting"),
    "failed": ([turn(deny(400, times=0))], {}, "failed"),
    "fallback": ([turn("Done.")], {"model": "dead/x", "providers": [DEAD], "fallback": ["sim/gemini"]}, "completed"),
    "approver": ([turn(call("pay", {"amount": 5}))], {"approve": lambda call: 1 / 0}, "failed"),
}


@pytest.mark.parametrize("script, options, reason", RUNS.values(), ids=RUNS)
@scene
async def test_run_starts_first_and_stops_last(tenuto_sim, dead, stores, script, options, reason):
    """Each exactly once; a later run starts again."""
    tenuto_sim.script(*script)
    events = []
    async with stores() as store, agent(add, pay, HeldTool().tool, store=store, **options) as ai:
        session = ai.session("s")
        session.on_event(events.append)
        try:
            await session.send("Go.")
        except (TenutoError, ZeroDivisionError):
            assert reason != "completed"
        assert edges([events[0], events[-1]]) == [("start", False), ("stop", reason)]
        assert len(edges(events)) == 2
        assert session.status == reason


@scene
async def test_continued_run_is_resumed(tenuto_sim, stores):
    tenuto_sim.script(turn(call("pay", {"amount": 5})), turn("Done."), turn("More."))
    events = []
    async with stores() as store, agent(pay, store=store, listeners=[events.append]) as ai:
        session = ai.session("s")
        await session.send("Go.", key="k")
        await session.continue_()
        await session.send("Go.", key="k")
        await session.approve()
        assert await session.continue_() is None  # without work, there is no run
        await session.send("More.")
    waiting = ("stop", "waiting")
    assert edges(events) == [
        *(("start", False), waiting, ("start", True), waiting, ("start", True), waiting),
        *(("start", True), ("stop", "completed"), ("start", False), ("stop", "completed")),
    ]


@scene
async def test_known_key_without_work_starts_no_run(tenuto_sim, stores):
    """A job that is delivered again gets the reply. Nothing is written."""
    tenuto_sim.script(turn("Done."))
    events = []
    async with stores() as store, agent(store=store) as ai:
        session = ai.session("s")
        await session.send("Go.", key="k")
        before = await journal_labels(session)
        session.on_event(events.append)
        assert (await session.send("Go.", key="k")).text == "Done."
        assert (events, await journal_labels(session)) == ([], before)


@scene
async def test_run_stops_if_the_inbox_has_no_work(tenuto_sim, stores):
    """The run drops a decision about no call. The journal does not change."""
    tenuto_sim.script(turn("Done."))
    events = []
    async with stores() as store, agent(store=store) as ai:
        session = ai.session("s")
        await session.send("Go.")
        before = await journal_labels(session)
        session.on_event(events.append)
        await store.post("s", Decision("call_0", 0, allowed=True))
        assert await session.continue_() is None
        assert edges(events) == [("start", False), ("stop", "completed")]
        assert (await store.inbox("s"), await journal_labels(session)) == ([], before)


@scene
async def test_cancelled_run_stops_once(tenuto_sim):
    tenuto_sim.script(turn(call("hold")), turn("Done."))
    held_tool, events = HeldTool(), []
    async with agent(held_tool.tool, store=None, listeners=[events.append]) as ai:
        session = ai.session("s")
        async with running_task(session.send("Go.")) as run:
            await held_tool.begun.wait()
            await session.cancel()
            await session.cancel()
            with pytest.raises(RunCancelled):
                await run
        assert edges(events) == [("start", False), ("stop", "cancelled")]
        assert isinstance(events[-1], RunStopped)
        await session.continue_()
    assert edges(events)[2:] == [("start", True), ("stop", "completed")]


@scene
async def test_run_that_gives_up_reports_the_error(tenuto_sim):
    tenuto_sim.script(turn(deny(400, message="no such thing", times=0)))
    events = []
    async with agent(store=None, listeners=[events.append]) as ai:
        with pytest.raises(LLMError):
            await ai.session().send("Go.")
    assert "no such thing" in events[-1].detail
