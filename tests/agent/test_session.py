"""A session from its first message to its last: requests, calls, and the order of entries."""

from __future__ import annotations

import asyncio

import pytest

from agent.helpers import HeldTool, add, agent, call_results, journal_labels, scene
from tenuto import tool
from tenuto.core.events import MessageStart
from tenuto.core.journal import (
    CallFinished,
    CallStarted,
    Configured,
    MessageAdded,
    ReplyReceived,
    RequestStarted,
    payload_kind,
)
from tenuto.core.messages import ToolResults
from tenuto.errors import TenutoError
from tenuto.testing import call, pause, refuse, say, stop, think, turn
from tenuto.tools import ToolContext

TWO = turn(think("Both."), call("add", {"a": 1, "b": 2}), call("add", {"a": 3, "b": 4}))


@pytest.mark.parametrize("model", ["sim/anthropic", "sim/openai", "sim/gemini", "sim/deepseek"])
@scene
async def test_run_with_parallel_tools(tenuto_sim, model):
    """For every dialect: the simulator accepts its tokens, and the journal has each step once."""
    tenuto_sim.script(TWO, turn("3 and 7."))
    async with agent(add, model=model, system="Be brief.", store=None) as ai:
        session = ai.session()
        reply = await session.send("Add.")

        assert reply.text == session.text == "3 and 7."
        assert session.status == "completed"
        assert not session.has_pending_work
        assert await call_results(session) == ["3", "7"]
        assert await journal_labels(session) == [
            *(
                "configured",
                "message_added",
                "request_started",
                "reply_received",
                "started 0",
                "started 1",
                "done 0",
                "done 1",
            ),
            *("request_started", "reply_received", "completed"),
        ]
    assert len(tenuto_sim.requests) == 2
    tenuto_sim.assert_clean()


@scene
async def test_results_are_sent_in_the_order_of_the_calls(tenuto_sim, stores):
    """They are recorded in the order in which they finish."""
    tenuto_sim.script(turn(call("first", {"x": 1}), call("second", {"x": 2})), turn("Done."))
    first, second = HeldTool("first"), HeldTool("second")
    async with stores() as store, agent(first.tool, second.tool, store=store) as ai:
        session = ai.session()
        run = asyncio.create_task(session.send("Go."))
        await asyncio.gather(first.begun.wait(), second.begun.wait())  # both at the same time
        returned = asyncio.Event()
        session.on_event(lambda event: returned.set() if type(event).__name__ == "ToolFinished" else None)
        second.go.set()
        await returned.wait()
        first.go.set()
        await run

        assert [line for line in await journal_labels(session) if line.startswith("done")] == ["done 1", "done 0"]
        [tool_results] = [message for message in session.transcript if isinstance(message, ToolResults)]
        assert [result.content for result in tool_results.results] == ["held 1", "held 2"]
        sent = tenuto_sim.requests[1].body["messages"][-1]["content"]
        assert [block["content"] for block in sent] == ["held 1", "held 2"]
        assert not await store.verify()
    tenuto_sim.assert_clean()


@scene
async def test_entries_are_written_before_the_next_action(tenuto_sim, stores):
    """The reply and the start of a call before the tool runs, its result before the next request, the end of the run
    last.
    """
    tenuto_sim.script(turn(call("look")), turn("Done."))
    kinds, begun = [], []

    @tool
    async def look(context: ToolContext) -> str:
        """Read the store as another process does."""
        async with stores() as other:
            kinds.append([payload_kind(entry.payload) for entry in await other.read(context.session)])
        return "seen"

    async def kinds_before(at):
        async with stores() as other:
            begun[at] = [payload_kind(entry.payload) for entry in await other.read(session.id)]

    async with stores() as store, agent(look, store=store) as ai:
        session = ai.session()
        asking = []

        def hear(event):
            if isinstance(event, MessageStart):
                asking.append(asyncio.ensure_future(kinds_before(len(begun))))
                begun.append([])

        session.on_event(hear)
        await session.send("Go.")
        await asyncio.gather(*asking)

        one = ["configured", "message_added", "request_started"]
        two = [*one, "reply_received", "call_started"]
        three = [*two, "call_finished", "request_started"]
        assert kinds == [two]
        assert [begun[0][: len(one)], begun[1][: len(three)]] == [one, three]  # the run may have continued meanwhile
        async with stores() as other:
            assert [payload_kind(entry.payload) for entry in await other.read(session.id)] == [
                *three,
                "reply_received",
                "run_ended",
            ]


@scene
async def test_entries_have_model_attempt_and_key(tenuto_sim):
    tenuto_sim.script(TWO, turn("Done."))
    async with agent(add, name="adder", system="Be brief.", temperature=0.5, store=None) as ai:
        session = ai.session("mine")
        await session.send("Add.")
        acts = [entry.payload for entry in await session.entries()]

    [begun] = [act for act in acts if isinstance(act, Configured)]
    assert (begun.model, begun.system, begun.agent) == ("sim/anthropic", "Be brief.", "adder")
    assert begun.parameters == '{"temperature":0.5,"cache":"auto"}'
    assert '"name":"add"' in begun.tools
    assert [act.attempt for act in acts if isinstance(act, RequestStarted)] == [1, 1]
    assert all(act.digest and act.encoder_version for act in acts if isinstance(act, RequestStarted))
    assert [(act.idempotency_key, act.effect, act.attempt) for act in acts if isinstance(act, CallStarted)] == [
        ("mine/4/0", "pure", 1),
        ("mine/4/1", "pure", 1),
    ]
    replies = [act for act in acts if isinstance(act, ReplyReceived)]
    assert all(act.usage and act.response_id for act in replies)
    assert session.usage == replies[0].usage + replies[1].usage


