"""A provider refuses one of its own blocks by name: the request is sent once more without it, and a loss is recorded."""

from __future__ import annotations

import json

import msgspec
import pytest

from agent.helpers import add, agent, journal_labels, scene
from tenuto.agent.events import RefusedBlockDropped
from tenuto.agent.refusals import REFUSED, refused_block
from tenuto.catalog import resolve
from tenuto.core.blocks import AnthropicMeta, OpenAiMeta, Reasoning, Text
from tenuto.core.journal import LossRecorded, ReplyReceived
from tenuto.core.messages import AssistantMessage, Origin, UserMessage
from tenuto.core.request import ChatRequest
from tenuto.core.stored import make_draft
from tenuto.errors import BadRequest, NotFound, RateLimited
from tenuto.store.memory import Memory, MemoryStore
from tenuto.testing import call, deny, say, think, turn
from tenuto.wire.write import write_request

TURNS = (
    turn(think("First."), call("add", {"a": 1, "b": 2})),
    turn(think("Second."), say("Three.")),
    turn(think("Third."), say("Four.")),
    turn(say("Five.")),
)


def with_changed_tokens(message: AssistantMessage) -> AssistantMessage:
    """Return the message with one character of each token changed."""
    return msgspec.structs.replace(message, blocks=tuple(map(_with_changed_token, message.blocks)))


def _with_changed_token(block):
    meta = block.meta
    if isinstance(meta, AnthropicMeta):
        other = msgspec.structs.replace(meta, signature=_other(meta.signature))
    elif isinstance(meta, OpenAiMeta) and meta.encrypted_content:
        other = msgspec.structs.replace(meta, encrypted_content=_other(meta.encrypted_content))
    else:
        return block
    return msgspec.structs.replace(block, meta=other)


def _other(token: str) -> str:
    at = len(token) // 2
    return token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]


def without_reasoning(message: AssistantMessage) -> AssistantMessage:
    """Return the message without its reasoning."""
    blocks = tuple(block for block in message.blocks if not isinstance(block, Reasoning))
    return msgspec.structs.replace(message, blocks=blocks)


async def damaged_store(memory: Memory, model: str, *which: int, change=with_changed_tokens) -> None:
    """Run two questions, and store them with changed tokens in some replies (by number)."""
    original = Memory()
    async with MemoryStore(original) as store, agent(add, model=model, store=store) as ai:
        session = ai.session("run")
        await session.send("Add.")
        await session.send("One more.")
        entries = await session.entries()
    replies = [entry.seq for entry in entries if isinstance(entry.payload, ReplyReceived)]
    spoils = {replies[number] for number in which}
    async with MemoryStore(memory) as store:
        acts = [
            msgspec.structs.replace(entry.payload, message=change(entry.payload.message))
            if entry.seq in spoils
            else entry.payload
            for entry in entries
        ]
        lease = await store.lease("run")
        lease = await store.append(lease, [make_draft(act, id=f"e{at}", time_ms=at + 1) for at, act in enumerate(acts)])
        await store.release(lease)


async def losses(session) -> list[LossRecorded]:
    return [entry.payload for entry in await session.entries() if isinstance(entry.payload, LossRecorded)]


@pytest.mark.parametrize("model", ["sim/anthropic", "sim/openai"])
@scene
async def test_refused_block_is_omitted_from_then_on(tenuto_sim, model):
    """One retry and one loss; no later request contains the block, but the journal does."""
    tenuto_sim.script(*TURNS, turn(say("Six.")))
    memory, events = Memory(), []
    await damaged_store(memory, model, 0)
    async with MemoryStore(memory) as store, agent(add, model=model, store=store) as ai:
        session = await ai.resume("run")
        session.on_event(events.append)
        before = len(await session.entries())
        transcript = session.transcript
        assert (await session.send("Go on.")).text == "Five."

        assert (await journal_labels(session))[before:] == [
            "message_added",
            "request_started",
            "failed BadRequest",
            "loss_recorded",
            "request_started",
            "reply_received",
            "completed",
        ]
        [lost] = await losses(session)
        assert lost.loss.kind == REFUSED
        assert str(lost.loss.location) == "messages[1].blocks[0]"
        assert "refused" in lost.loss.detail
        assert [event.loss for event in events if isinstance(event, RefusedBlockDropped)] == [lost.loss]
        assert session.transcript.messages[: len(transcript.messages)] == transcript.messages
        assert isinstance(session.transcript.messages[1].blocks[0], Reasoning)
        assert (await session.send("And?")).text == "Six."
        assert len(await losses(session)) == 1
        changed = [finding for finding in (await session.audit()).findings if finding.severity == "changed"]
        assert {finding.entry for finding in changed} <= set(range(before))  # the altered entries
        assert (await session.audit()).refused == ()
    assert len(tenuto_sim.refusals) == 1


