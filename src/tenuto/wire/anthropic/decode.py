"""Decode Anthropic Messages: frames in, events out.

Blocks have an `index`, and several can be open at once. `signature_delta` and `compaction_delta` set a value, the other
deltas append, and `message_delta` overwrites usage key by key. A second `message_start` discards the reply so far. A body
that was not streamed is read as a `message_start` that contains the whole content.
"""

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import AnthropicMeta, Block, Citation, Marker, Opaque, Reasoning, ServerToolUse, Text, ToolUse
from tenuto.core.events import CitationDelta, ContentDelta, MessageDelta, SignatureDelta, TextDelta, UsageUpdate
from tenuto.core.jsonio import NULL, Fields, object_or_empty
from tenuto.core.messages import AssistantMessage, StopReason, Usage
from tenuto.core.provider import Target
from tenuto.core.response import ChatResponse, Choice
from tenuto.errors import ProtocolError
from tenuto.wire.anthropic import protocol
from tenuto.wire.anthropic.blocks import read_block, read_citation, write_block
from tenuto.wire.assembler import DELTAS, BlockSlot, MergedFields, merge_fields
from tenuto.wire.decoder import Decoder
from tenuto.wire.provider_errors import classify_error

_decode_block_delta = msgspec.json.Decoder(protocol.BlockDelta).decode
_FREQUENT_DELTAS: dict[
    type[Block], type[protocol.WireTextDelta | protocol.WireThinkingDelta | protocol.WireJsonDelta]
] = {
    Text: protocol.WireTextDelta,
    Reasoning: protocol.WireThinkingDelta,
    ToolUse: protocol.WireJsonDelta,
    ServerToolUse: protocol.WireJsonDelta,
}
"""The frequent delta that a block accepts."""
_TEXT_FIELDS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_BLOCK_TYPES: dict[str, tuple[type[Block], ...]] = {
    "text_delta": (Text,),
    "thinking_delta": (Reasoning,),
    "input_json_delta": (ToolUse, ServerToolUse),
    "signature_delta": (Reasoning, Marker),
    "citations_delta": (Text,),
    "compaction_delta": (Marker,),
}
"""The blocks that accept a delta."""
_CONSTANT_FIELDS = {"type": Raw(b'"message"'), "role": Raw(b'"assistant"')}
_SHOWN = 200  # how many characters of a frame or field a loss shows


