"""From what a model wrote to the arguments of a function, each of its parameter's type.

Whatever does not fit is told all at once, in words that a model can act on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tenuto.core import jsonio
from tenuto.schema.from_types import parse_as
from tenuto.tools.signature import Parameter, Signature

__all__ = ["BadArguments", "parse_arguments", "read_members"]

_SHOWN = 400
"""How many characters of a schema or of a complaint are told."""


class BadArguments(ValueError):
    """The arguments do not fit: the message says which, why, and what is expected."""


def parse_arguments(signature: Signature, text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments by name; raise `BadArguments` if they do not fit. Defaults are left to the function.

    No text at all, and `null`, are no arguments. A `null` for a parameter that has a default and takes no null leaves
    it to the default: providers that hold a model to a strict schema have it write so.
    """
    given = read_members(text)
    problems: list[str] = []
    arguments: dict[str, Any] = {}
    for parameter in signature.parameters:
        raw = given.pop(parameter.name, None)
        if raw is None and parameter.required:
            problems.append(f"{parameter.name}: missing{_expected(parameter, schema)}")
        elif raw is not None:
            try:
                arguments[parameter.name] = _read(raw, parameter.kind)
            except ValueError as exc:
                if bytes(raw) != b"null" or parameter.required:
                    problems.append(f"{', '.join(_reasons(parameter.name, exc))}{_expected(parameter, schema)}")
    known = ", ".join(parameter.name for parameter in signature.parameters) or "none"
    problems += [f"{_short(name)}: no such argument (there are: {known})" for name in given]
    if problems:
        raise BadArguments("; ".join(problems))
    return arguments


def read_members(text: str) -> dict[str, msgspec.Raw]:
    """Split the text of arguments by name; empty text and `null` mean no arguments."""
    try:
        raw = jsonio.check(text.strip() or "{}")
        return jsonio.members(raw) if bytes(raw) != b"null" else {}
    except jsonio.JsonError as exc:
        raise BadArguments(f"expected one JSON object with the arguments by name: {exc}") from None


def _read(raw: msgspec.Raw, kind: Any) -> Any:
    """Read one argument. To JSON Schema, 5.0 is an integer; so it is one here where nothing else fits."""
    try:
        return parse_as(raw, kind)
    except ValueError as first:
        if b"." not in bytes(raw) and b"e" not in bytes(raw).lower():
            raise
        try:
            return parse_as(jsonio.encode(_integral(jsonio.parse(raw))), kind)
        except ValueError:
            raise first from None


def _integral(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _integral(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_integral(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _reasons(name: str, error: ValueError) -> Iterator[str]:
    """Say what is wrong with an argument: msgspec's path and pydantic's list of places begin with its name."""
    found: BaseException | None = error
    while found is not None:
        listed = getattr(found, "errors", None)  # pydantic's own word; its text is for people, and names web pages
        if callable(listed):
            for problem in listed():
                where = ".".join(map(str, (name, *problem["loc"])))
                yield _short(f"{where}: {problem['msg']}")
            return
        found = found.__cause__
    why, _, where = str(error).partition(" - at `$")
    yield _short(f"{name}{where.removesuffix('`')}: {why}")


def _expected(parameter: Parameter, schema: Mapping[str, Any]) -> str:
    said = schema["properties"][parameter.name]
    shown = {word: value for word, value in said.items() if word not in ("description", "title", "default")}
    reference = str(shown.get("$ref", "")).removeprefix("#/$defs/")
    shown = schema.get("$defs", {}).get(reference, shown)
    return f" (expected {_short(jsonio.as_text(jsonio.encode(shown)))})" if shown else ""


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
