"""Decode Chat Completions replies: frames in, events out.

One decoder reads every host. Choices are keyed by their `index`, tool calls by theirs. Usage may come in any frame; the
last one counts. A reply is complete after `[DONE]`, or when every choice has a finish reason. A body that was not
streamed is one frame whose choices contain messages instead of deltas.
"""

import operator

import msgspec
from msgspec import UNSET, Raw

from tenuto.core import jsonio
from tenuto.core.events import ContentDelta, TextDelta, UsageUpdate
from tenuto.core.jsonio import NULL, Fields, is_empty, is_null, is_object, is_text, object_or_empty
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, Usage
from tenuto.core.provider import Target
from tenuto.core.response import ChatResponse, Choice
from tenuto.errors import LLMError, ProtocolError
from tenuto.wire.assembler import MergedFields, merge_fields
from tenuto.wire.chat.choice import ChoiceDecoder, parse_index
from tenuto.wire.chat.protocol import PADDING, USAGE_TABLE, decode_chunk
from tenuto.wire.decoder import Decoder, new_id
from tenuto.wire.provider_errors import ERROR_FIELDS, classify_error, find_error

_envelope_of = operator.attrgetter("system_fingerprint", "service_tier", "provider")
_COPIED_FIELDS = frozenset(
    ("content", "role", "tool_calls", "function_call", "reasoning", "reasoning_content", "refusal", "audio")
)


