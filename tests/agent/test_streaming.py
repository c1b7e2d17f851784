"""Streams of a run, and listeners."""

from __future__ import annotations

import asyncio
import contextlib
import gc

import pytest

from agent.helpers import HeldTool, add, agent, journal_labels, running_task, scene, until
from tenuto import Agent
from tenuto.agent.events import RunStopped, ToolFinished, ToolStarted, TurnStarted
from tenuto.core.events import ContentDelta, MessageDone
from tenuto.errors import LimitReached, RunCancelled, TenutoError
from tenuto.testing import call, say, turn

TWO = (turn(call("add", {"a": 1, "b": 2})), turn(say(["It ", "is ", "3."])))


@scene
async def test_stream_has_all_events_in_order(tenuto_sim):
    """The deltas of the model and the events of the agent; at the end the reply is available."""
    tenuto_sim.script(*TWO)
    async with agent(add, store=None) as ai:
        session = ai.session()
        run = session.stream("Add.")
        assert session.status == "new"  # the run starts with the first read
        with pytest.raises(TenutoError, match="has not ended"):
            assert run.reply
        async with run:
            events = [event async for event in run]

        kinds = [type(event) for event in events if not isinstance(event, ContentDelta)]
        steps = [kind for kind in kinds if kind in (TurnStarted, MessageDone, ToolStarted, ToolFinished, RunStopped)]
        assert steps == [TurnStarted, MessageDone, ToolStarted, ToolFinished, TurnStarted, MessageDone, RunStopped]
        assert [event.turn for event in events if isinstance(event, TurnStarted)] == [1, 2]
        assert run.reply.text == "It is 3."
        assert session._listeners == []


@scene
async def test_stream_without_a_message_continues(tenuto_sim):
    """Without pending work it ends at once."""
    tenuto_sim.script(turn("Done."))
    async with agent(add, store=None) as ai:
        session = ai.session()
        nothing = session.stream()
        assert [event async for event in nothing] == []
        with pytest.raises(TenutoError, match="no work was pending"):
            assert nothing.reply
        await session.steer("Go.")
        async with session.stream() as run:
            assert [event async for event in run]
        assert run.reply.text == "Done."


@scene
async def test_leaving_a_stream_early_cancels_the_run(tenuto_sim):
    """It emits no more events, and the session can continue."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))
    held_tool = HeldTool()
    async with agent(held_tool.tool, store=None) as ai:
        session = ai.session()
        async with session.stream("Go.") as run:
            async for event in run:
                if isinstance(event, ToolStarted):
                    await held_tool.begun.wait()
                    break
        assert (held_tool.ended, session.status) == ("cancelled", "cancelled")
        assert (await journal_labels(session))[-3:] == ["cancelling", "interrupted 0", "cancelled"]
        assert session._listeners == []
        with pytest.raises(TenutoError, match="closed before it ended"):
            assert run.reply
        assert (await session.continue_()).text == "I see."


@scene
async def test_collected_stream_ends_its_run(tenuto_sim):
    tenuto_sim.script(turn(call("hold")), turn("I see."))
    held_tool = HeldTool()
    async with agent(held_tool.tool, store=None) as ai:
        session = ai.session()
        async for event in session.stream("Go."):
            if isinstance(event, ToolStarted):
                break
        del event
        gc.collect()
        await until(lambda: session.status == "cancelled")


@scene
async def test_closing_a_stream_ends_it_for_its_reader(tenuto_sim):
    """The reader sees the end and is not cancelled."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))
    held_tool = HeldTool()
    async with agent(held_tool.tool, store=None) as ai:
        session = ai.session()
        run = session.stream("Go.")

        async def read():
            return [event async for event in run]

        async with running_task(read()) as reading:
            await held_tool.begun.wait()
            await run.cancel()
            assert isinstance((await reading)[-1], ToolStarted)
        assert session.status == "cancelled"


@scene
async def test_error_of_a_run_is_raised_for_the_reader(tenuto_sim):
    """For a cancelled session, and for a limit."""
    tenuto_sim.script(*TWO)
    from tenuto import Limits

    async with agent(add, limits=Limits(turns=1), store=None) as ai:
        session = ai.session()
        with pytest.raises(LimitReached):
            async with session.stream("Go.") as run:
                async for _ in run:
                    pass
        cancelled = ai.session()
        with pytest.raises(RunCancelled):
            async with cancelled.stream("Go.") as run:
                async for _ in run:
                    await cancelled.cancel()


@scene
async def test_closed_stream_does_not_start(tenuto_sim):
    async with agent(store=None) as ai:
        async with ai.session().stream("Go.") as run:
            pass
        with pytest.raises(TenutoError, match="the run is closed"):
            async for _ in run:
                pass
    assert not tenuto_sim.requests


@scene
async def test_listeners_do_not_disturb_each_other(tenuto_sim, caplog):
    """A listener that fails stops neither the run nor the next listener; the log has its error."""
    tenuto_sim.script(*TWO)
    received, also = [], []

    def broken(event):
        raise LookupError("I did not listen")

    async with agent(add, store=None, listeners=[broken, received.append]) as ai:
        session = ai.session()
        forget = session.on_event(also.append)
        assert (await session.send("Go.")).text == "It is 3."
        forget()
        forget()
        count = len(also)
        await session.continue_()

    assert received[:count] == also
    assert isinstance(also[-1], RunStopped)
    assert "a listener of session" in caplog.text
    assert "I did not listen" in caplog.text


@scene
async def test_events_are_emitted_after_their_entries(tenuto_sim):
    """A listener that receives a finished call finds its result in the journal."""
    tenuto_sim.script(*TWO)
    async with agent(add, store=None) as ai:
        session = ai.session()
        reading = []

        def hear(event):
            if isinstance(event, ToolFinished | RunStopped):
                reading.append(asyncio.ensure_future(journal_labels(session)))

        session.on_event(hear)
        await session.send("Go.")
        returned, stopped = await asyncio.gather(*reading)

    assert "done 0" in returned
    assert stopped[-1] == "completed"


# --- leaving a stream without closing it ------------------------------------------------------------------------------


def test_send_works_after_a_break_from_a_stream(tenuto_sim):
    with Agent("sim/anthropic", store=None) as ai:
        session = ai.session()
        for _ in range(5):
            for _ in session.stream("hello"):
                break
            assert session.status in ("cancelled", "completed")  # the run may end before it is cancelled
            assert session.send("again").text


@scene
async def test_send_waits_for_a_run_whose_stream_was_dropped(tenuto_sim):
    async with agent(store=None) as ai:
        session = ai.session()
        for _ in range(5):
            async for _ in session.stream("hello"):
                break
            assert (await session.send("again")).text
            assert session.status == "completed"


@scene
async def test_send_waits_for_a_cancelled_run(tenuto_sim):
    tenuto_sim.script(turn(call("hold")), turn("Done."))
    held_tool = HeldTool()
    async with agent(held_tool.tool, store=None) as ai:
        session = ai.session()
        async with running_task(session.send("Go.")):
            await held_tool.begun.wait()
            await session.cancel()
            assert (await session.send("again")).text == "Done."


def test_error_in_a_stream_loop_leaves_no_message(tenuto_sim, capfd):
    async def played():
        async with agent(store=None) as ai:
            session = ai.session()
            with contextlib.suppress(LookupError):
                async for _ in session.stream("hello"):
                    raise LookupError
            gc.collect()
            await session.send("again")

    asyncio.run(played())
    gc.collect()
    assert capfd.readouterr().err == ""
