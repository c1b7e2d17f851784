"""The output list of a reply while it streams. An item is finished once: by its own event, or by the list that the last
event repeats. The finished form counts; where its deltas differ from it, a `Loss` says so.
"""

import bisect
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Block, OpenAiMeta, Reasoning, Refusal, ServerToolUse, Text, ToolUse
from tenuto.core.events import CodeDelta, SignatureDelta
from tenuto.core.jsonio import Fields, is_text, text_or_empty
from tenuto.wire.assembler import DELTAS, GROWS, BlockSlot, ChoiceBuilder
from tenuto.wire.responses.items import read_item
from tenuto.wire.responses.protocol import INPUTS

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
        elif self.type in INPUTS and any(texts):
            fields[INPUTS[self.type][0]] = texts[0]
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