class ChatDecoder(Decoder):
    dialect = "openai-chat"

    def __init__(self, target: Target, *, seed: str = "", audio_format: str = "") -> None:
        super().__init__(target, seed=seed, audio_format=audio_format)
        self._states: dict[int, ChoiceDecoder] = {}
        self._envelope: tuple[object, ...] | None = None
        self._created: int | None = None
        self._fields = MergedFields()
        self._usage: Usage | None = None
        self._raw_usage: Raw | None = None
        self._usage_losses: list[Loss] = []

    def frame(self, name: bytes, data: bytes) -> None:
        try:
            chunk = decode_chunk(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._read_frame(name, data, None)
            return
        envelope = _envelope_of(chunk)
        choice = chunk.choices[0]
        state = self._states.get(choice.index)
        nulls = (choice.logprobs, choice.native_finish_reason)
        if (
            state is None
            or state.is_finished
            or envelope != self._envelope
            or nulls != state.nulls
            or not self.id
            or not self.model
        ):
            self._read_frame(name, data, envelope)
            if (state := self._states.get(choice.index)) is not None:
                state.nulls = nulls
            return
        self._created = chunk.created or self._created
        delta = choice.delta
        text = delta.content
        slot = state.text_slot
        if (
            slot is not None
            and text
            and type(text) is str
            and delta.reasoning is UNSET
            and delta.reasoning_content is UNSET
            and delta.tool_calls is UNSET
            and delta.reasoning_details is UNSET
        ):
            slot.pieces.append(text)
            self.out.append(ContentDelta(choice.index, slot.index, TextDelta(text)))
        elif delta.tool_calls and not state.calls.are_started(delta.tool_calls):
            self._read_frame(name, data, envelope)
        else:
            if not (delta.reasoning_content is delta.reasoning is delta.reasoning_details is UNSET):
                state.read_reasoning(delta.reasoning_content, delta.reasoning, delta.reasoning_details)
            if text is not UNSET:
                state.read_content(text)
            for piece in delta.tool_calls or ():
                state.calls.by_index[piece.index].append_args(piece.function.arguments, state.parts)

    def _read_frame(self, name: bytes, data: bytes, envelope: tuple[object, ...] | None) -> None:
        """Read a frame field by field: the first, the last, or one with rare fields."""
        self._envelope = envelope
        if data.strip() == b"[DONE]":
            self.ended = True
        fields = self.parse_object(data, ended=self.only_usage_missing)
        if fields is None:
            return
        if name == b"error" and "error" not in fields:
            raise classify_error(data)
        error = None if ERROR_FIELDS.isdisjoint(fields) else find_error(fields, data)
        self._read_fields(fields, error, whole=False)

    def body(self, data: bytes) -> None:
        fields = jsonio.members(data)
        if error := find_error(fields, data):
            raise error
        if is_null(fields.get("choices")):
            raise ProtocolError("the body has no choices", frame=data)
        self._read_fields(fields, None, whole=True)
        self.ended = True

    @property
    def only_usage_missing(self) -> bool:
        states = self._states.values()
        return self.ended or (bool(states) and all(state.is_finished for state in states))

    def complete(self) -> bool:
        if not self.only_usage_missing:
            return False
        self.emit_start()
        for state in self._states.values():
            state.close()
            state.report_late_citations()
        if not self._states:
            self.record_loss("no-choices", "choices", "the reply has no choices")
        return True

    def response(self, *, partial: bool) -> ChatResponse:
        if self._created is not None:
            self._fields["created"] = Raw(jsonio.encode(self._created))
        choices = []
        for index, state in sorted(self._states.items()):
            assembler = state.parts.assembler
            blocks = assembler.unfinished() if partial else assembler.finalize()
            origin, extra = self.origin(), state.extra()
            message = AssistantMessage(tuple(blocks), state.stop_reason, state.raw_stop, origin, extra, partial)
            choices.append(Choice(message, index, state.choice_extra()))
        raw_usage = jsonio.as_text(self._raw_usage) if self._raw_usage is not None else ""
        return self.make_response(choices, self._usage, raw_usage, self._fields.text(), self._usage_losses)

    def _read_fields(self, fields: Fields, error: LLMError | None, *, whole: bool) -> None:
        """Read the fields of a frame, or of a `whole` body; then raise the error that the frame contains."""
        raw_choices = fields.pop("choices", NULL)
        usage = fields.pop("usage", None)
        self.id = self._take_name(fields, "id", self.id)
        self.model = self._take_name(fields, "model", self.model)
        for name in PADDING:
            fields.pop(name, None)
        if self._created is not None:
            self._fields["created"] = Raw(jsonio.encode(self._created))
            self._created = None
        merge_fields(self._fields, fields.items())
        choices = [jsonio.members(raw) for raw in jsonio.elements(raw_choices)] if raw_choices != NULL else []
        if choices or self.id:
            self.emit_start()
        self._read_usage(usage, fields, choices)
        for position, choice in enumerate(choices):
            self._read_choice(choice, position, whole=whole)
        if error is not None:
            raise error

    def _take_name(self, fields: Fields, name: str, current: str) -> str:
        """Take the id or the model of the reply. The first one counts; a value that is not a string stays in `fields`."""
        if not is_text(fields.get(name)):
            return current
        value = jsonio.text_of(fields.pop(name))
        self.record_change(name, current, value)
        return current or value

    def _read_usage(self, usage: Raw | None, fields: Fields, choices: list[Fields]) -> None:
        """Read the usage next to the choices, in a host's own field, or inside a choice."""
        places = (usage, object_or_empty(fields.get("x_groq")).get("usage"), *(one.get("usage") for one in choices))
        raw = next((raw for raw in places if not is_empty(raw)), None)
        if raw is None:
            return
        excludes = self.target.provider.chat.output_excludes_reasoning
        counts, losses = USAGE_TABLE.read(raw, output_excludes_reasoning=excludes)
        if counts is None:
            self.losses += losses
            return
        if self._raw_usage is not None:  # a later object replaces an earlier one: report the fields that it lacks
            before = jsonio.members(self._raw_usage)
            for name in sorted(before.keys() - jsonio.members(raw).keys()):
                if before[name] != NULL:
                    self.record_loss("superseded-usage", f"usage.{name}", jsonio.as_text(before[name])[:200])
        self._usage, self._raw_usage, self._usage_losses = counts, raw, losses
        self.emit_start()
        self.out.append(UsageUpdate(counts))

    def _read_choice(self, choice: Fields, position: int, *, whole: bool) -> None:
        index = parse_index(choice.pop("index", None))
        if not isinstance(index, int):
            index = position
        state = self._states.get(index)
        if state is None:
            state = self._states[index] = ChoiceDecoder(
                self.parts(index),
                self._fields,
                lambda ordinal: new_id(self.seed, self.id, index, ordinal),
                think_tags=self.target.provider.chat.think_tags,
                audio_format=self.audio_format,
            )
        finish_reason = choice.pop("finish_reason", None)
        if (logprobs := choice.pop("logprobs", None)) is not None:
            state.on_logprobs(logprobs)
        delta = _take_delta(choice, whole=whole)
        error = choice.get("error")
        merge_fields(state.choice_fields, choice.items())
        state.take(delta, whole=whole)
        if finish_reason is not None and finish_reason != NULL:
            state.finish(finish_reason)
        if not is_empty(error):
            raise classify_error(jsonio.encode({"error": error}))


def _take_delta(choice: Fields, *, whole: bool) -> Fields:
    """Take the delta of a frame, or the message of a `whole` body. Of a repeated delta, only new fields are used."""
    first, second = ("message", "delta") if whole else ("delta", "message")
    if not is_object(choice.get(first)):
        return jsonio.members(choice.pop(second)) if is_object(choice.get(second)) else {}
    fields = jsonio.members(choice.pop(first))
    if not whole:
        choice.pop("text", None)
        if is_object(choice.get(second)):
            copy = jsonio.members(choice.pop(second))
            return {**{name: raw for name, raw in copy.items() if name not in _COPIED_FIELDS}, **fields}
    return fields
