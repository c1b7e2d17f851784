"""Leaves: the content of a turn as (wire path, value) pairs in order.

A call is one leaf: id, name and the text of its arguments. Every other scalar is a separate leaf. Its path has the kind
of its block and, below the block's own fields, the identifying text of the block, so a field counts only on its own
block. Tokens are compared without padding and in one base64 alphabet, field names in snake_case.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from conformance.jsontext import load, plain
from conformance.reply_values import Call

__all__ = ["CallLeaf", "Leaf", "held", "turn_leaves"]

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_TOKENS = {
    "signature",
    "thought_signature",
    "encrypted_content",
    "data",
    "encrypted_index",
    "encrypted_stdout",
    "fingerprint",
}
_KEYS = (
    "id",
    "call_id",
    "tool_use_id",
    "signature",
    "thought_signature",
    "encrypted_content",
    "data",
    "text",
    "summary",
)
_SKIPPED = {"type", "role", "index", "thought"}
"""Values that only name the kind of block; the path has it."""


@dataclasses.dataclass(frozen=True)
class Leaf:
    """One scalar and its path."""

    path: tuple[str, ...]
    value: Any


@dataclasses.dataclass(frozen=True)
class CallLeaf:
    """One call. `args` is the exact text; None where the provider sent none."""

    id: str | None
    name: str | None
    args: str | None
    composed: bool = dataclasses.field(default=False, compare=False)

    @property
    def exact(self) -> bool:
        """Whether the provider sent the arguments as text; otherwise only their value counts."""
        return self.args is not None and not self.composed

    @property
    def meaning(self) -> tuple[Any, ...]:
        """The call with normalized arguments."""
        try:
            normalized = repr(_sorted(plain(load(self.args or "{}"))))
        except ValueError:
            normalized = str(self.args)
        return (self.id or None, self.name, normalized)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def held(leaf: Leaf | CallLeaf) -> Any:
    """Return the key that two equal leaves share."""
    return leaf.meaning if isinstance(leaf, CallLeaf) else leaf


def turn_leaves(dialect: str, blocks: list[Any], calls: list[Call]) -> list[Leaf | CallLeaf]:
    """Return the leaves of a turn's wire blocks in order; `calls` are the exact calls among them, in order."""
    spelt = iter([CallLeaf(call.id or None, call.name, call.args, call.composed) for call in calls])
    return [leaf for block in blocks for leaf in _TABLES[dialect](plain(block), spelt)]


def _token(name: str, value: Any) -> Any:
    if name in _TOKENS and isinstance(value, str):
        return value.replace("-", "+").replace("_", "/").rstrip("=")
    return value


def _flat(path: tuple[str, ...], value: Any, name: str = "") -> list[Leaf | CallLeaf]:
    if isinstance(value, dict):
        return [leaf for key, item in sorted(value.items()) for leaf in _flat((*path, _snake(key)), item, _snake(key))]
    if isinstance(value, list):
        return [leaf for item in value for leaf in _flat((*path, "[]"), item, name)]
    return [] if value is None else [Leaf(path, _token(name, value))]


def _snake(name: str) -> str:
    return _CAMEL.sub("_", name).lower()


def _fields(kind: str, block: dict[str, Any], skip: tuple[str, ...] = ()) -> list[Leaf | CallLeaf]:
    """Return the leaves of a block's fields. Strings of the block itself have their own path; all others contain its
    key.
    """
    fields = {_snake(name): value for name, value in block.items()}
    key = next(
        (str(_token(name, fields[name])) for name in _KEYS if isinstance(fields.get(name), str) and fields[name]), ""
    )
    found: list[Leaf | CallLeaf] = []
    for name, value in sorted(fields.items()):
        if name in _SKIPPED or name in skip:
            continue
        own = isinstance(value, str) and name in _KEYS
        found += _flat((kind, name) if own else (kind, f"#{key}", name), value, name)
    return found


# --- dialects ---------------------------------------------------------------------------------------------------------


def _anthropic(block: dict[str, Any], spelt: Iterator[CallLeaf]) -> list[Leaf | CallLeaf]:
    kind = str(block.get("type"))
    if kind != "tool_use":
        return _fields(kind, block)
    return [next(spelt), *_fields(kind, block, ("id", "name", "input"))]


