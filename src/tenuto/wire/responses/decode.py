"""Decode a Responses reply: the list of its items while it streams, and its events.

State is indexed by `output_index`: an item's id may change from event to event. The finished item
(`response.output_item.done`) is authoritative: where its deltas differ from it, a `Loss` says so. An item without that
event is read from the last event, which repeats the whole output.

A body with the status `queued` or `in_progress` is an incomplete message; a compacted history (`response.compaction`)
has no status.
"""

import bisect
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Audio, Block, OpenAiMeta, Reasoning, Refusal, ServerToolUse, Text, ToolUse
from tenuto.core.events import (
    CitationDelta,
    CodeDelta,
    ContentDelta,
    MessageDelta,
    SignatureDelta,
    TranscriptDelta,
    UsageUpdate,
)
from tenuto.core.jsonio import NULL, Fields, is_null, is_object, is_text, list_or_empty, object_or_empty, text_or_empty
from tenuto.core.messages import AssistantMessage, StopReason, Usage
from tenuto.core.provider import Target
from tenuto.core.response import ChatResponse, Choice
from tenuto.errors import ProtocolError
from tenuto.wire.assembler import DELTAS, GROWS, BlockSlot, ChoiceBuilder, MergedFields, merge_fields
from tenuto.wire.decoder import Decoder, new_id
from tenuto.wire.provider_errors import classify_error
from tenuto.wire.responses import protocol
from tenuto.wire.responses.items import DIALECT, read_citation, read_item

_decode_delta = msgspec.json.Decoder(protocol.DeltaEvent).decode
_DONE_TYPES = {
    type.removesuffix("delta") + "done": type for type, target in protocol.DELTAS.items() if target.done_field
}
"""The events that repeat all deltas of a part, with the type of those deltas."""
_DELTA_FIELDS = frozenset(protocol.DeltaEvent.__struct_fields__)
_TYPED_FIELDS = ("id", "model", "output", "usage", "status")
_PENDING = ("queued", "in_progress")
_MAX_SKIPPED = 1000  # how many parts of reasoning an index may skip: each becomes an empty line


# --- the list of items ------------------------------------------------------------------------------------------------


_EMPTY_VALUES = (b"null", b"[]", b'""', b"{}")


class OutputItem:
    def __init__(self, index: int, type: str) -> None:
        self.index = index
        self.type = type
        self.first_fields: Fields = {}  # its fields when it was announced
        self.final_fields: Fields = {}  # its fields when it was finished
        self.annotations: set[bytes] = set()  # the annotations that arrived as events
        self.ids: dict[str, None] = {}  # the JSON texts of its id and call id; events may give it several
        self.slots: dict[int, BlockSlot] = {}  # its open parts, by index
        self.blocks: list[Block] = []  # its blocks, once it is finished
        self.line = 0  # the index of its last summary part: each is a line of the block
        self.done = False

    def write(self) -> Raw:
        """Write the item as received so far, without its preliminary encrypted content."""
        fields: dict[str, Any] = dict(self.first_fields)
        fields.pop("encrypted_content", None)
        fields.setdefault("type", self.type)
        slots = [self.slots[part] for part in sorted(self.slots)]
        texts = ["".join(slot.pieces) for slot in slots]
        if self.type == "message":
            fields["content"] = [
                {"type": "refusal", "refusal": text}
                if isinstance(slot.block, Refusal)
                else {"type": "output_text", "text": text}
                for slot, text in zip(slots, texts, strict=True)
            ]
        elif self.type == "reasoning":
            fields["summary"] = [{"type": "summary_text", "text": text} for text in texts if text]
        elif self.type in protocol.INPUTS and any(texts):
            fields[protocol.INPUTS[self.type][0]] = texts[0]
        return Raw(jsonio.encode(fields))


def _item_ids(fields: Fields) -> list[str]:
    """Return the JSON texts of the item's id and call id, without empty ones."""
    values = (fields.get("id"), fields.get("call_id"))
    return [bytes(v).decode("utf-8", "replace") for v in values if v is not None and is_text(v) and len(bytes(v)) > 2]


