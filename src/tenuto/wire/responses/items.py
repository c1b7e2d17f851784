"""Convert items to blocks and back without losing a field.

Fields that a block has no place for stay in its `extra`; if both name a field, `extra` wins. An item's id and encrypted
content are its `OpenAiMeta`. The parts of a message share the message's id. The `extra` of the first part holds the other
fields of the message under `item`, which also shows where a message begins. A message without parts becomes an empty
`Text` whose `item` holds the `content`. Messages of another role, which a compacted history contains, become `Marker`
blocks, so that they are not mistaken for the reply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import (
    Block,
    Citation,
    Image,
    Marker,
    Opaque,
    OpenAiMeta,
    OtherCitation,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
    UrlCitation,
)
from tenuto.core.provider import Dialect
from tenuto.wire.body_builder import extra_fields
from tenuto.wire.rawjson import (
    Fields,
    is_null,
    is_object,
    is_text,
    list_or_empty,
    object_or_empty,
    take_text,
    text_or_empty,
    whole_number,
)
from tenuto.wire.responses.protocol import CLIENT_CALLS, INPUTS, MARKERS, OUTPUTS, SERVER_CALLS

DIALECT: Dialect = "openai-responses"
_INPUT_FIELDS = ("arguments", "action", "actions", "input", "code", "queries")
"""Where to look for a call's input if its own field does not have it."""
_CALL_KINDS = {"function_call": "function", "custom_tool_call": "custom"}
_ITEM_TYPES = {kind: type for type, kind in _CALL_KINDS.items()}
_NAMED_CALLS = frozenset({"function_call", "custom_tool_call", "mcp_approval_request"})
_IMAGE = "image_generation_call"
_IMAGE_PREFIXES = {"iVBOR": "image/png", "/9j/": "image/jpeg", "UklGR": "image/webp", "R0lG": "image/gif"}
"""The media types of images, by the first characters of their base64 text."""


# --- from the wire ----------------------------------------------------------------------------------------------------


def read_item(raw: Raw, make_id: Callable[[], str], fields: Fields | None = None) -> list[Block]:
    """Return the blocks of a finished item.

    `make_id` makes an id for a call without one. `fields` are the fields of the item if they are known: they are consumed.
    """
    if fields is None:
        fields = jsonio.members(raw)
    type = take_text(fields, "type")
    if type == "message":
        return _read_message(raw, fields)
    if type == "reasoning":
        text = _join_texts(fields.get("summary")) or _join_texts(fields.get("content"))
        return [Reasoning(text, meta=_take_token(fields), extra=jsonio.object_text(fields))]
    if type == _IMAGE:
        return [_read_image(fields)]
    if type in CLIENT_CALLS and not _runs_at_provider(type, fields):
        return [_read_client_call(type, fields, make_id)]
    if type in OUTPUTS or type.endswith("_output"):
        meta = _take_meta(fields)
        content = fields.pop(OUTPUTS.get(type, "output"), None)
        id = take_text(fields, "call_id")
        text = "" if content is None else jsonio.as_text(content)
        return [ServerToolResult(id, text, type, meta=meta, extra=jsonio.object_text(fields))]
    if type in MARKERS:
        return [Marker(type, meta=_take_token(fields), extra=jsonio.object_text(fields))]
    if type in SERVER_CALLS or type.endswith("_call"):
        return [_read_server_call(type, fields)]
    return [Opaque(DIALECT, jsonio.as_text(raw))]


def _take_meta(fields: Fields) -> OpenAiMeta:
    return OpenAiMeta(id=take_text(fields, "id"))


def _take_token(fields: Fields) -> OpenAiMeta:
    return OpenAiMeta(id=take_text(fields, "id"), encrypted_content=take_text(fields, "encrypted_content") or None)


def _join_texts(parts: Raw | None) -> str:
    objects = [jsonio.members(part) for part in list_or_empty(parts) if is_object(part)]
    return "\n".join(jsonio.text_of(part.get("text")) for part in objects)


def _read_message(raw: Raw, fields: Fields) -> list[Block]:
    content = fields.get("content")
    if content is None:
        return [Opaque(DIALECT, jsonio.as_text(raw))]
    meta = _take_meta(fields)
    parts = list_or_empty(content)
    if not parts:
        return [Text(text_or_empty(content), meta=meta, extra=_write_extra({}, fields))]
    del fields["content"]
    is_reply = jsonio.text_of(fields.get("role"), "assistant") == "assistant"
    return [_read_part(part, meta, fields if i == 0 else None, is_reply=is_reply) for i, part in enumerate(parts)]


def _write_extra(fields: Fields, item: Fields | None) -> str:
    """Write the extra fields of a part; the first part includes the message's."""
    if item is not None:
        fields = {**fields, "item": Raw(jsonio.encode(item))}
    return jsonio.object_text(fields)


