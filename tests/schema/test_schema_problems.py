"""The problems of a schema itself: those that no value can solve."""

from __future__ import annotations

import pytest

from tenuto.schema.validate import find_schema_problem


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (True, ""),
        ({}, ""),
        ({"type": ["string", "null"], "enum": [{"type": 1}], "x-own": [1]}, ""),
        ({"properties": {"type": {"type": "string"}}, "items": {"minLength": 1}, "anyOf": [{"const": 1}, True]}, ""),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {}}}, ""),
        ([], "(root): [] is not a schema"),
        ({"type": "objec"}, "/type: unknown type 'objec'; use one of object, array, string"),
        ({"properties": {"a": {"type": ["null", "strin"]}}}, "/properties/a/type: unknown type 'strin'"),
        ({"properties": [1]}, "/properties: properties cannot be [1]"),
        ({"anyOf": [{}, {"minimum": True}]}, "/anyOf/1/minimum: minimum cannot be true"),
        ({"items": {"required": "a"}}, '/items/required: required cannot be "a"'),
        ({"not": {"allOf": [3]}}, "/not/allOf/0: 3 is not a schema"),
        ({"$ref": "#/nowhere"}, '/$ref: "#/nowhere" refers to nothing in it'),
    ],
)
def test_schema_problem_has_the_pointer_of_its_keyword(schema, problem):
    found = find_schema_problem(schema)

    assert found.startswith(problem)
    assert bool(found) == bool(problem)
