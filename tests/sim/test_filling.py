"""Values for a JSON Schema fit it, use the words that were said, and come to an end whatever the schema."""

from __future__ import annotations

import time

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenuto.sim import patterns, schemas
from tenuto.sim.filling import fill
from tenuto.sim.mint import Mint

TEXTS = st.sampled_from(
    [
        "",
        "What's the weather in Oslo and Bergen?",
        "Book 3 nights in 'Hotel Ritz' from 2026-05-17, mail ada@example.org, see https://example.org/a and /tmp/x.txt",
        "red, green or 12.5 of each, a1 b2",
        "\ud800 \0 ((( [[[",
    ]
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from(["red", "green", "a b", ""]))
PATTERNS = [
    r"^[A-Z]{2}\d{4}$", r"^\d{3}-\d{4}$", r"^(foo|bar)+baz?$", r"^#[0-9a-fA-F]{6}$", r"[aeiou]", r"^\S+@\S+\.[a-z]{2,}$",
    r"^(?:[01]\d|2[0-3]):[0-5]\d$", r"^v?\d+(\.\d+){2}$", r"^[a-z]([a-z0-9-]{0,20}[a-z0-9])?$", r"^(?=.*\d)[a-z\d]{8,}$", r"^[^\s,]*$",
]  # fmt: skip
FORMATS = ["date", "time", "email", "uuid", "ipv4", "ipv6", "date-time", "uri", "hostname", "no-such-format"]
NAMES = st.sampled_from(["city", "count", "name", "unit", "is_open", "next", "url", "tags", "a-b", "x y", "ünï"])


def _bounds(low, high, size):
    """Two keywords that leave room for a value, either of which may be missing."""

    def between(pair):
        first, second = sorted(pair)
        return {low: first, high: second}

    both = st.tuples(size, size).map(between)
    return st.one_of(st.just({}), size.map(lambda n: {low: n}), size.map(lambda n: {high: n}), both)


def _joined(*strategies):
    return st.tuples(*strategies).map(lambda parts: {key: value for part in parts for key, value in part.items()})


def _maybe(**fields):
    return st.fixed_dictionaries({}, optional=fields)


@st.composite
def integers(draw):
    low = draw(st.integers(-50, 50))
    step = draw(st.sampled_from([1, 2, 3, 7]))
    schema = {"type": draw(st.sampled_from(["integer", "number", ["integer"]]))}
    schema |= draw(st.sampled_from([{}, {"multipleOf": step}]))
    schema |= draw(st.sampled_from([{}, {"minimum": low}, {"exclusiveMinimum": low}]))
    return schema | draw(st.sampled_from([{}, {"maximum": low + step + 1}, {"exclusiveMaximum": low + step + 1}]))


FLOATS = _joined(
    st.just({"type": "number"}),
    st.sampled_from(
        [
            {"minimum": 0.25, "maximum": 0.5},
            {"exclusiveMinimum": 0, "exclusiveMaximum": 1},
            {"exclusiveMinimum": 0.1, "exclusiveMaximum": 0.11},
            {"multipleOf": 0.1, "minimum": 0.25},
            {"multipleOf": 0.01, "exclusiveMinimum": -3, "maximum": -2.9},
            {"maximum": -1e9},
            {"minimum": 1e18},
        ]
    ),
)
LENGTHS = _joined(
    st.just({"type": "string"}),
    _bounds("minLength", "maxLength", st.integers(0, 30)),
    _maybe(default=st.text(max_size=5)),
)
TEXT_KINDS = st.one_of(
    LENGTHS,
    st.sampled_from(PATTERNS).map(lambda pattern: {"type": "string", "pattern": pattern}),
    st.sampled_from(FORMATS).map(lambda name: {"type": "string", "format": name}),
)
LEAVES = st.one_of(
    integers(),
    FLOATS,
    TEXT_KINDS,
    st.sampled_from(
        [
            True,
            {},
            {"type": "boolean"},
            {"type": "null"},
            {"type": ["string", "null"]},
            {"minLength": 3},
            {"minimum": 7},
        ]
    ),
    SCALARS.map(lambda value: {"const": value}),
    st.lists(SCALARS, min_size=1, max_size=4).map(lambda values: {"enum": values}),
    st.just({"$ref": "#/$defs/leaf"}),
)


@st.composite
def objects(draw, inner):
    properties = draw(st.dictionaries(NAMES, inner, max_size=4))
    names = list(properties)
    schema = {"type": "object", "properties": properties}
    if names:
        schema["required"] = draw(st.lists(st.sampled_from(names), unique=True))
    if draw(st.booleans()):
        schema["additionalProperties"] = False
    else:
        least = draw(st.integers(0, 5))
        schema |= draw(st.sampled_from([{}, {"minProperties": least}, {"additionalProperties": {"type": "integer"}}]))
        if draw(st.booleans()):
            schema |= {"propertyNames": {"pattern": "^[a-zü]"}, "patternProperties": {"^z": {"type": "boolean"}}}
    return schema