def _responses(item: dict[str, Any], spelt: Iterator[CallLeaf]) -> list[Leaf | CallLeaf]:
    kind = str(item.get("type") or "message")
    if kind == "message":
        content = item.get("content")
        parts = [{"type": "output_text", "text": content}] if isinstance(content, str) else content or []
        text = "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)
        other_leaves = _fields(kind, {"text": text, **item}, ("content", "text", "id"))
        named = [Leaf((kind, "id"), item["id"])] if item.get("id") else []
        return [*named, *other_leaves, *(leaf for part in parts for leaf in _fields(str(part.get("type")), part))]
    if kind in ("function_call", "custom_tool_call"):
        named = [Leaf((kind, "id"), item["id"])] if item.get("id") else []
        identified = {**item, "id": item.get("call_id")}
        return [*named, next(spelt), *_fields(kind, identified, ("id", "call_id", "name", "arguments", "input"))]
    return _fields(kind, item)


_ORDER = ("reasoning_details", "reasoning_content", "reasoning", "content", "refusal", "tool_calls", "function_call")


def _chat(message: dict[str, Any], spelt: Iterator[CallLeaf]) -> list[Leaf | CallLeaf]:
    found: list[Leaf | CallLeaf] = []
    for name, value in sorted(
        message.items(), key=lambda field: (_ORDER.index(field[0]) if field[0] in _ORDER else 9, field[0])
    ):
        if name == "content" and isinstance(value, dict):
            found += _flat(("message", name), value, name)
        elif name == "content":
            chunks = [{"type": "text", "text": value}] if isinstance(value, str) else value or []
            found += [leaf for chunk in chunks for leaf in _chunk(chunk)]
        elif name == "tool_calls":
            found += [leaf for call in value or [] for leaf in _chat_call(call, spelt)]
        elif name == "function_call" and isinstance(value, dict):
            found.append(next(spelt))
        elif name == "reasoning_details":
            found += [leaf for item in value or [] for leaf in _fields(str(item.get("type")), item)]
        elif name not in _SKIPPED:
            found += _flat(("message", name), value, name)
    return found


def _chunk(chunk: dict[str, Any]) -> list[Leaf | CallLeaf]:
    if chunk.get("type") != "thinking":
        return [
            leaf for leaf in _fields(str(chunk.get("type")), chunk) if not isinstance(leaf, Leaf) or leaf.value != ""
        ]
    pieces = chunk.get("thinking")
    text = pieces if isinstance(pieces, str) else "".join(str(piece.get("text") or "") for piece in pieces or [])
    return [Leaf(("thinking", "text"), text), *_fields("thinking", chunk, ("thinking", "closed"))]


def _chat_call(call: dict[str, Any], spelt: Iterator[CallLeaf]) -> list[Leaf | CallLeaf]:
    function = call.get("function")
    if not isinstance(function, dict):
        return _fields("tool_call", call)
    inner = {name: value for name, value in function.items() if name not in ("name", "arguments")}
    outer = {name: value for name, value in call.items() if name != "function"}
    return [next(spelt), *_fields("tool_call", {**outer, **inner}, ("id",))]


def _gemini(part: dict[str, Any], spelt: Iterator[CallLeaf]) -> list[Leaf | CallLeaf]:
    fields = {_snake(name): value for name, value in part.items()}
    kind = next((name for name in fields if name not in ("thought", "thought_signature", "part_metadata")), "empty")
    signature = fields.get("thought_signature")
    signed = [Leaf((kind, "thought_signature"), _token("thought_signature", signature))] if signature else []
    if kind == "text":
        kind_of_text = "thought" if fields.get("thought") else "text"
        return [*([Leaf((kind_of_text, "text"), fields["text"])] if fields["text"] else []), *signed]
    if kind == "function_call":
        return [next(spelt), *signed]
    return [*_flat((kind,), fields.get(kind)), *signed]


_TABLES = {
    "anthropic-messages": _anthropic,
    "openai-responses": _responses,
    "openai-chat": _chat,
    "gemini": _gemini,
}
