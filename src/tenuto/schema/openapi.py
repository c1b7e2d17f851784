"""Convert JSON Schemas to the OpenAPI form with upper-case types, for hosts that accept only that.

References are replaced by their target, and a type that may be null becomes `nullable`. Keywords without an equivalent
are dropped, each with a `Loss`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenuto.core.loss import Loss
from tenuto.schema.validate import resolve_ref

Schema = dict[str, Any]

_TYPES = frozenset(("string", "number", "integer", "boolean", "array", "object", "null"))
_COPIED = (
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
_IGNORED = frozenset(("$schema", "$id", "$anchor", "$comment", "$defs", "definitions"))
"""Keywords that restrict no value: dropping them is not a loss."""
MAX_DEPTH = 60
MAX_NODES = 5000
"""Limit for the size of a schema after its references are replaced."""


def to_openapi(schema: Schema, *, path: str = "schema") -> tuple[Schema, tuple[Loss, ...]]:
    """Convert a schema to the OpenAPI form; return it with its losses.

    `path` is the location of the schema in the request; the losses start with it.
    """
    converter = _OpenApiConverter(schema)
    return converter.convert(schema, path, ()), tuple(converter.losses)


class _OpenApiConverter:
    """Convert the parts of one schema. `open_refs`: the references around the part, outermost first."""

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

    def _lose(self, path: str, detail: str) -> None:
        self.losses.append(Loss("schema-lowered", path, detail[:200], "use a host that accepts JSON Schema"))

    def convert(self, node: Any, path: str, open_refs: tuple[str, ...]) -> Schema:
        self._nodes += 1
        if node is True:
            return {}
        if not isinstance(node, dict):
            self._lose(path, f"{node!r} is not a schema")
            return {}
        if self._nodes > MAX_NODES or self._depth > MAX_DEPTH:
            self._lose(path, f"truncated: more than {MAX_NODES} parts, or deeper than {MAX_DEPTH} levels")
            return {"type": "OBJECT"}
        resolved = self._follow_refs(node, path, open_refs)
        if resolved is None:
            return {"type": "OBJECT"}
        node, open_refs = resolved
        self._depth += 1
        node = self._merge_all_of(node, path, open_refs)
        # The keys of `properties` are names: only the keys of a schema itself are keywords.
        converted: Schema = {name: node[name] for name in _COPIED if name in node}
        for name, convert in self._keywords.items():
            if name in node:
                convert(node[name], converted, f"{path}.{name}", open_refs)
        for name in node:
            if name not in self._keywords and name not in _COPIED and name not in _IGNORED:
                self._lose(f"{path}.{name}", repr(node[name]))
        self._depth -= 1
        return self._complete(converted, path)

    def _complete(self, converted: Schema, path: str) -> Schema:
        """Add the type that the other keywords imply, and the items of an array: both are mandatory."""
        if "type" not in converted and "anyOf" not in converted:
            for name, implied in (("properties", "OBJECT"), ("items", "ARRAY")):
                if name in converted:
                    converted["type"] = implied
        if converted.get("type") == "ARRAY" and not converted.get("items"):
            self._lose(f"{path}.items", "an array of anything became an array of strings")
            converted["items"] = {"type": "STRING"}
        return converted

    # --- references and allOf -----------------------------------------------------------------------------------------

    def _follow_refs(
        self, node: Schema, path: str, open_refs: tuple[str, ...]
    ) -> tuple[Schema, tuple[str, ...]] | None:
        """Replace a `$ref` by its target, overridden by the keywords next to it; None if that is impossible."""
        while "$ref" in node:
            reference = node["$ref"]
            target = resolve_ref(self._root, reference)
            if not isinstance(target, dict) or reference in open_refs:
                reason = "refers to itself" if isinstance(target, dict) else "refers to nothing in the schema"
                self._lose(path, f"{reference!r} {reason}")
                return None
            node = {**target, **{name: value for name, value in node.items() if name != "$ref"}}
            open_refs = (*open_refs, reference)
        return node, open_refs

    def _merge_all_of(self, node: Schema, path: str, open_refs: tuple[str, ...]) -> Schema:
        """Merge the parts of `allOf`: properties and required names add up, other keywords of the outer part win."""
        parts = node.get("allOf")
        if not isinstance(parts, list):
            return node
        merged = {name: value for name, value in node.items() if name != "allOf"}
        for index, part in enumerate(parts):
            part_path = f"{path}.allOf[{index}]"
            if not isinstance(part, dict):
                self._lose(part_path, f"{part!r} is not a schema")
                continue
            resolved = self._follow_refs(part, part_path, open_refs)
            if resolved is None:
                continue
            for name, value in self._merge_all_of(resolved[0], part_path, resolved[1]).items():
                outer = merged.get(name)
                if name not in merged:
                    merged[name] = value
                elif name == "properties" and isinstance(outer, dict) and isinstance(value, dict):
                    merged[name] = {**value, **outer}
                elif name == "required" and isinstance(outer, list) and isinstance(value, list):
                    merged[name] = list(dict.fromkeys((*outer, *value)))
                elif outer != value and name not in _IGNORED:
                    self._lose(f"{part_path}.{name}", repr(value))
        return merged

    # --- keywords -----------------------------------------------------------------------------------------------------

    def _type(self, value: Any, converted: Schema, path: str, _: tuple[str, ...]) -> None:
        names = value if isinstance(value, list) else [value]
        types = [name for name in names if isinstance(name, str) and name.lower() in _TYPES]
        if len(types) < len(names):
            self._lose(path, repr(value))
        if len(types) > 1 and "null" in types:
            converted["nullable"] = True
            types = [name for name in types if name != "null"]
        if len(types) == 1:
            converted["type"] = types[0].upper()
        elif types:
            converted["anyOf"] = [self._complete({"type": name.upper()}, path) for name in types]

    def _const(self, value: Any, converted: Schema, path: str, _: tuple[str, ...]) -> None:
        if isinstance(value, str):
            converted["enum"] = [value]
            converted.setdefault("type", "STRING")
        elif value is None:
            converted.setdefault("type", "NULL")
        elif isinstance(value, bool):
            self._lose(path, repr(value))
            converted.setdefault("type", "BOOLEAN")
        elif isinstance(value, int | float):
            converted["minimum"] = converted["maximum"] = value
            converted.setdefault("type", "INTEGER" if isinstance(value, int) else "NUMBER")
        else:
            self._lose(path, repr(value))

    def _enum(self, values: Any, converted: Schema, path: str, _: tuple[str, ...]) -> None:
        if not isinstance(values, list):
            self._lose(path, repr(values))
            return
        if None in values:
            converted["nullable"] = True
        options = [value for value in values if value is not None]
        if options and all(isinstance(value, str) for value in options):
            converted["enum"] = options
            converted.setdefault("type", "STRING")
        elif options:
            self._lose(path, repr(values))
            text = f"One of: {', '.join(map(str, options))}."
            converted["description"] = f"{converted['description']} {text}" if "description" in converted else text

    def _format(self, value: Any, converted: Schema, path: str, _: tuple[str, ...]) -> None:
        if value in _FORMATS:
            converted["format"] = value
        else:
            self._lose(path, repr(value))

    def _properties(self, value: Any, converted: Schema, path: str, open_refs: tuple[str, ...]) -> None:
        if not isinstance(value, dict):
            self._lose(path, repr(value))
        elif value:
            converted["properties"] = {
                name: self.convert(part, f"{path}.{name}", open_refs) for name, part in value.items()
            }

    def _required(self, value: Any, converted: Schema, path: str, _: tuple[str, ...]) -> None:
        properties = converted.get("properties", {})
        names = [name for name in value if name in properties] if isinstance(value, list) else None
        if names != value:
            self._lose(path, repr(value))
        if names:
            converted["required"] = names

    def _items(self, value: Any, converted: Schema, path: str, open_refs: tuple[str, ...]) -> None:
        converted["items"] = self.convert(value, path, open_refs)

    def _any_of(self, value: Any, converted: Schema, path: str, open_refs: tuple[str, ...]) -> None:
        if "anyOf" in converted:
            self._lose(path, "a schema can have only one choice")
            return
        branches = value if isinstance(value, list) else [value]
        parts = [self.convert(branch, f"{path}[{index}]", open_refs) for index, branch in enumerate(branches)]
        options = [part for part in parts if part != {"type": "NULL"}]
        if len(options) < len(parts):
            converted["nullable"] = True
        if len(options) == 1:
            for name, inner in options[0].items():
                converted.setdefault(name, inner)
        elif options:
            converted["anyOf"] = options
