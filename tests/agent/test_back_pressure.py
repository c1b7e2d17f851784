"""A slow reader of a stream: the run waits for it, and the unread events stay few."""

from __future__ import annotations

import asyncio

import pytest

from agent.helpers import agent, journal_labels, scene, until
from tenuto import ToolContext, tool
from tenuto.agent.events import RunStopped, SubAgentEvent, ToolFinished, ToolProgress
from tenuto.agent.run_stream import MAX_QUEUED
from tenuto.core.events import ContentDelta
from tenuto.errors import RunCancelled
from tenuto.testing import call, say, turn

PIECES = [f"word{number} " for number in range(3000)]
LONG = turn(say(PIECES))
ROOM = 8
"""The number of events of one step that may exceed the limit."""


def queued(run) -> int:
    return run._events._queue.qsize()


async def fill(run) -> None:
    """Read one event; then wait until the queue is full and the run has had time to exceed it."""
    await anext(run)
    await until(lambda: run._events.is_full)
    for _ in range(100):
        await asyncio.sleep(0.001)


def deltas(events) -> list[str]:
    return [event.delta.text for event in events if isinstance(event, ContentDelta)]


@scene
async def test_sleeping_reader_bounds_the_unread_events(tenuto_sim, stores):
    """The run finishes when the reader reads on, and no event of the model is lost."""
    tenuto_sim.script(LONG)
    async with stores() as store, agent(store=store) as ai:
        session = ai.session()
        async with session.stream("Go.") as run:
            await fill(run)
            assert queued(run) <= MAX_QUEUED + ROOM
            assert session.status == "running"
            events, most = [], 0
            async for event in run:
                events.append(event)
                most = max(most, queued(run))
        assert most <= MAX_QUEUED + ROOM
        assert deltas(events) == PIECES
        assert isinstance(events[-1], RunStopped)
        assert run.reply.text == "".join(PIECES)


@pytest.mark.parametrize("background", [False, True], ids=["waits", "background"])
@scene
async def test_sub_agent_waits_for_the_reader_of_its_parent(tenuto_sim, background):
    tenuto_sim.script(turn(call("helper", {"prompt": "Help me."})), *[turn("Done.")] * 2, when="Go.")
    tenuto_sim.script(LONG, when="Help me.")
    async with agent(agent().as_tool("helper", background=background), store=None) as ai:
        session = ai.session()
        async with session.stream("Go.") as run:
            await fill(run)
            assert queued(run) <= MAX_QUEUED + ROOM
            events = [event async for event in run]
        assert session.status == "completed"
    assert deltas(event.event for event in events if isinstance(event, SubAgentEvent)) == PIECES


@scene
async def test_closing_the_stream_ends_the_wait(tenuto_sim):
    tenuto_sim.script(LONG)
    async with agent(store=None) as ai:
        session = ai.session()
        async with session.stream("Go.") as run:
            await fill(run)
        assert session.status == "cancelled"
        assert (await session.send("Again.")).text  # also without a reader


@scene
async def test_cancel_reaches_a_run_that_waits_for_its_reader(tenuto_sim):
    """The reader gets the events that are queued, and then the error."""
    tenuto_sim.script(LONG)
    async with agent(store=None) as ai:
        session = ai.session()
        run = session.stream("Go.")
        await fill(run)
        await session.cancel()
        await until(lambda: session.status == "cancelled")
        events = []
        with pytest.raises(RunCancelled):
            async for event in run:
                events.append(event)
        assert isinstance(events[-1], RunStopped)
        assert len(events) <= MAX_QUEUED + ROOM
        assert (await journal_labels(session))[-1] == "cancelled"


@tool
async def count(context: ToolContext) -> str:
    """Count."""
    for number in range(2000):
        context.progress(str(number))
        if number % 100 == 0:
            await asyncio.sleep(0)
    return "counted"


@scene
async def test_progress_is_omitted_while_the_queue_is_full(tenuto_sim):
    """The tool does not wait. A listener receives all progress events."""
    tenuto_sim.script(turn(call("count")), turn("Done."))
    received = []
    async with agent(count, store=None) as ai:
        session = ai.session()
        session.on_event(received.append)
        async with session.stream("Go.") as run:
            await fill(run)
            await until(lambda: any(isinstance(event, ToolFinished) for event in received))
            assert queued(run) <= MAX_QUEUED + ROOM
            events = [event async for event in run]
    progress = [event.text for event in events if isinstance(event, ToolProgress)]
    assert 0 < len(progress) < 2000
    assert [event.result.content for event in events if isinstance(event, ToolFinished)] == ["counted"]
    assert [event.text for event in received if isinstance(event, ToolProgress)] == [str(n) for n in range(2000)]


@scene
async def test_result_of_a_tool_is_stored_before_the_reader_reads(tenuto_sim):
    tenuto_sim.script(turn(call("count")), turn("Done."))
    async with agent(count, store=None) as ai:
        session = ai.session()
        async with session.stream("Go.") as run:
            await fill(run)
            assert "done 0" in await journal_labels(session)
            assert len(tenuto_sim.requests) == 1  # the next request waits
