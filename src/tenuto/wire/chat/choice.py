"""One choice on its way: reasoning, text, calls, refusal, speech and pictures, as blocks in the order of their arrival.

Inside one frame, and in a body that did not stream, the order is reasoning, text, calls, speech, refusal. A block ends
when one of another kind begins; calls stay open until the choice ends, and so does reasoning with details, for more
fragments of either may come.

Whatever no block holds stays in `fields` (beside the blocks, on the message) or `beside` (beside the message). Fields
that a block could have held but did not, because they were null or empty, stay there too: what came can be told again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, TypeAlias

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
from tenuto.wire.chat import content_parts
from tenuto.wire.chat.citations import from_annotations, from_sources
from tenuto.wire.chat.protocol import STOP_REASONS
from tenuto.wire.chat.reasoning_details import DetailsMerger
from tenuto.wire.chat.think_tags import ThinkTags
from tenuto.wire.chat.tool_calls import ToolCallsBuilder
from tenuto.wire.decoder import ChoiceBuilder
from tenuto.wire.merge import MergedFields, merge_fields

__all__ = ["ChoiceDecoder"]

Fields: TypeAlias = dict[str, Raw]
_REASONING = ("reasoning_content", "reasoning")
_THOUGHTS = frozenset((*_REASONING, "reasoning_details"))
_NULL = b"null"
_EMPTY = (_NULL, b'""', b"[]")
_CALLS = ("tool_calls", "function_call")
_CONTENT = ("content", *_REASONING, "reasoning_details", *_CALLS, "refusal", "audio", "images")
"""The fields of a delta that become blocks."""
_LIST = Raw(b"[]")
_OBJECT = Raw(b"{}")


class ChoiceDecoder:
    """What has come of one choice. `sources` are the fields beside the choices, where some hosts put citations."""

    def __init__(self, parts: ChoiceBuilder, sources: Mapping[str, Raw], mint: Callable[[int], str]) -> None:
        self.parts = parts
        self.index = parts.choice
        self.thought: BlockSlot | None = None
        self.field = ""
        self.said: BlockSlot | None = None
        self.calls = ToolCallsBuilder(parts, mint, self._end_text)
        self.fields = MergedFields()
        self.beside = MergedFields()
        self.raw_stop: str | None = None
        self.finished = False
        self.nulls: tuple[object, ...] = ()
        self.tags: ThinkTags | None = None
        self.audio_format = ""
        self._sources = sources
        self._details: DetailsMerger | None = None
        self._chunk = content_parts.ContentPartBuilder()
        self._copies: dict[str, list[str]] = {}
        self._refusal: BlockSlot | None = None
        self._audio: BlockSlot | None = None
        self._heard = MergedFields()
        self._transcript: list[str] = []
        self._annotations: list[Raw] = []
        self._cited = 0
        self._sourced = False
        self._logprobs: dict[str, list[Raw]] = {}
        self._held: set[str] = set()
        self._late: tuple[str, ...] = ()
        self._spoken = False
        self._whole = False

    # --- what comes ---------------------------------------------------------------------------------------------------

    def take(self, delta: Fields, *, whole: bool) -> None:
        """Take the fields of a delta, or of a whole message."""
        self._whole = whole
        if self.finished:
            self._drop_late(delta)
        self._take_role(delta.pop("role", None))
        if not _THOUGHTS.isdisjoint(delta):
            self._take_reasoning(delta)
        if (content := delta.pop("content", None)) is not None:
            self._take_content(content)
        for name, act in self._takers:
            if name in delta and not act(self, raw := delta.pop(name)):
                self.note(name, raw)
        merge_fields(self.fields, delta.items())

    def _drop_late(self, delta: Fields) -> None:
        """Drop content that follows the finish reason, since its events would follow the end of the choice."""
        for name in _CONTENT:
            text = bytes(delta.get(name, b"null"))
            if text in _EMPTY or (text == b"{}" and name != "content"):
                continue
            del delta[name]
            if name not in self._late:
                self._late += (name,)
                rule = "late-piece" if name in _CALLS and self.calls.count else "after-the-end"
                place, what = f"choices[{self.index}].message.{name}", text.decode("utf-8", "replace")[:200]
                self.parts.losses.append(Loss(rule, place, what, "it came after the finish reason"))

    def _take_role(self, raw: Raw | None) -> None:
        """`assistant` goes without saying; a role that is missing from a whole message is remembered as null."""
        if raw is not None and bytes(raw) == b'"assistant"':
            self.fields.pop("role", None)
        elif raw is not None and bytes(raw) != _NULL:
            self.fields["role"] = raw
        elif self._whole:
            self.fields["role"] = Raw(_NULL)

    def _take_reasoning(self, delta: Fields) -> None:
        texts: dict[str, str] = {}
        for name in _REASONING:
            raw = delta.pop(name, None)
            if raw is not None and bytes(raw)[:1] == b'"' and len(bytes(raw)) > 2:
                texts[name] = jsonio.text_of(raw)
            elif raw is not None:
                merge_fields(self.fields, ((name, raw),))
        details = delta.pop("reasoning_details", None)
        if details is not None and bytes(details)[:1] == b"[" and (found := jsonio.elements(details)):
            self.details(found, texts)
        elif details is not None:
            merge_fields(self.fields, (("reasoning_details", details),))
        if texts:
            self.think_one_of(texts)

    def think_one_of(self, texts: dict[str, str]) -> None:
        """Take reasoning that came in one or both fields. Both hold the same: one is shown, the other kept."""
        field = self.field if self.thought is not None and self.field in texts else next(iter(texts))
        if self.thought is not None and self.field == "reasoning_details":
            field = ""
        for name, text in texts.items():
            if name != field:
                self._copies.setdefault(name, []).append(text)
        if field:
            self.on_reasoning(field, texts[field])

    def _take_content(self, raw: Raw) -> None:
        sign = bytes(raw)[:1]
        if sign == b'"':
            if text := jsonio.text_of(raw):
                self.on_text(text)
            else:
                self.note_content_form(raw)
        elif sign == b"[":
            self.listed(jsonio.elements(raw))
        elif sign == b"{":  # a structured answer: its JSON text, which goes back as an object
            self._flush_think_tags()
            self.note_content_form(_OBJECT)
            self._speak(jsonio.as_text(raw))
        else:
            self.note_content_form(raw)
            if sign != b"n":
                place = f"choices[{self.index}].message.content"
                self.parts.losses.append(Loss("unknown-content", place, jsonio.as_text(raw)[:200]))

    def listed(self, elements: Iterable[Raw]) -> None:
        """Take content that is a list."""
        self.note_content_form(_LIST)
        for element in elements:
            self._take_chunk(element)

    def note(self, name: str, raw: Raw) -> None:
        """Remember a field that is null or empty, as long as it is nothing more."""
        merge_fields(self.fields, ((name, raw),))

    def note_content_form(self, raw: Raw) -> None:
        """Remember the form of the content. Precedence: a list or an object, then an empty text, then null."""
        old = bytes(self.fields.get("content", b""))
        if old in (b"", _NULL) or bytes(raw)[:1] not in (b"n", b'"'):
            self.fields["content"] = raw

    def _take_calls(self, raw: Raw) -> bool:
        found = jsonio.elements(raw) if bytes(raw)[:1] == b"[" else []
        for element in found:
            self.calls.take(jsonio.members(element), whole=self._whole)
        self._held.update(("tool_calls",) if found else ())
        return bool(found)

    def _take_function_call(self, raw: Raw) -> bool:
        if bytes(raw)[:1] != b"{" or not self.calls.function_call(jsonio.members(raw)):
            return False
        self._held.add("function_call")
        return True

    def _take_refusal(self, raw: Raw) -> bool:
        text = jsonio.text_of(raw) if bytes(raw)[:1] == b'"' else ""
        if text:
            if self._refusal is None:
                self._end_text()
                self._refusal = self.parts.start(Refusal(""))
                self._held.add("refusal")
            self.parts.append(self._refusal, text, TextDelta(text))
        return bool(text)

    def _take_annotations(self, raw: Raw) -> bool:
        if bytes(raw)[:1] == b"[" and (found := jsonio.elements(raw)):
            self._annotations += found
            return True
        return False

    def _take_images(self, raw: Raw) -> bool:
        found = jsonio.elements(raw) if bytes(raw)[:1] == b"[" else []
        for element in found:
            self._end_text()
            block = content_parts.image_of(element)
            data = block.data if isinstance(block, Image) else ""
            self.parts.add(block, ImageDelta(data) if data else None)
        self._held.update(("images",) if found else ())
        return bool(found)

    def _take_audio(self, raw: Raw) -> bool:
        fields = jsonio.members(raw) if bytes(raw)[:1] == b"{" else {}
        if self._audio is None:
            if not any(bytes(value) not in (_NULL, b'""', b"0") for value in fields.values()):
                return False
            self._end_text()
            mime = f"audio/{self.audio_format}" if self.audio_format else ""
            self._audio = self.parts.start(Audio(mime=mime, id=jsonio.text_of(fields.get("id"))))
            self._held.add("audio")
        data, words = fields.pop("data", None), fields.pop("transcript", None)
        if data is not None and (piece := jsonio.text_of(data)):
            self.parts.append(self._audio, piece, AudioDelta(piece))
        elif data is not None:
            fields["data"] = data
        if words is not None and (piece := jsonio.text_of(words)):
            self._transcript.append(piece)
            self.parts.emit(self._audio, TranscriptDelta(piece))
        elif words is not None:
            fields["transcript"] = words
        merge_fields(self._heard, fields.items())
        return True

    def probabilities(self, raw: Raw) -> None:
        """Take log probabilities: their lists go on from frame to frame."""
        if bytes(raw)[:1] == b"{":
            fields = jsonio.members(raw)
            for name in [name for name, value in fields.items() if bytes(value)[:1] == b"["]:
                self._logprobs.setdefault(name, []).extend(jsonio.elements(fields.pop(name)))
            raw = Raw(jsonio.encode(fields))
        merge_fields(self.beside, (("logprobs", raw),))

    # --- reasoning and text -------------------------------------------------------------------------------------------

    def on_reasoning(self, field: str, text: str) -> None:
        """Take reasoning that came in `field`."""
        slot = self._thought_in(field)
        self._held.add(field)
        self.parts.append(slot, text, ThinkingDelta(text))

    def _thought_in(self, field: str) -> BlockSlot:
        """Return the open reasoning of `field`; begin it where there is none."""
        self._flush_think_tags()  # a model that thinks in a field of its own does not think in tags
        if self.thought is not None and self.field == "":
            self.field = field
        if self.thought is None or self.field != field:
            self._end_text()
            self._end_thought()
            return self._begin_thought(field)
        return self.thought

    def details(self, found: Iterable[Raw], texts: Mapping[str, str]) -> None:
        """Take fragments of `reasoning_details`; they are read only where no field holds the same as text."""
        slot = self.thought
        if slot is None:
            self._flush_think_tags()
            self._end_text()
            slot = self._begin_thought("")
        if self._details is None:
            self._details = DetailsMerger()
        self._held.add("reasoning_details")
        text = self._details.add(found, whole=self._whole)
        if text and not texts and self.field in ("", "reasoning_details"):
            self.field = "reasoning_details"
            self.parts.append(slot, text, ThinkingDelta(text))

    def _begin_thought(self, field: str) -> BlockSlot:
        self.field = field
        self.thought = slot = self.parts.start(Reasoning(meta=ChatMeta(field=field)))
        return slot

    def on_text(self, text: str) -> None:
        """Take text; while tags may still come, it goes through their reader first."""
        if self.tags is None:
            self._speak(text)
            return
        thought, said = self.tags.feed(text)
        self._tagged(self.tags, thought, said)

    def _tagged(self, tags: ThinkTags, thought: str, said: str) -> None:
        slot = self.thought
        if tags.opened and slot is None:
            slot = self._begin_thought("think")
            self._spoken = True
        if thought and slot is not None:
            self.parts.append(slot, thought, ThinkingDelta(thought))
        if tags.decided:
            self.tags = None
            if tags.opened:
                self._end_thought(tags.extra())
        if said:
            self._speak(said)

    def _speak(self, text: str) -> None:
        if self.said is None:
            if self._details is None:
                self._end_thought()
            self.said = self.parts.start(Text(""))
            self._spoken = True
        self.parts.append(self.said, text, TextDelta(text))

    def _take_chunk(self, raw: Raw) -> None:
        """Take one element of a content list. A whole list keeps its elements apart; in a stream neighbours grow."""
        chunk = content_parts.read(raw)
        if chunk.kind == "text":
            if chunk.text or self._whole:
                self._speak(chunk.text)
            merge_fields(self._chunk.said, chunk.fields.items())
        elif chunk.kind == "thinking":
            if self._chunk.signature:
                self._end_thought()
            slot = self._thought_in("content")
            if chunk.text:
                self.parts.append(slot, chunk.text, ThinkingDelta(chunk.text))
            self._chunk.think(chunk)
            if chunk.signature:
                self.parts.emit(slot, SignatureDelta(chunk.signature))
        else:
            self._end_text()
            self._end_thought()
            self.parts.add(Opaque("openai-chat", jsonio.as_text(raw)))
        if self._whole:
            self._end_text()
            self._end_thought()

    # --- ends ---------------------------------------------------------------------------------------------------------

    def _end_text(self) -> None:
        """End the text, and reasoning of which no more is to be expected."""
        if self.tags is not None and self.tags.pending:
            self._flush_think_tags()
        if self._details is None:
            self._end_thought()
        if self.said is None:
            return
        slot, self.said = self.said, None
        citations = self._citations()
        if not citations and not self._chunk.said:
            self.parts.finish(slot)
            return
        for citation in citations:
            self.parts.emit(slot, CitationDelta(citation))
        extra, self._chunk.said = self._chunk.said.text(), MergedFields()
        self.parts.finish(slot, msgspec.structs.replace(slot.joined(), citations=citations, extra=extra))

    def _citations(self) -> tuple[UrlCitation, ...]:
        """Take the citations that have come since the text before; sources beside the choices count once."""
        fresh = self._annotations[self._cited :]
        sources = [] if self._sourced else from_sources(self._sources)
        if not fresh and not sources:
            return ()
        self._cited = len(self._annotations)
        self._sourced = self._sourced or bool(sources)
        return (*from_annotations(fresh), *sources)

    def _flush_think_tags(self) -> None:
        """Look for tags no longer; what was held back for them is settled."""
        tags, self.tags = self.tags, None
        if tags is not None and tags.pending:
            self._tagged(tags, *tags.flush())

    def _end_thought(self, extra: str = "") -> None:
        if self.thought is None:
            return
        slot, self.thought = self.thought, None
        details, self._details = self._details, None
        chunk, self._chunk = self._chunk, content_parts.ContentPartBuilder(said=self._chunk.said)
        meta = ChatMeta(
            field=self.field or "reasoning",  # nothing readable came: the field that would have held it
            signature=chunk.signature,
            details=details.raw() if details is not None else "",
        )
        extra = extra or chunk.thought()
        self.field = ""
        self.parts.finish(slot, msgspec.structs.replace(slot.joined(), meta=meta, extra=extra))

    def report_late_citations(self) -> None:
        """The stream has ended: say so where citations came after the text they are about was done."""
        if found := self._citations():
            place, what = f"choices[{self.index}].message", f"{len(found)} citations after the text was done"
            self.parts.losses.append(Loss("late-citations", place, what, "they are in the fields beside the blocks"))

    def close(self) -> None:
        """End everything that is open."""
        self._end_text()
        self._end_thought()
        self.calls.close()
        if self._audio is not None:
            slot, self._audio = self._audio, None
            self.parts.finish(slot, self._speech(slot.joined()))
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            self.parts.finish(refusal)

    def _speech(self, block: Block) -> Block:
        """Speech with its id, words and expiry; what is null, empty or unknown stays in its extra fields."""
        fields, self._heard = self._heard.written(), MergedFields()
        typed: dict[str, object] = {}
        if bytes(fields.get("id", _NULL)) not in (_NULL, b'""'):
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

    def finish(self, raw: Raw) -> None:
        """The choice has ended, for the reason given. A later word counts more than an earlier one."""
        word = jsonio.text_of(raw) if bytes(raw)[:1] == b'"' else jsonio.as_text(raw)
        if not word:  # some hosts send an empty word with every frame
            self.raw_stop = self.raw_stop or word
            return
        self.close()
        told, self.raw_stop = self.raw_stop, word
        self.finished = True
        if told and word != told:
            place = f"choices[{self.index}].finish_reason"
            self.parts.losses.append(Loss("changed-field", place, f"{told} became {word} within one reply"))
        if word != told:
            self.parts.out.append(MessageDelta(self.index, self.stop_reason, word))

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the choice ended, in our words; a refusal counts as filtered, whatever the provider's word is."""
        if "refusal" in self._held:
            return "content_filter"
        return STOP_REASONS.get(self.raw_stop, "stop") if self.raw_stop else None

    def extra(self) -> str:
        """Return the fields of the message that no block holds, as the text of an object."""
        fields = {name: value for name, value in self.fields.written().items() if name not in self._held}
        if self._spoken and bytes(fields.get("content", b"")) in (_NULL, b'""'):
            del fields["content"]
        if self._annotations:
            fields["annotations"] = Raw(jsonio.encode(self._annotations))
        for name, pieces in self._copies.items():
            fields[name] = Raw(jsonio.encode(jsonio.join_surrogates("".join(pieces))))
        return jsonio.object_text(fields)

    def choice_extra(self) -> str:
        """Return the fields beside the message, as the text of an object."""
        fields = self.beside.written()
        if self._logprobs:
            lists = {name: Raw(jsonio.encode(found)) for name, found in self._logprobs.items()}
            rest = jsonio.members(fields["logprobs"]) if bytes(fields["logprobs"])[:1] == b"{" else {}
            fields["logprobs"] = Raw(jsonio.encode({**rest, **lists}))
        return jsonio.object_text(fields)

    _takers: ClassVar[tuple[tuple[str, Callable[[ChoiceDecoder, Raw], bool]], ...]] = (
        ("annotations", _take_annotations),  # before whatever ends the text that they are about
        ("images", _take_images),
        ("tool_calls", _take_calls),
        ("function_call", _take_function_call),
        ("audio", _take_audio),
        ("refusal", _take_refusal),
    )
