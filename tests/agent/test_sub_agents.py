"""Agents as tools: each call has its own linked session, which a later run finds again."""

from __future__ import annotations

import asyncio

import pytest

from agent.helpers import HeldTool, add, agent, call_results, journal_labels, pay, running_task, scene
from tenuto import Limits
from tenuto.agent.events import SubAgentEvent, ToolFinished
from tenuto.core.events import MessageDone
from tenuto.core.journal import CallFinished, CallStarted, ReplyReceived, SubSessionLinked, payload_kind
from tenuto.errors import LimitReached, RunCancelled
from tenuto.testing import call, deny, refuse, say, stop, think, turn

ASK = turn(call("helper", {"prompt": "Help me."}))


def links_in(entries) -> list[str]:
    return [entry.payload.session for entry in entries if isinstance(entry.payload, SubSessionLinked)]


@scene
async def test_sub_agent_answers_in_its_own_session(tenuto_sim, stores):
    """It is linked before the call starts; its reply is the result, its usage is counted, and its events are emitted."""
    tenuto_sim.script(ASK, turn("Done."), when="Go.")
    tenuto_sim.script(turn(call("add", {"a": 1, "b": 2})), turn("It is 3."), when="Help me.")
    events = []
    helper = agent(add, system="You help.").as_tool("helper", "Knows sums.")
    async with stores() as store, agent(helper, store=store) as ai:
        session = ai.session("s")
        session.on_event(events.append)
        assert (await session.send("Go.")).text == "Done."
        entries = await session.entries()
        [below] = links_in(entries)
        child = await store.read(below)
        meta = (await store.session(below)).meta

        assert (await journal_labels(session))[4:7] == ["sub_session_linked", "started 0", "done 0"]
        assert await call_results(session) == ["It is 3."]
        assert [payload_kind(entry.payload) for entry in child][:3] == [
            "configured",
            "message_added",
            "request_started",
        ]
        assert (child[0].payload.system, child[0].payload.agent, str(child[1].payload.message)) == (
            "You help.",
            "helper",
            "Help me.",
        )
        [returned] = [entry.payload for entry in entries if isinstance(entry.payload, CallFinished)]
        assert returned.usage == meta.usage
        assert session._log.spent.tokens == session.usage.total_tokens
        assert (await store.session(below)).holder == ""
        assert (await ai.resume()).id == "s"  # its own last session, not that of its sub-agent
    assert {event.session for event in events if isinstance(event, SubAgentEvent)} == {below}
    assert any(isinstance(event, SubAgentEvent) and isinstance(event.event, ToolFinished) for event in events)
    assert tenuto_sim.requests[0].body["tools"][0]["description"] == "Knows sums."
    tenuto_sim.assert_clean()


@scene
async def test_continued_run_resumes_the_session_of_a_sub_agent(tenuto_sim, stores):
    """The parent dies while the child works: the child continues in the same session."""
    tenuto_sim.script(ASK, turn("Done."), when="Go.")
    tenuto_sim.script(turn(call("add", {"a": 1, "b": 2})), turn(call("hold")), turn("It is 3."), when="Help me.")
    held_tool, second_tool = HeldTool(effect="pure"), HeldTool(effect="pure")
    async with stores() as store:
        async with agent(agent(add, held_tool.tool).as_tool("helper"), store=store) as ai:
            session = ai.session("s")
            async with running_task(session.send("Go.")):
                await held_tool.begun.wait()
                # as if the first process had died: it is taken over and may write nothing more
                async with stores() as taker:
                    [below] = links_in(await taker.read("s"))
                    for id in ("s", below):
                        await taker.release(await taker.lease(id, takeover=True))
        second_tool.go.set()
        async with stores() as other, agent(agent(add, second_tool.tool).as_tool("helper"), store=other) as ai:
            session = await ai.resume("s")
            assert (await session.continue_()).text == "Done."

            entries, child = await session.entries(), await other.read(below)
            assert links_in(entries) == [below]
            assert [entry.payload.attempt for entry in entries if isinstance(entry.payload, CallStarted)] == [1, 2]
            assert [payload_kind(entry.payload) for entry in child].count("message_added") == 1
            assert [(e.payload.name, e.payload.attempt) for e in child if isinstance(e.payload, CallStarted)] == [
                *(("add", 1), ("hold", 1), ("hold", 2)),
            ]
            assert not await other.verify()
    tenuto_sim.assert_clean()


