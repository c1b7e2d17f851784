"""Rebuild the recorded next request from our decoded replies, and compare what it hands back.

The recorded request says what was handed back, the ancestors' bytes say what it was. Our request must hand back the
same, in the order of the replies and as often.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

from conformance.checks import Judged, difference, normal
from conformance.corpus import Exchange
from conformance.jsontext import load
from conformance.leaves import CallLeaf, Leaf, held, turn_leaves
from conformance.oracle import shown
from conformance.requests import Entry, Result, entries
from conformance.subject import Outcome, asked_model, response_only, target_for, write
from tenuto.core.blocks import Text, ToolUse
from tenuto.core.messages import AssistantMessage, Message, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.request import ChatRequest

__all__ = ["NOTHING_HELD", "Ancestor", "excluded", "replayed"]

NOTHING_HELD = "nothing held: the recorded request hands back no leaf of its ancestors' replies"


@dataclasses.dataclass
class Ancestor:
    """An earlier reply of the same conversation, as recorded and as we decoded it."""

    exchange: Exchange
    outcome: Outcome

    @property
    def leaves(self) -> list[Leaf | CallLeaf]:
        """What the reply's bytes say."""
        answer = self.exchange.read.first
        return turn_leaves(self.exchange.dialect, answer.blocks, answer.calls)

    @property
    def twins(self) -> dict[Leaf, Leaf]:
        """Tokens that the bytes give twice and differently, the terminal event's by the finished item's: either may be
        handed back, and ours is the finished item's.
        """
        read, dialect = self.exchange.read, self.exchange.dialect
        found: dict[Leaf, Leaf] = {}
        for place, other in read.variants.items():
            if read.first.blocks[place].get("type") in ("function_call", "custom_tool_call"):
                continue
            done, last = (turn_leaves(dialect, [block], []) for block in (read.first.blocks[place], other))
            pairs = zip(done, last, strict=False)
            found |= {
                b: a for a, b in pairs if isinstance(a, Leaf) and isinstance(b, Leaf) and a.path == b.path and a != b
            }
        return found


def excluded(exchange: Exchange, parent: Exchange | None) -> str:
    """Name the rule by which a replay cannot be judged; empty if it can."""
    if exchange.about.get("replay") == "previous_response_id":
        return "previous_response_id: the provider kept the conversation"
    if parent is None or exchange.request is None:
        return "the parent's reply or the request is not in the folder"
    if parent.dialect != exchange.dialect:
        return "the parent speaks another dialect"
    if parent.about.get("status") != 200 or parent.read.error is not None:
        return "the parent is an error"
    return ""


def replayed(exchange: Exchange, ancestors: list[Ancestor]) -> Judged:
    """Compare the leaves that our rebuilt request hands back with those that the recorded one did."""
    dialect = exchange.dialect
    recorded = entries(dialect, exchange.request or b"{}")
    _unnamed(recorded, ancestors)
    needed = _needed(dialect, recorded, ancestors)
    if not needed:
        return Judged(excluded=NOTHING_HELD)
    request, place = _rebuilt(exchange, recorded, ancestors)
    written = write(request, target_for(exchange))
    ours = entries(dialect, written.body)
    handed = [leaf for entry in ours if entry.kind == "model" for leaf in entry.leaves(dialect)]
    found = _missing(needed, handed)
    if not found:
        blocks = [entry.block for entry in ours if entry.block is not None]
        found = _turn_faults(ancestors[-1], blocks, losses=sum(loss.place.startswith(place) for loss in written.losses))
    return Judged(found)


def _unnamed(recorded: list[Entry], ancestors: list[Ancestor]) -> None:
    """Take off the recorded calls those ids that no reply gave: a client made them up where the provider sent none."""
    given = {call.id for ancestor in ancestors for call in ancestor.exchange.read.first.calls}
    for call in (call for entry in recorded for call in entry.calls):
        call.id = call.id if call.id in given else None


# --- what is needed ---------------------------------------------------------------------------------------------------


