"""Seeing what happens: streams that begin a run and end with it, and listeners that only listen."""

from __future__ import annotations

import asyncio
import contextlib
import gc

import pytest

from agent.acting import Held, add, agent, running, scene, story, until
from tenuto import Agent
from tenuto.agent.events import RunStopped, ToolFinished, ToolStarted, TurnStarted
from tenuto.core.events import ContentDelta, MessageDone
from tenuto.errors import LimitReached, RunCancelled, TenutoError
from tenuto.testing import call, say, turn

TWO = (turn(call("add", {"a": 1, "b": 2})), turn(say(["It ", "is ", "3."])))


@scene
async def test_a_stream_tells_everything_in_order(tenuto_sim):
    """The model's words as they come, and what the agent does in between; the reply is there at the end."""
    tenuto_sim.script(*TWO)
    async with agent(add, store=None) as ai:
        session = ai.session()
        run = session.stream("Add.")
        assert session.status == "new"  # nothing begins before it is read
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
async def test_a_stream_without_a_word_goes_on(tenuto_sim):
    """With what is owed; if nothing is, it ends at once."""
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
async def test_leaving_a_stream_early_ends_the_run_and_says_so(tenuto_sim):
    """Nobody hears of that session by it any more, and it goes on."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))
    held = Held()
    async with agent(held.tool, store=None) as ai:
        session = ai.session()
        async with session.stream("Go.") as run:
            async for event in run:
                if isinstance(event, ToolStarted):
                    await held.begun.wait()
                    break
        assert (held.ended, session.status) == ("cancelled", "cancelled")
        assert (await story(session))[-3:] == ["cancelling", "interrupted 0", "cancelled"]
        assert session._listeners == []
        with pytest.raises(TenutoError, match="closed before it ended"):
            assert run.reply
        assert (await session.continue_()).text == "I see."


@scene
async def test_a_stream_that_is_forgotten_ends_its_run(tenuto_sim):
    """As soon as nobody has it any more."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))
    held = Held()
    async with agent(held.tool, store=None) as ai:
        session = ai.session()
        async for event in session.stream("Go."):
            if isinstance(event, ToolStarted):
                break
        del event
        gc.collect()
        await until(lambda: session.status == "cancelled")


@scene
async def test_closing_a_stream_from_elsewhere_ends_it_for_who_reads(tenuto_sim):
    """He sees it end: he was not cancelled."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))
    held = Held()
    async with agent(held.tool, store=None) as ai:
        session = ai.session()
        run = session.stream("Go.")

        async def read():
            return [event async for event in run]

        async with running(read()) as reading:
            await held.begun.wait()
            await run.cancel()
            assert isinstance((await reading)[-1], ToolStarted)
        assert session.status == "cancelled"


@scene
async def test_what_ends_a_run_is_raised_where_it_is_read(tenuto_sim):
    """A session that is cancelled, and a limit."""
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
async def test_a_stream_that_was_closed_before_it_began_does_not_begin(tenuto_sim):
    """Nothing is asked."""
    async with agent(store=None) as ai:
        async with ai.session().stream("Go.") as run:
            pass
        with pytest.raises(TenutoError, match="the run is closed"):
            async for _ in run:
                pass
    assert not tenuto_sim.requests


@scene
async def test_any_number_of_listeners_and_none_disturbs_the_others(tenuto_sim, caplog):
    """One that fails keeps neither the run nor the next from its work; the log has its error."""
    tenuto_sim.script(*TWO)
    heard, also = [], []

    def broken(event):
        raise LookupError("I did not listen")

    async with agent(add, store=None, listeners=[broken, heard.append]) as ai:
        session = ai.session()
        forget = session.on_event(also.append)
        assert (await session.send("Go.")).text == "It is 3."
        forget()
        forget()
        count = len(also)
        await session.continue_()

    assert heard[:count] == also
    assert isinstance(also[-1], RunStopped)
    assert "a listener of session" in caplog.text
    assert "I did not listen" in caplog.text


@scene
async def test_events_are_told_when_they_are_kept(tenuto_sim):
    """Whoever hears that a call has returned finds its result in the journal."""
    tenuto_sim.script(*TWO)
    async with agent(add, store=None) as ai:
        session = ai.session()
        reading = []

        def hear(event):
            if isinstance(event, ToolFinished | RunStopped):
                reading.append(asyncio.ensure_future(story(session)))

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
    held = Held()
    async with agent(held.tool, store=None) as ai:
        session = ai.session()
        async with running(session.send("Go.")):
            await held.begun.wait()
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
