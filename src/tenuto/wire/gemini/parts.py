"""Convert Gemini parts to blocks and back.

A block's `extra` has the other fields of its part: those next to the data at the top, those inside the data below its
name (`{"partMetadata": ..., "inlineData": {"displayName": ...}}`). Null, an empty string and a value of another type
stay in `extra`. A part with a signature and no data is an empty text with `"text": null` in `extra`.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import (
    Audio,
    Block,
    CodeExecution,
    CodeResult,
    Document,
    GeminiMeta,
    Image,
    Marker,
    Opaque,
    Reasoning,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.core.jsonio import NULL, Fields, is_null, is_object, take_text, to_raw
from tenuto.core.media_types import detect_base64_type, split_data_url, type_from_name
from tenuto.core.provider import Target
from tenuto.wire.body_builder import extra_fields
from tenuto.wire.gemini.protocol import DIALECT, PART_FIELDS, to_camel_case

Wire = dict[str, Any]
_FLAGS = (
    *("thought", "mediaResolution", "videoMetadata", "partMetadata"),
    *("mediaProcessing", "audioTranscription", "speechMetadata"),
)
"""Fields next to the data of a part."""
_MIME_ALIASES = {"image/jpg": "image/jpeg", "audio/mpeg3": "audio/mpeg", "audio/x-wav": "audio/wav"}
_DEFAULT_MIMES = {Image: "image/png", Audio: "audio/wav", Document: "application/pdf"}


# --- read -------------------------------------------------------------------------------------------------------------


def read_part(raw: Raw, fields: Fields, new_id: Callable[[], str]) -> Block:
    """Convert a part to a block, consuming `fields`; an unknown part is `Opaque`. `new_id` makes call ids."""
    meta = take_signature(fields)
    name, data = "", None
    if not _READERS.keys().isdisjoint(fields):
        for name in _READERS:
            data = part_data(fields, name)
            if data is not None:
                break
    if data is not None:
        block = _READERS[name](data, new_id)
        if block is not None:
            del fields[name]
            if data:
                fields[name] = Raw(jsonio.encode(data))
            return msgspec.structs.replace(block, meta=meta, extra=jsonio.object_text(fields))
    elif not is_null(fields.get("text")) or (
        meta is not None and all(name in _FLAGS or is_null(value) for name, value in fields.items())
    ):
        text = jsonio.text_of(fields.setdefault("text", NULL))
        if not is_null(fields["text"]):
            del fields["text"]
        if bytes(fields.get("thought", NULL)) == b"true":
            del fields["thought"]
            return Reasoning(text, meta=meta, extra=jsonio.object_text(fields))
        return Text(text, meta=meta, extra=jsonio.object_text(fields))
    return Opaque(DIALECT, jsonio.as_text(raw))


def take_signature(fields: Fields) -> GeminiMeta | None:
    """Remove the signature from the fields of a part and return it. An empty one stays."""
    signature = take_text(fields, "thoughtSignature")
    return GeminiMeta(signature) if signature else None


def part_data(fields: Fields, name: str) -> Fields | None:
    """Return the fields of a part's data; None if the part has no object of this name."""
    data = fields.get(name)
    return to_camel_case(jsonio.members(data), PART_FIELDS) if data is not None and is_object(data) else None


def _take_json(data: Fields, name: str) -> str:
    """Remove a value and return its JSON text. Null stays, and gives an empty string."""
    return "" if is_null(data.get(name)) else jsonio.as_text(data.pop(name))


def _read_call(data: Fields, new_id: Callable[[], str]) -> Block | None:
    name = take_text(data, "name")
    if not name:
        return None
    id, args = take_text(data, "id"), _take_json(data, "args")
    return ToolUse(id or new_id(), name, args, id_generated=not id, args_missing=not args)


def _read_media(data: Fields, source: str) -> Block | None:
    content = take_text(data, source)
    if not content:
        return None
    mime = take_text(data, "mimeType")
    kind = _MEDIA.get(mime.partition("/")[0], Document)
    return kind(data=content, mime=mime) if source == "data" else kind(url=content, mime=mime)


