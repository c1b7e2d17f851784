"""Fields that arrive in several frames: one rule, and a cost that is linear in the frames."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from strategies import extras, json_values, names
from tenuto.core import jsonio
from tenuto.wire.assembler import MergedFields, merge_fields


def merged(*pieces):
    fields = MergedFields()
    for piece in pieces:
        merge_fields(fields, jsonio.members(piece).items())
    return fields.text()


@pytest.mark.parametrize(
    "pieces,expected",
    [
        (['{"a":1}', '{"b":1.10}'], '{"a":1,"b":1.10}'),
        (['{"a":1}', '{"a":2}'], '{"a":2}'),
        (['{"a":1}', '{"a":null}'], '{"a":1}'),
        (['{"a":null}', '{"a":1}'], '{"a":1}'),
        (['{"a":null}', '{"a":null}'], '{"a":null}'),
        (['{"a":{"x":1,"y":2}}', '{"a":{"y":3,"z":1.10}}'], '{"a":{"x":1,"y":3,"z":1.10}}'),
        (['{"a":{"x":1}}', '{"a":[]}'], '{"a":[]}'),
        (['{"a":[1]}', '{"a":[2]}'], '{"a":[2]}'),
        (['{"a":[{"n":1}]}', '{"a":[{"n":2}]}'], '{"a":[{"n":2}]}'),
        (['{"a":[]}', '{"a":[{"index":0}]}'], '{"a":[{"index":0}]}'),
        (
            ['{"a":[{"index":0,"x":1}]}', '{"a":[{"index":1,"x":2},{"index":0,"y":3}]}'],
            '{"a":[{"index":0,"x":1,"y":3},{"index":1,"x":2}]}',
        ),
    ],
)
def test_fields_merge_by_one_rule(pieces, expected):
    assert merged(*pieces) == expected


@given(extras)
def test_merging_the_same_fields_again_changes_nothing(text):
    fields = text or "{}"

    assert merged(fields, fields) == merged(fields)


@given(st.lists(st.dictionaries(names, json_values, max_size=3), max_size=3))
def test_no_field_disappears(pieces):
    fields = jsonio.members(merged(*[json.dumps(piece) for piece in pieces]) or "{}")

    assert set(fields) == {name for piece in pieces for name in piece}


def test_merging_does_not_change_the_input():
    old = {"a": Raw(b'{"x":1}')}
    fields = MergedFields(old)
    merge_fields(fields, [("a", Raw(b'{"y":2}'))])

    assert bytes(old["a"]) == b'{"x":1}'


# --- the rule in its simplest form -----------------------------------------------------------------------------------


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def same(old, new):
    return compact(old) == compact(new)  # 1, 1.0 and True are equal to Python only


def indexed(value):
    return bool(value) and all(isinstance(item, dict) and "index" in item for item in value)


def merge_simply(old, new):
    """Merge two values by the rule, without regard to the cost."""
    if old is None or new is None or same(old, new):
        return new if old is None else old
    if isinstance(old, dict) and isinstance(new, dict):
        return {name: merge_simply(old.get(name), new.get(name)) for name in {**old, **new}}
    if isinstance(old, list) and isinstance(new, list) and indexed(old) and indexed(new):
        found = {}
        for item in (*old, *new):
            index = compact(item["index"])
            found[index] = merge_simply(found.get(index, {}), item)
        return list(found.values())
    return new


few = st.sampled_from("abc")
indices = st.sampled_from([0, 1, "0", None])
scalars = st.sampled_from([None, True, 0, 1, 1.5, "", "x"])
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.dictionaries(few, inner, max_size=3),
        st.lists(inner, max_size=2),
        st.lists(
            st.builds(lambda index, more: {"index": index, **more}, indices, st.dictionaries(few, inner)), max_size=3
        ),
    ),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(few, values, max_size=3), max_size=6))
def test_merged_fields_equal_the_plain_rule(frames):
    expected = {}
    for frame in frames:
        expected = merge_simply(expected, frame)

    assert (merged(*map(compact, frames)) or "{}") == compact(expected)


@given(st.lists(st.dictionaries(few, values, max_size=3), max_size=6), st.data())
def test_reading_merged_fields_changes_nothing(frames, data):
    fields = MergedFields()
    for frame in frames:
        merge_fields(fields, jsonio.members(json.dumps(frame)).items())
        if data.draw(st.booleans()):
            assert dict(fields) == fields.written()

    assert fields.text() == merged(*map(json.dumps, frames))


# --- the cost ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(lambda n: b'[{"index":%d,"v":1}]' % n, id="indexed list"),
        pytest.param(lambda n: b'{"k%d":1}' % n, id="object"),
        pytest.param(lambda n: b'{"a":{"b":[{"index":%d}]}}' % n, id="nested"),
        pytest.param(lambda n: b'[{"index":0,"k%d":1}]' % n, id="one element"),
    ],
)
def test_each_frame_is_split_once(value, monkeypatch):
    split = 0

    def counted(real):
        def counting(data):
            nonlocal split
            split += len(data)
            return real(data)

        return counting

    for name in ("members", "elements"):
        monkeypatch.setattr(jsonio, name, counted(getattr(jsonio, name)))
    fields = MergedFields()
    total = 0
    for n in range(300):
        raw = value(n)
        total += len(raw)
        merge_fields(fields, (("zz", Raw(raw)),))

    assert split <= 6 * total
    assert len(fields["zz"]) > 300
