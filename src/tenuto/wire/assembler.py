"""Assemble blocks from pieces, in the order in which they began.

Decoders `begin` a block, append pieces to its slot, and `finish` it; several can be open at once. The `on_*` methods
are the specified interface for event loops that know only text, reasoning and tool calls: a call that makes no sense
raises. `ChoiceBuilder` also emits the matching events. The cost of a block is linear in its pieces.
"""

from collections import UserDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from tenuto import errors
from tenuto.core import events, jsonio
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
from tenuto.core.jsonio import NULL, Fields, is_list, is_object
from tenuto.core.loss import Location, Loss


class MergedFields(UserDict[str, Raw]):
    """A mapping from field names to JSON texts, into which `merge_fields` merges the fields of each frame.

    Reading a value writes it as JSON: read it once, at the end, or the cost of a stream becomes quadratic.
    """

    data: dict[str, Any]  # each value is a `_Value`

    def __init__(self, fields: Mapping[str, Raw] | None = None) -> None:
        self.data = dict(fields) if fields else {}

    def __getitem__(self, name: str) -> Raw:
        value: _Value = self.data[name]
        return value if type(value) is Raw else Raw(jsonio.encode(_plain(value)))

    def scalar(self, name: str) -> Raw | None:
        """Return a value that is neither an object nor a list; None for any other, without writing it."""
        value: _Value | None = self.data.get(name)
        return value if type(value) is Raw and bytes(value)[:1] not in (b"{", b"[") else None

    def written(self) -> Fields:
        return {name: self[name] for name in self.data}

    def text(self) -> str:
        """Return the fields as the text of an object; empty without fields."""
        return jsonio.object_text(self.written()) if self.data else ""


_Value: TypeAlias = Raw | MergedFields | dict[bytes, MergedFields]
"""A dict has the elements of a list, by the JSON text of their `index`."""


def merge_fields(merged: MergedFields, fields: Iterable[tuple[str, Raw]]) -> None:
    """Merge fields of several frames that no code here interprets. The cost is linear in the new fields.

    Null never replaces a value; objects merge key by key; lists whose elements are all objects with an `index` merge by
    that index; any other value is replaced by the later one.
    """
    values = merged.data
    for name, value in fields:
        old: _Value | None = values.get(name)
        if old is None or (type(old) is Raw and old == NULL):
            values[name] = value
        elif value != NULL and not (type(old) is Raw and old == value):
            values[name] = _merge_value(old, value)


def _merge_value(old: _Value, new: Raw) -> _Value:
    if is_object(new):
        if type(old) is Raw and is_object(old):
            old = MergedFields(jsonio.members(old))
        if type(old) is MergedFields:
            merge_fields(old, jsonio.members(new).items())
            return old
    elif is_list(new) and (added := _split_indexed(new)):
        elements = _split_indexed(old) if type(old) is Raw and is_list(old) else []
        if elements or type(old) is dict:
            by_index = old if type(old) is dict else {}
            for fields in (*elements, *added):
                merge_fields(by_index.setdefault(bytes(fields["index"]), MergedFields()), fields.items())
            return by_index
    return new


def _split_indexed(raw: Raw) -> list[Fields]:
    """Split a list into the fields of its elements; empty unless each of them is an object with an `index`."""
    elements = []
    for element in jsonio.elements(raw):
        fields = jsonio.members(element) if is_object(element) else {}
        if "index" not in fields:
            return []
        elements.append(fields)
    return elements


def _plain(value: _Value) -> object:
    """Return split values as dicts and lists."""
    if type(value) is MergedFields:
        return {name: _plain(inner) for name, inner in value.data.items()}
    if type(value) is dict:
        return [_plain(element) for element in value.values()]
    return value


# --- blocks -----------------------------------------------------------------------------------------------------------

