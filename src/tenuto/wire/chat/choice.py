"""Decode one choice of a reply into blocks, in the order of their arrival.

Inside one frame, and in a body that was not streamed, the order is reasoning, text, calls, audio, refusal. A block ends
when a block of another kind begins. Calls, and reasoning with details, stay open until the choice ends, because more
fragments of them may come.

Fields that belong to no block stay in `fields` (of the message) or `choice_fields` (next to the message). Fields that
were null or empty stay there too, so that the message can be written exactly as it was received.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Audio, Block, ChatMeta, Image, Opaque, Reasoning, Refusal, Text, UrlCitation
from tenuto.core.events import (
    AudioDelta,
    CitationDelta,
    ImageDelta,
    MessageDelta,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    TranscriptDelta,
)
from tenuto.core.loss import Loss
from tenuto.core.messages import StopReason
from tenuto.wire.assembler import BlockSlot
from tenuto.wire.chat.content_parts import (
    ContentPartBuilder,
    read_annotations,
    read_image,
    read_part,
    read_sources,
)
from tenuto.wire.chat.protocol import STOP_REASONS
from tenuto.wire.chat.reasoning_details import DetailsMerger
from tenuto.wire.chat.think_tags import ThinkTags
from tenuto.wire.chat.tool_calls import ToolCallsBuilder
from tenuto.wire.choice_builder import ChoiceBuilder
from tenuto.wire.merge import MergedFields, merge_fields
from tenuto.wire.rawjson import (
    NULL,
    Fields,
    is_list,
    is_null,
    is_object,
    is_text,
    list_or_empty,
    object_or_empty,
    text_or_empty,
)

_REASONING = ("reasoning_content", "reasoning")
_REASONING_FIELDS = frozenset((*_REASONING, "reasoning_details"))
_CALLS = ("tool_calls", "function_call")
_CONTENT = ("content", *_REASONING, "reasoning_details", *_CALLS, "refusal", "audio", "images")
"""The fields of a delta that become blocks."""
_LIST = Raw(b"[]")
_OBJECT = Raw(b"{}")


class ChoiceDecoder:
    """Collect the blocks and the fields of one choice."""

    def __init__(self, parts: ChoiceBuilder, sources: Mapping[str, Raw], make_id: Callable[[int], str]) -> None:
        """`sources`: the fields next to the choices, where some hosts put citations."""
        self.parts = parts
        self.index = parts.choice
        self.text_slot: BlockSlot | None = None
        """The open text."""
        self.reasoning_slot: BlockSlot | None = None
        """The open reasoning."""
        self.reasoning_field = ""
        """The field from which the open reasoning is read; empty if that is not known yet."""
        self.calls = ToolCallsBuilder(parts, make_id, self._end_text)
        self.fields = MergedFields()
        """Fields of the message."""
        self.choice_fields = MergedFields()
        """Fields next to the message."""
        self.nulls: tuple[object, ...] = ()
        """`logprobs` and `native_finish_reason` of the last frame: null or unset."""
        self.raw_stop: str | None = None
        self.is_finished = False
        self.think_tags: ThinkTags | None = None
        """Set while think tags are still possible."""
        self.audio_format = ""
        self._sources = sources
        self._details: DetailsMerger | None = None
        self._part = ContentPartBuilder()
        self._reasoning_copies: dict[str, list[str]] = {}
        self._refusal: BlockSlot | None = None
        self._audio: BlockSlot | None = None
        self._audio_fields = MergedFields()
        self._transcript: list[str] = []
        self._annotations: list[Raw] = []
        self._annotations_used = 0
        self._sources_used = False
        self._logprobs: dict[str, list[Raw]] = {}
        self._block_fields: set[str] = set()  # fields of the message that blocks hold
        self._late_fields: set[str] = set()
        self._has_text = False
        self._whole = False

    def take(self, delta: Fields, *, whole: bool) -> None:
        """Read the fields of a delta, or of a `whole` message."""
        self._whole = whole
        if self.is_finished:
            self._drop_late_content(delta)
        role = delta.pop("role", None)
        if role is not None and bytes(role) == b'"assistant"':
            self.fields.pop("role", None)
        elif not is_null(role) or whole:  # null: a whole message without a role
            self.fields["role"] = role or NULL
        if not _REASONING_FIELDS.isdisjoint(delta):
            self._take_reasoning(delta)
        if (content := delta.pop("content", None)) is not None:
            self._take_content(content)
        for name, take_field in self._readers:
            if name in delta:
                raw = delta.pop(name)
                if take_field(self, raw):
                    self._block_fields.add(name)
                else:
                    self.note_empty(name, raw)
        merge_fields(self.fields, delta.items())

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
        self.parts.losses.append(Loss(kind, f"choices[{self.index}].{place}", detail, remedy))

    def note_empty(self, name: str, raw: Raw) -> None:
        """Store a field that is null or empty; a later value replaces it."""
        merge_fields(self.fields, ((name, raw),))

    def note_content_form(self, raw: Raw) -> None:
        """Store the form of the content. Precedence: a list or an object, then an empty text, then null."""
        if is_null(self.fields.get("content")) or bytes(raw)[:1] not in (b"n", b'"'):
            self.fields["content"] = raw

    # --- reasoning ----------------------------------------------------------------------------------------------------

    def _take_reasoning(self, delta: Fields) -> None:
        texts: dict[str, str] = {}
        for name in _REASONING:
            raw = delta.pop(name, None)
            if text := text_or_empty(raw):
                texts[name] = text
            elif raw is not None:
                self.note_empty(name, raw)
        details = delta.pop("reasoning_details", None)
        if fragments := list_or_empty(details):
            self.on_details(fragments, texts)
        elif details is not None:
            self.note_empty("reasoning_details", details)
        if texts:
            self.on_reasoning_texts(texts)

    def on_reasoning_texts(self, texts: dict[str, str]) -> None:
        """Read reasoning by its field. If two fields have the same text, show one and store the other."""
        is_open = self.reasoning_slot is not None
        field = self.reasoning_field if is_open and self.reasoning_field in texts else next(iter(texts))
        if is_open and self.reasoning_field == "reasoning_details":
            field = ""
        for name, text in texts.items():
            if name != field:
                self._reasoning_copies.setdefault(name, []).append(text)
        if field:
            slot = self._open_reasoning(field)
            self._block_fields.add(field)
            self.parts.append(slot, texts[field], ThinkingDelta(texts[field]))

    def on_details(self, fragments: Iterable[Raw], texts: Mapping[str, str]) -> None:
        """Merge `reasoning_details`. Their text is shown only if no field in `texts` has the same text."""
        slot = self.reasoning_slot
        if slot is None:
            self._flush_think_tags()
            self._end_text()
            slot = self._start_reasoning("")
        if self._details is None:
            self._details = DetailsMerger()
        self._block_fields.add("reasoning_details")
        text = self._details.add(fragments, whole=self._whole)
        if text and not texts and self.reasoning_field in ("", "reasoning_details"):
            self.reasoning_field = "reasoning_details"
            self.parts.append(slot, text, ThinkingDelta(text))

    def _open_reasoning(self, field: str) -> BlockSlot:
        """Return the open reasoning of `field`; start it if it is not open."""
        self._flush_think_tags()  # a model that reasons in a field does not use tags
        if self.reasoning_slot is not None and self.reasoning_field == "":
            self.reasoning_field = field
        if self.reasoning_slot is None or self.reasoning_field != field:
            self._end_text()
            self._end_reasoning()
            return self._start_reasoning(field)
        return self.reasoning_slot

    def _start_reasoning(self, field: str) -> BlockSlot:
        self.reasoning_field = field
        self.reasoning_slot = slot = self.parts.start(Reasoning(meta=ChatMeta(field=field)))
        return slot

    def _end_reasoning(self, extra: str = "") -> None:
        if self.reasoning_slot is None:
            return
        slot, self.reasoning_slot = self.reasoning_slot, None
        details, self._details = self._details, None
        part, self._part = self._part, ContentPartBuilder(self._part.text_fields)
        meta = ChatMeta(
            field=self.reasoning_field or "reasoning",  # no readable text came
            signature=part.signature,
            details=details.raw() if details is not None else "",
        )
        extra = extra or part.thinking_extra()
        self.reasoning_field = ""
        self.parts.finish(slot, msgspec.structs.replace(slot.joined(), meta=meta, extra=extra))

    # --- content ------------------------------------------------------------------------------------------------------

    def _take_content(self, raw: Raw) -> None:
        if is_text(raw):
            if text := jsonio.text_of(raw):
                self.on_text(text)
            else:
                self.note_content_form(raw)
        elif is_list(raw):
            self.on_content_list(jsonio.elements(raw))
        elif is_object(raw):  # structured output: its JSON text, which is sent back as an object
            self._flush_think_tags()
            self.note_content_form(_OBJECT)
            self._append_text(jsonio.as_text(raw))
        else:
            self.note_content_form(raw)
            if not is_null(raw):
                self._record_loss("unknown-content", "message.content", jsonio.as_text(raw)[:200])

    def on_text(self, text: str) -> None:
        if self.think_tags is None:
            self._append_text(text)
        else:
            self._on_tagged_text(self.think_tags, *self.think_tags.feed(text))

    def _on_tagged_text(self, tags: ThinkTags, reasoning: str, text: str) -> None:
        slot = self.reasoning_slot
        if tags.has_open_tag and slot is None:
            slot = self._start_reasoning("think")
            self._has_text = True
        if reasoning and slot is not None:
            self.parts.append(slot, reasoning, ThinkingDelta(reasoning))
        if tags.is_done:
            self.think_tags = None
            if tags.has_open_tag:
                self._end_reasoning(tags.extra())
        if text:
            self._append_text(text)

    def _flush_think_tags(self) -> None:
        """Stop looking for tags, and emit the text that was held back for them."""
        tags, self.think_tags = self.think_tags, None
        if tags is not None and tags.is_pending:
            self._on_tagged_text(tags, *tags.flush())

    def _append_text(self, text: str) -> None:
        if self.text_slot is None:
            if self._details is None:
                self._end_reasoning()
            self.text_slot = self.parts.start(Text(""))
            self._has_text = True
        self.parts.append(self.text_slot, text, TextDelta(text))

    def on_content_list(self, elements: Iterable[Raw]) -> None:
        """Read content that is a list. Each element of a whole list is a block; in a stream, neighbors are joined."""
        self.note_content_form(_LIST)
        for element in elements:
            part = read_part(element)
            if part.kind == "text":
                if part.text or self._whole:
                    self._append_text(part.text)
                merge_fields(self._part.text_fields, part.fields.items())
            elif part.kind == "thinking":
                if self._part.signature:
                    self._end_reasoning()
                slot = self._open_reasoning("content")
                if part.text:
                    self.parts.append(slot, part.text, ThinkingDelta(part.text))
                self._part.add_thinking(part)
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
        if self.think_tags is not None and self.think_tags.is_pending:
            self._flush_think_tags()
        if self._details is None:
            self._end_reasoning()
        if self.text_slot is None:
            return
        slot, self.text_slot = self.text_slot, None
        citations = self._take_citations()
        if not citations and not self._part.text_fields:
            self.parts.finish(slot)
            return
        for citation in citations:
            self.parts.emit(slot, CitationDelta(citation))
        extra, self._part.text_fields = self._part.text_fields.text(), MergedFields()
        self.parts.finish(slot, msgspec.structs.replace(slot.joined(), citations=citations, extra=extra))

    def _take_citations(self) -> tuple[UrlCitation, ...]:
        """Return the citations since the last text. Sources next to the choices are returned once."""
        annotations = self._annotations[self._annotations_used :]
        sources = [] if self._sources_used else read_sources(self._sources)
        if not annotations and not sources:
            return ()
        self._annotations_used = len(self._annotations)
        self._sources_used = self._sources_used or bool(sources)
        return (*read_annotations(annotations), *sources)

    # --- other fields. Each method returns whether a block holds the field ---------------------------------------------

    def _take_annotations(self, raw: Raw) -> bool:
        annotations = list_or_empty(raw)
        self._annotations += annotations
        return bool(annotations)

    def _take_images(self, raw: Raw) -> bool:
        elements = list_or_empty(raw)
        for element in elements:
            self._end_text()
            block = read_image(element)
            data = block.data if isinstance(block, Image) else ""
            self.parts.add(block, ImageDelta(data) if data else None)
        return bool(elements)

    def _take_calls(self, raw: Raw) -> bool:
        elements = list_or_empty(raw)
        for element in elements:
            self.calls.take(jsonio.members(element), whole=self._whole)
        return bool(elements)

    def _take_function_call(self, raw: Raw) -> bool:
        return is_object(raw) and self.calls.take_function_call(jsonio.members(raw))

    def _take_audio(self, raw: Raw) -> bool:
        fields = object_or_empty(raw)
        if self._audio is None:
            if not any(bytes(value) not in (b"null", b'""', b"0") for value in fields.values()):
                return False
            self._end_text()
            mime = f"audio/{self.audio_format}" if self.audio_format else ""
            self._audio = self.parts.start(Audio(mime=mime, id=jsonio.text_of(fields.get("id"))))
            self._block_fields.add("audio")
        data, transcript = fields.pop("data", None), fields.pop("transcript", None)
        if data is not None and (piece := jsonio.text_of(data)):
            self.parts.append(self._audio, piece, AudioDelta(piece))
        elif data is not None:
            fields["data"] = data
        if transcript is not None and (piece := jsonio.text_of(transcript)):
            self._transcript.append(piece)
            self.parts.emit(self._audio, TranscriptDelta(piece))
        elif transcript is not None:
            fields["transcript"] = transcript
        merge_fields(self._audio_fields, fields.items())
        return True

    def _take_refusal(self, raw: Raw) -> bool:
        text = text_or_empty(raw)
        if text:
            if self._refusal is None:
                self._end_text()
                self._refusal = self.parts.start(Refusal(""))
            self.parts.append(self._refusal, text, TextDelta(text))
        return bool(text)

    _readers: ClassVar[tuple[tuple[str, Callable[[ChoiceDecoder, Raw], bool]], ...]] = (
        ("annotations", _take_annotations),  # before the fields that end the text of these citations
        ("images", _take_images),
        ("tool_calls", _take_calls),
        ("function_call", _take_function_call),
        ("audio", _take_audio),
        ("refusal", _take_refusal),
    )

    def on_logprobs(self, raw: Raw) -> None:
        """Read log probabilities. The lists of all frames are joined."""
        if is_object(raw):
            fields = jsonio.members(raw)
            for name in [name for name, value in fields.items() if is_list(value)]:
                self._logprobs.setdefault(name, []).extend(jsonio.elements(fields.pop(name)))
            raw = Raw(jsonio.encode(fields))
        merge_fields(self.choice_fields, (("logprobs", raw),))

    # --- the end ------------------------------------------------------------------------------------------------------

    def finish(self, raw: Raw) -> None:
        """Read the finish reason. A later one replaces an earlier one."""
        word = jsonio.text_of(raw) if is_text(raw) else jsonio.as_text(raw)
        if not word:  # some hosts send an empty finish reason with every frame
            self.raw_stop = self.raw_stop or word
            return
        self.close()
        before, self.raw_stop = self.raw_stop, word
        self.is_finished = True
        if before and word != before:
            self._record_loss("changed-field", "finish_reason", f"{before} became {word} within one reply")
        if word != before:
            self.parts.out.append(MessageDelta(self.index, self.stop_reason, word))

    def close(self) -> None:
        """End every open block."""
        self._end_text()
        self._end_reasoning()
        self.calls.close()
        if self._audio is not None:
            slot, self._audio = self._audio, None
            self.parts.finish(slot, self._finish_audio(slot.joined()))
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            self.parts.finish(refusal)

    def _finish_audio(self, block: Block) -> Block:
        """Set id, transcript and expiry. Values that are null, empty or unknown stay in the extra fields."""
        fields, self._audio_fields = self._audio_fields.written(), MergedFields()
        typed: dict[str, object] = {}
        if bytes(fields.get("id", NULL)) not in (b"null", b'""'):
            typed["id"] = jsonio.text_of(fields.pop("id"))
        if bytes(fields.get("expires_at", b"")).isdigit():
            typed["expires_at"] = int(bytes(fields.pop("expires_at")))
        if self._transcript:
            typed["transcript"] = jsonio.join_surrogates("".join(self._transcript))
            fields.pop("transcript", None)
            self._transcript = []
        if isinstance(block, Audio) and block.data:
            fields.pop("data", None)
        return msgspec.structs.replace(block, **typed, extra=jsonio.object_text(fields))

    def report_late_citations(self) -> None:
        """Record citations that came after the end of their text."""
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
        fields = self.fields.written()
        for name in self._block_fields - {"annotations"}:
            fields.pop(name, None)
        if self._has_text and bytes(fields.get("content", b"")) in (b"null", b'""'):
            del fields["content"]
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
