"""Decode one choice of a reply into blocks, in the order of their arrival; inside one frame: reasoning, text, calls,
audio, refusal.

A block ends when a block of another kind begins; calls, and reasoning with details, when the choice ends. Fields that
belong to no block, and fields that are null or empty, stay in `_fields` (of the message) or `choice_fields` (next to
it).
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tenuto.core import jsonio
from tenuto.core.blocks import Audio, Block, ChatMeta, Image, Opaque, Reasoning, Refusal, Text, ToolUse, UrlCitation
from tenuto.core.events import CitationDelta, ImageDelta, MessageDelta, SignatureDelta, TranscriptDelta
from tenuto.core.jsonio import NULL, Fields, is_list, is_null, is_object, object_or_empty, text_or_json
from tenuto.core.messages import StopReason
from tenuto.wire.assembler import BlockSlot, ChoiceBuilder, MergedFields, merge_fields
from tenuto.wire.chat.content_parts import (
    SOURCE_FIELDS,
    ContentPartBuilder,
    DetailsMerger,
    ThinkTags,
    read_annotations,
    read_image,
    read_part,
    read_sources,
)
from tenuto.wire.chat.protocol import STOP_REASONS, CallPiece

# --- tool calls -------------------------------------------------------------------------------------------------------

_OBJECT = Raw(b"{}")
_EMPTY = (b"null", b'""')
_PAYLOADS = ("function", "custom")  # the inner objects of a call. If a host sends both, the `type` of the call decides.


def parse_index(raw: Raw | None) -> int | bytes | None:
    """Return an index, also one in a string, as a number; its JSON text if it is something else, None for null."""
    text = bytes(raw).strip(b'"') if raw is not None else b"null"
    if text == b"null":
        return None
    return int(text) if text.isdigit() and len(text) < 10 else text


class ToolCallBuilder(msgspec.Struct, eq=False):
    """The fields of one call so far; its arguments are in the slot."""

    ordinal: int
    payload: str  # the name of the inner object: `function`, `custom` or `function_call`
    slot: BlockSlot | None = None  # None until the start event is emitted
    is_waiting: bool = False  # set if the call had to wait for its id or its name
    id: str = ""
    name: str = ""
    args_form: bytes = b""  # the first byte of the arguments' JSON; empty if there were none
    fields: MergedFields = msgspec.field(default_factory=MergedFields)  # other fields of the call
    payload_fields: MergedFields = msgspec.field(default_factory=MergedFields)  # other fields of the inner object

    @property
    def kind(self) -> str:
        kind = self.fields.get("type", NULL)
        return self.payload if bytes(kind) in _EMPTY else jsonio.text_of(kind)

    def append_args(self, piece: str, parts: ChoiceBuilder) -> None:
        if piece and self.slot is not None:
            parts.append(self.slot, piece)
        self.args_form = b'"'

    def build(self, args: str, make_id: Callable[[int], str]) -> ToolUse:
        """Make the finished call. Facts that its typed fields cannot hold are in `extra`."""
        payload_fields, extra = self.payload_fields.written(), self.fields.written()
        if self.args_form not in (b"", b'"'):
            payload_fields["input" if self.payload == "custom" else "arguments"] = (
                NULL if self.args_form == b"n" else _OBJECT
            )
        if bytes(extra.setdefault("type", NULL)) not in _EMPTY:
            del extra["type"]
        if payload_fields:
            extra[self.payload] = Raw(jsonio.encode(payload_fields))
        if self.payload == "function_call":
            extra = {"function_call": _OBJECT, **extra}
        return ToolUse(
            self.id or make_id(self.ordinal),
            self.name,
            args,
            self.kind,
            id_generated=not self.id,
            args_missing=self.args_form in (b"", b"n"),
            extra=jsonio.object_text(extra),
        )


class ToolCallsBuilder:
    """Collect the calls of one choice, in the order in which they began. A call stays open until its choice ends.

    The `index` of a piece names its call. Hosts differ: some repeat the id and the name with every piece, omit the
    index, give every call the index 0, send whole calls, or send arguments as an object or as null. A call starts when
    its id and name are known, or with its first arguments; an id or a name that comes later is only in the finished
    block.
    """

    def __init__(self, parts: ChoiceBuilder, make_id: Callable[[int], str], end_text: Callable[[], None]) -> None:
        """`make_id` makes an id from the ordinal of a call; `end_text` ends the open text before a call starts."""
        self._parts = parts
        self._make_id = make_id
        self._end_text = end_text
        self.count = 0
        self._open: list[ToolCallBuilder] = []
        self._waiting: deque[ToolCallBuilder] | None = None  # an empty deque takes 760 bytes, and few replies need one
        self._function_call: ToolCallBuilder | None = None
        self.by_index: dict[int | bytes, ToolCallBuilder] = {}
        self._by_index_and_id: dict[tuple[int | bytes | None, str], ToolCallBuilder] = {}

    def are_started(self, pieces: Iterable[CallPiece]) -> bool:
        """Return whether each piece continues a call whose start event was emitted."""
        for piece in pieces:
            call = self.by_index.get(piece.index)
            if call is None or call.slot is None:
                return False
        return True

    def take(self, fields: Fields, *, whole: bool) -> None:
        """Read one element of a list of calls: a `whole` call, or a piece of one."""
        index = None if whole else parse_index(fields.pop("index", None))
        raw_id = fields.pop("id", None)
        id = jsonio.text_of(raw_id)
        payloads = {name: jsonio.members(fields[name]) for name in _PAYLOADS if is_object(fields.get(name))}
        is_custom = len(payloads) == 1 or bytes(fields.get("type", b"")) == b'"custom"'
        payload = "custom" if "custom" in payloads and is_custom else "function"
        call = None
        if not whole:
            call = self._find(index, id, jsonio.text_of(payloads.get(payload, {}).get("name")))
        if call is None:
            call = self._open_call("function")
        elif call.payload in payloads and (call.is_waiting or call.slot is not None):
            payload = call.payload
        if index is not None:
            self.by_index[index] = call
        if id:
            call.id = call.id or id
            call.fields.pop("id", None)
            self._by_index_and_id[index, id] = call
        elif raw_id is not None and not call.id:
            merge_fields(call.fields, (("id", raw_id),))
        if payload in payloads:
            del fields[payload]
            call.payload = payload
        merge_fields(call.fields, fields.items())
        if payload in payloads:
            self._take_payload(call, payloads[payload], whole=whole)

    def _find(self, index: int | bytes | None, id: str, name: str) -> ToolCallBuilder | None:
        """Find the call that a piece belongs to; None if the piece begins a call."""
        if index is None and not id:
            last = self._open[-1] if self._open else None
            return None if last is not None and name and last.name else last
        if index is None:
            same = self._by_index_and_id.get((None, id))
            return None if same is not None and name and same.args_form else same
        call = self.by_index.get(index)
        if call is None or not id or call.id in ("", id):
            return call
        return self._by_index_and_id.get((index, id))

    def _open_call(self, payload: str) -> ToolCallBuilder:
        call = ToolCallBuilder(self.count, payload)
        self.count += 1
        self._open.append(call)
        return call

    def take_function_call(self, fields: Fields) -> bool:
        """Read the older `function_call`, whole or a piece. Return False if its fields are empty."""
        call = self._function_call
        if call is None:
            if all(bytes(fields.get(name, b'""')) in _EMPTY for name in ("name", "arguments")):
                return False
            call = self._function_call = self._open_call("function_call")
            call.fields["type"] = Raw(b'"function"')
        self._take_payload(call, fields, whole=False)
        return True

    def _take_payload(self, call: ToolCallBuilder, payload: Fields, *, whole: bool) -> None:
        """Read the inner object of a call, or a piece of it. Start the call as soon as enough is known."""
        args_field = "input" if call.payload == "custom" else "arguments"
        raw_name, args = payload.pop("name", None), payload.pop(args_field, None)
        merge_fields(call.payload_fields, payload.items())
        name = jsonio.text_of(raw_name)
        if call.name and name not in ("", call.name):
            self._parts.record_loss("renamed-call", f"choices[{self._parts.choice}]", f"{call.name} became {name}")
        elif name:
            call.name = name
            call.payload_fields.pop("name", None)
        elif raw_name is not None and not call.name:
            merge_fields(call.payload_fields, (("name", raw_name),))
        if call.slot is None:
            has_args = args is not None and bytes(args) not in _EMPTY
            is_known = call.name and (call.id or call.payload == "function_call")
            if whole or has_args or is_known:
                self._start(call)
            elif not call.is_waiting:
                call.is_waiting = True
                self._waiting = self._waiting or deque()
                self._waiting.append(call)
        if args is None:
            return
        form = bytes(args)[:1]
        if form == b"n":
            call.args_form = call.args_form or form
        else:
            call.append_args(text_or_json(args), self._parts)
            call.args_form = form

    def _start(self, call: ToolCallBuilder) -> None:
        """Emit the start of a call, after the starts of the waiting calls before it."""
        self._end_text()
        while call.slot is None:
            first = self._waiting.popleft() if self._waiting else call
            id = first.id or self._make_id(first.ordinal)
            first.slot = self._parts.start(ToolUse(id, first.name, "", first.kind, id_generated=not first.id))

    def close(self) -> None:
        if self._waiting:
            self._start(self._waiting[-1])
        calls, self._open, self._function_call = self._open, [], None
        self.by_index.clear()
        self._by_index_and_id.clear()
        for call in calls:
            if call.slot is not None:
                args = "".join(call.slot.pieces)
                if not args.isascii():
                    args = jsonio.join_surrogates(args)
                self._parts.finish(call.slot, call.build(args, self._make_id))
                continue
            # a call without a readable inner object is stored as it came
            fields = {**({"id": Raw(jsonio.encode(call.id))} if call.id else {}), **call.fields.written()}
            self._end_text()
            self._parts.add(Opaque("openai-chat", jsonio.as_text(jsonio.encode(fields)), extra='{"in":"tool_calls"}'))


# --- the choice -------------------------------------------------------------------------------------------------------

_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
_CALLS = ("tool_calls", "function_call")
_OTHER_FIELDS = ("annotations", "images", *_CALLS, "audio", "refusal")  # annotations: before the end of their text
_CONTENT = ("content", *_REASONING, *_CALLS, "refusal", "audio", "images")  # the fields of a delta that become blocks
_LIST = Raw(b"[]")
_TEXT = Raw(b'""')
Value: TypeAlias = str | list[Raw] | Raw | UnsetType | None
"""A field of a delta: a text, the elements of a list, or the JSON of any other value."""


def _parse(raw: Raw | UnsetType) -> Value:
    if raw is UNSET:
        return UNSET
    form = bytes(raw)[:1]
    if form == b'"':
        return jsonio.text_of(raw)
    return jsonio.elements(raw) if form == b"[" else raw


def _write_empty(value: Value) -> Raw:
    """Write null, an empty text or an empty list; any other value is JSON already."""
    if isinstance(value, Raw):
        return value
    return NULL if value is None else _LIST if isinstance(value, list) else _TEXT


class ChoiceDecoder:
    def __init__(
        self,
        parts: ChoiceBuilder,
        sources: Mapping[str, Raw],
        make_id: Callable[[int], str],
        *,
        think_tags: bool = False,
        audio_format: str = "",
    ) -> None:
        self.parts = parts
        self.text_slot: BlockSlot | None = None
        self.reasoning_slot: BlockSlot | None = None
        self.calls = ToolCallsBuilder(parts, make_id, self._end_text)
        self.choice_fields = MergedFields()  # fields next to the message
        self.nulls: tuple[object, ...] = ()  # `logprobs` and `native_finish_reason` of the last frame: null or unset
        self.raw_stop: str | None = None
        self.is_finished = False
        self._fields = MergedFields()  # fields of the message
        self._sources = sources  # the fields next to the choices, where some hosts put citations
        self._audio_format = audio_format
        self._think_tags = ThinkTags() if think_tags else None  # while tags are still possible
        self._reasoning_field = ""  # the field of the open reasoning; empty if that is not known yet
        self._reasoning_copies: dict[str, list[str]] = {}
        self._details: DetailsMerger | None = None
        self._thinking = ContentPartBuilder()
        self._text_fields = MergedFields()
        self._refusal: BlockSlot | None = None
        self._audio: BlockSlot | None = None
        self._audio_fields = MergedFields()
        self._transcript: list[str] = []
        self._annotations: list[Raw] = []
        self._annotations_used = 0
        self._logprobs: dict[str, list[Raw]] = {}
        self._block_fields: set[str] = set()  # fields of the message that blocks hold
        self._late_fields: set[str] = set()
        self._whole = False

    def take(self, delta: Fields, *, whole: bool) -> None:
        """Read the fields of a delta, or of a `whole` message."""
        self._whole = whole
        if self.is_finished:
            self._drop_late_content(delta)
        role = delta.pop("role", None)
        if role is not None and bytes(role) == b'"assistant"':
            self._fields.pop("role", None)
        elif not is_null(role) or whole:  # null: a whole message without a role
            self._fields["role"] = role or NULL
        if not delta.keys().isdisjoint(_REASONING):
            self.read_reasoning(*[_parse(delta.pop(name, UNSET)) for name in _REASONING])
        if "content" in delta:
            self.read_content(_parse(delta.pop("content")))
        for name in _OTHER_FIELDS:
            if name in delta:
                raw = delta.pop(name)
                if self._read_field(name, raw):
                    self._block_fields.add(name)
                else:
                    self._note_empty(name, raw)
        merge_fields(self._fields, delta.items())

    def _drop_late_content(self, delta: Fields) -> None:
        """Drop content after the finish reason, since its events would follow the end of the choice."""
        for name in _CONTENT:
            text = bytes(delta.get(name, b"null"))
            if text in (b"null", b'""', b"[]") or (text == b"{}" and name != "content"):
                continue
            del delta[name]
            if name not in self._late_fields:
                self._late_fields.add(name)
                kind = "late-piece" if name in _CALLS and self.calls.count else "after-the-end"
                detail = text.decode("utf-8", "replace")[:200]
                self._record_loss(kind, f"message.{name}", detail, "it came after the finish reason")

    def _record_loss(self, kind: str, place: str, detail: str, remedy: str = "") -> None:
        self.parts.record_loss(kind, f"choices[{self.parts.choice}].{place}", detail, remedy)

    def read_reasoning(self, reasoning_content: Value, reasoning: Value, details: Value) -> None:
        """Read the reasoning of a delta. If two fields have the same text, show one and store the other."""
        slot, text = self.reasoning_slot, reasoning_content
        if (
            slot is not None
            and self._reasoning_field == "reasoning_content"
            and type(text) is str
            and text
            and not reasoning
            and details is UNSET
        ):  # most frames of a stream
            self.parts.append(slot, text)
            return
        texts: dict[str, str] = {}
        for name, value in (("reasoning_content", reasoning_content), ("reasoning", reasoning)):
            if value and isinstance(value, str):
                texts[name] = value
            elif value is not UNSET:
                self._note_empty(name, value)
        if details and isinstance(details, list):
            self._read_details(details, is_shown=not texts)
        elif details is not UNSET:
            self._note_empty("reasoning_details", details)
        field = self._reasoning_field if self.reasoning_slot is not None else ""
        if field not in texts and field != "reasoning_details":
            field = next(iter(texts), "")
        for name, text in texts.items():
            if name == field:
                self._block_fields.add(field)
                self.parts.append(self._open_reasoning(field), text)
            else:
                self._reasoning_copies.setdefault(name, []).append(text)

    def _note_empty(self, name: str, value: Value) -> None:
        """Store a field that is null or empty; a later value replaces it."""
        merge_fields(self._fields, ((name, _write_empty(value)),))

    def _read_details(self, fragments: list[Raw], *, is_shown: bool) -> None:
        """Merge `reasoning_details`. Their text is not shown if another field has it."""
        slot = self.reasoning_slot or self._open_reasoning("")
        self._details = self._details or DetailsMerger()
        self._block_fields.add("reasoning_details")
        text = self._details.add(fragments, whole=self._whole)
        if text and is_shown and self._reasoning_field in ("", "reasoning_details"):
            self._reasoning_field = "reasoning_details"
            self.parts.append(slot, text)

    def _open_reasoning(self, field: str) -> BlockSlot:
        """Return the open reasoning of `field`; start it if it is not open."""
        self._flush_think_tags()  # a model that reasons in a field does not use tags
        if self.reasoning_slot is not None and self._reasoning_field in ("", field):
            self._reasoning_field = field
            return self.reasoning_slot
        self._end_text()
        self._end_reasoning()
        return self._start_reasoning(field)

    def _start_reasoning(self, field: str) -> BlockSlot:
        self._reasoning_field = field
        self.reasoning_slot = slot = self.parts.start(Reasoning(meta=ChatMeta(field=field)))
        return slot

    def _end_reasoning(self, extra: str = "") -> None:
        if self.reasoning_slot is None:
            return
        slot, self.reasoning_slot = self.reasoning_slot, None
        details, self._details = self._details, None
        thinking, self._thinking = self._thinking, ContentPartBuilder()
        meta = ChatMeta(
            field=self._reasoning_field or "reasoning",  # no readable text came
            signature=thinking.signature,
            details=details.raw() if details is not None else "",
        )
        self._reasoning_field = ""
        extra = extra or thinking.extra()
        self.parts.finish(slot, msgspec.structs.replace(slot.joined(), meta=meta, extra=extra))

    def read_content(self, content: Value) -> None:
        """Read content: a text, a list of elements, or an object, which is structured output."""
        if content and isinstance(content, str):
            if self._think_tags is None:
                self._append_text(content)
            else:
                self._on_tagged_text(self._think_tags, *self._think_tags.feed(content))
        elif isinstance(content, list):
            self._read_content_list(content)
        elif isinstance(content, Raw) and is_object(content):
            self._flush_think_tags()
            self._note_content_form(_OBJECT)
            self._append_text(jsonio.as_text(content))
        else:
            self._note_content_form(_write_empty(content))
            if isinstance(content, Raw) and not is_null(content):
                self._record_loss("unknown-content", "message.content", jsonio.as_text(content)[:200])

    def _note_content_form(self, raw: Raw) -> None:
        """Store the form of the content. Precedence: a list or an object, then an empty text, then null."""
        if is_null(self._fields.get("content")) or bytes(raw)[:1] not in (b"n", b'"'):
            self._fields["content"] = raw

    def _on_tagged_text(self, tags: ThinkTags, reasoning: str, text: str) -> None:
        slot = self.reasoning_slot
        if tags.has_open_tag and slot is None:
            slot = self._start_reasoning("think")
            self._block_fields.add("content")
        if reasoning and slot is not None:
            self.parts.append(slot, reasoning)
        if tags.is_done:
            self._think_tags = None
            if tags.has_open_tag:
                self._end_reasoning(tags.extra())
        if text:
            self._append_text(text)

    def _flush_think_tags(self) -> None:
        """Stop looking for tags, and emit the text that was held back for them."""
        tags, self._think_tags = self._think_tags, None
        if tags is not None and tags.is_pending:
            self._on_tagged_text(tags, *tags.flush())

    def _append_text(self, text: str) -> None:
        if self.text_slot is None:
            if self._details is None:
                self._end_reasoning()
            self.text_slot = self.parts.start(Text(""))
            self._block_fields.add("content")
        self.parts.append(self.text_slot, text)

    def _read_content_list(self, elements: list[Raw]) -> None:
        """Read content that is a list. Each element of a whole list is a block; in a stream, neighbors are joined."""
        self._note_content_form(_LIST)
        for element in elements:
            part = read_part(element)
            if part.kind == "text":
                if part.text or self._whole:
                    self._append_text(part.text)
                merge_fields(self._text_fields, part.fields.items())
            elif part.kind == "thinking":
                if self._thinking.signature:
                    self._end_reasoning()
                slot = self._open_reasoning("content")
                if part.text:
                    self.parts.append(slot, part.text)
                self._thinking.add(part)
                if part.signature:
                    self.parts.emit(slot, SignatureDelta(part.signature))
            else:
                self._end_text()
                self._end_reasoning()
                self.parts.add(Opaque("openai-chat", jsonio.as_text(element)))
            if self._whole:
                self._end_text()
                self._end_reasoning()

    def _end_text(self) -> None:
        """End the open text, and the open reasoning unless it has details."""
        if self._think_tags is not None and self._think_tags.is_pending:
            self._flush_think_tags()
        if self._details is None:
            self._end_reasoning()
        if self.text_slot is None:
            return
        slot, self.text_slot = self.text_slot, None
        citations = self._take_citations()
        if not citations and not self._text_fields:
            self.parts.finish(slot)
            return
        for citation in citations:
            self.parts.emit(slot, CitationDelta(citation))
        extra, self._text_fields = self._text_fields.text(), MergedFields()
        self.parts.finish(slot, msgspec.structs.replace(slot.joined(), citations=citations, extra=extra))

    def _take_citations(self) -> tuple[UrlCitation, ...]:
        """Return the citations since the last text. Sources next to the choices are returned once."""
        annotations = self._annotations[self._annotations_used :]
        if not annotations and SOURCE_FIELDS.isdisjoint(self._sources):  # most texts
            return ()
        sources = read_sources(self._sources)
        if sources:
            self._sources = {}
        self._annotations_used = len(self._annotations)
        return (*read_annotations(annotations), *sources)

    def _read_field(self, name: str, raw: Raw) -> bool:
        """Read one of `_OTHER_FIELDS`; return whether a block holds it."""
        value = _parse(raw)
        if not value or is_null(raw):
            return False
        elements = value if isinstance(value, list) else []
        if name == "annotations":
            self._annotations += elements
        elif name == "images":
            for element in elements:
                self._end_text()
                block = read_image(element)
                data = block.data if isinstance(block, Image) else ""
                self.parts.add(block, ImageDelta(data) if data else None)
        elif name == "tool_calls":
            for element in elements:
                self.calls.take(jsonio.members(element), whole=self._whole)
        elif name == "function_call":
            return is_object(raw) and self.calls.take_function_call(jsonio.members(raw))
        elif name == "audio":
            return self._read_audio(object_or_empty(raw))
        elif not isinstance(value, str):
            return False
        else:
            if self._refusal is None:
                self._end_text()
                self._refusal = self.parts.start(Refusal(""))
            self.parts.append(self._refusal, value)
            return True
        return bool(elements)

    def _read_audio(self, fields: Fields) -> bool:
        if self._audio is None:
            if all(bytes(value) in (b"null", b'""', b"0") for value in fields.values()):
                return False
            self._end_text()
            mime = f"audio/{self._audio_format}" if self._audio_format else ""
            self._audio = self.parts.start(Audio(mime=mime, id=jsonio.text_of(fields.get("id"))))
        if data := jsonio.text_of(fields.get("data")):
            del fields["data"]
            self.parts.append(self._audio, data)
        if transcript := jsonio.text_of(fields.get("transcript")):
            del fields["transcript"]
            self._transcript.append(transcript)
            self.parts.emit(self._audio, TranscriptDelta(transcript))
        merge_fields(self._audio_fields, fields.items())
        return True

    def on_logprobs(self, raw: Raw) -> None:
        """Read log probabilities. The lists of all frames are joined."""
        if is_object(raw):
            fields = jsonio.members(raw)
            for name in [name for name, value in fields.items() if is_list(value)]:
                self._logprobs.setdefault(name, []).extend(jsonio.elements(fields.pop(name)))
            raw = Raw(jsonio.encode(fields))
        merge_fields(self.choice_fields, (("logprobs", raw),))

    def finish(self, raw: Raw) -> None:
        """Read the finish reason. A later one replaces an earlier one."""
        word = text_or_json(raw)
        if not word:  # some hosts send an empty finish reason with every frame
            self.raw_stop = self.raw_stop or word
            return
        self.close()
        before, self.raw_stop = self.raw_stop, word
        self.is_finished = True
        if before and word != before:
            self._record_loss("changed-field", "finish_reason", f"{before} became {word} within one reply")
        if word != before:
            self.parts.out.append(MessageDelta(self.parts.choice, self.stop_reason, word))

    def close(self) -> None:
        self._end_text()
        self._end_reasoning()
        if self.calls.count:
            self.calls.close()
        if self._audio is not None:
            audio, self._audio = self._audio, None
            self.parts.finish(audio, self._finish_audio(audio.joined()))
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            self.parts.finish(refusal)

    def _finish_audio(self, block: Block) -> Block:
        """Set id, transcript and expiry. Values that are null, empty or unknown stay in the extra fields."""
        fields = self._audio_fields.written()
        typed: dict[str, object] = {}
        if bytes(fields.get("id", NULL)) not in (b"null", b'""'):
            typed["id"] = jsonio.text_of(fields.pop("id"))
        if bytes(fields.get("expires_at", b"")).isdigit():
            typed["expires_at"] = int(bytes(fields.pop("expires_at")))
        if self._transcript:
            typed["transcript"] = jsonio.join_surrogates("".join(self._transcript))
            fields.pop("transcript", None)
        if isinstance(block, Audio) and block.data:
            fields.pop("data", None)
        return msgspec.structs.replace(block, **typed, extra=jsonio.object_text(fields))

    def report_late_citations(self) -> None:
        if citations := self._take_citations():
            detail = f"{len(citations)} citations after the end of the text"
            self._record_loss("late-citations", "message", detail, "they are in the extra fields of the message")

    @property
    def stop_reason(self) -> StopReason | None:
        """The normalized finish reason. A refusal counts as filtered, whatever the provider's word is."""
        if "refusal" in self._block_fields:
            return "content_filter"
        return STOP_REASONS.get(self.raw_stop, "stop") if self.raw_stop else None

    def extra(self) -> str:
        """Return the fields of the message that belong to no block, as the text of an object."""
        fields = self._fields.written()
        for name in self._block_fields - {"annotations"}:
            if name != "content" or bytes(fields.get(name, NULL)) in (b"null", b'""'):  # not the form of a list
                fields.pop(name, None)
        if self._annotations:
            fields["annotations"] = Raw(jsonio.encode(self._annotations))
        for name, pieces in self._reasoning_copies.items():
            fields[name] = Raw(jsonio.encode(jsonio.join_surrogates("".join(pieces))))
        return jsonio.object_text(fields)

    def choice_extra(self) -> str:
        """Return the fields next to the message, as the text of an object."""
        fields = self.choice_fields.written()
        if self._logprobs:
            lists = {name: Raw(jsonio.encode(elements)) for name, elements in self._logprobs.items()}
            fields["logprobs"] = Raw(jsonio.encode({**object_or_empty(fields["logprobs"]), **lists}))
        return jsonio.object_text(fields)
