"""Any reply as `reasoning_details` and back, and the codecs of the dialects that attach tokens to a position."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from msgspec.structs import replace

import conformance
import strategies as say
from conformance.corpus import exchanges
from conformance.subject import decode, target_for
from tenuto.core import jsonio
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    ChatMeta,
    GeminiMeta,
    OpaqueMeta,
    OpenAiMeta,
    Reasoning,
    Text,
    ToolUse,
)
from tenuto.core.messages import AssistantMessage, Origin, UserMessage
from tenuto.core.transcript import Transcript
from tenuto.reasoning import (
    AnthropicReasoningCodec,
    GeminiReasoningCodec,
    ReasoningEncrypted,
    ReasoningFormat,
    ReasoningText,
    ResponsesReasoningCodec,
    parse_items,
    to_details,
    with_details,
    without_details,
)
from tenuto.reasoning.views import HINT

OWN = list(exchanges(Path(conformance.__file__).parent / "own"))
DETAILS = '[{"type":"reasoning.text","text":"hm","signature":"s","format":"anthropic-claude-v1","cost":1.10}]'


def reply(dialect, *blocks):
    return AssistantMessage(blocks, origin=Origin("other", dialect, "m"))


def plain_items(message, **options):
    """Return the items of a reply as plain objects, without hints."""
    values = [item.to_openrouter_value() for item in to_details(message, **options)]
    return [{name: value for name, value in item.items() if name != HINT} for item in values]


# --- round trip -------------------------------------------------------------------------------------------------------


@given(say.assistant_messages_of(say.broken_words))
def test_any_reply_is_rebuilt_from_its_items(message):
    """With positions, tokens, extra fields and unknown fields; also if the items were stored as JSON text."""
    items, bare = to_details(message), without_details(message)
    text = jsonio.encode([item.to_raw() for item in items])

    assert not any(isinstance(block, Reasoning) or isinstance(block.meta, GeminiMeta) for block in bare.blocks)
    assert with_details(bare, items) == message
    assert with_details(bare, parse_items(jsonio.elements(text))) == message


@pytest.mark.parametrize("exchange", OWN, ids=lambda e: e.name)
def test_decoded_reply_is_rebuilt_from_its_items(exchange):
    response = decode(exchange, target_for(exchange)).reply
    for choice in response.choices if response is not None else ():
        assert with_details(without_details(choice.message), to_details(choice.message)) == choice.message


@pytest.mark.parametrize(
    "thought",
    [
        Reasoning("hm", extra='{"status":null}', unknown_fields='{"later":1}'),
        Reasoning("hm", meta=AnthropicMeta("sig", unknown_fields='{"later":1}')),
        Reasoning("hm", meta=ChatMeta("think"), extra='{"tag":"thinking"}'),
        Reasoning("other words", meta=ChatMeta("reasoning_content", details=DETAILS), extra='{"a":1}'),
        Reasoning("hm", meta=ChatMeta("reasoning", details=' [ {"type":"reasoning.text"} ] ')),
        Reasoning("hm", meta=ChatMeta("reasoning", details='["odd"]')),
        Reasoning("hm", meta=ChatMeta("reasoning", details="no array")),
        Reasoning("", meta=OpenAiMeta()),
        Reasoning("hm", meta=OpaqueMeta('{"provider":"later","token":1}')),
        Reasoning("hm", meta=ChatMeta("reasoning", details='[{"x-tenuto":{"block_index":5}}]')),
    ],
    ids=repr,
)
def test_block_fields_without_item_field_are_rebuilt(thought):
    """At any index, and next to an equal block."""
    for blocks in ((thought,), (Text("a"), thought), (thought, Text("a"), thought)):
        message = reply("openai-chat", *blocks)
        assert with_details(without_details(message), to_details(message)) == message


def test_reply_without_reasoning_has_no_items():
    """`without_details` returns the same object."""
    message = reply("openai-chat", Text("yes"))

    assert to_details(message) == []
    assert without_details(message) is message


# --- to items ---------------------------------------------------------------------------------------------------------


def test_details_of_a_transcript_are_keyed_by_message_index():
    thinking = reply("anthropic-messages", Reasoning("hm", meta=AnthropicMeta("sig")), Text("yes"))
    transcript = Transcript((UserMessage("a"), reply("openai-chat", Text("b")), UserMessage("c"), thinking))

    assert transcript.reasoning_details() == {3: to_details(thinking)}
    assert Transcript().reasoning_details() == {}


def test_anthropic_thinking_as_items():
    message = reply(
        "anthropic-messages",
        Reasoning("hm", meta=AnthropicMeta("sig")),
        Reasoning(meta=AnthropicRedactedMeta("blob")),
        Text("yes"),
    )

    assert plain_items(message) == [
        {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, "text": "hm", "signature": "sig"},
        {"type": "reasoning.encrypted", "format": "anthropic-claude-v1", "index": 1, "data": "blob"},
    ]


def test_responses_reasoning_as_items():
    """`format` names the vendor if it is not OpenAI."""
    message = reply("openai-responses", Reasoning("hm", meta=OpenAiMeta("rs_1", "sealed")), Text("yes"))
    azure = ReasoningFormat.AZURE_OPENAI_RESPONSES_V1

    assert plain_items(message) == [
        {"type": "reasoning.summary", "id": "rs_1", "format": "openai-responses-v1", "index": 0, "summary": "hm"},
        {"type": "reasoning.encrypted", "id": "rs_1", "format": "openai-responses-v1", "index": 0, "data": "sealed"},
    ]
    assert {item["format"] for item in plain_items(message, format=azure)} == {azure.value}
    assert with_details(without_details(message), to_details(message, format=azure)) == message


def test_gemini_signatures_as_items():
    call = ToolUse("call_1", "look", "{}", meta=GeminiMeta("sig1"))
    message = reply("gemini", Reasoning("hm"), Text("so", meta=GeminiMeta("sig0")), call)

    assert plain_items(message) == [
        {"type": "reasoning.text", "format": "google-gemini-v1", "index": 0, "text": "hm"},
        {"type": "reasoning.encrypted", "format": "google-gemini-v1", "index": 1, "data": "sig0"},
        {"type": "reasoning.encrypted", "id": "call_1", "format": "google-gemini-v1", "index": 2, "data": "sig1"},
    ]
    assert [item.to_openrouter_value()[HINT] for item in to_details(message)] == [
        {"block_index": 0},
        {"signed_index": 1},
        {"signed_index": 2},
    ]


def test_received_details_are_unchanged():
    """Byte for byte, if their block is the first one."""
    message = reply("openai-chat", Reasoning("hm", meta=ChatMeta("reasoning", details=DETAILS)), Text("yes"))

    assert [bytes(item.to_raw()).decode() for item in to_details(message)] == [DETAILS[1:-1]]
    late = replace(message, blocks=message.blocks[::-1])
    assert plain_items(late) == json.loads(DETAILS)
    assert with_details(without_details(late), to_details(late)) == late


# --- from items without hint ------------------------------------------------------------------------------------------


def test_foreign_items_become_one_block_in_front():
    items = parse_items(jsonio.elements(DETAILS))

    assert with_details(reply("openai-chat", Text("yes")), items) == reply(
        "openai-chat", Reasoning("hm", meta=ChatMeta("reasoning", details=DETAILS)), Text("yes")
    )


def test_items_of_own_dialect_become_native_blocks():
    signed = ReasoningText(format=ReasoningFormat.ANTHROPIC_CLAUDE_V1, text="hm", signature="sig")
    responses = parse_items(
        [
            {"type": "reasoning.summary", "id": "rs_1", "format": "openai-responses-v1", "summary": "hm"},
            {"type": "reasoning.encrypted", "id": "rs_1", "format": "openai-responses-v1", "data": "x"},
            {"type": "reasoning.encrypted", "id": "rs_2", "format": "openai-responses-v1", "data": "y"},
        ]
    )

    thinking = with_details(reply("anthropic-messages", Text("yes")), [signed, signed])
    assert thinking.blocks[:2] == (Reasoning("hm", meta=AnthropicMeta("sig")),) * 2
    assert with_details(reply("openai-responses", Text("yes")), responses).blocks[:2] == (
        Reasoning("hm", meta=OpenAiMeta("rs_1", "x")),
        Reasoning(meta=OpenAiMeta("rs_2", "y")),
    )


def test_gemini_signature_goes_to_the_call_with_its_id():
    item = ReasoningEncrypted(format=ReasoningFormat.GOOGLE_GEMINI_V1, id="c2", data="sig")
    calls = (ToolUse("c1", "look", "{}"), ToolUse("c2", "look", "{}"))

    signed = with_details(reply("gemini", *calls), [item])
    assert [block.meta for block in signed.blocks] == [None, GeminiMeta("sig")]


def test_items_of_a_changed_reply_are_not_lost():
    """Reasoning beyond the end is appended; a signature goes to its call, or to an empty block at the end."""
    call = ToolUse("c1", "look", "{}", meta=GeminiMeta("sig"))
    message = reply("gemini", Text("a"), Text("b", meta=GeminiMeta("sig0")), call, Text("d"), Reasoning("hm"))
    left = replace(without_details(message), blocks=(ToolUse("c1", "look", "{}"),))

    rebuilt = with_details(left, to_details(message))
    assert rebuilt.blocks == (call, Reasoning("hm"), Reasoning(meta=GeminiMeta("sig0")))


@pytest.mark.parametrize(
    "hint",
    ["odd", 5, {}, {"block_index": -1}, {"block_index": True}, {"signed_index": "x"}, {"block_index": 0, "text": 5}],
)
def test_invalid_hint_is_ignored(hint):
    items = parse_items([{"type": "reasoning.text", "text": "hm", HINT: hint}])
    rebuilt = with_details(reply("openai-chat", Text("yes")), items)

    assert rebuilt.blocks[0].text == "hm"
    assert rebuilt.blocks[1] == Text("yes")


# --- native codecs ----------------------------------------------------------------------------------------------------

NATIVE = {
    "content": (
        AnthropicReasoningCodec(),
        [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "text", "text": "let me see"},
            {"type": "redacted_thinking", "data": "blob"},
            {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
        ],
        lambda part: part["type"] not in ("thinking", "redacted_thinking"),
    ),
    "input": (
        ResponsesReasoningCodec(),
        [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "x"},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}"},
            {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "y", "status": None},
            {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]},
        ],
        lambda item: item["type"] != "reasoning",
    ),
}  # fmt: skip


@pytest.mark.parametrize("field", NATIVE)
def test_native_codec_restores_reasoning_blocks(field):
    codec, native, others = NATIVE[field]
    items = codec.parse_response(native)
    message = {"role": "assistant", field: [part for part in native if others(part)]}
    codec.write_assistant(message, items)

    assert message == {"role": "assistant", field: native}


def test_gemini_codec_restores_signatures_on_parts():
    """Calls without an id get none."""
    native = [
        {"text": "hm", "thought": True},
        {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "sig1"},
        {"functionCall": {"id": "c2", "name": "look", "args": {}}, "thoughtSignature": "sig2"},
        {"text": "", "thoughtSignature": "sig3"},
    ]
    codec = GeminiReasoningCodec()
    items = codec.parse_response(native)
    bare = [{name: v for name, v in part.items() if name != "thoughtSignature"} for part in native[1:]]
    message = {"role": "model", "parts": bare}
    codec.write_assistant(message, items)

    assert [item.carries_signed_payload() for item in items] == [False, True, True, True]
    assert message == {"role": "model", "parts": native}


@pytest.mark.parametrize("codec", [AnthropicReasoningCodec(), ResponsesReasoningCodec(), GeminiReasoningCodec()])
def test_native_codec_does_nothing_without_items_or_list(codec):
    item = ReasoningText(text="a")
    message = {"role": "assistant", "content": "yes"}
    codec.write_assistant(message, [item])
    codec.write_assistant("no message", [item])
    codec.write_assistant(message, [])

    assert message == {"role": "assistant", "content": "yes"}
    assert codec.parse_response(["noise", 5, None]) == []
