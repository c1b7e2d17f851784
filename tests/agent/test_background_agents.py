"""Background sub-agents: the call returns at once, and the result arrives as a message."""

from __future__ import annotations

import asyncio

import pytest

from agent.helpers import HeldTool, add, agent, call_results, journal_labels, pay, running_task, scene, until
from tenuto import Image, Limits
from tenuto.agent.events import SteeringInjected
from tenuto.agent.hooks import Hooks
from tenuto.core.inbox import Cancel
from tenuto.core.journal import MessageAdded, SteeringAdded, SubSessionLinked
from tenuto.errors import BadRequest, LeaseLost, LimitReached, RunCancelled, SessionNotFound, StoreError
from tenuto.store.memory import Memory, MemoryStore
from tenuto.testing import call, deny, image, say, turn

ASK = turn(call("helper", {"prompt": "Help me."}))
ASK_TWO = turn(call("one", {"prompt": "First."}), call("two", {"prompt": "Second."}))
PAY = turn(call("pay", {"amount": 5}))
DONE = turn("Done.")


def helper(*tools, name: str = "helper", **options):
    return agent(*tools, **options).as_tool(name, background=True)


async def delivered(session) -> list[str]:
    """Return the messages of background sub-agents."""
    return [
        str(entry.payload.message)
        for entry in await session.entries()
        if isinstance(entry.payload, SteeringAdded) and entry.payload.session
    ]


async def children(store, session: str = "s") -> list[str]:
    return [entry.payload.session for entry in await store.read(session) if isinstance(entry.payload, SubSessionLinked)]


# --- delivery ---


@scene
async def test_result_contains_the_media_of_the_reply(tenuto_sim, stores):
    tenuto_sim.script(ASK, DONE, turn("Nice."), when="Go.")
    tenuto_sim.script(turn(say("Look:"), image()), when="Help me.")
    async with stores() as store, agent(helper(model="sim/gemini"), store=store) as ai:
        session = ai.session("s")
        await session.send("Go.")
        [result] = [one.payload for one in await session.entries() if isinstance(one.payload, SteeringAdded)]
        title, *_, last = result.message.content
        assert (title.text, type(last)) == ("Result of helper:", Image)


@scene
async def test_result_arrives_at_a_turn_boundary(tenuto_sim, stores):
    """The call returns at once, so the model continues. The message has the usage of the sub-agent."""
    tenuto_sim.script(ASK, turn(call("wait")), DONE, when="Go.")
    tenuto_sim.script(turn(call("hold")), turn("It is 3."), when="Help me.")
    held_tool, wait, events = HeldTool(), HeldTool("wait"), []
    async with stores() as store, agent(helper(held_tool.tool), wait.tool, store=store) as ai:
        session = ai.session("s")
        session.on_event(events.append)
        async with running_task(session.send("Go.")) as run:
            await wait.begun.wait()
            await held_tool.begun.wait()
            assert await call_results(session) == [
                "helper runs in the background. Its result arrives later as a message."
            ]
            held_tool.go.set()
            while not await store.inbox("s"):
                await asyncio.sleep(0.001)
            wait.go.set()
            assert (await run).text == "Done."

        [child] = await children(store)
        turn_of_call = ["request_started", "reply_received", "started 0", "done 0"]
        assert (await journal_labels(session))[4:] == [
            *("sub_session_linked", "started 0", "done 0", *turn_of_call),
            *("steering_added", "request_started", "reply_received", "completed"),
        ]
        [result] = [one.payload for one in await session.entries() if isinstance(one.payload, SteeringAdded)]
        assert (str(result.message), result.session) == ("Result of helper:\nIt is 3.", child)
        assert result.usage == (await store.session(child)).meta.usage
        assert session._log.spent.tokens == session.usage.total_tokens
        assert await store.inbox("s") == []
        assert not await store.verify()
    assert [str(event.message) for event in events if isinstance(event, SteeringInjected)] == [str(result.message)]
    tenuto_sim.assert_clean()


