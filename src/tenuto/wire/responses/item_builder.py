"""The output list of a reply on its way: which items have begun, which are finished, and what they became.

An item is finished once, by its own event or by the list that the last event repeats. What a finished item says counts;
where its pieces said otherwise, the difference is a `Loss`.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Block, OpenAiMeta, Reasoning, Refusal, ServerToolUse, Text, ToolUse
from tenuto.core.events import ArgumentsDelta, CodeDelta, Delta, SignatureDelta, TextDelta, ThinkingDelta
from tenuto.core.loss import Loss
from tenuto.wire.assembler import GROWS, BlockSlot
from tenuto.wire.decoder import ChoiceBuilder
from tenuto.wire.responses.items import blocks_in, emptied, type_of
from tenuto.wire.responses.protocol import INPUTS

__all__ = ["OutputBuilder", "OutputItem"]

_NOTHING = (b"null", b"[]", b'""', b"{}")
_CODE = frozenset({"code_interpreter_call", "program"})
_STREAMED = (Text, Refusal, Reasoning, ToolUse, ServerToolUse)


class OutputItem:
    """One item: what announced it, the parts it has begun, and the blocks it became. `line` is the last summary part."""

    __slots__ = ("blocks", "cited", "done", "final", "head", "index", "kind", "line", "names", "slots")

    def __init__(self, index: int, kind: str) -> None:
        self.index = index
        self.kind = kind
        self.head: dict[str, Raw] = {}
        self.final: dict[str, Raw] = {}
        self.cited: set[bytes] = set()
        self.names: set[str] = set()
        self.slots: dict[int, BlockSlot] = {}
        self.blocks: list[Block] = []
        self.line = 0
        self.done = False

    def whole(self) -> Raw:
        """Write the item as far as it is known, without the ciphertext that only a finished item has."""
        fields = {name: value for name, value in self.head.items() if name != "encrypted_content"}
        fields.setdefault("type", Raw(jsonio.encode(self.kind)))
        texts = ["".join(self.slots[place].pieces) for place in sorted(self.slots)]
        said: Any = None
        if self.kind == "message":
            said = ("content", [_said(self.slots[place]) for place in sorted(self.slots)])
        elif self.kind == "reasoning":
            said = ("summary", [{"type": "summary_text", "text": text} for text in texts if text])
        elif self.kind in INPUTS and any(texts):
            said = (INPUTS[self.kind][0], texts[0])
        if said is not None:
            fields[said[0]] = Raw(jsonio.encode(said[1]))
        return Raw(jsonio.encode(fields))


def _said(slot: BlockSlot) -> dict[str, str]:
    text = "".join(slot.pieces)
    if isinstance(slot.block, Refusal):
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text}


def _names(fields: dict[str, Raw]) -> set[str]:
    found: set[str] = set()
    for name in ("id", "call_id"):
        value = bytes(fields.get(name, b""))
        if value[:1] == b'"' and len(value) > 2:
            found.add(value.decode("utf-8", "replace"))
    return found


class OutputBuilder:
    """The items by index, and in order. `items` is never replaced, only filled."""

    def __init__(self, parts: ChoiceBuilder, losses: list[Loss], mint: Callable[[int], str]) -> None:
        self.items: dict[int, OutputItem] = {}
        self._by_name: dict[str, OutputItem] = {}
        self._order: list[OutputItem] = []
        self._parts = parts
        self._losses = losses
        self._mint = mint

    def last(self) -> int:
        """Return the index of the item that began last; 0 if none did."""
        return next(reversed(self.items), 0)

    def find(self, name: Raw | None) -> int | None:
        """Return the index of the item that is known by this id."""
        item = None if name is None else self._by_name.get(bytes(name).decode("utf-8", "replace"))
        return item.index if item is not None and self._is_current(item) else None

    def _is_current(self, item: OutputItem) -> bool:
        """Tell whether no later item has taken the index of this one."""
        return self.items.get(item.index) is item

    def _name(self, item: OutputItem, fields: dict[str, Raw]) -> None:
        """Note the ids by which an item may be found again; of several items with one id, the first is found."""
        for name in _names(fields) - item.names:
            item.names.add(name)
            known = self._by_name.get(name)
            if known is None or not self._is_current(known):
                self._by_name[name] = item

    def open(self, index: int, kind: str) -> OutputItem:
        """Return the unfinished item at `index`; begin one there if need be."""
        item = self.items.get(index)
        if item is None or item.done:
            item = self.items[index] = OutputItem(index, kind)
            bisect.insort(self._order, item, key=lambda other: other.index)
        return item

    def announce(self, index: int, raw: Raw) -> None:
        """Begin an item as it is announced. The parts of a message follow by themselves."""
        fields = jsonio.members(raw)
        item = self.open(index, type_of(fields))
        item.kind = type_of(fields) or item.kind
        item.head = fields
        self._name(item, fields)
        if item.kind != "message" and 0 not in item.slots:
            block = emptied(self._read(item, raw, dict(fields))[0])
            # Its ciphertext may be another than the finished item's.
            item.slots[0] = self._parts.start(msgspec.structs.replace(block, meta=None))

    def part(self, item: OutputItem, place: int, block: Block) -> BlockSlot:
        """Return the slot of one part; begin it as `block` if it is not there."""
        slot = item.slots.get(place)
        if slot is None:
            slot = item.slots[place] = self._parts.start(block)
        return slot

    def conclude(self, index: int, raw: Raw) -> None:
        """Take the finished form of the item at `index`. The same item a second time changes nothing."""
        item = self.items.get(index)
        fields = jsonio.members(raw)
        if (
            item is not None
            and item.done
            and (_names(fields) & item.names or self._read(item, raw, dict(fields)) == item.blocks)
        ):
            self._compare(item, fields)
            return
        self._finish(self.open(index, type_of(fields)), raw, fields)

    def backfill(self, raws: list[Raw]) -> None:
        """Take from the repeated list what was not finished, each in its place."""
        held = [jsonio.members(raw) for raw in raws]
        kinds = [type_of(fields) for fields in held]
        first: list[OutputItem] = []
        added = first
        added_after: dict[OutputItem, list[OutputItem]] = {}
        for at, known in enumerate(self._known(held, kinds)):
            item = known or OutputItem(at, kinds[at])
            if known is None:
                added.append(item)
            else:
                added = added_after[known] = []
            if item.done:
                self._compare(item, held[at])
            else:
                self._finish(item, raws[at], held[at])
        order = self._order
        self._order = first
        for item in order:
            self._order.append(item)
            self._order += added_after.get(item, ())

    def _known(self, held: list[dict[str, Raw]], kinds: list[str]) -> list[OutputItem | None]:
        """Find each repeated item among those seen: by its ids, else by its place, else by its type, in order."""
        found: list[OutputItem | None] = [None] * len(held)
        if not self._order:
            return found
        position = {item: at for at, item in enumerate(self._order)}
        used: set[OutputItem] = set()
        passes: tuple[tuple[Callable[[OutputItem], Iterable[object]], Callable[[int], Iterable[object]]], ...] = (
            (lambda item: item.names, lambda at: _names(held[at])),
            (lambda item: (item.index,), lambda at: (at,)),
            (lambda _: (None,), lambda _: (None,)),
        )
        for keys_of_item, keys_at in passes:
            seen: dict[tuple[str, object], deque[OutputItem]] = {}
            for item in self._order:
                for key in keys_of_item(item):
                    seen.setdefault((item.kind, key), deque()).append(item)
            for at in (at for at, item in enumerate(found) if item is None):
                fits = (_first(seen.get((kinds[at], key)), used) for key in keys_at(at))
                known = min((item for item in fits if item is not None), key=position.__getitem__, default=None)
                if known is not None:
                    found[at] = known
                    used.add(known)
        return found

    def close(self) -> None:
        """The reply is over: an item that nobody finished is taken as far as it came."""
        for item in self._order:
            if not item.done:
                self._lose("unfinished-item", item, f"{item.kind} was begun and never finished")
                whole = item.whole()
                self._finish(item, whole, jsonio.members(whole))

    def blocks(self, *, partial: bool) -> tuple[Block, ...]:
        """Return the blocks in order; those of unfinished items, where they are wanted, without their tokens."""
        found: list[Block] = []
        for item in self._order:
            found += item.blocks
            if partial and not item.done:
                found += [
                    msgspec.structs.replace(item.slots[place].joined(), meta=None) for place in sorted(item.slots)
                ]
        return tuple(found)

    def settle(self, item: OutputItem, blocks: list[Block]) -> None:
        """Finish an item with its blocks; what the pieces left unsaid is told as one more."""
        slots = _matched(item, len(blocks))
        for block, slot in zip(blocks, slots, strict=False):
            if slot is None and isinstance(block, Text | Refusal):
                delta = TextDelta(block.text) if block.text else None
                item.blocks.append(self._parts.add(block, delta, emptied(block)))
                continue
            place = slot or self._parts.start(emptied(block))
            self._complete(item, place, block)
            item.blocks.append(self._parts.finish(place, block))
            if isinstance(block, ToolUse) and not block.name:
                self._lose("nameless-call", item, f"{block.id} names no tool")
        if len(slots) > len(blocks):
            self._lose("stream-differs", item, f"{len(slots) - len(blocks)} parts are missing in the finished item")
        item.done = True
        item.slots = {}

    def _finish(self, item: OutputItem, raw: Raw, fields: dict[str, Raw]) -> None:
        """Finish an item as `raw` says it; its `fields` are used up."""
        self._name(item, fields)
        item.kind = type_of(fields) or item.kind
        item.final = dict(fields)
        if item.head:
            told = ((name, value) for name, value in item.head.items() if name not in (*fields, "encrypted_content"))
            if gone := [name for name, value in told if bytes(value) not in _NOTHING]:
                self._lose("stream-differs", item, f"the finished item lacks {', '.join(gone)}")
        self.settle(item, self._read(item, raw, fields))
        if item.cited:
            cited = sum(len(block.citations) for block in item.blocks if isinstance(block, Text))
            if cited < len(item.cited):
                self._lose("stream-differs", item, f"the finished item lacks {len(item.cited) - cited} annotations")

    def _compare(self, item: OutputItem, again: dict[str, Raw]) -> None:
        """Tell where a repetition says what the finished item does not; each may have its own id and ciphertext."""
        held = {name: jsonio.parse(value) for name, value in item.final.items()}
        for name, value in again.items():
            if name in ("id", "encrypted_content") or bytes(value) in _NOTHING:
                continue
            if jsonio.parse(value) != held.get(name):
                self._lose("repeat-differs", item, f"{name} came again as {jsonio.as_text(value)[:200]}")

    def _read(self, item: OutputItem, raw: Raw, fields: dict[str, Raw]) -> list[Block]:
        return blocks_in(raw, fields, lambda: self._mint(item.index))

    def _complete(self, item: OutputItem, slot: BlockSlot, block: Block) -> None:
        if isinstance(block, _STREAMED):
            whole, had = getattr(block, GROWS[type(block)]), "".join(slot.pieces)
            if not whole.startswith(had):
                self._lose("stream-differs", item, f"the pieces said {had[:100]!r}, the finished item {whole[:100]!r}")
            elif len(whole) > len(had):
                self._parts.append(slot, whole[len(had) :], _delta(block, whole[len(had) :]))
        if isinstance(block, Reasoning) and isinstance(block.meta, OpenAiMeta) and block.meta.encrypted_content:
            self._parts.emit(slot, SignatureDelta(block.meta.encrypted_content))

    def _lose(self, rule: str, item: OutputItem, what: str) -> None:
        self._losses.append(Loss(rule, f"output[{item.index}]", what))


def _first(items: deque[OutputItem] | None, used: set[OutputItem]) -> OutputItem | None:
    """Return the first item that is not used yet; those before it are removed."""
    while items and items[0] in used:
        items.popleft()
    return items[0] if items else None


def _matched(item: OutputItem, count: int) -> list[BlockSlot | None]:
    """Line the parts that have begun up with those of the finished item: by index, or in order where indices skip."""
    if not item.slots:
        return [None] * count
    if all(place < count for place in item.slots):
        return [item.slots.get(place) for place in range(count)]
    begun: list[BlockSlot | None] = [item.slots[place] for place in sorted(item.slots)]
    return begun + [None] * (count - len(begun))


def _delta(block: Block, text: str) -> Delta:
    if isinstance(block, Text | Refusal):
        return TextDelta(text)
    if isinstance(block, Reasoning):
        return ThinkingDelta(text)
    return CodeDelta(text) if isinstance(block, ServerToolUse) and block.kind in _CODE else ArgumentsDelta(text)
