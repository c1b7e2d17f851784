"""Calls that need approval: by a function, or by a person later, perhaps in another process."""

from __future__ import annotations

import asyncio

import pytest

from agent.helpers import add, agent, call_results, journal_labels, pay, running_task, scene
from tenuto import tool
from tenuto.agent.events import ApprovalNeeded, RunStopped
from tenuto.core.inbox import Decision
from tenuto.core.journal import ApprovalDecided, RunEnded, payload_kind
from tenuto.errors import RunCancelled
from tenuto.testing import call, turn

PAY = turn(call("pay", {"amount": 5}), call("add", {"a": 1, "b": 2}), call("pay", {"amount": 7}))


async def slow_text(word):
    await asyncio.sleep(0)
    return word


@pytest.mark.parametrize(
    "approve, paid",
    [
        (lambda call: True, ["paid 5", "paid 7"]),
        (lambda call: False, ["pay was not run: it was denied."] * 2),
        (lambda call: "too dear", ["pay was not run: too dear."] * 2),
        (lambda call: slow_text(call.parse()["amount"] < 6), ["paid 5", "pay was not run: it was denied."]),
    ],
    ids=["yes", "no", "why", "awaited"],
)
@scene
async def test_approval_function_decides(tenuto_sim, approve, paid):
    """True lets a call run; the model reads any other answer. Calls that need no approval do not wait."""
    tenuto_sim.script(PAY, turn("Done."))
    async with agent(pay, add, approve=approve, store=None) as ai:
        session = ai.session()
        assert (await session.send("Pay.")).text == "Done."
        found = session.transcript[2].results
        decided = [
            entry.payload.allowed for entry in await session.entries() if isinstance(entry.payload, ApprovalDecided)
        ]

        assert [found[0].content, found[2].content] == paid
        assert found[1].content == "3"
        assert decided == [word.startswith("paid") for word in paid]
        assert (await journal_labels(session))[4:7] == ["approval_requested", "approval_requested", "started 1"]
    tenuto_sim.assert_clean()


@scene
async def test_approved_call_runs_while_the_next_one_is_decided(tenuto_sim):
    """The function is called for one call after the other, and approved calls do not wait."""
    tenuto_sim.script(PAY, turn("Done."))
    called = asyncio.Event()
    ran = asyncio.Event()

    @tool(name="pay", approval=True)
    async def paying(amount: int) -> str:
        """Pay."""
        ran.set()
        return "paid"

    async def approve(call):
        if called.is_set():
            await ran.wait()  # the first call runs during this decision
        called.set()
        return True

    async with agent(paying, add, approve=approve, store=None) as ai:
        session = ai.session()
        await session.send("Pay.")
        lines = await journal_labels(session)

    assert lines.index("approval_decided") < lines.index("started 0")


@pytest.mark.parametrize("bad", [lambda call: 1 / 0, lambda call: None], ids=["raises", "says nothing"])
@scene
async def test_failing_approval_function_fails_the_run(tenuto_sim, bad):
    """Its error is raised. The other calls have run; the call still waits for a decision."""
    tenuto_sim.script(PAY, turn("Done."))
    async with agent(pay, add, approve=bad, store=None) as ai:
        session = ai.session()
        with pytest.raises((ZeroDivisionError, TypeError), match=r"division|approve returned None"):
            await session.send("Pay.")

        assert session.status == "failed"
        assert await call_results(session) == ["3"]
        assert [pending.call.parse() for pending in session.pending] == [{"amount": 5}, {"amount": 7}]
        assert (await session.approve()).text == "Done."
        assert await call_results(session) == ["3", "paid 5", "paid 7"]
    tenuto_sim.assert_clean()


@scene
async def test_session_waits_for_approval_without_a_function(tenuto_sim, stores):
    """The other calls have run. Another process finds the call, decides, and continues the session."""
    tenuto_sim.script(PAY, turn("Done."))
    events = []
    async with stores() as store, agent(pay, add, store=store, listeners=[events.append]) as ai:
        session = ai.session("s")
        reply = await session.send("Pay.")
        assert [made.name for made in reply.reply.tool_calls] == ["pay", "add", "pay"]
        assert (session.status, session.has_pending_work) == ("waiting", True)
        assert (await journal_labels(session))[-1] == "waiting(approval)"
    assert [event.ordinal for event in events if isinstance(event, ApprovalNeeded)] == [0, 2]

    async with stores() as store, agent(pay, add, store=store) as ai:
        session = await ai.resume("s")
        first, second = session.pending
        assert await session.approve(first) is None  # the other one still waits
        assert [pending.ordinal for pending in session.pending] == [2]
        assert (await session.deny(second.call, reason="enough")).text == "Done."
        assert session.pending == ()
        found = [result.content for result in session.transcript[2].results]
    assert found == ["paid 5", "3", "pay was not run: enough."]
    tenuto_sim.assert_clean()


