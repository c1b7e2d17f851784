"""An assistant's turn as input items, under the rules of replay.

The server pairs items by id: reasoning must be followed by what followed it, and a call or a message that carries its
id wants its reasoning. So a turn keeps all its ids if each of its reasoning items has its ciphertext and its follower,
and else none. Without an id nothing is looked up or paired.
"""

from __future__ import annotations

import functools
from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Block, Opaque, OpenAiMeta, Reasoning, Refusal, Text, ToolUse
from tenuto.core.messages import AssistantMessage
from tenuto.wire.body_builder import BodyBuilder, raw_object, splice_json
from tenuto.wire.responses.items import DIALECT, groups, item_of, kind_of
from tenuto.wire.responses.protocol import CLIENT_CALLS, RESPONSE_ONLY

__all__ = ["ReplayedTurns"]

_Item = dict[str, Any]
_NULL = Raw(b"null")


class ReplayedTurns:
    """Writes the assistant's turns of one request. `kinds` tells which kind of call each call id names."""

    def __init__(self, draft: BodyBuilder, *, stored: bool) -> None:
        self.kinds: dict[str, str] = {}
        self._draft = draft
        self._stored = stored
        self._switches = draft.target.provider.responses
        self._ids: set[str] = set()

    def items(self, message: AssistantMessage, place: str) -> list[_Item]:
        """Return the items of one turn; what cannot be replayed is left out, with a `Loss`."""
        written: list[tuple[str, _Item]] = []
        at = thoughts = 0
        for group in groups(message.blocks):
            where = f"{place}.blocks[{at}]"
            item = self._item(group, where)
            if item is not None:
                written.append((where, item))
            at += len(group)
            thoughts += isinstance(group[0], Reasoning)
        kept = self._replayable(written, thoughts)
        if not written:
            self._draft.leave_out_if_empty(message, place)
        if self._switches.calls_last:
            kept = self._calls_last(kept, place)
        return kept

    def _item(self, group: list[Block], place: str) -> _Item | None:
        first = group[0]
        if isinstance(first, ToolUse):
            return self._call(first)
        said = isinstance(first, Text | Refusal) and first.meta is None
        if said and not first.extra and isinstance(first, Text | Refusal):
            return _plain(first)
        if isinstance(first, Opaque) and first.meta is None:
            ours = first.dialect == DIALECT and raw_object(first.raw) is not None
        else:
            ours = said or isinstance(first.meta, OpenAiMeta)
        item = self._sendable(item_of(group)) if ours else {}
        if not item:
            return self._foreign(first, place)
        return item

    def _foreign(self, block: Block, place: str) -> _Item | None:
        if not isinstance(block, Reasoning):
            kind = type(block).__name__
            self._draft.record_loss(
                "unsupported-content", place, f"{kind} in an assistant's turn that this dialect cannot hold"
            )
        else:
            self._draft.record_loss("unsigned-reasoning", place, "reasoning without a token is left out")
        return None

    def _sendable(self, item: _Item) -> _Item:
        """Take off what only replies hold; reasoning always has its summary, and no empty fields."""
        kind = _kind(item)
        refused = _response_only(kind)
        held = item
        if not refused.isdisjoint(item):
            held = {name: value for name, value in item.items() if name not in refused}
        if kind == "message":
            if not _id(item):  # only messages with an id have one
                held.pop("status", None)
            return {"type": kind, "role": "assistant", **held}
        if kind != "reasoning":
            return held
        if self._switches.reasoning_status and "status" in item:
            held["status"] = item["status"]
        return {"summary": [], **{name: value for name, value in held.items() if value != _NULL}}

    def _call(self, block: ToolUse) -> _Item:
        item = self._sendable(item_of([block]))
        kind = self.kinds[block.id] = kind_of(block)
        if kind == "mcp_approval_request":
            return {**item, "id": block.id}
        item["call_id"] = block.id
        if kind == "function_call":
            item |= {"name": block.name, "arguments": "{}" if block.args_missing else block.args}
        elif kind == "custom_tool_call":
            item |= {"name": block.name, "input": block.args}
        return item

    def _replayable(self, written: list[tuple[str, _Item]], thoughts: int) -> list[_Item]:
        """Leave out reasoning that would be refused, and the ids with it, also where it was lost on the way here."""
        reasoning = {at for at, (_, item) in enumerate(written) if _kind(item) == "reasoning"}
        last = max(set(range(len(written))) - reasoning, default=-1)
        fit: list[tuple[str, _Item]] = []
        left = len(reasoning)
        for at, (place, item) in enumerate(written):
            reason = self._unfit(item, followed=at < last) if at in reasoning else ""
            if reason:
                self._draft.record_loss(
                    "reasoning-left-out", place, reason, "the turn goes out without it, and without ids"
                )
                left -= 1
            else:
                fit.append((place, item))
        ids = [_id(item) for _, item in fit]
        if left != thoughts or not self._may_keep(ids, reasons=left > 0):
            fit = [(place, bare) for place, item in fit if (bare := self._bare(item, place))]
            ids = [_id(item) for _, item in fit]
        self._ids.update(filter(None, ids))
        return [item for _, item in fit]

    def _bare(self, item: _Item, place: str) -> _Item | None:
        """Take off an item's id, and the status that only messages with an id have; an approval is answered by its id."""
        kind = _kind(item)
        if kind == "mcp_approval_request" or not _id(item):
            return item
        self._draft.record_loss("id-left-out", place, _id(item))
        off = ("id", "status") if kind == "message" else ("id",)
        bare = {name: value for name, value in item.items() if name not in off}
        # What was kept on the server alone is nothing without its id.
        if kind == "reasoning" and not bare.get("encrypted_content") and not bare.get("content"):
            return None
        return None if kind == "item_reference" else bare

    def _unfit(self, item: _Item, *, followed: bool) -> str:
        if not followed:
            return "nothing of the same turn follows it"
        if item.get("encrypted_content") or self._switches.plain_reasoning:
            return ""
        return "" if self._stored and _id(item) else "it came without its ciphertext, and nothing is stored"

    def _may_keep(self, ids: list[str], *, reasons: bool) -> bool:
        """Tell whether a turn's items may keep these ids; where it `reasons`, all of them need one."""
        limit = self._switches.call_id_max
        if limit and max(map(len, ids), default=0) > limit:
            return False
        if not self._ids.isdisjoint(filter(None, ids)):  # a repeated turn; one that repeats its own ids came so
            return False
        return not reasons or all(ids)

    def _calls_last(self, items: list[_Item], place: str) -> list[_Item]:
        calls = [item for item in items if _kind(item) in CLIENT_CALLS]
        others = [item for item in items if _kind(item) not in CLIENT_CALLS]
        if others + calls != items:
            self._draft.record_loss("calls-last", place, f"{len(calls)} calls moved behind the rest of their turn")
        return others + calls


