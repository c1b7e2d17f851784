"""Whether a value fits a JSON Schema, as far as schemas are used for tools and answers.

Read leniently: types in capitals and `nullable` (as in OpenAPI) are understood, a keyword with a nonsensical argument
says nothing, and a reference that leads nowhere allows everything.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeGuard
from urllib.parse import unquote

from tenuto.sim.patterns import matches

__all__ = ["SHAPES", "fits", "is_number", "same", "target", "types"]

_DEPTH = 60
_STEPS = 20_000
_IS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: is_number(value) and value == int(value),
    "number": lambda value: isinstance(value, int | float) and is_number(value),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_DATE = (
    r"\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
)
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[-+](?:[01]\d|2[0-3]):[0-5]\d)"
SHAPES = {
    "date": f"^{_DATE}$",
    "time": f"^{_TIME}$",
    "date-time": f"^{_DATE}[Tt ]{_TIME}$",
    "email": r"^[\w.+-]+@[\w-]+(?:\.[\w-]+)+$",
    "uri": r"^[a-z][a-z0-9+.-]*:\S+$",
    "url": r"^https?://\S+$",
    "uuid": r"^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
    "ipv4": r"^(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}$",
}
"""Patterns for formats, somewhat stricter than the formats: there is no 29th of February."""


def is_number(value: object) -> TypeGuard[int | float]:
    """Say whether a value is a number that JSON can hold; `true` is none."""
    if isinstance(value, float):
        return value - value == 0
    return isinstance(value, int) and not isinstance(value, bool)


def same(one: object, other: object) -> bool:
    """Say whether two values are the same JSON: 1 and 1.0 are, 1 and `true` are not."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def types(schema: dict[str, Any]) -> frozenset[str]:
    """Return the types that a schema names; empty if it names none that exists."""
    named = schema.get("type")
    found = {str(name).lower() for name in (named if isinstance(named, list) else [named])} & _IS.keys()
    return frozenset(found | {"null"} if found and schema.get("nullable") is True else found)