@scene
async def test_calls_are_decided_by_id_by_call_or_all_at_once(tenuto_sim):
    """A call that does not wait is refused, and the error names those that do."""
    tenuto_sim.script(PAY, turn("Done."))
    async with agent(pay, add, store=None) as ai:
        session = ai.session()
        await session.send("Pay.")
        ids = [pending.call.id for pending in session.pending]
        with pytest.raises(ValueError, match=rf"no call 'missing' waits.*these do: pay \({ids[0]}\), pay"):
            await session.approve("missing")
        await session.deny(ids[0], ids[0])
        await session.approve()

        assert [result.content for result in session.transcript[2].results][2] == "paid 7"
        with pytest.raises(ValueError, match="no call does"):
            await session.approve(ids[0])


@scene
async def test_continue_without_a_decision_waits_again(tenuto_sim):
    """An approval function that was added is called."""
    tenuto_sim.script(PAY, turn("Done."))
    async with agent(pay, add) as ai:
        session = ai.session("s")
        await session.send("Pay.")
        assert await session.continue_() is None
        assert session.status == "waiting"
    async with agent(pay, add, approve=lambda call: True) as ai:
        assert (await (await ai.resume("s")).continue_()).text == "Done."
    tenuto_sim.assert_clean()


@scene
async def test_new_message_closes_pending_calls(tenuto_sim, stores):
    """The model reads why they were not run, and the conversation continues."""
    tenuto_sim.script(PAY, turn("All right."))
    async with stores() as store, agent(pay, add, store=store) as ai:
        session = ai.session()
        await session.send("Pay.")
        assert (await session.send("Never mind.")).text == "All right."

        assert session.pending == ()
        assert await call_results(session) == ["3", *["pay was not run: a new user message arrived."] * 2]
        assert not await store.verify()
    tenuto_sim.assert_clean()


@scene
async def test_late_decision_names_the_calls_that_wait_now(tenuto_sim, stores):
    """Another process has decided: no call runs twice."""
    tenuto_sim.script(PAY, turn("Done."))
    async with stores() as store, agent(pay, add, store=store) as ai:
        session = ai.session("s")
        await session.send("Pay.")
        first = session.pending[0]
        await session.close()
        async with stores() as other, agent(pay, add, store=other) as quicker:
            await (await quicker.resume("s")).approve()
        with pytest.raises(ValueError, match=r"no call .* waits for approval; no call does"):
            await session.approve(first)

        assert session.status == "completed"
        assert (await call_results(session)).count("paid 5") == 1


@scene
async def test_cancel_during_an_approval_function(tenuto_sim):
    """The results of the calls say that they were not run."""
    tenuto_sim.script(PAY, turn("Done."))
    called = asyncio.Event()

    async def approve(call):
        called.set()
        await asyncio.Event().wait()

    async with agent(pay, add, approve=approve, store=None) as ai:
        session = ai.session()
        async with running_task(session.send("Pay.")) as run:
            await called.wait()
            await session.cancel()
            with pytest.raises(RunCancelled):
                await run

        assert session.status == "cancelled"
        assert session.pending == ()
        assert sorted(await call_results(session))[1:] == ["pay was not run: the run was cancelled."] * 2
        assert (await session.continue_()).text == "Done."
    tenuto_sim.assert_clean()


@scene
async def test_interrupted_call_needs_approval_before_it_runs_again(tenuto_sim, stores):
    tenuto_sim.script(turn(call("look")), turn("Done."))
    runs = []

    def looking(*, approval):
        @tool(name="look", effect="pure", approval=approval)
        def look() -> str:
            """Look."""
            runs.append(approval)
            return "seen"

        return look

    async with stores() as store, agent(looking(approval=False), store=store) as ai, ai.session("s") as session:
        await session.send("Go.")
    async with stores() as store:
        cut = await _cut_after_start(store, "s")
        async with agent(looking(approval=True), store=store, approve=lambda _: "policy") as ai:
            session = await ai.resume(cut)
            await session.continue_()
            assert runs == [False]
            [result] = await call_results(session)
            assert "may or may not have taken effect" in result
            assert "policy" in result


async def _cut_after_start(store, id: str) -> str:
    """Fork a session as it was when its first call had started."""
    entries = await store.read(id)
    started = next(entry.seq for entry in entries if payload_kind(entry.payload) == "call_started")
    return await store.fork(id, at=started)


@scene
async def test_run_that_takes_a_late_decision_stops_once(tenuto_sim, stores):
    tenuto_sim.script(turn(call("pay", {"amount": 5})), turn("Done."))
    events = []
    async with stores() as store, agent(pay, store=store) as ai:
        session = ai.session("s")
        session.on_event(events.append)
        append = session._log.append

        async def append_and_decide(*payloads, **options):
            await append(*payloads, **options)
            if any(isinstance(payload, RunEnded) and payload.waiting_for for payload in payloads):
                [pending] = session.pending
                await store.post("s", Decision(pending.call.id, pending.ordinal, allowed=True))

        session._log.append = append_and_decide
        assert (await session.send("Pay.")).text == "Done."
        assert await call_results(session) == ["paid 5"]
    assert [event.reason for event in events if isinstance(event, RunStopped)] == ["completed"]
