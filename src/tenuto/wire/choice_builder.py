"""Build the blocks of one choice and emit the matching events."""

from __future__ import annotations

import msgspec

from tenuto.core import jsonio
from tenuto.core.blocks import Block, ToolUse
from tenuto.core.events import ContentDelta, ContentDone, ContentStart, Delta, StreamEvent
from tenuto.core.loss import Location, Loss
from tenuto.wire.assembler import BlockAssembler, BlockSlot


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

    def append(self, slot: BlockSlot, piece: str, delta: Delta) -> None:
        """Add a piece to a part, and emit it as `delta`."""
        slot.pieces.append(piece)
        self.out.append(ContentDelta(self.choice, slot.index, delta))

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
                place = f"choices[{self.choice}].blocks[{slot.index}].args"
                remedy = "answer the call with an error"
                self.losses.append(Loss("broken-arguments", Location(path=place), f"{block.name}: {reason}", remedy))
                block = msgspec.structs.replace(block, args_error=reason)
        self.assembler.finish(slot, block)
        self.out.append(ContentDone(self.choice, slot.index, block))
        return block

    def add(self, block: Block, delta: Delta | None = None, bare: Block | None = None) -> Block:
        """Add a complete part that is not a call. `ContentStart` has `bare`, if it is set."""
        slot = self.assembler.begin(block)
        slot.done = True
        choice, index, out = self.choice, slot.index, self.out
        out.append(ContentStart(choice, index, bare or block))
        if delta is not None:
            out.append(ContentDelta(choice, index, delta))
        out.append(ContentDone(choice, index, block))
        return block
