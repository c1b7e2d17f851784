"""Blocks from pieces, in the order in which they were begun.

Two ways in, one list of slots. Decoders `begin` a block, hand its slot pieces, and `finish` it; several may be open at
once. The `on_*` methods are the specified interface for event loops that know only text, reasoning and tool calls.
Mechanism and policy are apart: whatever makes no sense is raised, and the caller decides whether to skip, count or stop.

Pieces are collected in lists and joined once, or twice where there are many (`BlockSlot.pack`): the cost of a block is linear
in the number of its pieces.
"""

from __future__ import annotations

import msgspec

from tenuto.core import jsonio
from tenuto.core.blocks import (
    Audio,
    Block,
    CodeExecution,
    Image,
    ProviderMeta,
    Reasoning,
    Refusal,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.errors import (
    DuplicateToolStart,
    InvalidArgsJson,
    OrphanedReasoningDelta,
    OrphanedToolDelta,
    UnknownToolComplete,
    UnknownToolFinalize,
)
from tenuto.wire.merge import MergedFields

GROWS: dict[type[Block], str] = {
    Text: "text",
    Reasoning: "text",
    Refusal: "text",
    ToolUse: "args",
    ServerToolUse: "args",
    CodeExecution: "code",
    Image: "data",
    Audio: "data",
}
"""The field that a block's pieces flow into."""


class BlockKey(msgspec.Struct, frozen=True):
    """A block's place in the order; it names one block for ever."""

    index: int


class BlockSlot:
    """One block on its way: what it was begun with, its pieces so far, and the extra fields that were added to it."""

    __slots__ = ("_extra", "block", "done", "index", "packed", "pieces")

    def __init__(self, index: int, block: Block, *, done: bool = False) -> None:
        self.index = index
        self.block = block
        self.pieces: list[str] = []
        self.done = done
        self.packed = 0
        self._extra: MergedFields | None = None

    @property
    def key(self) -> BlockKey:
        """The place of this block in the order."""
        return BlockKey(self.index)

    def pack(self) -> None:
        """Join recent pieces to save memory: a 20-character str costs about 80 bytes.

        Packed pieces stay until all are joined, so that the cost is linear.
        """
        fresh = self.pieces[self.packed :]
        if len(fresh) > 1:
            self.pieces[self.packed :] = ["".join(fresh)]
            self.packed += 1

    def extra(self) -> MergedFields:
        """Return the extra fields of the block, to change or to merge into; `joined` writes them into the block."""
        if self._extra is None:
            self._extra = MergedFields(jsonio.members(self.block.extra) if self.block.extra else None)
        return self._extra

    def replace(self, block: Block) -> None:
        """Replace the block and its extra fields."""
        self.block, self._extra = block, None

    def joined(self) -> Block:
        """Return the block with its pieces and extra fields, or as it is if it cannot grow; nothing is consumed."""
        if self._extra is not None:
            self.replace(msgspec.structs.replace(self.block, extra=self._extra.text()))
        if not self.pieces or (field := GROWS.get(type(self.block))) is None:
            return self.block
        self.pieces, self.packed = ["".join(self.pieces)], 1
        text = jsonio.join_surrogates(getattr(self.block, field) + self.pieces[0])
        return msgspec.structs.replace(self.block, **{field: text})


class BlockAssembler:
    """Collects what a stream says into blocks. `strict` refuses to complete a call that was never begun."""

    def __init__(self, *, strict: bool = False) -> None:
        self._slots: list[BlockSlot] = []
        self._tools: dict[str, BlockSlot] = {}
        self._thoughts: list[BlockSlot] = []
        self._strict = strict

    def begin(self, block: Block) -> BlockSlot:
        """Open a slot after all others. Its place does not change, whatever is finished first."""
        slot = BlockSlot(len(self._slots), block)
        self._slots.append(slot)
        return slot

    def finish(self, slot: BlockSlot, block: Block | None = None) -> Block:
        """Close a slot with its pieces joined, or with `block` where the provider sent the finished form."""
        slot.replace(block if block is not None else slot.joined())
        slot.pieces, slot.packed = [], 0
        slot.done = True
        return slot.block

    def slot(self, index: int) -> BlockSlot:
        """Return the slot in a place of the order."""
        return self._slots[index]

    def finalize(self) -> list[Block]:
        """Return the finished blocks in the order in which they were begun; those still open are left out."""
        return [slot.joined() for slot in self._slots if slot.done]

    def unfinished(self) -> list[Block]:
        """Return every block begun, the open ones with their pieces so far and without tokens."""
        whole = [slot.joined() for slot in self._slots]
        return [
            block if slot.done else msgspec.structs.replace(block, meta=None)
            for slot, block in zip(self._slots, whole, strict=True)
        ]

    # --- the specified interface --------------------------------------------------------------------------------------

    def on_text_delta(self, delta: str, meta: ProviderMeta | None = None) -> None:
        """Extend the last text block; begin one where the delta or the last block is signed, or the last is not a text."""
        last = self._slots[-1] if self._slots else None
        if meta is None and last is not None and last.done and isinstance(last.block, Text) and last.block.meta is None:
            last.pieces.append(delta)
            return
        slot = self.begin(Text(delta, meta=meta))
        slot.done = True

    def on_reasoning_start(self) -> BlockKey:
        """Begin reasoning. Reasoning that is still open is finished without a token."""
        for open_slot in self._thoughts:
            self.finish(open_slot)
        self._thoughts = [self.begin(Reasoning())]
        return self._thoughts[0].key

    def on_reasoning_delta(self, delta: str) -> None:
        """Extend the open reasoning; raise `OrphanedReasoningDelta` without it."""
        if not self._thoughts:
            raise OrphanedReasoningDelta
        self._thoughts[-1].pieces.append(delta)

    def on_reasoning_complete(self, meta: ProviderMeta | None = None) -> None:
        """Finish the open reasoning with its token; without one open, nothing happens."""
        if self._thoughts:
            slot = self._thoughts.pop()
            self.finish(slot, msgspec.structs.replace(slot.joined(), meta=meta))

    def current_reasoning_text(self) -> str:
        """Return the text of the open reasoning so far; empty without it."""
        return "".join(self._thoughts[-1].pieces) if self._thoughts else ""

    def on_tool_call_start(self, id: str) -> BlockKey:
        """Begin a call; raise `DuplicateToolStart` if it is open already."""
        if id in self._tools:
            raise DuplicateToolStart(id)
        self._tools[id] = slot = self.begin(ToolUse(id, "", ""))
        return slot.key

    def on_tool_call_delta(self, id: str, name: str | None, args_delta: str) -> None:
        """Extend an open call's arguments, and name it; raise `OrphanedToolDelta` if it is not open."""
        slot = self._tools.get(id)
        if slot is None:
            raise OrphanedToolDelta(id)
        if name is not None and isinstance(slot.block, ToolUse):
            slot.block = msgspec.structs.replace(slot.block, name=name)
        slot.pieces.append(args_delta)

    def finalize_tool_args(self, id: str) -> str:
        """Return an open call's arguments, `{}` if none came.

        Raise `UnknownToolFinalize` for a call that is not open, `InvalidArgsJson` for text that is not JSON. The call
        stays open either way.
        """
        slot = self._tools.get(id)
        if slot is None:
            raise UnknownToolFinalize(id)
        args = jsonio.join_surrogates("".join(slot.pieces)) or "{}"
        if reason := jsonio.problem(args):
            raise InvalidArgsJson(id, reason)
        return args

    def on_tool_call_complete(self, id: str, name: str, args: str, meta: ProviderMeta | None = None) -> None:
        """Finish a call in its place; one that was never begun goes to the end (in strict mode, it is refused)."""
        slot = self._tools.pop(id, None)
        if slot is None:
            if self._strict:
                raise UnknownToolComplete(id)
            slot = self.begin(ToolUse(id, name, args))
        self.finish(slot, ToolUse(id, name, args, meta=meta))
