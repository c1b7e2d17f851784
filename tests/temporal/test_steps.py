"""The steps of a session as in an activity, without an engine."""

from __future__ import annotations

import asyncio

import pytest

from agent.helpers import HeldTool, add, agent, pay, running_task, scene
from tenuto import ToolContext, tool
from tenuto.core.journal import CallFinished, MessageAdded
from tenuto.errors import LeaseLost, MissingTool
from tenuto.temporal.jobs import PendingId, SessionItem, SessionJob
from tenuto.temporal.steps import SessionSteps, UnknownAgent
from tenuto.testing import call, deny, turn

OWNER = "temporal/tenuto-s"
NAME = "support"


def job(step: int, *items: SessionItem, **options) -> SessionJob:
    return SessionJob("s", NAME, step, items=items, **options)


def prompt(text: str, key: str = "k") -> SessionItem:
    return SessionItem("prompt", key, text)


async def finish(steps: SessionSteps, first: SessionJob):
    """Do the steps of a run, as the workflow does, and return the last progress."""
    progress = await steps.advance(first, OWNER, first.step << 16)
    step = first.step
    while progress.status == "more":
        step += 1
        progress = await steps.advance(job(step), OWNER, step << 16)
    return progress


@pytest.mark.parametrize("whole_run", [False, True])
@scene
async def test_run_is_done_in_steps(tenuto_sim, stores, whole_run):
    tenuto_sim.script(turn(call("add", {"a": 1, "b": 2})), turn("3."), turn("Again 3."))
    async with stores() as store, agent(add, store=store, name=NAME) as ai:
        steps = SessionSteps([ai])
        first = await steps.advance(job(1, prompt("1 + 2?"), whole_run=whole_run), OWNER, 1 << 16)
        assert first.status == ("completed" if whole_run else "more")
        last = first if whole_run else await finish(steps, job(2))
        assert (last.status, last.error, last.at_rest) == ("completed", "", True)
        assert last.usage["output_tokens"] > 0
        assert (await finish(steps, job(9, prompt("And now?", "k2")))).status == "completed"
        assert (await ai.resume("s")).text == "Again 3."
        assert not await store.verify()


@scene
async def test_prompt_delivered_five_times_is_sent_once(tenuto_sim, stores):
    """As a job, and as an inbox item during a step, before and after its run."""
    tenuto_sim.script(turn("One."))
    async with stores() as store, agent(store=store, name=NAME) as ai:
        steps = SessionSteps([ai])
        for step in (1, 2):
            assert (await finish(steps, job(step << 4, prompt("Hello."), prompt("Hello.")))).status == "completed"
        await steps.deliver(job(0, prompt("Hello.")))
        assert (await finish(steps, job(99))).status == "completed"
        entries = await store.read("s")
        assert sum(isinstance(entry.payload, MessageAdded) for entry in entries) == 1
        assert len(tenuto_sim.requests) == 1
        other = await finish(steps, job(100, prompt("Something else.")))
        assert "another message with the key 'k'" in other.error
        assert other.status == "completed"


@pytest.mark.parametrize(("kind", "result"), [("approve", "paid 5"), ("deny", "pay was not run: too much.")])
@scene
async def test_decisions_are_applied(tenuto_sim, stores, kind, result):
    tenuto_sim.script(turn(call("pay", {"amount": 5})), turn("Ended."), turn("Later."))
    async with stores() as store, agent(pay, store=store, name=NAME) as ai:
        steps = SessionSteps([ai])
        blocked = await finish(steps, job(1, prompt("Pay 5.")))
        assert (blocked.status, blocked.waiting_for, blocked.at_rest) == ("waiting", "approval", False)
        assert blocked.pending == (PendingId(blocked.pending[0].call, "pay"),)
        await steps.deliver(job(0, prompt("A prompt waits.", "later")))
        decision = SessionItem(kind, "d", "too much", (blocked.pending[0].call,))
        await steps.deliver(job(0, decision))
        assert (await finish(steps, job(9, decision))).error == ""
        late = await finish(steps, job(30, decision))
        assert "waits for approval" in late.error
        results = [one.payload.result.content for one in await store.read("s") if isinstance(one.payload, CallFinished)]
        assert results == [result]
        assert str((await ai.resume("s")).transcript[-2]) == "A prompt waits."


@scene
async def test_steering_and_cancel_reach_a_step_of_another_worker(tenuto_sim, stores):
    tenuto_sim.script(turn(call("hold")), turn("Hurried."), turn("Next."))
    held_tool = HeldTool()
    async with stores() as store, stores() as other, agent(held_tool.tool, store=store, name=NAME) as ai:
        steps = SessionSteps([ai])
        await steps.advance(job(1, prompt("Go.")), OWNER, 1 << 16)
        async with running_task(steps.advance(job(2), OWNER, 2 << 16)) as step, agent(store=other, name=NAME) as second:
            await held_tool.begun.wait()
            steer = SessionItem("steer", "s1", "Hurry.")
            await SessionSteps([second]).deliver(job(0, steer, steer))
            await SessionSteps([second]).deliver(job(0, SessionItem("cancel", "c1")))
            ended = await step
        assert (ended.status, ended.error.split(":")[0]) == ("cancelled", "RunCancelled")
        assert held_tool.ended == "cancelled"
        following = await finish(steps, job(3, prompt("Next.", "k2")))
        assert (following.status, following.error) == ("completed", "")
        texts = [str(message) for message in (await ai.resume("s")).transcript]
        assert texts.count("Hurry.") == 1