@pytest.mark.parametrize("model", ["sim/anthropic", "sim/openai"])
@scene
async def test_strict_agent_does_not_retry(tenuto_sim, model):
    tenuto_sim.script(*TURNS)
    memory = Memory()
    await damaged_store(memory, model, 0)
    async with MemoryStore(memory) as store, agent(add, model=model, store=store, strict=True) as ai:
        session = await ai.resume("run")
        with pytest.raises(BadRequest):
            await session.send("Go on.")

        assert await losses(session) == []
        assert (await journal_labels(session))[-3:-1] == ["request_started", "failed BadRequest"]


@pytest.mark.parametrize("strict", [True, False])
@scene
async def test_refused_block_does_not_lead_to_a_fallback(tenuto_sim, strict):
    """An item that is not found is an error of the request for any HTTP status."""
    tenuto_sim.script(turn(think("Hm."), say("One.")))
    async with agent(store=None, model="sim/openai", strict=strict, fallback=["sim/anthropic"]) as ai:
        session = ai.session()
        await session.send("Go.")
        id = session.last.blocks[0].meta.id
        text = f"Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input."
        tenuto_sim.clear()
        tenuto_sim.script(turn("One."), turn(deny(404, message=text, times=0), say("Two.")))
        with pytest.raises(NotFound):
            await session.send("Go on.")

        assert session.model == "sim/openai"
        assert len(await losses(session)) == (0 if strict else 1)
        assert (await journal_labels(session)).count("request_started") == (2 if strict else 3)


@scene
async def test_second_refused_block_ends_the_run(tenuto_sim):
    """The next run omits that one, too."""
    tenuto_sim.script(*TURNS)
    memory = Memory()
    await damaged_store(memory, "sim/openai", 0, 1)
    async with MemoryStore(memory) as store, agent(add, model="sim/openai", store=store) as ai:
        session = await ai.resume("run")
        with pytest.raises(BadRequest):
            await session.send("Go on.")

        assert len(await losses(session)) == 1
        assert len(tenuto_sim.refusals) == 2
        assert (await session.send("Again.")).text == "Five."
        assert len(await losses(session)) == 2


@scene
async def test_crash_between_refusal_and_retry_changes_nothing(tenuto_sim):
    """The loss was recorded with the refusal, so the resumed session omits the block."""
    tenuto_sim.script(*TURNS)
    memory, cut = Memory(), Memory()
    await damaged_store(memory, "sim/anthropic", 0)
    async with MemoryStore(memory) as store, agent(add, store=store) as ai:
        session = await ai.resume("run")
        await session.send("Go on.")
        entries = await session.entries()
    upto = next(at for at, entry in enumerate(entries) if isinstance(entry.payload, LossRecorded)) + 1
    async with MemoryStore(cut) as store:
        lease = await store.lease("run")
        await store.append(lease, [make_draft(e.payload, id=e.id, time_ms=e.time_ms) for e in entries[:upto]])
    tenuto_sim.clear()
    async with MemoryStore(cut) as store, agent(add, store=store) as ai:
        session = await ai.resume("run", takeover=True)
        assert session.has_pending_work
        assert (await session.continue_()).text == "Five."
    tenuto_sim.assert_clean()


