"""Values that fit a JSON Schema, made of the words of a conversation where they fit, and of plausible ones where not.

Each value is made, then held against the schema; if it does not fit, the next way is tried. What no value fits gets the
best effort. The number of steps is bounded, so a schema that leads back to itself comes to an end.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import chain, islice
from typing import Any, Literal

import msgspec

from tenuto.sim import patterns
from tenuto.sim.choosing import Field, asks_for, is_named, is_wished, numbers, occurs, offers, strings
from tenuto.sim.merging import flattened, merged
from tenuto.sim.mint import Mint
from tenuto.sim.schemas import SHAPES, fits, is_number, same, types
from tenuto.sim.words import Words, parts

__all__ = ["fill"]

Extent = Literal["mentioned", "all", "least"]
_STEPS = 2000
_DEPTH = 24
_SHALLOW = 3
_MANY = 200
_LONG = 20_000
_KEYS: dict[str, tuple[str, ...]] = {
    "object": ("properties", "required", "additionalProperties", "minProperties", "patternProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
_FORMATS: dict[str, Callable[[Mint], str]] = {
    "date": lambda mint: (
        f"20{mint.random.randint(20, 29)}-{mint.random.randint(1, 12):02}-{mint.random.randint(1, 28):02}"
    ),
    "time": lambda mint: f"{mint.random.randint(0, 23):02}:{mint.random.randint(0, 59):02}:00Z",
    "date-time": lambda mint: f"{_FORMATS['date'](mint)}T{_FORMATS['time'](mint)}",
    "duration": lambda mint: f"P{mint.random.randint(1, 9)}D",
    "email": lambda mint: f"{mint.word(6, 'aeilmnorst')}@example.org",
    "hostname": lambda mint: f"{mint.word(6, 'aeilmnorst')}.example.org",
    "uri": lambda mint: f"https://example.org/{mint.word(6, 'aeilmnorst')}",
    "uuid": lambda mint: f"{mint.hex(8)}-{mint.hex(4)}-4{mint.hex(3)}-a{mint.hex(3)}-{mint.hex(12)}",
    "ipv4": lambda mint: f"192.0.2.{mint.random.randint(1, 254)}",
    "ipv6": lambda mint: f"2001:db8::{mint.hex(4)}",
    "decimal": lambda mint: f"{mint.random.randint(1, 99)}.5",
    "json-pointer": lambda _mint: "/a",
    "relative-json-pointer": lambda _mint: "0",
    "regex": lambda _mint: "^[a-z]+$",
}
_FORMATS |= {f"idn-{name}": _FORMATS[name] for name in ("email", "hostname")}
_FORMATS |= dict.fromkeys(("url", "iri", "uri-reference", "iri-reference"), _FORMATS["uri"])
_FORMATS |= dict.fromkeys(("ipvanyaddress", "ip"), _FORMATS["ipv4"])
_HINTS = re.compile(
    r"[({ ]((?:min|max)(?:Items|Length|Properties|imum)|exclusive(?:Min|Max)imum|uniqueItems|multipleOf|pattern|format"
    r"|contentEncoding): ?(?=[\"\d\[tf-])"
)


def fill(schema: object, words: Words | str, mint: Mint, extent: Extent = "mentioned") -> Any:
    """Return a value that fits a schema. Of what may be left out, an object has what the words mention, `all`, or the
    `least`. Nothing is raised: if no value is found, the best effort is returned.
    """
    given = Words(words) if isinstance(words, str) else words
    best: list[Any] = []
    tries: tuple[tuple[Words, Extent], ...] = (
        (given, extent),
        (given, "least"),
        (Words(""), "least"),
        (Words(""), "all"),
    )
    for text, much in tries:
        value = _Filler(schema, text, mint, much).value(schema, Field(), 0)
        if fits(value, schema):
            return value
        best.append(value)
    return best[0]


class _Place(msgspec.Struct, frozen=True):
    """Where a value goes: its field, how deep, and the how manieth of its like it is."""

    field: Field
    depth: int
    nth: int = 0


class _Filler:
    def __init__(self, root: object, words: Words, mint: Mint, extent: Extent) -> None:
        self.root = root
        self.words = words
        self.mint = mint
        self.extent = extent
        self.steps = 0
        self.used: set[object] = set()
        self.listed = _enums(root)

    def value(self, schema: object, field: Field, depth: int, nth: int = 0) -> Any:
        best: list[Any] = []
        if isinstance(schema, dict) and not field.description:
            field = Field(field.name, str(schema.get("description") or schema.get("title") or "")[:400])
        for bare in flattened(schema, self.root, plain_first=depth > _SHALLOW):
            flat = _hinted(bare)
            self.steps += 1
            if self.steps > _STEPS or depth > _DEPTH:
                break
            for value in self._made(flat, _Place(field, depth, nth)):
                if fits(value, schema, self.root) and (flat is bare or fits(value, flat, self.root)):
                    return value
                best.append(value)
        return best[0] if best else None

    def _made(self, flat: dict[str, Any], place: _Place) -> Iterator[Any]:
        """Yield values for a flat schema, the most wanted first."""
        if "const" in flat:
            yield flat["const"]
            return
        if isinstance(flat.get("enum"), list) and flat["enum"]:
            yield from self._listed(flat["enum"], place)
            return
        kinds = sorted(_kinds(flat), key=_order(place.depth > _SHALLOW))
        for kind in kinds:
            yield from islice(self._of_kind(kind, flat, place), _MANY)

    def _of_kind(self, kind: str, flat: dict[str, Any], place: _Place) -> Iterator[Any]:
        wanted = self._wanted(kind, flat, place)
        if kind == "string":
            told = place.nth == 0 and any(asks_for(place.field, kind) for kind in ("text", "answer"))
            made = self._texts(flat, place)
            texts = chain(self._fresh(wanted), made) if told else self._fresh(chain(wanted, made))
            yield from map(_encoded, texts) if flat.get("contentEncoding") == "base64" else texts
        elif kind in ("integer", "number"):
            yield from self._fresh(chain(wanted, _figures(flat, place.nth, kind == "integer")))
        elif kind == "boolean":
            asked = is_wished(place.field, self.words)
            yield from wanted
            first = bool(asked) ^ (place.nth % 2 == 1)
            yield from (first, not first)
        elif kind == "array":
            yield from chain(wanted, [self._array(flat, place), self._array(flat, place, least=True)])
        elif kind == "object":
            yield from chain(wanted, self._objects(flat, place))
        else:
            yield None

    def _wanted(self, kind: str, flat: dict[str, Any], place: _Place) -> Iterator[Any]:
        """Yield what the words give, then what the schema itself proposes."""
        if kind == "string":
            yield from (text for text in self._given(flat, place) if _has_shape(text, flat))
        elif kind in ("integer", "number"):
            yield from map(_plain, numbers(place.field, self.words))
        if place.nth == 0 and not (kind == "boolean" and is_wished(place.field, self.words) is not None):
            proposed = flat.get("examples")
            yield from ([flat["default"]] if "default" in flat else [])
            yield from (proposed if isinstance(proposed, list) else [])

    def _given(self, flat: dict[str, Any], place: _Place) -> Iterator[str]:
        if flat.get("format") == "date-time":
            yield from self._moments()
        for text in strings(place.field, self.words):
            if text.lower() in self.listed:  # it is meant for the field that lists it
                continue
            yield text
            most = flat.get("maxLength")
            if is_number(most) and 0 < most < len(text):
                yield text[: int(most)].rstrip() or text[: int(most)]

    def _moments(self) -> Iterator[str]:
        """Yield the day and the time that the words give, if they give either."""
        if self.words.dates or self.words.times:
            day = next(iter(self.words.dates), None) or _FORMATS["date"](self.mint)
            hour, minute, second = [*next(iter(self.words.times), "0:00").split(":"), "00"][:3]
            yield f"{day}T{hour:0>2}:{minute}:{second}Z"

    def _fresh(self, values: Iterator[Any]) -> Iterator[Any]:
        """Put off what another field has taken; what is yielded and kept is taken by whoever reads it."""
        late = []
        for value in values:
            if _key(value) in self.used:
                late.append(value)
            else:
                yield value
        yield from late

    def _listed(self, allowed: list[Any], place: _Place) -> Iterator[Any]:
        said = [value for value in allowed if isinstance(value, str) and occurs(value, self.words)]
        turned = allowed[place.nth % len(allowed) :] + allowed[: place.nth % len(allowed)]
        yield from said[place.nth :]
        yield from sorted(turned, key=lambda value: value is None)

    def _texts(self, flat: dict[str, Any], place: _Place) -> Iterator[str]:
        """Yield texts that nobody gave: by format, by pattern, or simply of the right length."""
        least, most = _size(flat, "minLength", 0), _size(flat, "maxLength", None)
        if (made := _FORMATS.get(str(flat.get("format")))) is not None:
            yield made(self.mint)
        if isinstance(flat.get("pattern"), str):
            yield from patterns.examples(flat["pattern"], least or 0, most, self.mint.random)
        name = " ".join(parts(place.field.name)) or "text"
        text = f"example {name}" + (f" {place.nth + 1}" if place.nth else "")
        for plain in (text, f"{place.nth}{text}", chr(97 + place.nth % 26) * 2, self.mint.word(12)):
            sized = plain.ljust(least or 0, "x")
            yield sized if most is None else sized[:most]

    def _array(self, flat: dict[str, Any], place: _Place, *, least: bool = False) -> list[Any]:
        first, rest = _rows(flat)
        needed = (
            [{"allOf": [rest, flat["contains"]]}] * (_size(flat, "minContains", 1) or 0) if "contains" in flat else []
        )
        wanted = self._length(flat, rest, place, least)
        wanted = max(wanted, len(first) if needed or not least else 0) + len(needed)
        most = _size(flat, "maxItems", None)
        wanted = min(wanted, _MANY if most is None else most)
        field = Field(_singular(place.field.name), place.field.description)
        sorts = _list(_dict(rest).get("anyOf"))
        if sorts and wanted == len(sorts) == most:  # a row of fixed length, one of each sort
            first = sorts
        found = [self.value(schema, field, place.depth + 1) for schema in [*first, *needed][:wanted]]
        for nth in range(wanted * 2 + 8):
            if len(found) >= wanted or self.steps > _STEPS or rest is False:
                break
            value = self.value(rest, field, place.depth + 1, nth + place.nth)
            if flat.get("uniqueItems") is not True or not any(same(value, other) for other in found):
                found.append(value)
                self.used.add(_key(value))
        return found

    def _length(self, flat: dict[str, Any], rest: object, place: _Place, least: bool) -> int:
        """Return how many there should be: what is needed; beyond that what the words offer, or a number to differ by."""
        low = _size(flat, "minItems", 0) or 0
        if least or place.depth > _SHALLOW:
            return low
        return max(low, min(place.nth, 5) if place.nth else self._offered(rest, place))

    def _offered(self, schema: object, place: _Place) -> int:
        """How many of a sort the words have to offer: at least one."""
        flat = next(flattened(schema, self.root), {})
        if isinstance(flat.get("enum"), list):
            return max(1, sum(isinstance(value, str) and occurs(value, self.words) for value in flat["enum"]))
        if "string" in types(flat):
            given = self.words.quoted or self.words.names
            return min(max(1, len(given)), 8) if asks_for(place.field, "name") or self.words.quoted else 1
        return min(max(1, len(self.words.numbers)), 8) if types(flat) & {"number", "integer"} else 1

    def _objects(self, flat: dict[str, Any], place: _Place) -> Iterator[dict[str, Any]]:
        properties = _dict(flat.get("properties"))
        required = (
            [name for name in flat.get("required") or [] if isinstance(name, str)]
            if isinstance(flat.get("required"), list)
            else []
        )
        optional = [name for name in properties if name not in required and properties[name] is not False]
        most = _size(flat, "maxProperties", None)
        wanted = [name for name in optional if self._is_wanted(name, properties[name], place, required)]
        if most is not None:
            wanted = wanted[: max(most - len(required), 0)]
        chosen = _with_dependents([*required, *wanted], flat)
        ordered = [name for name in properties if name in chosen] + [name for name in chosen if name not in properties]
        yield self._object(ordered, flat, place)
        fewest = _with_dependents(required, flat)
        if sorted(fewest) != sorted(ordered):
            yield self._object(fewest, flat, place)

    def _is_wanted(self, name: str, schema: object, place: _Place, required: list[str]) -> bool:
        """What may be left out is wanted if it is named, or if the words have more of its sort than others need."""
        if self.extent == "least" or place.depth > _SHALLOW:
            return False
        if self.extent == "all" or is_named(Field(name), schema, self.words):
            return True
        flat = next(flattened(schema, self.root), {})
        inner = flat.get("items") if "array" in types(flat) else flat
        shaped = {text for text in offers(Field(name), self.words) if _has_shape(text, _dict(inner))}
        rivals = [other for other in required if shaped & set(offers(Field(other), self.words))] if shaped else []
        return len(shaped) > len(rivals)

    def _object(self, names: list[str], flat: dict[str, Any], place: _Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in names:
            self._put(found, name, flat, place)
        least = min(_size(flat, "minProperties", 0) or 0, _MANY)
        spare = chain(_dict(flat.get("properties")), self._names(flat))
        for name in islice(spare, least * 4 + _MANY):
            if len(found) >= least:
                break
            if name not in found and fits(name, flat.get("propertyNames", True), self.root):
                self._put(found, name, flat, place)
        return found

    def _put(self, found: dict[str, Any], name: str, flat: dict[str, Any], place: _Place) -> None:
        schema = _inside(name, flat)
        if schema is not False:
            found[name] = self.value(schema, Field(name), place.depth + 1, place.nth)
            if isinstance(found[name], str) or (
                is_number(found[name]) and found[name] in map(_plain, self.words.numbers)
            ):
                self.used.add(_key(found[name]))

    def _names(self, flat: dict[str, Any]) -> Iterator[str]:
        """Yield names that nobody listed."""
        for pattern in _dict(flat.get("patternProperties")):
            yield from dict.fromkeys(patterns.examples(pattern, 0, None, self.mint.random))
        for nth in range(_MANY):
            schema = flat.get("propertyNames")
            yield (
                str(self.value(merged({"type": "string"}, _dict(schema)), Field(), _SHALLOW + 1, nth))
                if schema
                else f"key{nth + 1}"
            )


def _inside(name: str, flat: dict[str, Any]) -> Any:
    """Return the schema for what stands under a name."""
    properties, named = _dict(flat.get("properties")), _dict(flat.get("patternProperties"))
    own = [properties[name]] if name in properties else []
    own += [schema for pattern, schema in named.items() if patterns.matches(pattern, name)]
    if not own:
        return flat.get("additionalProperties", {"type": "string"})
    return own[0] if len(own) == 1 else {"allOf": own}


def _enums(root: object) -> frozenset[str]:
    """Return the texts that a tool's own fields list."""
    inside = _dict(_dict(root).get("properties")).values()
    lists = [one.get("enum") for one in inside if isinstance(one, dict)]
    return frozenset(text.lower() for one in lists if isinstance(one, list) for text in one if isinstance(text, str))


