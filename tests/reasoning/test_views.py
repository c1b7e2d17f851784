"""Any reply as `reasoning_details` and back, and the codecs of the dialects that attach tokens to places."""

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
from tenuto.core.messages import AssistantMessage, Origin
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
    return AssistantMessage(blocks, origin=Origin("somebody", dialect, "m"))


def shown(message, **options):
    """The items of a reply as plain objects, without hints."""
    found = [item.to_openrouter_value() for item in to_details(message, **options)]
    return [{name: value for name, value in item.items() if name != HINT} for item in found]


# --- there and back ---------------------------------------------------------------------------------------------------


@given(say.assistant_messages_of(say.broken_words))
def test_any_reply_is_what_its_items_make_of_what_is_left(message):
    """Places, tokens, extra fields, fields of a later version: as values, and as JSON text in between."""
    items, bare = to_details(message), without_details(message)
    text = jsonio.encode([item.to_raw() for item in items])

    assert not any(isinstance(block, Reasoning) or isinstance(block.meta, GeminiMeta) for block in bare.blocks)
    assert with_details(bare, items) == message
    assert with_details(bare, parse_items(jsonio.elements(text))) == message


@pytest.mark.parametrize("exchange", OWN, ids=lambda e: e.name)
def test_every_reply_of_ours_goes_there_and_back(exchange):
    """Replies as the decoders read them."""
    said = decode(exchange, target_for(exchange)).said
    for choice in said.choices if said is not None else ():
        assert with_details(without_details(choice.message), to_details(choice.message)) == choice.message


@pytest.mark.parametrize(
    "thought",
    [
        Reasoning("hm", extra='{"status":null}', unread='{"later":1}'),
        Reasoning("hm", meta=AnthropicMeta("sig", unread='{"later":1}')),
        Reasoning("hm", meta=ChatMeta("think"), extra='{"tag":"thinking"}'),
        Reasoning("other words", meta=ChatMeta("reasoning_content", details=DETAILS), extra='{"a":1}'),
        Reasoning("hm", meta=ChatMeta("reasoning", details=' [ {"type":"reasoning.text"} ] ')),
        Reasoning("hm", meta=ChatMeta("reasoning", details='["odd"]')),
        Reasoning("hm", meta=ChatMeta("reasoning", details="no array")),
        Reasoning("", meta=OpenAiMeta()),
        Reasoning("hm", meta=OpaqueMeta('{"provider":"later","token":1}')),
        Reasoning("hm", meta=ChatMeta("reasoning", details='[{"x-tenuto":{"stood":5}}]')),
    ],
    ids=repr,
)
def test_what_an_item_has_no_word_for_comes_back(thought):
    """Wherever the thought stands, and beside another like it."""
    for blocks in ((thought,), (Text("a"), thought), (thought, Text("a"), thought)):
        message = reply("openai-chat", *blocks)
        assert with_details(without_details(message), to_details(message)) == message


def test_a_reply_without_reasoning_stays_what_it_is():
    """The very same value, and no items."""
    message = reply("openai-chat", Text("yes"))

    assert to_details(message) == []
    assert without_details(message) is message


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_signed_and_redacted_thinking():
    """Anthropic's signature belongs to its text; what is redacted is encrypted."""
    message = reply(
        "anthropic-messages",
        Reasoning("hm", meta=AnthropicMeta("sig")),
        Reasoning(meta=AnthropicRedactedMeta("blob")),
        Text("yes"),
    )

    assert shown(message) == [
        {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, "text": "hm", "signature": "sig"},
        {"type": "reasoning.encrypted", "format": "anthropic-claude-v1", "index": 1, "data": "blob"},
    ]


def test_a_reasoning_item_is_a_summary_and_its_seal():
    """Both carry its id; whose format it is can be said where it is another vendor's endpoint."""
    message = reply("openai-responses", Reasoning("hm", meta=OpenAiMeta("rs_1", "sealed")), Text("yes"))
    azure = ReasoningFormat.AZURE_OPENAI_RESPONSES_V1

    assert shown(message) == [
        {"type": "reasoning.summary", "id": "rs_1", "format": "openai-responses-v1", "index": 0, "summary": "hm"},
        {"type": "reasoning.encrypted", "id": "rs_1", "format": "openai-responses-v1", "index": 0, "data": "sealed"},
    ]
    assert {item["format"] for item in shown(message, format=azure)} == {azure.value}
    assert with_details(without_details(message), to_details(message, format=azure)) == message


