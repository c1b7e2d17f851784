"""Read and write content blocks. A block that was read is written with the same fields and values."""

import functools
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
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
    UrlCitation,
)
from tenuto.core.jsonio import Fields, is_list, is_text, splice_json
from tenuto.core.provider import Target
from tenuto.wire.anthropic.protocol import DIALECT, MARKERS, SERVER_CALLS
from tenuto.wire.body_builder import citation_type, extra_fields


class _PlainText(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["text"]  # a field, because msgspec accepts an object without its tag
    text: str


@functools.cache
def _plain_text_decoder() -> msgspec.json.Decoder[_PlainText]:
    """Create the decoder on first use: that takes as long as importing a module."""
    return msgspec.json.Decoder(_PlainText)


def read_block(raw: Raw) -> Block:
    """Read one content block. A block of an unknown type becomes `Opaque`."""
    try:
        return Text(_plain_text_decoder().decode(raw).text)  # most blocks have only these two fields
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    fields = jsonio.members(raw)
    kind = jsonio.text_of(fields.get("type"))
    if kind == "text":
        return Text(_take_text(fields, "text"), _take_citations(fields), extra=_write_extra(fields))
    if kind == "thinking":
        return Reasoning(_take_text(fields, "thinking"), meta=_take_signature(fields), extra=_write_extra(fields))
    if kind == "redacted_thinking":
        return Reasoning(meta=AnthropicRedactedMeta(_take_text(fields, "data")), extra=_write_extra(fields))
    if kind == "tool_use" or kind in SERVER_CALLS:
        id, name, args = _take_text(fields, "id"), _take_text(fields, "name"), _take_json(fields, "input")
        if kind == "tool_use":
            return ToolUse(id, name, args, extra=_write_extra(fields))
        return ServerToolUse(id, name, args, kind, extra=_write_extra(fields))
    if kind.endswith("_tool_result"):
        id, content = _take_text(fields, "tool_use_id"), _take_json(fields, "content")
        return ServerToolResult(id, content, kind, extra=_write_extra(fields))
    if kind in MARKERS:
        summary = _take_text(fields, "content") if is_text(fields.get("content")) else None
        return Marker(kind, summary, meta=_take_signature(fields), extra=_write_extra(fields))
    return Opaque(DIALECT, jsonio.as_text(raw))


def _take_text(fields: Fields, name: str) -> str:
    """Remove a field and return its text; raise `JsonError` if it is neither a string nor null."""
    return jsonio.text_of(fields.pop(name, None))


def _take_json(fields: Fields, name: str) -> str:
    raw = fields.pop(name, None)
    return "" if raw is None else jsonio.as_text(raw)


def _take_signature(fields: Fields) -> AnthropicMeta | None:
    """Remove the signature and return it as a token. An empty signature is not a token, and stays an extra field."""
    signature = jsonio.text_of(fields.get("signature"))
    if not signature:
        return None
    del fields["signature"]
    return AnthropicMeta(signature)


def _take_citations(fields: Fields) -> tuple[Citation, ...]:
    """Remove the citations and return them. An empty list, and any other value, stays an extra field."""
    raw = fields.get("citations")
    citations = tuple(map(read_citation, jsonio.elements(raw))) if raw is not None and is_list(raw) else ()
    if citations:
        del fields["citations"]
    return citations


def _write_extra(fields: Fields) -> str:
    del fields["type"]
    return jsonio.object_text(fields)


class _WireCitation(msgspec.Struct):
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


def read_citation(raw: Raw) -> Citation:
    """Read a citation. It keeps its JSON text, which contains its encrypted tokens."""
    text = jsonio.as_text(raw)
    try:
        wire = jsonio.decode_as(raw, _WireCitation)
    except jsonio.JsonError:
        return OtherCitation(raw=text)
    document = (wire.document_index, wire.document_title, wire.cited_text)
    match wire.type:
        case "char_location":
            return DocumentCitation(*document, wire.start_char_index, wire.end_char_index, raw=text)
        case "content_block_location":
            return DocumentCitation(*document, None, None, wire.start_block_index, wire.end_block_index, raw=text)
        case "page_location":
            return PageCitation(*document, wire.start_page_number, wire.end_page_number, raw=text)
        case "web_search_result_location":
            return UrlCitation(wire.url, wire.title, wire.cited_text, raw=text)
        case "search_result_location":
            return UrlCitation(wire.source, wire.title, wire.cited_text, raw=text)
        case _:
            return OtherCitation(raw=text)


def accepts(block: Block, _: Target) -> bool:
    """Whether a block that no provider issued can be written in this dialect."""
    match block:
        case Text(citations=citations):
            return all(citation_type(citation).endswith("_location") for citation in citations)
        case ToolUse(kind=kind):
            return kind == "function"
        case ServerToolUse(kind=kind):
            return kind in SERVER_CALLS
        case ServerToolResult(kind=kind):
            return kind.endswith("_tool_result")
    return isinstance(block, Reasoning | Refusal | Marker)


def write_block(block: Block) -> dict[str, Any] | Raw | str:
    """Write a block as it was received; raise `KeyError` for a type that this dialect never sends."""
    content: dict[str, Any]
    match block:
        case Text():
            content = {"type": "text", "text": block.text}
            if citations := [splice_json(citation.raw) for citation in block.citations if citation.raw]:
                content["citations"] = citations
        case Reasoning():
            if isinstance(block.meta, AnthropicRedactedMeta):
                content = {"type": "redacted_thinking", "data": block.meta.data}
            else:
                content = {"type": "thinking", "thinking": block.text}
        case ToolUse() | ServerToolUse():
            kind = "tool_use" if isinstance(block, ToolUse) else block.kind
            content = {"type": kind, "id": block.id, "name": block.name}
            if block.args:
                content["input"] = splice_json(block.args)
        case ServerToolResult():
            content = {"type": block.kind, "tool_use_id": block.tool_use_id}
            if block.content:
                content["content"] = splice_json(block.content)
        case Marker():
            content = {"type": block.kind} if block.text is None else {"type": block.kind, "content": block.text}
        case Opaque():
            return splice_json(block.raw)
        case _:
            raise KeyError(type(block).__name__)
    if isinstance(block, Reasoning | Marker) and isinstance(block.meta, AnthropicMeta):
        content["signature"] = block.meta.signature
    return content | extra_fields(block.extra) if block.extra else content
