"""Convert our blocks to the neutral blocks of the oracle, typed field by typed field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.jsontext import load, plain
from conformance.neutral_wire import neutral_blocks
from conformance.subject import verbatim
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    Block,
    ChatMeta,
    GeminiMeta,
    Image,
    OpenAiMeta,
    Reasoning,
    Refusal,
    Text,
    ToolUse,
)
from tenuto.core.messages import AssistantMessage

__all__ = ["neutral_message"]


def neutral_message(dialect: str, message: AssistantMessage) -> list[dict[str, Any]]:
    """Return the neutral form of one of our assistant messages."""
    found = [_neutral(dialect, block) for block in message.blocks]
    if dialect == "openai-responses":
        _phased(message, found)
    return _tags_joined(found) if dialect == "openai-chat" else found


def _phased(message: AssistantMessage, found: list[dict[str, Any]]) -> None:
    """Copy the phase of an item from its first block to all its parts."""
    item: dict[str, Any] = {}
    last: object = None
    for block, made in zip(message.blocks, found, strict=True):
        extra = _extra(block)
        item = extra.get("item", item if block.meta == last else {})
        last = block.meta
        if made["type"] in ("text", "refusal"):
            made["phase"] = item.get("phase")


def _neutral(dialect: str, block: Block) -> dict[str, Any]:
    make = _MAKERS.get(type(block))
    if make is None:
        return _as_written(dialect, block)
    return {**make(dialect, block), **_token(block)}


def _token(block: Block) -> dict[str, Any]:
    match block.meta:
        case AnthropicMeta(signature=token) | ChatMeta(signature=token) | GeminiMeta(thought_signature=token):
            return {"signature": token or None}
        case OpenAiMeta(id=id, encrypted_content=token):
            return {"item_id": id or None, "signature": token or None}
    return {}


def _extra(block: Block) -> dict[str, Any]:
    return plain(load(block.extra)) if block.extra else {}


def _as_written(dialect: str, block: Block) -> dict[str, Any]:
    """Return a block as the wire has it; blocks of server tools are compared whole."""
    blocks = neutral_blocks(dialect, verbatim(dialect, AssistantMessage((block,))))
    return blocks[0] if len(blocks) == 1 else {"type": f"{len(blocks)} blocks written for one"}


def _text(dialect: str, block: Text) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "text", "text": block.text}
    if dialect == "anthropic-messages":
        made["citations"] = [plain(load(citation.raw)) for citation in block.citations] or None
    if dialect == "openai-responses":
        extra = _extra(block)
        cited = [plain(load(citation.raw)) for citation in block.citations if citation.raw]
        made["citations"] = cited or extra.get("annotations") or None
    return made


def _reasoning(dialect: str, block: Reasoning) -> dict[str, Any]:
    if isinstance(block.meta, AnthropicRedactedMeta):
        return {"type": "redacted", "data": block.meta.data}
    if isinstance(block.meta, ChatMeta) and block.meta.field == "think":
        written = verbatim(dialect, AssistantMessage((block,)))[0]["content"]  # the closing tag may be missing
        return {"type": "text", "text": written, "tagged": True}
    made: dict[str, Any] = {"type": "reasoning", "text": block.text}
    if dialect == "openai-responses":
        made |= _summarised(block)
    if isinstance(block.meta, ChatMeta):
        field = block.meta.field
        made["field"] = {"content": None, "reasoning_details": "reasoning", "": "reasoning"}.get(field, field)
        made["details"] = plain(load(block.meta.details)) if block.meta.details else None
    return made


def _summarised(block: Reasoning) -> dict[str, Any]:
    """Return the text and parts of a summary; our text joins them by a newline, the oracle's by a blank line."""
    written = _as_written("openai-responses", block)
    parts = written.get("summary") or written.get("content") or []
    text = "\n\n".join(parts) if block.text == "\n".join(parts) else block.text
    return {"text": text, **{name: written.get(name) for name in ("summary", "content", "item_id")}}


def _refusal(_: str, block: Refusal) -> dict[str, Any]:
    return {"type": "refusal", "text": block.text}


def _call(dialect: str, block: ToolUse) -> dict[str, Any]:
    if block.kind not in ("function", "custom", "function_call"):
        return _as_written(dialect, block)
    named = {"id": None if block.id_generated else block.id, "name": block.name}
    if block.kind == "custom":
        return {"type": "custom_tool_call", **named, "input": block.args}
    legacy = {"legacy_function_call": True} if block.kind == "function_call" or _legacy(dialect, block) else {}
    made = {"type": "tool_call", **named, **legacy}
    try:
        return {**made, "arguments": plain(load(block.args)) if block.args.strip() else {}}
    except ValueError:
        return {**made, "arguments": None, "raw_arguments": block.args}


def _legacy(dialect: str, block: ToolUse) -> bool:
    if dialect != "openai-chat" or not block.id_generated:
        return False
    return "function_call" in verbatim(dialect, AssistantMessage((block,)))[0]


def _image(dialect: str, block: Image) -> dict[str, Any]:
    if dialect == "openai-responses":
        return _as_written(dialect, block)
    return {"type": "image", "mime": block.mime, "data_len": len(block.data)}


_MAKERS: dict[type[Block], Callable[[str, Any], dict[str, Any]]] = {
    Text: _text,
    Reasoning: _reasoning,
    Refusal: _refusal,
    ToolUse: _call,
    Image: _image,
}


def _tags_joined(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join reasoning that came in `<think>` tags with the text next to it, as the oracle leaves it."""
    found: list[dict[str, Any]] = []
    tagged = False
    for block in blocks:
        inside = block.pop("tagged", False)
        if found and block["type"] == found[-1]["type"] == "text" and (tagged or inside):
            found[-1] = {**found[-1], "text": found[-1]["text"] + block["text"]}
        else:
            found.append(block)
        tagged = inside or (tagged and block["type"] == "text")
    return found