def test_signatures_on_parts_name_their_call_and_their_place():
    """Gemini signs calls and texts; each signature is an item of its own."""
    call = ToolUse("call_1", "look", "{}", meta=GeminiMeta("sig1"))
    message = reply("gemini", Reasoning("hm"), Text("so", meta=GeminiMeta("sig0")), call)

    assert shown(message) == [
        {"type": "reasoning.text", "format": "google-gemini-v1", "index": 0, "text": "hm"},
        {"type": "reasoning.encrypted", "format": "google-gemini-v1", "index": 1, "data": "sig0"},
        {"type": "reasoning.encrypted", "id": "call_1", "format": "google-gemini-v1", "index": 2, "data": "sig1"},
    ]
    assert [item.to_openrouter_value()[HINT] for item in to_details(message)] == [{"stood": 0}, {"on": 1}, {"on": 2}]


def test_what_came_as_details_is_shown_word_for_word():
    """Not a byte is added where they stand where arrays stand."""
    message = reply("openai-chat", Reasoning("hm", meta=ChatMeta("reasoning", details=DETAILS)), Text("yes"))

    assert [bytes(item.to_raw()).decode() for item in to_details(message)] == [DETAILS[1:-1]]
    late = replace(message, blocks=message.blocks[::-1])
    assert shown(late) == json.loads(DETAILS)
    assert with_details(without_details(late), to_details(late)) == late


# --- items from elsewhere ---------------------------------------------------------------------------------------------


def test_an_array_from_elsewhere_becomes_one_thought_in_front():
    """As if it had been received."""
    items = parse_items(jsonio.elements(DETAILS))

    assert with_details(reply("openai-chat", Text("yes")), items) == reply(
        "openai-chat", Reasoning("hm", meta=ChatMeta("reasoning", details=DETAILS)), Text("yes")
    )


def test_an_array_of_the_replys_own_dialect_becomes_its_own_thoughts():
    """The tokens go where that dialect attaches them."""
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


def test_a_signature_from_elsewhere_goes_to_the_call_it_names():
    """The id of an encrypted item of Gemini's is the call's."""
    item = ReasoningEncrypted(format=ReasoningFormat.GOOGLE_GEMINI_V1, id="c2", data="sig")
    calls = (ToolUse("c1", "look", "{}"), ToolUse("c2", "look", "{}"))

    signed = with_details(reply("gemini", *calls), [item])
    assert [block.meta for block in signed.blocks] == [None, GeminiMeta("sig")]


def test_nothing_is_lost_where_the_reply_changed_meanwhile():
    """A thought whose place is gone stands at the end; a signature finds its call, or stands alone."""
    call = ToolUse("c1", "look", "{}", meta=GeminiMeta("sig"))
    message = reply("gemini", Text("a"), Text("b", meta=GeminiMeta("sig0")), call, Text("d"), Reasoning("hm"))
    left = replace(without_details(message), blocks=(ToolUse("c1", "look", "{}"),))

    found = with_details(left, to_details(message))
    assert found.blocks == (call, Reasoning("hm"), Reasoning(meta=GeminiMeta("sig0")))


@pytest.mark.parametrize("hint", ["odd", 5, {}, {"stood": -1}, {"stood": True}, {"on": "x"}, {"stood": 0, "text": 5}])
def test_a_hint_that_is_not_ours_is_no_hint(hint):
    """Anyone may use the name; nothing is taken on trust, and nothing raises."""
    items = parse_items([{"type": "reasoning.text", "text": "hm", HINT: hint}])
    found = with_details(reply("openai-chat", Text("yes")), items)

    assert found.blocks[0].text == "hm"
    assert found.blocks[1] == Text("yes")


# --- codecs that attach to places -------------------------------------------------------------------------------------

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
def test_thoughts_go_back_before_what_followed_them(field):
    """From the native list to items, and into a message that was left without them."""
    codec, native, others = NATIVE[field]
    items = codec.parse_response(native)
    message = {"role": "assistant", field: [part for part in native if others(part)]}
    codec.write_assistant(message, items)

    assert message == {"role": "assistant", field: native}


def test_a_signature_goes_back_to_its_part():
    """Gemini refuses one that stands elsewhere; ids that nobody gave are not made up."""
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
def test_a_native_codec_leaves_alone_what_it_cannot_write(codec):
    """No items, no object, no list."""
    item = ReasoningText(text="a")
    message = {"role": "assistant", "content": "yes"}
    codec.write_assistant(message, [item])
    codec.write_assistant("no message", [item])
    codec.write_assistant(message, [])

    assert message == {"role": "assistant", "content": "yes"}
    assert codec.parse_response(["noise", 5, None]) == []
