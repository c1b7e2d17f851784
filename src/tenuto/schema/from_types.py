"""Make JSON Schemas from Python types, and parse JSON as values of those types.

A type is anything that msgspec supports (structs, dataclasses, TypedDicts, enums, literals, unions, `Annotated` with
`msgspec.Meta`, the builtin types and their generics), a pydantic model, alone or inside one of those, or a pydantic
`TypeAdapter`. A union may have any of them as members, also several that msgspec cannot tell apart, such as two
dataclasses. This module never imports pydantic: it calls the methods of the model.
"""

import inspect
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, Union

import msgspec

from tenuto.core import jsonio
from tenuto.schema.validate import Schema, resolve_ref

T = TypeVar("T")

_DEFINITIONS = "#/$defs/"


def is_pydantic_model(python_type: Any) -> bool:
    methods = ("model_json_schema", "model_validate_json")
    return isinstance(python_type, type) and all(hasattr(python_type, name) for name in methods)


def _is_adapter(python_type: Any) -> bool:
    return all(hasattr(python_type, name) for name in ("json_schema", "validate_json"))


class _AnyInstance(type):
    def __instancecheck__(cls, value: object) -> bool:  # msgspec checks the values that the hook returns
        return True


class _UnionMembers(metaclass=_AnyInstance):
    """The base of the classes that replace unions which msgspec refuses; it passes them to the hooks."""

    members: tuple[Any, ...]


def _replace_unions(python_type: Any) -> Any:
    """Replace the unions in a type by subclasses of `_UnionMembers`."""
    origin, arguments = typing.get_origin(python_type), typing.get_args(python_type)
    if origin is Annotated:
        inner = _replace_unions(arguments[0])
        return python_type if inner is arguments[0] else inner  # pydantic's discriminator: the members tell it, too
    replaced = tuple(map(_replace_unions, arguments))
    if origin in (Union, types.UnionType):
        return _AnyInstance("Union", (_UnionMembers,), {"members": replaced})
    return python_type if origin in (None, Literal) or replaced == arguments else origin[replaced]


def schema_from_type(python_type: Any) -> Schema:
    """Return the JSON Schema of a type; a mapping is already a schema.

    The root of a class's schema is the object itself, not a `$ref` to a definition. Raise `TypeError` for a type that
    JSON Schema cannot describe.
    """
    if isinstance(python_type, Mapping):
        return dict(python_type)
    if _is_adapter(python_type):
        adapted: Schema = python_type.json_schema()
        return adapted
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

    def custom_schema(python_type: Any) -> Schema:
        if isinstance(python_type, type) and issubclass(python_type, _UnionMembers):
            schemas, components = schemas_from_types(python_type.members)
            _merge_definitions(definitions, components)
            return {"anyOf": schemas}
        if not is_pydantic_model(python_type):
            raise NotImplementedError
        schema: Schema = python_type.model_json_schema()
        _merge_definitions(definitions, schema.pop("$defs", {}))
        return schema

    try:
        try:
            schemas, components = msgspec.json.schema_components(python_types, schema_hook=custom_schema)
        except TypeError:
            replaced = [*map(_replace_unions, python_types)]
            schemas, components = msgspec.json.schema_components(replaced, schema_hook=custom_schema)
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
    for is_pydantic, method in ((is_pydantic_model, "model_validate_json"), (_is_adapter, "validate_json")):
        if is_pydantic(python_type):
            value: T = getattr(python_type, method)(bytes(raw))
            return value
    try:
        return msgspec.json.decode(raw, type=python_type, dec_hook=_from_custom)
    except TypeError:
        python_type = _replace_unions(python_type)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass  # msgspec rejects lone surrogates: parse without it
    try:
        return _convert(jsonio.parse(raw), python_type)
    except msgspec.ValidationError as exc:
        raise jsonio.JsonError(str(exc)) from exc
    except UnicodeEncodeError:
        raise jsonio.JsonError("a string with a lone surrogate does not fit here") from None


def _convert(value: Any, python_type: type[T]) -> T:
    return msgspec.convert(value, python_type, dec_hook=_from_custom, str_keys=True)


def _from_custom(python_type: Any, value: Any) -> Any:
    if issubclass(python_type, _UnionMembers):
        return _from_union(python_type.members, value)
    if is_pydantic_model(python_type):
        return python_type.model_validate(value)
    raise NotImplementedError(f"JSON cannot be parsed as {python_type.__name__}")


def _from_union(members: tuple[Any, ...], value: Any) -> Any:
    """Return the value as a member of a union: the first that fits of those with most of its properties.

    A type ignores properties that it does not have, so the first that fits could lose some.
    """
    if isinstance(value, dict):
        matches = [len(value.keys() & schema_from_type(member).get("properties", {}).keys()) for member in members]
        members = tuple(member for _, member in sorted(zip(matches, members, strict=True), key=lambda pair: -pair[0]))
    problems: list[str] = []
    for member in members:
        try:
            return _convert(value, member)
        except ValueError as exc:
            errors = getattr(exc.__cause__ or exc, "errors", None)  # pydantic: its message contains URLs
            paths = errors() if callable(errors) else ()
            text = ", ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in paths) or exc
            problems.append(f"not {getattr(member, '__name__', member)}: {text}")
    raise ValueError("; ".join(problems))


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
