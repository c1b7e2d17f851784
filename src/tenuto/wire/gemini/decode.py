"""Decode replies of Gemini's generateContent.

Every chunk is a complete response object with the next fragment of the reply: its text continues the text so far. A
reply is complete after a finish reason, or after the reason why the prompt was blocked.
"""

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import GeminiMeta, Reasoning, Text
from tenuto.core.events import ContentDelta, MessageDelta, TextDelta, ThinkingDelta, UsageUpdate
from tenuto.core.jsonio import NULL, Fields, is_null, object_or_empty, read_optional_list
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, Usage
from tenuto.core.provider import Target
from tenuto.core.response import ChatResponse, Choice
from tenuto.wire.assembler import MergedFields, merge_fields
from tenuto.wire.decoder import Decoder, new_id
from tenuto.wire.gemini import protocol
from tenuto.wire.gemini.candidate import CandidateDecoder
from tenuto.wire.provider_errors import classify_error

_decode_hot_chunk = msgspec.json.Decoder(protocol.HotChunk).decode


class GeminiDecoder(Decoder):
    dialect = protocol.DIALECT

    def __init__(self, target: Target, *, seed: str = "", audio_format: str = "") -> None:
        super().__init__(target, seed=seed, audio_format=audio_format)
        self._candidates: dict[int, CandidateDecoder] = {}
        self._joins_text = True  # the reply streams, so that its text parts are fragments
        self._identity: tuple[str, str] | None = None  # the id and the model in the last chunk
        self._usage = b""  # the JSON text of the usage object that counts
        self._usage_has_total = False
        self._counts: tuple[Usage | None, list[Loss]] | None = None  # the usage as counts, once the reply is complete
        self._fields = MergedFields()
        self._is_blocked = False

    def frame(self, _: bytes, data: bytes) -> None:
        try:
            chunk = _decode_hot_chunk(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._on_chunk(data)
            return
        if (chunk.response_id, chunk.model_version) != self._identity:
            self._set_identity(chunk.response_id, chunk.model_version)
        if chunk.usage_metadata is not protocol.ABSENT:
            self._set_usage(bytes(chunk.usage_metadata))
        if chunk.create_time is not protocol.ABSENT:
            self._fields["createTime"] = chunk.create_time
        for item in chunk.candidates:
            candidate = self._candidates.get(item.index) or self._add_candidate(item.index)
            for part in item.content.parts:
                text, thought = part.text, part.thought
                slot = candidate.slot
                if slot is not None and thought is candidate.thought_flag and not part.thought_signature:
                    if text:
                        slot.pieces.append(text)
                        delta = ThinkingDelta(text) if thought is True else TextDelta(text)
                        self.out.append(ContentDelta(candidate.index, slot.index, delta))
                else:
                    candidate.add_text(_to_block(part))
                    candidate.thought_flag = thought
            if item.finish_reason:
                candidate.set_finish_reason(item.finish_reason, item.finish_reason)

    def body(self, data: bytes) -> None:
        self._joins_text = data.lstrip()[:1] == b"["  # an array has the chunks of a stream
        self.frame(b"", jsonio.check_depth(data))

    @property
    def only_usage_missing(self) -> bool:
        candidates = self._candidates.values()
        return bool(candidates) and all(candidate.raw_stop is not None for candidate in candidates)

    def complete(self) -> bool:
        if not self._has_ended():
            return False
        for candidate in self._candidates.values() if self._candidates else (self._add_candidate(0),):
            candidate.close()
            if self._is_blocked and candidate.raw_stop is None:
                candidate.stop_reason = "content_filter"
                self.out.append(MessageDelta(candidate.index, candidate.stop_reason, None))
        self._counts = protocol.USAGE_TABLE.read(self._usage)
        if self._counts[0] is not None:
            self.out.append(UsageUpdate(self._counts[0]))
        return True

    def response(self, *, partial: bool) -> ChatResponse:
        usage, losses = self._counts or protocol.USAGE_TABLE.read(self._usage)
        choices = []
        for index, candidate in sorted(self._candidates.items()):
            blocks, extra = candidate.blocks(partial=partial), candidate.fields.text()
            stop, raw_stop = candidate.stop_reason, candidate.raw_stop
            message = AssistantMessage(tuple(blocks), stop, raw_stop, self.origin(), extra, partial)
            choices.append(Choice(message, index))
        return self.make_response(choices, usage, jsonio.as_text(self._usage), self._fields.text(), losses)

    def _has_ended(self) -> bool:
        return self._is_blocked or any(candidate.raw_stop is not None for candidate in self._candidates.values())

    def _on_chunk(self, data: bytes) -> None:
        """Read any chunk, or an array of chunks."""
        data = data.strip()
        if data[:1] == b"[" and data != b"[DONE]":
            for item in jsonio.elements(data):
                self._on_chunk(bytes(item))
            return
        members = self.parse_object(data, ended=self._has_ended())
        if members is None:
            return
        fields = protocol.to_camel_case(members, protocol.CHUNK_FIELDS)
        if not is_null(fields.get("error")):
            raise classify_error(data)
        id, model = (jsonio.text_of(fields.pop(name, None)) for name in ("responseId", "modelVersion"))
        self._set_identity(id, model)
        self._set_usage(bytes(fields.pop("usageMetadata", NULL)))
        for item in read_optional_list(fields.pop("candidates", None)):
            self._on_candidate(protocol.to_camel_case(jsonio.members(item), protocol.CANDIDATE_FIELDS))
        feedback = object_or_empty(fields.get("promptFeedback"))
        block_reason = bytes(feedback.get("blockReason", feedback.get("block_reason", NULL)))
        if block_reason != b"null":
            self._is_blocked = block_reason not in (b'""', b"0")
        merge_fields(self._fields, fields.items())

    def _on_candidate(self, fields: Fields) -> None:
        raw_index = fields.pop("index", NULL)
        index = jsonio.parse(raw_index) or 0
        if type(index) is not int:
            raise jsonio.JsonError(f"the index of a candidate is not an integer: {jsonio.as_text(raw_index)[:40]}")
        candidate = self._candidates.get(index) or self._add_candidate(index)
        content = fields.pop("content", NULL)
        members = {} if is_null(content) else jsonio.members(content)
        parts = read_optional_list(members.pop("parts", None))
        if bytes(members.get("role", NULL)) == b'"model"':
            del members["role"]
        if members:
            fields["content"] = Raw(jsonio.encode(members))
        raw_reason = fields.pop("finishReason", NULL)
        merge_fields(candidate.fields, fields.items())  # before the parts: grounding delays their end
        for part in parts:
            candidate.add_part(part)
        reason = jsonio.parse(raw_reason)
        if type(reason) is int:
            numbers = protocol.STOP_NUMBERS_VERTEX if self.target.provider.gemini.vertex else protocol.STOP_NUMBERS
            if reason != 0:  # 0 is FINISH_REASON_UNSPECIFIED: no reason yet
                candidate.set_finish_reason(str(reason), numbers[reason] if 0 < reason < len(numbers) else "")
        elif reason:
            text = jsonio.text_of(raw_reason)
            candidate.set_finish_reason(text, text)

    def _set_identity(self, id: str, model: str) -> None:
        """Set the reply's id and model from the first chunk that has them; a change is a loss."""
        self._identity = (id, model)
        self.record_change("responseId", self.id, id)
        self.record_change("modelVersion", self.model, model)
        self.id, self.model = self.id or id, self.model or model
        self.emit_start()

    def _set_usage(self, usage: bytes) -> None:
        """Set the usage to the last object with a total; some chunks have only the traffic type."""
        if b'"totalTokenCount"' in usage or b'"total_token_count"' in usage:
            self._usage, self._usage_has_total = usage, True
        elif not self._usage_has_total and usage != b"null":
            self._usage = usage

    def _add_candidate(self, index: int) -> CandidateDecoder:
        def call_id(ordinal: int) -> str:
            return new_id(self.seed, self.id, index, ordinal)

        self._candidates[index] = candidate = CandidateDecoder(self.parts(index), call_id, joins_text=self._joins_text)
        return candidate


def _to_block(part: protocol.HotPart) -> Text | Reasoning:
    meta = GeminiMeta(part.thought_signature) if part.thought_signature else None
    if part.thought is True:
        return Reasoning(part.text, meta=meta)
    return Text(part.text, meta=meta, extra=protocol.THOUGHT_FALSE if part.thought is False else "")
