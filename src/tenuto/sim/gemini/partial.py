"""A call in pieces, as Vertex streams it when asked to: its name, then one argument after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from tenuto.core import jsonio

__all__ = ["pieces_of_call"]

_PLAIN = re.compile(r"[A-Za-z_]\w*")
_PIECE = 12


def pieces_of_call(part: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a part in the pieces in which it is streamed. One that cannot be told in paths comes whole."""
    call = part.get("functionCall")
    if not call:
        return [part]
    args = call["args"]
    if isinstance(args, msgspec.Raw):
        args = jsonio.parse(bytes(args))
    try:
        leaves = list(_leaves(args, "$"))
    except ValueError:
        return [part]
    named = {name: value for name, value in call.items() if name != "args"}
    first = {**part, "functionCall": {**named, "willContinue": True}}
    between = [{"functionCall": {"partialArgs": [piece], "willContinue": True}} for piece in leaves]
    return [first, *between, {"functionCall": {}}]


def _leaves(value: Any, path: str) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict) and (value or path == "$"):
        for name, inner in value.items():
            if not _PLAIN.fullmatch(name):
                raise ValueError(name)
            yield from _leaves(inner, f"{path}.{name}")
    elif isinstance(value, list) and value:
        for at, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{at}]")
    elif isinstance(value, str):
        for at in range(0, max(1, len(value)), _PIECE):
            more = {"willContinue": True} if at + _PIECE < len(value) else {}
            yield {"jsonPath": path, "stringValue": value[at : at + _PIECE], **more}
    elif isinstance(value, dict | list):
        raise ValueError(path)
    else:
        yield {"jsonPath": path, **_word(value)}


def _word(value: bool | float | None) -> dict[str, Any]:
    if value is None:
        return {"nullValue": "NULL_VALUE"}
    return {"boolValue": value} if isinstance(value, bool) else {"numberValue": value}