_MATCH_KEYS: tuple[Callable[[str, Iterable[str], int], list[Hashable]], ...] = (
    lambda type, ids, index: [(type, id) for id in ids],
    lambda type, ids, index: [(type, index)],
    lambda type, ids, index: [type],
)
"""How to match items of the repeated list with received ones: by an id, then by index, then in order; always by type."""


class OutputBuilder:
    def __init__(self, parts: ChoiceBuilder, make_id: Callable[[int], str]) -> None:
        self.items: dict[int, OutputItem] = {}
        """The last item of each index. The decoder holds this dict, so it is never replaced."""
        self._by_id: dict[str, OutputItem] = {}
        self._order: list[OutputItem] = []
        self._parts = parts
        self._make_id = make_id

    def find_index(self, id: Raw | None) -> int | None:
        """Return the index of the item with this id; None if it is unknown or replaced."""
        item = None if id is None else self._by_id.get(bytes(id).decode("utf-8", "replace"))
        return item.index if item is not None and self.items.get(item.index) is item else None

    def _add_ids(self, item: OutputItem, fields: Fields) -> None:
        """Store the ids of an item; an id of several items finds the first of them."""
        for id in _item_ids(fields):
            if id not in item.ids:
                item.ids[id] = None
                known = self._by_id.get(id)
                if known is None or self.items.get(known.index) is not known:
                    self._by_id[id] = item

    def open(self, index: int, type: str) -> OutputItem:
        """Return the unfinished item at `index`; start one if necessary."""
        item = self.items.get(index)
        if item is None or item.done:
            item = self.items[index] = OutputItem(index, type)
            bisect.insort(self._order, item, key=lambda other: other.index)
        return item

    def open_part(self, item: OutputItem, part: int, block: Block) -> BlockSlot:
        """Return the slot of a part; start it with `block` if necessary."""
        slot = item.slots.get(part)
        if slot is None:
            slot = item.slots[part] = self._parts.start(block)
        return slot

    def announce(self, index: int, raw: Raw, fields: Fields) -> None:
        """Start an item. The parts of a message are announced by events of their own."""
        type = text_or_empty(fields.get("type"))
        item = self.open(index, type)
        item.type = type or item.type
        item.first_fields = fields
        self._add_ids(item, fields)
        if item.type != "message" and 0 not in item.slots:
            block = _empty_block(self._read(item, raw, dict(fields))[0])
            # without the encrypted content, which can differ from that of the finished item
            item.slots[0] = self._parts.start(msgspec.structs.replace(block, meta=None))

    def finish(self, index: int, raw: Raw, fields: Fields) -> None:
        """Finish the item at `index`. A repetition of a finished item changes nothing."""
        item = self.items.get(index)
        if item is not None and item.done:
            shares_id = not item.ids.keys().isdisjoint(_item_ids(fields))
            if shares_id or self._read(item, raw, dict(fields)) == item.blocks:
                self._compare(item, fields)
                return
        self._finish_item(self.open(index, text_or_empty(fields.get("type"))), raw, fields)

    def backfill(self, raws: list[Raw]) -> None:
        """Finish open items and add missing ones from the list in the last event."""
        repeated = [jsonio.members(raw) for raw in raws]
        previous: OutputItem | None = None
        new_items: dict[OutputItem | None, list[OutputItem]] = {None: []}  # those after each received item
        for index, match in enumerate(self._match(repeated)):
            fields = repeated[index]
            item = match or OutputItem(index, text_or_empty(fields.get("type")))
            if match is None:
                new_items[previous].append(item)
            else:
                previous = match
                new_items[previous] = []
            if item.done:
                self._compare(item, fields)
            else:
                self._finish_item(item, raws[index], fields)
        order = new_items[None]
        for item in self._order:
            order += [item, *new_items.get(item, ())]
        self._order = order

    def _match(self, repeated: list[Fields]) -> list[OutputItem | None]:
        """Find the received item for each item of the repeated list; None for a new one."""
        matches: list[OutputItem | None] = [None] * len(repeated)
        if not self._order:
            return matches
        repeated_keys = [(text_or_empty(fields.get("type")), _item_ids(fields), i) for i, fields in enumerate(repeated)]
        used: set[OutputItem] = set()
        for match_keys in _MATCH_KEYS:
            received: dict[Hashable, list[OutputItem]] = {}
            for item in self._order:
                for key in match_keys(item.type, item.ids, item.index):
                    received.setdefault(key, []).append(item)
            # Each iterator continues after the items that were used, so that the cost is linear.
            rest = {key: iter(items) for key, items in received.items()}
            for i, keys in enumerate(repeated_keys):
                if matches[i] is None:
                    candidates = (item for key in match_keys(*keys) for item in rest.get(key, ()) if item not in used)
                    match = matches[i] = next(candidates, None)
                    if match is not None:
                        used.add(match)
        return matches

    def close(self) -> None:
        """Finish the items that no event finished, with the content received so far."""
        for item in self._order:
            if not item.done:
                self._record_loss("unfinished-item", item, f"{item.type} was started and never finished")
                raw = item.write()
                self._finish_item(item, raw, jsonio.members(raw))

    def blocks(self, *, partial: bool) -> list[Block]:
        """Return the blocks in order; `partial` adds those of open items, without tokens."""
        blocks: list[Block] = []
        for item in self._order:
            blocks += item.blocks
            if partial and not item.done:
                slots = (item.slots[part] for part in sorted(item.slots))
                blocks += [msgspec.structs.replace(slot.joined(), meta=None) for slot in slots]
        return blocks

    def _finish_item(self, item: OutputItem, raw: Raw, fields: Fields) -> None:
        """Finish an item with its final form. `fields` are consumed."""
        self._add_ids(item, fields)
        item.type = text_or_empty(fields.get("type")) or item.type
        item.final_fields = dict(fields)
        missing = [
            name
            for name, value in item.first_fields.items()
            if name not in fields and name != "encrypted_content" and bytes(value) not in _EMPTY_VALUES
        ]
        if missing:
            self._record_loss("stream-differs", item, f"the finished item lacks {', '.join(missing)}")
        blocks = self._read(item, raw, fields)
        slots = item.slots
        if max(slots, default=0) >= len(blocks):  # the indices skip: align the parts in order
            slots = dict(enumerate(slots[part] for part in sorted(slots)))
        for part, block in enumerate(blocks):
            slot = slots.get(part) or self._parts.start(_empty_block(block))
            self._emit_rest(item, slot, block)
            item.blocks.append(self._parts.finish(slot, block))
            if isinstance(block, ToolUse) and not block.name:
                self._record_loss("nameless-call", item, f"{block.id} names no tool")
        if len(slots) > len(blocks):
            self._record_loss("stream-differs", item, f"the finished item lacks {len(slots) - len(blocks)} parts")
        item.done = True
        item.slots = {}
        if item.annotations:
            count = sum(len(block.citations) for block in item.blocks if isinstance(block, Text))
            if (lost := len(item.annotations) - count) > 0:
                self._record_loss("stream-differs", item, f"the finished item lacks {lost} annotations")

    def _emit_rest(self, item: OutputItem, slot: BlockSlot, block: Block) -> None:
        """Emit the text that the deltas did not contain, and the encrypted content."""
        if isinstance(block, Text | Refusal | Reasoning | ToolUse | ServerToolUse):
            text, received = getattr(block, GROWS[type(block)]), "".join(slot.pieces)
            if not text.startswith(received):
                detail = f"the deltas contain {received[:100]!r}, the finished item {text[:100]!r}"
                self._record_loss("stream-differs", item, detail)
            elif len(text) > len(received):
                rest = text[len(received) :]
                is_code = getattr(block, "kind", "") in ("code_interpreter_call", "program")
                make_delta = CodeDelta if is_code else DELTAS[type(block)]  # the slot may have another type of block
                self._parts.append(slot, rest, make_delta(rest))
        if isinstance(block, Reasoning) and isinstance(block.meta, OpenAiMeta) and block.meta.encrypted_content:
            self._parts.emit(slot, SignatureDelta(block.meta.encrypted_content))

    def _compare(self, item: OutputItem, repeated: Fields) -> None:
        """Record where a repetition differs, other than in id and encrypted content."""
        final = {name: jsonio.parse(value) for name, value in item.final_fields.items()}
        for name, value in repeated.items():
            if name in ("id", "encrypted_content") or bytes(value) in _EMPTY_VALUES:
                continue
            if jsonio.parse(value) != final.get(name):
                self._record_loss("repeat-differs", item, f"{name} is repeated as {jsonio.as_text(value)[:200]}")

    def _read(self, item: OutputItem, raw: Raw, fields: Fields) -> list[Block]:
        return read_item(raw, lambda: self._make_id(item.index), fields)

    def _record_loss(self, kind: str, item: OutputItem, detail: str) -> None:
        self._parts.record_loss(kind, f"output[{item.index}]", detail)


