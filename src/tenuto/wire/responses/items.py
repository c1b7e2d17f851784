"""Items to blocks and back, without losing a field.

What a block's typed fields cannot hold stays in its `extra`; where both name a field, `extra` wins. An item's id and
ciphertext are its `OpenAiMeta`. The parts of a message share the message's id, and the first one's `extra` holds the
message's own fields under `item`: that mark is where a message begins. A message without parts is an empty `Text` whose
mark holds the `content` it came with. What somebody other than the model said (a compacted history holds such messages)
becomes a `Marker`, so that nobody takes it for the reply.
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
from tenuto.wire.responses.protocol import CLIENT_CALLS, HOSTED_CALLS, INPUTS, MARKERS, OUTPUTS

__all__ = ["DIALECT", "blocks_in", "blocks_of", "citation_of", "emptied", "groups", "item_of", "kind_of", "type_of"]

DIALECT: Dialect = "openai-responses"
Mint = Callable[[], str]
_FALLBACKS = ("arguments", "action", "actions", "input", "code", "queries")
_PLAIN_KINDS = {"function_call": "function", "custom_tool_call": "custom"}
_ITEM_TYPES = {kind: type for type, kind in _PLAIN_KINDS.items()}
_NAMED = frozenset({"function_call", "custom_tool_call", "mcp_approval_request"})
_IMAGE = "image_generation_call"
_EMPTY = Raw(b'""')
_SIGNS = {"iVBOR": "image/png", "/9j/": "image/jpeg", "UklGR": "image/webp", "R0lG": "image/gif"}


# --- reading ----------------------------------------------------------------------------------------------------------


def blocks_of(raw: Raw, mint: Mint) -> list[Block]:
    """Return the blocks of one finished item. `mint` names a call that came without an id."""
    return blocks_in(raw, jsonio.members(raw), mint)


def blocks_in(raw: Raw, fields: dict[str, Raw], mint: Mint) -> list[Block]:
    """Return the blocks of one finished item whose `fields` are known: they are used up."""
    kind = _taken(fields, "type")
    if kind == "message":
        return _message(fields, raw)
    if kind == "reasoning":
        return [_reasoning(fields)]
    if kind == _IMAGE:
        return [_image(fields)]
    if kind in CLIENT_CALLS and not _runs_there(kind, fields):
        return [_call(kind, fields, mint)]
    if kind in OUTPUTS or kind.endswith("_output"):
        return [_output(kind, fields)]
    if kind in MARKERS:
        return [Marker(kind, meta=_meta(fields, sealed=True), extra=jsonio.object_text(fields))]
    if kind in HOSTED_CALLS or kind.endswith("_call"):
        return [_hosted(kind, fields)]
    return [Opaque(DIALECT, jsonio.as_text(raw))]


def type_of(fields: dict[str, Raw]) -> str:
    """Return an item's type; empty if it has none that is a word."""
    kind = fields.get("type")
    return jsonio.text_of(kind) if kind is not None and bytes(kind)[:1] == b'"' else ""


def _joined(parts: Raw | None) -> str:
    if parts is None or bytes(parts)[:1] != b"[":
        return ""
    held = [jsonio.members(part) for part in jsonio.elements(parts) if bytes(part)[:1] == b"{"]
    return "\n".join(jsonio.text_of(part.get("text")) for part in held)


def _taken(fields: dict[str, Raw], name: str) -> str:
    """Move a string out of `fields`; what is no string, or an empty one, stays there."""
    value = fields.get(name)
    if value is None or bytes(value)[:1] != b'"' or value == _EMPTY:
        return ""
    del fields[name]
    return jsonio.text_of(value)


def _meta(fields: dict[str, Raw], *, sealed: bool = False) -> OpenAiMeta:
    id = _taken(fields, "id")
    return OpenAiMeta(id=id, encrypted_content=(_taken(fields, "encrypted_content") or None) if sealed else None)


def _reasoning(fields: dict[str, Raw]) -> Reasoning:
    text = _joined(fields.get("summary")) or _joined(fields.get("content"))
    return Reasoning(text, meta=_meta(fields, sealed=True), extra=jsonio.object_text(fields))


