"""Chat Completions, from the wire: frames in, events out.

One codec reads every host. Choices are keyed by their `index`, calls by theirs; usage is taken wherever it stands, and
the last one counts. An error is looked for before anything else. A reply is whole after `[DONE]`, or once every choice
has a reason for having ended. A body that did not stream is one frame whose choices hold messages instead of deltas.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TypeAlias

import msgspec
from msgspec import UNSET, Raw

from tenuto.core import jsonio
from tenuto.core.events import (
    ArgumentsDelta,
    ContentDelta,
    MessageStart,
    TextDelta,
    ThinkingDelta,
    UsageUpdate,
)
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, Usage
from tenuto.core.provider import Target
from tenuto.core.response import ChatResponse, Choice
from tenuto.errors import LLMError, ProtocolError
from tenuto.wire.chat.choice import ChoiceDecoder
from tenuto.wire.chat.protocol import DONE, HOT, PADDING, ChunkDelta
from tenuto.wire.chat.think_tags import ThinkTags
from tenuto.wire.chat.usage import usage_of
from tenuto.wire.decoder import Decoder, new_id
from tenuto.wire.merge import MergedFields, merge_fields
from tenuto.wire.provider_errors import classify_error

__all__ = ["ChatDecoder"]

Fields: TypeAlias = dict[str, Raw]
_HOT = HOT.decode
_ENVELOPE: Callable[[object], tuple[object, ...]] = operator.attrgetter(
    "system_fingerprint", "service_tier", "provider"
)
_NULL = Raw(b"null")
_NOTHING = (_NULL, Raw(b"{}"), Raw(b'""'), Raw(b"[]"), Raw(b"false"), Raw(b"0"))


class ChatDecoder(Decoder):
    """Reads one reply in the chat dialect."""

    dialect = "openai-chat"

    def __init__(self, target: Target, *, seed: str = "", audio_format: str = "") -> None:
        super().__init__(target, seed=seed, audio_format=audio_format)
        self._states: dict[int, ChoiceDecoder] = {}
        self._envelope: tuple[object, ...] | None = None
        self._created: int | None = None
        self._fields = MergedFields()
        self._id = ""
        self._model = ""
        self._named = False
        self._changed: set[str] = set()
        self._begun = False
        self._done = False
        self._usage: Usage | None = None
        self._raw_usage: Raw | None = None
        self._usage_losses: list[Loss] = []

    # --- the door of the dialect --------------------------------------------------------------------------------------

    def frame(self, name: bytes, data: bytes) -> None:
        try:
            chunk = _HOT(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._cold(name, data, None)
            return
        envelope = _ENVELOPE(chunk)
        choice = chunk.choices[0]
        state = self._states.get(choice.index)
        beside = (choice.logprobs, choice.native_finish_reason)
        if state is None or state.finished or envelope != self._envelope or beside != state.nulls or not self._named:
            self._cold(name, data, envelope)
            if (state := self._states.get(choice.index)) is not None:
                state.nulls = beside
            return
        self._created = chunk.created or self._created
        delta = choice.delta
        piece = delta.content
        slot = state.said
        if (
            slot is not None
            and piece
            and type(piece) is str
            and delta.reasoning is UNSET
            and delta.reasoning_content is UNSET
            and delta.tool_calls is UNSET
            and delta.reasoning_details is UNSET
        ):
            slot.pieces.append(piece)
            self.out.append(ContentDelta(choice.index, slot.index, TextDelta(piece)))
        elif delta.tool_calls and not state.calls.all_open(delta.tool_calls):
            self._cold(name, data, envelope)
        else:
            self._warm(state, delta)

    def _warm(self, state: ChoiceDecoder, delta: ChunkDelta) -> None:
        """Take a delta that fits, but is not just the next piece of open text."""
        thought = delta.reasoning_content
        slot = state.thought
        alone = not delta.reasoning and delta.reasoning_details is UNSET
        if thought and alone and slot is not None and state.field == "reasoning_content":
            slot.pieces.append(thought)
            self.out.append(ContentDelta(state.index, slot.index, ThinkingDelta(thought)))
        elif thought is not UNSET or delta.reasoning is not UNSET or delta.reasoning_details is not UNSET:
            self._reason(state, delta)
        if isinstance(delta.content, list):
            state.listed(delta.content)
        elif delta.content:
            state.on_text(delta.content)
        elif delta.content is not UNSET:
            state.note_content_form(_spelt(delta.content))
        for piece in delta.tool_calls or ():
            call, more = state.calls.by_index[piece.index], piece.function.arguments
            if more:
                self.out.append(ContentDelta(state.index, call.place, ArgumentsDelta(more)))
            call.grow(more)

    @staticmethod
    def _reason(state: ChoiceDecoder, delta: ChunkDelta) -> None:
        texts: dict[str, str] = {}
        for name, text in (("reasoning_content", delta.reasoning_content), ("reasoning", delta.reasoning)):
            if text:
                texts[name] = text
            elif text is not UNSET:
                state.note(name, _spelt(text))
        if delta.reasoning_details:
            state.details(delta.reasoning_details, texts)
        elif delta.reasoning_details is not UNSET:
            state.note("reasoning_details", Raw(b"[]"))
        if texts:
            state.think_one_of(texts)

    def _cold(self, name: bytes, data: bytes, envelope: tuple[object, ...] | None) -> None:
        """Read a frame field by field: the first of its kind, the last, or one that holds something rare."""
        self._envelope = envelope
        text = data.strip()
        if text == DONE:
            self._done = True
            return
        if not text:
            return
        fields = self.parse_object(data, ended=self._all_finished())
        if fields is None:
            return
        if name == b"error" and "error" not in fields:
            raise classify_error(data, provider=self.target.provider.name)
        self._read(fields, data, whole=False)

    def body(self, data: bytes) -> None:
        fields = jsonio.members(data)
        if error := self._error(fields, data):
            raise error
        if fields.get("choices", _NULL) == _NULL:
            raise ProtocolError("the body holds no choices", provider=self.target.provider.name, frame=data)
        self._read(fields, data, whole=True)
        self._done = True

    @property
    def ended(self) -> bool:
        return self._done

    @property
    def only_usage_missing(self) -> bool:
        return self._done or self._all_finished()

    def complete(self) -> bool:
        if not self.only_usage_missing:
            return False
        self._begin()
        for state in self._states.values():
            state.close()
            state.report_late_citations()
        if not self._states:
            self.record_loss("no-choices", "choices", "the reply holds no answer")
        return True

    def _all_finished(self) -> bool:
        return bool(self._states) and all(state.finished for state in self._states.values())

    def response(self, *, partial: bool) -> ChatResponse:
        self._settle_created()
        return ChatResponse(
            self._id,
            self.target.provider.name,
            self._model,
            tuple(self._choice(state, partial=partial) for _, state in sorted(self._states.items())),
            self._usage,
            jsonio.as_text(self._raw_usage) if self._raw_usage is not None else "",
            self._fields.text(),
            (*self.losses, *self._usage_losses),
        )

    def _choice(self, state: ChoiceDecoder, *, partial: bool) -> Choice:
        assembler = state.parts.assembler
        blocks = assembler.unfinished() if partial else assembler.finalize()
        message = AssistantMessage(
            tuple(blocks),
            state.stop_reason,
            state.raw_stop,
            self.origin(self._model),
            state.extra(),
            incomplete=partial,
        )
        return Choice(message, state.index, state.choice_extra())

    # --- a frame, field by field --------------------------------------------------------------------------------------

    def _read(self, fields: Fields, data: bytes, *, whole: bool) -> None:
        error = None if whole else self._error(fields, data)
        choices = fields.pop("choices", _NULL)
        usage = fields.pop("usage", None)
        self._name(fields)
        for name in PADDING:
            fields.pop(name, None)
        self._settle_created()
        merge_fields(self._fields, fields.items())
        found = [jsonio.members(raw) for raw in jsonio.elements(choices)] if choices != _NULL else []
        if found or self._id:
            self._begin()
        self._count(usage, fields, found)
        for at, choice in enumerate(found):
            self._read_choice(choice, at, whole=whole)
        if error is not None:
            raise error

    def _begin(self) -> None:
        """Tell that the reply begins: before anything else is told of it."""
        if not self._begun:
            self._begun = True
            self.out.append(MessageStart(self._id, self._model))

    def _error(self, fields: Fields, data: bytes) -> LLMError | None:
        """Find an error wherever hosts put one; the frame may hold more, which is read before it is raised."""
        provider = self.target.provider.name
        if fields.get("error", _NULL) not in _NOTHING:
            return classify_error(data, provider=provider)
        inner = fields.get("x_groq")
        told = jsonio.members(inner).get("error") if inner is not None and bytes(inner)[:1] == b"{" else None
        if told is not None and told not in _NOTHING:
            return classify_error(jsonio.encode({"error": told}), provider=provider)
        status = fields.get("base_resp")
        code = jsonio.members(status).get("status_code") if status is not None and bytes(status)[:1] == b"{" else None
        if code is not None and code not in _NOTHING:
            return classify_error(
                jsonio.encode({"error": {"message": jsonio.as_text(status or b"")}}), provider=provider
            )
        return None

    def _name(self, fields: Fields) -> None:
        """Take the reply's id and model: the first that are given. What is no text stays among the other fields."""
        self._id = self._first("id", self._id, fields)
        self._model = self._first("model", self._model, fields)
        self._named = bool(self._id and self._model)

    def _first(self, name: str, held: str, fields: Fields) -> str:
        raw = fields.get(name)
        if raw is None or bytes(raw)[:1] != b'"':
            return held
        word = jsonio.text_of(fields.pop(name))
        if held and word and word != held and name not in self._changed:
            self._changed.add(name)
            self.record_loss("changed-field", name, f"{held} became {word} within one reply")
        return held or word

    def _settle_created(self) -> None:
        if self._created is not None:
            self._fields["created"] = Raw(jsonio.encode(self._created))
            self._created = None

    def _count(self, usage: Raw | None, fields: Fields, choices: list[Fields]) -> None:
        """Take usage wherever it stands: beside the choices, in a host's own field, or inside a choice."""
        raw = usage if usage is not None and usage not in _NOTHING else _elsewhere(fields, choices)
        if raw is None:
            return
        excludes = self.target.provider.chat.output_excludes_reasoning
        found, losses = usage_of(raw, output_excludes_reasoning=excludes)
        if found is None:
            self.losses += losses
            return
        self._superseded(raw)
        self._usage, self._raw_usage, self._usage_losses = found, raw, losses
        self._begin()
        self.out.append(UsageUpdate(found))

    def _superseded(self, usage: Raw) -> None:
        """The last usage object counts; what an earlier one counted and this one does not is told."""
        if self._raw_usage is None:
            return
        before = jsonio.members(self._raw_usage)
        for name in sorted(before.keys() - jsonio.members(usage).keys()):
            if before[name] != _NULL:
                self.record_loss("superseded-usage", f"usage.{name}", jsonio.as_text(before[name])[:200])

    def _read_choice(self, choice: Fields, at: int, *, whole: bool) -> None:
        state = self._state(_index(choice.pop("index", None), at))
        finish = choice.pop("finish_reason", None)
        if (logprobs := choice.pop("logprobs", None)) is not None:
            state.probabilities(logprobs)
        delta = self._delta(choice, whole=whole)
        error = choice.get("error")
        merge_fields(state.beside, choice.items())
        state.take(delta, whole=whole)
        if finish is not None and finish != _NULL:
            state.finish(finish)
        if error is not None and error not in _NOTHING:
            raise classify_error(jsonio.encode({"error": error}), provider=self.target.provider.name)

    @staticmethod
    def _delta(choice: Fields, *, whole: bool) -> Fields:
        """Pick the delta of a frame or the message of a body.

        Some hosts repeat each delta as a message and as a text: of a repetition only that is kept which the delta lacks.
        """
        first, second = ("message", "delta") if whole else ("delta", "message")
        name = first
        if bytes(choice.get(first, b""))[:1] != b"{":
            name = second
            if bytes(choice.get(second, b""))[:1] != b"{":
                return {}
        found = jsonio.members(choice.pop(name))
        if not whole and name == first:
            choice.pop("text", None)
            again = choice.get(second)
            if again is not None and bytes(again)[:1] == b"{":
                del choice[second]
                said = jsonio.members(again)
                return {**{key: raw for key, raw in said.items() if key not in _SAID}, **found}
        return found

    def _state(self, index: int) -> ChoiceDecoder:
        state = self._states.get(index)
        if state is None:
            state = ChoiceDecoder(
                self.parts(index), self._fields, lambda ordinal: new_id(self.seed, self._id, index, ordinal)
            )
            state.tags = ThinkTags() if self.target.provider.chat.think_tags else None
            state.audio_format = self.audio_format
            self._states[index] = state
        return state


_SAID = ("content", "role", "tool_calls", "function_call", "reasoning", "reasoning_content", "refusal", "audio")


def _elsewhere(fields: Fields, choices: list[Fields]) -> Raw | None:
    """Find usage that does not stand beside the choices."""
    inner = fields.get("x_groq")
    places = [jsonio.members(inner).get("usage")] if inner is not None and bytes(inner)[:1] == b"{" else []
    places += [choice.get("usage") for choice in choices]
    return next((raw for raw in places if raw is not None and raw not in _NOTHING), None)


def _spelt(text: str | None) -> Raw:
    return Raw(b"null" if text is None else b'""')


def _index(raw: Raw | None, at: int) -> int:
    """Return a choice's place; some hosts send it as text, or not at all."""
    digits = bytes(raw).strip(b'"') if raw is not None else b""
    return int(digits) if digits.isdigit() and len(digits) < 10 else at
