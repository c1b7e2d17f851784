"""Link the exchanges of a conversation: which earlier replies a recorded request sends back.

The corpus names a parent for each step. Some of these links are wrong, so each is verified: the parent is an earlier
exchange of the same dialect whose reply occurs in the request.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from conformance.corpus import Exchange
from conformance.leaves import CallLeaf, Leaf, held, turn_leaves
from conformance.neutral_wire import details_text
from conformance.reply_values import Call
from conformance.requests import Entry, entries
from conformance.subject import Outcome, decode, sendable, target_for
from tenuto.core.provider import Target

__all__ = ["Ancestor", "Conversation", "owners", "resolved"]


@dataclasses.dataclass
class Ancestor:
    """An earlier reply of the same conversation: as recorded and as we decoded it."""

    exchange: Exchange
    outcome: Outcome

    @property
    def leaves(self) -> list[Leaf | CallLeaf]:
        """The leaves of the recorded reply."""
        return reply_leaves(self.exchange)

    @property
    def twins(self) -> dict[Leaf, Leaf]:
        """Leaves that the terminal event gives differently, mapped to those of the finished item.

        A client may send back either; we send back the finished item's.
        """
        read, dialect = self.exchange.read, self.exchange.dialect
        found: dict[Leaf, Leaf] = {}
        for index, other in read.variants.items():
            if read.first.blocks[index].get("type") in ("function_call", "custom_tool_call"):
                continue
            done, last = (turn_leaves(dialect, [block], []) for block in (read.first.blocks[index], other))
            pairs = zip(done, last, strict=False)
            found |= {
                b: a for a, b in pairs if isinstance(a, Leaf) and isinstance(b, Leaf) and a.path == b.path and a != b
            }
        return found

    @property
    def copies(self) -> dict[Leaf, list[Leaf | CallLeaf]]:
        """Reasoning texts that only repeat the readable text of `reasoning_details`, with the leaves of the details.

        A client may send back the text, the details or both; we send back the details, which say more.
        """
        found: dict[Leaf, list[Leaf | CallLeaf]] = {}
        for message in self.exchange.read.first.blocks if self.exchange.dialect == "openai-chat" else ():
            details = message.get("reasoning_details")
            for name in ("reasoning", "reasoning_content") if details else ():
                if message.get(name) and message[name] == details_text(details):
                    details_leaves = turn_leaves("openai-chat", [{"reasoning_details": details}], [])
                    found[Leaf(("message", name), message[name])] = details_leaves
        return found


@functools.lru_cache(maxsize=100)
def reply_leaves(exchange: Exchange) -> list[Leaf | CallLeaf]:
    """Return the leaves of a recorded reply."""
    answer = exchange.read.first
    return turn_leaves(exchange.dialect, answer.blocks, answer.calls)


class Conversation:
    """The exchanges of one conversation. Each is decoded once."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self.exchanges = [Exchange(folder) for folder in folders]
        self._steps = {exchange.about.get("step"): exchange for exchange in self.exchanges}
        self._decoded: dict[Path, tuple[Target, Outcome]] = {}
        self._parents: dict[Path, Exchange | None] = {}

    def decoded(self, exchange: Exchange) -> tuple[Target, Outcome]:
        """Return the exchange's target and what the codec made of the reply."""
        if exchange.folder not in self._decoded:
            target = target_for(exchange)
            self._decoded[exchange.folder] = (target, decode(exchange, target))
        return self._decoded[exchange.folder]

    def linked(self, exchange: Exchange) -> Exchange | None:
        """Return the parent that the corpus names."""
        return self._steps.get(exchange.about["parent_step"]) if "parent_step" in exchange.about else None

    def ancestors(self, exchange: Exchange) -> list[Ancestor]:
        """Return the replies of its dialect that led to this exchange, the oldest first."""
        found: list[Ancestor] = []
        visited = {exchange.folder}
        parent = self._parent(exchange)
        while parent is not None and parent.folder not in visited:
            visited.add(parent.folder)
            found.insert(0, Ancestor(parent, self.decoded(parent)[1]))
            parent = self._parent(parent)
        return found

    def _parent(self, exchange: Exchange) -> Exchange | None:
        if exchange.folder not in self._parents:
            self._parents[exchange.folder] = self._verified(exchange)
        return self._parents[exchange.folder]

    def _verified(self, exchange: Exchange) -> Exchange | None:
        """Return the linked parent if its reply occurs in the request; otherwise the earlier reply that shares most."""
        linked = self.linked(exchange)
        earlier = [other for other in self.exchanges if _precedes(other, exchange)]
        if "parent_step" not in exchange.about or not earlier:
            return None
        shared = _shared(exchange, earlier)
        if linked is not None and shared.get(linked.folder):
            return linked
        best = max(earlier, key=lambda other: (shared[other.folder], other.about.get("step")))
        return best if shared[best.folder] else linked if linked in earlier else None