def _needed(dialect: str, recorded: list[Entry], ancestors: list[Ancestor]) -> list[Leaf | CallLeaf]:
    handed = [leaf for entry in recorded if entry.kind == "model" for leaf in entry.leaves(dialect)]
    same = {other: held(leaf) for ancestor in ancestors for other, leaf in ancestor.twins.items()}
    left = collections.Counter(same.get(held(leaf), held(leaf)) for leaf in handed)
    needed = []
    for leaf in (leaf for ancestor in ancestors for leaf in ancestor.leaves):
        if left[held(leaf)] > 0:
            left[held(leaf)] -= 1
            needed.append(leaf)
    return needed


def _missing(needed: list[Leaf | CallLeaf], ours: list[Leaf | CallLeaf]) -> list[str]:
    wanted = set(needed)
    composed = {leaf.meaning: leaf for leaf in needed if isinstance(leaf, CallLeaf) and leaf.composed}
    spelt = [composed.get(leaf.meaning, leaf) if isinstance(leaf, CallLeaf) else leaf for leaf in ours]
    have = [leaf for leaf in spelt if leaf in wanted]
    if have == needed:
        return []
    lacking = collections.Counter(needed) - collections.Counter(have)
    if lacking:
        return [f"not handed back: {_named(leaf, ours)}" for leaf in lacking][:4]
    doubled = collections.Counter(have) - collections.Counter(needed)
    if doubled:
        return [f"handed back too often: {shown(leaf, 120)}" for leaf in doubled][:4]
    at = next(at for at, (want, got) in enumerate(zip(needed, have, strict=False)) if want != got)
    return [f"out of order: {shown(needed[at], 100)} expected, {shown(have[at], 100)} found"]


def _named(leaf: Leaf | CallLeaf, ours: list[Leaf | CallLeaf]) -> str:
    if isinstance(leaf, CallLeaf):
        near = [
            other for other in ours if isinstance(other, CallLeaf) and (other.id, other.name) == (leaf.id, leaf.name)
        ]
        if near:
            return f"{shown(leaf, 140)}; ours is {shown(near[0], 140)}"
    return shown(leaf, 200)


# --- our turn ---------------------------------------------------------------------------------------------------------


def _turn_faults(parent: Ancestor, ours: list[Any], *, losses: int) -> list[str]:
    """Our turn holds the parent's blocks, unaltered and in a row. What is left out is on the books as a loss."""
    exchange = parent.exchange
    only = response_only(exchange.dialect)
    want = [_sent(block, only) for block in normal(exchange, exchange.read.first.blocks) if not _says_nothing(block)]
    have = [_sent(block, only) for block in normal(exchange, ours)]
    if exchange.dialect == "openai-chat":
        return _message_faults(_plain_calls(want[0] if want else {}), [_plain_calls(message) for message in have])
    places, at = [], 0
    for block in want:
        place = next((p for p in range(at, len(have)) if not difference(block, have[p])), None)
        places.append(place)
        at = at if place is None else place + 1
    left_out = [at for at, place in enumerate(places) if place is None]
    kept = [place for place in places if place is not None]
    if len(left_out) > losses:
        odd = want[left_out[0]]
        near = next((difference(odd, block) for block in have if block.get("type") == odd.get("type")), "absent")
        return [f"our turn lacks blocks[{left_out[0]}] without a loss: {near}"]
    if kept and kept[-1] - kept[0] + 1 != len(kept):
        return ["our turn holds something between the parent's blocks"]
    return []


def _says_nothing(block: dict[str, Any]) -> bool:
    """An empty text without a token is not sent: some servers refuse it."""
    return block.get("text") == "" and not block.get("thoughtSignature") and block.get("type") in (None, "text")


def _sent(block: Any, only: dict[str, str], path: str = "") -> Any:
    """Take off the fields that are received and never sent."""
    if isinstance(block, list):
        return [_sent(item, only, path) for item in block]
    if not isinstance(block, dict):
        return block
    kind = block.get("type") if isinstance(block.get("type"), str) else None
    return {
        name: _sent(value, only, name)
        for name, value in block.items()
        if name not in only and f"{path}.{name}" not in only and f"{kind}.{name}" not in only
    }


