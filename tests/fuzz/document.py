"""JSON that can be edited into any shape: repeated keys, numbers of any spelling, lone surrogates.

`read` and `write` use the standard library only, so that a fault of the package cannot hide here. An object is a
`Members` list of `[key, value]` pairs; a number is a `Literal`, which `write` copies unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["Literal", "Members", "Slot", "copied", "read", "slots", "write"]

MAX_DEPTH = 300
"""Deeper documents are not read: `write` is recursive."""


class Literal(str):
    """The JSON text of a value."""

    __slots__ = ()


class Members(list[list[Any]]):
    """An object as a list of `[key, value]` pairs, in order."""


def _members(pairs: list[tuple[str, Any]]) -> Members:
    return Members([key, value] for key, value in pairs)


_decoder = json.JSONDecoder(object_pairs_hook=_members, parse_int=Literal, parse_float=Literal, parse_constant=Literal)
_string = json.JSONEncoder(ensure_ascii=True).encode


def read(data: bytes | str) -> Any:
    """Return the document; raise `ValueError` for a text that is not JSON or nests deeper than `MAX_DEPTH`."""
    text = data.decode("utf-8-sig", "surrogatepass") if isinstance(data, bytes) else data
    try:
        value = _decoder.decode(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and any(
        slot.path.count("/") > MAX_DEPTH for slot in slots([value])
    ):
        raise ValueError("nested too deep")
    return value


def write(value: Any) -> str:
    """Return the JSON text of a document."""
    if isinstance(value, Members):
        return "{" + ",".join(f"{_string(key)}:{write(item)}" for key, item in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    if isinstance(value, Literal):
        return str(value)
    return _string(value)


def copied(value: Any) -> Any:
    """Return a copy of a document that shares nothing with it."""
    if isinstance(value, Members):
        return Members([key, copied(item)] for key, item in value)
    return [copied(item) for item in value] if isinstance(value, list) else value


class Slot(NamedTuple):
    """The position of one value: in an object (`holder[at]` is a pair), in an array, or in a one-element root list."""

    holder: list[Any]
    at: int
    path: str

    @property
    def key(self) -> str:
        """The key of the value; empty for an array element."""
        return str(self.holder[self.at][0]) if isinstance(self.holder, Members) else ""

    @property
    def value(self) -> Any:
        """The value itself."""
        return self.holder[self.at][1] if isinstance(self.holder, Members) else self.holder[self.at]

    def put(self, value: Any) -> None:
        """Replace the value."""
        if isinstance(self.holder, Members):
            self.holder[self.at][1] = value
        else:
            self.holder[self.at] = value


def slots(root: list[Any]) -> Iterator[Slot]:
    """Yield every value of the document in `root[0]`, the document itself first."""
    left = [Slot(root, 0, "")]
    while left:
        slot = left.pop()
        yield slot
        value = slot.value
        if isinstance(value, Members):
            left += [Slot(value, at, f"{slot.path}/{key}") for at, (key, _) in enumerate(value)]
        elif isinstance(value, list):
            left += [Slot(value, at, f"{slot.path}/{at}") for at in range(len(value))]
