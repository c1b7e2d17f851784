"""Parts, both ways. What is read here is written back the same, field for field.

A block's `extra` mirrors the part it came as: fields beside the part's data stand at its top, fields inside the data
stand below the data's name (`{"partMetadata": ..., "inlineData": {"displayName": ...}}`). A typed field holds a text
that is not empty; a null, an empty text or a value of another type stays in `extra` as it was. A part that carries a
signature and no data at all is an empty text whose `extra` says `"text": null`.
"""

from __future__ import annotations

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
    Opaque,
    Reasoning,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.wire.body_builder import extra_fields
from tenuto.wire.gemini.protocol import DIALECT, PART, Fields, camel

__all__ = ["DATA", "completed", "inner_of", "read_part", "signature_of", "write_part"]

Wire = dict[str, Any]
_NULL = Raw(b"null")
_TRUE = b"true"
_FLAGS = frozenset(
    (
        "thought",
        "mediaResolution",
        "videoMetadata",
        "partMetadata",
        "mediaProcessing",
        "audioTranscription",
        "speechMetadata",
    )
)
"""Fields that stand beside a part's data."""


# --- from the wire ----------------------------------------------------------------------------------------------------


def read_part(raw: Raw, fields: Fields, new_id: Callable[[], str]) -> Block:
    """Read one part out of its fields; one that nobody knows comes back as `Opaque`.

    `new_id` makes the id of a call that has none.
    """
    meta = signature_of(fields)
    name, inner = _data(fields)
    if inner is not None:
        block = _READERS[name](inner, new_id)
        if block is not None:
            _keep(fields, name, inner)
            return msgspec.structs.replace(block, meta=meta, extra=jsonio.object_text(fields))
    elif fields.get("text", _NULL) != _NULL or (meta is not None and _only_flags(fields)):
        return _text(fields, meta)
    return Opaque(DIALECT, jsonio.as_text(raw))


def _data(fields: Fields) -> tuple[str, Fields | None]:
    """Find the data of a part that is no text: its name and its fields; None if it has none."""
    if not _READERS.keys().isdisjoint(fields):
        for name in _READERS:
            inner = inner_of(fields, name)
            if inner is not None:
                return name, inner
    return "", None


def signature_of(fields: Fields) -> GeminiMeta | None:
    """Take the signature off a part's fields; an empty one signs nothing, and stays."""
    signature = _take(fields, "thoughtSignature")
    return GeminiMeta(signature) if signature else None


def inner_of(fields: Fields, name: str) -> Fields | None:
    """Return the fields of a part's data of this kind; None if it has none of it."""
    found = fields.get(name)
    return camel(jsonio.members(found), PART) if found is not None and bytes(found)[:1] == b"{" else None


def _keep(fields: Fields, name: str, inner: Fields) -> None:
    """Leave behind what nobody read of a part's data."""
    del fields[name]
    if inner:
        fields[name] = Raw(jsonio.encode(inner))


def _only_flags(fields: Fields) -> bool:
    """Tell whether a part holds no data, not even of a kind that nobody knows."""
    return all(name in _FLAGS or bytes(value) == b"null" for name, value in fields.items())


def _take(fields: Fields, name: str) -> str:
    """Take a text off; anything but a text that is not empty stays."""
    text = bytes(fields.get(name, _NULL))
    return jsonio.text_of(fields.pop(name)) if text[:1] == b'"' and text != b'""' else ""


def _text(fields: Fields, meta: GeminiMeta | None) -> Text | Reasoning:
    text = ""
    if fields.setdefault("text", _NULL) != _NULL:
        text = jsonio.text_of(fields.pop("text"))
    thought = bytes(fields.get("thought", _NULL)) == _TRUE
    if thought:
        del fields["thought"]
    kind = Reasoning if thought else Text
    return kind(text, meta=meta, extra=jsonio.object_text(fields))


def _call(inner: Fields, new_id: Callable[[], str]) -> Block | None:
    name = _take(inner, "name")
    if not name:
        return None
    id = _take(inner, "id")
    args = inner.get("args", _NULL)
    if bytes(args) == b"null":
        return ToolUse(id or new_id(), name, "", id_generated=not id, args_missing=True)
    del inner["args"]
    return ToolUse(id or new_id(), name, jsonio.as_text(args), id_generated=not id)


def _inline(inner: Fields, _: Callable[[], str]) -> Block | None:
    if not (data := _take(inner, "data")):
        return None
    mime = _take(inner, "mimeType")
    return _MEDIA.get(mime.partition("/")[0], Document)(data=data, mime=mime)


