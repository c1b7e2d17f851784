"""Functions that are declared, and schemas in Google's own form, which takes a part of OpenAPI's words."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from tenuto.audit.gemini_parts import Wire, camel, escaped, field, listed, snake, spelt
from tenuto.audit.looking import Broken, Checks, Sent

__all__ = ["CHECKS", "declared"]

CHECKS = Checks()

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
_WORDS = frozenset(
    (
        *("type", "format", "title", "description", "nullable", "enum", "default", "example"),
        *("items", "minItems", "maxItems", "properties", "propertyOrdering", "required", "anyOf"),
        *("minProperties", "maxProperties", "minLength", "maxLength", "pattern", "minimum", "maximum"),
    )
)
_VERTEX_WORDS = _WORDS | {"additionalProperties", "defs", "ref"}


class _Schema(msgspec.Struct, frozen=True):
    """A schema or a part of one: where it stands, as a pointer and in the host's own two ways of writing."""

    at: str
    path: str
    named: str
    fields: Wire


def declared(sent: Sent) -> Iterator[tuple[str, str, Wire]]:
    """Yield the functions that are declared, each with its pointer and its path."""
    tools = sent.body.get("tools")
    for number, at, tool in listed(tools, "/tools"):
        below = f"{at}/{spelt(tool, 'functionDeclarations')}"
        for k, there, function in listed(field(tool, "functionDeclarations"), below):
            yield there, f"tools[{number}].function_declarations[{k}]", function


def _schemas(sent: Sent) -> Iterator[_Schema]:
    """Yield every schema in Google's form with all that is inside it."""
    config = field(sent.body, "generationConfig")
    above = f"/{spelt(sent.body, 'generationConfig')}"
    holders = [(at, path, held, name) for at, path, held in declared(sent) for name in ("parameters", "response")]
    for at, path, holder, name in (*holders, (above, "generation_config", config, "responseSchema")):
        found = field(holder, name)
        if isinstance(found, dict):
            there = f"{path}.{snake(name)}"
            waiting = [_Schema(f"{at}/{spelt(holder, name)}", there, there, found)]
            while waiting:
                schema = waiting.pop()
                yield schema
                waiting += reversed(list(_inside(schema)))


def _inside(schema: _Schema) -> Iterator[_Schema]:
    fields, at = schema.fields, schema.at
    for name in ("items", "additionalProperties"):
        found = field(fields, name)
        if isinstance(found, dict):
            yield _below(schema, f"{at}/{spelt(fields, name)}", (snake(name), snake(name)), found)
    for number, there, found in listed(field(fields, "anyOf"), f"{at}/{spelt(fields, 'anyOf')}"):
        yield _below(schema, there, (f"any_of[{number}]", f"any_of[{number}]"), found)
    for name in ("properties", "defs"):
        held = fields.get(name)
        for number, (key, found) in enumerate(held.items() if isinstance(held, dict) else ()):
            if isinstance(found, dict):
                step = (f"{name}[{number}].value", f"{name}[{key}]")
                yield _below(schema, f"{at}/{name}/{escaped(key)}", step, found)


def _below(schema: _Schema, at: str, step: tuple[str, str], fields: Wire) -> _Schema:
    return _Schema(at, f"{schema.path}.{step[0]}", f"{schema.named}.{step[1]}", fields)


@CHECKS.holds("GEM-SCHEMA-01")
def _known_words_only(sent: Sent) -> Iterator[Broken]:
    words = _VERTEX_WORDS if sent.target.provider.gemini.vertex else _WORDS
    for schema in _schemas(sent):
        for key in schema.fields:
            if key not in words and camel(key) not in words:
                yield Broken("GEM-SCHEMA-01", {"kw": key, "path": schema.path}, at=f"{schema.at}/{escaped(key)}")


@CHECKS.holds("GEM-SCHEMA-02")
def _one_type_and_items(sent: Sent) -> Iterator[Broken]:
    for schema in _schemas(sent):
        kind = schema.fields.get("type")
        if isinstance(kind, list):
            yield Broken("GEM-SCHEMA-02", {"path": schema.path}, at=f"{schema.at}/type")
        elif isinstance(kind, str) and kind.upper() == "ARRAY" and field(schema.fields, "items") is None:
            yield Broken("GEM-SCHEMA-02", {"path": schema.named}, variant=1, at=schema.at)


@CHECKS.holds("GEM-SCHEMA-03")
def _plain_names(sent: Sent) -> Iterator[Broken]:
    for at, _, function in declared(sent):
        name = function.get("name") or ""
        if isinstance(name, str) and not _NAME.fullmatch(name):
            yield Broken("GEM-SCHEMA-03", at=f"{at}/name")


@CHECKS.holds("GEM-SCHEMA-04")
def _one_schema(sent: Sent) -> Iterator[Broken]:
    for at, _, function in declared(sent):
        for name in ("parameters", "response"):
            if field(function, name) is not None and field(function, f"{name}JsonSchema") is not None:
                yield Broken("GEM-SCHEMA-04", {"one": name}, at=at)
    config = field(sent.body, "generationConfig")
    if field(config, "responseSchema") is not None and field(config, "responseJsonSchema") is not None:
        yield Broken("GEM-SCHEMA-04", {"one": "response"}, at=f"/{spelt(sent.body, 'generationConfig')}")