@pytest.mark.parametrize("which, sent_back", [(0, '"function_call"'), (1, "Three.")])
@scene
async def test_refused_item_with_content_loses_its_id_only(tenuto_sim, which, sent_back):
    """A call or text whose reasoning is missing is refused by its id: the call, its result and the text stay."""
    tenuto_sim.script(*TURNS)
    memory = Memory()
    await damaged_store(memory, "sim/openai", which, change=without_reasoning)
    async with MemoryStore(memory) as store, agent(add, model="sim/openai", store=store) as ai:
        session = await ai.resume("run")
        assert (await session.send("Go on.")).text == "Five."

        [lost] = await losses(session)
        assert lost.loss.detail.startswith("the token of a ")
        assert (await session.audit()).refused == ()
    first, last = (json.dumps(record.body) for record in tenuto_sim.requests[-2:])
    assert sent_back in first
    assert sent_back in last
    assert last.count('"function_call_output"') == 1
    assert last.count('"id"') == first.count('"id"') - 1
    assert len(tenuto_sim.refusals) == 1


# --- blocks in errors ------------------------------------------------------------------------------------------------

MESSAGE = AssistantMessage(
    (
        Reasoning("Hm.", meta=OpenAiMeta("rs_1", "abcdefghijkl")),
        Reasoning("So.", meta=OpenAiMeta("rs_2", "mnopqrstuvwx")),
    ),
    origin=Origin("openai", "openai-responses", "gpt-5.2"),
)


@pytest.mark.parametrize(
    "error, found",
    [
        (BadRequest("The encrypted content for item rs_2 could not be verified. Reason: Encrypted content could not be decrypted or parsed."), 1),
        (BadRequest("The encrypted content mnop...uvwx could not be verified."), 1),
        (BadRequest("Item 'rs_1' of type 'reasoning' was provided without its required following item."), 0),
        (NotFound("Item with id 'rs_2' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input."), 1),
        (BadRequest("Item 'rs_9' of type 'reasoning' was provided without its required following item."), None),
        (BadRequest("Something else about rs_1"), None),
        (RateLimited("The encrypted content mnop...uvwx could not be verified."), None),
    ],
)  # fmt: skip
def test_error_finds_only_the_named_block(error, found):
    request = ChatRequest(model="openai/gpt-5.2", messages=(UserMessage("Hi"), MESSAGE, UserMessage("And?")))
    target = resolve("openai/gpt-5.2")
    named = refused_block(error, request, target, write_request(request, target))

    assert (named and named[:2]) == (None if found is None else (1, found))


OWN = Origin("openai", "openai-responses", "gpt-5.2", "mine")
PADDED = "gAAAAABo-_x+/Q=="


def thought(id: str, token: str, account: str = "mine") -> AssistantMessage:
    blocks = Reasoning("Hm.", meta=OpenAiMeta(id, token)), Text("So.", meta=OpenAiMeta(f"msg{id}"))
    return AssistantMessage(blocks, origin=msgspec.structs.replace(OWN, account=account))


@pytest.mark.parametrize(
    "messages, without, found",
    [
        ((thought("rs_1", PADDED),), (), 0),
        ((thought("rs_1", PADDED), thought("rs_2", PADDED.replace("o", "p"))), (), None),
        ((thought("rs_1", PADDED, "theirs"), thought("rs_2", PADDED.replace("o", "p"))), (), 1),
        ((thought("rs_1", PADDED), thought("rs_2", PADDED.replace("o", "p"))), ((0, 0),), 1),
    ],
    ids=["alone", "of two it may be either", "of two accounts", "the other was left out before"],
)
def test_encrypted_content_is_found_by_its_ends(messages, without, found):
    """In any base64 alphabet; an ambiguous text or an omitted block finds nothing."""
    request = ChatRequest(model="openai/gpt-5.2", messages=(*messages, UserMessage("And?")), omit_blocks=without)
    target = msgspec.structs.replace(resolve("openai/gpt-5.2"), account="mine")
    error = BadRequest(f"The encrypted content {PADDED[:4]}...{PADDED[-4:]} could not be verified.")
    named = refused_block(error, request, target, write_request(request, target))

    assert (named and named[:2]) == (None if found is None else (found, 0))
