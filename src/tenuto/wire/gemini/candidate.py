"""Decode one candidate of a Gemini reply: its parts become blocks.

Text parts of a stream with the same `thought` flag and the same other fields extend one block. A part with a signature
is a block of its own. The parts of a body that did not stream are not joined: each is one block.

Grounding cites text that came earlier. So after the first grounding of a candidate, the `ContentDone` of its texts
waits until the candidate ends.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tenuto.core import jsonio
from tenuto.core.blocks import (
    Audio,
    Block,
    CodeExecution,
    GeminiMeta,
    Image,
    ProviderMeta,
    Reasoning,
    ServerToolUse,
    Text,
    ToolUse,
    UrlCitation,
)
from tenuto.core.events import (
    ArgumentsDelta,
    AudioDelta,
    CitationDelta,
    CodeDelta,
    Delta,
    ImageDelta,
    MessageDelta,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
)
from tenuto.core.loss import Loss
from tenuto.core.messages import StopReason
from tenuto.wire.assembler import GROWS, BlockSlot
from tenuto.wire.choice_builder import ChoiceBuilder
from tenuto.wire.gemini.grounding import cite_texts
from tenuto.wire.gemini.partial_args import PartialArgs
from tenuto.wire.gemini.parts import part_data, read_part, take_signature
from tenuto.wire.gemini.protocol import PART_FIELDS, STOP_REASONS, THOUGHT_FALSE, to_camel_case
from tenuto.wire.merge import MergedFields, merge_fields
from tenuto.wire.rawjson import NULL, Fields, is_null, is_object

_DELTAS: dict[type[Block], Callable[[str], Delta]] = {
    ToolUse: ArgumentsDelta,
    ServerToolUse: ArgumentsDelta,
    CodeExecution: CodeDelta,
    Image: ImageDelta,
    Audio: AudioDelta,
}


class _StreamedCall:
    """A call whose arguments arrive in several parts."""

    __slots__ = ("args", "fields", "meta", "slot")

    def __init__(self, slot: BlockSlot, args: PartialArgs) -> None:
        self.slot = slot
        self.args = args
        self.meta: GeminiMeta | None = None
        self.fields = MergedFields()

    def block(self) -> ToolUse:
        block = self.slot.block
        assert isinstance(block, ToolUse)
        return msgspec.structs.replace(
            block,
            args=self.args.text() if self.args.touched else "",
            args_missing=not self.args.touched,
            meta=self.meta,
            extra=self.fields.text(),
        )


class CandidateDecoder:
    """Builds the message of one candidate.

    `call_id` makes the id of the call with a number. `joins_text`: text parts extend the open block.
    """

    def __init__(self, parts: ChoiceBuilder, call_id: Callable[[int], str], *, joins_text: bool) -> None:
        self.index = parts.choice
        self.slot: BlockSlot | None = None
        """The open text or reasoning."""
        self.thought_flag: bool | UnsetType | None = None
        """The `thought` of hot parts that extend `slot`; None: hot parts do not extend it."""
        self.fields = MergedFields()
        self.has_grounding = False
        """Set at the first grounding, before the parts of that chunk are added."""
        self.raw_stop: str | None = None
        self.stop_reason: StopReason | None = None
        self._parts = parts
        self._call_id = call_id
        self._joins_text = joins_text
        self._call_count = 0
        self._open_call: _StreamedCall | None = None
        self._after_streamed_call = False
        self._texts: list[BlockSlot] = []
        self._uncited: list[BlockSlot] = []
        """Closed texts whose `ContentDone` waits for citations."""
        self._grounding = b"null"
        """The grounding that was last converted to citations."""

    def add_part(self, raw: Raw) -> None:
        fields = to_camel_case(jsonio.members(raw), PART_FIELDS)
        call = part_data(fields, "functionCall")
        if call is not None and self._add_call_piece(fields, call):
            return
        block = read_part(raw, fields, functools.partial(self._call_id, self._call_count))
        if isinstance(block, Text | Reasoning):
            self.add_text(block)
            return
        self._close_open()
        if isinstance(block, ToolUse):
            self._call_count += 1
        field = GROWS.get(type(block))
        value = getattr(block, field) if field is not None else ""
        slot = self._parts.start(msgspec.structs.replace(block, meta=None, **({field: ""} if field else {})))
        if value:
            self._parts.emit(slot, _DELTAS[type(block)](value))
        self._emit_signature(slot, block.meta)
        self._parts.finish(slot, block)

    def add_text(self, block: Text | Reasoning) -> None:
        """Extend the open block if both have the same type and fields and no signature; else start a block."""
        delta = TextDelta(block.text) if isinstance(block, Text) else ThinkingDelta(block.text)
        slot = self.slot
        is_unsigned = block.meta is None
        if slot is not None and is_unsigned and type(slot.block) is type(block) and slot.block.extra == block.extra:
            if block.text:
                self._parts.append(slot, block.text, delta)
            return
        self._close_open()
        slot = self._parts.start(msgspec.structs.replace(block, text="", meta=None))
        if isinstance(block, Text):
            self._texts.append(slot)
        if block.text:
            self._parts.append(slot, block.text, delta)
        if self._joins_text and is_unsigned:
            self.slot = slot
            self.thought_flag = _thought_flag(block)
        else:
            self._emit_signature(slot, block.meta)
            self._close_text(slot, block)

    def set_finish_reason(self, raw: str, name: str) -> None:
        """End the candidate. `raw` is the provider's text or number, `name` the finish reason that it means."""
        self.close()
        if self.raw_stop and self.raw_stop != raw:
            change = f"{self.raw_stop} became {raw} within one reply"
            self._parts.losses.append(Loss("changed-field", f"candidates[{self.index}].finishReason", change))
        self.raw_stop = raw
        self.stop_reason = STOP_REASONS.get(name, "error" if name.startswith("MALFORMED_") else "stop")
        if self._call_count and self.stop_reason == "stop":  # Gemini has no finish reason for tool calls
            self.stop_reason = "tool_calls"
        self._parts.out.append(MessageDelta(self.index, self.stop_reason, raw))

    def blocks(self, *, partial: bool) -> tuple[Block, ...]:
        """Return the blocks. `partial`: with the open ones, without their signatures."""
        assembler = self._parts.assembler
        if not partial:
            return tuple(assembler.finalize())
        blocks = assembler.unfinished()
        if self._open_call is not None:
            blocks[self._open_call.slot.index] = msgspec.structs.replace(
                self._open_call.block(), meta=None, args_error="the arguments were cut off"
            )
        return tuple(blocks)

    def close(self) -> None:
        """Close all blocks and add the citations. Texts that are done are not changed."""
        self._close_open()
        grounding = self.fields.get("groundingMetadata", NULL)
        citations: dict[int, tuple[UrlCitation, ...]] = {}
        if bytes(grounding) != self._grounding:
            self._grounding = bytes(grounding)
            texts = [(slot.index, block.text) for slot in self._texts if isinstance(block := slot.joined(), Text)]
            citations = cite_texts(grounding, texts)
        for slot in self._uncited:
            block_citations = citations.pop(slot.index, ())
            for citation in block_citations:
                self._parts.emit(slot, CitationDelta(citation))
            block = slot.block
            if block_citations:
                block = msgspec.structs.replace(block, citations=block_citations)
            self._parts.finish(slot, block)
        self._uncited.clear()
        if citations:
            self._record_loss("late-citations", f"grounding of finished texts: {', '.join(map(str, citations))}")

    def _close_open(self) -> None:
        """Close the open text and the open call."""
        self._close_call()
        self._after_streamed_call = False
        if self.slot is not None:
            self._close_text(self.slot, None)
            self.slot = self.thought_flag = None

    def _close_text(self, slot: BlockSlot, block: Block | None) -> None:
        if self.has_grounding and isinstance(slot.block, Text):
            self._parts.assembler.finish(slot, block)
            self._uncited.append(slot)
        else:
            self._parts.finish(slot, block)

    def _add_call_piece(self, fields: Fields, data: Fields) -> bool:
        """Add a part to a streamed call; return False if the part is a complete call.

        `data` has the fields of `functionCall`.
        """
        continues = bytes(data.get("willContinue", NULL)) == b"true"
        if jsonio.text_of(data.get("name")):
            if "partialArgs" not in data and not (continues and self._joins_text):
                return False
            self._close_open()
            name, id = jsonio.text_of(data.pop("name")), jsonio.text_of(data.pop("id", None))
            args = data.pop("args", NULL)
            block = ToolUse(id or self._call_id(self._call_count), name, "", id_generated=not id)
            self._call_count += 1
            self._open_call = _StreamedCall(self._parts.start(block), PartialArgs(args if is_object(args) else None))
        elif self._open_call is None:
            # An empty call ends the arguments. It may follow a part that has ended them already.
            return self._after_streamed_call and not data and len(fields) == 1
        call = self._open_call
        assert call is not None
        data.pop("willContinue", None)
        partial_args = data.pop("partialArgs", NULL)
        if not is_null(partial_args) and (unread := call.args.add(partial_args)):
            self._record_loss("unread-argument", ", ".join(unread))
        meta = take_signature(fields)
        if meta is not None and call.meta not in (None, meta):
            self._record_loss("second-signature", "a call has two signatures; the first one counts")
        call.meta = call.meta or meta
        del fields["functionCall"]
        merge_fields(call.fields, fields.items())
        if data:
            merge_fields(call.fields, (("functionCall", Raw(jsonio.encode(data))),))
        if not continues:
            self._close_call()
        return True

    def _close_call(self) -> None:
        if self._open_call is None:
            return
        call, self._open_call, self._after_streamed_call = self._open_call, None, True
        block = call.block()
        if block.args:
            self._parts.emit(call.slot, ArgumentsDelta(block.args))
        self._emit_signature(call.slot, call.meta)
        self._parts.finish(call.slot, block)

    def _emit_signature(self, slot: BlockSlot, meta: ProviderMeta | None) -> None:
        if isinstance(meta, GeminiMeta):
            self._parts.emit(slot, SignatureDelta(meta.thought_signature))

    def _record_loss(self, kind: str, detail: str) -> None:
        self._parts.losses.append(Loss(kind, f"choices[{self.index}]", detail))


def _thought_flag(block: Text | Reasoning) -> bool | UnsetType | None:
    if isinstance(block, Reasoning):
        return None if block.extra else True
    if block.extra:
        return False if block.extra == THOUGHT_FALSE else None
    return UNSET
