"""Gemini's generateContent, from the wire: chunks in, events out.

Every chunk is a whole response object that holds a fragment: its text is the next piece, not the text so far. A reply
is complete after a finish reason, or after the reason why the prompt was blocked.
"""

from __future__ import annotations

import functools

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import GeminiMeta, Reasoning, Text
from tenuto.core.events import ContentDelta, MessageDelta, MessageStart, TextDelta, ThinkingDelta, UsageUpdate
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, Usage
from tenuto.core.provider import Target
from tenuto.core.response import ChatResponse, Choice
from tenuto.wire.decoder import Decoder, new_id
from tenuto.wire.gemini.candidate import CandidateDecoder
from tenuto.wire.gemini.protocol import (
    CANDIDATE,
    CHUNK,
    DIALECT,
    DONE,
    HOT,
    NOTHING,
    STOP_NUMBERS,
    STOP_NUMBERS_VERTEX,
    THOUGHT_FALSE,
    Fields,
    HotPart,
    camel,
)
from tenuto.wire.gemini.usage import normalised
from tenuto.wire.merge import MergedFields, merge_fields
from tenuto.wire.provider_errors import classify_error

__all__ = ["GeminiDecoder"]

_HOT = HOT.decode
_NULL = Raw(b"null")


class GeminiDecoder(Decoder):
    """Reads one reply in the Gemini dialect."""

    dialect = DIALECT

    def __init__(self, target: Target, *, seed: str = "", audio_format: str = "") -> None:
        super().__init__(target, seed=seed, audio_format=audio_format)
        self._turns: dict[int, CandidateDecoder] = {}
        self._begun = False
        self._whole = False
        self._id = ""
        self._model = ""
        self._last_id: str | None = None
        self._last_model: str | None = None
        self._usage = b""
        self._total = False
        self._counted: tuple[bytes, Usage | None, list[Loss]] = (self._usage, None, [])
        self._fields = MergedFields()
        self._blocked = False

    # --- the door of the dialect --------------------------------------------------------------------------------------

    def frame(self, _: bytes, data: bytes) -> None:
        try:
            chunk = _HOT(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._cold(data)
            return
        if chunk.response_id != self._last_id or chunk.model_version != self._last_model:
            self._begin(chunk.response_id, chunk.model_version)
        if chunk.usage_metadata is not NOTHING:
            self._count(bytes(chunk.usage_metadata))
        if chunk.create_time is not NOTHING:
            self._fields["createTime"] = chunk.create_time
        for candidate in chunk.candidates:
            turn = self._turns.get(candidate.index) or self._turn(candidate.index)
            for part in candidate.content.parts:
                text, thought = part.text, part.thought
                slot = turn.slot
                if slot is not None and thought is turn.kind and not part.thought_signature:
                    if text:
                        slot.pieces.append(text)
                        delta = ThinkingDelta(text) if thought is True else TextDelta(text)
                        self.out.append(ContentDelta(turn.index, slot.index, delta))
                else:
                    turn.say(_said(part))
            if candidate.finish_reason:
                turn.stop(candidate.finish_reason, candidate.finish_reason)

    def body(self, data: bytes) -> None:
        self._whole = data.lstrip()[:1] != b"["  # an array holds the chunks of a stream
        try:
            self.frame(b"", jsonio.check_depth(data))
        except UnicodeDecodeError:  # half characters that came as bytes: only the long way reads them
            self._cold(data)

    @property
    def only_usage_missing(self) -> bool:
        return bool(self._turns) and all(turn.raw_stop is not None for turn in self._turns.values())

    def complete(self) -> bool:
        if not self._blocked and all(turn.raw_stop is None for turn in self._turns.values()):
            return False
        for turn in self._turns.values() if self._turns else (self._turn(0),):
            turn.end()
            if self._blocked and turn.raw_stop is None:
                turn.stop_reason = "content_filter"
                self.out.append(MessageDelta(turn.index, turn.stop_reason, None))
        usage, _ = self._counts()
        if usage is not None:
            self.out.append(UsageUpdate(usage))
        return True

    def response(self, *, partial: bool) -> ChatResponse:
        usage, losses = self._counts()
        return ChatResponse(
            self._id,
            self.target.provider.name,
            self._model,
            tuple(self._choice(turn, partial=partial) for _, turn in sorted(self._turns.items())),
            usage,
            jsonio.as_text(self._usage) if self._usage else "",
            self._fields.text(),
            (*self.losses, *losses),
        )

    # --- chunks -------------------------------------------------------------------------------------------------------

    def _cold(self, data: bytes) -> None:
        data = data.strip()
        if not data or data == DONE:
            return
        if data[:1] == b"[":
            for item in jsonio.elements(data):
                self._cold(bytes(item))
            return
        held = self.parse_object(data, ended=self._blocked or any(t.raw_stop is not None for t in self._turns.values()))
        if held is None:
            return
        fields = camel(held, CHUNK)
        if bytes(fields.get("error", _NULL)) != b"null":
            raise classify_error(data, provider=self.target.provider.name)
        self._begin(jsonio.text_of(fields.pop("responseId", None)), jsonio.text_of(fields.pop("modelVersion", None)))
        self._count(bytes(fields.pop("usageMetadata", _NULL)))
        candidates = fields.pop("candidates", _NULL)
        for item in jsonio.elements(candidates) if candidates != _NULL else ():
            self._on_candidate(camel(jsonio.members(item), CANDIDATE))
        self._take_feedback(fields.get("promptFeedback", _NULL))
        merge_fields(self._fields, fields.items())

    def _begin(self, id: str, model: str) -> None:
        """Take the reply's id and model from the first chunk that names them; a later change is told, not followed."""
        self._last_id, self._last_model = id, model
        for name, old, new in (("responseId", self._id, id), ("modelVersion", self._model, model)):
            if old and new and old != new:
                self.record_loss("changed-field", name, f"{old} became {new} within one reply")
        self._id = self._id or id
        self._model = self._model or model
        if not self._begun:
            self._begun = True
            self.out.append(MessageStart(id, model))

    def _count(self, usage: bytes) -> None:
        """Keep the last usage object with a total; some chunks only say what kind of traffic they are."""
        if b'"totalTokenCount"' in usage or b'"total_token_count"' in usage:
            self._usage, self._total = usage, True
        elif not self._total and usage != b"null":
            self._usage = usage

    def _take_feedback(self, feedback: Raw) -> None:
        """Note whether the prompt was blocked; null says nothing about it."""
        held = jsonio.members(feedback) if bytes(feedback)[:1] == b"{" else {}
        reason = bytes(held.get("blockReason", held.get("block_reason", _NULL)))
        if reason != b"null":
            self._blocked = reason not in (b'""', b"0")

    def _counts(self) -> tuple[Usage | None, list[Loss]]:
        """Read the usage object that counts, once."""
        if self._counted[0] is not self._usage:
            self._counted = (self._usage, *normalised(self._usage))
        return self._counted[1:]

    # --- candidates ---------------------------------------------------------------------------------------------------

    def _turn(self, index: int) -> CandidateDecoder:
        new_id = functools.partial(self._new_id, index)
        self._turns[index] = turn = CandidateDecoder(self.parts(index), new_id, joins=not self._whole)
        return turn

    def _new_id(self, index: int, ordinal: int) -> str:
        return new_id(self.seed, self._id, index, ordinal)

    def _on_candidate(self, fields: Fields) -> None:
        index = _index(fields.pop("index", _NULL))
        turn = self._turns.get(index) or self._turn(index)
        turn.grounded = turn.grounded or "groundingMetadata" in fields
        content = fields.pop("content", _NULL)
        if content != _NULL:
            held = jsonio.members(content)
            parts = held.pop("parts", _NULL)
            for item in jsonio.elements(parts) if parts != _NULL else ():
                turn.take(item)
            if bytes(held.get("role", _NULL)) == b'"model"':
                del held["role"]
            if held:
                fields["content"] = Raw(jsonio.encode(held))
        reason = fields.pop("finishReason", _NULL)
        merge_fields(turn.fields, fields.items())
        self._on_reason(turn, reason)

    def _on_reason(self, turn: CandidateDecoder, reason: Raw) -> None:
        word = jsonio.parse(reason)
        if isinstance(word, int) and not isinstance(word, bool):
            numbers = STOP_NUMBERS_VERTEX if self.target.provider.gemini.vertex else STOP_NUMBERS
            if word != 0:  # the enumeration's zero stands for "nothing said"
                turn.stop(str(word), numbers[word] if 0 < word < len(numbers) else "")
        elif word:
            turn.stop(jsonio.text_of(reason), jsonio.text_of(reason))

    def _choice(self, turn: CandidateDecoder, *, partial: bool) -> Choice:
        message = AssistantMessage(
            turn.blocks(partial=partial),
            turn.stop_reason,
            turn.raw_stop,
            self.origin(self._model),
            turn.fields.text(),
            incomplete=partial,
        )
        return Choice(message, turn.index)


def _said(part: HotPart) -> Text | Reasoning:
    meta = GeminiMeta(part.thought_signature) if part.thought_signature else None
    if part.thought is True:
        return Reasoning(part.text, meta=meta)
    return Text(part.text, meta=meta, extra=THOUGHT_FALSE if part.thought is False else "")


def _index(raw: Raw) -> int:
    index = jsonio.parse(raw)
    if index is not None and type(index) is not int:
        raise jsonio.JsonError(f"no index of a candidate: {jsonio.as_text(raw)[:40]}")
    return index or 0
