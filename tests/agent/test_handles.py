"""Several handles of one session: who may write, the errors of the others, and a store that fails."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from agent.helpers import HeldTool, add, agent, call_results, journal_labels, running_task, scene, until
from tenuto import tool
from tenuto.core.journal import payload_kind
from tenuto.errors import LeaseLost, SessionInUse, StoreError
from tenuto.store.memory import MemoryStore
from tenuto.testing import call, turn

MORE = turn(call("add", {"a": 1, "b": 2}))


@scene
async def test_handles_in_one_process_take_turns(tenuto_sim, stores):
    """An idle handle releases the session, and reads new entries before it continues."""
    tenuto_sim.script(turn("One."), turn("Two."), turn("Three."))
    async with stores() as store, agent(store=store) as ai:
        first = ai.session("s")
        await first.send("A")
        second = await ai.resume("s")
        assert (await second.send("B")).text == "Two."
        assert (await first.send("C")).text == "Three."

        assert len(first.transcript) == 6
        assert [payload_kind(entry.payload) for entry in await first.entries()].count("configured") == 1


@scene
async def test_working_handle_keeps_the_session(tenuto_sim, stores):
    """The other one gets an error that names the holder, and the session afterwards."""
    tenuto_sim.script(turn(call("hold")), turn("Done."), turn("More."))
    held_tool = HeldTool()
    async with stores() as store, agent(held_tool.tool, store=store) as ai:
        first = ai.session("s")
        async with running_task(first.send("Go.")) as run:
            await held_tool.begun.wait()
            second = await ai.resume("s")
            with pytest.raises(SessionInUse, match="take it over"):
                await second.send("Me, too.")
            held_tool.go.set()
            assert (await run).text == "Done."
        assert (await second.send("Now?")).text == "More."


@scene
async def test_session_held_by_another_process_is_not_written(tenuto_sim, stores):
    """It can be read and taken over; then the former holder gets an error at its next write."""
    tenuto_sim.script(turn("One."), turn("Two."), turn("Three."))
    async with stores() as one, stores() as two, agent(store=one) as ours, agent(store=two) as theirs:
        async with ours.session("s") as session:
            await session.send("A")
            other = await theirs.resume("s")
            assert other.text == "One."
            with pytest.raises(SessionInUse):
                await other.send("B")
            taken = await theirs.resume("s", takeover=True)
            assert (await taken.send("B")).text == "Two."
            with pytest.raises(LeaseLost):
                await session.send("C")
            assert (await session.send("C")).text == "Three."
        assert [payload_kind(entry.payload) for entry in await session.entries()].count("message_added") == 3
    tenuto_sim.assert_clean()


@scene
async def test_run_stops_when_its_session_is_taken_over(tenuto_sim, stores):
    """At its next write: its other tools are cancelled, and it writes nothing more."""
    tenuto_sim.script(turn(call("hold"), call("quick")), turn("Done."))
    held_tool, quick = HeldTool(), HeldTool("quick")
    async with stores() as one, stores() as two, agent(held_tool.tool, quick.tool, store=one) as ai:
        session = ai.session("s")
        async with running_task(session.send("Go.")) as run:
            await asyncio.gather(held_tool.begun.wait(), quick.begun.wait())
            await two.release(await two.lease("s", takeover=True))
            quick.go.set()
            with pytest.raises(LeaseLost, match="taken over"):
                await run
        assert held_tool.ended == "cancelled"
        assert session.status == "interrupted"
        assert (await journal_labels(session))[-2:] == ["started 0", "started 1"]
        assert (await session.continue_()).text == "Done."
        assert len([line for line in await journal_labels(session) if line.startswith("interrupted")]) == 2
    tenuto_sim.assert_clean()


class FailingStore(MemoryStore):
    """Fails the appends with these numbers; `late` fails after the write, as a lost connection does."""

    def __init__(self, *at: int, late: bool) -> None:
        super().__init__()
        self.at, self.late, self.count = at, late, 0

    async def append(self, lease, drafts, **how):
        self.count += 1
        if self.count in self.at and not self.late:
            raise StoreError("the disk is full")
        renewed = await super().append(lease, drafts, **how)
        if self.count in self.at:
            raise StoreError("the line broke")
        return renewed


@pytest.mark.parametrize("late", [False, True], ids=["full", "broken"])
@pytest.mark.parametrize("at", range(1, 8))
@scene
async def test_failed_write_leaves_no_partial_state(tenuto_sim, at, late):
    """For each write, stored or not: the error is raised, and the next run continues from the stored entries."""
    runs = []

    @tool(name="add", effect="pure")
    def plus(a: int, b: int) -> int:
        """Add."""
        runs.append(a)
        return a + b

    tenuto_sim.script(turn(*MORE, *MORE), turn("Done."))
    store = FailingStore(at, late=late)
    async with agent(plus, store=store) as ai:
        session = ai.session("s")
        [error] = await asyncio.gather(session.send("Go."), return_exceptions=True)
        failed = isinstance(error, StoreError) and str(error) in ("the disk is full", "the line broke")
        there = await store.read("s") if store.count > 1 or late else []
        if not late or not failed:
            assert session._log.head == len(there)
        if not there:
            assert session.status == "new"
            await session.send("Go.")
        else:
            await session.continue_()

        assert session.text == "Done."
        assert session.status == "completed"
        assert failed or at in (5, 6) or at > 7  # the results are written again with the next append
        assert [result.content for result in session.transcript[2].results] == ["3", "3"]
        assert not await store.verify()
    tenuto_sim.assert_clean()


@scene
async def test_result_is_written_when_the_store_works_again(tenuto_sim):
    tenuto_sim.script(MORE, turn("Done."))
    store = FailingStore(5, 6, late=False)  # the result of the call, twice
    async with agent(add, store=store) as ai:
        session = ai.session()
        with pytest.raises(StoreError):
            await session.send("Go.")
        assert session.status == "interrupted"
        assert (await session.send("Well?")).text == "Done."
        assert await call_results(session) == ["3"]
    tenuto_sim.assert_clean()


@scene
async def test_failed_write_of_a_result_leaves_other_calls_alone(tenuto_sim):
    tenuto_sim.script(turn(call("hold"), call("quick")), turn("Done."))
    held_tool, quick = HeldTool(), HeldTool("quick")
    quick.go.set()
    async with agent(held_tool.tool, quick.tool, store=FailingStore(5, late=False)) as ai:
        session = ai.session()
        async with running_task(session.send("Go.")) as run:
            await quick.begun.wait()
            await until(lambda: ai.store.count >= 5)
            held_tool.go.set()
            assert (await run).text == "Done."
        assert held_tool.ended == "done"
        assert sorted(await call_results(session)) == ["held 0", "held 0"]
    tenuto_sim.assert_clean()


@scene
async def test_collected_session_is_released(tenuto_sim):
    """By the next acquired lease, or by closing the agent."""
    async with agent() as ai:
        await ai.session("s").send("A")
        await ai.session("t").send("A")
        assert (await ai.store.session("s")).holder == ""
        session = await ai.resume("s")
        assert (await session.send("B")).text


@scene
async def test_async_with_releases_the_session(tenuto_sim, stores):
    """Also after an error."""
    async with stores() as store, agent(store=store) as ai:
        with contextlib.suppress(LookupError):
            async with ai.session("s") as session:
                await session.send("A")
                assert (await store.session("s")).holder
                raise LookupError
        assert (await store.session("s")).holder == ""
        assert (await session.send("B")).text  # and can be acquired again