def _hinted(flat: dict[str, Any]) -> dict[str, Any]:
    """Put into a schema what only its description says, as clients write it for providers that know fewer keywords."""
    told = flat.get("description")
    if not isinstance(told, str) or ": " not in told:
        return flat
    hints: dict[str, Any] = {}
    for found in _HINTS.finditer(told := told[-600:]):
        try:
            hints[found[1]] = json.JSONDecoder().raw_decode(told, found.end())[0]
        except (ValueError, RecursionError):
            continue
    return merged(flat, hints)


def _key(value: object) -> object:
    """Return what stands for a value among those that are used; `true` is not 1."""
    return value if isinstance(value, str | float | int) and not isinstance(value, bool) else repr(value).encode()


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")


def _rows(flat: dict[str, Any]) -> tuple[list[Any], Any]:
    """Return the schemas of the first items, and that of the rest; written in the old way or the new."""
    items, first = flat.get("items", True), flat.get("prefixItems")
    if isinstance(items, list):
        return items, flat.get("additionalItems", True)
    return (first if isinstance(first, list) else []), items


def _with_dependents(names: list[str], flat: dict[str, Any]) -> list[str]:
    chosen = list(dict.fromkeys(names))
    needs = _dict(flat.get("dependentRequired"))
    for name in chosen:  # grows while it is read
        others = needs.get(name)
        chosen.extend(other for other in (others if isinstance(others, list) else []) if other not in chosen)
    return chosen


