"""One candidate of a Gemini reply on its way: its parts become blocks.

Text chunks of one kind (thought or not) and with the same other fields grow one block; a signed part is never grown, and
closes what was open. A body that did not stream holds its parts as the model made them: there nothing is joined, so
that each block is one part.

Grounding cites texts that have come before it. So once a candidate speaks of grounding, the last word on its texts is
said when it ends.
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
from tenuto.wire.decoder import ChoiceBuilder
from tenuto.wire.gemini.grounding import citations
from tenuto.wire.gemini.partial_args import PartialArgs
from tenuto.wire.gemini.parts import inner_of, read_part, signature_of
from tenuto.wire.gemini.protocol import PART, STOP_REASONS, THOUGHT_FALSE, Fields, camel
from tenuto.wire.merge import MergedFields, merge_fields

__all__ = ["CandidateDecoder"]

_NULL = Raw(b"null")


class _Call:
    """A call whose arguments are still arriving."""

    __slots__ = ("args", "fields", "meta", "slot")

    def __init__(self, slot: BlockSlot, args: PartialArgs) -> None:
        self.slot = slot
        self.args = args
        self.meta: GeminiMeta | None = None
        self.fields = MergedFields()


class CandidateDecoder:
    """A candidate. `slot` is the text that may still grow, `kind` its `thought` flag; None where there is none.

    `joins` tells whether text grows at all. `new_id` makes the id of the call with this number. `grounded` is set as
    soon as the candidate speaks of grounding, before the parts of that chunk are taken.
    """

    def __init__(self, parts: ChoiceBuilder, new_id: Callable[[int], str], *, joins: bool) -> None:
        self.index = parts.choice
        self.slot: BlockSlot | None = None
        self.kind: bool | UnsetType | None = None
        self.fields = MergedFields()
        self.grounded = False
        self.raw_stop: str | None = None
        self.stop_reason: StopReason | None = None
        self._parts = parts
        self._new_id = new_id
        self._joins = joins
        self._calls = 0
        self._call: _Call | None = None
        self._streamed = False
        self._texts: list[BlockSlot] = []
        self._held: list[BlockSlot] = []
        self._grounding = b"null"

    # --- parts --------------------------------------------------------------------------------------------------------

    def take(self, raw: Raw) -> None:
        """Take one part."""
        fields = camel(jsonio.members(raw), PART)
        call = inner_of(fields, "functionCall")
        if call is not None and self._streams(fields, call):
            return
        block = read_part(raw, fields, functools.partial(self._new_id, self._calls))
        if isinstance(block, Text | Reasoning):
            self.say(block)
        else:
            self.settle()
            self._whole(block)

    def say(self, block: Text | Reasoning) -> None:
        """Take a piece of text: it grows the open block if both are alike and unsigned, else it begins one."""
        delta = TextDelta(block.text) if isinstance(block, Text) else ThinkingDelta(block.text)
        slot = self.slot
        if slot is not None and block.meta is None and _alike(slot.block, block):
            if block.text:
                self._parts.append(slot, block.text, delta)
            return
        self.settle()
        slot = self._parts.start(msgspec.structs.replace(block, text="", meta=None))
        if isinstance(block, Text):
            self._texts.append(slot)
        if block.text:
            self._parts.append(slot, block.text, delta)
        if self._joins and block.meta is None:
            self.slot = slot
            self.kind = _kind(block)
        else:
            self._sign(slot, block.meta)
            self._close(slot, block)

    def settle(self) -> None:
        """Close what is open."""
        self._end_call()
        self._streamed = False
        if self.slot is not None:
            self._close(self.slot, None)
            self.slot = self.kind = None

    def stop(self, raw: str, word: str) -> None:
        """The candidate ended: `raw` is what the provider said, `word` the finish reason that it names."""
        self.end()
        if self.raw_stop and self.raw_stop != raw:
            place, what = f"candidates[{self.index}].finishReason", f"{self.raw_stop} became {raw} within one reply"
            self._parts.losses.append(Loss("changed-field", place, what))
        self.raw_stop = raw
        self.stop_reason = STOP_REASONS.get(word, "error" if word.startswith("MALFORMED_") else "stop")
        if self._calls and self.stop_reason == "stop":  # a turn that calls tools ends as any other
            self.stop_reason = "tool_calls"
        self._parts.out.append(MessageDelta(self.index, self.stop_reason, raw))

    def blocks(self, *, partial: bool) -> tuple[Block, ...]:
        """Return the blocks; `partial` takes those that are still open too, without their tokens."""
        assembler = self._parts.assembler
        if not partial:
            return tuple(assembler.finalize())
        blocks = assembler.unfinished()
        if self._call is not None:
            cut = msgspec.structs.replace(_called(self._call), meta=None, args_error="the arguments were cut off")
            blocks[self._call.slot.index] = cut
        return tuple(blocks)

    def end(self) -> None:
        """Close everything, and cite what grounding says. Texts on which the last word was said are left as they are."""
        self.settle()
        grounding = self.fields.get("groundingMetadata", _NULL)
        cited: dict[int, tuple[UrlCitation, ...]] = {}
        if bytes(grounding) != self._grounding:
            self._grounding = bytes(grounding)
            cited = citations(grounding, [(slot.index, _text_of(slot)) for slot in self._texts])
        for slot in self._held:
            self._release(slot, cited.pop(slot.index, ()))
        self._held.clear()
        if cited:
            self._lose("late-citations", f"grounding of finished texts: {', '.join(map(str, cited))}")

    def _whole(self, block: Block) -> None:
        if isinstance(block, ToolUse):
            self._calls += 1
        field = GROWS.get(type(block))
        value = getattr(block, field) if field is not None else ""
        bare = msgspec.structs.replace(block, meta=None, **({field: ""} if field is not None else {}))
        slot = self._parts.start(bare)
        if value:
            self._parts.emit(slot, _DELTAS[type(block)](value))
        self._sign(slot, block.meta)
        self._parts.finish(slot, block)

    def _sign(self, slot: BlockSlot, meta: ProviderMeta | None) -> None:
        if isinstance(meta, GeminiMeta):
            self._parts.emit(slot, SignatureDelta(meta.thought_signature))

    def _lose(self, rule: str, what: str) -> None:
        self._parts.losses.append(Loss(rule, f"choices[{self.index}]", what))

    # --- calls that stream --------------------------------------------------------------------------------------------

    def _streams(self, fields: Fields, call: Fields) -> bool:
        """Take a piece of a call that streams; return False for a call that comes whole."""
        goes_on = bytes(call.get("willContinue", _NULL)) == b"true"
        if jsonio.text_of(call.get("name")):
            if "partialArgs" not in call and not (goes_on and self._joins):
                return False
            self.settle()
            self._call = self._begin_call(call)
        elif self._call is None:
            # The empty call that ends a stream of arguments may follow a piece that ended it already.
            return self._streamed and not call and len(fields) == 1
        assert self._call is not None
        self._grow(self._call, fields, call)
        if not goes_on:
            self._end_call()
        return True

    def _begin_call(self, call: Fields) -> _Call:
        name, id = jsonio.text_of(call.pop("name")), jsonio.text_of(call.pop("id", None))
        given = call.pop("args", _NULL)
        block = ToolUse(id or self._new_id(self._calls), name, "", id_generated=not id)
        self._calls += 1
        return _Call(self._parts.start(block), PartialArgs(given if bytes(given)[:1] == b"{" else None))

    def _grow(self, open_call: _Call, fields: Fields, call: Fields) -> None:
        call.pop("willContinue", None)
        partial = call.pop("partialArgs", _NULL)
        if bytes(partial) != b"null" and (unread := open_call.args.take(partial)):
            self._lose("unread-argument", ", ".join(unread))
        meta = signature_of(fields)
        if meta is not None and open_call.meta not in (None, meta):
            self._lose("second-signature", "a call was signed twice; the first signature counts")
        open_call.meta = open_call.meta or meta
        del fields["functionCall"]
        merge_fields(open_call.fields, fields.items())
        if call:
            merge_fields(open_call.fields, (("functionCall", Raw(jsonio.encode(call))),))

    def _end_call(self) -> None:
        if self._call is None:
            return
        call, self._call, self._streamed = self._call, None, True
        block = _called(call)
        if block.args:
            self._parts.emit(call.slot, ArgumentsDelta(block.args))
        self._sign(call.slot, call.meta)
        self._parts.finish(call.slot, block)

    # --- citations ----------------------------------------------------------------------------------------------------

    def _close(self, slot: BlockSlot, block: Block | None) -> None:
        """Close a text; the last word on it waits where citations may still come."""
        if self.grounded and isinstance(slot.block, Text):
            self._parts.assembler.finish(slot, block)
            self._held.append(slot)
        else:
            self._parts.finish(slot, block)

    def _release(self, slot: BlockSlot, cited: tuple[UrlCitation, ...]) -> None:
        for citation in cited:
            self._parts.emit(slot, CitationDelta(citation))
        self._parts.finish(slot, msgspec.structs.replace(slot.block, citations=cited) if cited else None)


def _alike(begun: Block, block: Text | Reasoning) -> bool:
    return type(begun) is type(block) and begun.extra == block.extra


def _kind(block: Text | Reasoning) -> bool | UnsetType | None:
    """Say which chunks of the hot path may grow a block; None if its other fields leave that to the cold one."""
    if isinstance(block, Reasoning):
        return None if block.extra else True
    if block.extra:
        return False if block.extra == THOUGHT_FALSE else None
    return UNSET


def _text_of(slot: BlockSlot) -> str:
    block = slot.joined()
    assert isinstance(block, Text)
    return block.text


def _called(call: _Call) -> ToolUse:
    block = call.slot.block
    assert isinstance(block, ToolUse)
    return msgspec.structs.replace(
        block,
        args=call.args.text() if call.args.touched else "",
        args_missing=not call.args.touched,
        meta=call.meta,
        extra=call.fields.text(),
    )


_DELTAS: dict[type[Block], Callable[[str], Delta]] = {
    ToolUse: ArgumentsDelta,
    ServerToolUse: ArgumentsDelta,
    CodeExecution: CodeDelta,
    Image: ImageDelta,
    Audio: AudioDelta,
}