def _file(inner: Fields, _: Callable[[], str]) -> Block | None:
    if not (url := _take(inner, "fileUri")):
        return None
    mime = _take(inner, "mimeType")
    return _MEDIA.get(mime.partition("/")[0], Document)(url=url, mime=mime)


def _code(inner: Fields, _: Callable[[], str]) -> Block:
    return CodeExecution(_take(inner, "code"), _take(inner, "language"), _take(inner, "id"))


def _code_result(inner: Fields, _: Callable[[], str]) -> Block:
    return CodeResult(_take(inner, "outcome"), _take(inner, "output"), _take(inner, "id"))


def _server_call(inner: Fields, _: Callable[[], str]) -> Block:
    return ServerToolUse(_take(inner, "id"), _take(inner, "toolType"), _object(inner, "args"), "toolCall")


def _server_result(inner: Fields, _: Callable[[], str]) -> Block:
    return ServerToolResult(_take(inner, "id"), _object(inner, "response"), "toolResponse")


def _object(inner: Fields, name: str) -> str:
    found = inner.get(name, _NULL)
    if bytes(found) == b"null":
        return ""
    return jsonio.as_text(inner.pop(name))


_MEDIA: dict[str, type[Image | Audio | Document]] = {"image": Image, "audio": Audio}
_READERS: dict[str, Callable[[Fields, Callable[[], str]], Block | None]] = {
    "functionCall": _call,
    "inlineData": _inline,
    "fileData": _file,
    "executableCode": _code,
    "codeExecutionResult": _code_result,
    "toolCall": _server_call,
    "toolResponse": _server_result,
    "functionResponse": lambda _, __: None,  # a model has no business sending one: kept, not read
}


DATA = frozenset(("text", *_READERS))
"""The fields of which a part holds one."""


# --- to the wire ------------------------------------------------------------------------------------------------------


def write_part(block: Block) -> Wire | Raw:
    """Write a block as the part it came as; raise `KeyError` for a block that has no form here."""
    if isinstance(block, Opaque):
        return Raw(block.raw.encode("utf-8", "surrogatepass"))
    return completed(block, _WRITERS[type(block)](block))


def completed(block: Block, written: Wire) -> Wire:
    """Lay a block's other fields and its signature over the data that `written` holds."""
    for name, value in extra_fields(block.extra).items():
        held = written.get(name)
        if isinstance(held, dict) and bytes(value)[:1] == b"{":
            written[name] = {**held, **jsonio.members(value)}
        elif name == "text" in written and bytes(value) == b"null":
            del written[name]
        else:
            written[name] = value
    if isinstance(block.meta, GeminiMeta):
        written["thoughtSignature"] = block.meta.thought_signature
    return written


def _said(**fields: str | Raw) -> Wire:
    return {name: value for name, value in fields.items() if value}


def _raw(text: str) -> Raw:
    return Raw(text.encode("utf-8", "surrogatepass"))


def _write_call(block: ToolUse) -> Wire:
    call = _said(id="" if block.id_generated else block.id, name=block.name)
    if not block.args_missing:
        call["args"] = _raw(block.args or "{}")
    return {"functionCall": call}


def _write_media(block: Image | Audio | Document) -> Wire:
    if block.data:
        return {"inlineData": _said(mimeType=block.mime, data=block.data)}
    if block.url or block.file_id:
        return {"fileData": _said(mimeType=block.mime, fileUri=block.url or block.file_id)}
    raise KeyError(type(block))


def _write_code(block: CodeExecution) -> Wire:
    return {"executableCode": _said(id=block.id, language=block.language, code=block.code)}


def _write_code_result(block: CodeResult) -> Wire:
    return {"codeExecutionResult": _said(id=block.id, outcome=block.outcome, output=block.output)}


def _write_server_call(block: ServerToolUse) -> Wire:
    return {"toolCall": _said(id=block.id, toolType=block.name, args=_raw(block.args))}


def _write_server_result(block: ServerToolResult) -> Wire:
    return {"toolResponse": _said(id=block.tool_use_id, response=_raw(block.content))}


_WRITERS: dict[type[Block], Callable[[Any], Wire]] = {
    Text: lambda block: {"text": block.text},
    Reasoning: lambda block: {"text": block.text, "thought": True},
    ToolUse: _write_call,
    Image: _write_media,
    Audio: _write_media,
    Document: _write_media,
    CodeExecution: _write_code,
    CodeResult: _write_code_result,
    ServerToolUse: _write_server_call,
    ServerToolResult: _write_server_result,
}
