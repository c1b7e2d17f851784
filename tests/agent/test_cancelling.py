"""Cancelling a run: it is recorded, every call has a result, and the session can continue."""

from __future__ import annotations

import asyncio
import threading

import pytest

from agent.helpers import HeldTool, add, agent, call_results, journal_labels, running_task, scene, until
from tenuto import tool
from tenuto.agent.events import RunStopped, ToolFinished
from tenuto.core.inbox import Cancel
from tenuto.errors import RunCancelled, StoreError
from tenuto.store.memory import MemoryStore
from tenuto.testing import call, say, stall, turn
from tenuto.tools import ToolContext


@scene
async def test_cancel_during_a_reply(tenuto_sim, stores):
    """The next run sends the request again."""
    tenuto_sim.script(turn(say("So"), stall(times=1), say(" Done.")))
    async with stores() as store, agent(store=store) as ai:
        session = ai.session("s")
        began = asyncio.Event()
        session.on_event(lambda event: began.set() if type(event).__name__ == "ContentDelta" else None)
        async with running_task(session.send("Go.")) as run:
            await began.wait()
            await session.cancel()
            await session.cancel()  # a second cancel has no effect
            with pytest.raises(RunCancelled, match=r"'s' was cancelled; continue_\(\) continues it"):
                await run
            assert not run.cancelling()
        assert (session.status, session.has_pending_work) == ("cancelled", True)
        assert await journal_labels(session) == [
            "configured",
            "message_added",
            "request_started",
            "cancelling",
            "cancelled",
        ]
    async with stores() as store, agent(store=store) as ai:
        assert (await (await ai.resume("s")).continue_()).text == "So Done."
    tenuto_sim.assert_clean()


@scene
async def test_cancel_while_tools_run(tenuto_sim, stores):
    """Async tools are cancelled, tools in threads are notified; finished calls keep their results."""
    tenuto_sim.script(turn(call("add", {"a": 1, "b": 2}), call("hold"), call("spin")), turn("I see."))
    held_tool, spinning, over, flags = HeldTool(), threading.Event(), threading.Event(), []

    @tool
    def spin(context: ToolContext) -> str:
        """Spin."""
        spinning.set()
        while not context.cancelled:
            over.wait(0.001)
        flags.append("cancelled")
        over.set()
        return "dizzy"

    async with stores() as store, agent(add, held_tool.tool, spin, store=store) as ai:
        session = ai.session()
        added = asyncio.Event()
        session.on_event(lambda event: added.set() if isinstance(event, ToolFinished) else None)
        async with running_task(session.send("Go.")) as run:
            await asyncio.gather(held_tool.begun.wait(), added.wait())
            await asyncio.to_thread(spinning.wait)
            await session.cancel()
            with pytest.raises(RunCancelled):
                await run
        await asyncio.to_thread(over.wait)

        assert (held_tool.ended, flags) == ("cancelled", ["cancelled"])
        assert (await journal_labels(session))[-5:] == [
            "done 0",
            "cancelling",
            "interrupted 1",
            "interrupted 2",
            "cancelled",
        ]
        assert (await call_results(session))[1] == (
            "hold was interrupted: the run was cancelled. It may or may not have taken effect: check before you retry."
        )
        assert not await store.verify()
        assert (await session.continue_()).text == "I see."
    tenuto_sim.assert_clean()


@scene
async def test_cancel_without_a_run_does_nothing(tenuto_sim):
    """Neither before nor after a run, also for the task that ran it."""
    async with agent(store=None) as ai:
        session = ai.session()
        await session.cancel()
        assert (await session.send("Hi")).text
        await session.cancel()
        await asyncio.sleep(0)
        assert session.status == "completed"
        assert await ai.session().continue_() is None


@scene
async def test_late_cancel_does_not_cancel_the_callers_task(tenuto_sim):
    """The run has just ended."""
    async with agent(store=None) as ai:
        session = ai.session()
        session.on_event(lambda event: session.cancel_local() if isinstance(event, RunStopped) else None)
        outcome = []

        async def work():
            try:
                outcome.append((await session.send("Hi")).text)
            except RunCancelled:
                outcome.append("cancelled")
            await asyncio.sleep(0.01)  # a late cancellation would end this
            outcome.append("went on")

        await asyncio.create_task(work())
        assert outcome[-1] == "went on"


@scene
async def test_cancelling_the_task_cancels_the_run(tenuto_sim):
    """The run is recorded as cancelled, and the task ends with `CancelledError`."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))
    held_tool = HeldTool()
    async with agent(held_tool.tool, store=None) as ai:
        session = ai.session()
        run = asyncio.create_task(session.send("Go."))
        await held_tool.begun.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

        assert run.cancelled()
        assert (await journal_labels(session))[-3:] == ["cancelling", "interrupted 0", "cancelled"]
        assert (await session.continue_()).text == "I see."


@scene
async def test_timeout_of_the_caller_cancels_the_run(tenuto_sim):
    """`asyncio.timeout` raises `TimeoutError`, and the session records the end of the run."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))
    held_tool = HeldTool()
    async with agent(held_tool.tool, store=None) as ai:
        session = ai.session()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await session.send("Go.")
        assert session.status == "cancelled"