def target(root: object, reference: object) -> Any:
    """Return the schema that a reference inside the same document means; everything is allowed if there is none."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return True
    found: Any = root
    for step in reference[1:].split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            return True
    return found


def fits(value: object, schema: object, root: object = None) -> bool:
    """Say whether a value fits a schema; `root` is the document in which references are looked up."""
    return _Fitting(schema if root is None else root).deeper(value, schema)


class _Fitting:
    def __init__(self, root: object) -> None:
        self.root = root
        self._depth = 0
        self._steps = 0

    def deeper(self, value: object, schema: object) -> bool:
        """Beyond a depth, or a number of steps, everything fits: a schema may lead back to itself for ever."""
        if not isinstance(schema, dict):
            return schema is not False
        self._steps += 1
        if self._depth > _DEPTH or self._steps > _STEPS or (value is None and schema.get("nullable") is True):
            return True
        self._depth += 1
        held = all(_KEYWORDS[key](self, value, asked, schema) for key, asked in schema.items() if key in _KEYWORDS)
        self._depth -= 1
        return held


_Keyword = Callable[[_Fitting, Any, Any, dict[str, Any]], bool]


def _type(_: _Fitting, value: Any, asked: Any, schema: dict[str, Any]) -> bool:
    named = types(schema)
    return not asked or not named or any(_IS[name](value) for name in named)


def _one_of(at: _Fitting, value: Any, asked: Any, _: dict[str, Any]) -> bool:
    return not isinstance(asked, list) or sum(at.deeper(value, schema) for schema in asked) == 1


def _if(at: _Fitting, value: Any, asked: Any, schema: dict[str, Any]) -> bool:
    return at.deeper(value, schema.get("then" if at.deeper(value, asked) else "else", True))


def _bound(holds: Callable[[Any, Any], bool], strict: str = "") -> _Keyword:
    def check(_: _Fitting, value: Any, asked: Any, schema: dict[str, Any]) -> bool:
        if not is_number(value) or not is_number(asked):
            return True
        return holds(value, asked) and not (schema.get(strict) is True and value == asked)

    return check


def _size(kind: type[str | list[Any] | dict[str, Any]], holds: Callable[[int, Any], bool]) -> _Keyword:
    def check(_: _Fitting, value: Any, asked: Any, _schema: dict[str, Any]) -> bool:
        return not isinstance(value, kind) or not is_number(asked) or holds(len(value), asked)

    return check


def _multiple(_: _Fitting, value: Any, asked: Any, _schema: dict[str, Any]) -> bool:
    if not is_number(value) or not is_number(asked) or asked <= 0:
        return True
    if isinstance(value, int) and isinstance(asked, int):
        return value % asked == 0
    return bool((Fraction(str(value)) / Fraction(str(asked))).denominator == 1 and value / asked == int(value / asked))


def _pattern(_: _Fitting, value: Any, asked: Any, _schema: dict[str, Any]) -> bool:
    return not isinstance(value, str) or not isinstance(asked, str) or matches(asked, value)


def _properties(at: _Fitting, value: Any, asked: Any, _: dict[str, Any]) -> bool:
    if not isinstance(value, dict) or not isinstance(asked, dict):
        return True
    return all(at.deeper(value[name], schema) for name, schema in asked.items() if name in value)


def _pattern_properties(at: _Fitting, value: Any, asked: Any, _: dict[str, Any]) -> bool:
    if not isinstance(value, dict) or not isinstance(asked, dict):
        return True
    return all(
        at.deeper(inside, schema)
        for pattern, schema in asked.items()
        for name, inside in value.items()
        if matches(pattern, name)
    )


def _additional(at: _Fitting, value: Any, asked: Any, schema: dict[str, Any]) -> bool:
    if not isinstance(value, dict):
        return True
    known, patterns = _dict(schema.get("properties")), _dict(schema.get("patternProperties"))
    extra = [name for name in value if name not in known and not any(matches(pattern, name) for pattern in patterns)]
    return all(at.deeper(value[name], asked) for name in extra)


def _names(at: _Fitting, value: Any, asked: Any, _: dict[str, Any]) -> bool:
    return not isinstance(value, dict) or all(at.deeper(name, asked) for name in value)


def _required(_: _Fitting, value: Any, asked: Any, _schema: dict[str, Any]) -> bool:
    return (
        not isinstance(value, dict)
        or not isinstance(asked, list)
        or all(name in value for name in asked if isinstance(name, str))
    )


def _dependent(_: _Fitting, value: Any, asked: Any, _schema: dict[str, Any]) -> bool:
    if not isinstance(value, dict):
        return True
    wanted = [
        other for name, others in _dict(asked).items() if name in value and isinstance(others, list) for other in others
    ]
    return all(other in value for other in wanted)


def _items(at: _Fitting, value: Any, asked: Any, schema: dict[str, Any]) -> bool:
    if not isinstance(value, list):
        return True
    if isinstance(asked, list):  # as it was written before `prefixItems`
        rest = schema.get("additionalItems", True)
        return all(map(at.deeper, value, asked)) and all(at.deeper(item, rest) for item in value[len(asked) :])
    first = schema.get("prefixItems")
    return all(at.deeper(item, asked) for item in value[len(first) if isinstance(first, list) else 0 :])


def _prefix(at: _Fitting, value: Any, asked: Any, _: dict[str, Any]) -> bool:
    return not isinstance(value, list) or not isinstance(asked, list) or all(map(at.deeper, value, asked))


def _contains(at: _Fitting, value: Any, asked: Any, schema: dict[str, Any]) -> bool:
    if not isinstance(value, list):
        return True
    count = sum(at.deeper(item, asked) for item in value)
    least, most = schema.get("minContains", 1), schema.get("maxContains", count)
    return bool((not is_number(least) or least <= count) and (not is_number(most) or count <= most))


def _unique(_: _Fitting, value: Any, asked: Any, _schema: dict[str, Any]) -> bool:
    if not isinstance(value, list) or asked is not True:
        return True
    return not any(same(item, other) for at, item in enumerate(value) for other in value[:at])


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_KEYWORDS: dict[str, _Keyword] = {
    "type": _type,
    "enum": lambda _at, value, asked, _schema: not isinstance(asked, list) or any(same(value, one) for one in asked),
    "const": lambda _at, value, asked, _schema: same(value, asked),
    "$ref": lambda at, value, asked, _schema: at.deeper(value, target(at.root, asked)),
    "allOf": lambda at, value, asked, _schema: not isinstance(asked, list) or all(at.deeper(value, s) for s in asked),
    "anyOf": lambda at, value, asked, _schema: not isinstance(asked, list) or any(at.deeper(value, s) for s in asked),
    "oneOf": _one_of,
    "not": lambda at, value, asked, _schema: not at.deeper(value, asked),
    "if": _if,
    "minimum": _bound(lambda value, asked: value >= asked, "exclusiveMinimum"),
    "maximum": _bound(lambda value, asked: value <= asked, "exclusiveMaximum"),
    "exclusiveMinimum": _bound(lambda value, asked: value > asked),
    "exclusiveMaximum": _bound(lambda value, asked: value < asked),
    "multipleOf": _multiple,
    "minLength": _size(str, lambda length, asked: length >= asked),
    "maxLength": _size(str, lambda length, asked: length <= asked),
    "pattern": _pattern,
    "format": lambda at, value, asked, schema: _pattern(at, value, SHAPES.get(str(asked), ""), schema),
    "minItems": _size(list, lambda length, asked: length >= asked),
    "maxItems": _size(list, lambda length, asked: length <= asked),
    "uniqueItems": _unique,
    "items": _items,
    "prefixItems": _prefix,
    "contains": _contains,
    "minProperties": _size(dict, lambda length, asked: length >= asked),
    "maxProperties": _size(dict, lambda length, asked: length <= asked),
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "propertyNames": _names,
    "required": _required,
    "dependentRequired": _dependent,
}
