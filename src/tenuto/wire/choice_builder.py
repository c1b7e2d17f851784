"""Build the blocks of one choice and emit the matching events."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tenuto.core import jsonio
from tenuto.core.blocks import Audio, Block, CodeExecution, Image, Reasoning, Refusal, ServerToolUse, Text, ToolUse
from tenuto.core.events import (
    ArgumentsDelta,
    AudioDelta,
    CodeDelta,
    ContentDelta,
    ContentDone,
    ContentStart,
    Delta,
    ImageDelta,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
)
from tenuto.core.loss import Location, Loss
from tenuto.wire.assembler import BlockAssembler, BlockSlot

DELTAS: dict[type[Block], Callable[[str], Delta]] = {
    Text: TextDelta,
    Refusal: TextDelta,
    Reasoning: ThinkingDelta,
    ToolUse: ArgumentsDelta,
    ServerToolUse: ArgumentsDelta,
    CodeExecution: CodeDelta,
    Image: ImageDelta,
    Audio: AudioDelta,
}
"""The delta for a piece of a block."""


class ChoiceBuilder:
    """The blocks of one choice. Events are appended to `out`, losses to `losses`."""

    __slots__ = ("assembler", "choice", "losses", "out")

    def __init__(self, out: list[StreamEvent], losses: list[Loss], choice: int = 0) -> None:
        self.out = out
        self.losses = losses
        self.choice = choice
        self.assembler = BlockAssembler()

    def start(self, block: Block) -> BlockSlot:
        slot = self.assembler.begin(block)
        self.out.append(ContentStart(self.choice, slot.index, block))
        return slot

    def append(self, slot: BlockSlot, piece: str, delta: Delta | None = None) -> None:
        """Add a piece to a part, and emit it as `delta`, or as the delta of the block's type."""
        slot.pieces.append(piece)
        self.out.append(ContentDelta(self.choice, slot.index, delta or DELTAS[type(slot.block)](piece)))

    def emit(self, slot: BlockSlot, delta: Delta) -> None:
        """Emit a delta of an open part that is not a piece of its text."""
        self.out.append(ContentDelta(self.choice, slot.index, delta))

    def finish(self, slot: BlockSlot, block: Block | None = None) -> Block:
        """Finish a part. Call arguments that are not JSON stay, with the reason and a `Loss`."""
        if block is None:
            block = slot.joined()
        if isinstance(block, ToolUse) and block.kind == "function" and block.args and not block.args_error:
            reason = jsonio.problem(block.args)
            if reason:
                place, detail = f"choices[{self.choice}].blocks[{slot.index}].args", f"{block.name}: {reason}"
                self.record_loss("broken-arguments", place, detail, "answer the call with an error")
                block = msgspec.structs.replace(block, args_error=reason)
        self.assembler.finish(slot, block)
        self.out.append(ContentDone(self.choice, slot.index, block))
        return block

    def add(self, block: Block, delta: Delta | None = None) -> Block:
        """Add a complete part."""
        slot = self.start(block)
        if delta is not None:
            self.emit(slot, delta)
        return self.finish(slot)

    def record_loss(self, kind: str, place: str, detail: str, remedy: str = "") -> None:
        self.losses.append(Loss(kind, Location(path=place), detail, remedy))
