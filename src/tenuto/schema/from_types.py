"""From types to JSON Schemas and from JSON to types: one way for tools and for structured answers.

A type is whatever msgspec knows (structs, dataclasses, TypedDicts, enums, literals, unions, `Annotated` with
`msgspec.Meta`, the builtins and their generics), or a pydantic model, alone or inside one of those. pydantic is never
imported here: a model brings along what is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeGuard, TypeVar

import msgspec

from tenuto.core import jsonio

__all__ = ["is_pydantic_model", "parse_as", "schema_from_type", "schemas_from_types", "select_definitions"]

T = TypeVar("T")
Schema = dict[str, Any]

_HOME = "#/$defs/"


class _Model(Protocol):
    """What a pydantic model brings along."""

    @classmethod
    def model_json_schema(cls) -> Schema: ...
    @classmethod
    def model_validate_json(cls, data: bytes, /) -> Any: ...
    @classmethod
    def model_validate(cls, value: Any, /) -> Any: ...


def is_pydantic_model(kind: Any) -> TypeGuard[type[_Model]]:
    """Tell whether `kind` is a pydantic model."""
    return isinstance(kind, type) and hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate_json")


def schema_from_type(kind: Any) -> Schema:
    """Return the JSON Schema of a type; a mapping is one already.

    The schema of a class says at its root that it is an object: it is no mere reference to a definition. Raise
    `TypeError` for a type that has no schema.
    """
    if isinstance(kind, Mapping):
        return dict(kind)
    (schema,), held = schemas_from_types([kind])
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith(_HOME):
        schema = {**held[reference.removeprefix(_HOME)], **_without(schema, "$ref")}
    return {**schema, **select_definitions(held, [schema])}


def schemas_from_types(kinds: Sequence[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    """Return one schema for each type, and the definitions that they refer to (as `#/$defs/...`) by name.

    Raise `TypeError` for a type that has no schema, or if two different types have one name.
    """
    found: dict[str, Schema] = {}

    def hook(kind: type) -> Schema:
        if not is_pydantic_model(kind):
            raise NotImplementedError
        schema = kind.model_json_schema()
        _add(found, schema.get("$defs", {}))
        return _without(schema, "$defs")

    try:
        schemas, components = msgspec.json.schema_components(kinds, schema_hook=hook)
    except (TypeError, NameError, AttributeError) as exc:  # a name that a class mentions may not be there
        raise TypeError(_reason(exc)) from exc
    _add(found, {name: _cleaned(schema) for name, schema in components.items()})
    return list(schemas), found


def select_definitions(held: Mapping[str, Schema], schemas: Iterable[Any]) -> dict[str, dict[str, Schema]]:
    """Return the `$defs` member that the schemas need, directly or through one another; empty if they need none."""
    used: dict[str, Schema] = {}
    left = [name for schema in schemas for name in _references(schema)]
    while left:
        name = left.pop()
        if name in held and name not in used:
            used[name] = held[name]
            left.extend(_references(held[name]))
    return {"$defs": {name: schema for name, schema in held.items() if name in used}} if used else {}


def parse_as(data: str | bytes | msgspec.Raw, kind: type[T]) -> T:
    """Decode JSON to a type, pydantic models included.

    Raise `JsonError` if it is no JSON or does not fit; pydantic's own `ValidationError` (a `ValueError`, too) if it does
    not fit a model.
    """
    raw = jsonio.check(data)
    model: Any = kind
    if is_pydantic_model(model):
        made: T = model.model_validate_json(bytes(raw))
        return made
    try:
        return msgspec.json.decode(raw, type=kind, dec_hook=_made)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _slowly(raw, kind)


def _slowly(raw: msgspec.Raw, kind: type[T]) -> T:
    """Decode what msgspec cannot read (half characters), or have it say what does not fit."""
    try:
        return msgspec.convert(jsonio.parse(raw), kind, dec_hook=_made, str_keys=True)
    except msgspec.ValidationError as exc:
        raise jsonio.JsonError(str(exc)) from exc
    except UnicodeEncodeError:
        raise jsonio.JsonError("a string with half a character does not fit here") from None


def _made(kind: type, value: Any) -> Any:
    if is_pydantic_model(kind):
        return kind.model_validate(value)
    raise NotImplementedError(f"{kind.__name__} cannot be made from JSON")


def _add(found: dict[str, Schema], more: Mapping[str, Schema]) -> None:
    for name, schema in more.items():
        if found.setdefault(name, schema) != schema:
            raise TypeError(f"two different types have the name {name!r}: rename one of them")


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.startswith(_HOME):
            yield reference.removeprefix(_HOME)
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _references(inner)


def _without(schema: Schema, word: str) -> Schema:
    return {name: value for name, value in schema.items() if name != word}


def _reason(exc: Exception) -> str:
    """Say in one line why there is no schema; msgspec's advice is for those who call it themselves."""
    said = str(exc).strip().splitlines()
    return next((line for line in reversed(said) if "not supported" in line), said[0] if said else repr(exc))


def _cleaned(schema: Schema) -> Schema:
    """Take the indentation of the source off a class's docstring, as newer Pythons do by themselves."""
    text = schema.get("description")
    if not isinstance(text, str) or "\n" not in text:
        return schema
    first, *rest = text.expandtabs().splitlines()
    margin = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
    lines = [first.strip(), *(line[margin:].rstrip() for line in rest)]
    return {**schema, "description": "\n".join(lines).strip()}