def _empty_block(block: Block) -> Block:
    """Return a block as it is before its first delta."""
    if isinstance(block, ToolUse | ServerToolUse):
        return msgspec.structs.replace(block, args="", meta=None, extra="")
    return type(block)("") if isinstance(block, Text | Refusal | Reasoning) else block


# --- the reply --------------------------------------------------------------------------------------------------------


class ResponsesDecoder(Decoder):
    dialect = DIALECT

    def __init__(self, target: Target, *, seed: str = "", audio_format: str = "") -> None:
        super().__init__(target, seed=seed, audio_format=audio_format)
        self._parts = self.parts()
        self._output = OutputBuilder(self._parts, lambda index: new_id(self.seed, self.id, 0, index))
        self._items = self._output.items
        self.model = target.model  # the requested model, until the reply names one
        self._model = ""
        self._early_items = 0  # how many items the events before the last one list
        self._fields = MergedFields()  # the other fields of the response object
        self._usage: Usage | None = None
        self._raw_usage = ""
        self._status: str | None = None
        self._stop: StopReason | None = None
        self._speech: BlockSlot | None = None  # the slot of the speech, which belongs to no item
        self._transcript: list[str] = []

    def frame(self, name: bytes, data: bytes) -> None:
        try:
            event = _decode_delta(data)
            target = protocol.DELTAS[event.type]
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
            self._on_event(name, data)
            return
        # The hot path: the next delta of an open part.
        item = self._items.get(event.output_index)
        if item is None or event.summary_index != item.line or (slot := item.slots.get(event.content_index)) is None:
            self._on_delta(event)
            return
        text = event.delta
        slot.pieces.append(text)
        self.out.append(ContentDelta(0, slot.index, target.event(text)))

    def _on_event(self, name: bytes, data: bytes) -> None:
        """Read any event. Deltas come here if they have unknown fields, lone surrogates, or no index."""
        fields = self.parse_object(data, ended=self.ended)
        if fields is None:
            return
        type = jsonio.text_of(fields.get("type")) or name.decode("utf-8", "replace")
        known_fields = protocol.EVENT_FIELDS
        if type in protocol.PROGRESS:
            known_fields = protocol.PROGRESS_FIELDS
        elif self.ended and type != "error":
            self.record_loss("after-the-end", type, jsonio.as_text(data)[:200])
            return
        elif type in protocol.DELTAS:
            self._on_delta(self._read_delta(type, fields, "delta"))
            return
        elif type in _DONE_TYPES:
            self._on_text_done(_DONE_TYPES[type], fields)
            return
        elif type in ("response.created", "response.queued", "response.in_progress"):
            response = jsonio.members(fields["response"])
            self._merge(response)
            self._early_items = max(self._early_items, len(list_or_empty(response.get("output"))))
        elif type in ("response.completed", "response.incomplete", "response.failed", "response.cancelled"):
            self._end(jsonio.members(fields["response"]), type.removeprefix("response."))
        elif type in ("response.output_item.added", "response.output_item.done"):
            self.emit_start()
            item = jsonio.members(fields["item"])
            add_item = self._output.announce if type.endswith("added") else self._output.finish
            add_item(self._find_index(fields, item), fields["item"], item)
        elif type == "response.content_part.added":
            part_type = jsonio.text_of(jsonio.members(fields["part"]).get("type"))
            if part_type in ("output_text", "refusal"):
                self.emit_start()
                message = self._output.open(self._find_index(fields), "message")
                block = protocol.DELTAS[f"response.{part_type}.delta"].block
                self._output.open_part(message, _read_index(fields.get("content_index")) or 0, block)
        elif type in ("response.output_text.annotation.added", "response.output_text_annotation.added"):
            self._on_annotation(fields)
        elif type in ("response.audio.delta", "response.audio.transcript.delta"):
            self._on_speech(type, jsonio.text_of(fields.get("delta")))
        elif type == "error" or (not type and not is_null(fields.get("error"))):
            raise classify_error(jsonio.encode(fields))
        else:
            self.record_once(type, "unknown-event", type, jsonio.as_text(data)[:200])
            return
        for field in sorted(fields.keys() - known_fields):
            self._record_unknown_field(f"{type}.{field}", fields[field])

    def _record_unknown_field(self, place: str, value: Raw) -> None:
        self.record_once(("field", place), "unknown-field", place, jsonio.as_text(value)[:200])

    def _find_index(self, event: Fields, item: Fields | None = None) -> int:
        """Return the index of the item that an event names, or has as `item`: else the last, or the next free one."""
        index = _read_index(event.get("output_index"))
        if index is None:
            index = self._output.find_index(event.get("item_id") if item is None else item.get("id"))
        if index is None:
            index = next(reversed(self._items), 0) if item is None else len(self._items)
        return index

    def _read_delta(self, type: str, fields: Fields, text_field: str) -> protocol.DeltaEvent:
        for name in sorted(fields.keys() - _DELTA_FIELDS - {text_field, "name"}):
            self._record_unknown_field(name, fields[name])
        return protocol.DeltaEvent(
            type,
            self._find_index(fields),
            jsonio.text_of(fields.get(text_field)),
            _read_index(fields.get("content_index")) or 0,
            _read_index(fields.get("summary_index")) or 0,
        )

    def _on_delta(self, event: protocol.DeltaEvent) -> None:
        """Add a delta; start its item and part if no event announced them."""
        if self.ended:
            self.record_loss("after-the-end", f"output[{event.output_index}]", event.delta[:200])
            return
        self.emit_start()
        target = protocol.DELTAS[event.type]
        item = self._items.get(event.output_index) or self._output.open(event.output_index, target.item_type)
        if item.done:
            self.record_once(item, "late-piece", f"output[{item.index}]", event.delta[:200])
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
        event = self._read_delta(type, fields, protocol.DELTAS[type].done_field)
        item = self._items.get(event.output_index)
        if item is not None and item.done:
            return
        slot = item.slots.get(event.content_index) if item is not None else None
        received = "".join(slot.pieces) if slot is not None else ""
        if event.delta.startswith(received) and len(event.delta) > len(received):
            event.delta = event.delta[len(received) :]
            self._on_delta(event)

    def _on_annotation(self, fields: Fields) -> None:
        item = self._items.get(self._find_index(fields))
        slot = item.slots.get(_read_index(fields.get("content_index")) or 0) if item is not None else None
        annotation = fields.get("annotation", NULL)
        if item is not None and slot is not None and is_object(annotation):
            item.annotations.add(bytes(annotation))
            self._parts.emit(slot, CitationDelta(read_citation(annotation)))
        else:
            self.record_loss("orphan-annotation", "output", jsonio.as_text(annotation)[:200])

    def _on_speech(self, type: str, delta: str) -> None:
        if self._speech is None:
            self.emit_start()
            self._speech = self._parts.start(Audio())
        if type == "response.audio.delta":
            self._parts.append(self._speech, delta)
        else:
            self._transcript.append(delta)
            self._parts.emit(self._speech, TranscriptDelta(delta))

    def body(self, data: bytes) -> None:
        """Read a body without streaming: the response object that ends a stream."""
        fields = jsonio.members(data)
        if "output" not in fields and is_null(fields.get("status")):
            if not is_null(fields.get("error")):
                raise classify_error(data)
            raise ProtocolError("the body has no output", frame=data)
        self._end(fields, None)

    def _merge(self, response: Fields) -> None:
        """Merge the fields of a response object, which several events contain."""
        id, model = jsonio.text_of(response.get("id")), jsonio.text_of(response.get("model"))
        self.record_change("id", self.id, id)
        self.record_change("model", self._model, model)
        self.id, self._model = id or self.id, model or self._model
        self.model = self._model or self.model
        merge_fields(self._fields, ((name, raw) for name, raw in response.items() if name not in _TYPED_FIELDS))
        self.emit_start()

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
            error = classify_error(jsonio.encode({"error": detail}))
            error.raw = jsonio.as_text(jsonio.encode(response))
            raise error
        if self._speech is not None:
            audio, transcript = self._speech.joined(), "".join(self._transcript)
            if transcript:
                audio = msgspec.structs.replace(audio, transcript=transcript)
            self._parts.finish(self._speech, audio)
        self._output.close()
        self.ended = True
        self._stop = self._stop_reason()
        self.out.append(MessageDelta(0, self._stop, self._status))
        self._read_usage(response.get("usage"))

    def _read_usage(self, usage: Raw | None) -> None:
        if usage is None or not is_object(usage):
            return
        self._raw_usage = jsonio.as_text(usage)
        self._usage, losses = protocol.USAGE_TABLE.read(usage)
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
            return protocol.INCOMPLETE.get(reason, "error")
        types = {type(block) for block in self._output.blocks(partial=False)}
        if Refusal in types:
            return "content_filter"
        return "tool_calls" if ToolUse in types else "stop"

    def response(self, *, partial: bool) -> ChatResponse:
        """Assemble the reply. Of the other fields, the message has `incomplete_details`."""
        fields = self._fields.written()
        extra: Fields = {}
        if not is_null(fields.get("incomplete_details")):
            extra["incomplete_details"] = fields.pop("incomplete_details")
        blocks = self._output.blocks(partial=partial)
        if self._speech is not None:
            blocks.append(self._speech.joined())
        incomplete = partial or self._status in (*_PENDING, "cancelled")
        stop, raw_stop, text = self._stop, self._status, jsonio.object_text(extra)
        message = AssistantMessage(tuple(blocks), stop, raw_stop, self.origin(), text, incomplete)
        return self.make_response([Choice(message)], self._usage, self._raw_usage, jsonio.object_text(fields))


def cache_miss_reason(response: ChatResponse) -> str:
    """Read `prompt_cache_diagnostics`: the reason of a miss, or the other result. A hit has no reason."""
    raw = jsonio.members(response.extra).get("prompt_cache_diagnostics") if response.extra else None
    diagnostics = object_or_empty(raw)
    result = jsonio.text_of(diagnostics.get("reason")) or jsonio.text_of(diagnostics.get("type"))
    return "" if result == "cache_hit" else result


def _read_index(value: Raw | None) -> int | None:
    """Return an index; None for any value that is not an integer."""
    index = jsonio.parse(value) if value is not None else None  # whole_number() takes three times as long
    if type(index) is not int:
        return None
    if index >= protocol.MAX_INDEX:
        raise jsonio.JsonError(f"index {index} is out of range")
    return index