def _figures(flat: dict[str, Any], nth: int, whole: bool) -> Iterator[int | float]:
    """Yield numbers in the bounds, in the steps that are asked for."""
    low, high = _edge(flat, "minimum", "exclusiveMinimum"), _edge(flat, "maximum", "exclusiveMaximum")
    step = flat.get("multipleOf")
    size = Fraction(str(step)) if is_number(step) and step > 0 else Fraction(1)
    if low is not None:
        start = math.ceil(low / size)
    else:
        start = 1 if high is None else min(1, math.floor(high / size))
    forth = -1 if low is None and high is not None else 1
    for count in range(_MANY // 4):
        yield _plain((start + forth * (nth + count)) * size)
        yield _plain((start + forth * count) * size)
        if count == 3 and not whole and low is not None and high is not None:
            yield from (_plain(low + (high - low) * Fraction(nth + 1, nth + part)) for part in range(2, 12))
            yield from (_plain(low), _plain(high))


def _edge(flat: dict[str, Any], key: str, strict: str) -> Fraction | None:
    found = [Fraction(str(flat[name])) for name in (key, strict) if is_number(flat.get(name))]
    return (max(found) if key == "minimum" else min(found)) if found else None


def _plain(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


def _kinds(flat: dict[str, Any]) -> list[str]:
    """Return the types that a value may have; if none is named, those that its other keywords are about."""
    named = types(flat)
    if named:
        return sorted(named)
    meant = [kind for kind, keys in _KEYS.items() if any(key in flat for key in keys)]
    return [
        *meant,
        *(kind for kind in ("string", "integer", "object", "array", "boolean", "null") if kind not in meant),
    ]


def _order(plain_first: bool) -> Callable[[str], int]:
    order = ["object", "array", "string", "integer", "number", "boolean", "null"]
    if plain_first:
        order = ["string", "integer", "number", "boolean", "null", "array", "object"]
    return order.index


def _has_shape(text: str, flat: dict[str, Any]) -> bool:
    """Say whether a text of the user's has the format that is asked for; of a format unknown here, none has."""
    named = flat.get("format")
    if not isinstance(named, str) or named not in _FORMATS:
        return True
    return named in SHAPES and patterns.matches(SHAPES[named], text)


def _size(flat: dict[str, Any], key: str, otherwise: int | None) -> int | None:
    value = flat.get(key)
    return min(max(math.ceil(value), 0), _LONG) if is_number(value) else otherwise


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _singular(name: str) -> str:
    return name[:-3] + "y" if name.endswith("ies") else name.removesuffix("s")
