"""What becomes of each block of reasoning that comes back: taken, dropped, or the reason for a refusal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from tenuto.sim.anthropic.opened import REASONING, Block, Message, Opened
from tenuto.sim.anthropic.sealing import account, chain, claims_of, prefix, told
from tenuto.sim.mint import digest

__all__ = ["Fate", "dropped", "fates"]

_REASONS = {
    "ANT-THINK-10": "model_binding_mismatch",
    "ANT-THINK-11": "organization_binding_mismatch",
    "ANT-THINK-12": "prefix_binding_mismatch",
}
BETA = "thinking-binding-controls-"


class Fate(msgspec.Struct, frozen=True):
    """A block of reasoning, the rule that it breaks (none if empty), and whether it is in the latest turn."""

    block: Block
    rule: str = ""
    latest: bool = False


def fates(opened: Opened) -> list[Fate]:
    """Return the fate of every block of reasoning in a request."""
    if "fates" not in opened.known:
        opened.known["fates"] = [
            Fate(block, _rule(opened, at, place), at == opened.latest)
            for at, message in opened.assistants()
            for place, block in enumerate(message.blocks)
            if block.type in REASONING
        ]
    found: list[Fate] = opened.known["fates"]
    return found


def dropped(opened: Opened) -> list[dict[str, str]] | None:
    """Return what the reply tells of dropped blocks; None if the request did not ask to be told."""
    if not opened.has_beta(BETA):
        return None
    return [
        {
            "type": "thinking_dropped",
            "path": f"messages.{fate.block.i}.content.{fate.block.j}",
            "reason": _REASONS[fate.rule],
        }
        for fate in fates(opened)
        if fate.rule in _REASONS
    ]


def _rule(opened: Opened, at: int, place: int) -> str:
    """Return the first rule that a block breaks: its form, its token, whose it is, its text and place, its prefix."""
    block = opened.merged[at].blocks[place]
    if not opened.signs:
        return ""
    return _formless(block) or next(_unfit(opened, at, place), "")


def _formless(block: Block) -> str:
    if block.type == "redacted_thinking":
        return "" if isinstance(block.raw.get("data"), str) else "ANT-THINK-14"
    if not isinstance(block.raw.get("signature"), str):
        return "ANT-THINK-01"
    return "" if isinstance(block.raw.get("thinking"), str) else "ANT-THINK-03"


def _unfit(opened: Opened, at: int, place: int) -> Iterator[str]:
    block, model, request = opened.merged[at].blocks[place], opened.model, opened.request
    hidden = block.type == "redacted_thinking"
    invalid = "ANT-THINK-14" if hidden else "ANT-THINK-02"
    claims = claims_of(request.seals, block.raw["data" if hidden else "signature"], "thinking")
    if claims is None or claims["r"] != hidden:
        yield invalid
        return
    if claims["p"] != request.style.name:
        yield "ANT-THINK-13"
    if claims["a"] != account(request.account):
        yield "ANT-THINK-11" if model.bound else invalid
    if claims["m"] and not re.fullmatch(model.reads, claims["m"]):
        yield "ANT-THINK-10"
    if not hidden and claims["t"] != digest(block.raw["thinking"]):
        yield "ANT-THINK-04" if at == opened.latest else _altered(opened.merged[at], place, claims)
    yield from _misplaced(opened, at, place, claims)


def _altered(message: Message, place: int, claims: dict[str, Any]) -> str:
    """Tell a text that was joined with another, or cut in two, from one that was changed."""
    text, size = message.blocks[place].raw["thinking"], claims["l"]
    joined = size and len(text) > size and claims["t"] in (digest(text[:size]), digest(text[-size:]))
    beside = [
        "".join(_text(block) for block in message.blocks[start : start + 2])
        for start in (place - 1, place)
        if 0 <= start < len(message.blocks) - 1
    ]
    return "ANT-THINK-16" if joined or claims["t"] in map(digest, beside) else "ANT-THINK-02"


def _text(block: Block) -> str:
    text = block.raw.get("thinking")
    return text if isinstance(text, str) else ""


def _misplaced(opened: Opened, at: int, place: int, claims: dict[str, Any]) -> Iterator[str]:
    message, start = opened.merged[at], claims["c"]
    before = [block.raw for block in message.blocks[start:place]]
    bound = opened.model.bound and claims["x"]
    missing = bound and sum(block["type"] in REASONING for block in before) < claims["h"]
    behaviour = ((opened.body.get("thinking") or {}).get("block_binding") or {}).get("prefix_mismatch_behavior")
    drops = behaviour == "drop_block"
    if place != start + claims["n"] or told(before) != claims["b"]:
        if missing:
            yield "ANT-THINK-12" if drops else "ANT-THINK-09"
        elif at == opened.latest:
            yield "ANT-THINK-04"
        elif bound:
            yield "ANT-THINK-12" if drops else "ANT-THINK-08"
    earlier = [block.raw for block in message.blocks[:start]]
    if bound and claims["x"] != prefix(chain(opened)[at], "assistant", earlier):
        yield "ANT-THINK-12" if drops else "ANT-THINK-08"
