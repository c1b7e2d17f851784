"""Convert JSON Schemas to the OpenAPI form with upper-case types, for hosts that accept only that.

References are replaced by their target, and a type that may be null becomes `nullable`. Keywords without an equivalent
are dropped, each with a `Loss`.
"""

from typing import Any

from tenuto.core.loss import Location, Loss
from tenuto.schema.validate import Schema, resolve_ref

_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_COPIED = (
    "title", "description", "default", "example", "nullable", "minItems", "maxItems", "minLength", "maxLength",
    "minProperties", "maxProperties", "minimum", "maximum", "pattern", "propertyOrdering",
)  # fmt: skip
_CONVERTED = ("type", "const", "enum", "format", "properties", "required", "items", "anyOf", "oneOf")
_FORMATS = ("enum", "date-time", "float", "double", "int32", "int64")
_IGNORED = ("$schema", "$id", "$anchor", "$comment", "$defs", "definitions")
"""Keywords that restrict no value: dropping them is not a loss."""
MAX_DEPTH = 60
MAX_NODES = 5000
"""Limit for the size of a schema after its references are replaced."""


def to_openapi(schema: Schema, *, path: str = "schema") -> tuple[Schema, tuple[Loss, ...]]:
    """Convert a schema to the OpenAPI form; return it with its losses, whose locations start with `path`."""
    converter = _OpenApiConverter(schema)
    return converter.convert(schema, path, ()), tuple(converter.losses)


class _OpenApiConverter:
    """Convert the parts of one schema. `open_refs`: the references around the part, outermost first."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._nodes = 0
        self._depth = 0
        self.losses: list[Loss] = []

    def _lose(self, path: str, detail: str) -> None:
        remedy = "use a host that accepts JSON Schema"
        self.losses.append(Loss("schema-lowered", Location(path=path), detail[:200], remedy))

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
        resolved = self._resolve(node, path, open_refs)
        if resolved is None:
            return {"type": "OBJECT"}
        node, open_refs = resolved
        self._depth += 1
        # The keys of `properties` are names: only the keys of a schema itself are keywords.
        converted: Schema = {name: node[name] for name in _COPIED if name in node}
        for name in _CONVERTED:
            if name in node:
                self._convert_keyword(name, node[name], converted, f"{path}.{name}", open_refs)
        for name in node:
            if name not in (*_CONVERTED, *_COPIED, *_IGNORED):
                self._lose(f"{path}.{name}", repr(node[name]))
        self._depth -= 1
        return self._complete(converted, path)

    def _convert_keyword(self, name: str, value: Any, converted: Schema, path: str, open_refs: tuple[str, ...]) -> None:
        match name, value:
            case "type", _:
                self._type(value, converted, path)
            case "const", str():
                self._enum([value], converted, path)
            case "const", None:
                converted.setdefault("type", "NULL")
            case "const", bool():
                self._lose(path, repr(value))
                converted.setdefault("type", "BOOLEAN")
            case "const", int() | float():
                converted["minimum"] = converted["maximum"] = value
                converted.setdefault("type", "INTEGER" if isinstance(value, int) else "NUMBER")
            case "enum", list():
                self._enum(value, converted, path)
            case "format", _ if value in _FORMATS:
                converted["format"] = value
            case "properties", dict():
                if value:
                    parts = {key: self.convert(part, f"{path}.{key}", open_refs) for key, part in value.items()}
                    converted["properties"] = parts
            case "required", list():
                names = [key for key in value if key in converted.get("properties", {})]
                if names != value:
                    self._lose(path, repr(value))
                if names:
                    converted["required"] = names
            case "items", _:
                converted["items"] = self.convert(value, path, open_refs)
            case (("anyOf" | "oneOf"), _):
                self._any_of(value if isinstance(value, list) else [value], converted, path, open_refs)
            case _:
                self._lose(path, repr(value))

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

    def _resolve(self, node: Any, path: str, open_refs: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]] | None:
        """Replace a `$ref` by its target and merge `allOf`; other keywords override. None if that is impossible."""
        if not isinstance(node, dict):
            self._lose(path, f"{node!r} is not a schema")
            return None
        while "$ref" in node:
            reference = node["$ref"]
            target = resolve_ref(self._root, reference)
            if not isinstance(target, dict) or reference in open_refs:
                reason = "refers to itself" if isinstance(target, dict) else "refers to nothing in the schema"
                self._lose(path, f"{reference!r} {reason}")
                return None
            node = {**target, **{name: value for name, value in node.items() if name != "$ref"}}
            open_refs = (*open_refs, reference)
        parts = node.get("allOf")
        if isinstance(parts, list):
            node = {name: value for name, value in node.items() if name != "allOf"}
            for index, part in enumerate(parts):
                part_path = f"{path}.allOf[{index}]"
                resolved = self._resolve(part, part_path, open_refs)
                self._merge(node, resolved[0] if resolved else {}, part_path)
        return node, open_refs

    def _merge(self, merged: Schema, part: Schema, path: str) -> None:
        for name, value in part.items():
            outer = merged.get(name)
            if name not in merged:
                merged[name] = value
            elif name == "properties" and isinstance(outer, dict) and isinstance(value, dict):
                merged[name] = {**value, **outer}
            elif name == "required" and isinstance(outer, list) and isinstance(value, list):
                merged[name] = list(dict.fromkeys((*outer, *value)))
            elif outer != value and name not in _IGNORED:
                self._lose(f"{path}.{name}", repr(value))

    def _type(self, value: Any, converted: Schema, path: str) -> None:
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

    def _enum(self, values: list[Any], converted: Schema, path: str) -> None:
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

    def _any_of(self, branches: list[Any], converted: Schema, path: str, open_refs: tuple[str, ...]) -> None:
        if "anyOf" in converted:
            self._lose(path, "a schema can have only one choice")
            return
        parts = [self.convert(branch, f"{path}[{index}]", open_refs) for index, branch in enumerate(branches)]
        options = [part for part in parts if part != {"type": "NULL"}]
        if len(options) < len(parts):
            converted["nullable"] = True
        if len(options) == 1:
            for name, inner in options[0].items():
                converted.setdefault(name, inner)
        elif options:
            converted["anyOf"] = options
