"""JSON Schemas, for hosts that know only a subset.

`to_openapi` writes a schema in the OpenAPI dialect with upper-case types. References are written out where they stand, a
type that may be null becomes `nullable`, and what the dialect has no word for is left out, each with a `Loss`. The keys
of `properties` are names and never taken for keywords.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenuto.core.target import Loss

__all__ = ["to_openapi"]

Schema = dict[str, Any]

_TYPES = frozenset(("string", "number", "integer", "boolean", "array", "object", "null"))
_KEPT = (
    "title",
    "description",
    "default",
    "example",
    "nullable",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "pattern",
    "propertyOrdering",
)
_FORMATS = frozenset(("enum", "date-time", "float", "double", "int32", "int64"))
_SAYS_NOTHING = frozenset(("$schema", "$id", "$anchor", "$comment", "$defs", "definitions"))
"""Keywords that restrict no value: their absence is no loss."""
MAX_DEPTH = 60
MAX_NODES = 5000
"""How large a schema may become by writing out its references."""


def to_openapi(schema: Schema, *, path: str = "schema") -> tuple[Schema, tuple[Loss, ...]]:
    """Return the schema in the upper-case dialect, and what it could not carry. The schema given is not changed."""
    lowering = _Lowering(schema)
    return lowering.schema(schema, path, ()), tuple(lowering.losses)


class _Lowering:
    """One schema on its way down. `seen` are the references that are being written out, outermost first."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._nodes = 0
        self._depth = 0
        self.losses: list[Loss] = []
        self._keywords: dict[str, Callable[[Any, Schema, str, tuple[str, ...]], None]] = {
            "type": self._type,
            "const": self._const,
            "enum": self._enum,
            "format": self._format,
            "properties": self._properties,
            "required": self._required,
            "items": self._items,
            "anyOf": self._any_of,
            "oneOf": self._any_of,
        }

    def _lose(self, place: str, what: str) -> None:
        self.losses.append(Loss("schema-lowered", place, what[:200], "use a host that takes JSON Schema"))

    def schema(self, node: Any, place: str, seen: tuple[str, ...]) -> Schema:
        self._nodes += 1
        if node is True:
            return {}
        if not isinstance(node, dict):
            self._lose(place, f"{node!r} is no schema")
            return {}
        if self._nodes > MAX_NODES or self._depth > MAX_DEPTH:
            self._lose(place, f"cut off: more than {MAX_NODES} parts, or deeper than {MAX_DEPTH}")
            return {"type": "OBJECT"}
        self._depth += 1
        lowered = self._lowered(node, place, seen)
        self._depth -= 1
        return lowered

    def _lowered(self, node: Schema, place: str, seen: tuple[str, ...]) -> Schema:
        node, seen, refused = self._resolved(node, place, seen)
        if refused:
            return {"type": "OBJECT"}
        node = self._merged(node, place, seen)
        lowered: Schema = {name: node[name] for name in _KEPT if name in node}
        for name, write in self._keywords.items():
            if name in node:
                write(node[name], lowered, f"{place}.{name}", seen)
        for name in node:
            if name not in self._keywords and name not in _KEPT and name not in _SAYS_NOTHING:
                self._lose(f"{place}.{name}", repr(node[name]))
        return self._completed(lowered, place)

    def _completed(self, lowered: Schema, place: str) -> Schema:
        """Name the type that the other keywords imply, and what an array holds: the dialect insists on both."""
        if "type" not in lowered and "anyOf" not in lowered:
            for name, implied in (("properties", "OBJECT"), ("items", "ARRAY")):
                if name in lowered:
                    lowered["type"] = implied
        if lowered.get("type") == "ARRAY" and not lowered.get("items"):
            self._lose(f"{place}.items", "an array of anything became one of strings")
            lowered["items"] = {"type": "STRING"}
        return lowered

    # --- references ---------------------------------------------------------------------------------------------------

    def _resolved(self, node: Schema, place: str, seen: tuple[str, ...]) -> tuple[Schema, tuple[str, ...], bool]:
        """Follow a reference; what stands beside it is laid over what it names."""
        while "$ref" in node:
            name = node["$ref"]
            beside = {key: value for key, value in node.items() if key != "$ref"}
            target = self._target(name)
            if target is None or name in seen:
                why = "names nothing here" if target is None else "refers to itself"
                self._lose(place, f"{name!r} {why}")
                return node, seen, True
            node, seen = {**target, **beside}, (*seen, name)
        return node, seen, False

    def _target(self, name: Any) -> Schema | None:
        if not isinstance(name, str) or not name.startswith("#"):
            return None
        found: Any = self._root
        for step in name[1:].split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else None

    def _merged(self, node: Schema, place: str, seen: tuple[str, ...]) -> Schema:
        """Write out `allOf`: properties and required names add up; of anything else the outermost counts."""
        parts = node.get("allOf")
        if not isinstance(parts, list):
            return node
        merged = {key: value for key, value in node.items() if key != "allOf"}
        for at, part in enumerate(parts):
            if not isinstance(part, dict):
                self._lose(f"{place}.allOf[{at}]", f"{part!r} is no schema")
                continue
            resolved, within, refused = self._resolved(part, f"{place}.allOf[{at}]", seen)
            held = {} if refused else self._merged(resolved, f"{place}.allOf[{at}]", within)
            for key, value in held.items():
                self._add(merged, key, value, f"{place}.allOf[{at}]")
        return merged

    def _add(self, merged: Schema, key: str, value: Any, place: str) -> None:
        old = merged.get(key)
        if key not in merged:
            merged[key] = value
        elif key == "properties" and isinstance(old, dict) and isinstance(value, dict):
            merged[key] = {**value, **old}
        elif key == "required" and isinstance(old, list) and isinstance(value, list):
            merged[key] = list(dict.fromkeys((*old, *value)))
        elif old != value and key not in _SAYS_NOTHING:
            self._lose(f"{place}.{key}", repr(value))

    # --- keywords -----------------------------------------------------------------------------------------------------

    def _type(self, given: Any, lowered: Schema, place: str, _: tuple[str, ...]) -> None:
        named = given if isinstance(given, list) else [given]
        types = [name for name in named if isinstance(name, str) and name.lower() in _TYPES]
        if len(types) < len(named):
            self._lose(place, repr(given))
        if len(types) > 1 and "null" in types:
            lowered["nullable"] = True
            types = [name for name in types if name != "null"]
        if len(types) == 1:
            lowered["type"] = types[0].upper()
        elif types:
            lowered["anyOf"] = [self._completed({"type": name.upper()}, place) for name in types]

    def _const(self, value: Any, lowered: Schema, place: str, _: tuple[str, ...]) -> None:
        if isinstance(value, str):
            lowered["enum"] = [value]
            lowered.setdefault("type", "STRING")
        elif value is None:
            lowered.setdefault("type", "NULL")
        elif isinstance(value, bool):
            self._lose(place, repr(value))
            lowered.setdefault("type", "BOOLEAN")
        elif isinstance(value, int | float):
            lowered["minimum"] = lowered["maximum"] = value
            lowered.setdefault("type", "INTEGER" if isinstance(value, int) else "NUMBER")
        else:
            self._lose(place, repr(value))

    def _enum(self, values: Any, lowered: Schema, place: str, _: tuple[str, ...]) -> None:
        if not isinstance(values, list):
            self._lose(place, repr(values))
            return
        if None in values:
            lowered["nullable"] = True
        said = [value for value in values if value is not None]
        if said and all(isinstance(value, str) for value in said):
            lowered["enum"] = said
            lowered.setdefault("type", "STRING")
        elif said:
            self._lose(place, repr(values))
            listed = f"One of: {', '.join(map(str, said))}."
            lowered["description"] = f"{lowered['description']} {listed}" if "description" in lowered else listed

    def _format(self, given: Any, lowered: Schema, place: str, _: tuple[str, ...]) -> None:
        if given in _FORMATS:
            lowered["format"] = given
        else:
            self._lose(place, repr(given))

    def _properties(self, held: Any, lowered: Schema, place: str, seen: tuple[str, ...]) -> None:
        if not isinstance(held, dict):
            self._lose(place, repr(held))
        elif held:
            lowered["properties"] = {name: self.schema(node, f"{place}.{name}", seen) for name, node in held.items()}

    def _required(self, given: Any, lowered: Schema, place: str, _: tuple[str, ...]) -> None:
        known = lowered.get("properties", {})
        kept = [name for name in given if name in known] if isinstance(given, list) else None
        if kept != given:
            self._lose(place, repr(given))
        if kept:
            lowered["required"] = kept

    def _items(self, given: Any, lowered: Schema, place: str, seen: tuple[str, ...]) -> None:
        lowered["items"] = self.schema(given, place, seen)

    def _any_of(self, given: Any, lowered: Schema, place: str, seen: tuple[str, ...]) -> None:
        if "anyOf" in lowered:
            self._lose(place, "stands beside another choice")
            return
        branches = given if isinstance(given, list) else [given]
        written = [self.schema(branch, f"{place}[{at}]", seen) for at, branch in enumerate(branches)]
        said = [branch for branch in written if branch != {"type": "NULL"}]
        if len(said) < len(written):
            lowered["nullable"] = True
        if len(said) == 1:
            for key, value in said[0].items():
                lowered.setdefault(key, value)
        elif said:
            lowered["anyOf"] = said
