"""Compactions by the provider: thinking after them, handovers, undo, and summaries that the provider refuses."""

from __future__ import annotations

import msgspec
import pytest

from compaction.scene import (
    BOUND,
    FACT,
    GPT,
    UNBOUND,
    Bill,
    agent,
    compactions,
    failures,
    kinds,
    look_tool,
    play,
    scene,
    window,
)
from tenuto import Compaction, tool
from tenuto.core.blocks import AnthropicMeta, Reasoning
from tenuto.core.journal import Compacted, CompactionRequested, ReplyReceived, RequestStarted

WAITING = Compaction(background=False, keep_tokens=500)
GEMINI = "google/gemini-3.8-flash"


async def talk(session, turns: int = 6, start: int = 0) -> None:
    for turn in range(start, start + turns):
        await session.send(f"Question {turn}" + (f": {FACT}." if turn == 1 else "."))


def sent(simulator) -> dict:
    return simulator.requests[-1].body


def thoughts_in(body: dict) -> int:
    return sum(block["type"] == "thinking" for message in body["messages"] for block in message["content"])


@scene
async def test_kept_thinking_stays_valid(tenuto_sim):
    """On request, twice: the second summary covers the first one, and thinking from before it stays valid."""
    tenuto_sim._scripts.turn = play
    bill = Bill(tenuto_sim)
    async with agent(BOUND, compaction=WAITING) as own:
        session = own.session("s")
        await talk(session)
        before = thoughts_in(sent(tenuto_sim))
        first = await session.compact()
        await talk(session, 1, 6)
        after = thoughts_in(sent(tenuto_sim))
        last = (await session.entries())[-1].seq
        second = await session.compact()
        await talk(session, 2, 7)

        assert first.native
        assert second.up_to_seq > first.up_to_seq
        assert 0 < after < before
        assert last > second.up_to_seq
        assert session.reply.losses == ()
        tenuto_sim.assert_clean()
        assert (await session.audit()).clean
        assert session.cost == bill.total


@scene
async def test_thinking_from_before_two_compactions_stays_valid(tenuto_sim):
    tenuto_sim._scripts.turn = play
    async with agent(BOUND, compaction=Compaction(background=False)) as own:
        session = own.session("s")
        await talk(session, 12)
        early = {block.meta.signature for message in session.transcript for block in _thinking(message)}
        first, second = await session.compact(), await session.compact()
        await talk(session, 1, 12)
        body = sent(tenuto_sim)
        signatures = {block.get("signature") for message in body["messages"] for block in message["content"]}

        assert first.up_to_seq < second.up_to_seq
        assert len(second.native[0].origin.prefix.split()) == 2
        assert early & signatures
        assert session.reply.losses == ()
        tenuto_sim.assert_clean()
        assert (await session.audit()).clean


def _thinking(message):
    return [block for block in getattr(message, "blocks", ()) if isinstance(block, Reasoning)]


@pytest.mark.parametrize("change", ["system", "tools", "model"])
@scene
async def test_kept_thinking_is_dropped_with_a_loss_otherwise(tenuto_sim, change):
    """If the instructions or the tools change after the compaction, or if a model wrote the summary."""
    tenuto_sim._scripts.turn = play
    settings = msgspec.structs.replace(WAITING, by="model") if change == "model" else WAITING
    async with agent(BOUND, compaction=settings) as own:
        session = own.session("s")
        await talk(session)
        plan = (await session.audit(compaction=True)).plan
        await session.compact()
        changes = {"system": {"system": "Be kind."}, "tools": {"tools": [look_tool(35), tool(name="other")(other)]}}
        with own.override(**changes.get(change, {})):
            await talk(session, 1, 6)
        losses = {loss.kind for entry in kinds(await session.entries(), ReplyReceived) for loss in entry.losses}

        assert "stale-prefix" in losses
        assert ("stale-prefix" in plan) == (change == "model")
        tenuto_sim.assert_clean()


def other() -> str:
    """Do nothing."""
    return "nothing"


