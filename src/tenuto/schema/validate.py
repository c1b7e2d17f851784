"""Does a JSON value fit a JSON Schema? What does not fit is said in words that a model can act on.

The keywords of draft 2020-12 that describe values are checked, references within the schema included. Not checked, and
never a problem: `format` and `content...` (notes, by the draft's own default), `unevaluated...`, `$dynamicRef`, and
every word that is no keyword. The older list form of `items` is read as `prefixItems`, and patterns are Python's.

A schema that makes no sense (a reference to nowhere, a broken pattern, a loop) is a problem like any other, and the
work is bounded: neither the schema nor the value can make a check crash or run for ever.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

__all__ = ["INVALID_SCHEMA", "find_problems", "resolve_ref"]

Schema: TypeAlias = "dict[str, Any]"
Found: TypeAlias = "list[_Problem]"

MAX_CHECKS = 200_000
"""How often a (part of a) value may be held against a (part of a) schema."""
MAX_DEPTH = 250
"""How deep the parts may nest, those of the value and those of the schema together."""
MAX_PROBLEMS = 20
"""How many problems are told."""
INVALID_SCHEMA = "invalid schema"
"""How a problem begins that no value can cure."""
_SHOWN = 60
_NEAR = 10**9
_INFINITY = float("inf")
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


def find_problems(value: Any, schema: Schema | bool) -> tuple[str, ...]:
    """Return what is wrong with a plain JSON value, each problem with the JSON pointer of its place; empty if it fits.

    At most `MAX_PROBLEMS` are told, and one more that counts the others.
    """
    try:
        found = list(dict.fromkeys(map(str, _Check(schema).check(value, schema, ""))))
    except _Exhausted as exc:
        return (str(exc),)
    except RecursionError:
        return ("the value or the schema nests too deeply to be checked",)
    left = len(found) - MAX_PROBLEMS
    return (*found[:MAX_PROBLEMS], f"and {left} more problems") if left > 0 else tuple(found)


def resolve_ref(root: Any, reference: Any) -> Schema | bool | None:
    """Return the part of a schema that a reference within it names; None if there is no such part."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    path = _PERCENT.sub(_decoded, reference[1:])
    if path and not path.startswith("/"):
        return None
    found: Any = root
    for step in path.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found if isinstance(found, dict | bool) else None


def _decoded(match: re.Match[str]) -> str:
    return bytes.fromhex(match.group().replace("%", "")).decode("utf-8", "replace")


class _Exhausted(Exception):
    """The work has grown beyond its bounds."""


class _Problem(NamedTuple):
    """What is wrong with one place. `off` tells how far: 2 for the wrong type, 1 for a word that is not among those
    allowed, which often names the alternative that was meant.
    """

    place: str
    what: str
    off: int = 0

    def __str__(self) -> str:
        return f"{self.place or '(root)'}: {self.what}"


# --- values -----------------------------------------------------------------------------------------------------------


def _kind(value: Any) -> str:
    """Name the JSON type of a value."""
    if value is None:
        return "null"
    if isinstance(value, float) and not -_INFINITY < value < _INFINITY:
        return "float"
    return next((name for kind, name in _KINDS if isinstance(value, kind)), type(value).__name__)


_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "boolean"),  # before the numbers: Python counts it among them
    (str, "string"),
    ((int, float), "number"),
    (dict, "object"),
    (list, "array"),
)


def _has_type(value: Any, name: str) -> bool:
    kind = _kind(value)
    if name == "integer":
        return kind == "number" and value == value // 1
    return kind == name


def _shown(value: Any) -> str:
    """Say what a value is: its type, and itself if it is small."""
    kind = _kind(value)
    if kind in ("object", "array"):
        return f"{kind} of {len(value)}" if value else f"an empty {kind}"
    return kind if value is None else f"{kind} {_text(value)}"