_GROWTH: dict[type[Block], tuple[str, Callable[[str], events.Delta]]] = {
    Text: ("text", events.TextDelta),
    Reasoning: ("text", events.ThinkingDelta),
    Refusal: ("text", events.TextDelta),
    ToolUse: ("args", events.ArgumentsDelta),
    ServerToolUse: ("args", events.ArgumentsDelta),
    CodeExecution: ("code", events.CodeDelta),
    Image: ("data", events.ImageDelta),
    Audio: ("data", events.AudioDelta),
}
GROWS = {kind: field for kind, (field, _) in _GROWTH.items()}  # the field that gets a block's pieces
DELTAS = {kind: delta for kind, (_, delta) in _GROWTH.items()}  # the delta for a piece of a block


class BlockKey(msgspec.Struct, frozen=True):
    """The index of a block. It does not change."""

    index: int


class BlockSlot(msgspec.Struct, eq=False):
    """A block, the pieces that extend it, and its extra fields while they change."""

    index: int
    block: Block
    pieces: list[str] = []
    done: bool = False
    packed: int = 0
    merged_extra: MergedFields | None = None

    def pack(self) -> None:
        """Join recent pieces to save memory: a 20-character str costs about 80 bytes."""
        fresh = self.pieces[self.packed :]
        if len(fresh) > 1:
            self.pieces[self.packed :] = ["".join(fresh)]
            self.packed += 1

    def extra(self) -> MergedFields:
        """Return the extra fields of the block, to change or to merge into; `joined` writes them into the block."""
        if self.merged_extra is None:
            self.merged_extra = MergedFields(jsonio.members(self.block.extra) if self.block.extra else None)
        return self.merged_extra

    def joined(self) -> Block:
        """Return the block with its pieces and extra fields, or as it is if it cannot grow; nothing is consumed."""
        if self.merged_extra is not None:
            self.block = msgspec.structs.replace(self.block, extra=self.merged_extra.text())
            self.merged_extra = None
        if not self.pieces or (field := GROWS.get(type(self.block))) is None:
            return self.block
        self.pieces, self.packed = ["".join(self.pieces)], 1
        text: str = getattr(self.block, field) + self.pieces[0]
        if not text.isascii():
            text = jsonio.join_surrogates(text)
        return msgspec.structs.replace(self.block, **{field: text})


