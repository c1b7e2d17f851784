"""Convert the wire blocks that a reader found to the neutral blocks of the oracle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from conformance.jsontext import load, plain

__all__ = ["details_text", "neutral_blocks"]


def neutral_blocks(dialect: str, blocks: list[Any], order: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the neutral form of one choice's wire blocks.

    `order` names the fields of a chat message in their order of arrival; by default reasoning is first, then content,
    refusal and calls.
    """
    if dialect == "openai-chat":
        return [block for message in blocks for block in _chat(message, order)]
    return [block for wire in blocks for block in _TABLES[dialect](wire)]


def _arguments(args: Any) -> dict[str, Any]:
    if not isinstance(args, str):
        return {"arguments": plain(args) if args is not None else {}}
    try:
        return {"arguments": plain(load(args)) if args.strip() else {}}
    except ValueError:
        return {"arguments": None, "raw_arguments": args}


def _anthropic(block: dict[str, Any]) -> list[dict[str, Any]]:
    kind = block.get("type")
    if kind == "text":
        return [{"type": "text", "text": block["text"], "citations": plain(block.get("citations")) or None}]
    if kind == "thinking":
        return [{"type": "reasoning", "text": block["thinking"], "signature": block.get("signature") or None}]
    if kind == "redacted_thinking":
        return [{"type": "redacted", "data": block["data"]}]
    if kind == "tool_use":
        return [{"type": "tool_call", "id": block["id"], "name": block["name"], **_arguments(block.get("input"))}]
    return [{"type": "server", "kind": kind, "raw": plain(block)}]


def _responses(item: dict[str, Any]) -> list[dict[str, Any]]:
    kind = item.get("type")
    if kind == "message":
        return [_part(item, part) for part in item.get("content") or []]
    if kind == "reasoning":
        return [_reasoning(item)]
    if kind == "function_call":
        return [{"type": "tool_call", **_named(item), **_arguments(item.get("arguments"))}]
    if kind == "custom_tool_call":
        return [{"type": kind, **_named(item), "input": item.get("input")}]
    return [{"type": "server", "kind": kind, "item_id": item.get("id") or None, "raw": plain(item)}]


def _named(item: dict[str, Any]) -> dict[str, Any]:
    return {"id": item.get("call_id") or None, "item_id": item.get("id") or None, "name": item.get("name")}


def _part(item: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    item_fields = {"item_id": item.get("id") or None, "phase": item.get("phase")}
    if part.get("type") == "output_text":
        return {
            "type": "text",
            "text": part["text"],
            "citations": plain(part.get("annotations")) or None,
            **item_fields,
        }
    if part.get("type") == "refusal":
        return {"type": "refusal", "text": part["refusal"], **item_fields}
    return {"type": "other", "kind": part.get("type"), "raw": plain(part), **item_fields}


def _reasoning(item: dict[str, Any]) -> dict[str, Any]:
    summary = [part.get("text", "") for part in item.get("summary") or []]
    content = [part.get("text", "") for part in item.get("content") or []]
    return {
        "type": "reasoning",
        "text": "\n\n".join(summary or content),
        "summary": summary,
        "content": content or None,
        "item_id": item.get("id") or None,
        "signature": item.get("encrypted_content") or None,
    }


def _chat(message: dict[str, Any], order: Sequence[str]) -> list[dict[str, Any]]:
    groups = [_chat_reasoning(message), _chat_content(message), _chat_refusal(message), _chat_calls(message)]
    positions = [min((order.index(name) for name in names if name in order), default=len(order)) for names in _GROUPS]
    return [block for at in sorted(range(len(groups)), key=positions.__getitem__) for block in groups[at]]


_GROUPS = (
    ("reasoning_content", "reasoning", "reasoning_details"),
    ("content",),
    ("refusal",),
    ("tool_calls", "function_call"),
)
"""The fields of a chat message that give one group of blocks each."""


def _chat_reasoning(message: dict[str, Any]) -> list[dict[str, Any]]:
    field = next((name for name in ("reasoning_content", "reasoning") if message.get(name)), "reasoning")
    details = message.get("reasoning_details")
    if not message.get(field) and not details:
        return []
    text = message.get(field) or details_text(details)
    return [{"type": "reasoning", "text": text, "field": field, "details": plain(details) or None}]


def details_text(details: list[Any]) -> str:
    """Return the readable text of `reasoning_details`."""
    return "".join(item.get("text") or item.get("summary") or "" for item in details)


def _chat_content(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    if isinstance(content, dict):  # a structured answer
        return [{"type": "text", "text": json.dumps(plain(content), ensure_ascii=False)}]
    if isinstance(content, list):
        return [_chunk(chunk) for chunk in content]
    return [{"type": "text", "text": content}] if content else []


def _chat_refusal(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "refusal", "text": message["refusal"]}] if message.get("refusal") else []


def _chat_calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    found = [_chat_call(call) for call in message.get("tool_calls") or []]
    legacy = message.get("function_call")
    if isinstance(legacy, dict) and (legacy.get("name") or legacy.get("arguments")):
        named = {"type": "tool_call", "id": None, "name": legacy.get("name"), "legacy_function_call": True}
        found.append({**named, **_arguments(legacy.get("arguments"))})
    return found


def _chat_call(call: dict[str, Any]) -> dict[str, Any]:
    named = {"id": call.get("id") or None}
    custom, function = call.get("custom"), call.get("function") or {}
    if isinstance(custom, dict) and not function:
        return {"type": "custom_tool_call", **named, "name": custom.get("name"), "input": custom.get("input")}
    return {"type": "tool_call", **named, "name": function.get("name"), **_arguments(function.get("arguments"))}


def _chunk(chunk: dict[str, Any]) -> dict[str, Any]:
    if chunk.get("type") == "thinking":
        pieces = chunk.get("thinking")
        text = pieces if isinstance(pieces, str) else "".join(piece.get("text", "") for piece in pieces or [])
        return {"type": "reasoning", "text": text, "signature": chunk.get("signature")}
    if chunk.get("type") == "text":
        return {"type": "text", "text": chunk["text"]}
    return {"type": "other", "kind": chunk.get("type"), "raw": plain(chunk)}


def _gemini(part: dict[str, Any]) -> list[dict[str, Any]]:
    signature = part.get("thoughtSignature")
    if isinstance(part.get("text"), str):
        kind = "reasoning" if part.get("thought") else "text"
        return [{"type": kind, "text": part["text"], "signature": signature}]
    if isinstance(call := part.get("functionCall"), dict):
        named = {"type": "tool_call", "id": call.get("id") or None, "name": call.get("name"), "signature": signature}
        return [{**named, **_arguments(call.get("args"))}]
    if isinstance(media := part.get("inlineData"), dict):
        summary = {"mime": media.get("mimeType"), "data_len": len(media.get("data") or "")}
        return [{"type": "image", "signature": signature, **summary}]
    for kind in ("executableCode", "codeExecutionResult"):
        if kind in part:
            return [{"type": "server", "kind": kind, "raw": plain(part[kind]), "signature": signature}]
    kind = next((name for name in part if name not in ("thoughtSignature", "thought")), "empty")
    return [{"type": "other", "kind": kind, "raw": plain(part), "signature": signature}]


_TABLES = {
    "anthropic-messages": _anthropic,
    "openai-responses": _responses,
    "gemini": _gemini,
}
