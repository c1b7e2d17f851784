"""Schemas made flat: references looked up, `allOf` put together, one `anyOf` or `oneOf` after the other chosen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from tenuto.sim.schemas import is_number, same, target, types

__all__ = ["flattened", "merged"]

_COMPOSED = ("$ref", "allOf", "anyOf", "oneOf", "if", "then", "else")
_LEVELS = 8
_VARIANTS = 24
_NEVER: dict[str, Any] = {"not": {}}


def flattened(schema: object, root: object, plain_first: bool = False) -> Iterator[dict[str, Any]]:
    """Yield flat schemas; a value that fits one of them is likely to fit this schema, and the first is the likeliest.

    With `plain_first`, choices that lead nowhere deeper come first.
    """
    return islice(_flat(schema, root, plain_first, 0), _VARIANTS)


def _flat(schema: object, root: object, plain_first: bool, level: int) -> Iterator[dict[str, Any]]:
    if not isinstance(schema, dict):
        yield {} if schema is not False else _NEVER
        return
    base = {key: value for key, value in schema.items() if key not in _COMPOSED}
    if level > _LEVELS:
        yield base
        return
    yield from _combined(base, _pools(schema, root, plain_first), root, plain_first, level + 1)


def _combined(
    base: dict[str, Any], pools: list[list[Any]], root: object, plain_first: bool, level: int
) -> Iterator[dict[str, Any]]:
    """Yield the base with one schema of each pool put on top of it."""
    if not pools:
        yield base
        return
    for choice in pools[0]:
        for flat in islice(_flat(choice, root, plain_first, level), _VARIANTS):
            yield from _combined(merged(base, flat), pools[1:], root, plain_first, level)


def _pools(schema: dict[str, Any], root: object, plain_first: bool) -> list[list[Any]]:
    pools: list[list[Any]] = []
    if "$ref" in schema:
        pools.append([target(root, schema["$ref"])])
    if isinstance(schema.get("allOf"), list):
        pools.extend([one] for one in schema["allOf"])
    order = _effort if plain_first else _oddity
    choices = (schema.get(key) for key in ("anyOf", "oneOf"))
    pools.extend(sorted(choice, key=order) for choice in choices if isinstance(choice, list) and choice)
    if "if" in schema:
        then = {"allOf": [schema["if"], schema.get("then", True)]}
        pools.append([then, {"allOf": [schema.get("else", True), {"not": schema["if"]}]}])
    return pools


def _oddity(schema: object) -> int:
    """Null is chosen last."""
    return int(isinstance(schema, dict) and (types(schema) == {"null"} or schema.get("const", 0) is None))


def _effort(schema: object) -> int:
    """What leads deeper is chosen last."""
    if not isinstance(schema, dict):
        return 0
    if "const" in schema or "enum" in schema:
        return 0
    return 3 if "$ref" in schema else 2 if types(schema) & {"object", "array"} or "properties" in schema else 1


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Put two flat schemas together, as far as one flat schema can say it."""
    if not one or not other:
        return other or one
    found = {**other, **one}
    for key in one.keys() & other.keys():
        if key in _MERGE:
            found[key] = _MERGE[key](one[key], other[key])
    if types(one) and types(other):
        found["type"] = _types(types(one), types(other))
        found.pop("nullable", None)
    _close(found, one, other)
    return found


def _types(one: frozenset[str], other: frozenset[str]) -> list[str]:
    both = one & other
    if ("integer" in one and "number" in other) or ("number" in one and "integer" in other):
        both |= {"integer"}
    return sorted(both) or sorted(one)


def _close(found: dict[str, Any], one: dict[str, Any], other: dict[str, Any]) -> None:
    """A name that either side shuts out is no property any more."""
    properties = found.get("properties")
    if not isinstance(properties, dict):
        return
    for side in (one, other):
        known = side.get("properties")
        if side.get("additionalProperties") is False and "patternProperties" not in side:
            names = known if isinstance(known, dict) else {}
            properties = {name: inside for name, inside in properties.items() if name in names}
    found["properties"] = properties


def _both(one: Any, other: Any) -> Any:
    return one if one == other else {"allOf": [one, other]}


def _properties(one: Any, other: Any) -> Any:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one
    return {**one, **{name: _both(one[name], inside) if name in one else inside for name, inside in other.items()}}


def _enum(one: Any, other: Any) -> Any:
    if not isinstance(one, list) or not isinstance(other, list):
        return one
    return [value for value in one if any(same(value, allowed) for allowed in other)]


def _required(one: Any, other: Any) -> Any:
    return list(dict.fromkeys([*_list(one), *_list(other)]))


def _list(value: object) -> list[Any]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _strictest(choose: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: choose(one, other) if is_number(one) and is_number(other) else one


def _multiple(one: Any, other: Any) -> Any:
    if isinstance(one, int) and isinstance(other, int) and one > 0 and other > 0:
        return math.lcm(one, other)
    return max(one, other) if is_number(one) and is_number(other) else one


def _additional(one: Any, other: Any) -> Any:
    return False if one is False or other is False else _both(one, other)


_MERGE: dict[str, Callable[[Any, Any], Any]] = {
    "properties": _properties,
    "patternProperties": _properties,
    "required": _required,
    "enum": _enum,
    "items": _both,
    "contains": _both,
    "propertyNames": _both,
    "additionalProperties": _additional,
    "multipleOf": _multiple,
    "uniqueItems": lambda one, other: one is True or other is True,
    "not": lambda one, other: {"anyOf": [one, other]},
    **dict.fromkeys(
        ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"), _strictest(max)
    ),
    **dict.fromkeys(
        ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"), _strictest(min)
    ),
}
