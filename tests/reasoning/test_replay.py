"""Replay contracts and `audit_replay`."""

from __future__ import annotations

import pytest

from tenuto.reasoning import (
    MissingSignaturesForStrictProvider,
    ReasoningEncrypted,
    ReasoningFormat,
    ReasoningOther,
    ReasoningSummary,
    ReasoningText,
    ReplayContract,
    audit_replay,
    contract_for,
)

CLAUDE, GEMINI = ReasoningFormat.ANTHROPIC_CLAUDE_V1, ReasoningFormat.GOOGLE_GEMINI_V1
OPENAI, XAI = ReasoningFormat.OPENAI_RESPONSES_V1, ReasoningFormat.XAI_RESPONSES_V1
STATELESS, WITH_TOOLS, ALWAYS = ReplayContract
UNSIGNED = ReasoningText(text="a", format=CLAUDE)
SIGNED = ReasoningEncrypted(data="d", format=GEMINI)


# --- contracts --------------------------------------------------------------------------------------------------------


def test_format_has_its_contract():
    stateless = {format.value for format in ReasoningFormat if format.replay_contract() is STATELESS}

    assert stateless == {"xai-responses-v1", "bedrock-xai-responses-v1", "unknown"}
    assert {format.replay_contract() for format in ReasoningFormat} == {STATELESS, WITH_TOOLS}


@pytest.mark.parametrize(
    ("items", "override", "contract"),
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
def test_strictest_contract_wins(items, override, contract):
    assert contract_for(items, override) is contract


def test_contract_is_stateless_without_items():
    """The specified audit reports an empty list under a strict contract; a contract from an empty list is not strict."""
    assert audit_replay([], WITH_TOOLS, True).violation == MissingSignaturesForStrictProvider(WITH_TOOLS, ())
    assert audit_replay([], contract_for([]), True).violation is None
    assert audit_replay([], contract_for([], ALWAYS), True).violation is not None


# --- the audit --------------------------------------------------------------------------------------------------------


def test_stateless_contract_is_never_violated():
    audit = audit_replay([], STATELESS, True)

    assert (audit.violation, audit.signed_count, audit.item_count) == (None, 0, 0)
    assert audit_replay([UNSIGNED], STATELESS, True).violation is None


def test_contract_with_tools_needs_nothing_without_tools():
    audit = audit_replay([UNSIGNED], WITH_TOOLS, False)

    assert (audit.violation, audit.item_count, audit.signed_count) == (None, 1, 0)
    assert audit_replay([], WITH_TOOLS, next_turn_carries_tools=False).violation is None


def test_missing_signatures_are_reported():
    items = [UNSIGNED, ReasoningSummary(summary="s", format=OPENAI), UNSIGNED]
    audit = audit_replay(items, WITH_TOOLS, True)

    assert audit.formats == (CLAUDE, OPENAI)
    assert audit.violation == MissingSignaturesForStrictProvider(WITH_TOOLS, (CLAUDE, OPENAI))


def test_one_signed_item_satisfies_the_contract():
    items = [ReasoningText(format=GEMINI, index=0, text="s"), ReasoningEncrypted(format=GEMINI, index=1, data="B")]
    audit = audit_replay(items, WITH_TOOLS, True)

    assert (audit.violation, audit.signed_count, audit.item_count, audit.unsigned) == (None, 1, 2, ())
    assert audit_replay([UNSIGNED, SIGNED], WITH_TOOLS, True).violation is None


def test_always_required_applies_without_tools():
    assert audit_replay([UNSIGNED], ALWAYS, False).violation is not None
    assert isinstance(audit_replay([], ALWAYS, False).violation, MissingSignaturesForStrictProvider)


# --- one missing signature among others -------------------------------------------------------------------------------


def unsigned(*items):
    return audit_replay(items, contract_for(items), True).unsigned


def test_audit_lists_unsigned_item_among_signed():
    signed = ReasoningText(format=CLAUDE, text="a", signature="s")
    bare = ReasoningText(format=CLAUDE, text="b")

    assert unsigned(signed, bare, signed) == (1,)
    assert unsigned(bare, bare) == ()
    assert unsigned(signed, ReasoningText(format=XAI, text="b")) == ()
    assert unsigned(ReasoningEncrypted(format=CLAUDE, data="r"), bare) == ()


def test_audit_lists_summary_without_its_encrypted_item():
    """Responses items belong together by id."""
    pair = (
        ReasoningSummary(format=OPENAI, id="rs_1", summary="a"),
        ReasoningEncrypted(format=OPENAI, id="rs_1", data="x"),
    )
    alone = ReasoningSummary(format=OPENAI, id="rs_2", summary="b")

    assert unsigned(*pair, alone) == (2,)
    assert unsigned(alone) == ()
    assert unsigned(*pair, ReasoningSummary(format=OPENAI, summary="no id")) == ()
