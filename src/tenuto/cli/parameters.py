"""`-o KEY=VALUE`: what may be said of how a model is to answer, by the names that the library has for it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

import click
import msgspec

from tenuto.client.parameters import ModelParameters
from tenuto.core import jsonio
from tenuto.core.request import ChatRequest

__all__ = ["parameters_of"]

_ELSEWHERE = {"effort": "--effort", "max_tokens": "--max-tokens", "system": "-s", "tools": "-T", "model": "-m"}
"""What has an option of its own."""


def parameters_of(options: Iterable[str]) -> dict[str, Any]:
    """Read `KEY=VALUE`s; of the same key the last one counts. A value is JSON if it can be read so, and else text.

    Raise `click.UsageError` for a key that is none, which names near ones, and for a value of the wrong kind.
    """
    kinds = {field.name: field.type for field in msgspec.structs.fields(ChatRequest)}
    known = [name for name in ModelParameters.__annotations__ if name not in _ELSEWHERE]
    found: dict[str, Any] = {}
    for option in options:
        key, equals, text = option.partition("=")
        name = key.strip().replace("-", "_")
        if not equals:
            raise click.UsageError(f"-o {option!r} is no KEY=VALUE, such as temperature=0.2")
        if name not in known:
            raise click.UsageError(_unknown(key, name, known))
        found[name] = _value(name, text, kinds[name])
    return found


def _unknown(key: str, name: str, known: list[str]) -> str:
    if name in _ELSEWHERE:
        return f"-o {key}: that is {_ELSEWHERE[name]}"
    near = difflib.get_close_matches(name, known, n=2)
    meant = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
    return f"-o {key!r} is no parameter: {meant}"


def _value(name: str, text: str, kind: Any) -> Any:
    """Return the value as the library wants it: what was typed as JSON if that fits, and else as text."""
    readings: list[Any] = [text]
    if not jsonio.problem(text):
        readings.insert(0, jsonio.parse(text))
    complaint = ""
    for reading in readings:
        try:
            return msgspec.convert(reading, kind)
        except msgspec.ValidationError as exc:
            complaint = complaint or str(exc)
    raise click.UsageError(f"-o {name}={text[:80]}: {complaint.replace('`', '')}")
