"""A reply with signed, redacted and tool call blocks: from the wire into storage and back to the wire."""

from __future__ import annotations

import json

import pytest

import tenuto
from tenuto.core.blocks import AnthropicMeta, AnthropicRedactedMeta, Reasoning, ToolUse
from tenuto.core.stored import dump_message, load_message
from tenuto.interop.tool_call_rows import from_data_json, to_data_json
from wire.anthropic.cases import STREAMS

CONTENT = [
    {"type": "thinking", "thinking": "Let me look.", "signature": "EqQBCkYIARgC+/=="},
    {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"},
    {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo", "days": 1}},
]
BODY = json.dumps(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": CONTENT,
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 5, "output_tokens": 7},
    }
)


def write(transcript: tenuto.Transcript) -> bytes:
    request = tenuto.ChatRequest(model="anthropic/claude-opus-4-6", messages=transcript)
    return tenuto.encode("anthropic-messages", request).body


def with_results(message: tenuto.AssistantMessage) -> tenuto.Transcript:
    results = [call.answer("12 °C") for call in message.tool_calls()]
    transcript = tenuto.Transcript() + "Weather in Oslo?" + message
    return transcript + results if results else transcript + "And now?"


def test_thinking_precedes_its_call():
    message = tenuto.decode("anthropic-messages", BODY).message

    assert [type(block) for block in message.blocks] == [Reasoning, Reasoning, ToolUse]
    assert [type(block.meta) for block in message.blocks] == [AnthropicMeta, AnthropicRedactedMeta, type(None)]
    assert json.loads(write(with_results(message)))["messages"][1] == {"role": "assistant", "content": CONTENT}


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_stored_reply_gives_the_same_request_after_restart(name):
    message = tenuto.decode("anthropic-messages", STREAMS[name], provider="anthropic", stream=True).message
    transcript = with_results(message)

    assert write(with_results(load_message(dump_message(message)))) == write(transcript)


def test_rows_give_the_same_turn_after_restart():
    """One row per call, with the thinking on the first: enough to write the turn again."""
    message = tenuto.decode("anthropic-messages", BODY).message
    rebuilt = from_data_json(to_data_json(message))

    assert json.loads(write(with_results(rebuilt)))["messages"] == json.loads(write(with_results(message)))["messages"]