def _read_part(raw: Raw, meta: OpenAiMeta, item: Fields | None, *, is_reply: bool) -> Block:
    fields = object_or_empty(raw)
    type = text_or_empty(fields.get("type"))
    if not is_reply and type:
        del fields["type"]
        text = take_text(fields, "text")
        return Marker(type, text or None, meta=meta, extra=_write_extra(fields, item))
    if type in ("output_text", "text") and is_text(fields.get("text")):
        text = jsonio.text_of(fields.pop("text"))
        annotations = list_or_empty(fields.get("annotations"))
        if not all(map(is_object, annotations)):
            annotations = []
        if annotations:  # an empty list stays in `extra`
            del fields["annotations"]
        if type == "output_text":
            del fields["type"]
        citations = tuple(map(read_citation, annotations))
        return Text(text, citations=citations, meta=meta, extra=_write_extra(fields, item))
    if type == "refusal" and is_text(fields.get("refusal")):
        del fields["type"]
        return Refusal(jsonio.text_of(fields.pop("refusal")), meta=meta, extra=_write_extra(fields, item))
    return Opaque(DIALECT, jsonio.as_text(raw), meta=meta, extra=_write_extra({}, item))


def read_citation(raw: Raw) -> Citation:
    """Read an annotation; only those of web pages are typed."""
    fields = jsonio.members(raw)
    text = jsonio.as_text(raw)
    if jsonio.text_of(fields.get("type")) != "url_citation" or not is_text(fields.get("url")):
        return OtherCitation(raw=text)
    title = fields.get("title")
    return UrlCitation(
        jsonio.text_of(fields["url"]),
        jsonio.text_of(title) if is_text(title) else None,
        start_index=whole_number(fields.get("start_index")),
        end_index=whole_number(fields.get("end_index")),
        raw=text,
    )


def _runs_at_provider(type: str, fields: Fields) -> bool:
    """Whether the provider runs a call of a type that the caller can run as well."""
    if type == "tool_search_call":
        return jsonio.text_of(fields.get("execution"), "server") != "client"
    environment = object_or_empty(fields.get("environment")) if type == "shell_call" else {}
    return jsonio.text_of(environment.get("type"), "local") != "local"


def _take_input(type: str, fields: Fields) -> str:
    """Remove a call's input and return it; in another field or form, it stays."""
    name, form = INPUTS.get(type, ("arguments", "text"))
    value = fields.get(name)
    if value is not None and bytes(value) not in (b"null", b'""') and is_text(value) == (form == "text"):
        del fields[name]
        return _to_text(value)
    return next((_to_text(fields[name]) for name in _INPUT_FIELDS if not is_null(fields.get(name))), "")


def _to_text(value: Raw) -> str:
    return jsonio.text_of(value) if is_text(value) else jsonio.as_text(value)


def _read_client_call(type: str, fields: Fields, make_id: Callable[[], str]) -> ToolUse:
    meta = _take_meta(fields)
    id = meta.id if type == "mcp_approval_request" else take_text(fields, "call_id")
    has_input = INPUTS[type][0] in fields
    args = _take_input(type, fields)
    name = take_text(fields, "name") if type in _NAMED_CALLS else type.removesuffix("_call")
    return ToolUse(
        id or make_id(),
        name,
        args,
        kind=_CALL_KINDS.get(type, type),
        id_generated=not id,
        args_missing=not has_input and not args,
        meta=meta,
        extra=jsonio.object_text(fields),
    )


def _read_server_call(type: str, fields: Fields) -> ServerToolUse:
    meta = _take_meta(fields)
    args = _take_input(type, fields)
    name, id = type.removesuffix("_call"), meta.id
    if text_or_empty(fields.get("name")) != name:
        name = take_text(fields, "name") or name
    if text_or_empty(fields.get("call_id")) != id:  # without a call id, the item's own id identifies the call
        id = take_text(fields, "call_id") or id
    return ServerToolUse(id, name, args, kind=type, meta=meta, extra=jsonio.object_text(fields))


def _read_image(fields: Fields) -> Image:
    meta = _take_meta(fields)
    result = take_text(fields, "result")
    format = text_or_empty(fields.get("output_format"))
    mime = next((mime for prefix, mime in _IMAGE_PREFIXES.items() if result.startswith(prefix)), "")
    if format:
        mime = f"image/{format}"
    extra = jsonio.object_text({"type": Raw(jsonio.encode(_IMAGE)), **fields})
    if result.startswith(("http://", "https://")):
        return Image(url=result, mime=mime, meta=meta, extra=extra)
    return Image(data=result, mime=mime, meta=meta, extra=extra)


# --- to the wire ------------------------------------------------------------------------------------------------------


def group_by_item(blocks: Iterable[Block]) -> list[list[Block]]:
    """Group the blocks of each item, in order."""
    groups: list[list[Block]] = []
    for block in blocks:
        if groups and _is_same_message(groups[-1][-1], block):
            groups[-1].append(block)
        else:
            groups.append([block])
    return groups


def _is_same_message(previous: Block, block: Block) -> bool:
    if not (_is_part(previous) and _is_part(block) and previous.meta == block.meta):
        return False
    return isinstance(block.meta, OpenAiMeta) and "item" not in extra_fields(block.extra)


