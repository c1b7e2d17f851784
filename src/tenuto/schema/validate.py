"""Validate JSON values against a JSON Schema; a model can correct its answer from the problems.

Supported: the validation keywords of draft 2020-12, with references inside the schema. Ignored: `format` and
`content...` (annotations by default in the draft), `unevaluated...`, `$dynamicRef` and unknown keywords. The older list
form of `items` counts as `prefixItems`. Patterns use Python's syntax.

An invalid schema (unresolved reference, invalid pattern, reference loop) is a problem like any other. Work and depth are
limited, so that neither the schema nor the value can crash the validator or keep it busy.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

Schema: TypeAlias = "dict[str, Any]"
Problems: TypeAlias = "list[_Problem]"

MAX_CHECKS = 200_000
"""Limit for the number of pairs (part of the value, part of the schema) that one validation compares."""
MAX_DEPTH = 250
"""Limit for the nesting of value and schema together."""
MAX_PROBLEMS = 20
"""Number of problems that are listed; the others are counted."""
INVALID_SCHEMA = "invalid schema"
"""Part of every problem that no value can solve."""
_MAX_TEXT = 60
_MULTIPLE_PRECISION = 10**9
_INFINITY = float("inf")
_PERCENT_CODES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


def find_problems(value: Any, schema: Schema | bool) -> tuple[str, ...]:
    """Return the problems of a plain JSON value, each with its JSON pointer; empty if the value is valid.

    List at most `MAX_PROBLEMS`, and one more line with the number of the others.
    """
    try:
        problems = list(dict.fromkeys(map(str, _Validator(schema).check(value, schema, ""))))
    except _LimitExceeded as exc:
        return (str(exc),)
    except RecursionError:
        return ("the value or the schema is nested too deeply",)
    more = len(problems) - MAX_PROBLEMS
    return (*problems[:MAX_PROBLEMS], f"and {_plural(more, 'more problem')}") if more > 0 else tuple(problems)


def resolve_ref(root: Any, reference: Any) -> Schema | bool | None:
    """Return the part of the schema `root` that a `$ref` points to; None if there is no such part.

    Only JSON pointers into the same document are supported (`#`, `#/$defs/name`).
    """
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    pointer = _PERCENT_CODES.sub(
        lambda match: bytes.fromhex(match.group().replace("%", "")).decode("utf-8", "replace"), reference[1:]
    )
    if pointer and not pointer.startswith("/"):
        return None
    node: Any = root
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and key in node:
            node = node[key]
        elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node if isinstance(node, dict | bool) else None


class _LimitExceeded(Exception):
    """The validation reached `MAX_CHECKS` or `MAX_DEPTH`."""


class _Problem(NamedTuple):
    """One problem of the part of the value at a JSON pointer."""

    pointer: str
    message: str
    severity: int = 0
    """2: wrong type. 1: not an allowed constant, which often tells which alternative was meant. 0: anything else."""

    def __str__(self) -> str:
        return f"{self.pointer or '(root)'}: {self.message}"


class _Validator:
    """Validate values against the parts of one schema."""

    def __init__(self, root: Schema | bool) -> None:
        self._root = root
        self._checks_left = MAX_CHECKS
        self._depth = 0
        self._open_refs: set[tuple[str, str, int]] = set()
        self._patterns: dict[str, re.Pattern[str] | None] = {}

    def check(self, value: Any, schema: Any, pointer: str) -> Problems:
        """Return the problems of one part of the value."""
        if schema is True:
            return []
        if schema is False:
            return [_Problem(pointer, f"no value is allowed here, got {_describe(value)}")]
        if not isinstance(schema, dict):
            return [_Problem(pointer, f"{INVALID_SCHEMA}: {_to_text(schema)} is not a schema")]
        self._checks_left -= 1
        if self._checks_left < 0:
            raise _LimitExceeded(f"gave up after {MAX_CHECKS} checks: the schema or the value is too large")
        if self._depth >= MAX_DEPTH:
            raise _LimitExceeded(f"{pointer or '(root)'}: nested deeper than {MAX_DEPTH} levels")
        self._depth += 1
        problems: Problems = []
        for name, operand in schema.items():
            if name not in _KEYWORDS:
                continue
            value_type, operand_types, rule = _KEYWORDS[name]
            if not isinstance(operand, operand_types) or (isinstance(operand, bool) and operand_types is _NUMBER):
                problems.append(_Problem(pointer, f"{INVALID_SCHEMA}: {name} cannot be {_to_text(operand)}"))
            elif not value_type or value_type == _json_type(value):
                problems.extend(rule(self, value, operand, schema, pointer))
        self._depth -= 1
        return problems

    def is_valid(self, value: Any, schema: Any, pointer: str) -> bool:
        return not self.check(value, schema, pointer)

    def check_ref(self, value: Any, reference: str, _: Schema, pointer: str) -> Problems:
        """Validate against the part of the schema that a reference points to."""
        target = resolve_ref(self._root, reference)
        if target is None:
            return [_Problem(pointer, f"{INVALID_SCHEMA}: {_to_text(reference)} refers to nothing in it")]
        step = (reference, pointer, id(value))
        if step in self._open_refs:
            return [_Problem(pointer, f"{INVALID_SCHEMA}: {_to_text(reference)} refers to itself")]
        self._open_refs.add(step)
        problems = self.check(value, target, pointer)
        self._open_refs.discard(step)
        return problems

    def pattern(self, text: str) -> re.Pattern[str] | None:
        """Compile a pattern once; None if it is invalid."""
        if text not in self._patterns:
            try:
                self._patterns[text] = re.compile(text)
            except (re.error, OverflowError, RecursionError):
                self._patterns[text] = None
        return self._patterns[text]


# --- values -----------------------------------------------------------------------------------------------------------


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, float) and not -_INFINITY < value < _INFINITY:
        return "float"  # NaN and infinities are not JSON
    return next((name for kind, name in _JSON_TYPES if isinstance(value, kind)), type(value).__name__)


_JSON_TYPES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "boolean"),  # before the numbers: bool is a subclass of int
    (str, "string"),
    ((int, float), "number"),
    (dict, "object"),
    (list, "array"),
)


def _has_type(value: Any, name: str) -> bool:
    json_type = _json_type(value)
    if name == "integer":
        return json_type == "number" and value == value // 1
    return json_type == name


def _describe(value: Any) -> str:
    """Return the type of a value, with the value itself if it is a scalar."""
    json_type = _json_type(value)
    if json_type in ("object", "array"):
        return f"{json_type} of {len(value)}" if value else f"an empty {json_type}"
    return json_type if value is None else f"{json_type} {_to_text(value)}"


def _to_text(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


def _plural(number: float, noun: str) -> str:
    plural = "properties" if noun == "property" else f"{noun}s"
    return f"{_to_text(number)} {noun if number == 1 else plural}"


def _to_key(value: Any) -> Any:
    """Return a hashable form that is equal for equal JSON values: 1 equals 1.0, but not true."""
    match value:
        case bool():
            return ("boolean", value)
        case list():
            return ("array", tuple(map(_to_key, value)))
        case dict():
            return ("object", frozenset((name, _to_key(inner)) for name, inner in value.items()))
        case None | str() | int() | float():
            return value
    return ("other", repr(value))


def _is_multiple(value: float, step: float) -> bool:
    """Return True if `value` is a multiple of `step`, for decimal fractions up to rounding (0.3 and 0.1)."""
    (a, b), (c, d) = value.as_integer_ratio(), step.as_integer_ratio()
    quotient, remainder = divmod(abs(a * d), abs(b * c))
    if not remainder:
        return True
    if b == 1 and d == 1:
        return False
    error = min(remainder, abs(b * c) - remainder)
    return error * _MULTIPLE_PRECISION <= abs(b * c) * max(1, quotient)


def _join(pointer: str, step: str | int) -> str:
    return f"{pointer}/{str(step).replace('~', '~0').replace('/', '~1')}"


# --- keywords for any value -------------------------------------------------------------------------------------------

_Rule: TypeAlias = Callable[[_Validator, Any, Any, Schema, str], Iterable[_Problem]]
"""Validator, value, operand of the keyword, schema with the keyword, pointer of the value."""


def _type(_: _Validator, value: Any, names: Any, __: Schema, pointer: str) -> Iterator[_Problem]:
    allowed = [names] if isinstance(names, str) else names
    if not any(isinstance(name, str) and _has_type(value, name) for name in allowed):
        yield _Problem(pointer, f"expected {' or '.join(map(str, allowed))}, got {_describe(value)}", 2)


def _enum(_: _Validator, value: Any, options: list[Any], __: Schema, pointer: str) -> Iterator[_Problem]:
    key = _to_key(value)
    if not any(_to_key(option) == key for option in options):
        shown = ", ".join(map(_to_text, options[:MAX_PROBLEMS])) + (", ..." if len(options) > MAX_PROBLEMS else "")
        yield _Problem(pointer, f"expected one of {shown}, got {_describe(value)}", 1)


def _const(_: _Validator, value: Any, constant: Any, __: Schema, pointer: str) -> Iterator[_Problem]:
    if _to_key(constant) != _to_key(value):
        yield _Problem(pointer, f"expected {_to_text(constant)}, got {_describe(value)}", 1)


def _all_of(validator: _Validator, value: Any, parts: list[Any], _: Schema, pointer: str) -> Iterator[_Problem]:
    for part in parts:
        yield from validator.check(value, part, pointer)


def _any_of(validator: _Validator, value: Any, parts: list[Any], _: Schema, pointer: str) -> Iterable[_Problem]:
    results = []
    for part in parts:
        results.append(validator.check(value, part, pointer))
        if not results[-1]:
            return ()
    return _nearest(results, pointer)


def _one_of(validator: _Validator, value: Any, parts: list[Any], _: Schema, pointer: str) -> Iterable[_Problem]:
    results = [validator.check(value, part, pointer) for part in parts]
    matches = results.count([])
    if matches > 1:
        return [_Problem(pointer, f"matches {matches} alternatives, but may match only one")]
    return () if matches else _nearest(results, pointer)


def _nearest(results: list[Problems], pointer: str) -> Iterator[_Problem]:
    """Report the most likely alternative: right type, then right constants, then the fewest problems."""

    def distance(problems: Problems) -> tuple[int, int]:
        relevant = (problem.severity for problem in problems if problem.severity < 2 or problem.pointer == pointer)
        return max(relevant, default=0), len(problems)

    yield _Problem(pointer, f"matches none of {_plural(len(results), 'alternative')}; problems of the nearest one:")
    yield from min(results, key=distance, default=[])


def _not(validator: _Validator, value: Any, part: Any, _: Schema, pointer: str) -> Iterator[_Problem]:
    if validator.is_valid(value, part, pointer):
        yield _Problem(pointer, f"must not match {_to_text(part)}, got {_describe(value)}")


def _if(validator: _Validator, value: Any, part: Any, schema: Schema, pointer: str) -> Iterable[_Problem]:
    branch = "then" if validator.is_valid(value, part, pointer) else "else"
    return validator.check(value, schema[branch], pointer) if branch in schema else ()


# --- numbers and strings ----------------------------------------------------------------------------------------------


def _limit(words: str, compare: Callable[[Any, Any], bool], noun: str = "") -> _Rule:
    """Make the rule that a number, or with `noun` the length of a value, has to satisfy `compare(number, limit)`."""

    def rule(_: _Validator, value: Any, limit: Any, __: Schema, pointer: str) -> Iterator[_Problem]:
        if not compare(len(value) if noun else value, limit):
            expected = _plural(limit, noun) if noun else _to_text(limit)
            yield _Problem(pointer, f"expected {words} {expected}, got {len(value) if noun else _describe(value)}")

    return rule


def _multiple_of(_: _Validator, value: Any, step: Any, __: Schema, pointer: str) -> Iterator[_Problem]:
    if not 0 < step < _INFINITY:
        yield _Problem(pointer, f"{INVALID_SCHEMA}: multipleOf cannot be {_to_text(step)}")
    elif not _is_multiple(value, step):
        yield _Problem(pointer, f"expected a multiple of {_to_text(step)}, got {_describe(value)}")


def _pattern(validator: _Validator, value: str, text: str, _: Schema, pointer: str) -> Iterator[_Problem]:
    pattern = validator.pattern(text)
    if pattern is None:
        yield _invalid_pattern(pointer, text)
    elif not pattern.search(value):
        yield _Problem(pointer, f"expected text that matches {_to_text(text)}, got {_describe(value)}")


def _invalid_pattern(pointer: str, text: str) -> _Problem:
    return _Problem(pointer, f"{INVALID_SCHEMA}: {_to_text(text)} is not a valid Python regular expression")


# --- objects ----------------------------------------------------------------------------------------------------------


def _properties(
    validator: _Validator, value: dict[str, Any], parts: Schema, _: Schema, pointer: str
) -> Iterator[_Problem]:
    for name, part in parts.items():
        if name in value:
            yield from validator.check(value[name], part, _join(pointer, name))


def _pattern_properties(
    validator: _Validator, value: dict[str, Any], parts: Schema, _: Schema, pointer: str
) -> Iterator[_Problem]:
    for text, part in parts.items():
        pattern = validator.pattern(text)
        if pattern is None:
            yield _invalid_pattern(pointer, text)
            continue
        for name, inner in value.items():
            if pattern.search(name):
                yield from validator.check(inner, part, _join(pointer, name))


def _additional(
    validator: _Validator, value: dict[str, Any], part: Any, schema: Schema, pointer: str
) -> Iterator[_Problem]:
    known, texts = (schema.get(keyword) for keyword in ("properties", "patternProperties"))
    known = known if isinstance(known, dict) else {}
    patterns = [validator.pattern(text) for text in texts] if isinstance(texts, dict) else []
    for name, inner in value.items():
        if name in known or any(pattern.search(name) for pattern in patterns if pattern):
            continue
        if part is False:
            allowed = f"; allowed are {', '.join(map(_to_text, known))}" if known else ""
            yield _Problem(pointer, f"property {_to_text(name)} is not allowed{allowed}")
        else:
            yield from validator.check(inner, part, _join(pointer, name))


def _required(_: _Validator, value: dict[str, Any], names: list[Any], __: Schema, pointer: str) -> Iterator[_Problem]:
    return (_Problem(pointer, f"property {_to_text(name)} is missing") for name in names if not _has(value, name))


def _has(value: dict[str, Any], name: Any) -> bool:
    return isinstance(name, str) and name in value


def _property_names(
    validator: _Validator, value: dict[str, Any], part: Any, _: Schema, pointer: str
) -> Iterator[_Problem]:
    for name in value:
        if problems := validator.check(name, part, pointer):
            yield _Problem(pointer, f"invalid property name {_to_text(name)}: {problems[0]}")


def _dependent_required(
    _: _Validator, value: dict[str, Any], dependencies: Schema, __: Schema, pointer: str
) -> Iterator[_Problem]:
    for name, others in dependencies.items():
        for other in others if name in value and isinstance(others, list) else ():
            if not _has(value, other):
                yield _Problem(pointer, f"property {_to_text(other)} is missing: {_to_text(name)} requires it")


def _dependent_schemas(
    validator: _Validator, value: dict[str, Any], parts: Schema, _: Schema, pointer: str
) -> Iterator[_Problem]:
    for name, part in parts.items():
        if name in value:
            yield from validator.check(value, part, pointer)


# --- arrays -----------------------------------------------------------------------------------------------------------


def _prefix_items(
    validator: _Validator, value: list[Any], parts: list[Any], _: Schema, pointer: str
) -> Iterator[_Problem]:
    for index, (item, part) in enumerate(zip(value, parts, strict=False)):
        yield from validator.check(item, part, _join(pointer, index))


def _items(validator: _Validator, value: list[Any], part: Any, schema: Schema, pointer: str) -> Iterator[_Problem]:
    if isinstance(part, list):
        yield from _prefix_items(validator, value, part, schema, pointer)
        return
    prefix = schema.get("prefixItems")
    start = len(prefix) if isinstance(prefix, list) else 0
    if part is False and len(value) > start:
        yield _Problem(pointer, f"expected at most {_plural(start, 'item')}, got {len(value)}")
        return
    for index, item in enumerate(value[start:], start):
        yield from validator.check(item, part, _join(pointer, index))


def _unique(_: _Validator, value: list[Any], unique: bool, __: Schema, pointer: str) -> Iterator[_Problem]:
    first_index: dict[Any, int] = {}
    for index, item in enumerate(value if unique else ()):
        first = first_index.setdefault(_to_key(item), index)
        if first != index:
            yield _Problem(_join(pointer, index), f"equals item {first}, but items must be unique")


def _contains(validator: _Validator, value: list[Any], part: Any, schema: Schema, pointer: str) -> Iterator[_Problem]:
    matches = sum(validator.is_valid(item, part, _join(pointer, index)) for index, item in enumerate(value))
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    if isinstance(least, int | float) and matches < least:
        yield _Problem(pointer, f"expected at least {_plural(least, 'item')} matching {_to_text(part)}, got {matches}")
    if isinstance(most, int | float) and matches > most:
        yield _Problem(pointer, f"expected at most {_plural(most, 'item')} matching {_to_text(part)}, got {matches}")


_NUMBER = (int, float)
_SCHEMA = (dict, bool)
_KEYWORDS: dict[str, tuple[str, type | tuple[type, ...], _Rule]] = {
    "$ref": ("", str, _Validator.check_ref),
    "type": ("", (str, list), _type),
    "enum": ("", list, _enum),
    "const": ("", object, _const),
    "allOf": ("", list, _all_of),
    "anyOf": ("", list, _any_of),
    "oneOf": ("", list, _one_of),
    "not": ("", _SCHEMA, _not),
    "if": ("", _SCHEMA, _if),
    "minimum": ("number", _NUMBER, _limit("at least", operator.ge)),
    "maximum": ("number", _NUMBER, _limit("at most", operator.le)),
    "exclusiveMinimum": ("number", _NUMBER, _limit("more than", operator.gt)),
    "exclusiveMaximum": ("number", _NUMBER, _limit("less than", operator.lt)),
    "multipleOf": ("number", _NUMBER, _multiple_of),
    "minLength": ("string", _NUMBER, _limit("at least", operator.ge, "character")),
    "maxLength": ("string", _NUMBER, _limit("at most", operator.le, "character")),
    "pattern": ("string", str, _pattern),
    "properties": ("object", dict, _properties),
    "patternProperties": ("object", dict, _pattern_properties),
    "additionalProperties": ("object", _SCHEMA, _additional),
    "required": ("object", list, _required),
    "minProperties": ("object", _NUMBER, _limit("at least", operator.ge, "property")),
    "maxProperties": ("object", _NUMBER, _limit("at most", operator.le, "property")),
    "propertyNames": ("object", _SCHEMA, _property_names),
    "dependentRequired": ("object", dict, _dependent_required),
    "dependentSchemas": ("object", dict, _dependent_schemas),
    "prefixItems": ("array", list, _prefix_items),
    "items": ("array", (dict, bool, list), _items),
    "minItems": ("array", _NUMBER, _limit("at least", operator.ge, "item")),
    "maxItems": ("array", _NUMBER, _limit("at most", operator.le, "item")),
    "uniqueItems": ("array", bool, _unique),
    "contains": ("array", _SCHEMA, _contains),
}
"""For each keyword: the JSON type it applies to (empty: any), the types of its operand, and its rule."""