_MEDIA: dict[str, type[Image | Audio | Document]] = {"image": Image, "audio": Audio}
_READERS: dict[str, Callable[[Fields, Callable[[], str]], Block | None]] = {
    "functionCall": _read_call,
    "inlineData": lambda data, _: _read_media(data, "data"),
    "fileData": lambda data, _: _read_media(data, "fileUri"),
    "executableCode": lambda data, _: CodeExecution(
        take_text(data, "code"), take_text(data, "language"), take_text(data, "id")
    ),
    "codeExecutionResult": lambda data, _: CodeResult(
        take_text(data, "outcome"), take_text(data, "output"), take_text(data, "id")
    ),
    "toolCall": lambda data, _: ServerToolUse(
        take_text(data, "id"), take_text(data, "toolType"), _take_json(data, "args"), "toolCall"
    ),
    "toolResponse": lambda data, _: ServerToolResult(
        take_text(data, "id"), _take_json(data, "response"), "toolResponse"
    ),
    "functionResponse": lambda data, _: None,  # a model does not send results: `Opaque`
}
DATA = frozenset(("text", *_READERS))  # names of the data of a part; a part has one of them


# --- write ------------------------------------------------------------------------------------------------------------


def accepts(block: Block, target: Target) -> bool:
    """Whether a block that no provider issued can be written in this dialect."""
    if isinstance(block, ServerToolUse | ServerToolResult):
        return block.kind in ("toolCall", "toolResponse") and not target.provider.gemini.vertex
    if isinstance(block, ToolUse):
        return block.kind == "function"
    if isinstance(block, Image | Audio | Document):
        return bool(block.data or block.url or block.file_id)
    return not isinstance(block, Marker)


def write_part(block: Block) -> Wire | Raw:
    """Write a block as the part that it was read from; raise `KeyError` for a block that Gemini does not have."""
    if isinstance(block, Opaque):
        return to_raw(block.raw)
    return add_extra(block, _WRITERS[type(block)](block))


def add_extra(block: Block, part: Wire) -> Wire:
    for name, value in extra_fields(block.extra).items():
        old = part.get(name)
        if isinstance(old, dict) and is_object(value):
            part[name] = {**old, **jsonio.members(value)}
        elif name == "text" in part and is_null(value):
            del part[name]
        else:
            part[name] = value
    if isinstance(block.meta, GeminiMeta):
        part["thoughtSignature"] = block.meta.thought_signature
    return part


def write_media(block: Image | Audio | Document) -> dict[str, dict[str, str]] | None:
    """Write media as data; None without bytes or URL. A missing type is that of the bytes or of the URL's suffix."""
    mime, data = block.mime, block.data
    if not data and (url := split_data_url(block.url)):
        mime, data = mime or url[0], url[1]
    elif not data:
        uri = block.url or block.file_id
        mime = _MIME_ALIASES.get(mime, mime) or type_from_name(uri.partition("?")[0])
        return {"fileData": {"mimeType": mime, "fileUri": uri} if mime else {"fileUri": uri}} if uri else None
    mime = _MIME_ALIASES.get(mime, mime) or detect_base64_type(data) or _DEFAULT_MIMES[type(block)]
    return {"inlineData": {"mimeType": mime, "data": data}}


def _non_empty(**fields: str | Raw) -> Wire:
    return {name: value for name, value in fields.items() if value}


def _write_call(block: ToolUse) -> Wire:
    call = _non_empty(id="" if block.id_generated else block.id, name=block.name)
    if not block.args_missing:
        call["args"] = to_raw(block.args or "{}")
    return {"functionCall": call}


def _write_received_media(block: Image | Audio | Document) -> Wire:
    if block.data:
        return {"inlineData": _non_empty(mimeType=block.mime, data=block.data)}
    if block.url or block.file_id:
        return {"fileData": _non_empty(mimeType=block.mime, fileUri=block.url or block.file_id)}
    raise KeyError(type(block))


_WRITERS: dict[type[Block], Callable[[Any], Wire]] = {
    Text: lambda block: {"text": block.text},
    Reasoning: lambda block: {"text": block.text, "thought": True},
    ToolUse: _write_call,
    Image: _write_received_media,
    Audio: _write_received_media,
    Document: _write_received_media,
    CodeExecution: lambda block: {"executableCode": _non_empty(id=block.id, language=block.language, code=block.code)},
    CodeResult: lambda block: {
        "codeExecutionResult": _non_empty(id=block.id, outcome=block.outcome, output=block.output)
    },
    ServerToolUse: lambda block: {"toolCall": _non_empty(id=block.id, toolType=block.name, args=to_raw(block.args))},
    ServerToolResult: lambda block: {"toolResponse": _non_empty(id=block.tool_use_id, response=to_raw(block.content))},
}
