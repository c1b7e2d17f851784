"""Conversion to the subset that every structured output mode accepts."""

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


def check_strict(schema, *, strict):
    """Apply the rules that the strictest modes state in their error messages."""
    keywords = set(schema) - {"title", "description"}
    if "anyOf" in schema:
        assert keywords == {"anyOf"}
        for part in schema["anyOf"]:
            check_strict(part, strict=strict)
        return
    assert keywords <= ALLOWED[schema["type"]]
    if schema["type"] == "object":
        assert schema["additionalProperties"] is False
        assert set(schema["required"]) <= set(schema["properties"])
        assert not strict or set(schema["required"]) == set(schema["properties"])
        for part in schema["properties"].values():
            check_strict(part, strict=strict)
    elif schema["type"] == "array":
        check_strict(schema["items"], strict=strict)


@given(closed.flatmap(with_value))
def test_values_match_the_converted_schema_of_their_type(drawn):
    python_type, value = drawn
    converted = to_strict_subset(schema_from_type(python_type))
    plain = jsonio.parse(jsonio.encode(value))

    assert converted is not None
    assert converted.schema["type"] == "object"
    check_strict(converted.schema, strict=converted.strict)
    assert find_problems({VALUE_PROPERTY: plain} if converted.wrapped else plain, converted.schema) == ()


@given(
    st.dictionaries(
        st.sampled_from(["type", "properties", "items", "anyOf", "$ref", "enum", "allOf", "required", "const", "x"]),
        st.none() | st.sampled_from(["object", "array", "#", "null"]) | st.lists(st.none() | st.just({}), max_size=2)
        | st.dictionaries(st.sampled_from(["a", "$ref"]), st.just({"type": "string"}) | st.just("#"), max_size=1),
    )
)  # fmt: skip
def test_any_schema_converts_to_valid_subset_or_none(schema):
    before = copy.deepcopy(schema)
    converted = to_strict_subset(schema)

    assert schema == before
    if converted is not None:
        check_strict(converted.schema, strict=converted.strict)


def convert_property(schema):
    converted = to_strict_subset({"type": "object", "properties": {"it": schema}, "required": ["it"]})
    return converted and converted.schema["properties"]["it"]


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
def test_keywords_are_converted(schema, expected):
    assert convert_property(schema) == expected


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
def test_schema_outside_the_subset_is_not_converted(schema):
    assert convert_property(schema) is None


def test_property_with_default_null_is_required():
    """Null means the same as leaving it out."""
    nullable = {"anyOf": [STRING, {"type": "null"}], "default": None}
    converted = to_strict_subset({"type": "object", "properties": {"a": STRING, "b": nullable}, "required": ["a"]})

    assert converted is not None
    assert converted.strict
    assert converted.schema["required"] == ["a", "b"]
    assert "description" not in converted.schema["properties"]["b"]


@pytest.mark.parametrize("optional", [STRING, {"type": "string", "default": "x"}, {"type": ["string", "null"]}])
def test_optional_property_stays_optional(optional):
    converted = to_strict_subset({"type": "object", "properties": {"a": STRING, "b": optional}, "required": ["a"]})

    assert converted is not None
    assert not converted.strict
    assert converted.schema["required"] == ["a"]


def test_nested_optional_property_is_not_strict():
    inner = {"type": "object", "properties": {"b": STRING}}
    converted = to_strict_subset({"type": "object", "properties": {"a": inner}, "required": ["a"]})

    assert converted is not None
    assert not converted.strict


def test_references_are_replaced_by_their_target():
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
    converted = to_strict_subset(schema)

    assert converted is not None
    assert converted.schema["properties"] == {"x": {"description": "d", "type": "integer"}, "y": {"type": "integer"}}


def test_array_is_wrapped_in_an_object():
    converted = to_strict_subset({"type": "array", "items": STRING})

    assert converted is not None
    assert converted.wrapped
    assert converted.strict
    assert converted.schema["properties"] == {VALUE_PROPERTY: {"type": "array", "items": STRING}}


@pytest.mark.parametrize("name", ["#", "#/$defs/a"])
def test_circular_references_are_not_converted(name):
    assert to_strict_subset({"$ref": name, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}) is None


def test_deep_nesting_is_not_converted():
    schema: dict = {"type": "string"}
    for _ in range(1000):
        schema = {"type": "array", "items": schema}

    assert to_strict_subset(schema) is None


def test_exponential_growth_is_not_converted():
    """Ten levels; each refers to the next three times."""
    levels = {
        f"l{at}": {"type": "object", "properties": {name: {"$ref": f"#/$defs/l{at + 1}"} for name in "abc"}}
        for at in range(10)
    }

    assert 3**10 > MAX_NODES
    assert to_strict_subset({"$ref": "#/$defs/l0", "$defs": {**levels, "l10": STRING}}) is None
