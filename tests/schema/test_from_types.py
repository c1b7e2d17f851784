"""Schemas from types, and JSON parsed as values of types."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given

from schema.type_strategies import closed, kinds, with_value
from tenuto.core import jsonio
from tenuto.schema.from_types import parse_as, schema_from_type, schemas_from_types
from tenuto.schema.validate import find_problems


class Node(msgspec.Struct):
    """A node.

    It may have a successor.
    """

    n: int
    next: Node | None = None


class Inner(pydantic.BaseModel):
    x: int
    more: list[Inner] = []


class Outer(pydantic.BaseModel):
    inner: Inner


@dataclasses.dataclass
class Mixed:
    a: int
    models: list[Outer]


class Film(TypedDict):
    title: str
    year: NotRequired[int]


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    name: str


@given(kinds.flatmap(with_value))
def test_value_matches_schema_of_its_type_and_round_trips(drawn):
    python_type, value = drawn
    text = jsonio.encode(value)

    assert find_problems(jsonio.parse(text), schema_from_type(python_type)) == ()
    assert parse_as(text, python_type) == value


@given(closed)
def test_schema_is_json_and_its_references_resolve(drawn):
    schema = schema_from_type(drawn[0])

    assert "$ref" not in schema
    assert jsonio.parse(jsonio.encode(schema)) == schema
    assert not any("invalid schema" in problem for problem in find_problems({}, schema))


def test_schema_of_a_class_is_an_object():
    assert schema_from_type(Film) == {
        "title": "Film",
        "type": "object",
        "properties": {"title": {"type": "string"}, "year": {"type": "integer"}},
        "required": ["title"],
    }


def test_recursive_class_is_also_a_definition():
    schema = schema_from_type(Node)

    assert schema["type"] == "object"
    assert schema["properties"]["next"]["anyOf"][0] == {"$ref": "#/$defs/Node"}
    assert list(schema["$defs"]) == ["Node"]
    assert schema["description"] == "A node.\n\nIt may have a successor."


def test_mapping_is_already_a_schema():
    schema = {"type": "object", "x-mine": [1]}

    assert schema_from_type(schema) == schema


def test_schemas_of_plain_types():
    assert schema_from_type(list[str]) == {"type": "array", "items": {"type": "string"}}
    assert schema_from_type(Any) == {}
    assert len(schema_from_type(Cat | Dog)["$defs"]) == 2


def test_pydantic_models_work_alone_and_inside_other_types():
    value = {"a": 1, "models": [{"inner": {"x": 1, "more": [{"x": 2}]}}]}
    schema = schema_from_type(Mixed)

    assert schema_from_type(Outer) == {**Outer.model_json_schema()}
    assert list(schema["$defs"]) == ["Inner"]
    assert find_problems(value, schema) == ()
    assert find_problems({"a": 1, "models": [{"inner": {"x": "y"}}]}, schema) != ()
    assert parse_as(jsonio.encode(value), Mixed) == Mixed(1, [Outer(inner=Inner(x=1, more=[Inner(x=2)]))])
    assert parse_as('{"inner": {"x": 1}}', Outer) == Outer(inner=Inner(x=1))


@pytest.mark.parametrize("text", ['{"inner": 1}', "{", '{"inner": {"x": NaN}}', '{"a": "\\ud800", "models": []}'])
@pytest.mark.parametrize("python_type", [Outer, Mixed])
def test_mismatch_is_a_value_error(python_type, text):
    with pytest.raises(ValueError):
        parse_as(text, python_type)


def test_lone_surrogates_are_parsed():
    """The decoder of msgspec rejects them."""
    assert parse_as('{"1": "\\ud800"}', dict[int, str]) == {1: "\ud800"}
    with pytest.raises(jsonio.JsonError, match="lone surrogate"):
        parse_as('"\\ud800"', int)


@dataclasses.dataclass
class Bird:
    name: str
    wings: int = 2


@pytest.mark.parametrize(
    ("python_type", "expected"),
    [
        (Inner | Outer, Outer(inner=Inner(x=1))),
        (Mixed | Bird, Bird("Kea")),
        (Film | Inner | None, None),
        (list[Inner | Bird], [Inner(x=1), Bird("Kea")]),
        (Annotated[Inner | Bird, pydantic.Field(description="One of two")], Bird("Kea")),
        (dict[str, Bird | int | Inner], {"one": Bird("Kea"), "two": 2}),
        (pydantic.TypeAdapter(Inner | Outer), Inner(x=1)),
    ],
)
def test_union_of_types_that_msgspec_refuses(python_type, expected):
    text = jsonio.encode(msgspec.to_builtins(expected, enc_hook=lambda model: model.model_dump()))

    assert parse_as(text, python_type) == expected
    assert not find_problems(jsonio.parse(text), schema_from_type(python_type))


def test_union_prefers_the_member_with_most_properties():
    """A type ignores properties that it does not have."""
    assert parse_as('{"name": "Kea", "wings": 1, "lives": 9}', Dog | Bird) == Bird("Kea", 1)
    assert parse_as('{"name": "Kea", "title": "x"}', Film | Bird) == {"title": "x"}


def test_union_without_a_member_that_fits_names_all():
    with pytest.raises(jsonio.JsonError, match=r"not Inner: x: Field required; not Bird: .*`name`"):
        parse_as("{}", Inner | Bird)


@pytest.mark.parametrize("python_type", [object, complex, Callable[[int], str], Node | complex, list[complex]])
def test_type_without_schema_is_a_type_error(python_type):
    with pytest.raises(TypeError, match="not supported"):
        schema_from_type(python_type)


def test_unresolved_annotation_is_a_type_error():
    unresolved = msgspec.defstruct("Unresolved", [("field", "Nowhere")])

    with pytest.raises(TypeError, match="Nowhere"):
        schema_from_type(unresolved)


def test_two_types_of_the_same_name_are_a_type_error():
    class Inner(pydantic.BaseModel):
        y: str
        more: list[Inner] = []

    Inner.model_rebuild(_types_namespace={"Inner": Inner})

    with pytest.raises(TypeError, match="two different types have the name 'Inner'"):
        schemas_from_types([Outer, Inner])


def test_custom_type_cannot_be_parsed():
    python_type = Annotated[complex, msgspec.Meta(extra_json_schema={"type": "string"})]

    assert schema_from_type(python_type) == {"type": "string"}
    with pytest.raises(NotImplementedError, match="complex"):
        parse_as('"1j"', python_type)


def test_pydantic_is_not_imported():
    code = (
        "import sys, tenuto.tools, tenuto.client.structured_output, dataclasses\n"
        "from tenuto.schema.from_types import parse_as, schema_from_type\n"
        "D = dataclasses.make_dataclass('D', [('a', int)])\n"
        "schema_from_type(D), parse_as('{\"a\": 1}', D)\n"
        "print(sorted({'pydantic', 'aiohttp', 'jsonschema'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
