"""The owner and generation of a lease: a job that is delivered again replaces its earlier attempt."""

from __future__ import annotations

import asyncio

import pytest

from agent.helpers import HeldTool, agent, journal_labels, running_task, scene
from tenuto.errors import LeaseLost, SessionInUse
from tenuto.store.memory import Memory, MemoryStore
from tenuto.testing import call, turn

JOB = "job-1"


@scene
async def test_higher_generation_replaces_the_holder(tenuto_sim, stores):
    """At once; the earlier attempt gets `LeaseLost` at its next write and writes nothing more."""
    tenuto_sim.script(turn(call("hold")), turn("Done."))
    held_tool, second_tool = HeldTool(effect="pure"), HeldTool(effect="pure")
    second_tool.go.set()
    async with stores() as store, stores() as other, agent(held_tool.tool, store=store) as ai:
        first = ai.session("s", owner=JOB, generation=1)
        async with running_task(first.send("Go.", key="k")) as run:
            await held_tool.begun.wait()
            async with agent(second_tool.tool, store=other) as ai_again:
                second = ai_again.session("s", owner=JOB, generation=2)
                assert (await second.send("Go.", key="k")).text == "Done."
                journal = await journal_labels(second)
            held_tool.go.set()
            with pytest.raises(LeaseLost):
                await run
        assert await journal_labels(first) == journal
        fences = [entry.fence for entry in await other.read("s")]
        assert fences == sorted(fences)
        assert len(set(fences)) == 2
        assert not await other.verify()


@scene
async def test_lower_generation_is_refused(tenuto_sim, stores):
    """By `session` and by `resume`. When the holder has ended, any generation may start."""
    tenuto_sim.script(turn(call("hold")), turn("Done."), turn("Later."))
    held_tool = HeldTool()
    ai = agent(held_tool.tool, store=stores())
    async with ai.store, stores() as other, ai:
        holder = ai.session("s", owner=JOB, generation=5)
        async with running_task(holder.send("Go.", key="k")) as run:
            await held_tool.begun.wait()
            async with agent(held_tool.tool, store=other) as late:
                old = late.session("s", owner=JOB, generation=4)
                with pytest.raises(LeaseLost, match="generation 5"):
                    await old.send("Go.", key="k")
                resumed = await late.resume("s", owner=JOB, generation=4)
                with pytest.raises(LeaseLost, match="generation 5"):
                    await resumed.continue_()
                held_tool.go.set()
                assert (await run).text == "Done."
                assert (await old.send("More.")).text == "Later."


@scene
async def test_other_owner_waits_for_the_holder(tenuto_sim, stores):
    """A generation counts only between attempts of one owner."""
    tenuto_sim.script(turn(call("hold")), turn("Done."))
    held_tool = HeldTool()
    ai = agent(held_tool.tool, store=stores())
    async with ai.store, stores() as other, ai:
        holder = ai.session("s", owner=JOB, generation=1)
        async with running_task(holder.send("Go.")) as run:
            await held_tool.begun.wait()
            async with agent(held_tool.tool, store=other) as late:
                for owner in ("job-2", ""):
                    with pytest.raises(SessionInUse):
                        await late.session("s", owner=owner, generation=9).send("Go.")
            held_tool.go.set()
            assert (await run).text == "Done."


class SlowStore(MemoryStore):
    """Holds the write that releases the lease until it may continue; records the owner of each lease."""

    def __init__(self) -> None:
        super().__init__(Memory())
        self.owners: list[tuple[str, int]] = []
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    async def lease(self, session, *, owner="", generation=0, **options):
        self.owners.append((owner, generation))
        return await super().lease(session, owner=owner, generation=generation, **options)

    async def append(self, lease, drafts, *, release=False, **options):
        if release:
            self.reached.set()
            await self.go.wait()
        return await super().append(lease, drafts, release=release, **options)


@scene
async def test_owner_is_kept_after_an_uncertain_write(tenuto_sim):
    """The run is cancelled during its last write, so it acquires the lease once more to read the result of the write."""
    store = SlowStore()
    async with store, agent(store=store) as ai:
        session = ai.session("s", owner=JOB, generation=3)
        async with running_task(session.send("Go.")) as run:
            await store.reached.wait()
            run.cancel()
            store.go.set()
            with pytest.raises(asyncio.CancelledError):
                await run
        assert session.status == "completed"
    assert store.owners == [(JOB, 3), (JOB, 3)]


@pytest.mark.parametrize("effect", ["once", "pure"])
@scene
async def test_result_of_a_replaced_attempt_is_not_lost(tenuto_sim, stores, effect):
    """The model reads it with the next run, unless the call ran again."""
    tenuto_sim.script(turn(call("hold", {"x": 7})), turn("Unknown."), turn("Now I know."), then="repeat")
    held_tool, second_tool = HeldTool(effect=effect), HeldTool(effect=effect)
    second_tool.go.set()
    async with stores() as store, stores() as other, agent(held_tool.tool, store=store) as ai:
        first = ai.session("s", owner=JOB, generation=1)
        async with running_task(first.send("Go.", key="k")) as run:
            await held_tool.begun.wait()
            async with agent(second_tool.tool, store=other) as ai_again:
                second = ai_again.session("s", owner=JOB, generation=2)
                assert (await second.send("Go.", key="k")).text == "Unknown."
                held_tool.go.set()
                with pytest.raises(LeaseLost):
                    await run
                reply = await second.continue_()
                texts = [str(message) for message in second.transcript]
        assert second_tool.runs == (effect == "pure")
        assert (reply is not None) == (effect == "once")
        assert any("It has ended since. Its result: held 7" in text for text in texts) == (effect == "once")
        assert not await other.verify()
