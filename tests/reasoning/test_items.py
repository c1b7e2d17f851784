"""Reasoning items: nothing of an array is lost, contracts, and the audit as it is specified and a little beyond."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

import strategies as say
from tenuto.core import jsonio
from tenuto.reasoning import (
    MissingSignaturesForStrictProvider,
    OpenRouterReasoningCodec,
    ReasoningEncrypted,
    ReasoningFormat,
    ReasoningOther,
    ReasoningServerToolCall,
    ReasoningSummary,
    ReasoningText,
    ReplayContract,
    audit_replay,
    contract_for,
    from_openrouter_value,
    parse_items,
)

CLAUDE, GEMINI = ReasoningFormat.ANTHROPIC_CLAUDE_V1, ReasoningFormat.GOOGLE_GEMINI_V1
OPENAI, XAI = ReasoningFormat.OPENAI_RESPONSES_V1, ReasoningFormat.XAI_RESPONSES_V1
STATELESS, WITH_TOOLS, ALWAYS = ReplayContract

details = st.fixed_dictionaries(
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
arrays = st.lists(details | say.json_values, max_size=4)


def spelt(values):
    """An array's elements as they may come, each in some spelling."""
    return [Raw(json.dumps(value).encode()) for value in values]


# --- nothing is lost --------------------------------------------------------------------------------------------------


@given(arrays)
def test_reading_and_writing_any_array_is_the_identity(values):
    """Unknown types and formats, explicit nulls, extra keys, what is no object: word for word, in order."""
    raw = spelt(values)

    assert [bytes(item.to_raw()) for item in parse_items(raw)] == [bytes(element) for element in raw]
    assert [item.to_openrouter_value() for item in parse_items(values)] == values


@given(arrays.filter(bool))
def test_whatever_came_goes_back_through_the_codec(values):
    """The typed view that leaves nothing out is what the codec writes."""
    message = {"role": "assistant"}
    OpenRouterReasoningCodec().write_assistant(message, parse_items(values))

    assert message == {"role": "assistant", "reasoning_details": values}


@given(arrays)
def test_the_specified_view_is_the_whole_one_without_what_nobody_knows(values):
    """Both ways of reading agree on everything that is known."""
    known = [item for item in parse_items(values) if not isinstance(item, ReasoningOther)]

    assert OpenRouterReasoningCodec().parse_response(values) == known


def test_an_element_of_an_unknown_type_says_what_it_can():
    """Its type, its format, its id; and what is no object at all says nothing."""
    dream, odd = parse_items([{"type": "reasoning.dream", "id": "d1", "format": "google-gemini-v1", "index": 2}, "odd"])

    assert isinstance(dream, ReasoningOther)
    assert (dream.kind, dream.id, dream.format, dream.index) == ("reasoning.dream", "d1", GEMINI, 2)
    assert not dream.carries_signed_payload()
    assert odd == ReasoningOther(raw='"odd"')


def test_numbers_beyond_all_bounds_do_not_stop_the_reading():
    """They are nobody's business, and stay as they were spelt."""
    raw = Raw(b'{"type":"reasoning.server_tool_call","tool_name":"t","result":1e999,"cost":-1e999}')
    (item,) = parse_items([raw])

    assert isinstance(item, ReasoningServerToolCall)
    assert item.result == "1e999"
    assert bytes(item.to_raw()) == bytes(raw)


def test_an_item_that_was_changed_is_written_with_its_change():
    """The new words, the new signature, and everything the object held beside them."""
    (item,) = parse_items([Raw(b'{"type":"reasoning.text","id":null,"text":"a","signature":"s","cost":1.10}')])

    changed = bytes(replace(item, text="b").to_raw())
    assert changed == b'{"type":"reasoning.text","id":null,"text":"b","signature":"s","cost":1.10}'
    unsigned = json.loads(bytes(replace(item, signature=None).to_raw()))
    assert unsigned == {"type": "reasoning.text", "id": None, "text": "a", "cost": 1.1}