@scene
async def test_run_waits_for_parallel_background_agents(tenuto_sim, stores):
    """Both run at the same time. `send` returns the reply after both results."""
    tenuto_sim.script(ASK_TWO, turn("Started."), turn("One of two."), DONE, when="Go.")
    tenuto_sim.script(turn(call("hold")), turn("One."), when="First.")
    tenuto_sim.script(turn(call("hold")), turn("Two."), when="Second.")
    first, second = HeldTool(), HeldTool()
    tools = helper(first.tool, name="one"), helper(second.tool, name="two")
    async with stores() as store, agent(*tools, store=store) as ai:
        session = ai.session("s")
        async with running_task(session.send("Go.")) as run:
            await asyncio.gather(first.begun.wait(), second.begun.wait())
            second.go.set()
            await until(lambda: session.text == "One of two.")
            assert not run.done()
            first.go.set()
            assert (await run).text == "Done."
        assert await delivered(session) == ["Result of two:\nTwo.", "Result of one:\nOne."]
        assert (await journal_labels(session)).count("completed") == 1
    tenuto_sim.assert_clean()


@pytest.mark.parametrize(
    "steps, limits, text",
    [
        ([turn(deny(400, message="no", times=0))], None, "helper could not answer: BadRequest"),
        ([turn(call("add", {"a": 1, "b": 2}))] * 3, Limits(turns=1), "helper could not answer: LimitReached"),
    ],
    ids=["error", "limit"],
)
@scene
async def test_failure_of_a_background_agent_is_delivered(tenuto_sim, stores, steps, limits, text):
    tenuto_sim.script(ASK, turn("Started."), DONE, when="Go.")
    tenuto_sim.script(*steps, when="Help me.")
    options = {"limits": limits} if limits is not None else {}
    async with stores() as store, agent(helper(add, **options), store=store) as ai:
        session = ai.session("s")
        assert (await session.send("Go.")).text == "Done."
        [message] = await delivered(session)
        assert message.startswith(text)


@scene
async def test_steering_is_received_while_the_run_waits(tenuto_sim):
    """A message does not wait for the sub-agent."""
    tenuto_sim.script(ASK, turn("Started."), turn("Quickly, then."), DONE, when="Go.")
    tenuto_sim.script(turn(call("hold")), turn("Helped."), when="Help me.")
    held_tool = HeldTool()
    async with agent(helper(held_tool.tool), store=None) as ai:
        session = ai.session("s")
        async with running_task(session.send("Go.")) as run:
            await held_tool.begun.wait()
            await until(lambda: session.text == "Started.")
            await session.steer("Quickly.")
            await until(lambda: session.text == "Quickly, then.")
            held_tool.go.set()
            assert (await run).text == "Done."


# --- approval ---


@pytest.mark.parametrize("allowed", [True, False], ids=["approve", "deny"])
@scene
async def test_call_of_a_background_agent_needs_approval(tenuto_sim, stores, allowed):
    """The run waits; a decision of another process continues it."""
    tenuto_sim.script(ASK, turn("Started."), DONE, when="Go.")
    tenuto_sim.script(PAY, turn("Settled."), when="Help me.")
    async with stores() as store, agent(helper(pay), store=store) as ai:
        session = ai.session("s")
        assert (await session.send("Go.")).text == "Started."
        assert (session.status, session.waiting_for) == ("waiting", "approval")
        assert (await store.session("s")).status == "waiting"
    async with stores() as store, agent(helper(pay), store=store) as ai:
        session = await ai.resume("s")
        [pending] = session.pending
        assert (pending.call.name, [pending.session]) == ("pay", await children(store))
        reply = await (session.approve(pending) if allowed else session.deny(pending, reason="no money"))
        assert reply.text == "Done."
        assert (session.status, session.pending) == ("completed", ())
        assert await delivered(session) == ["Result of helper:\nSettled."]
        assert await call_results(await ai.resume(pending.session)) == [
            "paid 5" if allowed else "pay was not run: no money."
        ]
        assert await store.inbox("s") == []
    tenuto_sim.assert_clean()


