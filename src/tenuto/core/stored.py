"""The stored form of the values: plain JSON, in which whatever a later version wrote survives an earlier one.

Blocks are tagged `block_type`, tokens `provider`, messages `role`, citations `type`; what is at its default is left out.
Loading goes two ways. A document of exactly our own fields is one typed decode. Anything else is read member by member:

* a block of an unknown type, or that does not fit its type, becomes `Opaque` with no dialect; a token `OpaqueMeta`; a
  citation an `OtherCitation`;
* an unknown field, or an optional one that does not fit, is kept as text in the `unread` of the value it stood on;
* an act of an unknown kind, or that does not fit its kind, is `UnknownPayload`.

All of them are written back where they stood. A block may also come with its fields inside `data`, a call with its
arguments as JSON instead of text, and a token under another spelling of its tag; each is written in the one form.

What can be held can be stored and read back identical; the one exception (an `unread` that was made by hand and says
something else) is a `JsonError`, as is every document that cannot be read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import Raw

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
from tenuto.core.journal import VERSION, EntryDraft, EntryPayload, UnknownPayload, payload_kind
from tenuto.core.jsonio import JsonError
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, Content, Message, Origin, ToolResult, Usage
from tenuto.core.response import ChatResponse, Choice
from tenuto.core.transcript import Transcript

__all__ = [
    "dump_block",
    "dump_message",
    "dump_meta",
    "dump_payload",
    "dump_response",
    "dump_transcript",
    "load_block",
    "load_message",
    "load_meta",
    "load_payload",
    "load_response",
    "load_transcript",
    "make_draft",
]

T = TypeVar("T")
V = TypeVar("V", bound=Value)
Stored: TypeAlias = bytes | str | Raw

_block_decoder: msgspec.json.Decoder[Block] = msgspec.json.Decoder(Block)
_meta_decoder: msgspec.json.Decoder[ProviderMeta] = msgspec.json.Decoder(ProviderMeta)
_message_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
_transcript_decoder = msgspec.json.Decoder(Transcript)
_response_decoder = msgspec.json.Decoder(ChatResponse)
_act_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
    EntryPayload
)  # what it cannot read is read as `UnknownPayload`


def dump_block(block: Block) -> bytes:
    """Write one block."""
    return _dump(block, load_block)


def load_block(stored: Stored) -> Block:
    """Read one block; one that this version does not know comes back as `Opaque`."""
    return _load(stored, _block_decoder, _block)


def dump_meta(meta: ProviderMeta) -> bytes:
    """Write one token."""
    return _dump(meta, load_meta)


def load_meta(stored: Stored) -> ProviderMeta:
    """Read one token; one that this version does not know comes back as `OpaqueMeta`."""
    return _load(stored, _meta_decoder, _meta)


def dump_message(message: Message) -> bytes:
    """Write one message."""
    return _dump(message, load_message)


def load_message(stored: Stored) -> Message:
    """Read one message."""
    return _load(stored, _message_decoder, _message)


def dump_transcript(transcript: Transcript) -> bytes:
    """Write a transcript: an object that holds its `messages`."""
    return _dump(transcript, load_transcript)


def load_transcript(stored: Stored) -> Transcript:
    """Read a transcript."""
    return _load(stored, _transcript_decoder, _reader(Transcript))


def dump_response(response: ChatResponse) -> bytes:
    """Write a reply, with the provider's own words and what was lost."""
    return _dump(response, load_response)


def load_response(stored: Stored) -> ChatResponse:
    """Read a reply."""
    return _load(stored, _response_decoder, _reader(ChatResponse))


def dump_payload(act: EntryPayload | UnknownPayload) -> bytes:
    """Write what happened."""
    if not isinstance(act, UnknownPayload):
        return _dump(act, _load_known_act)
    data = act.raw.encode("utf-8", "surrogatepass")
    if load_payload(data) != act:
        raise JsonError(
            f"an act of the kind {act.kind!r} cannot be stored: what it holds says something else when read"
        )
    return data


def load_payload(stored: Stored) -> EntryPayload | UnknownPayload:
    """Read what happened; an act of an unknown kind, or that does not fit its kind, comes back as `UnknownPayload`."""
    act: EntryPayload | UnknownPayload = _load(stored, _act_decoder, _act)
    return act


def make_draft(payload: EntryPayload | UnknownPayload, *, id: str, time_ms: int, version: int = VERSION) -> EntryDraft:
    """Make an entry that is not in a journal yet; `time_ms` is milliseconds since 1970."""
    return EntryDraft(id, time_ms, payload_kind(payload), dump_payload(payload), payload, version)