def _precedes(other: Exchange, exchange: Exchange) -> bool:
    step, own = other.about.get("step"), exchange.about.get("step")
    if not other.judged or other.dialect != exchange.dialect or step is None or own is None:
        return False
    return bool(step < own) and other.read.error is None


def _shared(exchange: Exchange, earlier: list[Exchange]) -> dict[Path, int]:
    """Count for each earlier exchange how many leaves of its reply occur in the request."""
    recorded = resolved(exchange, earlier)
    turns = [entry for entry in recorded if entry.kind == "model"]
    sent = {held(leaf) for entry in turns for leaf in entry.leaves(exchange.dialect)}
    return {other.folder: sum(held(leaf) in sent for leaf in reply_leaves(other)) for other in earlier}


# --- entries of the request -------------------------------------------------------------------------------------------


def resolved(exchange: Exchange, earlier: Iterable[Exchange]) -> list[Entry]:
    """Return the entries of the recorded request, with references and call ids resolved against earlier replies.

    An `item_reference` becomes the item it names. A call named by its item id gets its call id. A call id that no reply
    gave was made up by the client and is removed.
    """
    items: dict[str, tuple[Any, list[Call]]] = {}
    known_ids: set[str | None] = set()
    call_ids: dict[str, str] = {}
    for other in earlier:
        answer = other.read.first
        known_ids |= {call.id for call in answer.calls}
        if other.dialect == "openai-responses":
            calls = iter(answer.calls)
            for item in answer.blocks:
                own = [next(calls)] if item.get("type") in ("function_call", "custom_tool_call") else []
                items[item.get("id")] = (sendable(other.dialect, item), own)
                call_ids |= {item["id"]: item["call_id"]} if own and item.get("id") else {}
    found = []
    for entry in entries(exchange.dialect, exchange.request or b"{}"):
        if entry.kind == "reference":
            item, calls_of = items.get(entry.block.get("id"), (None, []))
            if item is None:
                continue
            entry = Entry("model", item, [dataclasses.replace(call) for call in calls_of])
        for call in entry.calls:
            call.id = call_ids.get(call.id or "", call.id)
            call.id = call.id if call.id in known_ids else None
        if entry.result is not None:
            entry.result.id = call_ids.get(entry.result.id or "", entry.result.id)
        found.append(entry)
    return found


def owners(dialect: str, recorded: list[Entry], ancestors: list[Ancestor]) -> list[int | None]:
    """Return for each entry the index of the ancestor it comes from: the first, in order, that shares a leaf with it."""
    shared = [collections.Counter(held(leaf) for leaf in ancestor.leaves) for ancestor in ancestors]
    found: list[int | None] = []
    first = 0
    for entry in recorded:
        mine = [held(leaf) for leaf in entry.leaves(dialect)] if entry.kind == "model" else []
        owner = next((at for at in range(first, len(shared)) if any(shared[at][leaf] > 0 for leaf in mine)), None)
        if owner is not None:
            first = owner
            shared[owner].subtract(mine)
        found.append(owner)
    return found
