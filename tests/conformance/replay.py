"""Rebuild the recorded next request from our decoded replies, and compare the content that both send back.

The recorded request determines which leaves were sent back; the bytes of the earlier replies have their exact values.
Our request must contain the same leaves, in the same order and number.
"""

from __future__ import annotations

import collections
from typing import Any

from conformance.ancestors import Ancestor, owners, resolved
from conformance.checks import Judged, difference, normal
from conformance.corpus import Exchange
from conformance.jsontext import load
from conformance.leaves import CallLeaf, Leaf, held
from conformance.oracle import shown
from conformance.rebuild import rebuilt
from conformance.requests import Entry, entries
from conformance.subject import sendable, target_for, write

__all__ = ["NOTHING_HELD", "replayed"]

NOTHING_HELD = "nothing held: the recorded request sends back no part of an earlier reply of its dialect"
STORED_THERE = "previous_response_id: the provider stored the conversation"
OTHER_DIALECT = "the linked parent speaks another dialect"
NO_REQUEST = "the source has no request"


def replayed(exchange: Exchange, ancestors: list[Ancestor], linked: Exchange | None) -> Judged:
    """Compare the leaves that our rebuilt request sends back with those that the recorded one did.

    `linked` is the parent that the corpus names; it may have another dialect and is not an ancestor then.
    """
    dialect = exchange.dialect
    if exchange.request is None:
        return Judged(excluded=NO_REQUEST)
    recorded = resolved(exchange, [ancestor.exchange for ancestor in ancestors])
    owned = owners(dialect, recorded, ancestors)
    needed = _needed(dialect, recorded, owned, ancestors)
    if not needed:
        return Judged(excluded=_reason(exchange, linked))
    request, path = rebuilt(exchange, recorded, owned, ancestors)
    written = write(request, target_for(exchange))
    ours = entries(dialect, written.body)
    sent = [leaf for entry in ours if entry.kind == "model" for leaf in entry.leaves(dialect)]
    foreign = [entry for entry, owner in zip(recorded, owned, strict=True) if entry.kind == "model" and owner is None]
    found = _missing(needed, sent, collections.Counter(leaf for entry in foreign for leaf in entry.leaves(dialect)))
    if not found:
        last = ancestors[max(owner for owner in owned if owner is not None)]
        found = _turn_faults(last, ours, losses=sum(str(loss.location).startswith(path) for loss in written.losses))
    return Judged(found)


def _reason(exchange: Exchange, linked: Exchange | None) -> str:
    """Name the rule by which a request that sends back nothing is not judged."""
    if load(exchange.request or b"{}").get("previous_response_id"):
        return STORED_THERE
    if linked is not None and linked.dialect != exchange.dialect:
        return OTHER_DIALECT
    return NOTHING_HELD


# --- expected leaves -------------------------------------------------------------------------------------------------


def _needed(
    dialect: str, recorded: list[Entry], owned: list[int | None], ancestors: list[Ancestor]
) -> list[Leaf | CallLeaf]:
    """Return the leaves of the replies that the recorded request sends back, in the order of the replies."""
    needed: list[Leaf | CallLeaf] = []
    for at, ancestor in enumerate(ancestors):
        same = {other: held(leaf) for other, leaf in ancestor.twins.items()}
        own = [entry for entry, owner in zip(recorded, owned, strict=True) if owner == at]
        sent = [held(leaf) for entry in own for leaf in entry.leaves(dialect)]
        left = collections.Counter(same.get(leaf, leaf) for leaf in sent)
        found = []
        for leaf in ancestor.leaves:
            if left[held(leaf)] > 0:
                left[held(leaf)] -= 1
                found.append(leaf)
        needed += _without_copies(found, ancestor.copies)
    return needed


def _without_copies(found: list[Leaf | CallLeaf], copies: dict[Leaf, list[Leaf | CallLeaf]]) -> list[Leaf | CallLeaf]:
    """Replace each reasoning text that repeats `reasoning_details` by the leaves of the details."""
    remaining: list[Leaf | CallLeaf] = []
    for leaf in found:
        details = copies.get(leaf) if isinstance(leaf, Leaf) else None
        remaining += (
            [leaf] if details is None else [one for one in details if one not in found and one not in remaining]
        )
    return remaining


