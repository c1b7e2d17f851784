"""Validation compared with the reference implementation; no input makes it crash or run without end."""

from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tenuto.schema import validate as module
from tenuto.schema.validate import find_problems, resolve_ref

# --- the reference implementation -------------------------------------------------------------------------------------

NAMES = ("a", "b", "ab", "")
scalars = st.sampled_from([None, True, False, 0, 1, 2, 6, -1, 1.0, 1.5, 2.5, "", "a", "ab", "b1", "é"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=6,
)
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
counts = st.integers(0, 3)
numbers = st.sampled_from([-1, 0, 1, 1.5, 2, 6])
name_lists = st.lists(st.sampled_from(NAMES), max_size=2, unique=True)
patterns = st.sampled_from(["a", "^a$", "b", "[0-9]", "^$"])


def operands(inner):
    """Operands of each keyword, made of the schemas `inner`."""
    some = st.lists(inner, min_size=1, max_size=3)
    return {
        "type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True),
        "enum": st.lists(values, min_size=1, max_size=3),
        "const": values,
        "anyOf": some,
        "oneOf": some,
        "allOf": some,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "minimum": numbers,
        "maximum": numbers,
        "exclusiveMinimum": numbers,
        "exclusiveMaximum": numbers,
        "multipleOf": st.sampled_from([1, 2, 3, 0.5, 0.25]),
        "minLength": counts,
        "maxLength": counts,
        "pattern": patterns,
        "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=2),
        "patternProperties": st.dictionaries(patterns, inner, max_size=2),
        "additionalProperties": inner,
        "required": name_lists,
        "minProperties": counts,
        "maxProperties": counts,
        "propertyNames": inner,
        "dependentRequired": st.dictionaries(st.sampled_from(NAMES), name_lists, max_size=2),
        "dependentSchemas": st.dictionaries(st.sampled_from(NAMES), inner, max_size=2),
        "prefixItems": some,
        "items": inner,
        "minItems": counts,
        "maxItems": counts,
        "uniqueItems": st.booleans(),
        "contains": inner,
        "minContains": counts,
        "maxContains": counts,
        "format": st.just("date"),
    }


def keywords(inner):
    """Schemas with a few keywords."""
    known = operands(inner)
    names = st.lists(st.sampled_from(sorted(known)), max_size=3, unique=True)
    return names.flatmap(lambda names: st.fixed_dictionaries({name: known[name] for name in names}))


references = st.sampled_from([{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/y~1z/items"}, {"$ref": "#/$defs/list/anyOf/0"}])
schemas = st.recursive(st.booleans() | references | keywords(st.booleans()), keywords, max_leaves=4)
LIST = {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/list"}}]}


def rooted(schema, x, y):
    if isinstance(schema, bool):
        return schema
    return {**schema, "$defs": {"x": x, "y/z": {"items": y}, "list": LIST}}


plain = st.recursive(st.booleans(), keywords, max_leaves=2)


@settings(max_examples=100)
@given(values, st.builds(rooted, schemas, plain, plain))
@example([[], [None, []]], {"$ref": "#/$defs/list", "$defs": {"list": LIST}})
@example([[], [1]], {"$ref": "#/$defs/list", "$defs": {"list": LIST}})
@example([1, True, 1.0], {"uniqueItems": True})
@example({"a": [True]}, {"enum": [{"a": [1]}]})
def test_problems_agree_with_reference_validator(value, schema):
    reference = jsonschema.Draft202012Validator(schema)

    assert (find_problems(value, schema) == ()) == reference.is_valid(value)


VALUES_OF_TYPE = {
    "": values,
    "number": st.sampled_from([0, 1, 2, 6, -1, 1.0, 1.5, 2.5]),
    "string": st.sampled_from(["", "a", "ab", "b1", "é"]),
    "array": st.lists(scalars, max_size=4),
    "object": st.dictionaries(st.sampled_from(NAMES), scalars, max_size=3),
}


@settings(max_examples=8)
@pytest.mark.parametrize("keyword", sorted({*module._KEYWORDS} - {"$ref"}))
@given(data=st.data())
def test_each_keyword_agrees_with_reference_validator(keyword, data):
    """Each keyword alone, with values of the type that it applies to."""
    schema = {keyword: data.draw(operands(st.booleans() | st.just({"type": "integer"}))[keyword])}
    value = data.draw(VALUES_OF_TYPE[module._KEYWORDS[keyword][0]])
    reference = jsonschema.Draft202012Validator(schema)

    assert (find_problems(value, schema) == ()) == reference.is_valid(value)


# --- messages ---------------------------------------------------------------------------------------------------------

TREE = {"type": "object", "properties": {"left": {"$ref": "#"}, "n": {"type": "integer"}}, "required": ["n"]}
CASES = [
    ({"colors": [3]}, {"properties": {"colors": {"items": {"type": "string"}}}}, "/colors/0: expected string, got number 3"),
    ("x", {"type": ["integer", "null"]}, '(root): expected integer or null, got string "x"'),
    (True, {"type": "integer"}, "(root): expected integer, got boolean true"),
    (None, {"type": "object"}, "(root): expected object, got null"),
    ([], {"type": "object"}, "(root): expected object, got an empty array"),
    ({"a": 1}, {"type": "array"}, "(root): expected array, got object of 1"),
    ("x" * 99, {"type": "null"}, f'(root): expected null, got string "{"x" * 59}...'),
    ({"a/b~": 1}, {"additionalProperties": {"type": "string"}}, "/a~1b~0: expected string, got number 1"),
    ({}, {"required": ["a"]}, '(root): property "a" is missing'),
    ({"c": 1}, {"properties": {"a": {}, "b": {}}, "additionalProperties": False},
     '(root): property "c" is not allowed; allowed are "a", "b"'),
    ({"c": 1}, {"additionalProperties": False}, '(root): property "c" is not allowed'),
    ("z", {"enum": ["a", 1]}, '(root): expected one of "a", 1, got string "z"'),
    (1, {"enum": list(range(2, 30))}, f"(root): expected one of {', '.join(map(str, range(2, 22)))}, ..., got number 1"),
    (1, {"const": {"a": 1}}, '(root): expected {"a": 1}, got number 1'),
    (1, {"not": {"type": "number"}}, '(root): must not match {"type": "number"}, got number 1'),
    (1, False, "(root): no value is allowed here, got number 1"),
    (1, {"minimum": 2}, "(root): expected at least 2, got number 1"),
    (1, {"maximum": 0}, "(root): expected at most 0, got number 1"),
    (1, {"exclusiveMinimum": 1}, "(root): expected more than 1, got number 1"),
    (1, {"exclusiveMaximum": 1}, "(root): expected less than 1, got number 1"),
    (7, {"multipleOf": 2}, "(root): expected a multiple of 2, got number 7"),
    ("a", {"minLength": 2}, "(root): expected at least 2 characters, got 1"),
    ("abc", {"maxLength": 2}, "(root): expected at most 2 characters, got 3"),
    ("b", {"pattern": "^a"}, '(root): expected text that matches "^a", got string "b"'),
    ([1], {"minItems": 2}, "(root): expected at least 2 items, got 1"),
    ([1, 2], {"maxItems": 1}, "(root): expected at most 1 item, got 2"),
    ([1, 2], {"prefixItems": [{}], "items": False}, "(root): expected at most 1 item, got 2"),
    ([1, 2, 1], {"uniqueItems": True}, "/2: equals item 0, but items must be unique"),
    ({}, {"minProperties": 1}, "(root): expected at least 1 property, got 0"),
    ({"a": 1}, {"maxProperties": 0}, "(root): expected at most 0 properties, got 1"),
    ({"a": 1}, {"propertyNames": {"minLength": 2}},
     '(root): invalid property name "a": (root): expected at least 2 characters, got 1'),
    ({"a": 1}, {"dependentRequired": {"a": ["b"]}}, '(root): property "b" is missing: "a" requires it'),
    ([1], {"contains": {"type": "null"}}, '(root): expected at least 1 item matching {"type": "null"}, got 0'),
    ([1], {"contains": {}, "maxContains": 0}, "(root): expected at most 0 items matching {}, got 1"),
    (1, {"oneOf": [{}, {"type": "number"}]}, "(root): matches 2 alternatives, but may match only one"),
    (1, {"if": {"type": "number"}, "then": {"minimum": 2}, "else": False}, "(root): expected at least 2, got number 1"),
    ("x", {"if": {"type": "number"}, "then": False, "else": {"minLength": 2}}, "(root): expected at least 2 characters, got 1"),
    ({"left": {"n": "x"}, "n": 1}, TREE, '/left/n: expected integer, got string "x"'),
    ([1, "x"], {"items": [{"type": "string"}]}, "/0: expected string, got number 1"),
    (1, {"$ref": "#/%24defs/a%20b", "$defs": {"a b": {"type": "null"}}}, "(root): expected null, got number 1"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "schema", "problem"), CASES)
def test_problem_has_pointer_and_expectation(value, schema, problem):
    assert find_problems(value, schema) == (problem,)


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_nearest_alternative_has_right_type_and_constants(keyword):
    """Type and constants count more than the number of problems."""
    schema = {
        keyword: [
            {"type": "null"},
            {"type": "object", "properties": {"kind": {"enum": ["cat"]}}},
            {"type": "object", "properties": {"kind": {"const": "dog"}}, "required": ["kind", "name", "age"]},
        ]
    }

    assert find_problems({"kind": "dog"}, schema) == (
        "(root): matches none of 3 alternatives; problems of the nearest one:",
        '(root): property "name" is missing',
        '(root): property "age" is missing',
    )


def test_nearest_alternative_has_fewest_problems():
    objects = [{"required": ["a", "b", "c"]}, {"required": ["d"]}, {"required": ["e", "f"]}]

    assert find_problems({}, {"anyOf": objects})[1:] == ('(root): property "d" is missing',)


def test_any_of_without_alternatives_matches_nothing():
    assert find_problems(1, {"anyOf": []}) == ("(root): matches none of 0 alternatives; problems of the nearest one:",)


@pytest.mark.parametrize(
    "schema", [{"format": "date"}, {"x-note": 1}, {"unevaluatedProperties": False}, {"then": False}]
)
def test_unsupported_keywords_are_ignored(schema):
    assert find_problems({"a": "x"}, schema) == ()


@pytest.mark.parametrize(
    ("value", "step", "valid"),
    [
        (0.3, 0.1, True),
        (0.35, 0.1, False),
        (1e308, 0.5, True),
        (10**30 + 1, 10, False),
        (-4, 2, True),
        (19.99, 0.01, True),
    ],
)
def test_multiple_of_allows_decimal_rounding(value, step, valid):
    assert (find_problems(value, {"multipleOf": step}) == ()) == valid


# --- invalid schemas and limits ---------------------------------------------------------------------------------------

INVALID_SCHEMAS = [
    {"type": 3}, {"enum": 1}, {"anyOf": {}}, {"properties": []}, {"required": "a"}, {"minimum": "1"}, {"minimum": True},
    {"items": 1}, {"additionalProperties": 0}, {"pattern": "("}, {"patternProperties": {"(": {}}}, {"multipleOf": 0},
    {"multipleOf": -1}, {"$ref": "#/nowhere"}, {"$ref": "#name"}, {"$ref": "http://x/y"}, {"$ref": 1}, {"allOf": [1]},
    {"$ref": "#"}, {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, {"properties": {"a": 1}}, {"pattern": "a{99999999999}"},
    {"$ref": "#/allOf/3", "allOf": [{}]}, {"$ref": "#/required", "required": []},
]  # fmt: skip


@pytest.mark.parametrize("schema", INVALID_SCHEMAS)
def test_invalid_schema_is_a_problem(schema):
    problems = [problem for value in (1, "a", {"a": 1}, [1]) for problem in find_problems(value, schema)]

    assert any(module.INVALID_SCHEMA in problem for problem in problems)


@pytest.mark.parametrize(
    ("keyword", "operand"),
    [("required", [["a"]]), ("dependentRequired", {"a": [[]]}), ("contains", {}), ("const", object)],
)
def test_invalid_nested_operands_do_not_crash(keyword, operand):
    schema = {keyword: operand, "minContains": "x", "maxContains": []}

    assert isinstance(find_problems({"a": [1]}, schema), tuple)
    assert isinstance(find_problems([1], schema), tuple)


@given(values, st.dictionaries(st.sampled_from([*module._KEYWORDS]), values | plain, max_size=4))
def test_any_operand_gives_a_list_of_problems(value, schema):
    assert all(isinstance(problem, str) for problem in find_problems(value, schema))


def test_values_that_are_not_json_have_no_json_type():
    assert find_problems({1, 2}, {"type": "array"}) == ("(root): expected array, got set {1, 2}",)
    assert find_problems(float("inf"), {"type": "number", "multipleOf": 2}) == (
        "(root): expected number, got float Infinity",
    )
    assert find_problems(object, {"enum": [object]}) == ()


def nested(depth):
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("schema", [{"items": {"$ref": "#"}}, {"const": 1, "enum": [1]}, {"uniqueItems": True}])
def test_depth_is_limited(schema):
    (problem,) = find_problems(nested(5000), schema)

    assert ("nested deeper than 250 levels" if "items" in schema else "nested too deeply") in problem


def test_eighty_levels_are_checked():
    assert find_problems(nested(80), {"anyOf": [{"type": "array", "items": {"$ref": "#"}}]}) == ()


def test_number_of_checks_is_limited(monkeypatch):
    """The alternatives of this schema double at each level."""
    monkeypatch.setattr(module, "MAX_CHECKS", 5000)
    twice = {"oneOf": [{"items": {"$ref": "#"}, "maxItems": 1}, {"items": {"$ref": "#"}, "minItems": 1}]}
    (problem,) = find_problems(nested(60), twice)

    assert problem.startswith("gave up after 5000 checks")


def test_list_of_problems_is_limited():
    problems = find_problems(list(range(50)), {"items": {"type": "string"}})

    assert len(problems) == module.MAX_PROBLEMS + 1
    assert problems[-1] == "and 30 more problems"


def test_value_and_schema_are_not_changed():
    value, schema = {"a": [1]}, {"properties": {"a": {"items": {"type": "string"}}}}
    before = json.dumps([value, schema])
    find_problems(value, schema)

    assert json.dumps([value, schema]) == before


def test_resolve_ref_follows_pointers_in_the_schema():
    root = {"$defs": {"a/b": {"type": "null"}}, "anyOf": [True]}

    assert resolve_ref(root, "#") is root
    assert resolve_ref(root, "#/$defs/a~1b") == {"type": "null"}
    assert resolve_ref(root, "#/anyOf/0") is True
    assert resolve_ref(root, "#/anyOf/x") is None
    assert resolve_ref(root, "#anyOf") is None