@scene
async def test_late_attempt_cannot_write(tenuto_sim, stores):
    """Its result reaches the model, and a lower attempt that starts later is refused."""
    tenuto_sim.script(turn(call("hold", {"x": 3})), turn("Unknown."), turn("Now I know."))
    held_tool = HeldTool()
    async with stores() as store, stores() as other, agent(held_tool.tool, store=store, name=NAME) as ai:
        steps = SessionSteps([ai])
        await steps.advance(job(1, prompt("Go.")), OWNER, (1 << 16) + 1)
        async with running_task(steps.advance(job(2), OWNER, (2 << 16) + 1)) as zombie:
            await held_tool.begun.wait()
            async with agent(held_tool.tool, store=other, name=NAME) as second:
                again = SessionSteps([second])
                assert (await again.advance(job(2), OWNER, (2 << 16) + 2)).status == "more"
                held_tool.go.set()
                with pytest.raises(LeaseLost):
                    await zombie
                assert (await finish(again, job(3))).status == "completed"
                texts = [str(message) for message in (await second.resume("s")).transcript]
        assert held_tool.runs == 1
        assert sum("It has ended since. Its result: held 3" in text for text in texts) == 1
        assert not await other.verify()


@pytest.mark.parametrize("is_interrupted", [True, False])
@scene
async def test_cancelled_attempt_is_continued_or_cancels_the_run(tenuto_sim, stores, is_interrupted):
    """If the worker stops, the next attempt continues the run. If the workflow cancels it, the run is cancelled."""
    tenuto_sim.script(turn(call("hold")), turn("Done."))
    held_tool = HeldTool()
    async with stores() as store, agent(held_tool.tool, store=store, name=NAME) as ai:
        steps = SessionSteps([ai])
        await steps.advance(job(1, prompt("Go.")), OWNER, 1 << 16)
        attempt = steps.advance(job(2), OWNER, (2 << 16) + 1, lambda: is_interrupted)
        async with running_task(attempt) as task:
            await held_tool.begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (await ai.resume("s")).status == ("interrupted" if is_interrupted else "cancelled")
        again = await steps.advance(job(2), OWNER, (2 << 16) + 2)
        assert again.status == ("more" if is_interrupted else "cancelled")
        results = [one.payload for one in await store.read("s") if isinstance(one.payload, CallFinished)]
        assert [result.outcome for result in results] == ["interrupted"]


@scene
async def test_error_that_ends_a_run_is_a_result(tenuto_sim, stores):
    tenuto_sim.script(turn(deny(400)))
    async with stores() as store, agent(store=store, name=NAME) as ai:
        steps = SessionSteps([ai])
        failed = await finish(steps, job(1, prompt("Hello.")))
        assert (failed.status, failed.at_rest) == ("failed", True)
        assert failed.error.startswith("BadRequest")
        tenuto_sim.script(turn("Better."))
        again = await finish(steps, job(2, prompt("Again.", "k2")))
        assert (again.status, again.error) == ("completed", "")


@scene
async def test_failed_request_is_sent_again_later(tenuto_sim, stores):
    tenuto_sim.script(turn(deny(529)), turn("Better."))
    async with stores() as store, agent(store=store, name=NAME) as ai:
        steps = SessionSteps([ai])
        waiting = await steps.advance(job(1, prompt("Hello.")), OWNER, 1 << 16)
        assert (waiting.status, waiting.seconds, waiting.at_rest) == ("retry", 0.0, False)
        assert (await finish(steps, job(2))).status == "completed"


@scene
async def test_work_that_this_worker_cannot_do_is_refused(tenuto_sim, stores):
    tenuto_sim.script(turn(call("add", {"a": 1, "b": 2})))
    async with stores() as store, agent(add, store=store, name=NAME) as ai, agent(store=store, name=NAME) as bare:
        await SessionSteps([ai]).advance(job(1, prompt("1 + 2?")), OWNER, 1 << 16)
        with pytest.raises(MissingTool, match="add"):
            await SessionSteps([bare]).advance(job(2), OWNER, 2 << 16)
        with pytest.raises(UnknownAgent, match="no agent 'support'"):
            await SessionSteps([agent(name="other")]).advance(job(2), OWNER, 2 << 16)


@scene
async def test_worker_finds_its_agents_by_name(tenuto_sim, stores):
    """`store` is used for agents without their own store."""
    async with stores() as store, agent(name=NAME) as ai, agent(name=NAME) as twin, agent(store=None, name="x") as own:
        with pytest.raises(ValueError, match="two agents have the name 'support'"):
            SessionSteps([ai, twin])
        with pytest.raises(ValueError, match="agent 'x' has a store of its own"):
            SessionSteps([own], store)
        with pytest.raises(TypeError, match="expected AsyncAgent, got str"):
            SessionSteps(["support"])
        SessionSteps([ai], store)
        assert ai.store is store


@scene
async def test_worker_makes_the_dependencies(tenuto_sim, stores):
    tenuto_sim.script(turn(call("customer")), turn("Ada."))

    @tool
    def customer(context: ToolContext[str]) -> str:
        """Name the customer."""
        return context.deps

    def make(session):
        return f"of {session.id}"

    async with stores() as store, agent(customer, store=store, name=NAME, deps_factory=make) as ai:
        assert (await finish(SessionSteps([ai]), job(1, prompt("Who?")))).status == "completed"
        results = [one.payload.result.content for one in await store.read("s") if isinstance(one.payload, CallFinished)]
        assert results == ["of s"]