@scene
async def test_sub_agent_has_the_rest_of_the_budget(tenuto_sim):
    """The narrower of its own limits and its caller's; its failure is a result."""
    tenuto_sim.script(ASK, turn("Done."), when="Go.")
    tenuto_sim.script(turn(call("add", {"a": 1, "b": 2})), turn("It is 3."), when="Help me.")
    async with agent(agent(add).as_tool("helper"), limits=Limits(tokens=1_000_000), store=None) as ai:
        session = ai.session()
        await session.send("Go.")
        first = next(
            entry.payload.usage.total_tokens
            for entry in await session.entries()
            if isinstance(entry.payload, ReplyReceived)
        )
    async with agent(agent(add).as_tool("helper"), limits=Limits(tokens=first + 1), store=None) as ai:
        session = ai.session()
        with pytest.raises(LimitReached) as caught:
            await session.send("Go.")
        assert caught.value.limit == "tokens"
        assert "helper could not answer: LimitReached: limit reached" in (await call_results(session))[0]
    async with agent(agent(add, limits=Limits(turns=1)).as_tool("helper"), store=None) as ai:
        session = ai.session()
        assert (await session.send("Go.")).text == "Done."
        assert "1 turns of 1 are used" in (await call_results(session))[0]


@pytest.mark.parametrize(
    "steps, expected",
    [
        ([refuse("I will not.")], "(incomplete: the model refused to continue)"),
        ([say("Half"), stop("length")], "Half\n(incomplete: the reply"),
        ([think("Hm.")], "(no output)"),
        ([say("x" * 60_000)], "60,000"),
    ],
    ids=["refused", "length", "nothing", "much"],
)
@scene
async def test_result_of_a_sub_agent_is_its_text(tenuto_sim, steps, expected):
    """A refusal is reported, an empty reply, too, and a long one is cut with the number of omitted characters."""
    tenuto_sim.script(ASK, turn("Thanks."), when="Go.")
    tenuto_sim.script(turn(*steps), when="Help me.")
    async with agent(agent().as_tool("helper"), store=None) as ai:
        session = ai.session()
        await session.send("Go.")
        [result] = await call_results(session)

    assert expected in result or (expected == "60,000" and len(result) < 60_000 and "missing" in result), result[-300:]
    tenuto_sim.assert_clean()


@scene
async def test_failure_of_a_sub_agent_is_a_result(tenuto_sim):
    """The run continues."""
    tenuto_sim.script(ASK, turn("Then not."), when="Go.")
    tenuto_sim.script(turn(deny(400, message="no", times=0)), when="Help me.")
    async with agent(agent().as_tool("helper"), store=None) as ai:
        session = ai.session()
        assert (await session.send("Go.")).text == "Then not."
        assert (await journal_labels(session))[6] == "failed 0 (exception)"
        assert "helper could not answer: BadRequest" in (await call_results(session))[0]
    assert len(tenuto_sim.requests) == 3


@scene
async def test_approval_of_a_nested_sub_agent_is_given_to_its_root(tenuto_sim, stores):
    """In another process; it reaches the call, and all agents continue."""
    both = turn(call("manager", {"prompt": "Manage it."}), call("add", {"a": 1, "b": 2}))
    tenuto_sim.script(both, turn("Done."), when="Go.")
    tenuto_sim.script(turn(call("clerk", {"prompt": "Pay it."})), turn("Managed."), when="Manage it.")
    tenuto_sim.script(turn(call("pay", {"amount": 5})), turn("Paid."), when="Pay it.")

    def company(store):
        clerk = agent(pay).as_tool("clerk")
        return agent(agent(clerk).as_tool("manager"), add, store=store)

    async with stores() as store, company(store) as ai:
        session = ai.session("s")
        await session.send("Go.")
        assert session.status == "waiting"
        assert await call_results(session) == ["3"]
        assert [pending.call.name for pending in session.pending] == ["pay"]
        assert await session.continue_() is None  # no decision yet
    async with stores() as store, company(store) as ai:
        session = await ai.resume("s")
        [pending] = session.pending
        assert (pending.call.parse(), pending.session != "") == ({"amount": 5}, True)
        assert (await session.approve(pending)).text == "Done."
        assert session.pending == ()
        assert await call_results(session) == ["3", "Managed."]
        assert "paid 5" in [
            str(entry.payload.result.content)
            for entry in await store.read(pending.session)
            if isinstance(entry.payload, CallFinished)
        ]
        assert not await store.verify()
    tenuto_sim.assert_clean()