def _plain(block: Text | Refusal) -> _Item | None:
    """Write text that has no wire form of its own; an empty one says nothing."""
    if not block.text:
        return None
    content: Any = block.text
    if isinstance(block, Refusal):
        content = [{"type": "refusal", "refusal": block.text}]
    elif cited := [splice_json(citation.raw) for citation in block.citations if citation.raw]:
        content = [{"type": "output_text", "text": block.text, "annotations": cited}]
    return {"type": "message", "role": "assistant", "content": content}


@functools.lru_cache(maxsize=64)
def _response_only(kind: str) -> frozenset[str]:
    """Return the fields of an item of this kind that are not sent back. Kept, since each item of each turn asks."""
    own = f"{kind}."
    return frozenset((*RESPONSE_ONLY, *(name.removeprefix(own) for name in RESPONSE_ONLY if name.startswith(own))))


def _kind(item: _Item) -> str:
    return _string(item, "type")


def _id(item: _Item) -> str:
    return _string(item, "id")


def _string(item: _Item, name: str) -> str:
    """Return a field of an item; empty if it is absent or not a string. A received item may hold any JSON there."""
    value = item.get(name)
    if isinstance(value, Raw):
        return jsonio.text_of(value) if bytes(value)[:1] == b'"' else ""
    return value if isinstance(value, str) else ""
