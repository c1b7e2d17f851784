"""Validate JSON values against a JSON Schema; a model can correct its answer from the problems.

Supported are the validation keywords of draft 2020-12 with references inside the schema, and the list form of `items`;
`format`, `content...`, `unevaluated...`, `$dynamicRef` and unknown keywords are ignored. Patterns use Python's syntax.
An invalid schema is a problem like any other. Work and depth are limited, so that neither schema nor value can crash
the validator or keep it busy.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

Schema = dict[str, Any]

MAX_CHECKS = 200_000
"""Limit for the number of pairs (part of the value, part of the schema) that one validation compares."""
MAX_DEPTH = 250
"""Limit for the nesting of value and schema together."""
MAX_PROBLEMS = 20
"""Number of problems that are listed; the others are counted."""
INVALID_SCHEMA = "invalid schema"
"""Part of every problem that no value can solve."""
_MAX_TEXT = 60
_INFINITY = float("inf")
_JSON_TYPES = {bool: "boolean", str: "string", int: "number", float: "number", dict: "object", list: "array"}


def find_problems(value: Any, schema: Schema | bool) -> tuple[str, ...]:
    """Return the problems of a value with JSON pointers: at most `MAX_PROBLEMS`, and the number of others."""
    try:
        problems = list(dict.fromkeys(map(str, _Validator(schema).check(value, schema, ""))))
    except _LimitExceeded as exc:
        return (str(exc),)
    except RecursionError:
        return ("the value or the schema is nested too deeply",)
    more = len(problems) - MAX_PROBLEMS
    return (*problems[:MAX_PROBLEMS], f"and {_plural(more, 'more problem')}") if more > 0 else tuple(problems)


_TABLES = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_SUBSCHEMAS = (
    "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "items", "prefixItems", "contains", "propertyNames",
    "additionalProperties",
)  # fmt: skip
_TYPE_NAMES = ("object", "array", "string", "number", "integer", "boolean", "null")


def find_schema_problem(root: Any) -> str:
    """Return the first keyword of a JSON Schema that no value can satisfy, with its JSON pointer; empty without one."""
    parts = [("", root)]
    for pointer, part in parts:  # it grows
        if isinstance(part, bool):
            continue
        if not isinstance(part, dict):
            return f"{pointer or '(root)'}: {_to_text(part)} is not a schema"
        for name, operand in part.items():
            if problem := _keyword_problem(root, name, operand):
                return f"{pointer}/{name}: {problem}"
            if name in _SUBSCHEMAS and not isinstance(operand, list):
                parts.append((f"{pointer}/{name}", operand))
            elif name in _SUBSCHEMAS or name in _TABLES:
                below: Iterable[tuple[object, Any]] = operand.items() if name in _TABLES else enumerate(operand)
                parts += [(f"{pointer}/{name}/{step}", schema) for step, schema in below]
    return ""


def _keyword_problem(root: Any, name: str, operand: Any) -> str:
    operand_types = dict if name in _TABLES else _KEYWORDS[name][1] if name in _KEYWORDS else object
    if not isinstance(operand, operand_types) or (isinstance(operand, bool) and operand_types is _NUMBER):
        return f"{name} cannot be {_to_text(operand)}"
    if name == "$ref" and resolve_ref(root, operand) is None:
        return f"{_to_text(operand)} refers to nothing in it"
    types: Any = [operand] if isinstance(operand, str) else operand
    unknown = [one for one in types if one not in _TYPE_NAMES] if name == "type" else []
    return f"unknown type {unknown[0]!r}; use one of {', '.join(_TYPE_NAMES)}" if unknown else ""


def resolve_ref(root: Any, reference: Any) -> Schema | bool | None:
    """Return the part of the schema `root` that a `$ref` (`#`, `#/$defs/name`) points to, if there is one."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    pointer = unquote(reference[1:])
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
    """Validate values against the parts of one schema.

    The method of a keyword has the parameters `value`, the operand of the keyword, the schema with the keyword, and the
    pointer of the value.
    """

    def __init__(self, root: Schema | bool) -> None:
        self._root = root
        self._checks_left = MAX_CHECKS
        self._depth = 0
        self._open_refs: set[tuple[str, str, int]] = set()
        self._patterns: dict[str, re.Pattern[str] | None] = {}

    def check(self, value: Any, schema: Any, pointer: str) -> list[_Problem]:
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
        problems: list[_Problem] = []
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

    def _pattern_for(self, text: str) -> re.Pattern[str] | None:
        """Compile a pattern once; None if it is invalid."""
        if text not in self._patterns:
            try:
                self._patterns[text] = re.compile(text)
            except (re.error, OverflowError, RecursionError):
                self._patterns[text] = None
        return self._patterns[text]

    def ref(self, value: Any, reference: str, _: Schema, pointer: str) -> list[_Problem]:
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

    def type(self, value: Any, names: Any, _: Schema, pointer: str) -> Iterator[_Problem]:
        allowed = [names] if isinstance(names, str) else names
        types = [_json_type(value)]
        if types == ["number"] and value == value // 1:
            types.append("integer")
        if not any(name in types for name in allowed):
            yield _Problem(pointer, f"expected {' or '.join(map(str, allowed))}, got {_describe(value)}", 2)

    def enum(self, value: Any, options: list[Any], _: Schema, pointer: str) -> Iterator[_Problem]:
        key = _to_key(value)
        if not any(_to_key(option) == key for option in options):
            shown = ", ".join(map(_to_text, options[:MAX_PROBLEMS])) + (", ..." if len(options) > MAX_PROBLEMS else "")
            yield _Problem(pointer, f"expected one of {shown}, got {_describe(value)}", 1)

    def const(self, value: Any, constant: Any, _: Schema, pointer: str) -> Iterator[_Problem]:
        if _to_key(constant) != _to_key(value):
            yield _Problem(pointer, f"expected {_to_text(constant)}, got {_describe(value)}", 1)

    def all_of(self, value: Any, parts: list[Any], _: Schema, pointer: str) -> Iterator[_Problem]:
        for part in parts:
            yield from self.check(value, part, pointer)

    def any_of(self, value: Any, parts: list[Any], _: Schema, pointer: str) -> Iterable[_Problem]:
        results = []
        for part in parts:
            results.append(self.check(value, part, pointer))
            if not results[-1]:
                return ()
        return _nearest(results, pointer)

    def one_of(self, value: Any, parts: list[Any], _: Schema, pointer: str) -> Iterable[_Problem]:
        results = [self.check(value, part, pointer) for part in parts]
        matches = results.count([])
        if matches > 1:
            return [_Problem(pointer, f"matches {matches} alternatives, but may match only one")]
        return () if matches else _nearest(results, pointer)

    def not_(self, value: Any, part: Any, _: Schema, pointer: str) -> Iterator[_Problem]:
        if not self.check(value, part, pointer):
            yield _Problem(pointer, f"must not match {_to_text(part)}, got {_describe(value)}")

    def if_(self, value: Any, part: Any, schema: Schema, pointer: str) -> Iterable[_Problem]:
        branch = "else" if self.check(value, part, pointer) else "then"
        return self.check(value, schema[branch], pointer) if branch in schema else ()

    def multiple_of(self, value: Any, step: Any, _: Schema, pointer: str) -> Iterator[_Problem]:
        if not 0 < step < _INFINITY:
            yield _Problem(pointer, f"{INVALID_SCHEMA}: multipleOf cannot be {_to_text(step)}")
        elif not _is_multiple(value, step):
            yield _Problem(pointer, f"expected a multiple of {_to_text(step)}, got {_describe(value)}")

    def pattern(self, value: str, text: str, _: Schema, pointer: str) -> Iterator[_Problem]:
        pattern = self._pattern_for(text)
        if pattern is None:
            yield _invalid_pattern(pointer, text)
        elif not pattern.search(value):
            yield _Problem(pointer, f"expected text that matches {_to_text(text)}, got {_describe(value)}")

    def properties(self, value: Schema, parts: Schema, _: Schema, pointer: str) -> Iterator[_Problem]:
        for name, part in parts.items():
            if name in value:
                yield from self.check(value[name], part, _join(pointer, name))

    def pattern_properties(self, value: Schema, parts: Schema, _: Schema, pointer: str) -> Iterator[_Problem]:
        for text, part in parts.items():
            pattern = self._pattern_for(text)
            if pattern is None:
                yield _invalid_pattern(pointer, text)
                continue
            for name, inner in value.items():
                if pattern.search(name):
                    yield from self.check(inner, part, _join(pointer, name))

    def additional(self, value: Schema, part: Any, schema: Schema, pointer: str) -> Iterator[_Problem]:
        known, texts = (schema.get(keyword) for keyword in ("properties", "patternProperties"))
        known = known if isinstance(known, dict) else {}
        patterns = [self._pattern_for(text) for text in texts] if isinstance(texts, dict) else []
        for name, inner in value.items():
            if name in known or any(pattern.search(name) for pattern in patterns if pattern):
                continue
            if part is False:
                allowed = f"; allowed are {', '.join(map(_to_text, known))}" if known else ""
                yield _Problem(pointer, f"property {_to_text(name)} is not allowed{allowed}")
            else:
                yield from self.check(inner, part, _join(pointer, name))

    def required_properties(self, value: Schema, names: list[Any], _: Schema, pointer: str) -> Iterator[_Problem]:
        for name in _missing(value, names):
            yield _Problem(pointer, f"property {name} is missing")

    def dependent_required(self, value: Schema, names: Schema, _: Schema, pointer: str) -> Iterator[_Problem]:
        for name, others in names.items():
            for other in _missing(value, others) if name in value and isinstance(others, list) else ():
                yield _Problem(pointer, f"property {other} is missing: {_to_text(name)} requires it")

    def dependent_schemas(self, value: Schema, parts: Schema, _: Schema, pointer: str) -> Iterator[_Problem]:
        for name, part in parts.items():
            if name in value:
                yield from self.check(value, part, pointer)

    def property_names(self, value: Schema, part: Any, _: Schema, pointer: str) -> Iterator[_Problem]:
        for name in value:
            if problems := self.check(name, part, pointer):
                yield _Problem(pointer, f"invalid property name {_to_text(name)}: {problems[0]}")

    def prefix_items(self, value: list[Any], parts: list[Any], _: Schema, pointer: str) -> Iterator[_Problem]:
        for index, (item, part) in enumerate(zip(value, parts, strict=False)):
            yield from self.check(item, part, _join(pointer, index))

    def items(self, value: list[Any], part: Any, schema: Schema, pointer: str) -> Iterator[_Problem]:
        if isinstance(part, list):
            yield from self.prefix_items(value, part, schema, pointer)
            return
        prefix = schema.get("prefixItems")
        start = len(prefix) if isinstance(prefix, list) else 0
        if part is False and len(value) > start:
            yield _Problem(pointer, f"expected at most {_plural(start, 'item')}, got {len(value)}")
            return
        for index, item in enumerate(value[start:], start):
            yield from self.check(item, part, _join(pointer, index))

    def unique(self, value: list[Any], unique: bool, _: Schema, pointer: str) -> Iterator[_Problem]:
        first_index: dict[Any, int] = {}
        for index, item in enumerate(value if unique else ()):
            first = first_index.setdefault(_to_key(item), index)
            if first != index:
                yield _Problem(_join(pointer, index), f"equals item {first}, but items must be unique")

    def contains(self, value: list[Any], part: Any, schema: Schema, pointer: str) -> Iterator[_Problem]:
        matches = sum(not self.check(item, part, _join(pointer, index)) for index, item in enumerate(value))
        least, most = schema.get("minContains", 1), schema.get("maxContains")
        for words, limit, compare in (("at least", least, operator.ge), ("at most", most, operator.le)):
            if isinstance(limit, int | float) and not compare(matches, limit):
                expected = f"{words} {_plural(limit, 'item')} matching {_to_text(part)}"
                yield _Problem(pointer, f"expected {expected}, got {matches}")


