"""Anthropic Messages, from the wire: frames in, events out.

Blocks are keyed by `index`; several may be open at once. `signature_delta` and `compaction_delta` set, the other deltas
append, `message_delta` overwrites usage key by key. A second `message_start` voids what was assembled. A body that did
not stream is a `message_start` that already carries its content.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import AnthropicMeta, Block, Citation, Marker, Opaque, Reasoning, ServerToolUse, Text, ToolUse
from tenuto.core.events import (
    ArgumentsDelta,
    CitationDelta,
    ContentDelta,
    MessageDelta,
    MessageStart,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    UsageUpdate,
)
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, StopReason, Usage
from tenuto.core.provider import Target
from tenuto.core.response import ChatResponse, Choice
from tenuto.errors import ProtocolError
from tenuto.wire.anthropic import blocks as wire
from tenuto.wire.anthropic.protocol import (
    FRAMES,
    HOT,
    STOP_REASONS,
    STREAM_ONLY,
    BlockDelta,
    JsonPiece,
    TextPiece,
    ThinkingPiece,
)
from tenuto.wire.anthropic.usage import usage_of
from tenuto.wire.assembler import BlockSlot
from tenuto.wire.decoder import Decoder
from tenuto.wire.merge import MergedFields, merge_fields
from tenuto.wire.provider_errors import classify_error

__all__ = ["AnthropicDecoder"]

Fields = dict[str, Raw]
_HOT = HOT.decode
_TAKES: dict[type[Block], type] = {
    Text: TextPiece,
    Reasoning: ThinkingPiece,
    ToolUse: JsonPiece,
    ServerToolUse: JsonPiece,
}
_CONSTANT = {"type": Raw(b'"message"'), "role": Raw(b'"assistant"')}
_NULL = Raw(b"null")
_NOT_OPEN = (None, None)


class AnthropicDecoder(Decoder):
    """Reads one reply in the Anthropic Messages dialect."""

    dialect = "anthropic-messages"

    def __init__(self, target: Target, *, seed: str = "", audio_format: str = "") -> None:
        super().__init__(target, seed=seed, audio_format=audio_format)
        self._stopped = False
        self._begun = False
        self._strange: set[tuple[str, str]] = set()
        self._clear()

    def _clear(self) -> None:
        self._parts = self.parts()
        self._open: dict[int, tuple[BlockSlot, type | None]] = {}
        self._inputs: dict[int, str] = {}
        self._cited: dict[int, list[Citation]] = {}
        """Citations that came for open blocks, by the block's place: one tuple at the end, or the cost is quadratic."""
        self._id = ""
        self._model = ""
        self._raw_stop: str | None = None
        self._usage: Fields = {}
        self._counted: tuple[Usage | None, list[Loss]] | None = None
        self._fields = MergedFields()
        self._own_names: dict[int, tuple[Block, frozenset[str]]] = {}

    # --- the door of the dialect --------------------------------------------------------------------------------------

    def frame(self, name: bytes, data: bytes) -> None:
        try:
            hot = _HOT(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._cold(name, data)
            return
        slot, takes = self._open.get(hot.index, _NOT_OPEN)
        delta = hot.delta
        if slot is None or takes is not type(delta):
            self._misplaced(hot)
            return
        piece = delta.piece
        slot.pieces.append(piece)
        self.out.append(ContentDelta(0, slot.index, delta.tells(piece)))

    def body(self, data: bytes) -> None:
        fields = jsonio.members(data)
        kind = jsonio.text_of(fields.get("type"))
        if kind == "error" or "error" in fields:
            raise classify_error(data, provider=self.target.provider.name)
        if "content" not in fields:
            raise ProtocolError("the body holds no message", provider=self.target.provider.name, frame=data)
        self._start(fields)
        self._on_message_stop({})

    @property
    def ended(self) -> bool:
        return self._stopped

    def complete(self) -> bool:
        if self._stopped:
            self._close()
        return self._stopped

    def response(self, *, partial: bool) -> ChatResponse:
        assembler = self._parts.assembler
        for slot, _ in self._open.values():
            self._cite(slot)
        blocks = assembler.unfinished() if partial else assembler.finalize()
        message = AssistantMessage(
            tuple(blocks),
            self._stop_reason(),
            self._raw_stop,
            self.origin(self._model),
            self._fields.text(),
            incomplete=partial,
        )
        return ChatResponse(
            self._id,
            self.target.provider.name,
            self._model,
            (Choice(message),),
            self._counts()[0],
            jsonio.object_text(self._usage),
            losses=tuple(self.losses),
        )

    # --- frames -------------------------------------------------------------------------------------------------------

    def _cold(self, name: bytes, data: bytes) -> None:
        if data.strip() in (b"", b"[DONE]"):  # another dialect's last word: harmless, and none here
            return
        fields = self.parse_object(data, ended=self._stopped)
        if fields is None:
            return
        kind = jsonio.text_of(fields.get("type"))
        if kind == "error" or name == b"error":
            raise classify_error(data, provider=self.target.provider.name)
        read = self._frames.get(kind)
        if self._stopped:
            self._after_the_end(kind, fields, data)
        elif read is None:
            self.record_loss("unknown-event", "stream", f"{kind or name.decode('utf-8', 'replace')}: {data[:200]!r}")
        elif self._begun or kind in ("message_start", "ping"):
            beside = [(name, fields[name]) for name in fields if name not in FRAMES.get(kind, fields)]
            read(self, fields)
            self._beside(kind, beside)
        else:
            raise ProtocolError(f"{kind} before message_start", provider=self.target.provider.name, frame=data)

    def _after_the_end(self, kind: str, fields: Fields, data: bytes) -> None:
        """Record a frame after `message_stop`. A ping, or a second bare `message_stop`, says nothing."""
        if kind != "ping" and not (kind == "message_stop" and len(fields) == 1):
            self.record_loss("after-the-end", "stream", f"{kind}: {data[:200]!r}")

    def _beside(self, kind: str, fields: list[tuple[str, Raw]]) -> None:
        """Keep what stands beside the message of its first and last frame; elsewhere a frame has no place for it."""
        if kind in ("message_start", "message_stop"):
            merge_fields(self._fields, fields)
            return
        for name, value in fields:
            self._strangely("unknown-field", kind, name, value)

    def _strangely(self, rule: str, place: str, name: str, value: Raw) -> None:
        """Record the first of its kind: a stream that says it once may say it with every piece."""
        if (place, name) not in self._strange:
            self._strange.add((place, name))
            self.record_loss(rule, place, f"{name}: {jsonio.as_text(value)[:200]}")

    def _on_message_start(self, fields: Fields) -> None:
        self._start(jsonio.members(fields["message"]))

    def _start(self, message: Fields) -> None:
        if self._begun:
            self.record_loss("restarted", "stream", f"the provider began again: {self._id} is void")
            self._clear()
        self._begun = True
        self._stopped = False
        self._id = jsonio.text_of(message.pop("id", None))
        self._model = jsonio.text_of(message.pop("model", None))
        for name, constant in _CONSTANT.items():
            if message.get(name) == constant:
                del message[name]
        content = message.pop("content", None)
        self._take_usage(message.pop("usage", None))
        self.out.append(MessageStart(self._id, self._model))
        for index, raw in enumerate(jsonio.elements(content) if content is not None else ()):
            block = wire.read_block(raw)
            if isinstance(block, Text | Reasoning) and block.text:
                self._say(block)
            else:
                self._begin(index, block)
                self._end(index)
        self._take_stop(message)
        self._fields = MergedFields(message)

    def _on_block_start(self, fields: Fields) -> None:
        index = jsonio.decode_as(fields["index"], int)
        if index in self._open:
            self.record_loss("duplicate-start", f"blocks[{index}]", jsonio.as_text(fields["content_block"])[:200])
            return
        self._begin(index, wire.read_block(fields["content_block"]))

    def _on_block_stop(self, fields: Fields) -> None:
        index = jsonio.decode_as(fields["index"], int)
        if index in self._open:
            self._end(index)
        else:
            self.record_loss("orphan-stop", f"blocks[{index}]", "a stop for a block that is not open")

    def _say(self, block: Text | Reasoning) -> None:
        """Tell of a block that came whole: without its text at first, so that its deltas add up to it."""
        bare = msgspec.structs.replace(block, text="")
        delta = TextDelta(block.text) if isinstance(block, Text) else ThinkingDelta(block.text)
        self._parts.add(msgspec.structs.replace(block, text=jsonio.join_surrogates(block.text)), delta, bare)

    def _begin(self, index: int, block: Block) -> None:
        if isinstance(block, ToolUse | ServerToolUse):
            # The start frame holds a placeholder: pieces replace it, and it counts only where none come.
            self._inputs[index] = block.args
            block = msgspec.structs.replace(block, args="")
        elif isinstance(block, Marker) and block.kind == "fallback":
            self._fall_back(block)
        elif isinstance(block, Reasoning | Text) and block.text:
            self._open[index] = (self._grown(block), _TAKES[type(block)])
            return
        self._open[index] = (self._parts.start(block), _TAKES.get(type(block)))

    def _grown(self, block: Text | Reasoning) -> BlockSlot:
        """Begin a block that comes with text, so that its deltas add up to it."""
        slot = self._parts.start(msgspec.structs.replace(block, text=""))
        delta = TextDelta(block.text) if isinstance(block, Text) else ThinkingDelta(block.text)
        self._parts.append(slot, block.text, delta)
        return slot

    def _end(self, index: int) -> None:
        slot, _ = self._open.pop(index)
        self._cite(slot)
        given = self._inputs.pop(index, "")
        if given and not "".join(slot.pieces):
            self._parts.append(slot, given, ArgumentsDelta(given))
        elif given.strip() not in ("", "{}"):
            self.record_loss("replaced-input", f"blocks[{index}]", f"pieces replaced {given[:200]}")
        self._parts.finish(slot)

    def _fall_back(self, block: Marker) -> None:
        to = jsonio.members(block.extra).get("to") if block.extra else None
        model = jsonio.members(to).get("model") if to is not None else None
        self._model = jsonio.text_of(model) or self._model

    def _on_message_delta(self, fields: Fields) -> None:
        del fields["type"]
        self._take_usage(fields.pop("usage", None))
        delta = fields.pop("delta", None)
        if delta is not None and delta != _NULL:
            changed = jsonio.members(delta)
            self._take_stop(changed)
            merge_fields(self._fields, changed.items())
        merge_fields(self._fields, fields.items())

    def _on_message_stop(self, _: Fields) -> None:
        self._close()
        self._stopped = True
        self.out.append(MessageDelta(0, self._stop_reason(), self._raw_stop))
        usage, losses = self._counts()
        self.losses += losses
        if usage is not None:
            self.out.append(UsageUpdate(usage))

    def _close(self) -> None:
        for index in list(self._open):
            self._end(index)

    def _stop_reason(self) -> StopReason | None:
        return STOP_REASONS.get(self._raw_stop, "stop") if self._raw_stop else None

    def _take_stop(self, fields: Fields) -> None:
        word = jsonio.text_of(fields.pop("stop_reason", None))
        if word and self._raw_stop and word != self._raw_stop:
            self.record_loss("changed-field", "stop_reason", f"{self._raw_stop} became {word} within one reply")
        self._raw_stop = word or self._raw_stop

    # --- deltas -------------------------------------------------------------------------------------------------------

    def _misplaced(self, hot: BlockDelta) -> None:
        """Take a delta of the hot path that its block does not take, or that has no open block."""
        raw = Raw(msgspec.json.encode(hot.delta))
        if self._stopped:
            self.record_loss("after-the-end", "stream", f"content_block_delta: {jsonio.as_text(raw)[:200]}")
        elif hot.index not in self._open:
            self.record_loss("orphan-delta", f"blocks[{hot.index}]", jsonio.as_text(raw)[:200])
        else:
            self._take_delta(hot.index, raw)

    def _on_block_delta(self, fields: Fields) -> None:
        index = jsonio.decode_as(fields["index"], int)
        if index in self._open:
            self._take_delta(index, fields["delta"])
        else:
            self.record_loss("orphan-delta", f"blocks[{index}]", jsonio.as_text(fields["delta"])[:200])

    def _take_delta(self, index: int, raw: Raw) -> None:
        """Give a delta to its block. One for another type of block is a `Loss`: sent back, its field is refused."""
        slot = self._open[index][0]
        delta = jsonio.members(raw)
        kind = jsonio.text_of(delta.pop("type", None))
        read, takers = self._deltas.get(kind, (None, ()))
        if read is None:
            self._strangely("unknown-delta", f"blocks[{index}]", kind, raw)
        elif isinstance(slot.block, takers):
            read(self, slot, delta)
        elif not isinstance(slot.block, Marker | Opaque):  # nobody knows which deltas those take
            self.record_loss("misplaced-delta", f"blocks[{index}]", jsonio.as_text(raw)[:200])
            return
        self._keep(slot, delta)

    def _keep(self, slot: BlockSlot, delta: Fields) -> None:
        """Whatever a delta says that nobody reads becomes part of the block's extra fields.

        A field that the block already has would be told wrong by it, and one that comes anew replaces the last: both
        are a `Loss`.
        """
        rest = {name: value for name, value in delta.items() if name not in STREAM_ONLY and name != "type"}
        if not rest:
            return
        fields, place = slot.extra(), f"blocks[{slot.index}]"
        for name in [name for name in rest if name in self._names_of(slot) and name not in fields]:
            self.record_loss("misplaced-delta", place, f"{name}: {jsonio.as_text(rest.pop(name))[:200]}")
        for name, value in rest.items():
            old = fields.scalar(name)
            if old is not None and old != _NULL and value not in (_NULL, old):
                self.record_loss("replaced-field", place, f"{name}: {jsonio.as_text(old)[:200]}")
        merge_fields(fields, rest.items())

    def _names_of(self, slot: BlockSlot) -> frozenset[str]:
        """Return the wire names of a block's typed fields. They are cached: to write a block costs as much as its size."""
        block, names = self._own_names.get(slot.index, (None, frozenset[str]()))
        if block is not slot.block:
            written = wire.write_block(msgspec.structs.replace(slot.block, extra=""))
            names = frozenset(written) if isinstance(written, dict) else frozenset()
            self._own_names[slot.index] = (slot.block, names)
        return names

    def _on_text(self, slot: BlockSlot, delta: Fields) -> None:
        piece = jsonio.text_of(delta.pop("text", None))
        self._parts.append(slot, piece, TextDelta(piece))

    def _on_thinking(self, slot: BlockSlot, delta: Fields) -> None:
        piece = jsonio.text_of(delta.pop("thinking", None))
        self._parts.append(slot, piece, ThinkingDelta(piece))

    def _on_json(self, slot: BlockSlot, delta: Fields) -> None:
        piece = jsonio.text_of(delta.pop("partial_json", None))
        self._parts.append(slot, piece, ArgumentsDelta(piece))

    def _on_signature(self, slot: BlockSlot, delta: Fields) -> None:
        signature = jsonio.text_of(delta.pop("signature", None))
        if not signature:
            return
        slot.extra().pop("signature", None)  # the empty one that the start frame carried
        if slot.block.meta not in (None, AnthropicMeta(signature)):
            self.record_loss("signature-replaced", f"blocks[{slot.index}]", "a second signature came for one block")
        slot.block = msgspec.structs.replace(slot.block, meta=AnthropicMeta(signature))
        self._parts.emit(slot, SignatureDelta(signature))

    def _on_citation(self, slot: BlockSlot, delta: Fields) -> None:
        if "citation" not in delta:
            return
        citation = wire.citation(delta.pop("citation"))
        self._cited.setdefault(slot.index, []).append(citation)
        self._parts.emit(slot, CitationDelta(citation))

    def _cite(self, slot: BlockSlot) -> None:
        """Write the citations that came for a block into it."""
        cited = self._cited.pop(slot.index, None)
        if cited is None:
            return
        assert isinstance(slot.block, Text)
        slot.extra().pop("citations", None)  # the empty list or null that the start frame carried
        slot.block = msgspec.structs.replace(slot.block, citations=(*slot.block.citations, *cited))

    def _on_compaction(self, slot: BlockSlot, delta: Fields) -> None:
        assert isinstance(slot.block, Marker)
        fields = {**slot.extra().written(), **delta}
        written = Raw(jsonio.encode({"type": slot.block.kind, **fields}))
        delta.clear()
        block = wire.read_block(written)
        if isinstance(block, Marker):
            slot.replace(block)
            if block.text:
                self._parts.emit(slot, TextDelta(block.text))

    # --- usage --------------------------------------------------------------------------------------------------------

    def _take_usage(self, raw: Raw | None) -> None:
        if raw is not None and raw != _NULL:
            self._counted = None
            came = jsonio.members(raw)
            if self._usage:
                came = {name: value for name, value in came.items() if value != _NULL or name not in self._usage}
            self._usage |= came

    def _counts(self) -> tuple[Usage | None, list[Loss]]:
        if self._counted is None:
            self._counted = usage_of(self._usage)
        return self._counted

    _frames: ClassVar[dict[str, Callable[[AnthropicDecoder, Fields], None]]] = {
        "message_start": _on_message_start,
        "content_block_start": _on_block_start,
        "content_block_delta": _on_block_delta,
        "content_block_stop": _on_block_stop,
        "message_delta": _on_message_delta,
        "message_stop": _on_message_stop,
        "ping": lambda _, __: None,
    }
    _deltas: ClassVar[
        dict[str, tuple[Callable[[AnthropicDecoder, BlockSlot, Fields], None], tuple[type[Block], ...]]]
    ] = {
        "text_delta": (_on_text, (Text,)),
        "thinking_delta": (_on_thinking, (Reasoning,)),
        "input_json_delta": (_on_json, (ToolUse, ServerToolUse)),
        "signature_delta": (_on_signature, (Reasoning, Marker)),
        "citations_delta": (_on_citation, (Text,)),
        "compaction_delta": (_on_compaction, (Marker,)),
    }
    """How each delta is read, and the blocks that take it."""