def _missing(
    needed: list[Leaf | CallLeaf], ours: list[Leaf | CallLeaf], foreign: collections.Counter[Leaf | CallLeaf]
) -> list[str]:
    """Return the needed leaves that our request lacks, repeats or moves.

    `foreign` counts the leaves of recorded turns without an ancestor: a client may send a text twice.
    """
    needed_set = set(needed)
    by_value = {leaf.meaning: leaf for leaf in needed if isinstance(leaf, CallLeaf) and not leaf.exact}
    spelt = [by_value.get(leaf.meaning, leaf) if isinstance(leaf, CallLeaf) else leaf for leaf in ours]
    have = [leaf for leaf in spelt if leaf in needed_set]
    lacking = collections.Counter(needed) - collections.Counter(have)
    if lacking:
        return [f"not sent back: {_named(leaf, ours)}" for leaf in lacking][:4]
    doubled = collections.Counter(have) - collections.Counter(needed) - foreign
    if doubled:
        return [f"sent back too often: {shown(leaf, 120)}" for leaf in doubled][:4]
    rest = iter(have)
    moved = next((leaf for leaf in needed if leaf not in rest), None)
    return [] if moved is None else [f"out of order: {shown(moved, 120)}"]


def _named(leaf: Leaf | CallLeaf, ours: list[Leaf | CallLeaf]) -> str:
    if isinstance(leaf, CallLeaf):
        near = [
            other for other in ours if isinstance(other, CallLeaf) and (other.id, other.name) == (leaf.id, leaf.name)
        ]
        if near:
            return f"{shown(leaf, 140)}; ours is {shown(near[0], 140)}"
    return shown(leaf, 200)


# --- our turn ---------------------------------------------------------------------------------------------------------


def _turn_faults(parent: Ancestor, ours: list[Entry], *, losses: int) -> list[str]:
    """Check that our request contains the parent's blocks, unaltered and adjacent; each omission needs a loss."""
    exchange = parent.exchange
    wire_blocks = [block for block in normal(exchange, exchange.read.first.blocks) if not _says_nothing(block)]
    want = sendable(exchange.dialect, wire_blocks)
    have = sendable(exchange.dialect, [block for turn in _turns(ours) for block in normal(exchange, turn)])
    if exchange.dialect == "openai-chat":
        return _message_faults(_plain_calls(want[0] if want else {}), [_plain_calls(message) for message in have])
    matches, at = [], 0
    for block in want:
        match = next((p for p in range(at, len(have)) if not difference(block, have[p])), None)
        matches.append(match)
        at = at if match is None else match + 1
    left_out = [at for at, match in enumerate(matches) if match is None]
    matched = [match for match in matches if match is not None]
    if len(left_out) > losses:
        odd = want[left_out[0]]
        near = next((difference(odd, block) for block in have if block.get("type") == odd.get("type")), "absent")
        return [f"our turn lacks blocks[{left_out[0]}] without a loss: {near}"]
    if matched and matched[-1] - matched[0] + 1 != len(matched):
        return ["our turn holds something between the parent's blocks"]
    return []


def _turns(ours: list[Entry]) -> list[list[Any]]:
    """Split our wire blocks at every message or result between two turns."""
    found: list[list[Any]] = [[]]
    for entry in ours:
        if entry.block is None:
            found.append([])
        else:
            found[-1].append(entry.block)
    return found


def _says_nothing(block: dict[str, Any]) -> bool:
    """Return whether a block is an empty text without a token; it is not sent, because some servers refuse it."""
    return block.get("text") == "" and not block.get("thoughtSignature") and block.get("type") in (None, "text")


def _plain_calls(message: dict[str, Any]) -> dict[str, Any]:
    """Add the default type and arguments to each call and remove its index, which is not part of it."""
    calls = message.get("tool_calls")
    return {**message, "tool_calls": [_plain_call(call) for call in calls]} if isinstance(calls, list) else message


def _plain_call(call: dict[str, Any]) -> dict[str, Any]:
    found = {"type": "function", **{name: value for name, value in call.items() if name != "index"}}
    function = found.get("function")
    if isinstance(function, dict) and function.get("arguments", "") is None:
        found["function"] = {**function, "arguments": "{}"}
    return found


def _message_faults(want: dict[str, Any], messages: list[dict[str, Any]]) -> list[str]:
    """Check that one of our messages has content and calls of `want` and alters none of its fields."""
    faults = []
    for message in messages:
        altered = [name for name in message if difference(want.get(name) or None, message[name] or None)]
        lacking = [name for name in ("content", "tool_calls") if want.get(name) and name not in message]
        if not altered and not lacking:
            return []
        odd = [*altered, *lacking][0]
        faults.append(f"{odd}: {shown(want.get(odd), 80)} expected, {shown(message.get(odd), 80)} found")
    return [f"our turn is not the parent's message: {faults[-1] if faults else 'absent'}"]
