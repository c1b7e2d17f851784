"""JSON Schemas for the modes in which a provider itself holds a model to one.

No provider takes all of JSON Schema there, and each takes another part. `to_strict_subset` writes a schema in the part that all
of them take: objects name all they hold, references are written out, a choice is `anyOf`, each value says its type.
Limits on values (`minimum`, `pattern`, ...) are put in words: whoever asks has to check the answer anyway.

What fits the narrow schema and keeps to the limits fits the one given. A schema that cannot be said so (open objects,
values of any type, schemas that contain themselves) has no narrow form.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from tenuto.schema.validate import resolve_ref

__all__ = ["VALUE_PROPERTY", "StrictSchema", "to_strict_subset"]

Schema = dict[str, Any]

VALUE_PROPERTY = "value"
"""The property that holds an answer which is no object by itself."""
MAX_NODES = 2000
"""How large a schema may become by writing out its references."""
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
_IN_WORDS = (
    "default",
    "examples",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "contentEncoding",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
)
_KEPT = ("title", "description")
_SAYS_NOTHING = frozenset(
    ("$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "discriminator", "deprecated", "readOnly")
)
_TYPE_NAMES = {bool: "boolean", str: "string", int: "integer", float: "number", type(None): "null"}


class StrictSchema(msgspec.Struct, frozen=True):
    """A schema in its narrow form.

    `strict` says that each object demands everything it names, as the strictest modes insist. `wrapped` says that the
    answer stands in the property `VALUE_PROPERTY` of an object, because it is none itself.
    """

    schema: Schema
    strict: bool
    wrapped: bool


def to_strict_subset(schema: Schema) -> StrictSchema | None:
    """Return the narrow form of a schema, which is not changed; None if there is none."""
    narrowing = _Narrowing(schema)
    try:
        written = narrowing.node(schema, ())
    except (_TooWide, RecursionError):
        return None
    wrapped = written.get("type") != "object"
    if wrapped:
        written = _closed({VALUE_PROPERTY: written}, [VALUE_PROPERTY])
    return StrictSchema(written, narrowing.strict, wrapped)


class _TooWide(Exception):
    """There is no narrow way to say this."""


def _closed(properties: Schema, required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


class _Narrowing:
    """One schema on its way. `seen` are the references that are being written out, outermost first."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._nodes = 0
        self.strict = True
        self._types: dict[str, Callable[[Schema, tuple[str, ...]], Schema]] = {
            "object": self._object,
            "array": self._array,
        }

    def node(self, node: Any, seen: tuple[str, ...]) -> Schema:
        """Write one part."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _TooWide
        node, seen = self._resolved(node, seen)
        return self._said(node, self._shape(node, seen))

    def _resolved(self, node: Any, seen: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        """Write out a reference, or the only part of an `allOf`; what stands beside it is laid over it."""
        while isinstance(node, dict) and ("$ref" in node or "allOf" in node):
            if "$ref" in node:
                word, name = "$ref", node["$ref"]
                if name in seen:
                    raise _TooWide
                inner: Any = resolve_ref(self._root, name)
                seen = (*seen, name)
            else:
                word, parts = "allOf", node["allOf"]
                inner = parts[0] if isinstance(parts, list) and len(parts) == 1 else None
            beside = {key: value for key, value in node.items() if key != word}
            if not isinstance(inner, dict) or any(_is_rule(key) for key in beside if key in inner):
                raise _TooWide
            node = {**inner, **beside}
        if not isinstance(node, dict):
            raise _TooWide
        return node, seen

    def _shape(self, node: Schema, seen: tuple[str, ...]) -> Schema:
        """Write what a value has to be; every word of the schema is used, or it is too wide."""
        choice = next((word for word in ("anyOf", "oneOf") if word in node), None)
        kind = node.get("type", "object" if "properties" in node else None)
        used: set[str]
        if choice is not None:
            used, shape = {choice}, self._any_of(node[choice], seen)
        elif "enum" in node or "const" in node:
            used, shape = {"enum", "const", "type"}, _literals([node["const"]] if "const" in node else node["enum"])
        elif isinstance(kind, list) and all(isinstance(name, str) for name in kind):
            used, shape = {"type", *_STRUCTURE}, self._any_of([_only(node, name) for name in kind], seen)
        elif kind in ("object", "array"):
            used, shape = {"type", *_WORDS_OF[kind]}, self._types[kind](node, seen)
        elif kind in _TYPE_NAMES.values():
            used, shape = {"type"}, {"type": kind}
        else:
            raise _TooWide
        if any(word not in used and _is_rule(word) for word in node):
            raise _TooWide
        return shape

    def _said(self, node: Schema, shape: Schema) -> Schema:
        """Add what is said in words, the limits among them."""
        if shape == {"type": "string"} and node.get("format") in _FORMATS:
            shape["format"] = node["format"]
        limits = {
            word: node[word]
            for word in _IN_WORDS
            if word in node and word not in shape and not (word == "default" and node[word] is None)
        }
        spoken = {word: node[word] for word in _KEPT if isinstance(node.get(word), str)}
        if limits:
            listed = ", ".join(f"{word}: {json.dumps(value, ensure_ascii=False)}" for word, value in limits.items())
            spoken["description"] = f"{spoken['description']} ({listed})" if "description" in spoken else f"({listed})"
        return {**spoken, **shape}

    def _any_of(self, parts: Any, seen: tuple[str, ...]) -> Schema:
        if not isinstance(parts, list) or not parts:
            raise _TooWide
        return {"anyOf": [self.node(part, seen) for part in parts]}

    def _object(self, node: Schema, seen: tuple[str, ...]) -> Schema:
        held, required = node.get("properties"), node.get("required", [])
        closed = node.get("additionalProperties", False) is False
        if not closed or not isinstance(held, dict) or not isinstance(required, list):
            raise _TooWide
        if not all(isinstance(name, str) and name in held for name in required):
            raise _TooWide
        written = {name: self.node(part, seen) for name, part in held.items()}
        demanded = [name for name in held if name in required or _null_goes_without_saying(held[name], written[name])]
        self.strict = self.strict and len(demanded) == len(held)
        return _closed(written, demanded)

    def _array(self, node: Schema, seen: tuple[str, ...]) -> Schema:
        first, items = node.get("prefixItems"), node.get("items")
        parts = [*(first if isinstance(first, list) else []), *([items] if isinstance(items, dict) else [])]
        if not parts:
            raise _TooWide
        written: list[Schema] = []
        for part in parts:
            one = self.node(part, seen)
            if one not in written:
                written.append(one)
        return {"type": "array", "items": written[0] if len(written) == 1 else {"anyOf": written}}


_WORDS_OF = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "prefixItems"),
}
_STRUCTURE = frozenset(word for words in _WORDS_OF.values() for word in words)


def _only(node: Schema, kind: str) -> Schema:
    """Return what a schema of several types says of one of them."""
    return {"type": kind, **{word: node[word] for word in _WORDS_OF.get(kind, ()) if word in node}}


def _is_rule(word: str) -> bool:
    """Tell whether a word says something that has to be written, and not in words."""
    return not (word in _IN_WORDS or word in _KEPT or word in _SAYS_NOTHING or word.startswith("x-"))


def _literals(values: Any) -> Schema:
    """Write a list of words with their type; null and words of several types are a choice."""
    if not isinstance(values, list) or not all(type(value) in _TYPE_NAMES for value in values):
        raise _TooWide
    by_type: dict[str, list[Any]] = {}
    for value in values:
        by_type.setdefault(_TYPE_NAMES[type(value)], []).append(value)
    shapes = [{"type": kind, **({"enum": held} if kind != "null" else {})} for kind, held in by_type.items()]
    if not shapes:
        raise _TooWide
    return shapes[0] if len(shapes) == 1 else {"anyOf": shapes}


def _null_goes_without_saying(part: Any, written: Schema) -> bool:
    """Tell whether leaving a property out means null, and null may be said: then it can be demanded."""
    return isinstance(part, dict) and part.get("default", part) is None and {"type": "null"} in written.get("anyOf", ())
