"""From types to schemas and back: what a type writes fits its schema and is read as the same value."""

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

    It may have a next one.
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
def test_a_value_fits_the_schema_of_its_type_and_comes_back(drawn):
    kind, value = drawn
    text = jsonio.encode(value)

    assert find_problems(jsonio.parse(text), schema_from_type(kind)) == ()
    assert parse_as(text, kind) == value


@given(closed)
def test_a_schema_is_json_and_refers_to_nothing_that_is_not_there(kind):
    schema = schema_from_type(kind[0])

    assert "$ref" not in schema
    assert jsonio.parse(jsonio.encode(schema)) == schema
    assert not any("invalid schema" in problem for problem in find_problems({}, schema))


def test_a_class_stands_at_the_root():
    assert schema_from_type(Film) == {
        "title": "Film",
        "type": "object",
        "properties": {"title": {"type": "string"}, "year": {"type": "integer"}},
        "required": ["title"],
    }


def test_a_class_that_holds_itself_is_also_a_definition():
    schema = schema_from_type(Node)

    assert schema["type"] == "object"
    assert schema["properties"]["next"]["anyOf"][0] == {"$ref": "#/$defs/Node"}
    assert list(schema["$defs"]) == ["Node"]
    assert schema["description"] == "A node.\n\nIt may have a next one."


def test_a_schema_is_taken_as_it_is():
    schema = {"type": "object", "x-mine": [1]}

    assert schema_from_type(schema) == schema


def test_plain_types():
    assert schema_from_type(list[str]) == {"type": "array", "items": {"type": "string"}}
    assert schema_from_type(Any) == {}
    assert len(schema_from_type(Cat | Dog)["$defs"]) == 2


def test_models_are_schemas_alone_and_inside_others():
    """A model's definitions stand beside ours."""
    value = {"a": 1, "models": [{"inner": {"x": 1, "more": [{"x": 2}]}}]}
    schema = schema_from_type(Mixed)

    assert schema_from_type(Outer) == {**Outer.model_json_schema()}
    assert list(schema["$defs"]) == ["Inner"]
    assert find_problems(value, schema) == ()
    assert find_problems({"a": 1, "models": [{"inner": {"x": "y"}}]}, schema) != ()
    assert parse_as(jsonio.encode(value), Mixed) == Mixed(1, [Outer(inner=Inner(x=1, more=[Inner(x=2)]))])
    assert parse_as('{"inner": {"x": 1}}', Outer) == Outer(inner=Inner(x=1))


@pytest.mark.parametrize("text", ['{"inner": 1}', "{", '{"inner": {"x": NaN}}', '{"a": "\\ud800", "models": []}'])
@pytest.mark.parametrize("kind", [Outer, Mixed])
def test_what_does_not_fit_is_a_value_error(kind, text):
    with pytest.raises(ValueError):
        parse_as(text, kind)


def test_half_characters_are_read():
    """What msgspec cannot read is read all the same, and refused in our words where it does not fit."""
    assert parse_as('{"1": "\\ud800"}', dict[int, str]) == {1: "\ud800"}
    with pytest.raises(jsonio.JsonError, match="half a character"):
        parse_as('"\\ud800"', int)


@pytest.mark.parametrize("kind", [object, complex, Callable[[int], str], Node | Mixed, list[complex]])
def test_a_type_without_a_schema_is_refused(kind):
    with pytest.raises(TypeError, match="not supported"):
        schema_from_type(kind)


def test_a_class_that_mentions_an_unknown_name_is_refused():
    lost = msgspec.defstruct("Lost", [("where", "Nowhere")])

    with pytest.raises(TypeError, match="Nowhere"):
        schema_from_type(lost)


def test_two_types_of_one_name_are_refused():
    class Inner(pydantic.BaseModel):
        y: str
        more: list[Inner] = []

    Inner.model_rebuild(_types_namespace={"Inner": Inner})

    with pytest.raises(TypeError, match="two different types have the name 'Inner'"):
        schemas_from_types([Outer, Inner])


def test_a_custom_type_with_a_schema_cannot_be_read():
    kind = Annotated[complex, msgspec.Meta(extra_json_schema={"type": "string"})]

    assert schema_from_type(kind) == {"type": "string"}
    with pytest.raises(NotImplementedError, match="complex"):
        parse_as('"1j"', kind)


def test_pydantic_is_not_loaded_for_others():
    code = (
        "import sys, tenuto.tools, tenuto.client.structured, dataclasses\n"
        "from tenuto.schema.from_types import parse_as, schema_from_type\n"
        "D = dataclasses.make_dataclass('D', [('a', int)])\n"
        "schema_from_type(D), parse_as('{\"a\": 1}', D)\n"
        "print(sorted({'pydantic', 'aiohttp', 'jsonschema'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
