"""A run that is driven one step at a time, each step by a new agent, as a durable workflow does it."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from agent.helpers import HeldTool, add, agent, call_results, journal_labels, pay, running_task, scene
from tenuto import Limits
from tenuto.agent.events import RunStopped, ToolStarted
from tenuto.agent.runner import Blocked, Done, More, Wait
from tenuto.client.middleware.retry import Retry
from tenuto.core.inbox import Cancel, Decision
from tenuto.core.journal import MessageAdded, RequestStarted
from tenuto.errors import ConnectionFailed, LimitReached, LLMError, RunCancelled, Unavailable
from tenuto.testing import call, deny, turn

ADD = turn(call("add", {"a": 1, "b": 2}))
PAY = turn(call("pay", {"amount": 5}))
ASK = turn(call("helper", {"prompt": "Help me."}))


class Workflow:
    """Does each step with a new store, agent and session."""

    def __init__(self, stores, *tools, **options) -> None:
        self.stores = stores
        self.tools = tools
        self.options = options

    async def step(self, message: str | None = None, key: str = "k"):
        async with self.stores() as store, agent(*self.tools, store=store, **self.options) as ai:
            return await ai.session("s").step(message, key=key if message else "")

    async def drive(self, message: str | None = "Go.", *, limit: int = 30) -> list:
        """Do steps until one returns `Done` or `Blocked`; send the keyed message with each, as a retried job does."""
        steps = []
        while not steps or isinstance(steps[-1], More | Wait):
            assert len(steps) < limit, steps
            steps.append(await self.step(message))
        return steps

    async def read(self, function):
        """Return the result of an async function of the session."""
        async with self.stores() as store, agent(*self.tools, store=store, **self.options) as ai:
            return await function(await ai.resume("s"))

    async def status(self) -> tuple[str, str]:
        async def read(session):
            return session.status, session.waiting_for

        return await self.read(read)


async def entries(session):
    return await session.entries()


@scene
async def test_steps_write_the_journal_of_send(tenuto_sim, stores):
    tenuto_sim.script(turn(*ADD, *ADD), ADD, turn("Done."))
    workflow = Workflow(stores, add)
    assert await workflow.drive() == [More(), More(), More(), More(), Done("completed")]
    assert await workflow.step() == Done("completed")
    async with agent(add, store=None) as ai:
        session = ai.session()
        await session.send("Go.")
        assert await workflow.read(journal_labels) == await journal_labels(session)
    assert await workflow.status() == ("completed", "")
    assert len(tenuto_sim.requests) == 6
    tenuto_sim.assert_clean()


@scene
async def test_step_of_a_new_session_writes_nothing(tenuto_sim, stores):
    async with stores() as store, agent(store=store) as ai:
        assert await ai.session("s").step() == Done("completed")
        assert (await store.sessions()).sessions == ()


@scene
async def test_step_releases_the_lease(tenuto_sim, stores):
    tenuto_sim.script(ADD, turn("Done."))
    async with stores() as store, agent(add, store=store) as ai:
        session = ai.session("s")
        assert await session.step("Go.") == More()
        assert (await store.session("s")).holder == ""
        assert (session.status, (await store.session("s")).status) == ("interrupted", "interrupted")
        assert session.reply.tool_calls


# --- failed requests ---


@scene
async def test_failed_step_returns_the_delay(tenuto_sim, stores):
    """The delay grows with the failures in the journal: no process knows of those before it."""
    tenuto_sim.script(turn(deny(500, times=3)), turn("Done."))
    workflow = Workflow(stores, retry=Retry(4, base=1.0, random=lambda: 0.5))
    steps = await workflow.drive()
    assert steps == [*(Wait(delay, "Unavailable") for delay in (0.5, 1.0, 2.0)), Done("completed")]
    starts = [one.payload for one in await workflow.read(entries) if isinstance(one.payload, RequestStarted)]
    assert [start.attempt for start in starts] == [1, 2, 3, 4]


@scene
async def test_steps_give_up_after_the_retries(tenuto_sim, stores):
    """Then the run has failed. The next step starts another one with all of its retries."""
    tenuto_sim.script(turn(deny(500, times=0)))
    workflow = Workflow(stores, retry=Retry(2, base=0.0))
    for _ in range(2):
        assert [type(await workflow.step("Go.")) for _ in range(2)] == [Wait, Wait]
        with pytest.raises(Unavailable):
            await workflow.step("Go.")
        assert await workflow.status() == ("failed", "")
    journal = await workflow.read(journal_labels)
    assert [line[:6] for line in journal].count("failed") == 6 + 2
    assert journal.count("message_added") == 1


@scene
async def test_error_that_does_not_pass_is_raised_by_the_step(tenuto_sim, stores):
    tenuto_sim.script(turn(deny(401, times=0)))
    workflow = Workflow(stores)
    with pytest.raises(LLMError):
        await workflow.step("Go.")
    assert await workflow.status() == ("failed", "")


@scene
async def test_steps_try_each_fallback_model_once(dead, stores):
    """Each model has all of its retries. Without a model that is left, the run fails."""
    rows = [msgspec.structs.replace(dead, name=name) for name in ("a", "b", "c")]
    workflow = Workflow(
        stores, model="a/x", providers=rows, fallback=["b/x", "c/x"], retry=Retry(1, base=0.0), allow_unverified=True
    )
    with pytest.raises(ConnectionFailed):
        await workflow.drive()
    starts = [one.payload.model for one in await workflow.read(entries) if isinstance(one.payload, RequestStarted)]
    assert starts == ["a/x", "a/x", "b/x", "b/x", "c/x", "c/x"]
    assert await workflow.status() == ("failed", "")


@scene
async def test_step_stops_at_a_limit(tenuto_sim, stores):
    tenuto_sim.script(ADD, ADD, turn("Done."))
    workflow = Workflow(stores, add, limits=Limits(turns=1))
    assert [await workflow.step("Go."), await workflow.step("Go.")] == [More(), More()]
    with pytest.raises(LimitReached):
        await workflow.step("Go.")
    assert await workflow.status() == ("waiting", "limit")


# --- approvals, keys, inbox ---


@scene
async def test_step_is_blocked_by_an_approval(tenuto_sim, stores):
    """A step after the decision runs the call."""
    tenuto_sim.script(turn(*PAY, *ADD), turn("Done."))
    workflow = Workflow(stores, pay, add)
    first, blocked = await workflow.drive()
    assert first == More()
    [pending] = blocked.pending
    assert (pending.call.name, pending.ordinal) == ("pay", 0)
    assert await workflow.read(call_results) == ["3"]
    assert await workflow.drive() == [blocked]
    assert await workflow.status() == ("waiting", "approval")

    decision = Decision(pending.call.id, pending.ordinal, allowed=True, reply_seq=pending.reply_seq)
    async with stores() as store:
        await store.post("s", decision)
    assert await workflow.drive() == [More(), Done("completed")]
    assert await workflow.read(call_results) == ["3", "paid 5"]
    tenuto_sim.assert_clean()


@scene
async def test_approve_continues_a_blocked_workflow(tenuto_sim, stores):
    tenuto_sim.script(PAY, turn("Done."))
    workflow = Workflow(stores, pay)
    assert isinstance((await workflow.drive())[-1], Blocked)

    async def approve(session):
        return (await session.approve()).text

    assert await workflow.read(approve) == "Done."
    assert await workflow.drive() == [Done("completed")]
    assert await workflow.read(call_results) == ["paid 5"]


@scene
async def test_keyed_message_of_a_step_is_added_once(tenuto_sim, stores):
    tenuto_sim.script(ADD, turn("Done."), turn("Again."))
    workflow = Workflow(stores, add)
    for _ in range(3):
        assert (await workflow.drive())[-1] == Done("completed")
    with pytest.raises(ValueError, match="another message with the key 'k'"):
        await workflow.step("Another.")
    assert await workflow.step("Another.", key="k2") == Done("completed")
    messages = [
        str(one.payload.message) for one in await workflow.read(entries) if isinstance(one.payload, MessageAdded)
    ]
    assert messages == ["Go.", "Another."]


@scene
async def test_step_takes_steering_at_the_boundary(tenuto_sim, stores):
    tenuto_sim.script(ADD, turn("Done."))
    workflow = Workflow(stores, add)
    assert await workflow.step("Go.") == More()

    async def steer(session):
        await session.steer("Quickly.")

    await workflow.read(steer)
    assert (await workflow.drive())[-1] == Done("completed")
    assert (await workflow.read(journal_labels))[-5:] == [
        *("done 0", "steering_added", "request_started", "reply_received", "completed"),
    ]


@scene
async def test_step_takes_a_posted_cancel(tenuto_sim, stores):
    """The next step continues the run, as `continue_()` does."""
    tenuto_sim.script(ADD, turn("Done."))
    workflow = Workflow(stores, add)
    assert await workflow.step("Go.") == More()
    async with stores() as store:
        await store.post("s", Cancel())
    with pytest.raises(RunCancelled):
        await workflow.step("Go.")
    assert await workflow.status() == ("cancelled", "")
    assert await workflow.read(call_results) == ["add was not run: the run was cancelled."]
    assert (await workflow.drive())[-1] == Done("completed")


@scene
async def test_cancelled_step_is_recorded(tenuto_sim, stores):
    """As for `send`: the call has a result, and the session can continue."""
    tenuto_sim.script(turn(call("hold")), turn("Done."))
    held_tool, events = HeldTool(), []
    workflow = Workflow(stores, held_tool.tool, listeners=[events.append])
    assert await workflow.step("Go.") == More()
    async with running_task(workflow.step("Go.")) as step:
        await held_tool.begun.wait()
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
    assert await workflow.status() == ("cancelled", "")
    assert (await workflow.read(journal_labels))[-3:] == ["cancelling", "interrupted 0", "cancelled"]
    assert [event.reason for event in events if isinstance(event, RunStopped)] == ["cancelled"]
    assert any(isinstance(event, ToolStarted) for event in events)


@scene
async def test_step_waits_for_the_background_agents_it_starts(tenuto_sim, stores):
    """No work outlives the step. The result is taken by the next one."""
    tenuto_sim.script(turn(*ASK, *ASK), turn("Started."), turn("Done."), turn("Really done."), when="Go.")
    tenuto_sim.script(ADD, turn("Helped."), ADD, turn("Helped."), when="Help me.")
    workflow = Workflow(stores, agent(add).as_tool("helper", background=True))
    assert await workflow.step("Go.") == More()
    assert await workflow.step("Go.") == More()
    async with stores() as store:
        children = [one.id for one in (await store.sessions()).sessions if one.id != "s"]
        assert [(await store.session(child)).status for child in children] == ["completed", "completed"]
        assert len(await store.inbox("s")) == 2
    assert (await workflow.drive())[-1] == Done("completed")
    assert (await workflow.read(journal_labels)).count("steering_added") == 2
    assert len(asyncio.all_tasks()) == 1


@scene
async def test_step_is_blocked_by_a_background_agent(tenuto_sim, stores):
    tenuto_sim.script(ASK, turn("Started."), turn("Done."), when="Go.")
    tenuto_sim.script(PAY, turn("Paid."), when="Help me.")
    workflow = Workflow(stores, agent(pay).as_tool("helper", background=True))
    blocked = (await workflow.drive())[-1]
    [pending] = blocked.pending
    assert (pending.call.name, pending.session != "") == ("pay", True)
    assert await workflow.status() == ("waiting", "approval")
    decision = Decision(pending.call.id, 0, allowed=True, reply_seq=pending.reply_seq, session=pending.session)
    async with stores() as store:
        await store.post("s", decision)
    assert (await workflow.drive())[-1] == Done("completed")
    assert (await workflow.read(journal_labels)).count("steering_added") == 1
