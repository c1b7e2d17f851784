"""Handing a session over to another model and back; the report before it; fallback models."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from agent.helpers import HeldTool, add, agent, journal_labels, running_task, scene
from tenuto import Agent
from tenuto.agent.events import ModelChanged, RequestReady
from tenuto.agent.handover import hand_over
from tenuto.core.blocks import Reasoning
from tenuto.core.journal import HandedOver, RequestStarted, payload_kind
from tenuto.errors import BadRequest, ConnectionFailed, SessionInUse, TenutoError, UnknownProvider, UnsupportedModel
from tenuto.store.memory import Memory, MemoryStore
from tenuto.testing import ScriptedResponse, ScriptedTransport, call, deny, say, think, turn

THOUGHT = turn(think("Hm."), call("add", {"a": 1, "b": 2}))


def signed(body):
    """Return the signed thinking of a request to Anthropic."""
    return [block for message in body["messages"] for block in message["content"] if block["type"] == "thinking"]


@scene
async def test_handover_and_return_restores_every_token(tenuto_sim, stores):
    """Losses are recorded and returned."""
    tenuto_sim.script(THOUGHT, turn("3."), turn(think("So?"), say("Three.")), turn("Indeed."))
    events = []
    async with stores() as store, agent(add, store=store) as ai:
        session = ai.session("run")
        session.on_event(events.append)
        await session.send("Add.")
        before = await session.entries()
        losses = await session.handover("sim/openai")

        assert session.model == "sim/openai"
        assert {loss.kind for loss in losses} >= {"foreign-reasoning"}
        assert all(str(loss.location).startswith("messages[") for loss in losses)
        [changed] = [event for event in events if isinstance(event, ModelChanged)]
        assert (changed.model, changed.before, changed.losses) == ("sim/openai", "sim/anthropic", losses)
        entries = await session.entries()
        assert entries[: len(before)] == before
        [act] = [entry.payload for entry in entries[len(before) :]]
        assert act == HandedOver("sim/openai", previous_model="sim/anthropic", losses=losses)
        assert (await session.send("And in words?")).text == "Three."
        assert await session.handover("sim/anthropic") != ()  # reasoning of the other model stays there
        assert (await session.send("Sure?")).text == "Indeed."
    first, _, _, last = (record.body for record in tenuto_sim.requests)
    tenuto_sim.assert_clean()
    assert last["messages"][: len(first["messages"])] == first["messages"]
    signatures = [
        b
        for e in before
        if payload_kind(e.payload) == "reply_received"
        for b in e.payload.message.blocks
        if isinstance(b, Reasoning)
    ]
    assert [block["signature"] for block in signed(last)] == [block.meta.signature for block in signatures]


@scene
async def test_resumed_session_uses_the_model_of_its_handover(tenuto_sim, stores):
    tenuto_sim.script(turn("One."), turn("Two."))
    async with stores() as store:
        async with agent(store=store) as ai:
            session = ai.session("run")
            await session.send("Go.")
            await session.handover("sim/gemini")
        async with agent(store=store) as ai:
            session = await ai.resume("run")

            assert session.model == "sim/gemini"
            assert (await session.send("Go on.")).text == "Two."
            assert session.last.origin.dialect == "gemini"


@scene
async def test_handover_before_the_first_message_writes_nothing(tenuto_sim):
    tenuto_sim.script(turn("One."))
    async with agent(store=None) as ai:
        session = ai.session()

        assert await session.handover("sim/openai") == ()
        assert await session.entries() == []
        assert (await session.send("Go.")).reply.message.origin.dialect == "openai-responses"
        assert await session.handover("sim/openai") == ()
        assert "handed_over" not in await journal_labels(session)


@scene
async def test_handover_to_an_unsupported_model_changes_nothing(tenuto_sim):
    tenuto_sim.script(turn("One."))
    async with agent(store=None) as ai:
        session = ai.session()
        await session.send("Go.")
        before = await session.entries()
        with pytest.raises(UnknownProvider):
            await session.handover("nobody/model")
        with pytest.raises(UnsupportedModel):
            await session.handover("openai-chat/gpt-5.2")

        assert await session.entries() == before
        assert session.model == "sim/anthropic"


@scene
async def test_handover_during_a_run_is_refused(tenuto_sim):
    tenuto_sim.script(turn(call("hold", {"x": 1})), turn("Done."))
    held_tool = HeldTool()
    async with agent(held_tool.tool, store=None) as ai:
        session = ai.session()
        async with running_task(session.send("Go.")) as run:
            await held_tool.begun.wait()
            with pytest.raises(TenutoError, match="is active"):
                await session.handover("sim/openai")
            held_tool.go.set()
            assert (await run).text == "Done."


@scene
async def test_handover_during_a_turn_completes_its_calls(tenuto_sim):
    """Calls without a result are not lost: they get one, and the other model reads it."""
    tenuto_sim.script(turn(think("Pay?"), call("pay", {"amount": 3})), turn("Paid."))
    from agent.helpers import pay

    async with agent(pay, store=None) as ai:
        session = ai.session()
        await session.send("Go.")
        losses = await session.handover("sim/gemini")

        assert "open-call" not in {loss.kind for loss in losses}
        assert (await session.approve()).text == "Paid."
    tenuto_sim.assert_clean()


@scene
async def test_handover_without_an_agent(tenuto_sim):
    """As the command does it: it needs the lease, but not the tools."""
    tenuto_sim.script(THOUGHT, turn("3."))
    memory = Memory()
    async with MemoryStore(memory) as store, agent(add, store=MemoryStore(memory)) as ai:
        async with ai.session("run") as session:
            await session.send("Add.")
            with pytest.raises(SessionInUse):
                await hand_over(store, "run", "sim/openai")
        act = await hand_over(store, "run", "sim/openai")

        assert act is not None
        assert (await store.read("run"))[-1].payload == act
        assert await hand_over(store, "run", "sim/openai") is None
        with pytest.raises(UnsupportedModel):
            await hand_over(store, "run", "openai-chat/gpt-5.2")
        assert (await store.read("run"))[-1].payload == act


@scene
async def test_handover_compares_with_the_current_model(tenuto_sim):
    """Not with the model that was read before another process handed over."""
    tenuto_sim.script(turn("One."), turn("Two."))
    memory = Memory()
    async with MemoryStore(memory) as store, agent(store=MemoryStore(memory)) as ai:
        session = ai.session("run")
        await session.send("Go.")
        await session.close()
        await hand_over(store, "run", "sim/openai")
        assert (await session.audit()).target == "sim/openai"
        losses = await session.handover("sim/anthropic")

        assert losses == ()
        assert (await session.send("Go on.")).reply.message.origin.dialect == "anthropic-messages"
        await session.close()
        late = MeanwhileStore(memory)
        assert await hand_over(late, "run", "sim/gemini") is None
        assert [act.model for act in await payloads(session, HandedOver)] == [
            "sim/openai",
            "sim/anthropic",
            "sim/gemini",
        ]


class MeanwhileStore(MemoryStore):
    """Another process hands over before each lease."""

    def __init__(self, memory):
        super().__init__(memory)
        self.given = memory

    async def lease(self, session, **options):
        async with MemoryStore(self.given) as store:
            await hand_over(store, session, "sim/gemini")
        return await super().lease(session, **options)


def test_sync_handover(tenuto_sim):
    tenuto_sim.script(turn("One."))
    with Agent("sim/anthropic", store=None) as ai:
        session = ai.session()
        session.send("Go.")

        assert session.handover("sim/openai") is not None
        assert session.model == "sim/openai"
        assert session.audit().target == "sim/openai"
        assert session.audit("sim/anthropic").target == "sim/anthropic"


# --- the report before a handover ------------------------------------------------------------------------------------


@scene
async def test_listener_can_audit_a_request_before_it_is_sent(tenuto_sim):
    tenuto_sim.script(THOUGHT, turn("3."))
    written = []
    async with agent(add, store=None) as ai:
        session = ai.session()
        session.on_event(lambda e: isinstance(e, RequestReady) and written.append((session._log.head, e.audit())))
        await session.send("Add.")
        seqs = [entry.seq for entry in await session.entries() if isinstance(entry.payload, RequestStarted)]

    assert [head + 1 for head, _ in written] == seqs
    assert all(report.clean and not report.findings for _, report in written)
    assert [len(report.blocks) for _, report in written] == [1, 4]  # the question; a thought, a call and its result


@scene
async def test_listener_does_not_cause_an_audit(tenuto_sim, monkeypatch):
    def fail(*_):
        raise AssertionError("no audit was requested")

    monkeypatch.setattr("tenuto.audit.api.report_of", fail)
    events = []
    async with agent(store=None) as ai:
        session = ai.session()
        session.on_event(events.append)
        async with session.stream("Go.") as run:
            async for event in run:
                events.append(event)
    assert any(isinstance(event, RequestReady) for event in events)


@scene
async def test_session_audits_itself_and_its_journal(tenuto_sim):
    """Every request is rebuilt; a session without requests has nothing to audit."""
    tenuto_sim.script(THOUGHT, turn("3."))
    async with agent(add, store=None, system="Be brief.", max_tokens=500, effort="high") as ai:
        session = ai.session()
        with pytest.raises(ValueError, match="nothing to audit"):
            await session.audit()
        await session.send("Add.")
        head, report = session._log.head, await session.audit()

        assert (report.clean, report.compared, report.target) == (True, 2, "sim/anthropic")
        assert {block.outcome for block in report.blocks} == {"kept"}
        other = await session.audit("sim/mistral")
        assert other.clean
        assert {"kept", "dropped"} <= {block.outcome for block in other.blocks}
        assert session._log.head == head


# --- fallback --------------------------------------------------------------------------------------------------------


@scene
async def test_fallback_with_the_fewest_losses_is_used(tenuto_sim, dead):
    """Its position in the list does not matter; the session stays with it."""
    tenuto_sim.script(turn(think("Hm."), say("One.")), turn("Two."), turn("Three."))
    events = []
    options = {"providers": [dead], "fallback": ["sim/openai", "sim/anthropic"]}
    async with agent(store=None, **options) as ai:
        session = ai.session()
        session.on_event(events.append)
        await session.send("Go.")
        await session.handover("dead/model")
        assert (await session.send("Go on.")).text == "Two."

        assert session.model == "sim/anthropic"
        assert [act.model for act in await payloads(session, HandedOver)] == ["dead/model", "sim/anthropic"]
        assert (await payloads(session, HandedOver))[-1].losses == ()
        assert [event.model for event in events if isinstance(event, ModelChanged)] == ["dead/model", "sim/anthropic"]
        assert (await session.send("And?")).text == "Three."
        assert (await session.audit()).clean
    tenuto_sim.assert_clean()


async def payloads(session, kind):
    return [entry.payload for entry in await session.entries() if isinstance(entry.payload, kind)]


@scene
async def test_each_fallback_is_tried_once(dead):
    """Then the last error is raised, and the session can continue later."""
    other = msgspec.structs.replace(dead, name="gone")
    options = {"providers": [dead, other], "fallback": ["gone/a", "dead/b", "dead/model"]}
    async with agent(store=None, model="dead/model", **options) as ai:
        session = ai.session()
        with pytest.raises(ConnectionFailed):
            await session.send("Go.")

        assert [act.model for act in await payloads(session, HandedOver)] == ["gone/a", "dead/b"]
        assert session.status == "failed"
        assert session.has_pending_work


@scene
async def test_refused_request_is_not_sent_to_a_fallback(tenuto_sim):
    tenuto_sim.script(turn(deny(400)), turn("Two."))
    async with agent(store=None, fallback=["sim/openai"]) as ai:
        session = ai.session()
        with pytest.raises(BadRequest):
            await session.send("Go.")

        assert await payloads(session, HandedOver) == []


def _body(text):
    content = [{"type": "text", "text": text}]
    usage = {"input_tokens": 5, "output_tokens": 5}
    head = {"id": "m", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "end_turn"}
    return {**head, "content": content, "usage": usage}


@scene
async def test_request_that_is_too_long_goes_to_a_larger_model():
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 2 > 1"}}
    transport = ScriptedTransport(ScriptedResponse(error, status=400), _body("Done."))
    large = "anthropic/claude-opus-5-5"
    options = {"fallback": ["anthropic/claude-haiku-4-5", large], "keys": {"anthropic": "k"}, "transport": transport}
    async with agent(store=None, model="anthropic/claude-haiku-4-5", **options) as ai:
        session = ai.session()
        assert (await session.send("Go.")).text == "Done."
        assert [act.model for act in await payloads(session, HandedOver)] == [large]


def test_fallback_models_are_checked_at_construction():
    with pytest.raises(UnsupportedModel):
        Agent("sim/anthropic", fallback=["openai-chat/gpt-5.2"], store=None)
    with pytest.raises(UnknownProvider):
        Agent("sim/anthropic", fallback=["nobody/model"], store=None)


@scene
async def test_listener_receives_the_handover_before_the_request(tenuto_sim, dead):
    tenuto_sim.script(turn("One."))
    events = []
    async with agent(store=None, model="dead/x", providers=[dead], fallback=["sim/gemini"]) as ai:
        session = ai.session()
        session.on_event(lambda event: events.append(type(event).__name__))
        await asyncio.wait_for(session.send("Go."), 60)

    at = events.index("ModelChanged")
    assert "RequestReady" in events[at:]
    assert "MessageDone" not in events[:at]