@st.composite
def arrays(draw, inner):
    schema = {"type": "array", "items": draw(inner)} | draw(_bounds("minItems", "maxItems", st.integers(0, 4)))
    if draw(st.booleans()):
        schema["prefixItems"] = draw(st.lists(inner, min_size=1, max_size=2))
    return schema


UNIQUE = st.sampled_from(
    [
        {"type": "integer"},
        {"type": "string", "pattern": r"^[a-z]\d$"},
        {"type": "string"},
        {"enum": ["a", "b", "c", 1, True]},
        {"type": ["boolean", "integer"]},
        {"type": "array", "items": {"type": "integer"}},
        {"type": "object", "properties": {"id": {"type": "integer", "minimum": 4}}, "required": ["id"]},
    ]
).map(lambda items: {"type": "array", "items": items, "uniqueItems": True, "minItems": 3, "maxItems": 4})


def _choices(inner):
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda found: {"anyOf": found}),
        inner.map(lambda found: {"oneOf": [found, {"type": "null", "const": "never"}]}),
        st.just({"oneOf": [{"type": "integer", "multipleOf": 3}, {"type": "integer", "multipleOf": 5}]}),
        inner.map(lambda found: {"allOf": [found, {"description": "the same"}]}),
        st.just(
            {
                "allOf": [
                    {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                    {"required": ["b"], "minProperties": 3},
                ],
                "type": "object",
            }
        ),
        st.just({"not": {"type": "string"}}),
        st.just(
            {
                "type": "object",
                "properties": {"kind": {"enum": ["x", "y"]}},
                "if": {"properties": {"kind": {"const": "x"}}, "required": ["kind"]},
                "then": {"required": ["z"]},
                "required": ["kind"],
            }
        ),
        st.just({"type": "array", "contains": {"const": 7}, "items": {"type": "integer"}, "minContains": 2}),
        st.just(
            {
                "type": "object",
                "properties": {"a": True, "b": True},
                "required": ["a"],
                "dependentRequired": {"a": ["b"]},
            }
        ),
    )


SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(objects(inner), arrays(inner), _choices(inner), UNIQUE, st.just({"$ref": "#/$defs/tree"})),
    max_leaves=8,
)
DEFS = {
    "leaf": {"type": "integer", "minimum": 3},
    "tree": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "left": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
            "rest": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
        },
        "required": ["name", "left", "rest"],
        "additionalProperties": False,
    },
}


def judge(schema):
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


@settings(max_examples=200)
@given(SCHEMAS, TEXTS, st.sampled_from(["mentioned", "all", "least"]))
def test_every_value_fits_its_schema(schema, text, extent):
    whole = {"$defs": DEFS, **schema} if isinstance(schema, dict) else schema
    value = fill(whole, text, Mint("seed", "request"), extent)

    judge(whole).validate(value)
    assert schemas.fits(value, whole)


TEXT, WHOLE, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
KEYWORDS = [
    *schemas._KEYWORDS,
    "nullable",
    "default",
    "examples",
    "description",
    "then",
    "else",
    "additionalItems",
    "$defs",
    "title",
]
ODD = st.recursive(
    st.one_of(SCALARS, st.sampled_from(["#", "#/$defs/x", "(", "string", "OBJECT", 1e300, -1, 10**40, 0.5])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(st.sampled_from(KEYWORDS), NAMES), inner, max_size=5)
    ),
    max_leaves=15,
)


@settings(max_examples=200)
@given(ODD, TEXTS)
def test_nonsense_gets_a_best_effort(schema, text):
    fill(schema, text, Mint("seed", "request"))


def knot(**keywords):
    """A schema that leads back to itself, twice at each step."""
    return {
        "type": "object",
        "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}},
        "required": ["a", "b"],
        **keywords,
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}, {"$ref": "#"}]},
        knot(),
        knot(anyOf=[{"$ref": "#"}, {"$ref": "#"}, {"$ref": "#"}]),
        {"type": "array", "items": {"$ref": "#"}, "minItems": 5},
        {"type": "array", "minItems": 10**9},
        {"type": "string", "minLength": 10**9},
        {"type": "object", "minProperties": 10**9},
        {"type": "string", "pattern": "^(a{1000}){1000}$"},
        {"type": "string", "pattern": "((((((((((a*)*)*)*)*)*)*)*)*)*)*$"},
        {"type": "string", "pattern": "^(\\w)\\1\\1$"},
        {"type": "string", "pattern": "("},
        {"type": "integer", "minimum": 5, "maximum": 4},
        {"enum": []},
        {"not": {}},
        False,
    ],
    ids=str,
)
def test_what_cannot_be_filled_comes_to_an_end(schema):
    began = time.process_time()
    fill(schema, "some words for Ada", Mint("seed", "request"), "all")

    assert time.process_time() - began < 3


