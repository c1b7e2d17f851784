"""Conversion to the OpenAPI form: keywords are converted, or dropped with a loss."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.schema.openapi import MAX_DEPTH, MAX_NODES, to_openapi


def convert(schema: dict) -> dict:
    return to_openapi(schema)[0]


def loss_paths(schema: dict) -> list[str]:
    return [str(loss.location) for loss in to_openapi(schema)[1]]


@pytest.mark.parametrize("name", ["string", "number", "integer", "boolean", "object", "null"])
def test_types_are_upper_case(name):
    assert convert({"type": name}) == {"type": name.upper()}


def test_nested_types_are_upper_case():
    schema = {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}
        },
        "required": ["list"],
    }

    assert convert(schema) == {
        "type": "OBJECT",
        "properties": {
            "list": {"type": "ARRAY", "items": {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}}},
        },
        "required": ["list"],
    }
    assert loss_paths(schema) == []


def test_property_may_have_the_name_of_a_keyword():
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

    assert list(convert(schema)["properties"]) == names
    assert convert(schema)["required"] == names
    assert loss_paths(schema) == []


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
            {"title": "T", "description": "D", "default": 1, "minimum": 0, "type": "integer", "$schema": "x"},
            {"title": "T", "description": "D", "default": 1, "minimum": 0, "type": "INTEGER"},
        ),
        (
            {"type": "string", "minLength": 1, "maxLength": 2, "pattern": "a+", "example": "a"},
            {"type": "STRING", "minLength": 1, "maxLength": 2, "pattern": "a+", "example": "a"},
        ),
    ],
)
def test_keywords_are_converted(schema, expected):
    assert convert(schema) == expected
    assert loss_paths(schema) == []


@pytest.mark.parametrize(
    ("schema", "expected", "paths"),
    [
        ({"type": "object", "additionalProperties": False}, {"type": "OBJECT"}, ["schema.additionalProperties"]),
        ({"type": "string", "x-order": 1}, {"type": "STRING"}, ["schema.x-order"]),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "INTEGER"}, ["schema.exclusiveMinimum"]),
        ({"type": "string", "format": "uri"}, {"type": "STRING"}, ["schema.format"]),
        ({"type": "string", "format": {}}, {"type": "STRING"}, ["schema.format"]),
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
        ({"$ref": "#name"}, {"type": "OBJECT"}, ["schema"]),
        ({"allOf": [{"$ref": "#/nothing"}], "type": "string"}, {"type": "STRING"}, ["schema.allOf[0]"]),
    ],
)
def test_keywords_without_equivalent_are_losses(schema, expected, paths):
    assert convert(schema) == expected
    assert loss_paths(schema) == paths


def test_references_are_replaced_by_their_target():
    """Keywords next to `$ref` override those of the target."""
    schema = {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/A", "description": "the first"},
            "b": {"$ref": "#/definitions/B"},
            "c": {"$ref": "#/$defs/with~1slash"},
            "d": {"allOf": [{"$ref": "#/$defs/A"}]},
            "e": {"$ref": "#/%24defs/choice/anyOf/1"},
        },
        "$defs": {
            "A": {"type": "string", "description": "any"},
            "with/slash": {"$ref": "#/$defs/A"},
            "choice": {"anyOf": [{"type": "string"}, {"type": "boolean"}]},
        },
        "definitions": {"B": {"type": "integer"}},
    }

    assert convert(schema)["properties"] == {
        "a": {"description": "the first", "type": "STRING"},
        "b": {"type": "INTEGER"},
        "c": {"description": "any", "type": "STRING"},
        "d": {"description": "any", "type": "STRING"},
        "e": {"type": "BOOLEAN"},
    }
    assert loss_paths(schema) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}},
        {"$ref": "#/$defs/N", "$defs": {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}}},
        {"allOf": [{"$ref": "#"}]},
    ],
)
def test_circular_reference_is_a_loss(schema):
    assert any("refers to itself" in loss.detail for loss in to_openapi(schema)[1])


def test_size_is_limited():
    """Forty levels that double would give a million million parts."""
    defs = {f"d{n}": {"properties": {k: {"$ref": f"#/$defs/d{n + 1}"} for k in "ab"}} for n in range(40)}
    result, losses = to_openapi({"$ref": "#/$defs/d0", "$defs": {**defs, "d40": {"type": "string"}}})

    assert result["type"] == "OBJECT"
    assert any("truncated" in loss.detail for loss in losses)
    assert len(losses) < 2 * MAX_NODES


def test_depth_is_limited():
    schema: dict = {"type": "string"}
    for _ in range(MAX_DEPTH + 10):
        schema = {"type": "array", "items": schema}

    assert [loss for loss in to_openapi(schema)[1] if "truncated" in loss.detail]


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
def test_any_schema_is_converted_and_not_changed(schema):
    before = copy.deepcopy(schema)
    to_openapi(schema)

    assert schema == before
