"""Reasoning items: formats, reading, writing, and the codec."""

from __future__ import annotations

import copy
import json
import pickle

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

import strategies as say
from tenuto.reasoning import (
    OpenRouterReasoningCodec,
    ReasoningEncrypted,
    ReasoningFormat,
    ReasoningItem,
    ReasoningOther,
    ReasoningServerToolCall,
    ReasoningSummary,
    ReasoningText,
    from_openrouter_value,
    parse_items,
)

WIRE_NAMES = {
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
    "type": "reasoning.text", "id": "r1", "format": "anthropic-claude-v1", "index": 0, "text": "Look.", "signature": "Er=",
}  # fmt: skip
SUMMARY = {"type": "reasoning.summary", "format": "openai-responses-v1", "index": 1, "summary": "It looked."}
ENCRYPTED = {
    "type": "reasoning.encrypted", "id": "call_1", "format": "google-gemini-v1", "index": 2, "data": "CiQB+/==",
}  # fmt: skip
TOOL = {
    "type": "reasoning.server_tool_call", "format": "xai-responses-v1", "index": 3,
    "tool_name": "search", "arguments": '{"q":1}', "result": {"n": 1}, "tool_call_id": "t1",
}  # fmt: skip
ARRAYS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(("reasoning.text", "reasoning.summary", "reasoning.encrypted", "reasoning.dream"))},
        optional={
            "id": st.none() | say.words,
            "format": st.none() | st.sampled_from(("anthropic-claude-v1", "brand-new-v3")),
            "index": st.none() | st.integers(-1, 5),
            "text": st.none() | say.words,
            "summary": say.words | st.integers(),
            "data": say.tokens,
            "signature": st.none() | say.tokens,
            "extra": say.json_values,
        },
    )
    | say.json_values,
    max_size=4,
)


# --- formats ----------------------------------------------------------------------------------------------------------


def test_format_round_trips_through_its_wire_name():
    assert set(WIRE_NAMES) == set(ReasoningFormat)
    for format, name in WIRE_NAMES.items():
        assert format.as_wire() == name
        assert ReasoningFormat.from_wire(name) is format


@pytest.mark.parametrize("name", ["something-v9", "", None, 5])
def test_unknown_format_name_is_unknown(name):
    assert ReasoningFormat.from_wire(name) is ReasoningFormat.UNKNOWN


def test_msgspec_decodes_unknown_format_as_unknown():
    item = msgspec.json.decode(b'{"type":"reasoning.text","format":"something-v9","text":"a"}', type=ReasoningItem)

    assert item == ReasoningText(text="a")


# --- items ------------------------------------------------------------------------------------------------------------


def test_text_item_round_trips():
    item = from_openrouter_value(TEXT)

    assert isinstance(item, ReasoningText)
    assert (item.id, item.format, item.index) == ("r1", ReasoningFormat.ANTHROPIC_CLAUDE_V1, 0)
    assert (item.text, item.signature, item.carries_signed_payload()) == ("Look.", "Er=", True)
    assert item.to_openrouter_value() == TEXT


def test_encrypted_item_round_trips_and_is_signed():
    item = from_openrouter_value(ENCRYPTED)

    assert isinstance(item, ReasoningEncrypted)
    assert (item.data, item.format) == ("CiQB+/==", ReasoningFormat.GOOGLE_GEMINI_V1)
    assert item.carries_signed_payload()
    assert item.to_openrouter_value() == ENCRYPTED


def test_summary_item_round_trips_and_is_unsigned():
    item = from_openrouter_value(SUMMARY)

    assert isinstance(item, ReasoningSummary)
    assert (item.summary, item.id, item.carries_signed_payload()) == ("It looked.", None, False)
    assert item.to_openrouter_value() == SUMMARY


def test_server_tool_call_item_round_trips():
    item = from_openrouter_value(TOOL)

    assert isinstance(item, ReasoningServerToolCall)
    assert (item.tool_name, item.arguments, item.result, item.tool_call_id) == ("search", '{"q":1}', {"n": 1}, "t1")
    assert not item.carries_signed_payload()
    assert item.to_openrouter_value() == TOOL


def test_text_is_signed_only_with_a_signature():
    assert not ReasoningText(text="a").carries_signed_payload()
    assert ReasoningText(text="a", signature="s").carries_signed_payload()


@pytest.mark.parametrize("value", [None, "text", 5, [TEXT], {}, {"type": "reasoning.hologram"}, {"type": 7}])
def test_unknown_element_is_none(value):
    assert from_openrouter_value(value) is None


def test_missing_fields_have_their_defaults():
    item = from_openrouter_value({"type": "reasoning.text", "id": None, "index": -1})

    assert item == ReasoningText()
    assert item.raw == '{"type":"reasoning.text","id":null,"index":-1}'


