"""Convert JSON Schemas to the subset that every provider's structured output mode accepts.

Objects list all their properties, references are replaced by their target, choices are `anyOf`, and every value has a
type. Limits on values become part of the description, so the caller has to validate the answer against the original
schema. A schema with open objects, values of any type, or recursion cannot be converted.
"""

import json
from typing import Any

import msgspec

from tenuto.schema.validate import Schema, resolve_ref

VALUE_PROPERTY = "value"
"""Property that contains the answer if the original schema does not describe an object."""
MAX_NODES = 2000
"""Limit for the size of a schema after its references are replaced."""
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
_DESCRIBED = (
    "default", "examples", "format", "pattern", "minLength", "maxLength", "contentEncoding", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems", "minProperties",
    "maxProperties",
)  # fmt: skip
"""Keywords that become part of the description."""
_TEXTS = ("title", "description")
_IGNORED = ("$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "discriminator", "deprecated", "readOnly")
_TYPE_NAMES = {bool: "boolean", str: "string", int: "integer", float: "number", type(None): "null"}
_OBJECT_KEYWORDS = ("properties", "required", "additionalProperties")
_ARRAY_KEYWORDS = ("items", "prefixItems")


class StrictSchema(msgspec.Struct, frozen=True):
    schema: Schema
    strict: bool
    """Every object requires all its properties, as the strictest modes demand."""
    wrapped: bool
    """The answer is in the property `VALUE_PROPERTY` of an object, because the original is not an object."""


def to_strict_subset(schema: Schema) -> StrictSchema | None:
    """Convert a schema to the strict subset; None if that is impossible."""
    converter = _StrictConverter(schema)
    try:
        converted = converter.convert(schema, ())
    except (_NotExpressible, RecursionError):
        return None
    wrapped = converted.get("type") != "object"
    if wrapped:
        converted = _closed_object({VALUE_PROPERTY: converted}, [VALUE_PROPERTY])
    return StrictSchema(converted, converter.strict, wrapped)


class _NotExpressible(Exception):
    """The subset cannot express this schema."""


class _StrictConverter:
    """Convert the parts of one schema. `open_refs`: the references around the part, outermost first."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._nodes = 0
        self.strict = True

    def convert(self, node: Any, open_refs: tuple[str, ...]) -> Schema:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _NotExpressible
        node, open_refs = self._inline(node, open_refs)
        converted = self._convert_type(node, open_refs)
        if converted == {"type": "string"} and node.get("format") in _FORMATS:
            converted["format"] = node["format"]
        texts = {keyword: node[keyword] for keyword in _TEXTS if isinstance(node.get(keyword), str)}
        limits = ", ".join(
            f"{keyword}: {json.dumps(node[keyword], ensure_ascii=False)}"
            for keyword in _DESCRIBED
            if keyword in node and keyword not in converted and not (keyword == "default" and node[keyword] is None)
        )
        if limits:
            texts["description"] = f"{texts['description']} ({limits})" if "description" in texts else f"({limits})"
        return {**texts, **converted}

    def _inline(self, node: Any, open_refs: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        """Replace a `$ref`, or an `allOf` with a single part, by its target; keywords next to it override the target's."""
        while isinstance(node, dict) and ("$ref" in node or "allOf" in node):
            target: Any
            if "$ref" in node:
                keyword, reference = "$ref", node["$ref"]
                if reference in open_refs:
                    raise _NotExpressible
                target = resolve_ref(self._root, reference)
                open_refs = (*open_refs, reference)
            else:
                keyword, parts = "allOf", node["allOf"]
                target = parts[0] if isinstance(parts, list) and len(parts) == 1 else None
            siblings = {name: value for name, value in node.items() if name != keyword}
            if not isinstance(target, dict) or any(_is_constraint(name) for name in siblings if name in target):
                raise _NotExpressible
            node = {**target, **siblings}
        if not isinstance(node, dict):
            raise _NotExpressible
        return node, open_refs

    def _convert_type(self, node: Schema, open_refs: tuple[str, ...]) -> Schema:
        """Convert the keywords that constrain the value; every one of them has to be converted."""
        choice = "anyOf" if "anyOf" in node else "oneOf"
        json_type = node.get("type", "object" if "properties" in node else None)
        used: tuple[str, ...] = ("type",)
        if choice in node:
            used, converted = (choice,), self._any_of(node[choice], open_refs)
        elif "enum" in node or "const" in node:
            used, converted = ("type", "enum", "const"), _enum([node["const"]] if "const" in node else node["enum"])
        elif isinstance(json_type, list) and all(isinstance(name, str) for name in json_type):
            used = ("type", *_OBJECT_KEYWORDS, *_ARRAY_KEYWORDS)
            converted = self._any_of([_select_type(node, name) for name in json_type], open_refs)
        elif json_type == "object":
            used, converted = ("type", *_OBJECT_KEYWORDS), self._object(node, open_refs)
        elif json_type == "array":
            used, converted = ("type", *_ARRAY_KEYWORDS), self._array(node, open_refs)
        elif json_type in _TYPE_NAMES.values():
            converted = {"type": json_type}
        else:
            raise _NotExpressible
        if any(keyword not in used and _is_constraint(keyword) for keyword in node):
            raise _NotExpressible
        return converted

    def _any_of(self, parts: Any, open_refs: tuple[str, ...]) -> Schema:
        if not isinstance(parts, list) or not parts:
            raise _NotExpressible
        return {"anyOf": [self.convert(part, open_refs) for part in parts]}

    def _object(self, node: Schema, open_refs: tuple[str, ...]) -> Schema:
        properties, required = node.get("properties"), node.get("required", [])
        closed = node.get("additionalProperties", False) is False
        if not closed or not isinstance(properties, dict) or not isinstance(required, list):
            raise _NotExpressible
        if not all(isinstance(name, str) and name in properties for name in required):
            raise _NotExpressible
        converted = {name: self.convert(part, open_refs) for name, part in properties.items()}
        for name, part in properties.items():
            # A property whose default is null may be required: null means the same as leaving it out.
            if part.get("default", part) is None and {"type": "null"} in converted[name].get("anyOf", ()):
                required = [*required, name]
        self.strict = self.strict and len(set(required)) == len(properties)
        return _closed_object(converted, [name for name in properties if name in required])

    def _array(self, node: Schema, open_refs: tuple[str, ...]) -> Schema:
        prefix, items = node.get("prefixItems"), node.get("items")
        parts = [*(prefix if isinstance(prefix, list) else []), *([items] if isinstance(items, dict) else [])]
        distinct: list[Schema] = []
        for part in parts:
            converted = self.convert(part, open_refs)
            if converted not in distinct:
                distinct.append(converted)
        if not distinct:
            raise _NotExpressible
        return {"type": "array", "items": distinct[0] if len(distinct) == 1 else {"anyOf": distinct}}


def _closed_object(properties: Schema, required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _select_type(node: Schema, json_type: str) -> Schema:
    """Return the part of a schema with several types that applies to one of them."""
    keywords = {"object": _OBJECT_KEYWORDS, "array": _ARRAY_KEYWORDS}.get(json_type, ())
    return {"type": json_type, **{keyword: node[keyword] for keyword in keywords if keyword in node}}


def _is_constraint(keyword: str) -> bool:
    """Return True if a keyword restricts the value and cannot become part of the description."""
    return not (keyword in _DESCRIBED or keyword in _TEXTS or keyword in _IGNORED or keyword.startswith("x-"))


def _enum(values: Any) -> Schema:
    """Convert the values of an `enum` to one schema per type; null has no `enum` keyword."""
    if not isinstance(values, list) or not values or not all(type(value) in _TYPE_NAMES for value in values):
        raise _NotExpressible
    by_type: dict[str, list[Any]] = {}
    for value in values:
        by_type.setdefault(_TYPE_NAMES[type(value)], []).append(value)
    parts = [{"type": name, **({"enum": options} if name != "null" else {})} for name, options in by_type.items()]
    return parts[0] if len(parts) == 1 else {"anyOf": parts}
