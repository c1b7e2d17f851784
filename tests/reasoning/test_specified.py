"""`reasoning_details`: a typed view, a raw array that is never re-spelt, and fragments that find each other."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from tenuto.reasoning import (
    MissingSignaturesForStrictProvider,
    OpenRouterReasoningCodec,
    ReasoningEncrypted,
    ReasoningFormat,
    ReasoningServerToolCall,
    ReasoningSummary,
    ReasoningText,
    ReplayContract,
    audit_replay,
    from_openrouter_value,
)

WIRE = {
    ReasoningFormat.ANTHROPIC_CLAUDE_V1: "anthropic-claude-v1",
    ReasoningFormat.GOOGLE_GEMINI_V1: "google-gemini-v1",
    ReasoningFormat.OPENAI_RESPONSES_V1: "openai-responses-v1",
    ReasoningFormat.AZURE_OPENAI_RESPONSES_V1: "azure-openai-responses-v1",
    ReasoningFormat.BEDROCK_OPENAI_RESPONSES_V1: "bedrock-openai-responses-v1",
    ReasoningFormat.META_RESPONSES_V1: "meta-responses-v1",
    ReasoningFormat.XAI_RESPONSES_V1: "xai-responses-v1",
    ReasoningFormat.BEDROCK_XAI_RESPONSES_V1: "bedrock-xai-responses-v1",
    ReasoningFormat.UNKNOWN: "unknown",
}
TEXT = {
    "type": "reasoning.text",
    "id": "r1",
    "format": "anthropic-claude-v1",
    "index": 0,
    "text": "Look.",
    "signature": "Er=",
}
SUMMARY = {"type": "reasoning.summary", "format": "openai-responses-v1", "index": 1, "summary": "It looked."}
ENCRYPTED = {
    "type": "reasoning.encrypted",
    "id": "call_1",
    "format": "google-gemini-v1",
    "index": 2,
    "data": "CiQB+/==",
}
TOOL = {
    "type": "reasoning.server_tool_call",
    "format": "xai-responses-v1",
    "index": 3,
    "tool_name": "search",
    "arguments": '{"q":1}',
    "result": {"n": 1},
    "tool_call_id": "t1",
}


# --- formats and items ------------------------------------------------------------------------------------------------


def test_every_format_has_its_word_and_comes_back_from_it():
    assert set(WIRE) == set(ReasoningFormat)
    for format, word in WIRE.items():
        assert format.as_wire() == word
        assert ReasoningFormat.from_wire(word) is format


@pytest.mark.parametrize("word", ["something-v9", "", None, 5])
def test_a_format_nobody_knows_is_unknown(word):
    assert ReasoningFormat.from_wire(word) is ReasoningFormat.UNKNOWN


def test_contracts_belong_to_formats():
    strict = {f for f in ReasoningFormat if f.replay_contract is ReplayContract.REQUIRED_WITH_TOOLS}

    assert {f.value for f in ReasoningFormat if f not in strict} == {
        "xai-responses-v1",
        "bedrock-xai-responses-v1",
        "unknown",
    }
    assert all(f.replay_contract is not ReplayContract.ALWAYS_REQUIRED for f in ReasoningFormat)


def test_text_goes_there_and_back():
    item = from_openrouter_value(TEXT)

    assert isinstance(item, ReasoningText)
    assert (item.id, item.format, item.index) == ("r1", ReasoningFormat.ANTHROPIC_CLAUDE_V1, 0)
    assert (item.text, item.signature, item.carries_signed_payload()) == ("Look.", "Er=", True)
    assert item.to_openrouter_value() == TEXT


def test_encrypted_goes_there_and_back_and_counts_as_signed():
    item = from_openrouter_value(ENCRYPTED)

    assert isinstance(item, ReasoningEncrypted)
    assert (item.data, item.format, item.carries_signed_payload()) == (
        "CiQB+/==",
        ReasoningFormat.GOOGLE_GEMINI_V1,
        True,
    )
    assert item.to_openrouter_value() == ENCRYPTED


def test_summary_goes_there_and_back_and_is_not_signed():
    item = from_openrouter_value(SUMMARY)

    assert isinstance(item, ReasoningSummary)
    assert (item.summary, item.id, item.carries_signed_payload()) == ("It looked.", None, False)
    assert item.to_openrouter_value() == SUMMARY


def test_a_server_tool_call_goes_there_and_back():
    item = from_openrouter_value(TOOL)

    assert isinstance(item, ReasoningServerToolCall)
    assert (item.tool_name, item.arguments, item.result, item.tool_call_id) == ("search", '{"q":1}', {"n": 1}, "t1")
    assert not item.carries_signed_payload()
    assert item.to_openrouter_value() == TOOL


def test_text_without_a_signature_is_not_signed():
    assert not ReasoningText(text="a").carries_signed_payload()
    assert ReasoningText(text="a", signature="s").carries_signed_payload()


@pytest.mark.parametrize("value", [None, "text", 5, [TEXT], {}, {"type": "reasoning.hologram"}, {"type": 7}])
def test_what_is_no_known_item_is_none(value):
    assert from_openrouter_value(value) is None


def test_missing_fields_have_their_defaults():
    item = from_openrouter_value({"type": "reasoning.text", "id": None, "index": -1})

    assert item == ReasoningText(raw='{"type":"reasoning.text","id":null,"index":-1}')


@pytest.mark.parametrize(
    "raw",
    [
        b'{"type":"reasoning.text","id":null,"format":"brand-new-v3","index":0,"text":"a","cost":1.10}',
        b'{"type":"reasoning.encrypted","format":null,"data":"x","extra":{"b":1e2}}',
        b'{"type":"reasoning.summary"}',
    ],
)
def test_reading_and_writing_is_the_identity_whatever_the_object_holds(raw):
    item = from_openrouter_value(Raw(raw))

    assert item is not None
    assert bytes(item.to_raw()) == raw
    assert item.to_openrouter_value() == json.loads(raw)


def test_an_item_made_by_hand_is_written_in_the_order_of_the_wire():
    item = ReasoningText(text="a", signature="s", id="i", index=2, format=ReasoningFormat.ANTHROPIC_CLAUDE_V1)

    assert list(item.to_openrouter_value()) == ["type", "id", "format", "index", "text", "signature"]
    assert list(ReasoningEncrypted(data="d").to_openrouter_value()) == ["type", "format", "data"]
    assert (
        bytes(ReasoningSummary(summary="s").to_raw())
        == b'{"type":"reasoning.summary","format":"unknown","summary":"s"}'
    )
    assert "tool_call_id" not in ReasoningServerToolCall(tool_name="t").to_openrouter_value()


# --- the codec --------------------------------------------------------------------------------------------------------


def test_codec_reads_what_it_knows_and_writes_it_back_in_order():
    codec = OpenRouterReasoningCodec()
    items = codec.parse_response([ENCRYPTED, {"type": "noise"}, "noise", TEXT, SUMMARY])
    message: dict = {"role": "assistant"}

    codec.write_assistant(message, items)

    assert [item.index for item in items] == [2, 0, 1]
    assert message == {"role": "assistant", "reasoning_details": [ENCRYPTED, TEXT, SUMMARY]}


def test_codec_leaves_a_message_alone_when_there_is_nothing_to_write():
    message: dict = {"role": "assistant"}

    OpenRouterReasoningCodec().write_assistant(message, [])
    OpenRouterReasoningCodec().write_assistant("no message", [ReasoningText(text="a")])

    assert message == {"role": "assistant"}


# --- the audit --------------------------------------------------------------------------------------------------------

UNSIGNED = ReasoningText(text="a", format=ReasoningFormat.ANTHROPIC_CLAUDE_V1)
SIGNED = ReasoningEncrypted(data="d", format=ReasoningFormat.GOOGLE_GEMINI_V1)


def test_a_stateless_vendor_wants_nothing():
    audit = audit_replay([UNSIGNED], ReplayContract.STATELESS, next_turn_carries_tools=True)

    assert audit.violation is None


def test_without_tools_nothing_is_demanded():
    audit = audit_replay([UNSIGNED], ReplayContract.REQUIRED_WITH_TOOLS, next_turn_carries_tools=False)

    assert (audit.violation, audit.item_count, audit.signed_count) == (None, 1, 0)


def test_missing_signatures_are_named_with_contract_and_formats():
    items = [UNSIGNED, ReasoningSummary(summary="s", format=ReasoningFormat.OPENAI_RESPONSES_V1), UNSIGNED]
    audit = audit_replay(items, ReplayContract.REQUIRED_WITH_TOOLS, next_turn_carries_tools=True)
    formats = (ReasoningFormat.ANTHROPIC_CLAUDE_V1, ReasoningFormat.OPENAI_RESPONSES_V1)

    assert audit.formats == formats
    assert audit.violation == MissingSignaturesForStrictProvider(ReplayContract.REQUIRED_WITH_TOOLS, formats)


def test_one_signed_item_is_enough():
    audit = audit_replay([UNSIGNED, SIGNED], ReplayContract.REQUIRED_WITH_TOOLS, next_turn_carries_tools=True)

    assert (audit.violation, audit.signed_count, audit.item_count) == (None, 1, 2)


def test_always_means_without_tools_too():
    audit = audit_replay([UNSIGNED], ReplayContract.ALWAYS_REQUIRED, next_turn_carries_tools=False)

    assert audit.violation is not None