def test_item_made_by_hand_has_its_keys_in_wire_order():
    item = ReasoningText(text="a", signature="s", id="i", index=2, format=ReasoningFormat.ANTHROPIC_CLAUDE_V1)
    summary = bytes(ReasoningSummary(summary="s").to_raw())

    assert list(item.to_openrouter_value()) == ["type", "id", "format", "index", "text", "signature"]
    assert list(ReasoningEncrypted(data="d").to_openrouter_value()) == ["type", "format", "data"]
    assert summary == b'{"type":"reasoning.summary","format":"unknown","summary":"s"}'
    assert "tool_call_id" not in ReasoningServerToolCall(tool_name="t").to_openrouter_value()


@pytest.mark.parametrize("value", [TEXT, SUMMARY, ENCRYPTED, TOOL])
def test_msgspec_writes_an_item_as_its_object(value):
    """Without a `raw` key: the object is not written twice."""
    assert msgspec.to_builtins(from_openrouter_value({**value, "cost": 1})) == value


# --- nothing is lost --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        b'{"type":"reasoning.text","id":null,"format":"brand-new-v3","index":0,"text":"a","cost":1.10}',
        b'{"type":"reasoning.encrypted","format":null,"data":"x","extra":{"b":1e2}}',
        b'{"type":"reasoning.summary"}',
    ],
)
def test_item_round_trip_is_identity(raw):
    item = from_openrouter_value(Raw(raw))

    assert item is not None
    assert bytes(item.to_raw()) == raw
    assert item.to_openrouter_value() == json.loads(raw)


@given(ARRAYS)
def test_array_round_trip_is_identity(values):
    """Unknown types and formats, explicit nulls, extra keys, elements that are not objects."""
    raw = [Raw(json.dumps(value).encode()) for value in values]

    assert [bytes(item.to_raw()) for item in parse_items(raw)] == [bytes(element) for element in raw]
    assert [item.to_openrouter_value() for item in parse_items(values)] == values


def test_unknown_element_has_its_type_and_id():
    dream, odd = parse_items([{"type": "reasoning.dream", "id": "d1", "format": "google-gemini-v1", "index": 2}, "odd"])

    assert isinstance(dream, ReasoningOther)
    assert (dream.kind, dream.id, dream.index) == ("reasoning.dream", "d1", 2)
    assert dream.format is ReasoningFormat.GOOGLE_GEMINI_V1
    assert not dream.carries_signed_payload()
    assert odd == ReasoningOther(raw='"odd"')


def test_number_out_of_range_is_its_text():
    raw = Raw(b'{"type":"reasoning.server_tool_call","tool_name":"t","result":1e999,"cost":-1e999}')
    (item,) = parse_items([raw])

    assert isinstance(item, ReasoningServerToolCall)
    assert item.result == "1e999"
    assert bytes(item.to_raw()) == bytes(raw)


def test_changed_item_keeps_unknown_fields():
    (item,) = parse_items([Raw(b'{"type":"reasoning.text","id":null,"text":"a","signature":"s","cost":1.10}')])

    changed = bytes(item.replace(text="b").to_raw())
    assert changed == b'{"type":"reasoning.text","id":null,"text":"b","signature":"s","cost":1.10}'
    unsigned = item.replace(signature=None).to_openrouter_value()
    assert unsigned == {"type": "reasoning.text", "id": None, "text": "a", "cost": 1.1}


@pytest.mark.parametrize("value", [{**TEXT, "cost": 1}, {"type": "reasoning.dream"}, "odd"])
def test_copies_of_an_item_keep_its_object(value):
    (item,) = parse_items([value])

    for twin in (copy.copy(item), copy.deepcopy(item), pickle.loads(pickle.dumps(item))):
        assert twin == item
        assert twin.to_openrouter_value() == value


# --- the codec --------------------------------------------------------------------------------------------------------


def test_codec_reads_known_items_and_writes_them_in_order():
    codec = OpenRouterReasoningCodec()
    items = codec.parse_response([ENCRYPTED, {"type": "noise"}, "noise", TEXT, SUMMARY])
    message: dict = {"role": "assistant"}

    codec.write_assistant(message, items)

    assert [item.index for item in items] == [2, 0, 1]
    assert message == {"role": "assistant", "reasoning_details": [ENCRYPTED, TEXT, SUMMARY]}


def test_codec_does_nothing_without_items_or_object():
    message: dict = {"role": "assistant"}

    OpenRouterReasoningCodec().write_assistant(message, [])
    OpenRouterReasoningCodec().write_assistant("no message", [ReasoningText(text="a")])

    assert message == {"role": "assistant"}


@given(ARRAYS.filter(bool))
def test_codec_writes_unknown_elements_of_parse_items(values):
    message = {"role": "assistant"}
    OpenRouterReasoningCodec().write_assistant(message, parse_items(values))

    assert message == {"role": "assistant", "reasoning_details": values}


@given(ARRAYS)
def test_codec_and_parse_items_agree_on_known_items(values):
    known_items = [item for item in parse_items(values) if not isinstance(item, ReasoningOther)]

    assert OpenRouterReasoningCodec().parse_response(values) == known_items