@scene
async def test_waiting_background_agent_does_not_stop_the_others(tenuto_sim, stores):
    """An approval during the run continues the sub-agent that waits for it."""
    tenuto_sim.script(ASK_TWO, turn("Started."), turn("One of two."), DONE, when="Go.")
    tenuto_sim.script(PAY, turn("One."), when="First.")
    tenuto_sim.script(turn(call("hold")), turn("Two."), when="Second.")
    held_tool = HeldTool()
    async with stores() as store, agent(helper(pay, name="one"), helper(held_tool.tool, name="two"), store=store) as ai:
        session = ai.session("s")
        async with running_task(session.send("Go.")) as run:
            await held_tool.begun.wait()
            await until(lambda: session.text == "Started.")
            one, _ = await children(store)
            while (await store.session(one)).status != "waiting":
                await asyncio.sleep(0.001)
            assert await session.approve() is None  # the run continues it
            await until(lambda: session.text == "One of two.")
            held_tool.go.set()
            assert (await run).text == "Done."
        assert await delivered(session) == ["Result of one:\nOne.", "Result of two:\nTwo."]


@scene
async def test_background_agent_finishes_before_the_run_waits(tenuto_sim, stores):
    """A call of the parent that needs approval does not cancel the background sub-agent."""
    tenuto_sim.script(turn(*ASK, *PAY), DONE, turn("Really done."), when="Go.")
    tenuto_sim.script(turn(call("hold")), turn("Helped."), when="Help me.")
    held_tool = HeldTool()
    async with stores() as store, agent(helper(held_tool.tool), pay, store=store) as ai:
        session = ai.session("s")
        async with running_task(session.send("Go.")) as run:
            await held_tool.begun.wait()
            held_tool.go.set()
            await run
        assert [one.call.name for one in session.pending] == ["pay"]
        assert [(await store.session(child)).status for child in await children(store)] == ["completed"]
        await session.approve()
        assert await delivered(session) == ["Result of helper:\nHelped."]
        assert session.status == "completed"


@scene
async def test_approval_reaches_a_nested_background_agent(tenuto_sim, stores):
    tenuto_sim.script(turn(call("manager", {"prompt": "Manage it."})), DONE, when="Go.")
    tenuto_sim.script(ASK, turn("Started."), turn("Managed."), when="Manage it.")
    tenuto_sim.script(PAY, turn("Paid."), when="Help me.")
    manager = agent(helper(pay)).as_tool("manager")
    async with stores() as store, agent(manager, store=store) as ai:
        session = ai.session("s")
        await session.send("Go.")
        assert [one.call.name for one in session.pending] == ["pay"]
        assert (await session.approve()).text == "Done."
        assert await call_results(session) == ["Managed."]


# --- cancel, crash ---


@scene
async def test_cancel_reaches_background_agents(tenuto_sim, stores):
    """A later run delivers that they were cancelled, once."""
    tenuto_sim.script(ASK, turn("Started."), DONE, when="Go.")
    tenuto_sim.script(turn(call("hold")), turn("Helped."), when="Help me.")
    held_tool = HeldTool()
    async with stores() as store, agent(helper(held_tool.tool), store=store) as ai:
        session = ai.session("s")
        async with running_task(session.send("Go.")) as run:
            await held_tool.begun.wait()
            await until(lambda: session.text == "Started.")
            await session.cancel()
            with pytest.raises(RunCancelled):
                await run
        [child] = await children(store)
        assert (held_tool.ended, (await store.session(child)).status) == ("cancelled", "cancelled")
        assert session.status == (await store.session("s")).status == "cancelled"
        assert (await session.continue_()).text == "Done."
        assert await delivered(session) == ["helper was cancelled"]
        assert await session.continue_() is None


@scene
async def test_cancel_at_a_turn_boundary_reaches_background_agents(tenuto_sim, stores, monkeypatch):
    """The run finds the cancel in its inbox itself."""
    monkeypatch.setattr("tenuto.agent.agent.INBOX_INTERVAL", 600.0)
    tenuto_sim.script(ASK, turn(call("wait")), DONE, when="Go.")
    tenuto_sim.script(turn(call("hold")), turn("Helped."), when="Help me.")
    held_tool, wait = HeldTool(), HeldTool("wait")
    async with stores() as store, agent(helper(held_tool.tool), wait.tool, store=store) as ai:
        async with running_task(ai.session("s").send("Go.")) as run:
            await held_tool.begun.wait()
            await wait.begun.wait()
            await store.post("s", Cancel())
            wait.go.set()
            with pytest.raises(RunCancelled):
                await run
        [child] = await children(store)
        assert (held_tool.ended, (await store.session(child)).status) == ("cancelled", "cancelled")