def test_what_one_side_shuts_out_is_left_out():
    closed = {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "additionalProperties": False}
    schema = {"allOf": [closed, {"properties": {"b": {"minLength": 30}, "c": TEXT}}]}

    assert {"a", "b"} == fill(schema, "", Mint("seed", "request"), "all").keys()


@pytest.mark.parametrize(
    "one, other", [(1, True), (0, False), ([1], [True]), ({"a": 0}, {"a": False}), ("1", 1), (None, 0)]
)
def test_true_is_no_number(one, other):
    assert schemas.fits(one, {"const": one})
    assert not schemas.fits(one, {"const": other})
    assert schemas.fits([one, other], {"uniqueItems": True})


def test_same_seed_same_value():
    schema = {"type": "array", "items": {"type": "string", "format": "uuid"}, "minItems": 3}

    assert fill(schema, "", Mint("a", "r")) == fill(schema, "", Mint("a", "r")) != fill(schema, "", Mint("b", "r"))


def fields(*optional, **properties):
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }


@pytest.mark.parametrize(
    "text, schema, value",
    [
        ("What's the weather in Oslo?", fields(city=TEXT), {"city": "Oslo"}),
        ("weather in Oslo in fahrenheit", fields("unit", location=TEXT, unit={"enum": ["celsius", "fahrenheit"]}), {"location": "Oslo", "unit": "fahrenheit"}),
        ("weather in Oslo", fields("unit", location=TEXT, unit={"enum": ["celsius"], "default": "celsius"}), {"location": "Oslo"}),
        (
            "Book a flight from Oslo to San Francisco on 2026-05-17 for 2 passengers",
            fields(origin=TEXT, destination=TEXT, date={"type": "string", "format": "date"}, passengers=WHOLE),
            {"origin": "Oslo", "destination": "San Francisco", "date": "2026-05-17", "passengers": 2},
        ),
        ("Add 3 and 4.5", fields(a=NUMBER, b=NUMBER), {"a": 3, "b": 4.5}),
        ("What is 27 * 453?", fields(expression=TEXT), {"expression": "27 * 453"}),
        ("Search the web for otters in rivers", fields("limit", query=TEXT, limit={"type": "integer", "default": 10}), {"query": "otters in rivers"}),
        ("Read src/main.py, please", fields(path=TEXT), {"path": "src/main.py"}),
        ("Fetch https://example.org/a?b=1.", fields(url={"type": "string", "format": "uri"}), {"url": "https://example.org/a?b=1"}),
        ("Send 'hello there' to ada@example.org", fields(to=TEXT, body=TEXT), {"to": "ada@example.org", "body": "hello there"}),
        ("Compare Oslo, Bergen and New York", fields(cities={"type": "array", "items": TEXT}), {"cities": ["Oslo", "Bergen", "New York"]}),
        ("Ada Lovelace is 36 years old and lives in London", fields(name=TEXT, age=WHOLE, city=TEXT), {"name": "Ada Lovelace", "age": 36, "city": "London"}),
        ("List files, recursive, without hidden ones", fields(recursive={"type": "boolean"}, hidden={"type": "boolean"}), {"recursive": True, "hidden": False}),
        ("user id 42, three nights", fields(nights=WHOLE, user_id=WHOLE), {"nights": 3, "user_id": 42}),
        ("the title is Dune", fields("author", title={"type": "STRING"}, author={"type": "STRING"}), {"title": "Dune"}),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)  # fmt: skip
def test_words_go_where_they_belong(text, schema, value):
    assert fill(schema, text, Mint("seed", "request")) == value


@pytest.mark.parametrize("pattern", PATTERNS)
def test_examples_match_their_pattern(pattern):
    found = list(patterns.examples(pattern, 0, 40))

    assert found
    assert all(patterns.matches(pattern, text) and len(text) <= 40 for text in found)


@pytest.mark.parametrize(
    "schema",
    [{"type": "string", "pattern": "^[a-z]+$", "minLength": 17, "maxLength": 17}, {"pattern": "x", "minLength": 30}],
)
def test_pattern_and_length_together(schema):
    judge(schema).validate(fill(schema, "", Mint("seed", "request")))


@settings(max_examples=150)
@given(
    SCHEMAS,
    st.recursive(
        SCALARS,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
        max_leaves=5,
    ),
)
def test_fits_agrees_with_the_judge(schema, value):
    whole = {"$defs": DEFS, **schema} if isinstance(schema, dict) else schema

    assert schemas.fits(value, whole) == jsonschema.Draft202012Validator(whole).is_valid(value) or "format" in str(
        schema
    )