@scene
async def test_cancelled_session_does_not_hide_a_cancelled_task(tenuto_sim):
    tenuto_sim.script(turn(call("hold")), turn("I see."))
    held_tool = HeldTool()
    async with agent(held_tool.tool, store=None) as ai:
        session = ai.session()
        run = asyncio.create_task(session.send("Go."))
        await held_tool.begun.wait()
        await session.cancel()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert session.status == "cancelled"


@scene
async def test_closing_a_session_waits_for_its_run_only(tenuto_sim):
    """The task that ran it may continue, and wait for the one that closed the session."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))
    held_tool, closed = HeldTool(), asyncio.Event()
    async with agent(held_tool.tool) as ai:
        session = ai.session("s")

        async def work():
            with pytest.raises(RunCancelled):
                await session.send("Go.")
            await closed.wait()
            return "went on"

        async with running_task(work()) as run:
            await held_tool.begun.wait()
            await session.close()
            closed.set()
            assert await run == "went on"
        assert (await ai.store.session("s")).holder == ""
        assert session.status == "cancelled"


@scene
async def test_closing_the_agent_ends_every_run(tenuto_sim):
    """It releases every session."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))
    held_tool = HeldTool()
    ai = agent(held_tool.tool)
    store = ai.store
    sessions = [ai.session(f"s{at}") for at in range(3)]
    runs = [asyncio.create_task(session.send("Go.")) for session in sessions]
    await until(lambda: held_tool.runs == 3)
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
async def test_cancel_during_a_write_is_recorded_after_it(tenuto_sim, kind):
    """If the run has ended by then, nothing is recorded."""
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
        async with running_task(session.send("Go.")) as run:
            await writing.wait()
            await session.cancel()
            await until(run.cancelling)
            go.set()
            with pytest.raises(RunCancelled):
                await run
        lines = await journal_labels(session)

        assert lines[-1] == ("cancelled" if kind == "message_added" else "completed")
        assert lines.count("message_added") == 1


@scene
async def test_cancel_before_the_lease_writes_nothing(tenuto_sim):
    class Slow(MemoryStore):
        async def lease(self, session, **options):
            leasing.set()
            await go.wait()
            return await super().lease(session, **options)

    leasing, go = asyncio.Event(), asyncio.Event()
    async with agent(store=Slow()) as ai:
        session = ai.session()
        async with running_task(session.send("Go.")) as run:
            await leasing.wait()
            await session.cancel()
            with pytest.raises(RunCancelled):
                await run
        go.set()
        assert (session.status, await session.entries()) == ("new", [])
        assert (await session.send("Go.")).text


@scene
async def test_run_ends_although_its_end_cannot_be_written(tenuto_sim, caplog):
    """The log has the error; the next run finds the calls as after a crash."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))

    class Full(MemoryStore):
        async def append(self, lease, drafts, **how):
            if full:
                raise StoreError("the disk is full")
            return await super().append(lease, drafts, **how)

    held_tool, full = HeldTool(), []
    async with agent(held_tool.tool, store=Full()) as ai:
        session = ai.session()
        async with running_task(session.send("Go.")) as run:
            await held_tool.begun.wait()
            full.append(True)
            await session.cancel()
            with pytest.raises(RunCancelled):
                await run
        assert "was ended, and that could not be recorded: the disk is full" in caplog.text
        full.clear()
        assert (await session.continue_()).text == "I see."
        assert "no result was recorded" in (await call_results(session))[0]


@scene
async def test_second_cancel_returns_before_the_end_is_written(tenuto_sim):
    """The task ends at once; closing the agent waits for the last write."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))

    class Slow(MemoryStore):
        async def append(self, lease, drafts, **how):
            if any(draft.kind == "run_ended" for draft in drafts):
                writing.set()
                await go.wait()
            return await super().append(lease, drafts, **how)

    held_tool, writing, go = HeldTool(), asyncio.Event(), asyncio.Event()
    async with agent(held_tool.tool, store=Slow()) as ai:
        session = ai.session("s")
        run = asyncio.create_task(session.send("Go."))
        await held_tool.begun.wait()
        run.cancel()
        await writing.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        go.set()
        await session.close()

        assert (await journal_labels(session))[-1] == "cancelled"
        assert (await ai.store.session("s")).holder == ""


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_run_ends_with_its_loop_at_any_point(tenuto_sim, stores, steps):
    """The end of a loop cancels every task, also during a write; nothing blocks, and the session can continue."""
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
    tenuto_sim.script(turn("Done."), turn(call("add", {"a": 1, "b": 2})), turn("Done again."))
    async with stores() as store, agent(add, store=store) as ai:
        session = ai.session("s")
        await session.send("Go.")
        await store.post("s", Cancel())
        assert (await session.send("Again.")).text == "Done again."
        assert await store.inbox("s") == []
        assert (await store.read("s"))[-1].payload.reason == "completed"
