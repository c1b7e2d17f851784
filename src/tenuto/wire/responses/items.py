"""Convert items to blocks and back without losing a field.

Fields that a block has no place for stay in its `extra`, which wins if both name a field. The parts of a message share
its id; the `extra` of the first part has the other fields of the message under `item`. A message without parts is an
empty `Text` whose `item` has the `content`. Messages of another role, which a compacted history has, are `Marker`
blocks.
"""

from collections.abc import Callable, Iterable
from typing import Any

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
from tenuto.core.jsonio import (
    Fields,
    is_null,
    is_object,
    is_text,
    list_or_empty,
    object_or_empty,
    splice_json,
    take_text,
    text_or_empty,
    text_or_json,
    whole_number,
)
from tenuto.core.media_types import detect_base64_type
from tenuto.core.provider import Dialect
from tenuto.wire.body_builder import extra_fields
from tenuto.wire.responses.protocol import CLIENT_CALLS, INPUTS, MARKERS, OUTPUTS

DIALECT: Dialect = "openai-responses"
_INPUT_FIELDS = ("arguments", "action", "actions", "input", "code", "queries")
"""Where to look for a call's input if its own field does not have it."""
_CALL_KINDS = {"function_call": "function", "custom_tool_call": "custom"}
_ITEM_TYPES = {kind: type for type, kind in _CALL_KINDS.items()}
_NAMED_CALLS = (*_CALL_KINDS, "mcp_approval_request")
_IMAGE = "image_generation_call"


def read_item(raw: Raw, make_id: Callable[[], str], fields: Fields | None = None) -> list[Block]:
    """Return the blocks of a finished item. `make_id` makes missing call ids; `fields`, if known, are consumed."""
    if fields is None:
        fields = jsonio.members(raw)
    type = take_text(fields, "type")
    has_token = type == "reasoning" or type in MARKERS
    token = take_text(fields, "encrypted_content") if has_token else ""
    meta = OpenAiMeta(id=take_text(fields, "id"), encrypted_content=token or None)
    if type == "message":
        return _read_message(raw, fields, meta)
    if type == "reasoning":
        text = _join_texts(fields.get("summary")) or _join_texts(fields.get("content"))
        return [Reasoning(text, meta=meta, extra=jsonio.object_text(fields))]
    if type == _IMAGE:
        result = take_text(fields, "result")
        is_url = result.startswith(("http://", "https://"))
        format = text_or_empty(fields.get("output_format"))
        mime = f"image/{format}" if format else detect_base64_type(result)
        extra = jsonio.object_text({"type": Raw(jsonio.encode(_IMAGE)), **fields})
        return [Image("" if is_url else result, mime, result if is_url else "", meta=meta, extra=extra)]
    if type in CLIENT_CALLS and not _runs_at_provider(type, fields):
        return [_read_client_call(type, fields, meta, make_id)]
    if type in OUTPUTS or type.endswith("_output"):
        content = fields.pop(OUTPUTS.get(type, "output"), None)
        id = take_text(fields, "call_id")
        text = "" if content is None else jsonio.as_text(content)
        return [ServerToolResult(id, text, type, meta=meta, extra=jsonio.object_text(fields))]
    if type in MARKERS:
        return [Marker(type, meta=meta, extra=jsonio.object_text(fields))]
    if type in INPUTS or type.endswith("_call"):
        return [_read_server_call(type, fields, meta)]
    return [Opaque(DIALECT, jsonio.as_text(raw))]


def _join_texts(parts: Raw | None) -> str:
    objects = [jsonio.members(part) for part in list_or_empty(parts) if is_object(part)]
    return "\n".join(jsonio.text_of(part.get("text")) for part in objects)


