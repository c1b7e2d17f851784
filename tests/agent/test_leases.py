"""The lease of a session: held during a run, released with it."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from agent.helpers import HeldTool, add, agent, pay, running_task, scene
from tenuto import Agent, Limits
from tenuto.errors import SessionInUse
from tenuto.store.memory import MemoryStore
from tenuto.testing import call, turn

WAVE = 20


@scene
async def test_runs_start_after_earlier_sessions_are_garbage(tenuto_sim, stores):
    async with stores() as store, agent(store=store) as ai:
        for _ in range(3):
            await asyncio.gather(*(ai.session().send("hello") for _ in range(WAVE)))
            gc.collect()


@scene
async def test_sessions_resume_after_earlier_handles_are_garbage(tenuto_sim, stores):
    async with stores() as store, agent(store=store) as ai:
        ids = [ai.session().id for _ in range(WAVE)]
        await asyncio.gather(*(ai.session(id).send("hello") for id in ids))
        for _ in range(3):
            sessions = await asyncio.gather(*map(ai.resume, ids))
            await asyncio.gather(*(session.send("more") for session in sessions))
            del sessions
            gc.collect()


def test_threads_share_one_sync_agent(tenuto_sim, tmp_path):
    errors = []
    with Agent("sim/anthropic", store=tmp_path / "sessions.db") as ai:

        def work() -> None:
            try:
                for _ in range(4):
                    ai.session().send("hello")
            except Exception as exc:  # the thread reports it
                errors.append(exc)

        threads = [threading.Thread(target=work) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


@scene
async def test_lease_is_released_when_a_run_ends(tenuto_sim, stores):
    tenuto_sim.script(turn("One."), turn("Two."), turn("Three."))
    async with stores() as one, stores() as two, agent(store=one) as ours, agent(store=two) as theirs:
        session = ours.session()
        await session.send("A")
        other = await theirs.resume(session.id)
        assert (await other.send("B")).text == "Two."
        assert (await session.send("C")).text == "Three."
        assert len(session.transcript) == 6


@scene
async def test_lease_is_released_when_a_run_fails(tenuto_sim, stores):
    tenuto_sim.script(turn(call("pay", {"amount": 5})), turn("Done."))

    def fail(_):
        raise ValueError("no approver")

    ours, theirs = agent(pay, store=stores(), approve=fail), agent(pay, store=stores())
    async with ours, theirs, ours.store, theirs.store:
        session = ours.session()
        with pytest.raises(ValueError, match="no approver"):
            await session.send("Pay.")
        other = await theirs.resume(session.id)
        assert (await other.approve()).text == "Done."


@scene
async def test_async_with_holds_the_lease_between_runs(tenuto_sim, stores):
    async with stores() as one, stores() as two, agent(store=one) as ours, agent(store=two) as theirs:
        async with ours.session() as session:
            await session.send("A")
            other = await theirs.resume(session.id)
            with pytest.raises(SessionInUse):
                await other.send("B")
        await other.send("B")


@scene
async def test_closing_the_agent_releases_every_lease(tenuto_sim, stores):
    tenuto_sim.script(turn(call("hold")), turn("Done."))
    held_tool = HeldTool()
    async with stores() as one, stores() as two, agent(store=two) as theirs:
        async with agent(held_tool.tool, store=one) as ours:
            session = ours.session()
            async with running_task(session.send("Go.")):
                await held_tool.begun.wait()
                await ours.close()
        await theirs.store.release(await theirs.store.lease(session.id))


@scene
async def test_decision_and_run_share_one_lease(tenuto_sim, stores):
    """No other process can write between an approval and the call that it allows."""
    tenuto_sim.script(turn(call("pay", {"amount": 5})), turn("Done."))
    async with stores() as store, agent(pay, store=store) as ai:
        session = ai.session()
        await session.send("Pay.")
        fence = (await session.entries())[-1].fence
        await session.approve()
        fences = [entry.fence for entry in await session.entries()]
        assert fences[-1] == fence + 1
        assert len(set(fences)) == 2


def test_with_holds_the_lease_of_a_sync_session(tenuto_sim, tmp_path):
    path = tmp_path / "sessions.db"
    with Agent("sim/anthropic", store=path) as ours, Agent("sim/anthropic", store=path) as theirs:
        with ours.session() as session:
            session.send("A")
            with pytest.raises(SessionInUse):
                theirs.resume(session.id).send("B")
        theirs.resume(session.id).send("B")


@scene
async def test_session_held_by_this_process_has_its_own_error(tenuto_sim, stores):
    async with stores() as store, agent(store=store) as ai, ai.session() as session:
        await session.send("A")
        other = await ai.resume(session.id)
        with pytest.raises(SessionInUse, match=r"in use by this process: .* close that handle"):
            await other.send("B")


class NeverReleased(MemoryStore):
    """A store whose `release` does nothing: only an append can release."""

    async def release(self, lease):
        if self.appending:
            await super().release(lease)

    appending = False

    async def append(self, lease, drafts, **how):
        self.appending = True
        try:
            return await super().append(lease, drafts, **how)
        finally:
            self.appending = False


@pytest.mark.parametrize("end", ["completed", "waiting", "limit", "cancelled"])
@scene
async def test_last_entry_of_a_run_releases_the_lease(tenuto_sim, end):
    held_tool, store = HeldTool(), NeverReleased()
    tools = {"cancelled": [held_tool.tool], "waiting": [pay]}.get(end, [add])
    calls = {"cancelled": call("hold", {"x": 1}), "waiting": call("pay", {"amount": 1})}
    tenuto_sim.script(turn(calls.get(end, call("add", {"a": 1, "b": 2}))), turn("Done."))
    async with agent(*tools, store=store, limits=Limits(turns=1 if end == "limit" else 9)) as ai:
        session = ai.session("s")
        async with running_task(session.send("Go.")) as run:
            if end == "cancelled":
                await held_tool.begun.wait()
                await session.cancel()
            await asyncio.wait({run})
            run.exception()
        assert (session.waiting_for or session.status) == {"waiting": "approval"}.get(end, end)
        assert (await store.session("s")).holder == ""