def _message(fields: dict[str, Raw], raw: Raw) -> list[Block]:
    content = fields.get("content")
    if content is None:
        return [Opaque(DIALECT, jsonio.as_text(raw))]
    meta = _meta(fields)
    parts = jsonio.elements(content) if bytes(content)[:1] == b"[" else []
    if not parts:
        text = jsonio.text_of(content) if bytes(content)[:1] == b'"' else ""
        return [Text(text, meta=meta, extra=_marked({}, fields))]
    del fields["content"]
    said = jsonio.text_of(fields.get("role"), "assistant") == "assistant"
    return [_part(part, meta, fields if at == 0 else None, said=said) for at, part in enumerate(parts)]


def _marked(extra: dict[str, Raw], item: dict[str, Raw] | None) -> str:
    if item is not None:
        extra = {**extra, "item": Raw(jsonio.encode(item))}
    return jsonio.object_text(extra)


def _part(raw: Raw, meta: OpenAiMeta, item: dict[str, Raw] | None, *, said: bool) -> Block:
    fields = jsonio.members(raw) if bytes(raw)[:1] == b"{" else {}
    kind = type_of(fields)
    if not said and kind:
        del fields["type"]
        text = _taken(fields, "text")
        return Marker(kind, text or None, meta=meta, extra=_marked(fields, item))
    if kind in ("output_text", "text") and _is_string(fields, "text"):
        text = jsonio.text_of(fields.pop("text"))
        citations = _citations(fields)
        if kind == "output_text":
            del fields["type"]
        return Text(text, citations=citations, meta=meta, extra=_marked(fields, item))
    if kind == "refusal" and _is_string(fields, "refusal"):
        del fields["type"]
        return Refusal(jsonio.text_of(fields.pop("refusal")), meta=meta, extra=_marked(fields, item))
    return Opaque(DIALECT, jsonio.as_text(raw), meta=meta, extra=_marked({}, item))


def _is_string(fields: dict[str, Raw], name: str) -> bool:
    return name in fields and bytes(fields[name])[:1] == b'"'


def _citations(fields: dict[str, Raw]) -> tuple[Citation, ...]:
    """Move the annotations out of `fields`. An empty list is no citation and stays, as does a list of anything else."""
    held = fields.get("annotations")
    found = jsonio.elements(held) if held is not None and bytes(held)[:1] == b"[" else []
    if not found or not all(bytes(one)[:1] == b"{" for one in found):
        return ()
    del fields["annotations"]
    return tuple(citation_of(one) for one in found)


def citation_of(raw: Raw) -> Citation:
    """Read one annotation; a web page is typed, files of the provider's stores are kept as they are."""
    fields = jsonio.members(raw)
    text = jsonio.as_text(raw)
    if jsonio.text_of(fields.get("type")) != "url_citation" or not _is_string(fields, "url"):
        return OtherCitation(raw=text)
    return UrlCitation(
        jsonio.text_of(fields["url"]),
        jsonio.text_of(fields["title"]) if _is_string(fields, "title") else None,
        start_index=_whole(fields.get("start_index")),
        end_index=_whole(fields.get("end_index")),
        raw=text,
    )


def _whole(value: Raw | None) -> int | None:
    found = jsonio.parse(value) if value is not None else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _runs_there(kind: str, fields: dict[str, Raw]) -> bool:
    """Tell whether the provider itself runs a call of a kind that the caller may run as well."""
    if kind == "tool_search_call":
        return jsonio.text_of(fields.get("execution"), "server") != "client"
    where = fields.get("environment") if kind == "shell_call" else None
    if where is None or bytes(where)[:1] != b"{":
        return False
    return jsonio.text_of(jsonio.members(where).get("type"), "local") != "local"


def _input(kind: str, fields: dict[str, Raw]) -> str:
    """Move a call's input out of `fields`. Where it stands elsewhere or in another form, it is read and left there."""
    field, form = INPUTS.get(kind, ("arguments", "text"))
    value = fields.get(field)
    if value is not None and bytes(value) not in (b"null", b'""') and (bytes(value)[:1] == b'"') == (form == "text"):
        del fields[field]
        return _spelt(value)
    return next((_spelt(fields[name]) for name in _FALLBACKS if bytes(fields.get(name, b"null")) != b"null"), "")