def _limit(words: str, compare: Callable[[Any, Any], bool], noun: str = "") -> _Rule:
    """Make the rule that a number, or with `noun` the length of a value, has to satisfy `compare(number, limit)`."""

    def rule(_: _Validator, value: Any, limit: Any, __: Schema, pointer: str) -> Iterator[_Problem]:
        if not compare(len(value) if noun else value, limit):
            expected = _plural(limit, noun) if noun else _to_text(limit)
            yield _Problem(pointer, f"expected {words} {expected}, got {len(value) if noun else _describe(value)}")

    return rule


_Rule: TypeAlias = Callable[[_Validator, Any, Any, Schema, str], Iterable[_Problem]]
_NUMBER = (int, float)
_SCHEMA = (dict, bool)
_KEYWORDS: dict[str, tuple[str, type | tuple[type, ...], _Rule]] = {
    "$ref": ("", str, _Validator.ref),
    "type": ("", (str, list), _Validator.type),
    "enum": ("", list, _Validator.enum),
    "const": ("", object, _Validator.const),
    "allOf": ("", list, _Validator.all_of),
    "anyOf": ("", list, _Validator.any_of),
    "oneOf": ("", list, _Validator.one_of),
    "not": ("", _SCHEMA, _Validator.not_),
    "if": ("", _SCHEMA, _Validator.if_),
    "minimum": ("number", _NUMBER, _limit("at least", operator.ge)),
    "maximum": ("number", _NUMBER, _limit("at most", operator.le)),
    "exclusiveMinimum": ("number", _NUMBER, _limit("more than", operator.gt)),
    "exclusiveMaximum": ("number", _NUMBER, _limit("less than", operator.lt)),
    "multipleOf": ("number", _NUMBER, _Validator.multiple_of),
    "minLength": ("string", _NUMBER, _limit("at least", operator.ge, "character")),
    "maxLength": ("string", _NUMBER, _limit("at most", operator.le, "character")),
    "pattern": ("string", str, _Validator.pattern),
    "properties": ("object", dict, _Validator.properties),
    "patternProperties": ("object", dict, _Validator.pattern_properties),
    "additionalProperties": ("object", _SCHEMA, _Validator.additional),
    "required": ("object", list, _Validator.required_properties),
    "minProperties": ("object", _NUMBER, _limit("at least", operator.ge, "property")),
    "maxProperties": ("object", _NUMBER, _limit("at most", operator.le, "property")),
    "propertyNames": ("object", _SCHEMA, _Validator.property_names),
    "dependentRequired": ("object", dict, _Validator.dependent_required),
    "dependentSchemas": ("object", dict, _Validator.dependent_schemas),
    "prefixItems": ("array", list, _Validator.prefix_items),
    "items": ("array", (dict, bool, list), _Validator.items),
    "minItems": ("array", _NUMBER, _limit("at least", operator.ge, "item")),
    "maxItems": ("array", _NUMBER, _limit("at most", operator.le, "item")),
    "uniqueItems": ("array", bool, _Validator.unique),
    "contains": ("array", _SCHEMA, _Validator.contains),
}
"""For each keyword: the JSON type it applies to (empty: any), the types of its operand, and its rule."""