@scene
async def test_opening_showing_and_resuming_write_nothing(tenuto_sim, stores, tmp_path):
    """No entry, no lease, no byte; and a session that is only read stays free for others."""
    async with stores() as store, agent(store=store) as ai:
        session = ai.session("kept")
        await session.send("Hi")
        await session.close()
        ai.session("never")
    before = _bytes(tmp_path)

    async with stores() as store, agent(store=store) as ai:
        opened = ai.session("another")
        assert (opened.status, opened.text, opened.pending, await opened.entries()) == ("new", "", (), [])
        await opened.close()
        session = await ai.resume("kept")
        assert (session.status, session.has_pending_work, len(session.transcript)) == ("completed", False, 2)
        assert session.usage.total_tokens
        assert len(await session.entries()) == 5
        summary = await store.session("kept")
        assert (summary.head, summary.holder) == (5, "")
        assert [one.id for one in (await store.sessions()).sessions] == ["kept"]
        await session.close()

    assert _bytes(tmp_path) == before


def _bytes(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and "-shm" not in path.name}


@scene
async def test_paused_turn_is_sent_back_unchanged(tenuto_sim):
    """No message is between it and its continuation."""
    tenuto_sim.script(turn(say("Still at it."), pause()), turn("Done."))
    async with agent(store=None) as ai:
        session = ai.session()
        reply = await session.send("Go.")

        assert reply.text == "Done."
        assert await journal_labels(session) == [
            "configured",
            "message_added",
            "request_started",
            "reply_received",
            "request_started",
            "reply_received",
            "completed",
        ]
    assert [message["role"] for message in tenuto_sim.requests[1].body["messages"]] == ["user", "assistant"]
    tenuto_sim.assert_clean()


@pytest.mark.parametrize(
    "step, reason", [(refuse("No."), "content_filter"), (stop("length"), "length")], ids=["refusal", "length"]
)
@scene
async def test_stop_reason_of_a_reply_is_available(tenuto_sim, step, reason):
    """A refusal and a reply at the length limit are replies."""
    tenuto_sim.script(turn(say("So"), step))
    async with agent(store=None) as ai:
        session = ai.session()
        reply = await session.send("Go.")

        assert reply.reply.stop_reason == session.last.stop_reason == reason
        assert session.status == "completed"


@scene
async def test_session_has_one_run_at_a_time(tenuto_sim):
    """The second one gets an error with the alternative, and the first one is not disturbed."""
    tenuto_sim.script(turn(call("hold")), turn("Done."))
    held_tool = HeldTool()
    async with agent(held_tool.tool, store=None) as ai:
        session = ai.session()
        run = asyncio.create_task(session.send("Go."))
        await held_tool.begun.wait()
        assert session.status == "running"
        for second in (session.send("And?"), session.continue_()):
            with pytest.raises(TenutoError, match=r"is active.*steer\(\)"):
                await second
        held_tool.go.set()

        assert (await run).text == "Done."
        assert [payload_kind(entry.payload) for entry in await session.entries()].count("message_added") == 1


@scene
async def test_only_user_messages_can_be_sent(tenuto_sim):
    """Messages of the model or a tool, and empty messages, are refused before anything is written."""
    tenuto_sim.script(turn("Hello."), turn("Bye."))
    async with agent(store=None) as ai:
        session = ai.session()
        reply = await session.send([{"role": "user", "content": "Hi"}])
        for message in (reply.reply.message, ToolResults(()), {"role": "system", "content": "Obey."}):
            for method in (session.send, session.steer, session.stream):
                with pytest.raises(TypeError, match="expected a user message"):
                    await method(message)
        for method in (session.send, session.steer, session.stream):
            with pytest.raises(ValueError, match=r"no message.*continue_"):
                await method([])

        assert (await session.send(["A", "B"])).text == "Bye."
        assert [payload_kind(entry.payload) for entry in await session.entries()].count("message_added") == 3


@scene
async def test_continue_without_pending_work_returns_none(tenuto_sim):
    async with agent(store=None) as ai:
        session = ai.session()
        await session.send("Hi")
        before = await session.entries()

        assert await session.continue_() is None
        assert await session.entries() == before
        assert await ai.session().continue_() is None


@scene
async def test_session_opens_or_creates_by_exact_id(tenuto_sim, stores):
    async with stores() as store, agent(store=store) as ai:
        first = ai.session("one")
        await first.send("Hi")
        await first.close()
        async with ai.session("one") as again:
            assert len(again.transcript) == 2
        assert (await ai.session("one").send("Hi")).text
        assert len((await ai.resume("one")).transcript) == 4
        async with ai.session("on") as other:
            assert other.is_new
        with pytest.raises(ValueError, match="id"):
            ai.session("no such/id")

        assert (await (await ai.resume("one")).send("And?")).text


@scene
async def test_two_messages_are_two_runs(tenuto_sim):
    """In one conversation."""
    tenuto_sim.script(turn("One."), turn("Two."))
    async with agent(store=None) as ai:
        session = ai.session()
        texts = [(await session.send(text)).text for text in ("A", "B")]

        assert texts == ["One.", "Two."]
        assert [type(entry.payload) for entry in await session.entries()].count(MessageAdded) == 2
        assert [type(entry.payload) for entry in await session.entries()].count(Configured) == 1
        assert not any(isinstance(entry.payload, CallFinished) for entry in await session.entries())
