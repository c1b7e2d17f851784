"""Ending a run from outside: it is written down, every call has its result, and the session goes on from there."""

from __future__ import annotations

import asyncio
import threading

import pytest

from agent.acting import Held, add, agent, results, running, scene, story, until
from tenuto import tool
from tenuto.agent.events import RunStopped, ToolFinished
from tenuto.core.inbox import Cancel
from tenuto.errors import RunCancelled, StoreError
from tenuto.store.memory import MemoryStore
from tenuto.testing import call, say, stall, turn
from tenuto.tools import ToolContext


@scene
async def test_cancelling_while_the_model_speaks(tenuto_sim, stores):
    """The question is asked again by whoever goes on."""
    tenuto_sim.script(turn(say("So"), stall(times=1), say(" Done.")))
    async with stores() as store, agent(store=store) as ai:
        session = ai.session("s")
        began = asyncio.Event()
        session.on_event(lambda event: began.set() if type(event).__name__ == "ContentDelta" else None)
        async with running(session.send("Go.")) as run:
            await began.wait()
            await session.cancel()
            await session.cancel()  # twice is once
            with pytest.raises(RunCancelled, match=r"'s' was cancelled; continue_\(\) continues it"):
                await run
            assert not run.cancelling()
        assert (session.status, session.has_pending_work) == ("cancelled", True)
        assert await story(session) == ["configured", "message_added", "request_started", "cancelling", "cancelled"]
    async with stores() as store, agent(store=store) as ai:
        assert (await (await ai.resume("s")).continue_()).text == "So Done."
    tenuto_sim.assert_clean()


@scene
async def test_cancelling_while_tools_run(tenuto_sim, stores):
    """Those that await are cancelled, those in threads can see it; what was done before keeps its result."""
    tenuto_sim.script(turn(call("add", {"a": 1, "b": 2}), call("hold"), call("spin")), turn("I see."))
    held, spinning, over, seen = Held(), threading.Event(), threading.Event(), []

    @tool
    def spin(context: ToolContext) -> str:
        """Spin."""
        spinning.set()
        while not context.cancelled:
            over.wait(0.001)
        seen.append("cancelled")
        over.set()
        return "dizzy"

    async with stores() as store, agent(add, held.tool, spin, store=store) as ai:
        session = ai.session()
        added = asyncio.Event()
        session.on_event(lambda event: added.set() if isinstance(event, ToolFinished) else None)
        async with running(session.send("Go.")) as run:
            await asyncio.gather(held.begun.wait(), added.wait())
            await asyncio.to_thread(spinning.wait)
            await session.cancel()
            with pytest.raises(RunCancelled):
                await run
        await asyncio.to_thread(over.wait)

        assert (held.ended, seen) == ("cancelled", ["cancelled"])
        assert (await story(session))[-5:] == ["done 0", "cancelling", "interrupted 1", "interrupted 2", "cancelled"]
        assert (await results(session))[1] == (
            "hold was interrupted: the run was cancelled. It may or may not have taken effect: check before you retry."
        )
        assert not await store.verify()
        assert (await session.continue_()).text == "I see."
    tenuto_sim.assert_clean()


@scene
async def test_cancelling_where_nothing_runs_does_nothing(tenuto_sim):
    """Neither before nor after a run, nor to whoever ran it."""
    async with agent(store=None) as ai:
        session = ai.session()
        await session.cancel()
        assert (await session.send("Hi")).text
        await session.cancel()
        await asyncio.sleep(0)
        assert session.status == "completed"
        assert await ai.session().continue_() is None


@scene
async def test_cancelling_a_run_that_has_just_ended_does_not_hit_what_comes_after(tenuto_sim):
    """The task that ran it goes its way."""
    async with agent(store=None) as ai:
        session = ai.session()
        session.on_event(lambda event: session.cancel_local() if isinstance(event, RunStopped) else None)
        outcome = []

        async def work():
            try:
                outcome.append((await session.send("Hi")).text)
            except RunCancelled:
                outcome.append("cancelled")
            await asyncio.sleep(0.01)  # a cancellation that came late would end this
            outcome.append("went on")

        await asyncio.create_task(work())
        assert outcome[-1] == "went on"


@scene
async def test_cancelling_the_task(tenuto_sim):
    """The same is written, and the task is cancelled as it was asked to be."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))
    held = Held()
    async with agent(held.tool, store=None) as ai:
        session = ai.session()
        run = asyncio.create_task(session.send("Go."))
        await held.begun.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

        assert run.cancelled()
        assert (await story(session))[-3:] == ["cancelling", "interrupted 0", "cancelled"]
        assert (await session.continue_()).text == "I see."


@scene
async def test_a_deadline_around_a_run_is_the_callers(tenuto_sim):
    """`asyncio.timeout` raises what it always does; and the session knows that it was ended."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))
    held = Held()
    async with agent(held.tool, store=None) as ai:
        session = ai.session()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await session.send("Go.")
        assert session.status == "cancelled"


@scene
async def test_both_the_session_and_the_task_are_cancelled(tenuto_sim):
    """Whoever wanted the task to end gets what he wanted."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))
    held = Held()
    async with agent(held.tool, store=None) as ai:
        session = ai.session()
        run = asyncio.create_task(session.send("Go."))
        await held.begun.wait()
        await session.cancel()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert session.status == "cancelled"


@scene
async def test_closing_a_session_ends_its_run_and_waits_for_no_more_than_that(tenuto_sim):
    """Whoever ran it may go on with something else, and wait for whoever closed it."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))
    held, closed = Held(), asyncio.Event()
    async with agent(held.tool) as ai:
        session = ai.session("s")

        async def work():
            with pytest.raises(RunCancelled):
                await session.send("Go.")
            await closed.wait()
            return "went on"

        async with running(work()) as run:
            await held.begun.wait()
            await session.close()
            closed.set()
            assert await run == "went on"
        assert (await ai.store.session("s")).holder == ""
        assert session.status == "cancelled"