@scene
async def test_background_agent_finishes_before_the_run_fails(tenuto_sim, stores):
    """The error is raised afterwards, and the next run delivers the result."""
    tenuto_sim.script(ASK, turn(deny(400, message="no")), turn("Started."), DONE, when="Go.")
    tenuto_sim.script(turn(call("hold")), turn("Helped."), when="Help me.")
    held_tool = HeldTool()
    async with stores() as store, agent(helper(held_tool.tool), store=store) as ai:
        session = ai.session("s")
        async with running_task(session.send("Go.")) as run:
            await held_tool.begun.wait()
            while "failed BadRequest" not in await journal_labels(session):
                await asyncio.sleep(0.001)
            assert not run.done()
            held_tool.go.set()
            with pytest.raises(BadRequest):
                await run
        [child] = await children(store)
        assert (held_tool.ended, (await store.session(child)).status, session.status) == ("done", "completed", "failed")
        assert (await session.continue_()).text == "Done."
        assert await delivered(session) == ["Result of helper:\nHelped."]


@scene
async def test_time_limit_interrupts_background_agents(tenuto_sim, stores):
    """They are not cancelled: the next run continues them."""
    tenuto_sim.script(ASK, turn("Started."), DONE, when="Go.")
    tenuto_sim.script(turn(call("hold")), turn("Helped."), when="Help me.")
    async with stores() as store, agent(helper(HeldTool().tool), store=store, limits=Limits(seconds=0.5)) as ai:
        with pytest.raises(LimitReached):
            await ai.session("s").send("Go.")
        [child] = await children(store)
        assert (await store.session(child)).status == "waiting"
    async with stores() as store, agent(helper(HeldTool().tool), store=store) as ai:
        session = await ai.resume("s")
        assert (await session.continue_()).text == "Done."
        assert await delivered(session) == ["Result of helper:\nHelped."]


@scene
async def test_lost_lease_interrupts_background_agents(tenuto_sim, stores):
    """The process that has the session now continues them."""
    tenuto_sim.script(ASK, turn(call("wait")), turn("Interrupted."), DONE, when="Go.")
    tenuto_sim.script(turn(call("hold")), turn("Helped."), when="Help me.")
    held_tool, wait = HeldTool(), HeldTool("wait")
    async with stores() as store, stores() as other:
        ai = agent(helper(held_tool.tool), wait.tool, store=store)
        async with ai, running_task(ai.session("s").send("Go.")) as run:
            await held_tool.begun.wait()
            await wait.begun.wait()
            await other.release(await other.lease("s", takeover=True))
            wait.go.set()
            with pytest.raises(LeaseLost):
                await run
        async with agent(helper(held_tool.tool), wait.tool, store=other) as ai:
            session = await ai.resume("s")
            assert (await session.continue_()).text == "Done."
            assert await delivered(session) == ["Result of helper:\nHelped."]


@scene
async def test_first_run_of_a_background_agent_is_not_resumed(tenuto_sim, stores):
    """A run that continues it after approval is."""
    tenuto_sim.script(ASK, turn("Started."), DONE, when="Go.")
    tenuto_sim.script(PAY, turn("Paid."), when="Help me.")
    resumed = []

    class Record(Hooks):
        async def around_run(self, run, next):
            if run.parent:
                resumed.append(run.resumed)
            await next()

    async with stores() as store, agent(helper(pay), store=store, hooks=[Record()]) as ai:
        session = ai.session("s")
        await session.send("Go.")
        assert resumed == [False]
        await session.approve()
        assert resumed == [False, True]


@scene
async def test_background_agent_without_its_tool_is_reported(tenuto_sim, stores):
    """Its usage counts nevertheless."""
    tenuto_sim.script(ASK, turn("Started."), DONE, when="Go.")
    tenuto_sim.script(PAY, turn("Paid."), when="Help me.")
    async with stores() as store, agent(helper(pay), store=store) as ai:
        await ai.session("s").send("Go.")
    async with stores() as store, agent(store=store) as ai:
        session = await ai.resume("s")
        assert (await session.continue_()).text == "Done."
        assert await delivered(session) == ["helper cannot continue: the agent has no such tool any more"]
        [result] = [one.payload for one in await session.entries() if isinstance(one.payload, SteeringAdded)]
        [child] = await children(store)
        assert result.usage == (await store.session(child)).meta.usage
        assert session.status == "completed"


