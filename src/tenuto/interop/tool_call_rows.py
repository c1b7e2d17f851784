"""The tool calls of a reply as rows, one JSON object each, for databases with one row per tool call.

A row has `tool_call_id`, `tool_name`, `tool_args`, and the first also `thinking` (`text`, `signature`) and
`redacted_thinking` (`data`), each an object, or a list of several. Any other token is in `meta`. Rows have neither text
nor the position of thinking between the calls. The stored message is the record.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import AnthropicMeta, AnthropicRedactedMeta, Block, ProviderMeta, Reasoning, ToolUse
from tenuto.core.jsonio import is_list, is_null, text_or_json
from tenuto.core.messages import AssistantMessage
from tenuto.core.stored import dump_meta, load_meta


def to_data_json(message: AssistantMessage) -> tuple[str, ...]:
    """Write one row per call, in order; no rows if the message has no calls."""
    thinking: list[Any] = []
    redacted: list[Any] = []
    rows: list[dict[str, Any]] = []
    for block in message.blocks:
        if isinstance(block, ToolUse):
            row = {"tool_call_id": block.id, "tool_name": block.name, "tool_args": block.args}
            rows.append({**row, **_meta_field(block.meta)})
        elif isinstance(block, Reasoning) and isinstance(block.meta, AnthropicRedactedMeta):
            redacted.append({"data": block.meta.data})
        elif isinstance(block, Reasoning) and isinstance(block.meta, AnthropicMeta):
            thinking.append({"text": block.text, "signature": block.meta.signature})
        elif isinstance(block, Reasoning):
            thinking.append({"text": block.text, **_meta_field(block.meta)})
    for name, entries in (("thinking", thinking), ("redacted_thinking", redacted)):
        if rows and entries:
            rows[0][name] = entries if len(entries) > 1 else entries[0]
    return tuple(jsonio.as_text(jsonio.encode(row)) for row in rows)


def from_data_json(rows: Iterable[str | bytes]) -> AssistantMessage:
    """Read the rows of one reply. Raise `JsonError` for any other text."""
    fields = [jsonio.members(row) for row in rows]
    thinking: list[Block] = [_read_thinking(entry) for row in fields for entry in _entries(row.get("thinking"))]
    redacted: list[Block] = [
        Reasoning(meta=AnthropicRedactedMeta(jsonio.text_of(entry.get("data"))))
        for row in fields
        for entry in _entries(row.get("redacted_thinking"))
    ]
    calls: list[Block] = [_read_call(row) for row in fields]
    return AssistantMessage((*thinking, *redacted, *calls), "tool_calls" if calls else None)


def _meta_field(meta: ProviderMeta | None) -> dict[str, Raw]:
    return {} if meta is None else {"meta": Raw(dump_meta(meta))}


def _read_meta(fields: Mapping[str, Raw]) -> ProviderMeta | None:
    return load_meta(fields["meta"]) if "meta" in fields else None


def _entries(raw: Raw | None) -> list[dict[str, Raw]]:
    if raw is None or is_null(raw):
        return []
    return [jsonio.members(item) for item in (jsonio.elements(raw) if is_list(raw) else [raw])]


def _read_thinking(entry: Mapping[str, Raw]) -> Reasoning:
    signature = entry.get("signature")
    meta = _read_meta(entry) if is_null(signature) else AnthropicMeta(jsonio.text_of(signature))
    return Reasoning(jsonio.text_of(entry.get("text")), meta=meta)


def _read_call(row: Mapping[str, Raw]) -> ToolUse:
    args = text_or_json(row.get("tool_args", Raw(b'""')))  # some writers store the object
    id, name = jsonio.text_of(row.get("tool_call_id")), jsonio.text_of(row.get("tool_name"))
    return ToolUse(id, name, args, meta=_read_meta(row))