def _plain_calls(message: dict[str, Any]) -> dict[str, Any]:
    """That a call is a function's goes without saying, and its place in the list is no part of it."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    spelt = [{"type": "function", **{k: v for k, v in call.items() if k != "index"}} for call in calls]
    return {**message, "tool_calls": spelt}


def _message_faults(want: dict[str, Any], messages: list[dict[str, Any]]) -> list[str]:
    """A chat message goes back by an allow-list: what is there is unaltered, and content and calls are always there."""
    faults = []
    for message in messages:
        altered = [name for name in message if difference(want.get(name) or None, message[name] or None)]
        lacking = [name for name in ("content", "tool_calls") if want.get(name) and name not in message]
        if not altered and not lacking:
            return []
        odd = [*altered, *lacking][0]
        faults.append(f"{odd}: {shown(want.get(odd), 80)} expected, {shown(message.get(odd), 80)} found")
    return [f"our turn is not the parent's message: {faults[-1] if faults else 'absent'}"]


# --- rebuilding -------------------------------------------------------------------------------------------------------


def _rebuilt(exchange: Exchange, recorded: list[Entry], ancestors: list[Ancestor]) -> tuple[ChatRequest, str]:
    """Make our request: the recorded conversation, with each turn that an ancestor gave as we decoded it. Say also
    where the last of these turns stands.
    """
    owners = _owners(exchange.dialect, recorded, ancestors)
    messages: list[Message] = []
    placed: dict[int, int] = {}
    for entry, owner in zip(recorded, owners, strict=True):
        if owner is not None and owner not in placed:
            placed[owner] = len(messages)
            said = ancestors[owner].outcome.said
            messages.append(said.message if said is not None else AssistantMessage(()))
        elif entry.kind == "model" and owner is None:
            _append_foreign(messages, entry)
        elif entry.result is not None:
            _append_result(messages, entry.result)
        elif entry.kind != "model":
            messages.append(SystemMessage(entry.text) if entry.kind == "system" else UserMessage(entry.text))
    request = ChatRequest(model=asked_model(exchange), messages=tuple(messages), store=_stored(exchange))
    return request, f"messages[{max(placed.values())}]"


def _stored(exchange: Exchange) -> bool | None:
    """Whether the recorded request let the provider keep the reply: then ids alone are enough to hand it back."""
    request = load(exchange.request or b"{}")
    return bool(request.get("store", True)) if exchange.dialect == "openai-responses" else None


def _owners(dialect: str, recorded: list[Entry], ancestors: list[Ancestor]) -> list[int | None]:
    """Say for each entry which ancestor's reply it comes from: the first, in order, that shares a leaf with it."""
    shared = [collections.Counter(held(leaf) for leaf in ancestor.leaves) for ancestor in ancestors]
    owners: list[int | None] = []
    first = 0
    for entry in recorded:
        mine = [held(leaf) for leaf in entry.leaves(dialect)] if entry.kind == "model" else []
        owner = next((at for at in range(first, len(shared)) if any(shared[at][leaf] > 0 for leaf in mine)), None)
        if owner is not None:
            first = owner
            shared[owner].subtract(mine)
        owners.append(owner)
    return owners


def _append_foreign(messages: list[Message], entry: Entry) -> None:
    """Put in a turn that no ancestor gave: its text and its calls, without tokens."""
    blocks: list[Any] = [
        ToolUse(c.id or f"call_{len(messages)}_{at}", c.name or "", c.args or "{}") for at, c in enumerate(entry.calls)
    ]
    text = entry.block.get("text") or entry.block.get("content")
    if isinstance(text, str) and text:
        blocks.insert(0, Text(text))
    last = messages[-1] if messages else None
    if isinstance(last, AssistantMessage) and last.origin is None:
        messages[-1] = AssistantMessage((*last.blocks, *blocks))
    elif blocks:
        messages.append(AssistantMessage(tuple(blocks)))


def _append_result(messages: list[Message], result: Result) -> None:
    answered = {r.tool_use_id for m in messages if isinstance(m, ToolResults) for r in m.results}
    calls = [c for m in messages if isinstance(m, AssistantMessage) for c in m.tool_calls() if c.id not in answered]
    known = [c for c in calls if c.id == result.id] or [c for c in calls if result.name and c.name == result.name]
    if not known:
        return
    answer = ToolResult(known[0].id, result.text)
    if isinstance(messages[-1], ToolResults):
        messages[-1] = ToolResults((*messages[-1].results, answer))
    else:
        messages.append(ToolResults((answer,)))
