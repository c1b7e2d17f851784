"""Make JSON Schemas from Python types, and parse JSON as values of those types.

A type is anything that msgspec supports (structs, dataclasses, TypedDicts, enums, literals, unions, `Annotated` with
`msgspec.Meta`, the builtin types and their generics) or a pydantic model, alone or inside one of those. This module never
imports pydantic: it calls the methods of the model.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from tenuto.core import jsonio
from tenuto.schema.validate import Schema, resolve_ref

T = TypeVar("T")

_DEFINITIONS = "#/$defs/"


def is_pydantic_model(python_type: Any) -> bool:
    methods = ("model_json_schema", "model_validate_json")
    return isinstance(python_type, type) and all(hasattr(python_type, name) for name in methods)


def schema_from_type(python_type: Any) -> Schema:
    """Return the JSON Schema of a type; a mapping is already a schema.

    The root of a class's schema is the object itself, not a `$ref` to a definition. Raise `TypeError` for a type that
    JSON Schema cannot describe.
    """
    if isinstance(python_type, Mapping):
        return dict(python_type)
    (schema,), definitions = schemas_from_types([python_type])
    target = resolve_ref({"$defs": definitions}, schema.get("$ref"))
    if isinstance(target, dict):
        del schema["$ref"]
        schema = {**target, **schema}
    return {**schema, **select_definitions(definitions, [schema])}


def schemas_from_types(python_types: Sequence[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    """Return one schema per type, and by name the definitions that they refer to as `#/$defs/...`.

    Raise `TypeError` for a type that JSON Schema cannot describe, and for two types of the same name.
    """
    definitions: dict[str, Schema] = {}

    def pydantic_schema(python_type: Any) -> Schema:
        if not is_pydantic_model(python_type):
            raise NotImplementedError
        schema: Schema = python_type.model_json_schema()
        _merge_definitions(definitions, schema.pop("$defs", {}))
        return schema

    try:
        schemas, components = msgspec.json.schema_components(python_types, schema_hook=pydantic_schema)
    except (TypeError, NameError, AttributeError) as exc:  # NameError: an annotation that cannot be resolved
        # msgspec adds advice for its own callers: keep only the line with the reason.
        lines = str(exc).strip().splitlines()
        reason = next((line for line in reversed(lines) if "not supported" in line), lines[0] if lines else repr(exc))
        raise TypeError(reason) from exc
    for schema in components.values():
        if "description" in schema:  # a docstring; Python 3.13 removes its indentation at compile time
            schema["description"] = inspect.cleandoc(schema["description"])
    _merge_definitions(definitions, components)
    return list(schemas), definitions


def select_definitions(definitions: Mapping[str, Schema], schemas: Iterable[Any]) -> dict[str, dict[str, Schema]]:
    """Return the `$defs` member with the definitions that the schemas need; empty if they need none."""
    needed: set[str] = set()
    names = [name for schema in schemas for name in _references(schema)]
    while names:
        name = names.pop()
        if name in definitions and name not in needed:
            needed.add(name)
            names.extend(_references(definitions[name]))
    return {"$defs": {name: schema for name, schema in definitions.items() if name in needed}} if needed else {}


def parse_as(data: str | bytes | msgspec.Raw, python_type: type[T]) -> T:
    """Parse JSON as a value of a type.

    Raise `JsonError` if it is not JSON or does not match the type. A pydantic model raises pydantic's
    `ValidationError`, which is also a `ValueError`.
    """
    raw = jsonio.check(data)
    if is_pydantic_model(python_type):
        model: Any = python_type
        value: T = model.model_validate_json(bytes(raw))
        return value
    try:
        return msgspec.json.decode(raw, type=python_type, dec_hook=_from_pydantic)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass  # msgspec rejects lone surrogates: parse without it
    try:
        return msgspec.convert(jsonio.parse(raw), python_type, dec_hook=_from_pydantic, str_keys=True)
    except msgspec.ValidationError as exc:
        raise jsonio.JsonError(str(exc)) from exc
    except UnicodeEncodeError:
        raise jsonio.JsonError("a string with a lone surrogate does not fit here") from None


def _from_pydantic(python_type: Any, value: Any) -> Any:
    if is_pydantic_model(python_type):
        return python_type.model_validate(value)
    raise NotImplementedError(f"JSON cannot be parsed as {python_type.__name__}")


def _merge_definitions(definitions: dict[str, Schema], more: Mapping[str, Schema]) -> None:
    for name, schema in more.items():
        if definitions.setdefault(name, schema) != schema:
            raise TypeError(f"two different types have the name {name!r}: rename one of them")


def _references(node: Any) -> Iterator[str]:
    """Yield the names of the definitions that a schema refers to."""
    if isinstance(node, dict):
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.startswith(_DEFINITIONS):
            yield reference.removeprefix(_DEFINITIONS)
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _references(inner)