# --- contracts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "override", "contract"),
    [
        ([], None, STATELESS),
        ([], WITH_TOOLS, WITH_TOOLS),
        ([XAI], None, STATELESS),
        ([XAI, CLAUDE], None, WITH_TOOLS),
        ([GEMINI], ALWAYS, ALWAYS),
        ([GEMINI], STATELESS, WITH_TOOLS),
        ([ReasoningText(text="a", format=OPENAI)], None, WITH_TOOLS),
        ([ReasoningOther(raw="{}")], None, STATELESS),
    ],
)
def test_the_strictest_demand_counts(held, override, contract):
    """What the formats demand, and what the model is known to demand."""
    assert contract_for(held, override) is contract


def test_a_model_that_did_not_think_breaks_no_contract():
    """The specified audit calls no items a violation under a contract that demands them; a contract that is taken from
    the items demands nothing where there are none.
    """
    specified = audit_replay([], WITH_TOOLS, next_turn_carries_tools=True)

    assert specified.violation == MissingSignaturesForStrictProvider(WITH_TOOLS, ())
    assert audit_replay([], contract_for([]), next_turn_carries_tools=True).violation is None
    assert audit_replay([], contract_for([], ALWAYS), next_turn_carries_tools=True).violation is not None


# --- the audit, as specified ------------------------------------------------------------------------------------------


def test_nothing_is_clean_where_nothing_is_demanded():
    """Specified: stateless with tools, and tools alone without tools."""
    stateless = audit_replay([], STATELESS, next_turn_carries_tools=True)

    assert (stateless.violation, stateless.signed_count, stateless.item_count) == (None, 0, 0)
    assert audit_replay([], WITH_TOOLS, next_turn_carries_tools=False).violation is None


def test_nothing_breaks_a_contract_that_always_demands():
    """Specified: without any item, and without tools."""
    audit = audit_replay([], ALWAYS, next_turn_carries_tools=False)

    assert isinstance(audit.violation, MissingSignaturesForStrictProvider)


def test_words_beside_a_seal_are_clean():
    """Specified: a readable summary of Gemini's and its signature."""
    items = [
        ReasoningText(format=GEMINI, index=0, text="summary"),
        ReasoningEncrypted(format=GEMINI, index=1, data="B"),
    ]
    audit = audit_replay(items, WITH_TOOLS, next_turn_carries_tools=True)

    assert (audit.violation, audit.signed_count, audit.item_count, audit.unsigned) == (None, 1, 2, ())


# --- one lost among many ----------------------------------------------------------------------------------------------


def lost(*items):
    return audit_replay(items, contract_for(items), next_turn_carries_tools=True).unsigned


def test_a_signature_that_is_lost_among_others_is_told_with_its_place():
    """The specified violation looks at none or some; here each item is looked at."""
    signed = ReasoningText(format=CLAUDE, text="a", signature="s")
    bare = ReasoningText(format=CLAUDE, text="b")

    assert lost(signed, bare, signed) == (1,)
    assert lost(bare, bare) == ()
    assert lost(signed, ReasoningText(format=XAI, text="b")) == ()
    assert lost(ReasoningEncrypted(format=CLAUDE, data="r"), bare) == ()


def test_a_summary_whose_seal_is_lost_is_told():
    """Items of Responses belong together by their id."""
    both = (
        ReasoningSummary(format=OPENAI, id="rs_1", summary="a"),
        ReasoningEncrypted(format=OPENAI, id="rs_1", data="x"),
    )
    alone = ReasoningSummary(format=OPENAI, id="rs_2", summary="b")

    assert lost(*both, alone) == (2,)
    assert lost(alone) == ()
    assert lost(*both, ReasoningSummary(format=OPENAI, summary="no id")) == ()


def test_from_openrouter_value_keeps_to_its_specification():
    """None for what is no object or of no known type, though `parse_items` reads it."""
    assert from_openrouter_value({"type": "reasoning.future_kind", "data": "..."}) is None
    assert jsonio.parse(parse_items([{"type": "reasoning.future_kind"}])[0].to_raw()) == {
        "type": "reasoning.future_kind"
    }
