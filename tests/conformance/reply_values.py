"""Types and helpers of the readers: a reply, the frames of a stream, and the merge rule for unknown fields."""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = ["DONE", "Answer", "Call", "Read", "frames", "merge", "text_merge"]

DONE = "[DONE]"
"""The frame that ends a chat stream; some gateways send it in every dialect."""


@dataclasses.dataclass
class Call:
    """A call in the bytes: `args` is the exact text, None without arguments.

    `composed` arguments arrived as values for paths and have no text of their own: only their value counts.
    """

    id: str | None
    name: str | None
    args: str | None
    composed: bool = False


@dataclasses.dataclass
class Answer:
    """One choice: its wire blocks, the exact calls among them, the raw stop reason, and all other fields.

    `order` names the fields of a chat message in the order in which a stream filled them; empty if there is no stream.
    """

    blocks: list[Any] = dataclasses.field(default_factory=list)
    calls: list[Call] = dataclasses.field(default_factory=list)
    stop: Any = None
    fields: dict[str, Any] = dataclasses.field(default_factory=dict)
    order: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Read:
    """One reply, read from its bytes.

    `error` is the error object of the provider. `ended` is whether the last frame of the stream arrived. `torn` has the
    joined deltas of each item whose finished text differs from them. `variants` has, by index, the other form in which
    the same bytes contain a block.
    """

    answers: list[Answer] = dataclasses.field(default_factory=list)
    usage: Any = None
    fields: dict[str, Any] = dataclasses.field(default_factory=dict)
    ids: list[Any] = dataclasses.field(default_factory=list)
    models: list[Any] = dataclasses.field(default_factory=list)
    error: Any = None
    ended: bool = True
    torn: list[str] = dataclasses.field(default_factory=list)
    variants: dict[int, Any] = dataclasses.field(default_factory=dict)

    @property
    def first(self) -> Answer:
        """The first choice; an empty one if there is none."""
        return self.answers[0] if self.answers else Answer()

    def named(self, id: Any, model: Any) -> None:
        """Set the reply's id and model if they are present."""
        if id:
            self.ids.append(id)
        if model:
            self.models.append(model)


def frames(data: bytes) -> list[tuple[str, str]]:
    """Split server-sent events into (event name, data). The data is complete."""
    text = data.decode("utf-8-sig", "surrogatepass").replace("\r\n", "\n").replace("\r", "\n")
    found: list[tuple[str, str]] = []
    for event in text.split("\n\n"):
        name, lines = "", []
        for line in event.split("\n"):
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "data":
                lines.append(value)
            elif field == "event":
                name = value
        if lines:
            found.append((name, "\n".join(lines)))
    return found


def merge(merged: dict[str, Any], update: dict[str, Any]) -> None:
    """Merge fields that arrive in pieces: null never replaces a value, objects merge key by key, lists whose elements
    all carry an `index` merge by it, any other value is replaced by the later one.
    """
    for name, value in update.items():
        if merged.get(name) is None:
            merged[name] = value
        elif value is not None:
            merged[name] = _merged(merged[name], value)


def _merged(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        both = dict(old)
        merge(both, new)
        return both
    if isinstance(old, list) and isinstance(new, list) and _indexed(old) and _indexed(new):
        by_index: dict[Any, dict[str, Any]] = {}
        for item in (*old, *new):
            merge(by_index.setdefault(item["index"], {}), item)
        return list(by_index.values())
    return new


def _indexed(items: list[Any]) -> bool:
    return bool(items) and all(isinstance(item, dict) and "index" in item for item in items)


def text_merge(fields: dict[str, Any], name: str, piece: Any) -> None:
    """Append a piece of text to a field; null starts the field but never ends it."""
    if piece is None:
        fields.setdefault(name, None)
    else:
        fields[name] = (fields.get(name) or "") + piece
