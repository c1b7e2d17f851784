"""JSON Schemas in the upper-case dialect: what it can say is said, what it cannot is told."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.schema.openapi import MAX_DEPTH, MAX_NODES, to_openapi


def lowered(schema: dict) -> dict:
    return to_openapi(schema)[0]


def lost(schema: dict) -> list[str]:
    return [loss.place for loss in to_openapi(schema)[1]]


@pytest.mark.parametrize("word", ["string", "number", "integer", "boolean", "object", "null"])
def test_types_are_upper_case(word):
    assert lowered({"type": word}) == {"type": word.upper()}


def test_types_are_upper_case_at_every_depth():
    schema = {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}
        },
        "required": ["list"],
    }

    assert lowered(schema) == {
        "type": "OBJECT",
        "properties": {
            "list": {"type": "ARRAY", "items": {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}}},
        },
        "required": ["list"],
    }
    assert lost(schema) == []


def test_the_keys_of_properties_are_names():
    """A property may be called like any keyword."""
    names = [
        "title",
        "type",
        "properties",
        "$ref",
        "const",
        "enum",
        "additionalProperties",
        "anyOf",
        "default",
        "items",
    ]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}

    assert list(lowered(schema)["properties"]) == names
    assert lowered(schema)["required"] == names
    assert lost(schema) == []


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}),
        ({"type": ["string"]}, {"type": "STRING"}),
        (
            {"type": ["string", "integer", "null"]},
            {"nullable": True, "anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]},
        ),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"nullable": True, "type": "STRING"}),
        ({"oneOf": [{"type": "string"}, {"type": "number"}]}, {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}]}),
        (
            {"description": "outer", "anyOf": [{"type": "string", "description": "inner"}, {"type": "null"}]},
            {"description": "outer", "nullable": True, "type": "STRING"},
        ),
        ({"const": "a"}, {"enum": ["a"], "type": "STRING"}),
        ({"const": 3}, {"minimum": 3, "maximum": 3, "type": "INTEGER"}),
        ({"const": 0.5, "type": "number"}, {"minimum": 0.5, "maximum": 0.5, "type": "NUMBER"}),
        ({"const": None}, {"type": "NULL"}),
        ({"enum": ["a", None]}, {"nullable": True, "enum": ["a"], "type": "STRING"}),
        ({"enum": [None]}, {"nullable": True}),
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
        ({"properties": {"a": True}}, {"properties": {"a": {}}, "type": "OBJECT"}),
        ({"items": {"type": "string"}}, {"items": {"type": "STRING"}, "type": "ARRAY"}),
        ({"type": "object", "properties": {}}, {"type": "OBJECT"}),
        ({"type": "STRING", "nullable": True}, {"type": "STRING", "nullable": True}),
        (
            {
                "allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}],
                "properties": {"b": {}},
                "required": ["b"],
            },
            {"properties": {"a": {"type": "STRING"}, "b": {}}, "required": ["b", "a"], "type": "OBJECT"},
        ),
        (
            {
                "title": "T",
                "description": "D",
                "default": 1,
                "minimum": 0,
                "maximum": 9,
                "type": "integer",
                "$schema": "x",
            },
            {"title": "T", "description": "D", "default": 1, "minimum": 0, "maximum": 9, "type": "INTEGER"},
        ),
        (
            {"type": "string", "minLength": 1, "maxLength": 2, "pattern": "a+", "example": "a"},
            {"type": "STRING", "minLength": 1, "maxLength": 2, "pattern": "a+", "example": "a"},
        ),
    ],
)
def test_keywords_are_said_in_the_dialects_own_words(schema, expected):
    assert lowered(schema) == expected
    assert lost(schema) == []


@pytest.mark.parametrize(
    ("schema", "expected", "places"),
    [
        ({"type": "object", "additionalProperties": False}, {"type": "OBJECT"}, ["schema.additionalProperties"]),
        ({"type": "string", "x-order": 1}, {"type": "STRING"}, ["schema.x-order"]),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "INTEGER"}, ["schema.exclusiveMinimum"]),
        ({"type": "string", "format": "uri"}, {"type": "STRING"}, ["schema.format"]),
        ({"type": "array"}, {"type": "ARRAY", "items": {"type": "STRING"}}, ["schema.items"]),
        ({"type": "teapot"}, {}, ["schema.type"]),
        ({"type": ["teapot", "null"]}, {"type": "NULL"}, ["schema.type"]),
        ({"const": True}, {"type": "BOOLEAN"}, ["schema.const"]),
        ({"const": {"a": 1}}, {}, ["schema.const"]),
        ({"enum": "a"}, {}, ["schema.enum"]),
        ({"type": "integer", "enum": [1, 2]}, {"type": "INTEGER", "description": "One of: 1, 2."}, ["schema.enum"]),
        ({"description": "A.", "enum": [1]}, {"description": "A. One of: 1."}, ["schema.enum"]),
        (
            {"properties": {"a": {}}, "required": ["a", "b"]},
            {"properties": {"a": {}}, "required": ["a"], "type": "OBJECT"},
            ["schema.required"],
        ),
        ({"properties": 3, "required": True}, {}, ["schema.properties", "schema.required"]),
        ({"properties": {"a": False}}, {"properties": {"a": {}}, "type": "OBJECT"}, ["schema.properties.a"]),
        (
            {"anyOf": [{"type": "string"}, {"type": "number"}], "oneOf": [{}]},
            {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}]},
            ["schema.oneOf"],
        ),
        ({"anyOf": {"type": "string"}}, {"type": "STRING"}, []),
        (
            {"allOf": [{"type": "string"}, 3, {"type": "number"}]},
            {"type": "STRING"},
            ["schema.allOf[1]", "schema.allOf[2].type"],
        ),
        ({"$ref": "https://a.example/s"}, {"type": "OBJECT"}, ["schema"]),
        ({"$ref": "#/$defs/none"}, {"type": "OBJECT"}, ["schema"]),
        ({"allOf": [{"$ref": "#/nothing"}], "type": "string"}, {"type": "STRING"}, ["schema.allOf[0]"]),
    ],
)
def test_what_the_dialect_cannot_say_is_left_out_and_told(schema, expected, places):
    assert lowered(schema) == expected
    assert lost(schema) == places


def test_references_are_written_out():
    """Wherever they point; what stands beside one is laid over it."""
    schema = {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/A", "description": "the first"},
            "b": {"$ref": "#/definitions/B"},
            "c": {"$ref": "#/$defs/with~1slash"},
            "d": {"allOf": [{"$ref": "#/$defs/A"}]},
        },
        "$defs": {"A": {"type": "string", "description": "any"}, "with/slash": {"$ref": "#/$defs/A"}},
        "definitions": {"B": {"type": "integer"}},
    }

    assert lowered(schema)["properties"] == {
        "a": {"description": "the first", "type": "STRING"},
        "b": {"type": "INTEGER"},
        "c": {"description": "any", "type": "STRING"},
        "d": {"description": "any", "type": "STRING"},
    }
    assert lost(schema) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}},
        {"$ref": "#/$defs/N", "$defs": {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}}},
        {"allOf": [{"$ref": "#"}]},
    ],
)
def test_what_refers_to_itself_is_cut_and_told(schema):
    assert any("refers to itself" in loss.what for loss in to_openapi(schema)[1])


def test_a_schema_cannot_grow_without_bounds():
    """Forty references to two of the one before would be a million million parts."""
    defs = {f"d{n}": {"properties": {k: {"$ref": f"#/$defs/d{n + 1}"} for k in "ab"}} for n in range(40)}
    result, losses = to_openapi({"$ref": "#/$defs/d0", "$defs": {**defs, "d40": {"type": "string"}}})

    assert result["type"] == "OBJECT"
    assert any("cut off" in loss.what for loss in losses)
    assert len(losses) < 2 * MAX_NODES


def test_a_schema_may_be_only_so_deep():
    schema: dict = {"type": "string"}
    for _ in range(MAX_DEPTH + 10):
        schema = {"type": "array", "items": schema}

    assert [loss for loss in to_openapi(schema)[1] if "cut off" in loss.what]


NODES = st.recursive(
    st.fixed_dictionaries(
        {}, optional={"type": st.sampled_from(["string", "integer", "array", "object", ["null", "number"]])}
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array"]),
            "properties": st.dictionaries(st.sampled_from(["title", "a", "type"]), inner, max_size=2),
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
            "oneOf": st.lists(inner, max_size=2),
            "allOf": st.lists(inner, max_size=2),
            "enum": st.lists(st.sampled_from(["a", "b", None, 1]), max_size=2),
            "const": st.sampled_from(["a", 1, None, True]),
            "$ref": st.sampled_from(["#", "#/$defs/A", "#/properties/a"]),
            "required": st.lists(st.sampled_from(["a", "b"]), max_size=2, unique=True),
            "additionalProperties": st.booleans(),
        },
    ),
    max_leaves=6,
)


@given(NODES)
def test_any_schema_can_be_lowered(schema):
    """And the schema that was given is left as it was."""
    before = copy.deepcopy(schema)
    to_openapi(schema)

    assert schema == before
