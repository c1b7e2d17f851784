from __future__ import annotations

import json

import pytest
from hypothesis import given

from strategies import assistant_messages_of, broken_words
from tenuto.core.blocks import AnthropicMeta, AnthropicRedactedMeta, GeminiMeta, Reasoning, Text, ToolUse
from tenuto.core.jsonio import JsonError
from tenuto.core.messages import AssistantMessage
from tenuto.interop.tool_call_rows import from_data_json, to_data_json

THOUGHT = Reasoning("Let me solve it.", meta=AnthropicMeta("EqQB"))
WITHHELD = Reasoning(meta=AnthropicRedactedMeta("EmwK"))
CALL = ToolUse("toolu_1", "bash", '{"cmd": "ls"}')
OTHER_CALL = ToolUse("toolu_2", "bash", "")


@pytest.mark.parametrize(
    "blocks,rows",
    [
        ((CALL,), [{"tool_call_id": "toolu_1", "tool_name": "bash", "tool_args": '{"cmd": "ls"}'}]),
        (
            (THOUGHT, CALL),
            [
                {
                    "tool_call_id": "toolu_1",
                    "tool_name": "bash",
                    "tool_args": '{"cmd": "ls"}',
                    "thinking": {"text": "Let me solve it.", "signature": "EqQB"},
                }
            ],
        ),
        (
            (WITHHELD, CALL, OTHER_CALL),
            [
                {
                    "tool_call_id": "toolu_1",
                    "tool_name": "bash",
                    "tool_args": '{"cmd": "ls"}',
                    "redacted_thinking": {"data": "EmwK"},
                },
                {"tool_call_id": "toolu_2", "tool_name": "bash", "tool_args": ""},
            ],
        ),
        (
            (THOUGHT, Reasoning("Again."), WITHHELD, WITHHELD, CALL),
            [
                {
                    "tool_call_id": "toolu_1",
                    "tool_name": "bash",
                    "tool_args": '{"cmd": "ls"}',
                    "thinking": [{"text": "Let me solve it.", "signature": "EqQB"}, {"text": "Again."}],
                    "redacted_thinking": [{"data": "EmwK"}, {"data": "EmwK"}],
                }
            ],
        ),
    ],
)
def test_a_turn_is_written_to_rows_and_rebuilt_from_them(blocks, rows):
    written = to_data_json(AssistantMessage(blocks))

    assert [json.loads(row) for row in written] == rows
    assert from_data_json(written) == AssistantMessage(blocks, "tool_calls")


def test_rows_without_thinking_are_plain_calls():
    row = '{"tool_call_id":"toolu_1","tool_name":"bash","tool_args":{"cmd": "ls"},"thinking":null}'

    assert from_data_json([row]) == AssistantMessage((CALL,), "tool_calls")
    assert from_data_json(['{"tool_call_id":"a","tool_name":"b"}']).blocks == (ToolUse("a", "b", ""),)


def test_tokens_of_other_kinds_go_along():
    blocks = (Reasoning("Hm.", meta=GeminiMeta("s")), ToolUse("a", "b", "{}", meta=GeminiMeta("t")))

    assert from_data_json(to_data_json(AssistantMessage(blocks))).blocks == blocks


def test_a_turn_without_calls_has_no_rows():
    assert to_data_json(AssistantMessage((THOUGHT, Text("Done.")))) == ()
    assert from_data_json([]) == AssistantMessage(())


def test_text_stays_out_and_an_unsigned_thought_stays_unsigned():
    blocks = (Text("First."), Reasoning("Hm."), CALL)
    rows = to_data_json(AssistantMessage(blocks))

    assert from_data_json(rows).blocks == (Reasoning("Hm."), CALL)
    assert from_data_json([rows[0].replace('"Hm."', '"Hm.","signature":null')]).blocks == (Reasoning("Hm."), CALL)


@given(assistant_messages_of(broken_words))
def test_rows_keep_every_token_of_thoughts_and_calls(message):
    thoughts = [block for block in message.blocks if isinstance(block, Reasoning)]
    calls = [block for block in message.blocks if isinstance(block, ToolUse)]
    read = from_data_json(to_data_json(message)).blocks

    assert [(call.id, call.name, call.args, call.meta) for call in calls] == [
        (call.id, call.name, call.args, call.meta) for call in read if isinstance(call, ToolUse)
    ]
    assert len(read) == (len(thoughts) + len(calls) if calls else 0)


@pytest.mark.parametrize("row", ["", "[]", "{", '{"tool_call_id":5}', '{"thinking":[5]}'])
def test_what_is_no_row_is_refused(row):
    with pytest.raises(JsonError):
        from_data_json([row])