@scene
async def test_closing_the_agent_ends_every_run(tenuto_sim):
    """And lets go of every session."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))
    held = Held()
    ai = agent(held.tool)
    store = ai.store
    sessions = [ai.session(f"s{at}") for at in range(3)]
    runs = [asyncio.create_task(session.send("Go.")) for session in sessions]
    await until(lambda: held.runs == 3)
    await ai.close()
    ended = await asyncio.gather(*runs, return_exceptions=True)

    assert [type(error) for error in ended] == [RunCancelled] * 3
    assert [session.status for session in sessions] == ["cancelled"] * 3
    with pytest.raises(RuntimeError, match="closed"):
        ai.session()
    with pytest.raises(StoreError, match="closed"):
        await store.sessions()
    await ai.close()


@pytest.mark.parametrize("kind", ["message_added", "run_ended"])
@scene
async def test_cancelling_while_something_is_being_written(tenuto_sim, kind):
    """What was given is written, and then that it was cancelled; or nothing, if the run was over by that."""
    tenuto_sim.script(turn("Done."), turn("Done again."))

    class Slow(MemoryStore):
        async def append(self, lease, drafts, **how):
            if not go.is_set() and any(draft.kind == kind for draft in drafts):
                writing.set()
                await go.wait()
            return await super().append(lease, drafts, **how)

    writing, go = asyncio.Event(), asyncio.Event()
    async with agent(store=Slow()) as ai:
        session = ai.session()
        async with running(session.send("Go.")) as run:
            await writing.wait()
            await session.cancel()
            await until(run.cancelling)
            go.set()
            with pytest.raises(RunCancelled):
                await run
        lines = await story(session)

        assert lines[-1] == ("cancelled" if kind == "message_added" else "completed")
        assert lines.count("message_added") == 1


@scene
async def test_cancelling_before_the_session_is_held(tenuto_sim):
    """Nothing was written, and nothing is."""

    class Slow(MemoryStore):
        async def lease(self, session, **options):
            leasing.set()
            await go.wait()
            return await super().lease(session, **options)

    leasing, go = asyncio.Event(), asyncio.Event()
    async with agent(store=Slow()) as ai:
        session = ai.session()
        async with running(session.send("Go.")) as run:
            await leasing.wait()
            await session.cancel()
            with pytest.raises(RunCancelled):
                await run
        go.set()
        assert (session.status, await session.entries()) == ("new", [])
        assert (await session.send("Go.")).text


@scene
async def test_an_end_that_cannot_be_written_ends_all_the_same(tenuto_sim, caplog):
    """The log says so; the next run finds the calls as a crash would have left them."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))

    class Full(MemoryStore):
        async def append(self, lease, drafts, **how):
            if full:
                raise StoreError("the disk is full")
            return await super().append(lease, drafts, **how)

    held, full = Held(), []
    async with agent(held.tool, store=Full()) as ai:
        session = ai.session()
        async with running(session.send("Go.")) as run:
            await held.begun.wait()
            full.append(True)
            await session.cancel()
            with pytest.raises(RunCancelled):
                await run
        assert "was ended, and that could not be recorded: the disk is full" in caplog.text
        full.clear()
        assert (await session.continue_()).text == "I see."
        assert "no result was recorded" in (await results(session))[0]


@scene
async def test_an_impatient_caller_leaves_and_it_is_written_all_the_same(tenuto_sim):
    """Cancelled twice, it is gone at once; closing waits for the last words."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))

    class Slow(MemoryStore):
        async def append(self, lease, drafts, **how):
            if any(draft.kind == "run_ended" for draft in drafts):
                writing.set()
                await go.wait()
            return await super().append(lease, drafts, **how)

    held, writing, go = Held(), asyncio.Event(), asyncio.Event()
    async with agent(held.tool, store=Slow()) as ai:
        session = ai.session("s")
        run = asyncio.create_task(session.send("Go."))
        await held.begun.wait()
        run.cancel()
        await writing.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        go.set()
        await session.close()

        assert (await story(session))[-1] == "cancelled"
        assert (await ai.store.session("s")).holder == ""


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_loop_that_ends_ends_the_run_wherever_its_writer_is(tenuto_sim, stores, steps):
    """It cancels every task, also one that writes, or is about to; nobody waits for ever, and the session goes on."""
    tenuto_sim.script(turn("Hello."), turn("Hello again."))

    async def main():
        async with stores() as store, agent(store=store) as ai:
            session = ai.session("s")
            run = asyncio.create_task(session.send("Hi"))
            while session._log._writing is None:
                await asyncio.sleep(0)
            for _ in range(steps):
                await asyncio.sleep(0)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:  # as `asyncio.run` does at its end
                task.cancel()
            done, _ = await asyncio.wait({run}, timeout=20)
            return bool(done), (await session.send("And now?")).text

    ended, text = asyncio.run(main())
    assert (ended, text.startswith("Hello")) == (True, True)
    tenuto_sim.assert_clean()


@scene
async def test_new_message_takes_an_earlier_cancel(tenuto_sim, stores):
    """A cancel that was posted for the work before a message does not cancel the work of the message."""
    tenuto_sim.script(turn("Done."), turn(call("add", {"a": 1, "b": 2})), turn("Done again."))
    async with stores() as store, agent(add, store=store) as ai:
        session = ai.session("s")
        await session.send("Go.")
        await store.post("s", Cancel())
        assert (await session.send("Again.")).text == "Done again."
        assert await store.inbox("s") == []
        assert (await store.read("s"))[-1].payload.reason == "completed"
