"""A turn's calls as rows of a table, one JSON object each, with the thinking that led to them on the first.

A projection for databases that keep one row per call: `tool_call_id`, `tool_name`, `tool_args`, and on the first row
`thinking` (`text`, `signature`) and `redacted_thinking` (`data`), each an object, or a list where there are several. A
token of another kind stands beside, as `meta` in its stored form. Rows say nothing of text, nor of where between the
calls a thought stood: they come back as thinking, redacted thinking, calls. The record is the stored message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import AnthropicMeta, AnthropicRedactedMeta, Block, ProviderMeta, Reasoning, ToolUse
from tenuto.core.messages import AssistantMessage
from tenuto.core.stored import dump_meta, load_meta

__all__ = ["from_data_json", "to_data_json"]

Row = dict[str, Raw]


def to_data_json(message: AssistantMessage) -> tuple[str, ...]:
    """Write one row per call, in order; none if the message has no calls."""
    thinking: list[Any] = []
    redacted: list[Any] = []
    rows: list[dict[str, Any]] = []
    for block in message.blocks:
        if isinstance(block, ToolUse):
            call = {"tool_call_id": block.id, "tool_name": block.name, "tool_args": block.args}
            rows.append({**call, **_meta_fields(block.meta)})
        elif isinstance(block, Reasoning) and isinstance(block.meta, AnthropicRedactedMeta):
            redacted.append({"data": block.meta.data})
        elif isinstance(block, Reasoning) and isinstance(block.meta, AnthropicMeta):
            thinking.append({"text": block.text, "signature": block.meta.signature})
        elif isinstance(block, Reasoning):
            thinking.append({"text": block.text, **_meta_fields(block.meta)})
    for name, thoughts in (("thinking", thinking), ("redacted_thinking", redacted)):
        if rows and thoughts:
            rows[0][name] = thoughts if len(thoughts) > 1 else thoughts[0]
    return tuple(jsonio.as_text(jsonio.encode(row)) for row in rows)


def from_data_json(rows: Iterable[str | bytes]) -> AssistantMessage:
    """Read the rows of one turn; rows without thinking are calls and nothing else. Raise `JsonError` for other text."""
    read = [jsonio.members(row) for row in rows]
    thoughts = [_thought(entry) for row in read for entry in _entries(row.get("thinking"))]
    withheld = [_withheld(entry) for row in read for entry in _entries(row.get("redacted_thinking"))]
    calls: list[Block] = [_call(row) for row in read]
    return AssistantMessage((*thoughts, *withheld, *calls), "tool_calls" if calls else None)


def _meta_fields(meta: ProviderMeta | None) -> dict[str, Raw]:
    return {} if meta is None else {"meta": Raw(dump_meta(meta))}


def _meta_of(row: Mapping[str, Raw]) -> ProviderMeta | None:
    return load_meta(row["meta"]) if "meta" in row else None


def _entries(raw: Raw | None) -> list[Row]:
    if raw is None or bytes(raw) == b"null":
        return []
    return [jsonio.members(item) for item in (jsonio.elements(raw) if bytes(raw)[:1] == b"[" else [raw])]


def _thought(entry: Row) -> Reasoning:
    signature = entry.get("signature")
    signed = signature is not None and bytes(signature) != b"null"
    meta = AnthropicMeta(jsonio.text_of(signature)) if signed else _meta_of(entry)
    return Reasoning(jsonio.text_of(entry.get("text")), meta=meta)


def _withheld(entry: Row) -> Reasoning:
    return Reasoning(meta=AnthropicRedactedMeta(jsonio.text_of(entry.get("data"))))


def _call(row: Row) -> ToolUse:
    args = row.get("tool_args", Raw(b'""'))
    text = jsonio.text_of(args) if bytes(args)[:1] == b'"' else jsonio.as_text(args)  # some write the object itself
    return ToolUse(
        jsonio.text_of(row.get("tool_call_id")), jsonio.text_of(row.get("tool_name")), text, meta=_meta_of(row)
    )