def _nearest(results: list[list[_Problem]], pointer: str) -> Iterator[_Problem]:
    """Report the most likely alternative: right type, then right constants, then the fewest problems."""

    def distance(problems: list[_Problem]) -> tuple[int, int]:
        relevant = (problem.severity for problem in problems if problem.severity < 2 or problem.pointer == pointer)
        return max(relevant, default=0), len(problems)

    yield _Problem(pointer, f"matches none of {_plural(len(results), 'alternative')}; problems of the nearest one:")
    yield from min(results, key=distance, default=[])


def _invalid_pattern(pointer: str, text: str) -> _Problem:
    return _Problem(pointer, f"{INVALID_SCHEMA}: {_to_text(text)} is not a valid Python regular expression")


def _missing(value: Schema, names: list[Any]) -> list[str]:
    """Return the names, as JSON text, that are not properties of the value."""
    return [_to_text(name) for name in names if not (isinstance(name, str) and name in value)]


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, float) and not -_INFINITY < value < _INFINITY:
        return "float"  # NaN and infinities are not JSON
    return _JSON_TYPES.get(type(value), type(value).__name__)


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
    return error * 10**9 <= abs(b * c) * max(1, quotient)


def _join(pointer: str, step: str | int) -> str:
    return f"{pointer}/{str(step).replace('~', '~0').replace('/', '~1')}"