def _text(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _key(value: Any) -> Any:
    """Return something hashable that is equal for equal JSON values: 1 and 1.0 are, 1 and true are not."""
    match value:
        case bool():
            return ("boolean", value)
        case list():
            return ("array", tuple(map(_key, value)))
        case dict():
            return ("object", frozenset((name, _key(held)) for name, held in value.items()))
        case None | str() | int() | float():
            return value
    return ("other", repr(value))


def _is_multiple(value: float, step: float) -> bool:
    """Tell whether a number is a multiple of another; decimal fractions (0.3 of 0.1) are as near as floats can be."""
    (a, b), (c, d) = value.as_integer_ratio(), step.as_integer_ratio()
    times, left = divmod(abs(a * d), abs(b * c))
    if not left:
        return True
    near = b != 1 or d != 1
    return near and min(left, abs(b * c) - left) * _NEAR <= abs(b * c) * max(1, times)


def _inner(place: str, step: str | int) -> str:
    return f"{place}/{str(step).replace('~', '~0').replace('/', '~1')}"


# --- checks -----------------------------------------------------------------------------------------------------------


class _Check:
    """One value held against one schema."""

    def __init__(self, root: Schema | bool) -> None:
        self._root = root
        self._left = MAX_CHECKS
        self._depth = 0
        self._following: set[tuple[str, str, int]] = set()
        self._patterns: dict[str, re.Pattern[str] | None] = {}

    def check(self, value: Any, schema: Any, place: str) -> Found:
        """Return the problems of one part."""
        if schema is True:
            return []
        if schema is False:
            return [_Problem(place, f"nothing may stand here, got {_shown(value)}")]
        if not isinstance(schema, dict):
            return [_Problem(place, f"{INVALID_SCHEMA}: {_text(schema)} is no schema")]
        self._left -= 1
        if self._left < 0:
            raise _Exhausted(f"gave up after {MAX_CHECKS} checks: the schema or the value is too large")
        if self._depth >= MAX_DEPTH:
            raise _Exhausted(f"{place or '(root)'}: nested deeper than {MAX_DEPTH} levels")
        self._depth += 1
        found: Found = []
        for word, operand in schema.items():
            keyword = _KEYWORDS.get(word)
            if keyword is not None:
                found.extend(self._held(keyword, value, (word, operand, schema), place))
        self._depth -= 1
        return found

    def _held(self, keyword: _Keyword, value: Any, said: tuple[str, Any, Schema], place: str) -> Iterable[_Problem]:
        applies, takes, check = keyword
        word, operand, schema = said
        if not isinstance(operand, takes) or (isinstance(operand, bool) and takes is _NUMBER):
            return [_Problem(place, f"{INVALID_SCHEMA}: {word} cannot be {_text(operand)}")]
        if applies and _kind(value) != applies:
            return []
        return check(self, value, operand, schema, place)

    def fits(self, value: Any, schema: Any, place: str) -> bool:
        """Tell whether one part has no problem."""
        return not self.check(value, schema, place)

    def pattern(self, text: str) -> re.Pattern[str] | None:
        """Compile a pattern once; None if it is none."""
        if text not in self._patterns:
            try:
                self._patterns[text] = re.compile(text)
            except (re.error, OverflowError, RecursionError):
                self._patterns[text] = None
        return self._patterns[text]

    def reference(self, value: Any, name: str, _: Schema, place: str) -> Found:
        """Hold the value against another part of the schema."""
        target = resolve_ref(self._root, name)
        if target is None:
            return [_Problem(place, f"{INVALID_SCHEMA}: {_text(name)} names no part of it")]
        step = (name, place, id(value))
        if step in self._following:
            return [_Problem(place, f"{INVALID_SCHEMA}: {_text(name)} leads back to itself")]
        self._following.add(step)
        found = self.check(value, target, place)
        self._following.discard(step)
        return found


_Rule: TypeAlias = Callable[[_Check, Any, Any, Schema, str], Iterable[_Problem]]
_Keyword: TypeAlias = tuple[str, "type | tuple[type, ...]", _Rule]
_NUMBER = (int, float)


# --- any value --------------------------------------------------------------------------------------------------------


def _type(_: _Check, value: Any, names: Any, __: Schema, place: str) -> Iterator[_Problem]:
    listed = [names] if isinstance(names, str) else names
    if not any(isinstance(name, str) and _has_type(value, name) for name in listed):
        yield _Problem(place, f"expected {' or '.join(map(str, listed))}, got {_shown(value)}", 2)


def _enum(_: _Check, value: Any, options: list[Any], __: Schema, place: str) -> Iterator[_Problem]:
    key = _key(value)
    if not any(_key(option) == key for option in options):
        listed = ", ".join(map(_text, options[:MAX_PROBLEMS])) + (", ..." if len(options) > MAX_PROBLEMS else "")
        yield _Problem(place, f"expected one of {listed}, got {_shown(value)}", 1)


def _const(_: _Check, value: Any, only: Any, __: Schema, place: str) -> Iterator[_Problem]:
    if _key(only) != _key(value):
        yield _Problem(place, f"expected {_text(only)}, got {_shown(value)}", 1)


def _all_of(check: _Check, value: Any, parts: list[Any], _: Schema, place: str) -> Iterator[_Problem]:
    for part in parts:
        yield from check.check(value, part, place)


def _any_of(check: _Check, value: Any, parts: list[Any], _: Schema, place: str) -> Iterable[_Problem]:
    found = []
    for part in parts:
        found.append(check.check(value, part, place))
        if not found[-1]:
            return ()
    return _nearest(found, place)


def _one_of(check: _Check, value: Any, parts: list[Any], _: Schema, place: str) -> Iterable[_Problem]:
    found = [check.check(value, part, place) for part in parts]
    fitting = found.count([])
    if fitting > 1:
        return [_Problem(place, f"fits {fitting} alternatives of which it may fit only one")]
    return () if fitting else _nearest(found, place)


def _nearest(found: list[Found], place: str) -> Iterator[_Problem]:
    """Tell what the alternative says that was meant most likely: of the right type, with the right words in it."""

    def distance(problems: Found) -> tuple[int, int]:
        return max((p.off for p in problems if p.off < 2 or p.place == place), default=0), len(problems)

    yield _Problem(place, f"fits none of the {len(found)} alternatives; the nearest says:")
    yield from min(found, key=distance, default=[])


def _not(check: _Check, value: Any, part: Any, _: Schema, place: str) -> Iterator[_Problem]:
    if check.fits(value, part, place):
        yield _Problem(place, f"is what it must not be ({_text(part)}), got {_shown(value)}")


def _if(check: _Check, value: Any, part: Any, schema: Schema, place: str) -> Iterable[_Problem]:
    branch = "then" if check.fits(value, part, place) else "else"
    return check.check(value, schema[branch], place) if branch in schema else ()


# --- numbers and strings ----------------------------------------------------------------------------------------------


def _limit(says: str, within: Callable[[Any, Any], bool], measure: Callable[[Any], Any] | None = None) -> _Rule:
    """Make the rule that a value, or its size, keeps to a limit."""

    def rule(_: _Check, value: Any, bound: Any, __: Schema, place: str) -> Iterator[_Problem]:
        size = measure(value) if measure else value
        if not within(size, bound):
            yield _Problem(place, f"{says.format(_text(bound))}, got {size if measure else _shown(value)}")

    return rule


def _multiple_of(_: _Check, value: Any, step: Any, __: Schema, place: str) -> Iterator[_Problem]:
    if not 0 < step < _INFINITY:
        yield _Problem(place, f"{INVALID_SCHEMA}: multipleOf cannot be {_text(step)}")
    elif not _is_multiple(value, step):
        yield _Problem(place, f"expected a multiple of {_text(step)}, got {_shown(value)}")


def _pattern(check: _Check, value: str, text: str, _: Schema, place: str) -> Iterator[_Problem]:
    pattern = check.pattern(text)
    if pattern is None:
        yield _broken_pattern(place, text)
    elif not pattern.search(value):
        yield _Problem(place, f"expected text that matches {_text(text)}, got {_shown(value)}")


def _broken_pattern(place: str, text: str) -> _Problem:
    return _Problem(place, f"{INVALID_SCHEMA}: {_text(text)} is no regular expression that Python can read")


# --- objects ----------------------------------------------------------------------------------------------------------


def _properties(check: _Check, value: dict[str, Any], parts: Schema, _: Schema, place: str) -> Iterator[_Problem]:
    for name, part in parts.items():
        if name in value:
            yield from check.check(value[name], part, _inner(place, name))


def _pattern_properties(
    check: _Check, value: dict[str, Any], parts: Schema, _: Schema, place: str
) -> Iterator[_Problem]:
    for text, part in parts.items():
        pattern = check.pattern(text)
        if pattern is None:
            yield _broken_pattern(place, text)
            continue
        for name, held in value.items():
            if pattern.search(name):
                yield from check.check(held, part, _inner(place, name))


def _additional(check: _Check, value: dict[str, Any], part: Any, schema: Schema, place: str) -> Iterator[_Problem]:
    known, texts = (schema.get(word) for word in ("properties", "patternProperties"))
    known = known if isinstance(known, dict) else {}
    patterns = [check.pattern(text) for text in texts] if isinstance(texts, dict) else []
    for name, held in value.items():
        if name in known or any(pattern.search(name) for pattern in patterns if pattern):
            continue
        if part is False:
            allowed = f"; allowed are {', '.join(map(_text, known))}" if known else ""
            yield _Problem(place, f"property {_text(name)} is not allowed{allowed}")
        else:
            yield from check.check(held, part, _inner(place, name))


def _required(_: _Check, value: dict[str, Any], names: list[Any], __: Schema, place: str) -> Iterator[_Problem]:
    return (_Problem(place, f"property {_text(name)} is missing") for name in names if not _holds(value, name))


def _holds(value: dict[str, Any], name: Any) -> bool:
    return isinstance(name, str) and name in value


def _property_names(check: _Check, value: dict[str, Any], part: Any, _: Schema, place: str) -> Iterator[_Problem]:
    for name in value:
        if found := check.check(name, part, place):
            yield _Problem(place, f"property name {_text(name)} does not fit: {found[0]}")


def _dependent_required(_: _Check, value: dict[str, Any], needs: Schema, __: Schema, place: str) -> Iterator[_Problem]:
    for name, others in needs.items():
        for other in others if name in value and isinstance(others, list) else ():
            if not _holds(value, other):
                yield _Problem(place, f"property {_text(other)} is missing, which goes with {_text(name)}")


def _dependent_schemas(
    check: _Check, value: dict[str, Any], parts: Schema, _: Schema, place: str
) -> Iterator[_Problem]:
    for name, part in parts.items():
        if name in value:
            yield from check.check(value, part, place)


# --- arrays -----------------------------------------------------------------------------------------------------------


def _prefix_items(check: _Check, value: list[Any], parts: list[Any], _: Schema, place: str) -> Iterator[_Problem]:
    for at, (held, part) in enumerate(zip(value, parts, strict=False)):
        yield from check.check(held, part, _inner(place, at))


def _items(check: _Check, value: list[Any], part: Any, schema: Schema, place: str) -> Iterator[_Problem]:
    if isinstance(part, list):
        yield from _prefix_items(check, value, part, schema, place)
        return
    first = schema.get("prefixItems")
    begin = len(first) if isinstance(first, list) else 0
    if part is False and len(value) > begin:
        yield _Problem(place, f"expected at most {begin} items, got {len(value)}")
        return
    for at, held in enumerate(value[begin:], begin):
        yield from check.check(held, part, _inner(place, at))


def _unique(_: _Check, value: list[Any], wanted: bool, __: Schema, place: str) -> Iterator[_Problem]:
    seen: dict[Any, int] = {}
    for at, held in enumerate(value if wanted else ()):
        first = seen.setdefault(_key(held), at)
        if first != at:
            yield _Problem(_inner(place, at), f"is the same as item {first}; each may occur only once")


def _contains(check: _Check, value: list[Any], part: Any, schema: Schema, place: str) -> Iterator[_Problem]:
    fitting = sum(check.fits(held, part, _inner(place, at)) for at, held in enumerate(value))
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    if isinstance(least, int | float) and fitting < least:
        yield _Problem(place, f"expected at least {least} items like {_text(part)}, got {fitting}")
    if isinstance(most, int | float) and fitting > most:
        yield _Problem(place, f"expected at most {most} items like {_text(part)}, got {fitting}")


def _at_least(value: Any, bound: Any) -> bool:
    return bool(value >= bound)


def _at_most(value: Any, bound: Any) -> bool:
    return bool(value <= bound)


_PART = (dict, bool)
_KEYWORDS: dict[str, _Keyword] = {
    "$ref": ("", str, _Check.reference),
    "type": ("", (str, list), _type),
    "enum": ("", list, _enum),
    "const": ("", object, _const),
    "allOf": ("", list, _all_of),
    "anyOf": ("", list, _any_of),
    "oneOf": ("", list, _one_of),
    "not": ("", _PART, _not),
    "if": ("", _PART, _if),
    "minimum": ("number", _NUMBER, _limit("expected at least {}", _at_least)),
    "maximum": ("number", _NUMBER, _limit("expected at most {}", _at_most)),
    "exclusiveMinimum": ("number", _NUMBER, _limit("expected more than {}", lambda value, bound: bool(value > bound))),
    "exclusiveMaximum": ("number", _NUMBER, _limit("expected less than {}", lambda value, bound: bool(value < bound))),
    "multipleOf": ("number", _NUMBER, _multiple_of),
    "minLength": ("string", _NUMBER, _limit("expected at least {} characters", _at_least, len)),
    "maxLength": ("string", _NUMBER, _limit("expected at most {} characters", _at_most, len)),
    "pattern": ("string", str, _pattern),
    "properties": ("object", dict, _properties),
    "patternProperties": ("object", dict, _pattern_properties),
    "additionalProperties": ("object", _PART, _additional),
    "required": ("object", list, _required),
    "minProperties": ("object", _NUMBER, _limit("expected at least {} properties", _at_least, len)),
    "maxProperties": ("object", _NUMBER, _limit("expected at most {} properties", _at_most, len)),
    "propertyNames": ("object", _PART, _property_names),
    "dependentRequired": ("object", dict, _dependent_required),
    "dependentSchemas": ("object", dict, _dependent_schemas),
    "prefixItems": ("array", list, _prefix_items),
    "items": ("array", (dict, bool, list), _items),
    "minItems": ("array", _NUMBER, _limit("expected at least {} items", _at_least, len)),
    "maxItems": ("array", _NUMBER, _limit("expected at most {} items", _at_most, len)),
    "uniqueItems": ("array", bool, _unique),
    "contains": ("array", _PART, _contains),
}
"""Each keyword: the type of value that it speaks of (empty: any), what it may be, and what it demands."""
