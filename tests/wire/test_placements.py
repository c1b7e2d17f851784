"""`write_request(..., trace=True)` reports what became of each block of the transcript."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import strategies
from handoff.targets import MODELS, SIM_PROVIDERS, target, without_traits
from handoff.transcript_strategies import transcripts
from tenuto import resolve
from tenuto.core.blocks import Image, Opaque, Reasoning, Refusal, ServerToolUse, Text, ToolUse
from tenuto.core.jsonio import lone_surrogates
from tenuto.core.loss import Location
from tenuto.core.messages import AssistantMessage, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.request import ChatRequest
from tenuto.wire.translate import LOSS_EFFECTS
from tenuto.wire.write import UNACCOUNTED, write_request
from tenuto.wire.write import _is_empty as is_empty

TARGETS = [target(name) for name in (*SIM_PROVIDERS, *MODELS)]
KEEPS_BLOCK = {kind for kind, effect in LOSS_EFFECTS.items() if effect == "stripped"}
KEEPS_BLOCK |= {"calls-last", "system-hoisted", "moved-instructions", "call-id-mapped", "unsupported-field"}
"""Losses after which a block is still sent: none of them alone explains a block without a pointer."""
TARGETS += [without_traits(to) for to in TARGETS[: len(SIM_PROVIDERS)]]


def blocks_of(message):
    if isinstance(message, AssistantMessage):
        return message.blocks
    return message.results if isinstance(message, ToolResults) else message.parts


def value_at(body, pointer):
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        body = body[int(step)] if isinstance(body, list) else body[step]
    return body


def texts_in(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts_in(inner)


def mark_of(block):
    """Return a text that the block has on the wire in every dialect; empty if it has none."""
    if isinstance(block, Text | Refusal):
        return block.text.strip()
    if isinstance(block, ToolUse):
        return block.name if block.kind == "function" else ""
    return block.data if isinstance(block, Image) and not (block.url or block.file_id) else ""


def check_placements(messages, to, **options):
    request = ChatRequest(model=to.model, messages=messages, **options)
    wire = write_request(request, to, trace=True)
    body = json.loads(wire.body)

    blocks = {
        Location(at, i): block for at, message in enumerate(messages) for i, block in enumerate(blocks_of(message))
    }
    assert [placement.location for placement in wire.placements] == [*blocks]
    for placement in wire.placements:
        kinds = {loss.kind for loss in placement.losses}
        assert UNACCOUNTED not in kinds, (placement, blocks[placement.location], wire.body)
        if kinds and not placement.pointer and not is_empty(blocks[placement.location]):
            assert kinds - KEEPS_BLOCK, (placement, blocks[placement.location], wire.body)
        if placement.pointer:
            value = value_at(body, placement.pointer)
            mark = mark_of(blocks[placement.location])
            is_changed = kinds - {"foreign-token", "foreign-fields", "call-id-mapped"}
            if mark and not is_changed and not lone_surrogates(mark):
                assert any(mark in text for text in texts_in(value)), (placement, mark, value)
    bare = write_request(request, to)
    assert (bare.body, bare.losses, bare.placements) == (wire.body, wire.losses, ())


@pytest.mark.parametrize("to", TARGETS, ids=lambda to: f"{to.model}-{'known' if to.traits.known else 'unknown'}")
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_each_block_has_pointer_or_loss(to, data):
    way = data.draw(st.sampled_from(("omit", "note", "inline")))
    messages = data.draw(transcripts(to) | strategies.conversations())

    check_placements(tuple(messages), to, foreign_reasoning=way)


@pytest.mark.parametrize("to", TARGETS[:: len(TARGETS) // 8], ids=lambda to: to.model)
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(messages=strategies.transcripts)
def test_each_block_of_any_transcript_has_pointer_or_loss(to, messages):
    check_placements(tuple(messages), to)


CALL = ToolUse("call_a", "weather", '{"city": "Bern"}')
CONVERSATION = (
    SystemMessage("Be brief."),
    UserMessage((Text("Look:"), Image(data="aGk=", mime="image/png"))),
    AssistantMessage((Text("Well."), CALL)),
    ToolResults((ToolResult("call_a", "Rain."),)),
    UserMessage("Thanks."),
)


@pytest.mark.parametrize(
    ("model", "pointers"),
    [
        (
            "anthropic/claude-opus-4-6",
            [
                "/system",
                "/messages/0/content/0",
                "/messages/0/content/1",
                "/messages/1/content/0",
                "/messages/1/content/1",
                "/messages/2/content/0",
                "/messages/2/content/1",
            ],
        ),
        (
            "openai/gpt-5.2",
            [
                "/input/0/content",
                "/input/1/content/0",
                "/input/1/content/1",
                "/input/2",
                "/input/3",
                "/input/4",
                "/input/5/content",
            ],
        ),
        (
            "groq/meta-llama/llama-4-scout-17b-16e-instruct",
            [
                "/messages/0/content",
                "/messages/1/content/0",
                "/messages/1/content/1",
                "/messages/2/content",
                "/messages/2/tool_calls/0",
                "/messages/3",
                "/messages/4/content",
            ],
        ),
        (
            "gemini/gemini-2.5-flash",
            [
                "/systemInstruction/parts/0/text",
                "/contents/0/parts/0",
                "/contents/0/parts/1",
                "/contents/1/parts/0",
                "/contents/1/parts/1",
                "/contents/2/parts/0",
                "/contents/3/parts/0",
            ],
        ),
    ],
)
def test_pointers_of_blocks(model, pointers):
    wire = write_request(ChatRequest(model=model, messages=CONVERSATION), resolve(model), trace=True)

    assert [placement.pointer for placement in wire.placements] == pointers


def test_dropped_block_has_its_losses():
    turn = AssistantMessage((Reasoning("Hm."), Opaque("gemini", "{}"), ServerToolUse("s", "web_search"), Text("Yes.")))
    to = target("anthropic/claude-opus-4-6")
    request = ChatRequest(model="m", messages=(UserMessage("?"), turn, UserMessage("!")))
    wire = write_request(request, to, trace=True)
    kinds = {placement.location.block: [loss.kind for loss in placement.losses] for placement in wire.placements[1:5]}
    sent = {placement.location.block for placement in wire.placements[1:5] if placement.pointer}

    assert kinds == {0: ["unsigned-reasoning"], 1: ["foreign-block"], 2: ["stand-in"], 3: []}
    assert sent == {2, 3}


def test_empty_block_is_not_a_loss():
    to = target("anthropic/claude-opus-4-6")
    request = ChatRequest(model="m", messages=(UserMessage((Text(""), Text("Hi."))),))
    empty, sent = write_request(request, to, trace=True).placements

    assert (empty.pointer, empty.losses) == ("", ())
    assert sent.pointer == "/messages/0/content/0"
