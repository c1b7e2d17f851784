"""Types and helpers that the readers share: a reply, the frames of a stream, and the merge rule for unknown fields."""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = ["DONE", "Answer", "Call", "Read", "frames", "merge", "text_merge"]

DONE = "[DONE]"
"""The frame that ends a chat stream; some gateways send it in every dialect."""


@dataclasses.dataclass
class Call:
    """A call as the bytes have it: `args` is the exact text, None where the provider sent no arguments. `composed`
    arguments came as values for paths and have no text of their own: only what they say counts.
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

    `error` is the provider's error object, if one came. `ended` tells whether the stream's last frame came. `torn` holds
    the joined deltas of each item whose finished text differs from them. `variants` holds, by index, the other form in
    which the same bytes give a block.
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
        """Note the reply's id and model, where they are given."""
        if id:
            self.ids.append(id)
        if model:
            self.models.append(model)


def frames(data: bytes) -> list[tuple[str, str]]:
    """Split server-sent events: (event name, data) each. The whole stream is here, so nothing has to be held back."""
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


def merge(kept: dict[str, Any], came: dict[str, Any]) -> None:
    """Merge fields that arrive in pieces: null never replaces a value, objects merge key by key, lists whose elements
    all carry an `index` merge by it, any other value is replaced by the later one.
    """
    for name, value in came.items():
        if kept.get(name) is None:
            kept[name] = value
        elif value is not None:
            kept[name] = _merged(kept[name], value)


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


def text_merge(kept: dict[str, Any], name: str, piece: Any) -> None:
    """Append a piece of text to a field; null begins the field but never ends it."""
    if piece is None:
        kept.setdefault(name, None)
    else:
        kept[name] = (kept.get(name) or "") + piece
