"""Schemas in the part of JSON Schema that every provider's own mode takes."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schema.type_strategies import closed, with_value
from tenuto.core import jsonio
from tenuto.schema.from_types import schema_from_type
from tenuto.schema.strict_subset import MAX_NODES, VALUE_PROPERTY, to_strict_subset
from tenuto.schema.validate import find_problems

ALLOWED = {
    "object": {"type", "properties", "required", "additionalProperties"},
    "array": {"type", "items"},
    "string": {"type", "enum", "format"},
    "integer": {"type", "enum"},
    "number": {"type", "enum"},
    "boolean": {"type", "enum"},
    "null": {"type"},
}


def check_narrow(schema, *, strict):
    """Refuse what the strictest modes would refuse: the rules as their error messages state them."""
    words = set(schema) - {"title", "description"}
    if "anyOf" in schema:
        assert words == {"anyOf"}
        for part in schema["anyOf"]:
            check_narrow(part, strict=strict)
        return
    assert words <= ALLOWED[schema["type"]]
    if schema["type"] == "object":
        assert schema["additionalProperties"] is False
        assert set(schema["required"]) <= set(schema["properties"])
        assert not strict or set(schema["required"]) == set(schema["properties"])
        for part in schema["properties"].values():
            check_narrow(part, strict=strict)
    elif schema["type"] == "array":
        check_narrow(schema["items"], strict=strict)


@given(closed.flatmap(with_value))
def test_what_a_provider_is_told_fits_what_the_type_writes(drawn):
    kind, value = drawn
    found = to_strict_subset(schema_from_type(kind))
    plain = jsonio.parse(jsonio.encode(value))

    assert found is not None
    assert found.schema["type"] == "object"
    check_narrow(found.schema, strict=found.strict)
    assert find_problems({VALUE_PROPERTY: plain} if found.wrapped else plain, found.schema) == ()


@given(
    st.dictionaries(
        st.sampled_from(["type", "properties", "items", "anyOf", "$ref", "enum", "allOf", "required", "const", "x"]),
        st.none() | st.sampled_from(["object", "array", "#", "null"]) | st.lists(st.none() | st.just({}), max_size=2)
        | st.dictionaries(st.sampled_from(["a", "$ref"]), st.just({"type": "string"}) | st.just("#"), max_size=1),
    )
)  # fmt: skip
def test_whatever_is_given_is_written_narrowly_or_not_at_all(schema):
    before = copy.deepcopy(schema)
    found = to_strict_subset(schema)

    assert schema == before
    if found is not None:
        check_narrow(found.schema, strict=found.strict)


def held(schema):
    """Narrow a property's schema."""
    found = to_strict_subset({"type": "object", "properties": {"it": schema}, "required": ["it"]})
    return found and found.schema["properties"]["it"]


STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer", "minimum": 1, "description": "stars"}, {"type": "integer", "description": "stars (minimum: 1)"}),
        ({"type": "string", "pattern": "é", "minLength": 1}, {"type": "string", "description": '(pattern: "é", minLength: 1)'}),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        ({"type": "string", "format": "decimal"}, {"type": "string", "description": '(format: "decimal")'}),
        ({"type": ["string", "null"], "maxLength": 2},
         {"anyOf": [STRING, {"type": "null"}], "description": "(maxLength: 2)"}),
        ({"type": ["array", "null"], "items": STRING}, {"anyOf": [{"type": "array", "items": STRING}, {"type": "null"}]}),
        ({"type": "string", "format": {}}, {"type": "string", "description": "(format: {})"}),
        ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"const": True}, {"type": "boolean", "enum": [True]}),
        ({"type": ["string", "null"], "enum": ["a", None]}, {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}),
        ({"oneOf": [STRING, {"type": "null"}], "title": "T"}, {"title": "T", "anyOf": [STRING, {"type": "null"}]}),
        ({"allOf": [STRING], "description": "d"}, {"type": "string", "description": "d"}),
        ({"type": "array", "prefixItems": [STRING, STRING], "items": False}, {"type": "array", "items": STRING}),
        ({"type": "array", "prefixItems": [STRING], "items": {"type": "null"}},
         {"type": "array", "items": {"anyOf": [STRING, {"type": "null"}]}}),
        ({"type": "string", "default": "x", "x-mine": 1, "deprecated": True}, {"type": "string", "description": '(default: "x")'}),
        ({"properties": {}},
         {"type": "object", "properties": {}, "required": [], "additionalProperties": False}),
    ],
)  # fmt: skip
def test_each_part_is_said_in_the_narrow_way(schema, expected):
    assert held(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {}, True, {"type": "object"}, {"type": "object", "additionalProperties": {"type": "string"}}, {"type": "array"},
        {"type": "object", "properties": {}, "additionalProperties": True}, {"type": "array", "items": {}},
        {"type": "object", "properties": {}, "patternProperties": {}}, {"type": "object", "properties": {}, "required": ["a"]},
        {"allOf": [STRING, STRING]}, {"not": STRING}, {"type": "string", "if": STRING}, {"$ref": "#"}, {"$ref": "#/nowhere"},
        {"type": "string", "anyOf": [STRING]}, {"enum": [[1]]}, {"enum": []}, {"type": "text"}, {"type": [["string"]]},
        {"type": "object", "properties": {}, "required": [["a"]]}, {"type": {"a": 1}}, {"type": "object", "required": ["a"]},
        {"anyOf": []}, {"allOf": [{"properties": {}}], "properties": {}}, {"type": "string", "unknown": 1},
    ],
)  # fmt: skip
def test_what_cannot_be_said_narrowly_has_no_narrow_form(schema):
    assert held(schema) is None


