"""Decode usage: disjoint buckets and the provider's own object."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.core.messages import Usage
from wire.gemini.cases import USAGE, chunk, text
from wire.gemini.decode_helpers import stream, whole


def decode_usage(**counts: object):
    return whole(chunk(text("Hi"), reason="STOP", usageMetadata=counts))


def test_usage_buckets_do_not_overlap():
    """The prompt count includes the cache and excludes tool-use tokens; the answer count excludes thoughts."""
    response = decode_usage(**USAGE)

    assert response.usage == Usage(
        input_tokens=20 - 8 + 5,
        cache_read_tokens=8,
        output_tokens=7,
        reasoning_tokens=10,
        reported_total=42,
        audio_input_tokens=4,
        input_by_modality={"TEXT": 16, "AUDIO": 4},
        output_by_modality={"TEXT": 7},
    )
    assert response.usage.prompt_tokens + response.usage.completion_tokens == response.usage.total_tokens
    assert json.loads(response.raw_usage) == USAGE


def test_last_usage_with_total_counts():
    """Some chunks have only the traffic type."""
    traffic, counts = {"trafficType": "X"}, {"totalTokenCount": 3, "promptTokenCount": 2}
    chunks = [traffic, {"totalTokenCount": 2}, counts, traffic]
    response = stream(*(chunk(text("a"), usageMetadata=u) for u in chunks), chunk(reason="STOP", usageMetadata=traffic))

    assert (json.loads(response.raw_usage), response.usage.total_tokens) == (counts, 3)


def test_last_usage_counts_without_total():
    response = stream(
        chunk(text("a"), usageMetadata={"x": 1}), chunk(reason="STOP", usageMetadata={"trafficType": "X"})
    )

    assert (response.raw_usage, response.usage) == ('{"trafficType":"X"}', None)


def test_usage_is_none_when_missing():
    response = whole(chunk(text("Hi"), reason="STOP"))

    assert (response.raw_usage, response.usage) == ("", None)


def test_contradicting_counts_are_clamped_with_loss():
    response = decode_usage(promptTokenCount=3, cachedContentTokenCount=5)

    assert (response.usage.input_tokens, response.usage.cache_read_tokens) == (0, 3)
    assert [loss.kind for loss in response.losses] == ["contradicting-usage"]


@pytest.mark.parametrize("odd", [None, "many", -1, 1.5, True, [3], "9" * 30])
def test_invalid_count_is_ignored(odd):
    assert decode_usage(promptTokenCount=odd, candidatesTokenCount="12").usage == Usage(output_tokens=12)


def test_modalities_may_be_numbers():
    response = decode_usage(
        promptTokensDetails=[{"modality": 1, "tokenCount": 3}, {"modality": 4}, {"modality": 77}, 5]
    )

    assert response.usage.input_by_modality == {"TEXT": 3, "AUDIO": 0, "77": 0}


def test_tool_use_tokens_count_as_input():
    assert decode_usage(toolUsePromptTokenCount=4, cachedContentTokenCount=2).usage.input_tokens == 4


def test_null_usage_is_ignored():
    counts = {"promptTokenCount": 2}
    last = chunk(text("a"), reason="STOP", usageMetadata=None)

    assert stream(last).usage is None
    assert whole(last).usage is None
    assert stream(chunk(text("a"), usageMetadata=counts), last).usage == Usage(input_tokens=2)


SHARES = st.lists(
    st.fixed_dictionaries({"modality": st.sampled_from(["TEXT", "AUDIO"]), "tokenCount": st.integers(0, 9)})
)
COUNTS = st.fixed_dictionaries(
    {}, optional={name: st.integers(0, 9) if name.endswith("Count") else SHARES for name in USAGE}
)


@given(COUNTS)
def test_unknown_usage_field_changes_no_count(counts):
    assert decode_usage(**counts).usage == decode_usage(**counts, odd=1).usage
