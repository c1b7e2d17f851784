"""The stored JSON form of values. An earlier version writes back all fields that a later version has added.

Blocks are tagged `block_type`, tokens `provider`, messages `role`, citations `type`; fields with their default value are
left out. A document with exactly our own fields is read by one typed decode. Any other is read member by member:

* a block of an unknown type, or with invalid fields, becomes `Opaque` without a dialect; a token `OpaqueMeta`; a citation
  `OtherCitation`; a journal payload `UnknownPayload`; an inbox item `UnknownItem`;
* an unknown field, or an optional field with an invalid value, goes into `unknown_fields` of its value.

All of them are written back where they were. A block may also have its fields inside `data`, a call its arguments as JSON
instead of text, and a token another spelling of its tag; they are written in one form.

Each value reads back identical after writing. A document that cannot be read, and an `unknown_fields` made by hand that
would read back differently, raise `JsonError`.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import Raw
from msgspec.structs import FieldInfo

from tenuto.core import jsonio
from tenuto.core.blocks import (
    Block,
    Citation,
    Opaque,
    OpaqueMeta,
    OtherCitation,
    ProviderMeta,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
    Value,
)
from tenuto.core.inbox import InboxItem, UnknownItem
from tenuto.core.journal import VERSION, EntryDraft, EntryPayload, UnknownPayload, payload_kind
from tenuto.core.jsonio import JsonError
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, Content, Message, Origin, ToolResult, Usage
from tenuto.core.response import ChatResponse, Choice
from tenuto.core.transcript import Transcript

T = TypeVar("T")
V = TypeVar("V", bound=Value)
Stored: TypeAlias = bytes | str | Raw

_block_decoder: msgspec.json.Decoder[Block] = msgspec.json.Decoder(Block)
_meta_decoder: msgspec.json.Decoder[ProviderMeta] = msgspec.json.Decoder(ProviderMeta)
_message_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
_transcript_decoder = msgspec.json.Decoder(Transcript)
_response_decoder = msgspec.json.Decoder(ChatResponse)
_payload_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(EntryPayload)
_item_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(InboxItem)


def dump_block(block: Block) -> bytes:
    return _dump(block, load_block)


def load_block(stored: Stored) -> Block:
    """Read a block; an unknown one becomes `Opaque`."""
    return _load(stored, _block_decoder, _block)


def dump_meta(meta: ProviderMeta) -> bytes:
    return _dump(meta, load_meta)


def load_meta(stored: Stored) -> ProviderMeta:
    """Read a token; an unknown one becomes `OpaqueMeta`."""
    return _load(stored, _meta_decoder, _meta)


def dump_message(message: Message) -> bytes:
    return _dump(message, load_message)


def load_message(stored: Stored) -> Message:
    return _load(stored, _message_decoder, _message)


def dump_transcript(transcript: Transcript) -> bytes:
    return _dump(transcript, load_transcript)


def load_transcript(stored: Stored) -> Transcript:
    """Read a transcript. Raise `JsonError` for a document without messages, or with one that cannot be read."""
    return _load(stored, _transcript_decoder, _transcript)


def dump_response(response: ChatResponse) -> bytes:
    return _dump(response, load_response)


def load_response(stored: Stored) -> ChatResponse:
    return _load(stored, _response_decoder, _reader(ChatResponse))


def dump_payload(payload: EntryPayload | UnknownPayload) -> bytes:
    return _dump(payload, load_payload)


def load_payload(stored: Stored) -> EntryPayload | UnknownPayload:
    """Read the payload of a journal entry; one of an unknown kind, or with invalid fields, becomes `UnknownPayload`."""
    payload: EntryPayload | UnknownPayload = _load(stored, _payload_decoder, _payload)
    return payload


def make_draft(payload: EntryPayload | UnknownPayload, *, id: str, time_ms: int, version: int = VERSION) -> EntryDraft:
    """Make an entry to append to a journal; `time_ms` is milliseconds since 1970."""
    return EntryDraft(id, time_ms, payload_kind(payload), dump_payload(payload), payload, version)


def dump_item(item: InboxItem | UnknownItem) -> bytes:
    return _dump(item, load_item)


def load_item(stored: Stored) -> InboxItem | UnknownItem:
    """Read an inbox item; one of an unknown kind, or with invalid fields, becomes `UnknownItem`."""
    item: InboxItem | UnknownItem = _load(stored, _item_decoder, _item)
    return item


def _dump(value: T, load: Callable[[bytes], T]) -> bytes:
    if isinstance(value, UnknownPayload | UnknownItem):
        data = value.raw.encode("utf-8", "surrogatepass")
        if load(data) != value:
            raise JsonError(f"a value of the kind {value.kind!r} cannot be stored: it reads back as something else")
        return data
    data = jsonio.encode(value)
    find = data.find  # faster than `in` for bytes, measured
    if find(_SPLICE_MARKS[0]) < 0 and find(_SPLICE_MARKS[1]) < 0 and find(_SPLICE_MARKS[2]) < 0:
        return data
    data = jsonio.encode(_to_json(value))
    if load(data) != value:
        raise JsonError(f"{type(value).__name__} cannot be stored: its unknown_fields read back as something else")
    return data


# Quotes inside strings are escaped, so these bytes occur only in values with text to splice in.
_SPLICE_MARKS = (b'"unknown_fields":', b'"block_type":"opaque","dialect":""', b'"provider":"opaque"')


def _to_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, Opaque | OpaqueMeta) and _reads_back(value):
        return Raw(value.raw.encode("utf-8", "surrogatepass"))
    if not isinstance(value, Value):
        return value
    config = value.__struct_config__
    fields = {config.tag_field: config.tag} if config.tag_field else {}
    for field in msgspec.structs.fields(value):
        content = getattr(value, field.name)
        if field.name != "unknown_fields" and content != field.default:
            fields[field.encode_name] = _to_json(content)
    return {**fields, **(jsonio.members(value.unknown_fields) if value.unknown_fields else {})}


def _reads_back(value: Opaque | OpaqueMeta) -> bool:
    """Tell whether `raw` is stored text that reads back as the same value."""
    read: Callable[[Raw], object] = _block if isinstance(value, Opaque) else _meta
    try:
        return read(jsonio.check(value.raw)) == value and not jsonio.lone_surrogates(value.raw)
    except JsonError:
        return False


def _load(stored: Stored, decoder: msgspec.json.Decoder[T], read: Callable[[Raw], T]) -> T:
    data = stored.encode("utf-8", "surrogatepass") if isinstance(stored, str) else bytes(stored)
    try:
        return decoder.decode(data)  # fails for a document with the key `unknown_fields`
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return read(jsonio.check(data))


@functools.cache
def _readers_of(kind: type[Value]) -> dict[str, tuple[FieldInfo, Callable[[Raw], Any]]]:
    """Return the fields of a value by their stored names, each with the function that reads it."""
    readers: dict[str, tuple[FieldInfo, Callable[[Raw], Any]]] = {}
    for field in msgspec.structs.fields(kind):
        read = _FIELD_READERS.get((kind, field.name)) or _TYPE_READERS.get(field.type)
        if field.name != "unknown_fields":
            readers[field.encode_name] = field, read or functools.partial(jsonio.decode_as, kind=field.type)
    return readers


def _value(kind: type[V], members: Mapping[str, Raw]) -> V:
    """Make a `kind` from valid members; others become unknown fields. Raise `JsonError` if a required one is missing."""
    readers = _readers_of(kind)
    config = kind.__struct_config__
    values: dict[str, Any] = {}
    unknown: dict[str, Raw] = {}
    for name, raw in members.items():
        if name in readers:
            field, read = readers[name]
            try:
                values[field.name] = read(raw)
            except JsonError as exc:
                if field.required:
                    raise JsonError(f"{kind.__name__}.{field.name}: {exc}") from None
                unknown[name] = raw
        elif name != config.tag_field:
            unknown[name] = raw
        elif jsonio.text_of(raw) != config.tag:
            raise JsonError(f"{name} is not {config.tag!r}")
    for field, _ in readers.values():
        if field.required and field.name not in values:
            raise JsonError(f"{kind.__name__} has no {field.name}")
    return kind(**values, unknown_fields=jsonio.object_text(unknown))


def _reader(kind: type[V]) -> Callable[[Raw], V]:
    return lambda raw: _value(kind, jsonio.members(raw))


def _tagged(kinds: Mapping[str, type[V]], tag: Raw | None, members: Mapping[str, Raw]) -> V | None:
    """Make a value of the kind that the tag names; None if the kind is unknown or a field is invalid."""
    try:
        return _value(kinds[jsonio.text_of(tag)], members)
    except (JsonError, KeyError):
        return None


def _block(raw: Raw) -> Block:
    members = jsonio.members(raw)
    block: Block | None = _tagged(_BLOCKS, members.get("block_type"), _merge_data(members))
    return block or Opaque("", jsonio.as_text(raw))


def _merge_data(members: dict[str, Raw]) -> dict[str, Raw]:
    """Move the fields of an object in `data` to the block itself, unless the block has one of them."""
    data = members.get("data")
    if data is None or bytes(data)[:1] != b"{":
        return members
    others = {name: raw for name, raw in members.items() if name != "data"}
    fields = jsonio.members(data)
    return members if others.keys() & fields.keys() else {**others, **fields}


def _meta(raw: Raw) -> ProviderMeta:
    members = jsonio.members(raw) if bytes(raw)[:1] == b"{" else {}
    meta: ProviderMeta | None = _tagged(_METAS, members.pop("provider", None), members)
    return meta or OpaqueMeta(jsonio.as_text(raw))


def _citation(raw: Raw) -> Citation:
    members = jsonio.members(raw)
    citation: Citation | None = _tagged(_CITATIONS, members.get("type"), members)
    return citation or OtherCitation(unknown_fields=jsonio.object_text(members))


def _message(raw: Raw) -> Message:
    members = jsonio.members(raw)
    role = jsonio.text_of(members.get("role"))
    if role not in _MESSAGES:
        raise JsonError(f"unknown role {role!r}")
    return _value(_MESSAGES[role], members)


def _transcript(raw: Raw) -> Transcript:
    members = jsonio.members(raw)
    if members:
        if "messages" not in members:
            raise JsonError("not a stored transcript: it has no messages")
        _each(_message)(members["messages"])  # a message that cannot be read is an error, not an unknown field
    return _value(Transcript, members)


def _payload(raw: Raw) -> EntryPayload | UnknownPayload:
    members = jsonio.members(raw)
    payload: EntryPayload | None = _tagged(_PAYLOADS, members.get("entry"), members)
    return payload or UnknownPayload(jsonio.text_of(members.get("entry")), jsonio.as_text(raw))


def _item(raw: Raw) -> InboxItem | UnknownItem:
    members = jsonio.members(raw)
    item: InboxItem | None = _tagged(_ITEMS, members.get("item"), members)
    return item or UnknownItem(jsonio.text_of(members.get("item")), jsonio.as_text(raw))


def _content(raw: Raw) -> Block:
    block = _block(raw)
    return block if isinstance(block, Content) else Opaque("", jsonio.as_text(raw))


def _each(read: Callable[[Raw], T]) -> Callable[[Raw], tuple[T, ...]]:
    return lambda raw: tuple(read(item) for item in jsonio.elements(raw))


def _text_or_each(read: Callable[[Raw], T]) -> Callable[[Raw], str | tuple[T, ...]]:
    return lambda raw: jsonio.text_of(raw) if bytes(raw)[:1] == b'"' else _each(read)(raw)


def _optional(read: Callable[[Raw], T]) -> Callable[[Raw], T | None]:
    return lambda raw: None if bytes(raw) == b"null" else read(raw)


def _json_text(raw: Raw) -> str:
    """Read a string, or return any other JSON as its text."""
    return jsonio.text_of(raw) if bytes(raw)[:1] == b'"' else jsonio.as_text(raw)


def _by_tag(union: Any) -> dict[Any, Any]:
    return {kind.__struct_config__.tag: kind for kind in get_args(union)}


_BLOCKS: dict[str, type[Block]] = _by_tag(Block)
_METAS: dict[str, type[ProviderMeta]] = _by_tag(ProviderMeta)
_METAS |= {"openai": _METAS["open_ai"], "google": _METAS["gemini"]}  # other spellings
_CITATIONS: dict[str, type[Citation]] = _by_tag(Citation)
_MESSAGES: dict[str, type[Message]] = _by_tag(Message)
_PAYLOADS: dict[str, type[EntryPayload]] = _by_tag(EntryPayload)
_ITEMS: dict[str, type[InboxItem]] = _by_tag(InboxItem)

_TYPE_READERS: dict[Any, Callable[[Raw], Any]] = {
    ProviderMeta | None: _optional(_meta),
    tuple[Citation, ...]: _each(_citation),
    tuple[Block, ...]: _each(_block),
    tuple[Message, ...]: _each(_message),
    str | tuple[Text, ...]: _text_or_each(_reader(Text)),
    str | tuple[Content, ...]: _text_or_each(_content),
    tuple[ToolResult, ...]: _each(_reader(ToolResult)),
    Origin | None: _optional(_reader(Origin)),
    Message: _message,
    Location: _reader(Location),
    Loss: _reader(Loss),
    ToolResult: _reader(ToolResult),
    AssistantMessage: _reader(AssistantMessage),
    tuple[Choice, ...]: _each(_reader(Choice)),
    Usage | None: _optional(_reader(Usage)),
    tuple[Loss, ...]: _each(_reader(Loss)),
}
_FIELD_READERS: dict[tuple[type[Value], str], Callable[[Raw], Any]] = {
    (ToolUse, "args"): _json_text,
    (ServerToolUse, "args"): _json_text,
    (ServerToolResult, "content"): _json_text,
}
