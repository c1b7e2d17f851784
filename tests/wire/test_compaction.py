"""Requests for compactions, and summaries that are sent back, in each dialect."""

from __future__ import annotations

import json

import pytest

from tenuto.catalog import resolve
from tenuto.core.blocks import AnthropicMeta, Marker, OpenAiMeta, Text
from tenuto.core.messages import AssistantMessage, Origin, UserMessage
from tenuto.core.request import ChatRequest, NativeCompaction
from tenuto.errors import BadRequest, CompactionRefused
from tenuto.wire.provider_errors import classify_error
from tenuto.wire.write import write_request

CLAUDE, GPT = resolve("anthropic/claude-opus-4-6"), resolve("openai/gpt-5.2")
GEMINI, CHAT = resolve("google/gemini-3.8-flash"), resolve("deepseek/deepseek-chat")
HELLO = UserMessage("Hello")


def written(target, compaction=None, messages=(HELLO,), **fields):
    request = ChatRequest(model=target.model, messages=messages, compaction=compaction, **fields)
    wire = write_request(request, target)
    return json.loads(wire.body), wire


def summary(target, *blocks) -> AssistantMessage:
    return AssistantMessage(blocks, origin=Origin(target.provider.name, target.dialect, target.model))


def test_anthropic_summarizes_on_request():
    body, wire = written(CLAUDE, NativeCompaction(instructions="Be brief."))

    assert body["compaction"] == {"type": "summarize", "instructions": "Be brief."}
    assert wire.headers["anthropic-beta"] == "compact-2026-09-04"
    assert wire.losses == ()


@pytest.mark.parametrize("threshold, value, losses", [(60_000, 60_000, []), (10_000, 50_000, ["clamped"])])
def test_anthropic_summarizes_above_a_threshold(threshold, value, losses):
    body, wire = written(CLAUDE, NativeCompaction(threshold=threshold))

    assert body["context_management"]["edits"][0]["trigger"] == {"type": "input_tokens", "value": value}
    assert wire.headers["anthropic-beta"] == "compact-2026-01-12"
    assert [loss.kind for loss in wire.losses] == losses


@pytest.mark.parametrize(
    "block, beta",
    [
        (
            Marker("compaction", "It rained.", meta=AnthropicMeta("c2ln"), extra='{"tool_changes":[]}'),
            "compact-2026-09-04",
        ),
        (Marker("compaction", "It rained.", extra='{"encrypted_content":"eA=="}'), "compact-2026-01-12"),
    ],
    ids=["signed", "encrypted"],
)
def test_anthropic_summary_is_sent_back_first_with_its_beta(block, beta):
    """No message precedes it, and the caller's own beta stays."""
    messages = (summary(CLAUDE, block), summary(CLAUDE, Text("One.")), UserMessage("Go on."))
    body, wire = written(CLAUDE, None, messages, extra_headers={"anthropic-beta": "own-beta"})
    first = body["messages"][0]

    assert (first["role"], first["content"][0]["type"]) == ("assistant", "compaction")
    assert set(wire.headers["anthropic-beta"].split(",")) == {beta, "own-beta"}
    assert wire.losses == ()


def test_responses_triggers_at_the_end_of_the_input():
    body, wire = written(GPT, NativeCompaction())

    assert [item["type"] for item in body["input"]] == ["message", "compaction_trigger"]
    assert (wire.path, wire.losses) == ("/responses", ())


def test_responses_trigger_takes_no_instructions():
    assert [loss.location.path for loss in written(GPT, NativeCompaction(instructions="Be brief."))[1].losses] == [
        "compaction.instructions"
    ]


def test_responses_endpoint_gets_only_its_own_fields():
    body, wire = written(GPT, NativeCompaction(endpoint=True, instructions="Be brief."), effort="high", max_tokens=9)

    assert set(body) == {"model", "input", "instructions"}
    assert wire.path == "/responses/compact"


def test_responses_compacts_above_a_threshold():
    body, _ = written(GPT, NativeCompaction(threshold=1000))

    assert body["context_management"] == [{"type": "compaction", "compact_threshold": 1000}]


def test_responses_summary_may_be_the_start():
    item = summary(GPT, Marker("compaction", meta=OpenAiMeta("cmp_1", "abc")))
    body, wire = written(GPT, None, (item, UserMessage("Go on.")))

    assert body["input"][0] == {"type": "compaction", "id": "cmp_1", "encrypted_content": "abc"}
    assert wire.losses == ()


@pytest.mark.parametrize("target", [GEMINI, CHAT], ids=["gemini", "chat"])
def test_other_dialects_record_a_loss(target):
    body, wire = written(target, NativeCompaction(threshold=1000))

    assert [loss.location.path for loss in wire.losses] == ["compaction"]
    assert "compaction" not in body


@pytest.mark.parametrize(
    "code, kind",
    [
        ("compaction_signature_invalid", CompactionRefused),
        ("compaction_block_misplaced", CompactionRefused),
        ("", BadRequest),
    ],
)
def test_refused_summary_is_a_separate_error(code, kind):
    error = {"type": "invalid_request_error", "message": "no", "details": {"error_code": code}}

    assert type(classify_error(json.dumps({"type": "error", "error": error}), status=400)) is kind
