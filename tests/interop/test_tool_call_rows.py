"""Tool calls as rows."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from strategies import assistant_messages_of, broken_words
from tenuto.core.blocks import AnthropicMeta, AnthropicRedactedMeta, GeminiMeta, Reasoning, Text, ToolUse
from tenuto.core.jsonio import JsonError
from tenuto.core.messages import AssistantMessage
from tenuto.interop.tool_call_rows import from_data_json, to_data_json

THINKING = Reasoning("Let me solve it.", meta=AnthropicMeta("EqQB"))
REDACTED = Reasoning(meta=AnthropicRedactedMeta("EmwK"))
CALL = ToolUse("toolu_1", "bash", '{"cmd": "ls"}')
OTHER_CALL = ToolUse("toolu_2", "bash", "")
ROW = {"tool_call_id": "toolu_1", "tool_name": "bash", "tool_args": '{"cmd": "ls"}'}
OTHER_ROW = {"tool_call_id": "toolu_2", "tool_name": "bash", "tool_args": ""}
SIGNED = {"text": "Let me solve it.", "signature": "EqQB"}
ENCRYPTED = {"data": "EmwK"}


@pytest.mark.parametrize(
    "blocks,rows",
    [
        ((CALL,), [ROW]),
        ((THINKING, CALL), [{**ROW, "thinking": SIGNED}]),
        ((REDACTED, CALL, OTHER_CALL), [{**ROW, "redacted_thinking": ENCRYPTED}, OTHER_ROW]),
        (
            (THINKING, Reasoning("Again."), REDACTED, REDACTED, CALL),
            [{**ROW, "thinking": [SIGNED, {"text": "Again."}], "redacted_thinking": [ENCRYPTED, ENCRYPTED]}],
        ),
    ],
)
def test_reply_is_rebuilt_from_its_rows(blocks, rows):
    written = to_data_json(AssistantMessage(blocks))

    assert [json.loads(row) for row in written] == rows
    assert from_data_json(written) == AssistantMessage(blocks, "tool_calls")


def test_rows_without_thinking_are_calls():
    row = '{"tool_call_id":"toolu_1","tool_name":"bash","tool_args":{"cmd": "ls"},"thinking":null}'

    assert from_data_json([row]) == AssistantMessage((CALL,), "tool_calls")
    assert from_data_json(['{"tool_call_id":"a","tool_name":"b"}']).blocks == (ToolUse("a", "b", ""),)


def test_other_tokens_are_in_meta():
    blocks = (Reasoning("Hm.", meta=GeminiMeta("s")), ToolUse("a", "b", "{}", meta=GeminiMeta("t")))

    assert from_data_json(to_data_json(AssistantMessage(blocks))).blocks == blocks


def test_reply_without_calls_has_no_rows():
    assert to_data_json(AssistantMessage((THINKING, Text("Done.")))) == ()
    assert from_data_json([]) == AssistantMessage(())


def test_rows_have_no_text_but_unsigned_thinking():
    blocks = (Text("First."), Reasoning("Hm."), CALL)
    rows = to_data_json(AssistantMessage(blocks))

    assert from_data_json(rows).blocks == (Reasoning("Hm."), CALL)
    assert from_data_json([rows[0].replace('"Hm."', '"Hm.","signature":null')]).blocks == (Reasoning("Hm."), CALL)


@given(assistant_messages_of(broken_words))
def test_rows_have_every_call_and_its_token(message):
    thinking = [block for block in message.blocks if isinstance(block, Reasoning)]
    calls = [block for block in message.blocks if isinstance(block, ToolUse)]
    read = from_data_json(to_data_json(message)).blocks

    assert [(call.id, call.name, call.args, call.meta) for call in calls] == [
        (call.id, call.name, call.args, call.meta) for call in read if isinstance(call, ToolUse)
    ]
    assert len(read) == (len(thinking) + len(calls) if calls else 0)


@pytest.mark.parametrize("row", ["", "[]", "{", '{"tool_call_id":5}', '{"thinking":[5]}'])
def test_invalid_row_is_a_json_error(row):
    with pytest.raises(JsonError):
        from_data_json([row])
