"""Several hands on one session: who may write, who is told that he may not, and a store that fails."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from agent.acting import Held, add, agent, results, running, scene, story, until
from tenuto import tool
from tenuto.core.journal import payload_kind
from tenuto.errors import LeaseLost, SessionInUse, StoreError
from tenuto.store.memory import MemoryStore
from tenuto.testing import call, turn

MORE = turn(call("add", {"a": 1, "b": 2}))


@scene
async def test_two_handles_in_one_process_take_turns(tenuto_sim, stores):
    """One that rests gives way, and reads what the other wrote before it goes on."""
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
async def test_a_handle_that_works_does_not_give_way(tenuto_sim, stores):
    """The other is told who has it, and gets it when that one is through."""
    tenuto_sim.script(turn(call("hold")), turn("Done."), turn("More."))
    held = Held()
    async with stores() as store, agent(held.tool, store=store) as ai:
        first = ai.session("s")
        async with running(first.send("Go.")) as run:
            await held.begun.wait()
            second = await ai.resume("s")
            with pytest.raises(SessionInUse, match="take it over"):
                await second.send("Me, too.")
            held.go.set()
            assert (await run).text == "Done."
        assert (await second.send("Now?")).text == "More."


@scene
async def test_session_held_by_another_process_is_not_written(tenuto_sim, stores):
    """It can be read, and taken over; then the former holder gets an error at its next write."""
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
async def test_a_run_whose_session_is_taken_over_stops(tenuto_sim, stores):
    """At its next write: its other tools are cancelled, and nothing of it is written any more."""
    tenuto_sim.script(turn(call("hold"), call("quick")), turn("Done."))
    held, quick = Held(), Held("quick")
    async with stores() as one, stores() as two, agent(held.tool, quick.tool, store=one) as ai:
        session = ai.session("s")
        async with running(session.send("Go.")) as run:
            await asyncio.gather(held.begun.wait(), quick.begun.wait())
            await two.release(await two.lease("s", takeover=True))
            quick.go.set()
            with pytest.raises(LeaseLost, match="taken over"):
                await run
        assert held.ended == "cancelled"
        assert session.status == "interrupted"
        assert (await story(session))[-2:] == ["started 0", "started 1"]
        assert (await session.continue_()).text == "Done."
        assert len([line for line in await story(session) if line.startswith("interrupted")]) == 2
    tenuto_sim.assert_clean()


class Failing(MemoryStore):
    """Fails the appends with these numbers; `late` fails after the write, as a broken connection does."""

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
async def test_a_store_that_fails_leaves_nothing_half_done(tenuto_sim, at, late):
    """Whichever write it is, whether it arrived or not: the error is raised, and the next run goes on from what is there."""
    runs = []

    @tool(name="add", effect="pure")
    def plus(a: int, b: int) -> int:
        """Add."""
        runs.append(a)
        return a + b

    tenuto_sim.script(turn(*MORE, *MORE), turn("Done."))
    store = Failing(at, late=late)
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
    store = Failing(5, 6, late=False)  # the result of the call, twice
    async with agent(add, store=store) as ai:
        session = ai.session()
        with pytest.raises(StoreError):
            await session.send("Go.")
        assert session.status == "interrupted"
        assert (await session.send("Well?")).text == "Done."
        assert await results(session) == ["3"]
    tenuto_sim.assert_clean()


@scene
async def test_failed_write_of_a_result_leaves_other_calls_alone(tenuto_sim):
    tenuto_sim.script(turn(call("hold"), call("quick")), turn("Done."))
    held, quick = Held(), Held("quick")
    quick.go.set()
    async with agent(held.tool, quick.tool, store=Failing(5, late=False)) as ai:
        session = ai.session()
        async with running(session.send("Go.")) as run:
            await quick.begun.wait()
            await until(lambda: ai.store.count >= 5)
            held.go.set()
            assert (await run).text == "Done."
        assert held.ended == "done"
        assert sorted(await results(session)) == ["held 0", "held 0"]
    tenuto_sim.assert_clean()


@scene
async def test_a_session_that_nobody_has_any_more_is_let_go_of(tenuto_sim):
    """The next one that is held sees to it; so does closing the agent."""
    async with agent() as ai:
        await ai.session("s").send("A")
        await ai.session("t").send("A")
        assert (await ai.store.session("s")).holder == ""
        session = await ai.resume("s")
        assert (await session.send("B")).text


@scene
async def test_a_session_is_given_back_when_it_is_left(tenuto_sim, stores):
    """`async with` closes it, whatever happened in it."""
    async with stores() as store, agent(store=store) as ai:
        with contextlib.suppress(LookupError):
            async with ai.session("s") as session:
                await session.send("A")
                assert (await store.session("s")).holder
                raise LookupError
        assert (await store.session("s")).holder == ""
        assert (await session.send("B")).text  # and can be taken up again