def _spelt(value: Raw) -> str:
    return jsonio.text_of(value) if bytes(value)[:1] == b'"' else jsonio.as_text(value)


def _call(kind: str, fields: dict[str, Raw], mint: Mint) -> ToolUse:
    meta = _meta(fields)
    id = meta.id if kind == "mcp_approval_request" else _taken(fields, "call_id")
    absent = INPUTS[kind][0] not in fields
    args = _input(kind, fields)
    name = _taken(fields, "name") if kind in _NAMED else kind.removesuffix("_call")
    return ToolUse(
        id or mint(),
        name,
        args,
        kind=_PLAIN_KINDS.get(kind, kind),
        id_generated=not id,
        args_missing=absent and not args,
        meta=meta,
        extra=jsonio.object_text(fields),
    )


def _hosted(kind: str, fields: dict[str, Raw]) -> ServerToolUse:
    meta = _meta(fields)
    args = _input(kind, fields)
    name = _default_name(kind)
    if _is_string(fields, "name") and jsonio.text_of(fields["name"]) != name:
        name = _taken(fields, "name") or name
    return ServerToolUse(_paired(fields, meta), name, args, kind=kind, meta=meta, extra=jsonio.object_text(fields))


def _default_name(kind: str) -> str:
    return kind.removesuffix("_call")


def _paired(fields: dict[str, Raw], meta: OpenAiMeta) -> str:
    """Move the call id out of `fields`; an item without one goes by its own id."""
    if _is_string(fields, "call_id") and jsonio.text_of(fields["call_id"]) != meta.id:
        return _taken(fields, "call_id") or meta.id
    return meta.id


def _output(kind: str, fields: dict[str, Raw]) -> ServerToolResult:
    meta = _meta(fields)
    content = fields.pop(OUTPUTS.get(kind, "output"), None)
    id = _taken(fields, "call_id")
    text = "" if content is None else jsonio.as_text(content)
    return ServerToolResult(id, text, kind, meta=meta, extra=jsonio.object_text(fields))


def _image(fields: dict[str, Raw]) -> Image:
    meta = _meta(fields)
    result = _taken(fields, "result")
    named = jsonio.text_of(fields["output_format"]) if _is_string(fields, "output_format") else ""
    sniffed = next((mime for sign, mime in _SIGNS.items() if result.startswith(sign)), "")
    mime = f"image/{named}" if named else sniffed
    extra = jsonio.object_text({"type": Raw(jsonio.encode(_IMAGE)), **fields})
    if result.startswith(("http://", "https://")):
        return Image(url=result, mime=mime, meta=meta, extra=extra)
    return Image(data=result, mime=mime, meta=meta, extra=extra)


# --- writing ----------------------------------------------------------------------------------------------------------


def groups(blocks: Iterable[Block]) -> list[list[Block]]:
    """Gather the blocks of each item, in order."""
    found: list[list[Block]] = []
    for block in blocks:
        if found and _continues(found[-1][-1], block):
            found[-1].append(block)
        else:
            found.append([block])
    return found


def _continues(before: Block, block: Block) -> bool:
    if not (_is_part(before) and _is_part(block) and before.meta == block.meta):
        return False
    return isinstance(block.meta, OpenAiMeta) and "item" not in extra_fields(block.extra)


def _is_part(block: Block) -> bool:
    if isinstance(block, Marker):
        return block.kind not in MARKERS
    return isinstance(block, Text | Refusal) or (isinstance(block, Opaque) and block.meta is not None)


def kind_of(call: ToolUse) -> str:
    """Return the type of the item that a call goes out as; a built-in of another dialect goes out as a function."""
    return call.kind if call.kind in CLIENT_CALLS else _ITEM_TYPES.get(call.kind, "function_call")


def item_of(group: list[Block]) -> dict[str, Any]:
    """Write one item exactly as it was read; blocks of other dialects have no item and give an empty one."""
    first = group[0]
    if _is_part(first):
        return _written_message(group)
    if isinstance(first, Opaque):
        return dict(jsonio.members(first.raw))
    fields = _head(first)
    if not fields:
        return {}
    meta = first.meta
    if isinstance(meta, OpenAiMeta) and meta.id:
        fields["id"] = meta.id
    if isinstance(meta, OpenAiMeta) and meta.encrypted_content is not None:
        fields["encrypted_content"] = meta.encrypted_content
    return {**fields, **extra_fields(first.extra)}


