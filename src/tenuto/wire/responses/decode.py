"""Decode a Responses reply.

State is indexed by `output_index`: an item's id may change from event to event, and indices may skip. The finished item
(`response.output_item.done`) is authoritative. An item without that event is read from the last event, which repeats the
whole output; no item is counted twice. Blocks have the order of the output, whatever arrived first.

A reply ends with `response.completed` or `response.incomplete`; `response.failed` and `error` raise. A body with the
status `queued` or `in_progress` (background mode) is not an error: its message is marked incomplete and has no stop
reason. A compacted history (`response.compaction`) has no status, so no raw stop reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, cast

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Audio, Block, Refusal, Text, ToolUse
from tenuto.core.events import (
    AudioDelta,
    CitationDelta,
    ContentDelta,
    MessageDelta,
    MessageStart,
    TranscriptDelta,
    UsageUpdate,
)
from tenuto.core.messages import AssistantMessage, StopReason, Usage
from tenuto.core.provider import Target
from tenuto.core.response import ChatResponse, Choice
from tenuto.errors import ProtocolError
from tenuto.wire.assembler import BlockSlot
from tenuto.wire.decoder import Decoder, new_id
from tenuto.wire.merge import MergedFields, merge_fields
from tenuto.wire.provider_errors import classify_error
from tenuto.wire.rawjson import NULL, Fields, is_null, is_object, list_or_empty, object_or_empty
from tenuto.wire.responses.item_builder import OutputBuilder
from tenuto.wire.responses.items import DIALECT, read_citation
from tenuto.wire.responses.protocol import (
    DELTAS,
    EVENT_FIELDS,
    INCOMPLETE,
    MAX_INDEX,
    PROGRESS,
    PROGRESS_FIELDS,
    USAGE_TABLE,
    DeltaEvent,
    DeltaType,
)

_decode_delta = msgspec.json.Decoder(DeltaEvent).decode
_DONE_TYPES = {type.removesuffix("delta") + "done": type for type, target in DELTAS.items() if target.done_field}
"""The events that repeat all deltas of a part, with the type of those deltas."""
_DELTA_FIELDS = frozenset(DeltaEvent.__struct_fields__)
_PENDING = ("queued", "in_progress")
_MAX_SKIPPED = 1000
"""How many parts of reasoning an index may skip: each becomes an empty line."""


class ResponsesDecoder(Decoder):
    """Decode one reply, streamed or not."""

    dialect = DIALECT

    def __init__(self, target: Target, *, seed: str = "", audio_format: str = "") -> None:
        super().__init__(target, seed=seed, audio_format=audio_format)
        self._parts = self.parts()
        self._output = OutputBuilder(self._parts, self.losses, self._make_id)
        self._items = self._output.items
        self._id = ""
        self._model = ""
        self._early_items = 0
        """How many items the events before the last one list."""
        self._fields = MergedFields()
        """The other fields of the response object."""
        self._usage: Usage | None = None
        self._raw_usage = ""
        self._status: str | None = None
        self._stop: StopReason | None = None
        self._has_started = False
        self._has_ended = False
        self._loss_keys: set[tuple[str, str]] = set()
        """Losses that are recorded once for each kind and place."""
        self._speech: BlockSlot | None = None
        """The slot of the speech, which belongs to no item."""
        self._transcript: list[str] = []

    def _make_id(self, index: int) -> str:
        return new_id(self.seed, self._id, 0, index)

    # --- frames -------------------------------------------------------------------------------------------------------

    def frame(self, name: bytes, data: bytes) -> None:
        try:
            event = _decode_delta(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._on_event(name, data)
            return
        # The hot path: the next delta of an open part.
        item = self._items.get(event.output_index)
        if item is None or event.summary_index != item.line or (slot := item.slots.get(event.content_index)) is None:
            self._on_delta(event)
            return
        text = event.delta
        slot.pieces.append(text)
        self.out.append(ContentDelta(0, slot.index, DELTAS[event.type].event(text)))

    def _on_event(self, name: bytes, data: bytes) -> None:
        if data.strip() in (b"", b"[DONE]"):
            return
        fields = self.parse_object(data, ended=self._has_ended)
        if fields is None:
            return
        type = jsonio.text_of(fields.get("type")) or name.decode("utf-8", "replace")
        if self._has_ended and type not in PROGRESS and type != "error":
            self.record_loss("after-the-end", type, jsonio.as_text(data)[:200])
        elif (handler := self._handlers.get(type)) is not None:
            self._report_unknown_fields(type, fields, EVENT_FIELDS)
            handler(self, fields)
        elif type in DELTAS:
            self._on_delta(self._read_delta(type, fields, "delta"))
        elif type in _DONE_TYPES:
            self._on_text_done(_DONE_TYPES[type], fields)
        elif not type and not is_null(fields.get("error")):
            self._on_error(fields)
        elif type in PROGRESS:
            self._report_unknown_fields(type, fields, PROGRESS_FIELDS)
        else:
            self._record_once("unknown-event", type, data)

    def _report_unknown_fields(self, type: str, fields: Fields, known: frozenset[str]) -> None:
        for name in fields.keys() - known:
            self._record_once("unknown-field", f"{type}.{name}", bytes(fields[name]))

    def _record_once(self, kind: str, place: str, data: bytes) -> None:
        if (kind, place) not in self._loss_keys:
            self._loss_keys.add((kind, place))
            self.record_loss(kind, place, jsonio.as_text(data)[:200])

    # --- deltas -------------------------------------------------------------------------------------------------------

    def _read_delta(self, type: str, fields: Fields, text_field: str) -> DeltaEvent:
        """Read a delta that has unknown fields, lone surrogates, or no index."""
        for name in fields.keys() - _DELTA_FIELDS - {text_field, "name"}:
            self._record_once("unknown-field", name, bytes(fields[name]))
        return DeltaEvent(
            cast("DeltaType", type),
            self._find_index(fields),
            jsonio.text_of(fields.get(text_field)),
            _read_index(fields.get("content_index")) or 0,
            _read_index(fields.get("summary_index")) or 0,
        )

    def _find_index(self, fields: Fields) -> int:
        """Return the index of the item that an event names; by default the last item's."""
        index = _read_index(fields.get("output_index"))
        if index is None:
            index = self._output.find_index(fields.get("item_id"))
        return self._output.last_index() if index is None else index

    def _on_delta(self, event: DeltaEvent) -> None:
        """Add a delta; start its item and part if no event announced them."""
        if self._has_ended:
            self.record_loss("after-the-end", f"output[{event.output_index}]", event.delta[:200])
            return
        self._start()
        target = DELTAS[event.type]
        item = self._items.get(event.output_index) or self._output.open(event.output_index, target.item_type)
        if item.done:
            self._record_once("late-piece", f"output[{item.index}]", event.delta.encode("utf-8", "replace"))
            return
        part, text = event.content_index, event.delta
        if target.item_type == "reasoning":  # its parts are lines of one block
            part, line = 0, max(event.summary_index, event.content_index)
            if line - item.line > _MAX_SKIPPED:
                raise jsonio.JsonError(f"part {line} of reasoning follows part {item.line}")
            text = "\n" * (line - item.line) + text
            item.line = max(line, item.line)
        slot = self._output.open_part(item, part, target.block)
        self._parts.append(slot, text, target.event(text))

    def _on_text_done(self, type: str, fields: Fields) -> None:
        """Add the text that the deltas did not contain; some servers send no deltas."""
        event = self._read_delta(type, fields, DELTAS[type].done_field)
        item = self._items.get(event.output_index)
        if item is not None and item.done:
            return
        slot = item.slots.get(event.content_index) if item is not None else None
        received = "".join(slot.pieces) if slot is not None else ""
        if event.delta.startswith(received) and len(event.delta) > len(received):
            event.delta = event.delta[len(received) :]
            self._on_delta(event)

    # --- items --------------------------------------------------------------------------------------------------------

    def _on_item_added(self, fields: Fields) -> None:
        self._start()
        self._output.announce(self._find_item_index(fields), fields["item"])

    def _on_item_done(self, fields: Fields) -> None:
        self._start()
        self._output.finish(self._find_item_index(fields), fields["item"])

    def _find_item_index(self, fields: Fields) -> int:
        """Return the index of the item in an event; without one, the next free index."""
        index = _read_index(fields.get("output_index"))
        if index is None:
            index = self._output.find_index(jsonio.members(fields["item"]).get("id"))
        return len(self._items) if index is None else index

    def _on_part_added(self, fields: Fields) -> None:
        type = jsonio.text_of(jsonio.members(fields["part"]).get("type"))
        if type in ("output_text", "refusal"):
            self._start()
            item = self._output.open(self._find_index(fields), "message")
            block = Text("") if type == "output_text" else Refusal("")
            self._output.open_part(item, _read_index(fields.get("content_index")) or 0, block)

    def _on_annotation(self, fields: Fields) -> None:
        item = self._items.get(self._find_index(fields))
        slot = item.slots.get(_read_index(fields.get("content_index")) or 0) if item is not None else None
        annotation = fields.get("annotation", NULL)
        if item is not None and slot is not None and is_object(annotation):
            item.annotations.add(bytes(annotation))
            self._parts.emit(slot, CitationDelta(read_citation(annotation)))
        else:
            self.record_loss("orphan-annotation", "output", jsonio.as_text(annotation)[:200])

    # --- speech -------------------------------------------------------------------------------------------------------

    def _on_audio(self, fields: Fields) -> None:
        data = jsonio.text_of(fields.get("delta"))
        self._parts.append(self._open_speech(), data, AudioDelta(data))

    def _on_transcript(self, fields: Fields) -> None:
        text = jsonio.text_of(fields.get("delta"))
        self._transcript.append(text)
        self._parts.emit(self._open_speech(), TranscriptDelta(text))

    def _open_speech(self) -> BlockSlot:
        if self._speech is None:
            self._start()
            self._speech = self._parts.start(Audio())
        return self._speech

    def _on_audio_done(self, fields: Fields) -> None:
        """Do nothing: the end of the reply finishes both audio and transcript."""

    # --- the response object ------------------------------------------------------------------------------------------

    def _on_error(self, fields: Fields) -> None:
        raise classify_error(jsonio.encode(fields), provider=self.target.provider.name)

    def _on_status(self, fields: Fields) -> None:
        response = jsonio.members(fields["response"])
        self._merge(response)
        self._early_items = max(self._early_items, len(list_or_empty(response.get("output"))))

    def _on_end(self, fields: Fields) -> None:
        self._end(jsonio.members(fields["response"]), jsonio.text_of(fields["type"]).removeprefix("response."))

    def body(self, data: bytes) -> None:
        """Read a body without streaming: the response object that ends a stream."""
        fields = jsonio.members(data)
        if "output" not in fields and is_null(fields.get("status")):
            if not is_null(fields.get("error")):
                raise classify_error(data, provider=self.target.provider.name)
            raise ProtocolError("the body has no output", provider=self.target.provider.name, frame=data)
        self._end(fields, None)

    def _start(self) -> None:
        if not self._has_started:
            self._has_started = True
            self.out.append(MessageStart(self._id, self._model or self.target.model))

    def _merge(self, response: Fields) -> None:
        """Merge the fields of a response object, which several events contain."""
        id, model = jsonio.text_of(response.get("id")), jsonio.text_of(response.get("model"))
        for name, old, new in (("id", self._id, id), ("model", self._model, model)):
            if old and new and new != old:
                self._record_once("changed-field", name, jsonio.encode(f"{old} became {new} within one reply"))
        self._id, self._model = id or self._id, model or self._model
        rest = response.copy()
        for name in ("id", "model", "output", "usage", "status"):
            rest.pop(name, None)
        merge_fields(self._fields, rest.items())
        self._start()

    def _end(self, response: Fields, event_status: str | None) -> None:
        """End the reply; `event_status` is from the name of the event, None for a body."""
        self._merge(response)
        output = response.get("output")
        if output is not None and not is_null(output):
            self._output.backfill(jsonio.elements(output))
        if (missing := self._early_items - len(self._items)) > 0:
            self.record_loss("stream-differs", "output", f"{missing} items that an early event lists are missing")
        self._status = jsonio.text_of(response.get("status")) or event_status
        if "failed" in (event_status, self._status):
            self._stop = "error"
            self._read_usage(response.get("usage"))
            detail = response.get("error")
            if not is_object(detail):
                detail = Raw(jsonio.encode({"message": "the provider reports that the response failed"}))
            error = classify_error(jsonio.encode({"error": detail}), provider=self.target.provider.name)
            error.raw = jsonio.as_text(jsonio.encode(response))
            raise error
        if self._speech is not None:
            audio, transcript = self._speech.joined(), "".join(self._transcript)
            if transcript:
                audio = msgspec.structs.replace(audio, transcript=transcript)
            self._parts.finish(self._speech, audio)
        self._output.close()
        self._has_ended = True
        self._stop = self._stop_reason()
        self.out.append(MessageDelta(0, self._stop, self._status))
        self._read_usage(response.get("usage"))

    def _read_usage(self, usage: Raw | None) -> None:
        if usage is None or not is_object(usage):
            return
        self._raw_usage = jsonio.as_text(usage)
        self._usage, losses = USAGE_TABLE.read(usage)
        self.losses += losses
        if self._usage is not None:
            self.out.append(UsageUpdate(self._usage))

    def _stop_reason(self) -> StopReason | None:
        if self._status in _PENDING:
            return None
        if self._status == "cancelled":
            return "error"
        if self._status == "incomplete":
            reason = jsonio.text_of(object_or_empty(self._fields.get("incomplete_details")).get("reason"))
            return INCOMPLETE.get(reason, "error")
        types = {type(block) for block in self._output.blocks(partial=False)}
        if Refusal in types:
            return "content_filter"
        return "tool_calls" if ToolUse in types else "stop"

    # --- the reply ----------------------------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        return self._has_ended

    def complete(self) -> bool:
        return self._has_ended

    def response(self, *, partial: bool) -> ChatResponse:
        """Assemble the reply. Of the other fields, the message has `incomplete_details`."""
        fields = self._fields.written()
        extra: Fields = {}
        if not is_null(fields.get("incomplete_details")):
            extra["incomplete_details"] = fields.pop("incomplete_details")
        blocks: list[Block] = self._output.blocks(partial=partial)
        if self._speech is not None:
            blocks.append(self._speech.joined())
        message = AssistantMessage(
            tuple(blocks),
            self._stop,
            self._status,
            self.origin(self._model),
            jsonio.object_text(extra),
            incomplete=partial or self._status in (*_PENDING, "cancelled"),
        )
        return ChatResponse(
            self._id,
            self.target.provider.name,
            self._model or self.target.model,
            (Choice(message),),
            self._usage,
            self._raw_usage,
            jsonio.object_text(fields),
            tuple(self.losses),
        )

    _handlers: ClassVar[dict[str, Callable[[ResponsesDecoder, Fields], None]]] = {
        "error": _on_error,
        "response.created": _on_status,
        "response.queued": _on_status,
        "response.in_progress": _on_status,
        "response.completed": _on_end,
        "response.incomplete": _on_end,
        "response.failed": _on_end,
        "response.cancelled": _on_end,
        "response.output_item.added": _on_item_added,
        "response.output_item.done": _on_item_done,
        "response.content_part.added": _on_part_added,
        "response.output_text.annotation.added": _on_annotation,
        "response.output_text_annotation.added": _on_annotation,
        "response.audio.delta": _on_audio,
        "response.audio.done": _on_audio_done,
        "response.audio.transcript.delta": _on_transcript,
        "response.audio.transcript.done": _on_audio_done,
    }


def _read_index(value: Raw | None) -> int | None:
    """Return an index; None for any value that is not an integer."""
    index = jsonio.parse(value) if value is not None else None  # whole_number() takes three times as long
    if type(index) is not int:
        return None
    if index >= MAX_INDEX:
        raise jsonio.JsonError(f"index {index} is out of range")
    return index