def _load_known_act(stored: bytes) -> EntryPayload:
    act = load_payload(stored)
    if isinstance(act, UnknownPayload):
        raise JsonError(f"an act of the kind {act.kind!r} cannot be stored: it reads as one that nobody knows")
    return act


# --- writing ----------------------------------------------------------------------------------------------------------


def _dump(value: T, load: Callable[[bytes], T]) -> bytes:
    data = jsonio.encode(value)
    find = data.find  # `in` would first ask whether what it looks for is a number
    if find(_SPLICED[0]) < 0 and find(_SPLICED[1]) < 0 and find(_SPLICED[2]) < 0:
        return data
    data = jsonio.encode(_written(value))
    if load(data) != value:
        raise JsonError(f"{type(value).__name__} cannot be stored: what is unread in it says something else when read")
    return data


# Quotes inside strings are escaped, so these bytes stand only where a value says what is to be spliced in.
_SPLICED = (b'"unknown_fields":', b'"block_type":"opaque","dialect":""', b'"provider":"opaque"')


def _written(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_written(item) for item in value]
    if isinstance(value, Opaque | OpaqueMeta) and _as_it_came(value):
        return Raw(value.raw.encode("utf-8", "surrogatepass"))
    if not isinstance(value, Value):
        return value
    config = value.__struct_config__
    fields = {config.tag_field: config.tag} if config.tag_field else {}
    for field in msgspec.structs.fields(value):
        held = getattr(value, field.name)
        if field.name != "unknown_fields" and held != field.default:
            fields[field.encode_name] = _written(held)
    return {**fields, **(jsonio.members(value.unknown_fields) if value.unknown_fields else {})}


def _as_it_came(value: Opaque | OpaqueMeta) -> bool:
    """Tell whether this stands for a stored text that reads back as the same value."""
    read: Callable[[Raw], object] = _block if isinstance(value, Opaque) else _meta
    try:
        return read(jsonio.check(value.raw)) == value and not jsonio.lone_surrogates(value.raw)
    except JsonError:
        return False


# --- reading ----------------------------------------------------------------------------------------------------------


def _load(stored: Stored, decoder: msgspec.json.Decoder[T], read: Callable[[Raw], T]) -> T:
    data = stored.encode("utf-8", "surrogatepass") if isinstance(stored, str) else bytes(stored)
    try:
        return decoder.decode(data)  # `unread` is a field of ours, not of the stored form: where it stands, this fails
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return read(jsonio.check(data))  # member by member, then


class _Field(NamedTuple):
    name: str
    required: bool
    read: Callable[[Raw], Any]


@functools.cache
def _fields_of(kind: type[Value]) -> dict[str, _Field]:
    found: dict[str, _Field] = {}
    for field in msgspec.structs.fields(kind):
        read = _OWN.get((kind, field.name)) or _NESTED.get(field.type)
        read = read or functools.partial(jsonio.decode_as, kind=field.type)
        if field.name != "unknown_fields":
            found[field.encode_name] = _Field(field.name, field.required, read)
    return found


def _value(kind: type[V], members: Mapping[str, Raw]) -> V:
    """Make a `kind` of what fits; the rest is unread. Raise `JsonError` if a field that it needs is not there."""
    known = _fields_of(kind)
    config = kind.__struct_config__
    values: dict[str, Any] = {}
    unread: dict[str, Raw] = {}
    for name, raw in members.items():
        field = known.get(name)
        if field is not None:
            try:
                values[field.name] = field.read(raw)
            except JsonError as exc:
                if field.required:
                    raise JsonError(f"{kind.__name__}.{field.name}: {exc}") from None
                unread[name] = raw
        elif name != config.tag_field:
            unread[name] = raw
        elif jsonio.text_of(raw) != config.tag:
            raise JsonError(f"{name} is not {config.tag!r}")
    for field in known.values():
        if field.required and field.name not in values:
            raise JsonError(f"{kind.__name__} has no {field.name}")
    return kind(**values, unknown_fields=jsonio.object_text(unread))


def _reader(kind: type[V]) -> Callable[[Raw], V]:
    return lambda raw: _value(kind, jsonio.members(raw))


def _block(raw: Raw) -> Block:
    members = jsonio.members(raw)
    try:
        kind = _BLOCKS.get(jsonio.text_of(members.get("block_type")))
        return Opaque("", jsonio.as_text(raw)) if kind is None else _value(kind, _flat(members))
    except JsonError:
        return Opaque("", jsonio.as_text(raw))