@scene
async def test_compaction_by_another_model_drops_bound_thinking(tenuto_sim):
    """A summary of a model without bound thinking has no information about the replaced messages."""
    tenuto_sim._scripts.turn = play
    async with agent(UNBOUND, compaction=WAITING) as own:
        session = own.session("s")
        await talk(session)
        entry = await session.compact()
        assert entry.native[0].origin.prefix == ""
        await session.handover(BOUND)
        await talk(session, 2, 6)

        tenuto_sim.assert_clean()
        assert (await session.audit()).clean


@pytest.mark.parametrize(
    "first, other", [(BOUND, GPT), (GPT, BOUND), (UNBOUND, GEMINI), (GPT, "deepseek/deepseek-chat")]
)
@scene
async def test_handover_after_a_native_compaction(tenuto_sim, first, other):
    """The other provider gets the summary as text, or the whole conversation; the first one its own form again."""
    tenuto_sim._scripts.turn = play
    async with agent(first, compaction=WAITING) as own:
        session = own.session("s")
        await talk(session)
        entry = await session.compact()
        await session.handover(other)
        reply = await session.send("What is my locker?")
        assert reply.text == "4711"
        there = tenuto_sim.requests[-1].body
        await session.handover(first)
        again = await session.send("What is my locker?")

        assert again.text == "4711"
        if entry.summary:
            assert "Summary of the earlier conversation" in str(there)
            assert "Question 0" in str(there)
        else:
            assert str(there).count("Question") == 6
        assert "compaction" in str(sent(tenuto_sim))
        tenuto_sim.assert_clean()
        assert (await session.audit()).clean
        assert len(session.transcript) == 4 * 6 + 4


@scene
async def test_handover_to_a_small_window_writes_the_missing_summary(tenuto_sim, tmp_path):
    tenuto_sim._scripts.turn = play
    async with agent(GPT, word_count=150, compaction=WAITING, store=tmp_path / "s.db") as own:
        session = own.session("s")
        await talk(session, 24)
        made = await session.compact()
        assert made.summary == ""
    with window(8000):
        async with agent(GPT, word_count=150, compaction=WAITING, store=tmp_path / "s.db") as own:
            session = await own.resume("s")
            await session.handover("deepseek/deepseek-chat")
            assert (await session.send("What is my locker?")).text == "4711"
            last = compactions(await session.entries())[-1]
            await session.handover(GPT)
            await session.send("Question 25.")

            assert (last.reason, bool(last.summary), last.native) == ("handover", True, made.native)
            assert "encrypted_content" in str(sent(tenuto_sim)["input"][0]) or "compaction" in str(sent(tenuto_sim))
            tenuto_sim.assert_clean()
            assert (await session.audit()).clean


@pytest.mark.parametrize("model", [BOUND, GPT])
@scene
async def test_undo_sends_everything_again(tenuto_sim, model):
    """Thinking after the summary is bound to it, and is dropped with a loss."""
    tenuto_sim._scripts.turn = play
    async with agent(model, compaction=WAITING) as own:
        session = own.session("s")
        await talk(session)
        await session.compact()
        await talk(session, 1, 6)
        small = session.context_tokens

        assert await session.uncompact()
        assert not await session.uncompact()
        assert session.context_tokens > small
        await talk(session, 1, 7)

        assert str(sent(tenuto_sim)).count("Question") == 8
        assert {loss.kind for loss in session.reply.losses} == ({"stale-prefix"} if model == BOUND else set())
        tenuto_sim.assert_clean()
        assert (await session.audit()).clean


@scene
async def test_undo_of_a_summary_in_a_reply_sends_everything_again(tenuto_sim):
    tenuto_sim._scripts.turn = play
    with window(80_000):
        async with agent(UNBOUND, word_count=1800, compaction=Compaction(at=0.65, by="threshold")) as own:
            session = own.session("s")
            await talk(session, 10)
            assert [one.inline for one in compactions(await session.entries())] == [True]
            assert await session.uncompact()
            await session.handover("anthropic/claude-opus-4-7")
            await talk(session, 1, 10)

            assert str(sent(tenuto_sim)).count("Question") == 11
            tenuto_sim.assert_clean()


