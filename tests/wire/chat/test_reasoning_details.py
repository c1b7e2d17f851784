"""The merger of streamed `reasoning_details` fragments."""

from __future__ import annotations

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

import strategies as say
from tenuto.wire.chat.reasoning_details import DetailsMerger


def merged(*frames: list) -> tuple[list, str]:
    details = DetailsMerger()
    read = [details.add([Raw(json.dumps(item).encode()) for item in frame]) for frame in frames]
    return json.loads(details.raw()), "".join(read)


def test_fragments_of_one_index_and_type_are_joined():
    found, text = merged(
        [{"type": "reasoning.text", "text": "Lo", "index": 0, "format": None}],
        [{"type": "reasoning.text", "text": "ok.", "index": 0, "format": "anthropic-claude-v1"}],
        [{"type": "reasoning.text", "signature": "Er=", "index": 0, "format": None}],
    )

    assert text == "Look."
    assert found == [
        {"type": "reasoning.text", "text": "Look.", "index": 0, "format": "anthropic-claude-v1", "signature": "Er="}
    ]


def test_items_keep_the_order_in_which_they_first_came():
    found, text = merged(
        [{"type": "reasoning.text", "text": "a", "index": 1}, {"type": "reasoning.encrypted", "data": "x", "index": 0}],
        [{"type": "reasoning.summary", "summary": "s", "index": 0}],
        [{"type": "reasoning.encrypted", "data": "y", "index": 0}, {"type": "reasoning.text", "text": "b", "index": 1}],
    )

    assert [(item["type"], item["index"]) for item in found] == [
        ("reasoning.text", 1),
        ("reasoning.encrypted", 0),
        ("reasoning.summary", 0),
    ]
    assert (found[0]["text"], found[1]["data"], text) == ("ab", "xy", "asb")


def test_without_an_index_neighbours_of_one_type_and_id_are_joined():
    found, _ = merged(
        [{"type": "reasoning.text", "text": "a", "id": None}, {"type": "reasoning.text", "text": "b"}],
        [{"type": "reasoning.text", "text": "c", "id": "r2"}],
        [{"type": "reasoning.encrypted", "data": "x"}],
        [{"type": "reasoning.text", "text": "d", "id": "r2"}],
    )

    assert [item.get("text", item.get("data")) for item in found] == ["ab", "c", "x", "d"]


def test_unknown_items_and_fields_stay_in_their_place():
    found, text = merged(
        [
            {"type": "reasoning.dream", "index": 0, "vivid": True},
            "odd",
            {"type": "reasoning.text", "text": "a", "index": 1},
        ],
        [{"type": "reasoning.dream", "index": 0, "vivid": None, "long": 2}],
    )

    assert found == [
        {"type": "reasoning.dream", "index": 0, "vivid": True, "long": 2},
        "odd",
        {"type": "reasoning.text", "text": "a", "index": 1},
    ]
    assert text == "a"


def test_null_begins_a_text_but_does_not_end_it():
    found, _ = merged(
        [{"type": "reasoning.text", "text": None, "index": 0}],
        [{"type": "reasoning.text", "text": "a", "index": 0}],
        [{"type": "reasoning.text", "text": None, "index": 0}],
    )

    assert found == [{"type": "reasoning.text", "text": "a", "index": 0}]


def test_a_single_fragment_is_not_respelt():
    details = DetailsMerger()
    details.add([Raw(b'{"type":"reasoning.text","text":"\\u00e9","cost":1.10}')])

    assert details.raw() == '[{"type":"reasoning.text","text":"\\u00e9","cost":1.10}]'


def test_a_signed_fragment_does_not_grow():
    """Two signatures in a row, without an index: two items, both tokens kept."""
    details = DetailsMerger()
    for token in ("s1", "s2"):
        details.add([Raw(f'{{"type":"reasoning.text","text":"a","signature":"{token}"}}'.encode())])

    assert details.raw().count('"signature"') == 2


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


@given(st.lists(details.filter(lambda d: d.get("index") is not None and d["index"] >= 0), max_size=4), st.data())
def test_an_array_that_comes_in_pieces_is_the_array(values, data):
    """However texts are cut, fragments find each other by index and type, in the order of their first piece."""
    seen, whole = set(), []
    for value in values:
        if (value["type"], value["index"]) not in seen:
            seen.add((value["type"], value["index"]))
            whole.append(value)
    frames = [[] for _ in range(6)]
    for value in whole:
        cuts = sorted(data.draw(st.lists(st.integers(0, 12), min_size=1, max_size=3)))
        for at, frame in enumerate(cut_up(value, cuts)):
            frames[at].append(frame)
    joined = DetailsMerger()
    for frame in frames:
        joined.add([Raw(json.dumps(value).encode()) for value in frame])

    assert json.loads(joined.raw()) == whole


def cut_up(value, cuts):
    """Cut the texts of an item; the other fields come with the first piece."""
    growing = [name for name in ("text", "summary", "data") if isinstance(value.get(name), str)]
    edges = [0, *cuts, None]
    for at, (start, end) in enumerate(itertools.pairwise(edges)):
        piece = {name: value[name][start:end] for name in growing}
        key = {"type": value["type"], "index": value["index"]}
        yield {**{name: piece.get(name, held) for name, held in value.items()}} if at == 0 else {**key, **piece}
