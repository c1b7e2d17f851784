"""`foreign_reasoning="inline"`: reasoning of another provider as text, and metadata that cannot be sent."""

from __future__ import annotations

import json

import pytest

from tenuto import ChatRequest, Client, Text, UserMessage, resolve
from tenuto.core.blocks import AnthropicRedactedMeta, GeminiMeta, Reasoning, ToolUse
from tenuto.core.messages import AssistantMessage, Origin, ToolResult, ToolResults
from tenuto.wire.adapt import adapt
from tenuto.wire.write import write_request

THINKING = AssistantMessage((Reasoning("hm"), Text("yes")), origin=Origin("other", "openai-chat", "m"))
MODELS = ["anthropic/claude-opus-4-6", "openai/gpt-5.2", "openai/gpt-4o", "google/gemini-3-flash-preview"]


def encode(request):
    return write_request(request, resolve(request.model))


def request(*messages, model=MODELS[-1], **fields):
    return ChatRequest(model=model, messages=messages, foreign_reasoning="inline", **fields)


def test_inline_reasoning_is_a_text_part_for_gemini():
    wire = encode(request(UserMessage("a"), THINKING, UserMessage("b")))

    assert json.loads(wire.body)["contents"][1] == {
        "role": "model",
        "parts": [{"text": "[Reasoning: hm]"}, {"text": "yes"}],
    }
    assert [(loss.kind, str(loss.location)) for loss in wire.losses] == [("reasoning-inlined", "messages[1].blocks[0]")]


@pytest.mark.parametrize("model", MODELS)
def test_inline_reasoning_is_sent_to_every_dialect(model):
    wire = encode(request(UserMessage("a"), THINKING, UserMessage("b"), model=model))

    assert b"[Reasoning: hm]" in wire.body
    assert "reasoning-inlined" in {loss.kind for loss in wire.losses}
    assert b"[Reasoning: hm]" not in encode(ChatRequest(model=model, messages=(UserMessage("a"), THINKING))).body


def test_inline_reasoning_needs_no_user_message():
    """A note needs one."""
    call = AssistantMessage((Reasoning("hm"), ToolUse("c", "f", "{}")), origin=THINKING.origin)
    results = ToolResults((ToolResult("c", "ok"),))
    adapted = adapt((UserMessage("a"), call, results), resolve(MODELS[0]), inline=True)

    assert adapted.messages[1].blocks == (Text("[Reasoning: hm]"), ToolUse("c", "f", "{}"))
    assert adapt(adapted.messages, resolve(MODELS[0]), inline=True).messages is adapted.messages


@pytest.mark.parametrize("block", [Reasoning(" "), Reasoning(meta=AnthropicRedactedMeta("d"))])
def test_unreadable_reasoning_is_omitted_with_inline(block):
    message = AssistantMessage((block, Text("yes")), origin=THINKING.origin)
    wire = encode(request(UserMessage("a"), message, UserMessage("b")))

    assert b"[Reasoning" not in wire.body
    assert "foreign-reasoning" in {loss.kind for loss in wire.losses}


def test_reasoning_of_the_target_is_not_inlined():
    target = resolve(MODELS[-1])
    thought = Reasoning("hm", meta=GeminiMeta("c2ln"))
    origin = Origin(target.provider.name, target.dialect, target.model)
    message = AssistantMessage((thought, Text("yes")), origin=origin)

    assert adapt((UserMessage("a"), message), target, inline=True).messages[1] is message


# --- metadata ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_metadata_without_provider_is_a_loss(model):
    metadata = {"trace": "abc", resolve(model).provider.name: {"x_field": 1}}
    wire = encode(ChatRequest(model=model, messages=(UserMessage("a"),), metadata=metadata))

    assert json.loads(wire.body)["x_field"] == 1
    assert b"abc" not in wire.body
    (loss,) = (loss for loss in wire.losses if str(loss.location) == "metadata.trace")
    assert (loss.kind, loss.detail) == ("unsupported-parameter", "'abc'")


def test_client_accepts_metadata_that_is_a_loss():
    with Client() as client:
        reply = client.chat("sim/openai", "Hello", metadata={"trace": "abc"})

    assert ["metadata.trace"] == [str(loss.location) for loss in reply.losses]