class AnthropicDecoder(Decoder):
    dialect = "anthropic-messages"

    def __init__(self, target: Target, *, seed: str = "", audio_format: str = "") -> None:
        super().__init__(target, seed=seed, audio_format=audio_format)
        self._reset()

    def _reset(self) -> None:
        self._builder = self.parts()
        self._open: dict[int, BlockSlot] = {}  # the open blocks by `index`
        self._inputs: dict[int, str] = {}  # `input` in the start frame of each open call
        self._citations: dict[int, list[Citation]] = {}
        """Citations received for open blocks, by slot. Adding each one to its block at once would cost quadratic time."""
        self._started = False
        self._stop_reason: StopReason | None = None
        self._raw_stop_reason: str | None = None
        self._usage_fields: Fields = {}
        self._usage: Usage | None = None
        self._fields = MergedFields()  # fields of the message that have no typed form
        self._wire_names: dict[int, tuple[Block, frozenset[str]]] = {}

    def frame(self, name: bytes, data: bytes) -> None:
        try:
            frame = _decode_block_delta(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._read_frame(name, data)
            return
        slot = self._open.get(frame.index)
        delta = frame.delta
        if slot is None or _FREQUENT_DELTAS.get(type(slot.block)) is not type(delta):
            self._read_delta(frame.index, Raw(msgspec.json.encode(delta)))
            return
        text = delta.text
        slot.pieces.append(text)
        self.out.append(ContentDelta(0, slot.index, DELTAS[type(slot.block)](text)))

    def body(self, data: bytes) -> None:
        fields = jsonio.members(data)
        if jsonio.text_of(fields.get("type")) == "error" or "error" in fields:
            raise classify_error(data)
        if "content" not in fields:
            raise ProtocolError("the response body has no message", frame=data)
        self._start_message(fields)
        self._stop_message()

    def response(self, *, partial: bool) -> ChatResponse:
        assembler = self._builder.assembler
        for slot in self._open.values():
            self._add_citations(slot)
        blocks = tuple(assembler.unfinished() if partial else assembler.finalize())
        stop, raw_stop, extra = self._stop_reason, self._raw_stop_reason, self._fields.text()
        message = AssistantMessage(blocks, stop, raw_stop, self.origin(), extra, partial)
        usage = self._usage if self.ended else protocol.USAGE_TABLE.read(self._usage_fields)[0]
        return self.make_response([Choice(message)], usage, jsonio.object_text(self._usage_fields))

    def _read_frame(self, name: bytes, data: bytes) -> None:
        fields = self.parse_object(data, ended=self.ended)
        if fields is None:
            return
        kind = jsonio.text_of(fields.get("type"))
        if kind == "error" or name == b"error":
            raise classify_error(data)
        if self.ended:
            if kind != "ping" and not (kind == "message_stop" and len(fields) == 1):
                self.record_loss("after-the-end", "stream", f"{kind}: {data[:_SHOWN]!r}")
            return
        if kind not in protocol.FRAMES:
            self.record_loss("unknown-event", "stream", f"{kind or name.decode('utf-8', 'replace')}: {data[:_SHOWN]!r}")
            return
        if not self._started and kind not in ("message_start", "ping"):
            raise ProtocolError(f"{kind} before message_start", frame=data)
        if kind == "message_start":
            self._start_message(jsonio.members(fields["message"]))
        elif kind == "message_delta":
            self._merge_usage(fields.get("usage"))
            changes = jsonio.members(fields["delta"]) if fields.get("delta", NULL) != NULL else {}
            self._read_stop_reason(changes)
            merge_fields(self._fields, changes.items())
        elif kind == "message_stop":
            self._stop_message()
        elif kind != "ping":
            index = jsonio.decode_as(fields["index"], int)
            is_open, place = index in self._open, f"blocks[{index}]"
            if kind == "content_block_delta":
                self._read_delta(index, fields["delta"])
            elif kind == "content_block_stop" and is_open:
                self._stop_block(index)
            elif kind == "content_block_stop":
                self.record_loss("orphan-stop", place, "a stop for a block that is not open")
            elif is_open:
                self.record_loss("duplicate-start", place, jsonio.as_text(fields["content_block"])[:_SHOWN])
            else:
                self._start_block(index, read_block(fields["content_block"]))
        unknown = [(field, value) for field, value in fields.items() if field not in protocol.FRAMES[kind]]
        if kind.startswith("message_"):
            merge_fields(self._fields, unknown)
            return
        for field, value in unknown:
            self.record_once((kind, field), "unknown-field", kind, f"{field}: {jsonio.as_text(value)[:_SHOWN]}")

    def _start_message(self, message: Fields) -> None:
        if self._started:
            self.record_loss("restarted", "stream", f"the provider started the reply again: {self.id} is discarded")
            self._reset()
        self.id = jsonio.text_of(message.pop("id", None))
        self.model = jsonio.text_of(message.pop("model", None))
        for name, constant in _CONSTANT_FIELDS.items():
            if message.get(name) == constant:
                del message[name]
        content = message.pop("content", None)
        self._merge_usage(message.pop("usage", None))
        self.emit_start()
        for index, raw in enumerate(jsonio.elements(content) if content is not None else ()):
            self._start_block(index, read_block(raw))
            self._stop_block(index)
        self._read_stop_reason(message)
        self._fields = MergedFields(message)

    def _stop_message(self) -> None:
        for index in list(self._open):
            self._stop_block(index)
        self.ended = True
        self.out.append(MessageDelta(0, self._stop_reason, self._raw_stop_reason))
        self._usage, losses = protocol.USAGE_TABLE.read(self._usage_fields)
        self.losses += losses
        if self._usage is not None:
            self.out.append(UsageUpdate(self._usage))

    def _read_stop_reason(self, fields: Fields) -> None:
        reason = jsonio.text_of(fields.pop("stop_reason", None))
        if reason:
            self.record_change("stop_reason", self._raw_stop_reason, reason)
            self._raw_stop_reason, self._stop_reason = reason, protocol.STOP_REASONS.get(reason, "stop")

    def _merge_usage(self, raw: Raw | None) -> None:
        """Overwrite the usage key by key. Null does not replace a value."""
        if raw is not None and raw != NULL:
            for name, value in jsonio.members(raw).items():
                if value != NULL or name not in self._usage_fields:
                    self._usage_fields[name] = value

    def _start_block(self, index: int, block: Block) -> None:
        if isinstance(block, Text | Reasoning) and block.text:
            slot = self._builder.start(msgspec.structs.replace(block, text=""))
            self._builder.append(slot, block.text)
        elif isinstance(block, ToolUse | ServerToolUse):
            self._inputs[index] = block.args
            slot = self._builder.start(msgspec.structs.replace(block, args=""))
        else:
            if isinstance(block, Marker) and block.kind == "fallback":
                to = jsonio.members(block.extra).get("to") if block.extra else None
                model = jsonio.members(to).get("model") if to is not None else None
                self.model = jsonio.text_of(model) or self.model
            slot = self._builder.start(block)
        self._open[index] = slot

    def _stop_block(self, index: int) -> None:
        slot = self._open.pop(index)
        if self._citations:
            self._add_citations(slot)
        # `input` of the start frame is a placeholder, unless no delta follows.
        start_input = self._inputs.pop(index, "")
        if start_input and not any(slot.pieces):
            self._builder.append(slot, start_input)
        elif start_input.strip() not in ("", "{}"):
            self.record_loss("replaced-input", f"blocks[{index}]", f"deltas replaced {start_input[:_SHOWN]}")
        self._builder.finish(slot)

    def _add_citations(self, slot: BlockSlot) -> None:
        """Move the citations received for a block into it."""
        citations = self._citations.pop(slot.index, None)
        if citations is not None:
            assert isinstance(slot.block, Text)
            slot.extra().pop("citations", None)  # the empty list or null of the start frame
            slot.block = msgspec.structs.replace(slot.block, citations=(*slot.block.citations, *citations))

    def _read_delta(self, index: int, raw: Raw) -> None:
        """Apply a delta to its block. A delta for another type of block is a loss: as an extra field it would be refused."""
        place, slot = f"blocks[{index}]", self._open.get(index)
        if self.ended:
            self.record_loss("after-the-end", "stream", f"content_block_delta: {jsonio.as_text(raw)[:_SHOWN]}")
            return
        if slot is None:
            self.record_loss("orphan-delta", place, jsonio.as_text(raw)[:_SHOWN])
            return
        delta = jsonio.members(raw)
        kind = jsonio.text_of(delta.pop("type", None))
        block_types = _BLOCK_TYPES.get(kind)
        if block_types is None:
            self.record_once((place, kind), "unknown-delta", place, f"{kind}: {jsonio.as_text(raw)[:_SHOWN]}")
        elif isinstance(slot.block, block_types):
            self._apply_delta(kind, slot, delta)
        elif not isinstance(slot.block, Marker | Opaque):  # it is not documented which deltas those accept
            self.record_loss("misplaced-delta", place, jsonio.as_text(raw)[:_SHOWN])
            return
        self._add_extra(slot, delta)

    def _apply_delta(self, kind: str, slot: BlockSlot, delta: Fields) -> None:
        """Apply a delta that its block accepts, and remove the fields it reads."""
        match kind:
            case "text_delta" | "thinking_delta" | "input_json_delta":
                self._builder.append(slot, jsonio.text_of(delta.pop(_TEXT_FIELDS[kind], None)))
            case "signature_delta":
                if signature := jsonio.text_of(delta.pop("signature", None)):
                    slot.extra().pop("signature", None)  # the empty one of the start frame
                    if slot.block.meta not in (None, AnthropicMeta(signature)):
                        place = f"blocks[{slot.index}]"
                        self.record_loss("signature-replaced", place, "a second signature for one block")
                    slot.block = msgspec.structs.replace(slot.block, meta=AnthropicMeta(signature))
                    self._builder.emit(slot, SignatureDelta(signature))
            case "citations_delta":
                if "citation" in delta:
                    citation = read_citation(delta.pop("citation"))
                    self._citations.setdefault(slot.index, []).append(citation)
                    self._builder.emit(slot, CitationDelta(citation))
            case "compaction_delta":
                assert isinstance(slot.block, Marker)
                meta = slot.block.meta  # the start frame has the signature
                signed = {"signature": meta.signature} if isinstance(meta, AnthropicMeta) else {}
                fields = {"type": slot.block.kind, **signed, **slot.extra().written(), **delta}
                delta.clear()
                block = read_block(Raw(jsonio.encode(fields)))
                if isinstance(block, Marker):
                    slot.block, slot.merged_extra = block, None
                    if block.text:
                        self._builder.emit(slot, TextDelta(block.text))

    def _add_extra(self, slot: BlockSlot, delta: Fields) -> None:
        """Add the unread fields of a delta to its block. A field that is typed, or replaces a value, is a loss."""
        unread = {name: value for name, value in delta.items() if name not in protocol.STREAM_ONLY and name != "type"}
        if not unread:
            return
        extra, place = slot.extra(), f"blocks[{slot.index}]"
        block, wire_names = self._wire_names.get(slot.index, (None, frozenset[str]()))
        if block is not slot.block:  # cached: writing a block costs as much as its size
            content = write_block(msgspec.structs.replace(slot.block, extra=""))
            wire_names = frozenset(content) if isinstance(content, dict) else frozenset()
            if isinstance(slot.block, ToolUse | ServerToolUse):
                wire_names |= {"input"}  # its pieces are not in the block yet
            self._wire_names[slot.index] = (slot.block, wire_names)
        for name in [name for name in unread if name in wire_names and name not in extra]:
            self.record_loss("misplaced-delta", place, f"{name}: {jsonio.as_text(unread.pop(name))[:_SHOWN]}")
        for name, value in unread.items():
            old = extra.scalar(name)
            if old is not None and old != NULL and value not in (NULL, old):
                self.record_loss("replaced-field", place, f"{name}: {jsonio.as_text(old)[:_SHOWN]}")
        merge_fields(extra, unread.items())


def cache_miss_reason(response: ChatResponse) -> str:
    """Read `diagnostics`: null without a difference; `pending` if the provider was still comparing."""
    extra = response.message.extra
    diagnostics = jsonio.members(extra).get("diagnostics", NULL) if extra else NULL
    if diagnostics == NULL:
        return ""
    reason = object_or_empty(diagnostics).get("cache_miss_reason", NULL)
    return "pending" if reason == NULL else jsonio.text_of(object_or_empty(reason).get("type"))