def _read_message(raw: Raw, fields: Fields, meta: OpenAiMeta) -> list[Block]:
    content = fields.get("content")
    if content is None:
        return [Opaque(DIALECT, jsonio.as_text(raw))]
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
        citations: tuple[Citation, ...] = ()
        if annotations and all(map(is_object, annotations)):  # any other list stays in `extra`
            citations = tuple(map(read_citation, annotations))
            del fields["annotations"]
        if type == "output_text":
            del fields["type"]
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
        return text_or_json(value)
    return next((text_or_json(fields[name]) for name in _INPUT_FIELDS if not is_null(fields.get(name))), "")


def _read_client_call(type: str, fields: Fields, meta: OpenAiMeta, make_id: Callable[[], str]) -> ToolUse:
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


def _read_server_call(type: str, fields: Fields, meta: OpenAiMeta) -> ServerToolUse:
    args = _take_input(type, fields)
    name, id = type.removesuffix("_call"), meta.id
    if text_or_empty(fields.get("name")) != name:
        name = take_text(fields, "name") or name
    if text_or_empty(fields.get("call_id")) != id:  # without a call id, the item's own id identifies the call
        id = take_text(fields, "call_id") or id
    return ServerToolUse(id, name, args, kind=type, meta=meta, extra=jsonio.object_text(fields))


def group_by_item(blocks: Iterable[Block]) -> list[list[Block]]:
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
    block = group[0]
    if _is_part(block):
        return _write_message(group)
    meta = block.meta if isinstance(block.meta, OpenAiMeta) else OpenAiMeta()
    fields: dict[str, Any]
    match block:
        case Opaque():
            return dict(jsonio.members(block.raw))
        case ToolUse():
            type = item_type_for(block)
            fields = {"type": type}
            if type != "mcp_approval_request" and not block.id_generated:
                fields["call_id"] = block.id
            if type in _NAMED_CALLS and block.name:
                fields["name"] = block.name
            if not block.args_missing:
                fields |= _write_input(type, block)
        case ServerToolUse():
            fields = {"type": block.kind}
            if block.id not in ("", meta.id):
                fields["call_id"] = block.id
            if block.name != block.kind.removesuffix("_call"):
                fields["name"] = block.name
            if block.args:
                fields |= _write_input(block.kind, block)
        case ServerToolResult():
            fields = {"type": block.kind}
            if block.tool_use_id:
                fields["call_id"] = block.tool_use_id
            if block.content:
                fields[OUTPUTS.get(block.kind, "output")] = splice_json(block.content)
        case Image():
            fields = {"type": _IMAGE}
            if result := block.data or block.url:
                fields["result"] = result
        case Marker():
            fields = {"type": block.kind}
        case Reasoning():
            fields = {"type": "reasoning"}
            if block.text and not block.extra:
                fields["summary"] = [{"type": "summary_text", "text": block.text}]
        case _:
            return {}
    if meta.id:
        fields["id"] = meta.id
    if meta.encrypted_content is not None:
        fields["encrypted_content"] = meta.encrypted_content
    return {**fields, **extra_fields(block.extra)}


def _write_input(type: str, call: ToolUse | ServerToolUse) -> dict[str, Any]:
    """Write the input of a call, unless its extra fields contain it."""
    name, form = INPUTS.get(type, ("arguments", "text"))
    extra = extra_fields(call.extra)
    if name in extra or (call.args and any(text_or_json(extra[n]) == call.args for n in _INPUT_FIELDS if n in extra)):
        return {}
    return {name: call.args if form == "text" else splice_json(call.args) or None}


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
        return splice_json(block.raw)
    extra: dict[str, Any] = dict(extra_fields(block.extra))
    extra.pop("item", None)
    if isinstance(block, Refusal):
        return {"type": "refusal", "refusal": block.text, **extra}
    if isinstance(block, Marker):
        return {"type": block.kind, **({} if block.text is None else {"text": block.text}), **extra}
    assert isinstance(block, Text)
    annotations = [splice_json(citation.raw) for citation in block.citations if citation.raw]
    return {"type": "output_text", "text": block.text, **({"annotations": annotations} if annotations else {}), **extra}
