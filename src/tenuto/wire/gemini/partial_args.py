"""A call's arguments that arrive value by value, each with the path where it belongs.

Values come in no promised order, so the text of the arguments is known only at the end: it is written compactly, keys
in the order of their first appearance, numbers as they were spelt.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.wire.gemini.protocol import PART, Fields, camel

__all__ = ["PartialArgs"]

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_ESCAPED = re.compile(r"\\(.)")
_READ = ("jsonPath", "stringValue", "numberValue", "boolValue", "nullValue", "willContinue")
MAX_GAP = 1000
"""How far beyond its end a list may be written to; what lies between is null."""

Step = str | int


class _Pieces(list[str]):
    """A string that may still grow."""


class PartialArgs:
    """The arguments so far. `touched` tells whether any have come."""

    def __init__(self, args: Raw | None = None) -> None:
        self._root: Any = args if args is not None else {}
        self.touched = args is not None

    def take(self, listed: Raw) -> list[str]:
        """Put a list of partial values in their places; return what each says that nobody reads.

        Raise `JsonError` for a value that has no place.
        """
        items = [camel(jsonio.members(item), PART) for item in jsonio.elements(listed)]
        for fields in items:
            self._put(fields)
        return [name for fields in items for name in fields if name not in _READ]

    def text(self) -> str:
        """Return the arguments as JSON text."""
        return jsonio.as_text(jsonio.encode(_plain(self._root)))

    def _put(self, fields: Fields) -> None:
        path = jsonio.text_of(fields.get("jsonPath"))
        steps = _steps(path)
        self.touched = True
        self._root = holder = _opened(self._root, steps[0])
        for step, following in itertools.pairwise(steps):
            holder[step] = _opened(_at(holder, step), following)
            holder = holder[step]
        last = steps[-1]
        old = _at(holder, last)
        string = fields.get("stringValue")
        if string is None:
            holder[last] = _value(fields)
        elif isinstance(old, _Pieces):
            old.append(jsonio.text_of(string))
        else:
            holder[last] = _Pieces([jsonio.text_of(string)])


def _steps(path: str) -> list[Step]:
    if not path.startswith("$"):
        raise jsonio.JsonError(f"no path to an argument: {path[:80]!r}")
    at, steps = 1, list[Step]()
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None or len(steps) >= jsonio.MAX_DEPTH:
            raise jsonio.JsonError(f"no path to an argument: {path[:80]!r}")
        name, index, single, double = step.groups()
        steps.append(int(index) if index else name or _ESCAPED.sub(r"\1", single or double or ""))
        at = step.end()
    if not steps or isinstance(steps[0], int):
        raise jsonio.JsonError(f"arguments are an object: {path[:80]!r}")
    return steps


def _opened(value: Any, step: Step) -> Any:
    """Return `value` as the container that `step` leads into; anything else that stood there gives way to one."""
    if isinstance(step, str):
        if isinstance(value, Raw) and bytes(value)[:1] == b"{":
            return jsonio.members(value)
        return value if isinstance(value, dict) else {}
    if isinstance(value, Raw) and bytes(value)[:1] == b"[":
        value = jsonio.elements(value)
    held = value if isinstance(value, list) and not isinstance(value, _Pieces) else []
    if step > len(held) + MAX_GAP:
        raise jsonio.JsonError(f"an argument at index {step} of a list of {len(held)}")
    held.extend([None] * (step + 1 - len(held)))
    return held


def _at(holder: Any, step: Step) -> Any:
    return holder.get(step) if isinstance(step, str) else holder[step]


def _value(fields: Fields) -> Raw | None:
    for name in ("numberValue", "boolValue"):
        if name in fields and bytes(fields[name]) != b"null":
            return fields[name]
    return None


def _plain(value: Any) -> Any:
    if isinstance(value, _Pieces):
        return "".join(value)
    if isinstance(value, dict):
        return {name: _plain(held) for name, held in value.items()}
    if isinstance(value, list):
        return [_plain(held) for held in value]
    return value
