"""Usage: field names of all hosts, disjoint buckets, consistent sums."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tenuto.core.messages import Usage
from tenuto.core.provider import ChatSwitches
from tenuto.wire.chat.protocol import USAGE_TABLE
from wire.chat.cases import assistant, body, whole


def read(fields: object, **options) -> tuple[Usage | None, list[str]]:
    usage, losses = USAGE_TABLE.read(Raw(json.dumps(fields).encode()), **options)
    return usage, [str(loss.location) for loss in losses]


BASE = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"input_tokens": 100, "output_tokens": 50}),
        (
            {"prompt_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 10}},
            {"input_tokens": 60, "cache_read_tokens": 30, "cache_write_tokens": 10, "output_tokens": 50},
        ),
        (
            {"prompt_token_details": {"cached_tokens": 30}},
            {"input_tokens": 70, "cache_read_tokens": 30, "output_tokens": 50},
        ),
        ({"prompt_cache_hit_tokens": 30}, {"input_tokens": 70, "cache_read_tokens": 30, "output_tokens": 50}),
        ({"num_cached_tokens": 30}, {"input_tokens": 70, "cache_read_tokens": 30, "output_tokens": 50}),
        ({"cached_tokens": 30}, {"input_tokens": 70, "cache_read_tokens": 30, "output_tokens": 50}),
        (
            {"completion_tokens_details": {"reasoning_tokens": 20}},
            {"input_tokens": 100, "output_tokens": 30, "reasoning_tokens": 20},
        ),
        ({"reasoning_tokens": 20}, {"input_tokens": 100, "output_tokens": 30, "reasoning_tokens": 20}),
        (
            {"prompt_tokens_details": None, "completion_tokens_details": None},
            {"input_tokens": 100, "output_tokens": 50},
        ),
        (
            {"prompt_tokens_details": {"audio_tokens": 5, "text_tokens": 90, "image_tokens": 5}},
            {
                "input_tokens": 100,
                "output_tokens": 50,
                "audio_input_tokens": 5,
                "input_by_modality": {"text": 90, "image": 5, "audio": 5},
            },
        ),
        (
            {"completion_tokens_details": {"audio_tokens": 7}},
            {"input_tokens": 100, "output_tokens": 50, "audio_output_tokens": 7, "output_by_modality": {"audio": 7}},
        ),
    ],
)
def test_usage_fields_of_all_hosts_are_read(fields, expected):
    assert read({**BASE, **fields}) == (Usage(reported_total=150, **expected), [])


def test_missing_usage_is_not_zero():
    assert read({}) == (Usage(), [])
    assert read({"prompt_tokens": "many", "completion_tokens": -5, "total_tokens": True})[0] == Usage()
    assert read({"prompt_tokens": 7.0})[0] == Usage(input_tokens=7)


def test_buckets_above_their_sum_are_reduced():
    usage, locations = read(
        {
            **BASE,
            "prompt_tokens_details": {"cached_tokens": 90, "cache_write_tokens": 20},
            "completion_tokens_details": {"reasoning_tokens": 51},
        }
    )

    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (0, 90, 10)
    assert (usage.output_tokens, usage.reasoning_tokens) == (0, 50)
    assert (usage.prompt_tokens, usage.completion_tokens) == (100, 50)
    assert locations == ["usage.cache_write_tokens", "usage.reasoning_tokens"]


def test_contradictory_usage_is_one_loss():
    data = body(assistant(), usage={**BASE, "completion_tokens_details": {"reasoning_tokens": 51}})

    assert [loss.kind for loss in whole(data).losses] == ["contradicting-usage"]


def test_reasoning_may_be_added_to_the_completion():
    fields = {**BASE, "completion_tokens_details": {"reasoning_tokens": 200}}

    assert read(fields, output_excludes_reasoning=True)[0].completion_tokens == 250
    data = body(assistant(), usage=fields)
    assert whole(data, ChatSwitches(output_excludes_reasoning=True)).usage.output_tokens == 50


def test_usage_that_is_not_an_object_is_a_loss():
    response = whole(body(assistant(), usage=[5]))

    assert response.usage is None
    assert [loss.kind for loss in response.losses] == ["unreadable-usage"]


SHARES = [
    "cached_tokens",
    "cache_write_tokens",
    "cache_creation_tokens",
    "reasoning_tokens",
    "audio_tokens",
    "text_tokens",
]
DETAILS = ["prompt_tokens_details", "prompt_token_details", "completion_tokens_details", "output_tokens_details"]
HELD = st.none() | st.integers(-1, 200)
COUNTS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys((*BASE, "prompt_cache_hit_tokens", "cached_tokens", "reasoning_tokens"), HELD)
    | {name: st.none() | st.dictionaries(st.sampled_from(SHARES), HELD) for name in DETAILS},
)


@given(COUNTS, st.booleans())
def test_unknown_usage_field_changes_no_count(counts, excludes):
    odd = {**counts, "odd": "x"}

    assert read(counts, output_excludes_reasoning=excludes) == read(odd, output_excludes_reasoning=excludes)