def _is_part(block: Block) -> bool:
    if isinstance(block, Marker):
        return block.kind not in MARKERS
    return isinstance(block, Text | Refusal) or (isinstance(block, Opaque) and block.meta is not None)


def item_type_for(call: ToolUse) -> str:
    """Return the item type of a call; other dialects' built-in tools are functions."""
    return call.kind if call.kind in CLIENT_CALLS else _ITEM_TYPES.get(call.kind, "function_call")


def write_item(group: list[Block]) -> dict[str, Any]:
    """Write an item exactly as it was read; empty for a block of another dialect."""
    first = group[0]
    if _is_part(first):
        return _write_message(group)
    if isinstance(first, Opaque):
        return dict(jsonio.members(first.raw))
    fields = _write_typed_fields(first)
    if not fields:
        return {}
    if isinstance(first.meta, OpenAiMeta):
        if first.meta.id:
            fields["id"] = first.meta.id
        if first.meta.encrypted_content is not None:
            fields["encrypted_content"] = first.meta.encrypted_content
    return {**fields, **extra_fields(first.extra)}


def _write_typed_fields(block: Block) -> dict[str, Any]:
    """Write the attributes of a block; nothing for a block of another dialect."""
    fields: dict[str, Any]
    if isinstance(block, ToolUse):
        type = item_type_for(block)
        fields = {"type": type}
        if type != "mcp_approval_request" and not block.id_generated:
            fields["call_id"] = block.id
        if type in _NAMED_CALLS and block.name:
            fields["name"] = block.name
        return fields if block.args_missing else fields | _write_input(type, block)
    if isinstance(block, ServerToolUse):
        fields = {"type": block.kind}
        if block.id and not (isinstance(block.meta, OpenAiMeta) and block.id == block.meta.id):
            fields["call_id"] = block.id
        if block.name != block.kind.removesuffix("_call"):
            fields["name"] = block.name
        return fields | _write_input(block.kind, block) if block.args else fields
    if isinstance(block, ServerToolResult):
        fields = {"type": block.kind, "call_id": block.tool_use_id}
        fields[OUTPUTS.get(block.kind, "output")] = _splice(block.content)
        return {name: value for name, value in fields.items() if value not in ("", None)}
    if isinstance(block, Image):
        result = block.data or block.url
        return {"type": _IMAGE, "result": result} if result else {"type": _IMAGE}
    if isinstance(block, Marker):
        return {"type": block.kind}
    if isinstance(block, Reasoning):
        if block.text and not block.extra:
            return {"type": "reasoning", "summary": [{"type": "summary_text", "text": block.text}]}
        return {"type": "reasoning"}
    return {}


def _splice(text: str) -> Raw | str | None:
    """Return JSON text to splice in unchanged; a caller's invalid JSON is a string."""
    if not text or jsonio.problem(text):
        return text or None
    return Raw(text.encode("utf-8", "surrogatepass"))


def _write_input(type: str, call: ToolUse | ServerToolUse) -> dict[str, Any]:
    """Write the input of a call, unless its extra fields contain it."""
    name, form = INPUTS.get(type, ("arguments", "text"))
    extra = extra_fields(call.extra)
    if name in extra or (call.args and any(_to_text(extra[n]) == call.args for n in _INPUT_FIELDS if n in extra)):
        return {}
    return {name: call.args if form == "text" else _splice(call.args)}


def _write_message(group: list[Block]) -> dict[str, Any]:
    first = group[0]
    id = first.meta.id if isinstance(first.meta, OpenAiMeta) else ""
    fields: dict[str, Any] = {"type": "message", "id": id} if id else {"type": "message"}
    item = extra_fields(first.extra).get("item")
    fields.update(jsonio.members(item) if item is not None else {"role": "assistant"})
    if "content" not in fields:
        fields["content"] = [_write_part(block) for block in group]
    return fields


def _write_part(block: Block) -> Any:
    if isinstance(block, Opaque):
        return _splice(block.raw)
    extra: dict[str, Any] = dict(extra_fields(block.extra))
    extra.pop("item", None)
    if isinstance(block, Refusal):
        return {"type": "refusal", "refusal": block.text, **extra}
    if isinstance(block, Marker):
        return {"type": block.kind, **({} if block.text is None else {"text": block.text}), **extra}
    assert isinstance(block, Text)
    annotations = [_splice(citation.raw) for citation in block.citations if citation.raw]
    return {"type": "output_text", "text": block.text, **({"annotations": annotations} if annotations else {}), **extra}


def empty_block(block: Block) -> Block:
    """Return a block as it is before its first delta."""
    if isinstance(block, Text):
        return Text("")
    if isinstance(block, Refusal):
        return Refusal("")
    if isinstance(block, Reasoning):
        return Reasoning()
    if isinstance(block, ToolUse | ServerToolUse):
        return msgspec.structs.replace(block, args="", meta=None, extra="")
    return block