@scene
async def test_approval_function_of_the_caller_is_used(tenuto_sim):
    """Unless the sub-agent has its own."""
    tenuto_sim.script(ASK, turn("Done."), when="Go.")
    tenuto_sim.script(turn(call("pay", {"amount": 5})), turn("Paid."), when="Help me.")
    requested = []
    for own, who in ((None, "caller"), (lambda call: not requested.append("own"), "own")):
        requested.clear()
        helper = agent(pay, approve=own).as_tool("helper")
        async with agent(helper, approve=lambda call: not requested.append("caller"), store=None) as ai:
            session = ai.session()
            await session.send("Go.")
            assert await call_results(session) == ["Paid."]
        assert requested == [who]


@scene
async def test_new_message_abandons_a_waiting_sub_agent(tenuto_sim):
    """Its call has a result, and nothing is pending."""
    tenuto_sim.script(ASK, turn("All right."), when="Go.")
    tenuto_sim.script(turn(call("pay", {"amount": 5})), turn("Paid."), when="Help me.")
    async with agent(agent(pay).as_tool("helper"), store=None) as ai:
        session = ai.session()
        await session.send("Go.")
        assert session.pending
        await session.send("Never mind.")
        assert session.pending == ()
        assert "helper was interrupted: a new user message arrived" in (await call_results(session))[0]
    tenuto_sim.assert_clean()


@scene
async def test_cancel_reaches_sub_agents(tenuto_sim):
    """Both journals record it."""
    tenuto_sim.script(turn(*ASK, *ASK), turn("Done."), when="Go.")
    tenuto_sim.script(turn(call("hold")), turn("Held."), when="Help me.")
    held_tool = HeldTool()
    async with agent(agent(held_tool.tool).as_tool("helper"), store=None) as ai:
        session = ai.session()
        async with running_task(session.send("Go.")) as run:
            while held_tool.runs < 2:
                await asyncio.sleep(0.001)
            await session.cancel()
            with pytest.raises(RunCancelled):
                await run
        below = links_in(await session.entries())

        assert len(set(below)) == 2
        for id in below:
            assert (await ai.store.read(id))[-1].payload.reason == "cancelled"
        assert (await journal_labels(session))[-1] == "cancelled"


@scene
async def test_listeners_of_a_sub_agent_receive_its_events(tenuto_sim):
    """For all its sessions, also those that another agent starts."""
    tenuto_sim.script(ASK, turn("Done."), when="Go.")
    tenuto_sim.script(turn("Helped."), when="Help me.")
    events = []
    async with agent(agent(listeners=[events.append]).as_tool("helper"), store=None) as ai:
        await ai.session().send("Go.")
    assert type(events[-1]).__name__ == "RunStopped"


@scene
async def test_agent_as_a_tool_can_be_called_directly(tenuto_sim):
    """It is a function with a prompt."""
    tenuto_sim.script(turn("Helped."))
    async with agent(store=None) as helper:
        assert await helper.as_tool("helper")("Help me.") == "Helped."


@scene
async def test_usage_and_cost_include_sub_agents(tenuto_sim):
    tenuto_sim.script(turn(call("helper", {"prompt": "help"})), turn("Helped."), when="go")
    tenuto_sim.script(turn("Here."), when="help")
    events = []
    async with agent(agent().as_tool("helper"), store=None) as ai:
        session = ai.session()
        session.on_event(events.append)
        await session.send("go")
        own = [event.response.usage for event in events if isinstance(event, MessageDone)]
        below = [
            e.event.response.usage for e in events if isinstance(e, SubAgentEvent) and isinstance(e.event, MessageDone)
        ]
    assert below
    assert session.usage.input_tokens == sum(usage.input_tokens for usage in own + below)
    assert session.cost == 0