def _head(block: Block) -> dict[str, Any]:
    if isinstance(block, ToolUse):
        return _written_call(block)
    if isinstance(block, ServerToolUse):
        return _written_hosted(block)
    if isinstance(block, ServerToolResult):
        fields: dict[str, Any] = {"type": block.kind, "call_id": block.tool_use_id}
        fields[OUTPUTS.get(block.kind, "output")] = _raw(block.content)
        return {name: value for name, value in fields.items() if value not in ("", None)}
    if isinstance(block, Image):
        result = block.data or block.url
        return {"type": _IMAGE, "result": result} if result else {"type": _IMAGE}
    if isinstance(block, Marker):
        return {"type": block.kind}
    if isinstance(block, Reasoning):
        shown = [{"type": "summary_text", "text": block.text}] if block.text and not block.extra else None
        return {"type": "reasoning", "summary": shown} if shown else {"type": "reasoning"}
    return {}


def _raw(text: str) -> Raw | str | None:
    """Splice JSON in as it stands; what is no JSON can only have been put there by hand, and goes out as a string."""
    if not text or jsonio.problem(text):
        return text or None
    return Raw(text.encode("utf-8", "surrogatepass"))


def _written_call(block: ToolUse) -> dict[str, Any]:
    type = kind_of(block)
    fields: dict[str, Any] = {"type": type}
    if type != "mcp_approval_request" and not block.id_generated:
        fields["call_id"] = block.id
    if type in _NAMED and block.name:
        fields["name"] = block.name
    return fields | _written_input(type, block.args, block.extra, absent=block.args_missing)


def _written_hosted(block: ServerToolUse) -> dict[str, Any]:
    fields: dict[str, Any] = {"type": block.kind}
    own = block.meta.id if isinstance(block.meta, OpenAiMeta) else ""
    if block.id and block.id != own:
        fields["call_id"] = block.id
    if block.name != _default_name(block.kind):
        fields["name"] = block.name
    return fields | _written_input(block.kind, block.args, block.extra, absent=not block.args)


def _written_input(kind: str, args: str, extra: str, *, absent: bool) -> dict[str, Any]:
    field, form = INPUTS.get(kind, ("arguments", "text"))
    held = extra_fields(extra)
    elsewhere = args and any(name in held and _spelt(held[name]) == args for name in _FALLBACKS)
    if absent or elsewhere or field in held:
        return {}
    return {field: args if form == "text" else _raw(args)}


def _written_message(group: list[Block]) -> dict[str, Any]:
    first = group[0]
    id = first.meta.id if isinstance(first.meta, OpenAiMeta) else ""
    fields: dict[str, Any] = {"type": "message", "id": id} if id else {"type": "message"}
    mark = extra_fields(first.extra).get("item")
    fields.update(jsonio.members(mark) if mark is not None else {"role": "assistant"})
    if "content" not in fields:
        fields["content"] = [_written_part(block) for block in group]
    return fields


def _written_part(block: Block) -> Any:
    if isinstance(block, Opaque):
        return _raw(block.raw)
    extra: dict[str, Any] = dict(extra_fields(block.extra))
    extra.pop("item", None)
    if isinstance(block, Refusal):
        return {"type": "refusal", "refusal": block.text, **extra}
    if isinstance(block, Marker):
        return {"type": block.kind, **({} if block.text is None else {"text": block.text}), **extra}
    assert isinstance(block, Text)
    cited = [_raw(citation.raw) for citation in block.citations if citation.raw]
    return {"type": "output_text", "text": block.text, **({"annotations": cited} if cited else {}), **extra}


def emptied(block: Block) -> Block:
    """Return a block as it stands before its first piece."""
    if isinstance(block, Text):
        return Text("")
    if isinstance(block, Refusal):
        return Refusal("")
    if isinstance(block, Reasoning):
        return Reasoning()
    if isinstance(block, ToolUse | ServerToolUse):
        return msgspec.structs.replace(block, args="", meta=None, extra="")
    return block