class BlockAssembler(msgspec.Struct, kw_only=True, eq=False):
    """Assemble the blocks of a message."""

    strict: bool = False  # whether to refuse to complete a call that never began
    slots: list[BlockSlot] = []
    reasoning: BlockSlot | None = None  # the open reasoning of the `on_*` methods
    calls: dict[str, BlockSlot] = {}  # the open calls of the `on_*` methods, by id

    def begin(self, block: Block) -> BlockSlot:
        slot = BlockSlot(len(self.slots), block)
        self.slots.append(slot)
        return slot

    def finish(self, slot: BlockSlot, block: Block | None = None) -> Block:
        """Close a slot with its pieces joined, or with `block` if the provider sent the finished form."""
        slot.block = block if block is not None else slot.joined()
        slot.merged_extra = None
        slot.pieces, slot.packed = [], 0
        slot.done = True
        return slot.block

    def finalize(self) -> list[Block]:
        """Return the finished blocks, without the open ones."""
        return [slot.joined() for slot in self.slots if slot.done]

    def unfinished(self) -> list[Block]:
        """Return all blocks, the open ones with their pieces so far and without tokens."""
        blocks = [(slot, slot.joined()) for slot in self.slots]
        return [block if slot.done else msgspec.structs.replace(block, meta=None) for slot, block in blocks]

    def on_text_delta(self, delta: str, meta: ProviderMeta | None = None) -> None:
        """Extend the last block if it is a text; begin one if it is not, or if the delta or the text is signed."""
        last = self.slots[-1] if self.slots else None
        if meta is None and last is not None and last.done and isinstance(last.block, Text) and last.block.meta is None:
            last.pieces.append(delta)
        else:
            self.begin(Text(delta, meta=meta)).done = True

    def on_reasoning_start(self) -> BlockKey:
        """Begin reasoning. Open reasoning is finished without a token."""
        self.on_reasoning_complete()
        self.reasoning = self.begin(Reasoning())
        return BlockKey(self.reasoning.index)

    def on_reasoning_delta(self, delta: str) -> None:
        """Extend the open reasoning; raise `OrphanedReasoningDelta` without it."""
        if self.reasoning is None:
            raise errors.OrphanedReasoningDelta
        self.reasoning.pieces.append(delta)

    def on_reasoning_complete(self, meta: ProviderMeta | None = None) -> None:
        """Finish the open reasoning with its token; do nothing without it."""
        if self.reasoning is not None:
            self.finish(self.reasoning, msgspec.structs.replace(self.reasoning.joined(), meta=meta))
            self.reasoning = None

    def current_reasoning_text(self) -> str:
        """Return the text of the open reasoning so far; empty without it."""
        return "".join(self.reasoning.pieces) if self.reasoning is not None else ""

    def on_tool_call_start(self, id: str) -> BlockKey:
        """Begin a call; raise `DuplicateToolStart` if it is open already."""
        if id in self.calls:
            raise errors.DuplicateToolStart(id)
        self.calls[id] = slot = self.begin(ToolUse(id, "", ""))
        return BlockKey(slot.index)

    def on_tool_call_delta(self, id: str, name: str | None, args_delta: str) -> None:
        """Extend an open call's arguments, and name it; raise `OrphanedToolDelta` if it is not open."""
        slot = self.calls.get(id)
        if slot is None:
            raise errors.OrphanedToolDelta(id)
        if name is not None:
            slot.block = ToolUse(id, name, "")
        slot.pieces.append(args_delta)

    def finalize_tool_args(self, id: str) -> str:
        """Return an open call's arguments (`{}` without any). Raise `UnknownToolFinalize` or `InvalidArgsJson`."""
        slot = self.calls.get(id)
        if slot is None:
            raise errors.UnknownToolFinalize(id)
        args = jsonio.join_surrogates("".join(slot.pieces)) or "{}"
        if reason := jsonio.problem(args):
            raise errors.InvalidArgsJson(id, reason)
        return args

    def on_tool_call_complete(self, id: str, name: str, args: str, meta: ProviderMeta | None = None) -> None:
        """Finish a call. One that never began is appended, or in strict mode refused (`UnknownToolComplete`)."""
        slot = self.calls.pop(id, None)
        if slot is None:
            if self.strict:
                raise errors.UnknownToolComplete(id)
            slot = self.begin(ToolUse(id, name, args))
        self.finish(slot, ToolUse(id, name, args, meta=meta))


class ChoiceBuilder(msgspec.Struct, eq=False):
    """The blocks of one choice. Events are appended to `out`, losses to `losses`."""

    out: list[events.StreamEvent]
    losses: list[Loss]
    choice: int = 0
    assembler: BlockAssembler = msgspec.field(default_factory=BlockAssembler)

    def start(self, block: Block) -> BlockSlot:
        slots = self.assembler.slots
        slot = BlockSlot(len(slots), block)
        slots.append(slot)
        self.out.append(events.ContentStart(self.choice, slot.index, block))
        return slot

    def append(self, slot: BlockSlot, piece: str, delta: events.Delta | None = None) -> None:
        """Add a piece to a part, and emit it as `delta`, or as the delta of the block's type."""
        slot.pieces.append(piece)
        self.out.append(events.ContentDelta(self.choice, slot.index, delta or DELTAS[type(slot.block)](piece)))

    def emit(self, slot: BlockSlot, delta: events.Delta) -> None:
        """Emit a delta of an open part that is not a piece of its text."""
        self.out.append(events.ContentDelta(self.choice, slot.index, delta))

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
        self.out.append(events.ContentDone(self.choice, slot.index, block))
        return block

    def add(self, block: Block, delta: events.Delta | None = None) -> Block:
        """Add a complete part."""
        slot = self.start(block)
        if delta is not None:
            self.emit(slot, delta)
        return self.finish(slot)

    def record_loss(self, kind: str, place: str, detail: str, remedy: str = "") -> None:
        self.losses.append(Loss(kind, Location(path=place), detail, remedy))