def test_a_property_whose_default_is_null_can_be_demanded():
    """Leaving it out means null: so the model may just as well say null."""
    nullable = {"anyOf": [STRING, {"type": "null"}], "default": None}
    found = to_strict_subset({"type": "object", "properties": {"a": STRING, "b": nullable}, "required": ["a"]})

    assert found is not None
    assert found.strict
    assert found.schema["required"] == ["a", "b"]
    assert "description" not in found.schema["properties"]["b"]


@pytest.mark.parametrize("optional", [STRING, {"type": "string", "default": "x"}, {"type": ["string", "null"]}])
def test_a_property_that_may_be_left_out_stays_so(optional):
    found = to_strict_subset({"type": "object", "properties": {"a": STRING, "b": optional}, "required": ["a"]})

    assert found is not None
    assert not found.strict
    assert found.schema["required"] == ["a"]


def test_one_open_property_anywhere_is_not_strict():
    inner = {"type": "object", "properties": {"b": STRING}}
    found = to_strict_subset({"type": "object", "properties": {"a": inner}, "required": ["a"]})

    assert found is not None
    assert not found.strict


def test_references_are_written_out():
    schema = {
        "$ref": "#/$defs/pair",
        "$defs": {
            "pair": {
                "type": "object",
                "properties": {"x": {"$ref": "#/$defs/n", "description": "d"}, "y": {"$ref": "#/$defs/n"}},
            },
            "n": {"type": "integer"},
        },
    }
    found = to_strict_subset(schema)

    assert found is not None
    assert found.schema["properties"] == {"x": {"description": "d", "type": "integer"}, "y": {"type": "integer"}}


def test_an_answer_that_is_no_object_stands_in_one():
    found = to_strict_subset({"type": "array", "items": STRING})

    assert found is not None
    assert found.wrapped
    assert found.strict
    assert found.schema["properties"] == {VALUE_PROPERTY: {"type": "array", "items": STRING}}


@pytest.mark.parametrize("name", ["#", "#/$defs/a"])
def test_references_that_lead_nowhere_but_back_have_no_narrow_form(name):
    assert to_strict_subset({"$ref": name, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}) is None


def test_what_nests_without_measure_has_no_narrow_form():
    schema: dict = {"type": "string"}
    for _ in range(1000):
        schema = {"type": "array", "items": schema}

    assert to_strict_subset(schema) is None


def test_what_grows_without_measure_has_no_narrow_form():
    """Ten levels that each mention the next three times."""
    levels = {
        f"l{at}": {"type": "object", "properties": {name: {"$ref": f"#/$defs/l{at + 1}"} for name in "abc"}}
        for at in range(10)
    }

    assert 3**10 > MAX_NODES
    assert to_strict_subset({"$ref": "#/$defs/l0", "$defs": {**levels, "l10": STRING}}) is None