@scene
async def test_summary_in_a_reply_is_handed_over(tenuto_sim):
    tenuto_sim._scripts.turn = play
    with window(80_000):
        async with agent(BOUND, word_count=1800, compaction=Compaction(at=0.625, by="threshold")) as own:
            session = own.session("s")
            await talk(session, 11)
            await session.handover(GPT)
            reply = await session.send("What is my locker?")
            assert reply.text == "4711"
            assert [loss for loss in reply.losses if "Marker" in loss.detail or "compaction" in loss.detail] == []
            await session.handover(BOUND)
            assert (await session.send("What is my locker?")).text == "4711"

            tenuto_sim.assert_clean()
            assert (await session.audit()).clean


@pytest.mark.parametrize("model", [UNBOUND, GPT])
@scene
async def test_refused_summary_is_omitted_in_one_retry(tenuto_sim, model):
    """A native form that its provider refuses is replaced by the summary, or by the whole conversation."""
    tenuto_sim._scripts.turn = play
    async with agent(model, compaction=WAITING) as own:
        session = own.session("s")
        await talk(session)
        await session.compact()
        compaction = session._log.next.compaction
        spoilt = tuple(map(_with_invalid_token, compaction.native))
        async with session._working():
            await session._log.append(msgspec.structs.replace(compaction, native=spoilt, usage=None, cost=""))
        reply = await session.send("What is my locker?")
        entries = await session.entries()

        assert reply.text == "4711"
        last = compactions(entries)[-1]
        assert (last.reason, last.native) == ("refused", ())
        assert bool(last.summary) == (model == UNBOUND)
        assert len(failures(entries)) == 1
        assert len(tenuto_sim.refusals) == 1


def _with_invalid_token(message):
    block = message.blocks[0]
    if isinstance(block.meta, AnthropicMeta):
        meta = msgspec.structs.replace(block.meta, signature=_other(block.meta.signature))
    else:
        meta = msgspec.structs.replace(block.meta, encrypted_content=_other(block.meta.encrypted_content))
    return msgspec.structs.replace(message, blocks=(msgspec.structs.replace(block, meta=meta),))


def _other(token: str) -> str:
    at = len(token) // 2
    return token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]


@scene
async def test_background_compaction_is_used_in_the_next_request(tenuto_sim):
    """Its request is recorded before it is sent, and the run continues meanwhile."""
    tenuto_sim._scripts.turn = play
    bill = Bill(tenuto_sim)
    with window(8000):
        async with agent(BOUND, word_count=150, compaction=Compaction(keep_tokens=1200)) as own:
            session = own.session("s")
            await talk(session, 14)
            entries = await session.entries()
            kinds_in_order = [type(entry.payload) for entry in entries]
            request_index, made = kinds_in_order.index(CompactionRequested), kinds_in_order.index(Compacted)

            assert (
                ReplyReceived in kinds_in_order[request_index:made]
                or RequestStarted in kinds_in_order[request_index:made]
            )
            tenuto_sim.assert_clean()
            assert (await session.audit()).clean
            assert session.cost == bill.total


@scene
async def test_focus_goes_to_the_provider(tenuto_sim):
    tenuto_sim._scripts.turn = play
    for model, field in ((UNBOUND, "compaction"), (GPT, "instructions")):
        async with agent(model, compaction=WAITING) as own:
            session = own.session(f"s-{field}")
            await talk(session)
            assert await session.compact(focus="the locker") is not None
            assert "the locker" in str(sent(tenuto_sim)[field])
            assert (await session.audit()).clean
    tenuto_sim.assert_clean()


@scene
async def test_nothing_is_compacted_before_the_second_request(tenuto_sim):
    async with agent(GPT) as own:
        session = own.session("s")
        with pytest.raises(ValueError, match="no messages yet"):
            await session.compact()
        tenuto_sim.script("Hello.")
        await session.send("Hi")

        assert await session.compact() is None
        assert compactions(await session.entries()) == []