class HoldCall(Hooks):
    """Holds a background call after its sub-agent has posted the result."""

    def __init__(self, store) -> None:
        self.store = store
        self.posted = asyncio.Event()

    async def around_tool(self, call, next):
        outcome = await next()
        while not await self.store.inbox(call.session_id):
            await asyncio.sleep(0.001)
        self.posted.set()
        await asyncio.Event().wait()
        return outcome


@scene
async def test_result_posted_before_a_crash_is_delivered_once(tenuto_sim, stores):
    """The call has no result in the journal, so it runs again and its sub-agent reports again."""
    tenuto_sim.script(ASK, DONE, when="Go.")
    tenuto_sim.script(turn("Helped."), when="Help me.")
    async with stores() as store, stores() as other:
        hold = HoldCall(store)
        async with agent(helper(), store=store, hooks=[hold]) as ai, running_task(ai.session("s").send("Go.")):
            await hold.posted.wait()
            await other.release(await other.lease("s", takeover=True))
        async with agent(helper(), store=other) as ai:
            session = await ai.resume("s")
            assert (await session.continue_()).text == "Done."
            assert await delivered(session) == ["Result of helper:\nHelped."]
            assert await other.inbox("s") == []


class DyingStore(MemoryStore):
    """Fails from the n-th write on, before or after it is committed, as if its process had died."""

    def __init__(self, memory: Memory, writes: int, *, commit: bool) -> None:
        super().__init__(memory)
        self.writes = writes
        self.commit = commit

    async def _count_write(self, write):
        self.writes -= 1
        if self.writes > 0:
            return await write()
        if self.writes == 0 and self.commit:
            await write()
        raise StoreError("the process is dead")

    async def append(self, *args, **options):
        return await self._count_write(lambda: super(DyingStore, self).append(*args, **options))

    async def post(self, *args, **options):
        return await self._count_write(lambda: super(DyingStore, self).post(*args, **options))

    async def lease(self, *args, **options):
        if self.writes <= 0:
            raise StoreError("the process is dead")
        return await super().lease(*args, **options)

    async def release(self, lease):
        if self.writes > 0:
            await super().release(lease)


@pytest.mark.parametrize("resume", ["Go.", "Never mind."], ids=["same-message", "new-message"])
@pytest.mark.parametrize("commit", [False, True], ids=["lost", "committed"])
@scene
async def test_each_result_is_delivered_once_after_a_crash(tenuto_sim, commit, resume):
    """The process dies at each write in turn, and another one continues."""
    for message in ("Go.", "Never mind."):
        tenuto_sim.script(ASK_TWO, *[turn(f"Turn {number}.") for number in range(8)], when=message)
    for message in ("First.", "Second."):
        tenuto_sim.script(turn(call("add", {"a": 1, "b": 2})), turn(f"Result {message}"), when=message)

    def family(store):
        return agent(helper(add, name="one"), helper(add, name="two"), store=store)

    writes = died = 0
    while writes == died:
        writes += 1
        memory = Memory()
        async with family(DyingStore(memory, writes, commit=commit)) as ai:
            try:
                await ai.session("s").send("Go.", key="Go.")
            except StoreError:
                died += 1
        async with MemoryStore(memory) as store, family(store) as ai:
            for _, id in [*memory.locks]:  # the leases of a dead process are free
                await store.release(await store.lease(id, takeover=True))
            session = ai.session("s")
            await session.send(resume, key=resume)
            assert session.status == "completed", writes
            linked = await children(store)
            messages = [one.payload for one in await session.entries() if isinstance(one.payload, SteeringAdded)]
            assert sorted(one.session for one in messages) == sorted(set(linked)), writes
            assert await store.inbox("s") == []
            for child in set(linked):
                try:
                    entries = await store.read(child)
                except SessionNotFound:  # its call was interrupted before it started
                    assert resume != "Go."
                    continue
                assert sum(isinstance(one.payload, MessageAdded) for one in entries) == 1
            if resume == "Go.":
                assert sorted(str(one.message) for one in messages) == [
                    *("Result of one:\nResult First.", "Result of two:\nResult Second."),
                ]
            assert not await store.verify()
    assert writes > 15
