"""A turn with signed, withheld and called blocks, from the wire into storage and back to the wire."""

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


def request(transcript: tenuto.Transcript) -> bytes:
    asked = tenuto.ChatRequest(model="anthropic/claude-opus-4-6", messages=transcript)
    return tenuto.encode("anthropic-messages", asked).body


def told(message: tenuto.AssistantMessage) -> tenuto.Transcript:
    answers = [call.answer("12 °C") for call in message.tool_calls()]
    said = tenuto.Transcript() + "Weather in Oslo?" + message
    return said + answers if answers else said + "And now?"


def test_thinking_comes_before_the_call_it_led_to():
    """Thinking, redacted thinking, call: the order of arrival, each with its token, and nothing beside them."""
    message = tenuto.decode("anthropic-messages", BODY).message

    assert [type(block) for block in message.blocks] == [Reasoning, Reasoning, ToolUse]
    assert [type(block.meta) for block in message.blocks] == [AnthropicMeta, AnthropicRedactedMeta, type(None)]
    assert json.loads(request(told(message)))["messages"][1] == {"role": "assistant", "content": CONTENT}


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_what_was_stored_gives_the_same_request_after_a_restart(name):
    """Byte for byte."""
    message = tenuto.decode("anthropic-messages", STREAMS[name], provider="anthropic", stream=True).message
    transcript = told(message)

    assert request(told(load_message(dump_message(message)))) == request(transcript)


def test_rows_give_the_same_turn_after_a_restart():
    """One row per call, with the thinking on the first: enough to write the turn again."""
    message = tenuto.decode("anthropic-messages", BODY).message
    rebuilt = from_data_json(to_data_json(message))

    assert json.loads(request(told(rebuilt)))["messages"] == json.loads(request(told(message)))["messages"]
