"""Walk a JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tenuto.rules.body import Fields, escape

NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords with an object of schemas."""
LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
"""Keywords with a list of schemas."""
SINGLE = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
"""Keywords with one schema."""
NOT_CLOSED = "In context=({path}), 'additionalProperties' is required to be supplied and to be false."
NOT_REQUIRED = (
    "In context=({path}), 'required' is required to be supplied and to be an array including every key in properties. "
    "Missing '{key}'."
)
"""What OpenAI says of the two kinds of `open_objects`."""


def walk_schema(schema: Any, pointer: str) -> Iterator[tuple[str, Fields]]:
    """Yield a schema and every schema in it that is an object, each with its pointer."""
    pending = [(pointer, schema)]
    while pending:
        pointer, part = pending.pop()
        if isinstance(part, dict):
            yield pointer, part
            pending.extend(reversed(list(subschemas(part, pointer))))


def subschemas(schema: Fields, pointer: str) -> Iterator[tuple[str, Any]]:
    """Yield the values directly below a schema that must be schemas."""
    for keyword in NAMED:
        if isinstance(schema.get(keyword), dict):
            for name, value in schema[keyword].items():
                yield f"{pointer}/{escape(keyword)}/{escape(name)}", value
    for keyword in LISTED:
        if isinstance(schema.get(keyword), list):
            for index, value in enumerate(schema[keyword]):
                yield f"{pointer}/{keyword}/{index}", value
    for keyword in SINGLE:
        value = schema.get(keyword)
        if isinstance(value, list):  # a tuple form of old drafts
            yield from ((f"{pointer}/{keyword}/{index}", item) for index, item in enumerate(value))
        elif keyword in schema:
            yield f"{pointer}/{keyword}", value


def types_of(schema: Fields) -> list[str]:
    """Return the type names of a schema, whether `type` is a string or a list."""
    value = schema.get("type")
    return [name for name in (value if isinstance(value, list) else [value]) if isinstance(name, str)]


def open_objects(schema: Any, pointer: str) -> Iterator[tuple[str, str, str]]:
    """Yield the objects of a schema that a strict schema must not have: the pointer, the path, the missing property.

    An object is open if it allows other properties (the property is empty), or if it does not require one of its own.
    The path is written as in the provider's message: `'properties', 'city'`.
    """
    for place, part in walk_schema(schema, pointer):
        properties = part.get("properties")
        if "object" not in types_of(part) and not isinstance(properties, dict):
            continue
        steps = place[len(pointer) :].split("/")[1:]
        path = repr(tuple(step.replace("~1", "/").replace("~0", "~") for step in steps))[1:-1]
        if part.get("additionalProperties") is not False:
            yield place, path, ""
        required = part.get("required")
        for name in properties if isinstance(properties, dict) else ():
            if not isinstance(required, list) or name not in required:
                yield place, path, name
