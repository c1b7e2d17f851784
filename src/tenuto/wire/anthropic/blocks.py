"""Content blocks, both ways. What is read here is written back the same, field for field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    Block,
    Citation,
    DocumentCitation,
    Marker,
    Opaque,
    OtherCitation,
    PageCitation,
    Reasoning,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
    UrlCitation,
)
from tenuto.wire.anthropic.protocol import CALLS, MARKERS
from tenuto.wire.body_builder import extra_fields, splice_json

__all__ = ["citation", "read_block", "write_block"]

DIALECT = "anthropic-messages"
Fields = dict[str, Raw]


class _PlainText(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["text"]  # a field, not a tag: a tag may be left out, a type not
    text: str


def read_block(raw: Raw) -> Block:
    """Read one content block; a type that nobody knows comes back as `Opaque`."""
    try:
        return Text(jsonio.decoder(_PlainText).decode(raw).text)  # most blocks: text, and nothing beside it
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _read(raw)


def _read(raw: Raw) -> Block:
    fields = jsonio.members(raw)
    kind = jsonio.text_of(fields.get("type"))
    reader = _READERS.get(kind) or (_result if kind.endswith("_tool_result") else None)
    if reader is None:
        return Opaque(DIALECT, jsonio.as_text(raw))
    del fields["type"]
    return reader(kind, fields)


def _take(fields: Fields, name: str) -> str:
    return jsonio.text_of(fields.pop(name, None))


def _input(fields: Fields) -> str:
    found = fields.pop("input", None)
    return "" if found is None else jsonio.as_text(found)


def _text(_: str, fields: Fields) -> Text:
    text = _take(fields, "text")
    listed = fields.get("citations")
    citations: tuple[Citation, ...] = ()
    if listed is not None and bytes(listed)[:1] == b"[":
        citations = tuple(citation(item) for item in jsonio.elements(listed))
        if citations:
            del fields["citations"]
    return Text(text, citations, extra=jsonio.object_text(fields))


def _thinking(_: str, fields: Fields) -> Reasoning:
    text = _take(fields, "thinking")
    signature = jsonio.text_of(fields.get("signature"))
    if signature:
        del fields["signature"]
    return Reasoning(
        text, meta=AnthropicMeta(signature) if signature else None, extra=jsonio.object_text(fields)
    )  # an empty signature signs nothing, but it was there


def _redacted(_: str, fields: Fields) -> Reasoning:
    return Reasoning(meta=AnthropicRedactedMeta(_take(fields, "data")), extra=jsonio.object_text(fields))


def _tool_use(_: str, fields: Fields) -> ToolUse:
    return ToolUse(_take(fields, "id"), _take(fields, "name"), _input(fields), extra=jsonio.object_text(fields))


def _server_use(kind: str, fields: Fields) -> ServerToolUse:
    id, name = _take(fields, "id"), _take(fields, "name")
    return ServerToolUse(id, name, _input(fields), kind, extra=jsonio.object_text(fields))


def _result(kind: str, fields: Fields) -> ServerToolResult:
    content = fields.pop("content", None)
    text = "" if content is None else jsonio.as_text(content)
    return ServerToolResult(_take(fields, "tool_use_id"), text, kind, extra=jsonio.object_text(fields))


def _marker(kind: str, fields: Fields) -> Marker:
    content = fields.get("content")
    text = None
    if content is not None and bytes(content)[:1] == b'"':
        text = _take(fields, "content")
    signature = jsonio.text_of(fields.get("signature"))
    if signature:
        del fields["signature"]
    meta = AnthropicMeta(signature) if signature else None
    return Marker(kind, text, meta=meta, extra=jsonio.object_text(fields))


_READERS: dict[str, Callable[[str, Fields], Block]] = {
    "text": _text,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
    "tool_use": _tool_use,
    **dict.fromkeys(CALLS, _server_use),
    **dict.fromkeys(MARKERS, _marker),
}


# --- citations --------------------------------------------------------------------------------------------------------


class _Place(msgspec.Struct):
    type: str = ""
    url: str = ""
    source: str = ""
    title: str | None = None
    cited_text: str | None = None
    document_index: int = 0
    document_title: str | None = None
    start_char_index: int | None = None
    end_char_index: int | None = None
    start_block_index: int | None = None
    end_block_index: int | None = None
    start_page_number: int | None = None
    end_page_number: int | None = None


def citation(raw: Raw) -> Citation:
    """Read a citation; its own object stays with it, tokens and all."""
    text = jsonio.as_text(raw)
    try:
        place = jsonio.decode_as(raw, _Place)
    except jsonio.JsonError:
        return OtherCitation(raw=text)
    document = (place.document_index, place.document_title, place.cited_text)
    match place.type:
        case "char_location":
            return DocumentCitation(*document, place.start_char_index, place.end_char_index, raw=text)
        case "content_block_location":
            blocks = (None, None, place.start_block_index, place.end_block_index)
            return DocumentCitation(*document, *blocks, raw=text)
        case "page_location":
            return PageCitation(*document, place.start_page_number, place.end_page_number, raw=text)
        case "web_search_result_location":
            return UrlCitation(place.url, place.title, place.cited_text, raw=text)
        case "search_result_location":
            return UrlCitation(place.source, place.title, place.cited_text, raw=text)
        case _:
            return OtherCitation(raw=text)


# --- back to the wire -------------------------------------------------------------------------------------------------


def write_block(block: Block) -> dict[str, Any] | Raw | str:
    """Write a block as it was received. Blocks that this dialect never sent are the encoder's business: KeyError."""
    if isinstance(block, Opaque):
        return splice_json(block.raw)
    return {**_WRITERS[type(block)](block), **extra_fields(block.extra)}


def _write_text(block: Text) -> dict[str, Any]:
    cited = [splice_json(c.raw) for c in block.citations if c.raw]
    return {"type": "text", "text": block.text, **({"citations": cited} if cited else {})}


def _write_reasoning(block: Reasoning) -> dict[str, Any]:
    match block.meta:
        case AnthropicRedactedMeta(data=data):
            return {"type": "redacted_thinking", "data": data}
        case AnthropicMeta(signature=signature):
            return {"type": "thinking", "thinking": block.text, "signature": signature}
        case _:
            return {"type": "thinking", "thinking": block.text}


def _input_of(args: str) -> dict[str, Any]:
    return {"input": splice_json(args)} if args else {}


def _write_tool_use(block: ToolUse) -> dict[str, Any]:
    return {"type": "tool_use", "id": block.id, "name": block.name, **_input_of(block.args)}


def _write_server_use(block: ServerToolUse) -> dict[str, Any]:
    return {"type": block.kind, "id": block.id, "name": block.name, **_input_of(block.args)}


def _write_result(block: ServerToolResult) -> dict[str, Any]:
    content = {"content": splice_json(block.content)} if block.content else {}
    return {"type": block.kind, "tool_use_id": block.tool_use_id, **content}


def _write_marker(block: Marker) -> dict[str, Any]:
    written: dict[str, Any] = {"type": block.kind}
    if block.text is not None:
        written["content"] = block.text
    if isinstance(block.meta, AnthropicMeta):
        written["signature"] = block.meta.signature
    return written


_WRITERS: dict[type[Block], Callable[[Any], dict[str, Any]]] = {
    Text: _write_text,
    Reasoning: _write_reasoning,
    ToolUse: _write_tool_use,
    ServerToolUse: _write_server_use,
    ServerToolResult: _write_result,
    Marker: _write_marker,
}
