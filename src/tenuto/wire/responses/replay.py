"""Write the assistant's turns as input items.

The server pairs items by id: a reasoning item must be followed by the item that followed it, and a call or message with
an id must be preceded by its reasoning. So a turn keeps all its ids if each of its reasoning items has encrypted content
and a follower, and otherwise none. Items without ids are not looked up and not paired.
"""

from __future__ import annotations

import functools
from typing import Any

from msgspec import Raw

from tenuto.core.blocks import Block, Opaque, OpenAiMeta, Reasoning, Refusal, Text, ToolUse
from tenuto.core.loss import Location
from tenuto.core.messages import AssistantMessage
from tenuto.wire.body_builder import BodyBuilder, raw_object, splice_json
from tenuto.wire.rawjson import NULL, text_or_empty
from tenuto.wire.responses.items import DIALECT, group_by_item, item_type_for, write_item
from tenuto.wire.responses.protocol import CLIENT_CALLS, RESPONSE_ONLY

_Item = dict[str, Any]


class ReplayedTurns:
    def __init__(self, builder: BodyBuilder, *, is_stored: bool) -> None:
        self.call_types: dict[str, str] = {}
        """The item type of each call, by call id."""
        self._builder = builder
        self._is_stored = is_stored
        """The server stores the conversation, so that an id suffices for reasoning."""
        self._switches = builder.target.provider.responses
        self._ids: set[str] = set()
        """The ids of the turns so far."""

    def write_turn(self, message: AssistantMessage, place: Location) -> list[_Item]:
        """Write the items of a turn; a block that cannot be replayed is a `Loss`."""
        placed_items: list[tuple[Location, _Item]] = []
        sizes: dict[Location, int] = {}
        index = reasoning_count = 0
        for group in group_by_item(message.blocks):
            item_place = place.within(index)
            item = self._write_item(group, item_place)
            if item is not None:
                placed_items.append((item_place, item))
                sizes[item_place] = len(group)
            index += len(group)
            reasoning_count += isinstance(group[0], Reasoning)
        if not placed_items:
            self._builder.leave_out_if_empty(message, place)
        placed_items = self._drop_unpaired(placed_items, reasoning_count)
        for item_place, item in placed_items:
            self._place_blocks(item_place, sizes[item_place], item)
        items = [item for _, item in placed_items]
        if self._switches.calls_last:
            calls = [item for item in items if _text(item, "type") in CLIENT_CALLS]
            ordered = [item for item in items if _text(item, "type") not in CLIENT_CALLS] + calls
            if ordered != items:
                detail = f"{len(calls)} calls moved to the end of their turn"
                self._builder.record_loss("calls-last", place, detail)
            return ordered
        return items

    def _place_blocks(self, first: Location, size: int, item: _Item) -> None:
        """Note where the blocks of an item are: the parts of a message, or the item itself."""
        parts = item.get("content") if _text(item, "type") == "message" else None
        nodes = parts if isinstance(parts, list) and len(parts) == size else [item] * size
        for at, node in enumerate(nodes, first.block or 0):
            self._builder.place(first.within(at), node)

    def _write_item(self, group: list[Block], place: Location) -> _Item | None:
        first = group[0]
        if isinstance(first, ToolUse):
            return self._write_call(first)
        if isinstance(first, Text | Refusal) and first.meta is None and not first.extra:
            return _write_plain(first)
        if isinstance(first, Opaque) and first.meta is None:
            is_own = first.dialect == DIALECT and raw_object(first.raw) is not None
        else:
            is_own = isinstance(first.meta, OpenAiMeta) or (isinstance(first, Text | Refusal) and first.meta is None)
        item = self._to_input(write_item(group)) if is_own else {}
        if item:
            return item
        if isinstance(first, Reasoning):
            self._builder.record_loss("unsigned-reasoning", place, "reasoning without a token is omitted")
        else:
            detail = f"{type(first).__name__} in an assistant message: this dialect cannot express it"
            self._builder.record_loss("unsupported-content", place, detail)
        return None

    def _to_input(self, item: _Item) -> _Item:
        """Remove fields of replies; reasoning gets a summary and loses null fields."""
        type = _text(item, "type")
        response_only = _response_only(type)
        fields = item
        if not response_only.isdisjoint(item):
            fields = {name: value for name, value in item.items() if name not in response_only}
        if type == "message":
            if not _text(item, "id"):  # only messages with an id have a status
                fields.pop("status", None)
            return {"type": type, "role": "assistant", **fields}
        if type != "reasoning":
            return fields
        if self._switches.reasoning_status and "status" in item:
            fields["status"] = item["status"]
        return {"summary": [], **{name: value for name, value in fields.items() if value != NULL}}

    def _write_call(self, call: ToolUse) -> _Item:
        item = self._to_input(write_item([call]))
        type = self.call_types[call.id] = item_type_for(call)
        if type == "mcp_approval_request":
            return {**item, "id": call.id}
        item["call_id"] = call.id
        if type == "function_call":
            item |= {"name": call.name, "arguments": "{}" if call.args_missing else call.args}
        elif type == "custom_tool_call":
            item |= {"name": call.name, "input": call.args}
        return item

    def _drop_unpaired(
        self, placed_items: list[tuple[Location, _Item]], reasoning_count: int
    ) -> list[tuple[Location, _Item]]:
        """Omit reasoning that the server would refuse; if any is missing, omit all ids.

        `reasoning_count` includes reasoning that was omitted earlier.
        """
        reasoning = {i for i, (_, item) in enumerate(placed_items) if _text(item, "type") == "reasoning"}
        last = max(set(range(len(placed_items))) - reasoning, default=-1)
        sendable: list[tuple[Location, _Item]] = []
        remaining = len(reasoning)
        for i, (place, item) in enumerate(placed_items):
            reason = self._refusal_reason(item, is_followed=i < last) if i in reasoning else ""
            if reason:
                remedy = "the turn is sent without it and without ids"
                self._builder.record_loss("reasoning-left-out", place, reason, remedy)
                remaining -= 1
            else:
                sendable.append((place, item))
        ids = [_text(item, "id") for _, item in sendable]
        limit = self._switches.call_id_max
        keeps_ids = (
            remaining == reasoning_count
            and not (limit and max(map(len, ids), default=0) > limit)
            and self._ids.isdisjoint(filter(None, ids))  # the same turn a second time
            and (not remaining or all(ids))
        )
        if not keeps_ids:
            sendable = [(place, bare) for place, item in sendable if (bare := self._without_id(item, place))]
            ids = [_text(item, "id") for _, item in sendable]
        self._ids.update(filter(None, ids))
        return sendable

    def _refusal_reason(self, item: _Item, *, is_followed: bool) -> str:
        """Say why the server would refuse a reasoning item; empty if it would not."""
        if not is_followed:
            return "nothing follows it in its turn"
        if item.get("encrypted_content") or self._switches.plain_reasoning:
            return ""
        if self._is_stored and _text(item, "id"):
            return ""
        return "it has no encrypted content, and the server stores nothing"

    def _without_id(self, item: _Item, place: Location) -> _Item | None:
        """Remove the id of an item; None if the item is useless without it."""
        type, id = _text(item, "type"), _text(item, "id")
        if type == "mcp_approval_request" or not id:  # the answer to an approval request names its id
            return item
        self._builder.record_loss("id-left-out", place, id)
        omitted = ("id", "status") if type == "message" else ("id",)  # only messages with an id have a status
        bare = {name: value for name, value in item.items() if name not in omitted}
        if type == "reasoning" and not bare.get("encrypted_content") and not bare.get("content"):
            return None  # only the server has its content
        return None if type == "item_reference" else bare


def _write_plain(block: Text | Refusal) -> _Item | None:
    """Write a block that did not come from this dialect; None if it is empty."""
    if not block.text:
        return None
    content: Any = block.text
    if isinstance(block, Refusal):
        content = [{"type": "refusal", "refusal": block.text}]
    elif annotations := [splice_json(citation.raw) for citation in block.citations if citation.raw]:
        content = [{"type": "output_text", "text": block.text, "annotations": annotations}]
    return {"type": "message", "role": "assistant", "content": content}


@functools.lru_cache(maxsize=64)
def _response_only(type: str) -> frozenset[str]:
    prefix = f"{type}."
    return frozenset(
        (*RESPONSE_ONLY, *(name.removeprefix(prefix) for name in RESPONSE_ONLY if name.startswith(prefix)))
    )


def _text(item: _Item, name: str) -> str:
    """Return a text field of an item; empty for any other JSON value."""
    value = item.get(name)
    if isinstance(value, Raw):
        return text_or_empty(value)
    return value if isinstance(value, str) else ""