def _flat(members: dict[str, Raw]) -> dict[str, Raw]:
    """Take the fields out of `data`, where an object stands there and nothing gets in its way."""
    inside = members.get("data")
    if inside is None or bytes(inside)[:1] != b"{":
        return members
    outside = {name: raw for name, raw in members.items() if name != "data"}
    fields = jsonio.members(inside)
    return members if outside.keys() & fields.keys() else {**outside, **fields}


def _meta(raw: Raw) -> ProviderMeta:
    try:
        members = jsonio.members(raw)
        tag = jsonio.text_of(members.pop("provider", None))
        return _value(_METAS[_SPELLINGS.get(tag, tag)], members)
    except (JsonError, KeyError):
        return OpaqueMeta(jsonio.as_text(raw))


def _citation(raw: Raw) -> Citation:
    members = jsonio.members(raw)
    try:
        return _value(_CITATIONS[jsonio.text_of(members.get("type"))], members)
    except (JsonError, KeyError):
        return OtherCitation(unknown_fields=jsonio.object_text(members))


def _message(raw: Raw) -> Message:
    members = jsonio.members(raw)
    role = jsonio.text_of(members.get("role"))
    if role not in _MESSAGES:
        raise JsonError(f"no message has the role {role!r}")
    return _value(_MESSAGES[role], members)


def _act(raw: Raw) -> EntryPayload | UnknownPayload:
    members = jsonio.members(raw)
    kind = jsonio.text_of(members.get("entry"))
    try:
        return _value(_ACTS[kind], members)
    except (JsonError, KeyError):
        return UnknownPayload(kind, jsonio.as_text(raw))


def _content(raw: Raw) -> Block:
    block = _block(raw)
    return block if isinstance(block, Content) else Opaque("", jsonio.as_text(raw))


def _each(read: Callable[[Raw], T]) -> Callable[[Raw], tuple[T, ...]]:
    return lambda raw: tuple(read(item) for item in jsonio.elements(raw))


def _words_or(read: Callable[[Raw], T]) -> Callable[[Raw], str | tuple[T, ...]]:
    return lambda raw: jsonio.text_of(raw) if bytes(raw)[:1] == b'"' else _each(read)(raw)


def _optional(read: Callable[[Raw], T]) -> Callable[[Raw], T | None]:
    return lambda raw: None if bytes(raw) == b"null" else read(raw)


def _json_text(raw: Raw) -> str:
    """Read text that is JSON itself: as a string, or as the JSON it says."""
    return jsonio.text_of(raw) if bytes(raw)[:1] == b'"' else jsonio.as_text(raw)


def _by_tag(union: Any) -> dict[Any, Any]:
    return {kind.__struct_config__.tag: kind for kind in get_args(union)}


_BLOCKS: dict[str, type[Block]] = _by_tag(Block)
_METAS: dict[str, type[ProviderMeta]] = _by_tag(ProviderMeta)
_CITATIONS: dict[str, type[Citation]] = _by_tag(Citation)
_MESSAGES: dict[str, type[Message]] = _by_tag(Message)
_ACTS: dict[str, type[EntryPayload]] = _by_tag(EntryPayload)
_SPELLINGS = dict(pair.split("=") for pair in ("openai=open_ai", "google=gemini"))

_NESTED: dict[Any, Callable[[Raw], Any]] = {
    ProviderMeta | None: _optional(_meta),
    tuple[Citation, ...]: _each(_citation),
    tuple[Block, ...]: _each(_block),
    str | tuple[Text, ...]: _words_or(_reader(Text)),
    str | tuple[Content, ...]: _words_or(_content),
    tuple[ToolResult, ...]: _each(_reader(ToolResult)),
    Origin | None: _optional(_reader(Origin)),
    Message: _message,
    Loss: _reader(Loss),
    ToolResult: _reader(ToolResult),
    tuple[Message, ...]: _each(_message),
    AssistantMessage: _reader(AssistantMessage),
    tuple[Choice, ...]: _each(_reader(Choice)),
    Usage | None: _optional(_reader(Usage)),
    tuple[Loss, ...]: _each(_reader(Loss)),
}
_OWN: dict[tuple[type[Value], str], Callable[[Raw], Any]] = {
    (ToolUse, "args"): _json_text,
    (ServerToolUse, "args"): _json_text,
    (ServerToolResult, "content"): _json_text,
}
