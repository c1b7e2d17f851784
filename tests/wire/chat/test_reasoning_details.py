"""`DetailsMerger`: streamed fragments of `reasoning_details` become the array that is sent back."""

from __future__ import annotations

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

import strategies as say
from tenuto.wire.chat.content_parts import DetailsMerger

ITEMS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(("reasoning.text", "reasoning.summary", "reasoning.encrypted", "reasoning.dream")),
        "index": st.integers(0, 5),
    },
    optional={
        "id": st.none() | say.words,
        "format": st.none() | st.sampled_from(("anthropic-claude-v1", "brand-new-v3")),
        "text": st.none() | say.words,
        "summary": say.words | st.integers(),
        "data": say.tokens,
        "signature": st.none() | say.tokens,
        "extra": say.json_values,
    },
)


def merge(*frames: list) -> tuple[list, str]:
    merger = DetailsMerger()
    texts = [merger.add([Raw(json.dumps(item).encode()) for item in frame]) for frame in frames]
    return json.loads(merger.raw()), "".join(texts)


def test_fragments_of_one_index_and_type_are_joined():
    items, text = merge(
        [{"type": "reasoning.text", "text": "Lo", "index": 0, "format": None}],
        [{"type": "reasoning.text", "text": "ok.", "index": 0, "format": "anthropic-claude-v1"}],
        [{"type": "reasoning.text", "signature": "Er=", "index": 0, "format": None}],
    )

    assert text == "Look."
    assert items == [
        {"type": "reasoning.text", "text": "Look.", "index": 0, "format": "anthropic-claude-v1", "signature": "Er="}
    ]


def test_items_keep_the_order_of_their_first_fragment():
    items, text = merge(
        [{"type": "reasoning.text", "text": "a", "index": 1}, {"type": "reasoning.encrypted", "data": "x", "index": 0}],
        [{"type": "reasoning.summary", "summary": "s", "index": 0}],
        [{"type": "reasoning.encrypted", "data": "y", "index": 0}, {"type": "reasoning.text", "text": "b", "index": 1}],
    )

    assert [(item["type"], item["index"]) for item in items] == [
        ("reasoning.text", 1),
        ("reasoning.encrypted", 0),
        ("reasoning.summary", 0),
    ]
    assert (items[0]["text"], items[1]["data"], text) == ("ab", "xy", "asb")


def test_neighbors_of_one_type_and_id_are_joined_without_index():
    items, _ = merge(
        [{"type": "reasoning.text", "text": "a", "id": None}, {"type": "reasoning.text", "text": "b"}],
        [{"type": "reasoning.text", "text": "c", "id": "r2"}],
        [{"type": "reasoning.encrypted", "data": "x"}],
        [{"type": "reasoning.text", "text": "d", "id": "r2"}],
    )

    assert [item.get("text", item.get("data")) for item in items] == ["ab", "c", "x", "d"]


def test_unknown_items_and_fields_keep_their_position():
    items, text = merge(
        [
            {"type": "reasoning.dream", "index": 0, "vivid": True},
            "odd",
            {"type": "reasoning.text", "text": "a", "index": 1},
        ],
        [{"type": "reasoning.dream", "index": 0, "vivid": None, "long": 2}],
    )

    assert items == [
        {"type": "reasoning.dream", "index": 0, "vivid": True, "long": 2},
        "odd",
        {"type": "reasoning.text", "text": "a", "index": 1},
    ]
    assert text == "a"


def test_null_text_starts_an_item_and_does_not_end_it():
    items, _ = merge(
        [{"type": "reasoning.text", "text": None, "index": 0}],
        [{"type": "reasoning.text", "text": "a", "index": 0}],
        [{"type": "reasoning.text", "text": None, "index": 0}],
    )

    assert items == [{"type": "reasoning.text", "text": "a", "index": 0}]


def test_single_fragment_is_not_rewritten():
    merger = DetailsMerger()
    merger.add([Raw(b'{"type":"reasoning.text","text":"\\u00e9","cost":1.10}')])

    assert merger.raw() == '[{"type":"reasoning.text","text":"\\u00e9","cost":1.10}]'


def test_signed_item_is_not_extended():
    """Two signatures in a row, without an index, are two items."""
    items, _ = merge(*([{"type": "reasoning.text", "text": "a", "signature": token}] for token in ("s1", "s2")))

    assert [item["signature"] for item in items] == ["s1", "s2"]


@given(st.lists(ITEMS, max_size=4, unique_by=lambda item: (item["type"], item["index"])), st.data())
def test_array_cut_into_fragments_is_rebuilt(values, data):
    frames: list[list] = [[] for _ in range(6)]
    for value in values:
        cuts = sorted(data.draw(st.lists(st.integers(0, 12), min_size=1, max_size=3)))
        for frame, fragment in zip(frames, cut(value, cuts), strict=False):
            frame.append(fragment)

    assert merge(*frames)[0] == values


def cut(value, cuts):
    """Cut the texts of an item; the other fields are in the first fragment."""
    texts = [name for name in ("text", "summary", "data") if isinstance(value.get(name), str)]
    for number, (start, end) in enumerate(itertools.pairwise([0, *cuts, None])):
        piece = {name: value[name][start:end] for name in texts}
        yield {**value, **piece} if number == 0 else {"type": value["type"], "index": value["index"], **piece}
