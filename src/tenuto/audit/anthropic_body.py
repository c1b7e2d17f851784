"""The body of a Messages request as the checks look at it: odd values read as nothing, neighbours of one role as one turn.

Nothing here raises, whatever stands in the body: a value of the wrong type is treated as if it were not there, since what
is malformed is told by whoever parses it.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec

from tenuto.audit.looking import Broken, Check, Sent, once

__all__ = [
    "CALLS",
    "THOUGHTS",
    "Place",
    "Said",
    "Turn",
    "betas",
    "blocks",
    "dicts",
    "forced",
    "in_results",
    "kind",
    "kinds",
    "marks",
    "mode",
    "natively",
    "number",
    "places",
    "said",
    "setting",
    "started",
    "text_of",
    "tools",
    "turns",
]

Block = dict[str, Any]
THOUGHTS = ("thinking", "redacted_thinking")
CALLS = ("server_tool_use", "mcp_tool_use")
"""Calls that the provider makes by itself."""


class Place(msgspec.Struct, frozen=True):
    """A block of a message: which message, which block of it, and of what type it is."""

    i: int
    j: int
    block: Block
    kind: str

    @property
    def pointer(self) -> str:
        """Where it stands in the body."""
        return f"/messages/{self.i}/content/{self.j}"

    @property
    def fields(self) -> dict[str, Any]:
        """The names that stand in texts and pointers of the book."""
        return {"i": self.i, "j": self.j}


class Said(msgspec.Struct, frozen=True):
    """One message. A string is one block of text; `plain` tells that it was a string. `content` is what it has."""

    i: int
    role: str
    parts: list[Place]
    plain: bool
    content: Any


class Turn(msgspec.Struct, frozen=True):
    """Messages of one role that stand together, as the provider joins them. System messages part nothing.

    `calls` are the assistant's parts that call a tool and have an id, `results` the user's that answer.
    """

    role: str
    parts: list[Place]
    calls: list[Place]
    results: list[Place]


# --- plain values -----------------------------------------------------------------------------------------------------


def dicts(value: Any) -> list[Block]:
    """Return the elements of a list; those that are no objects are empty ones, so that places stay places."""
    return [item if isinstance(item, dict) else {} for item in value] if isinstance(value, list) else []


def text_of(block: Any, name: str) -> str:
    """Return a field that is a string; empty if it is none."""
    value = block.get(name) if isinstance(block, dict) else None
    return value if isinstance(value, str) else ""


def kind(block: Any) -> str:
    """Return a block's type."""
    value = block.get("type") if isinstance(block, dict) else None
    return value if isinstance(value, str) else ""


def number(value: Any) -> float | None:
    """Return a number; None if it is none."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


# --- messages ---------------------------------------------------------------------------------------------------------


@once
def said(sent: Sent) -> list[Said]:
    """Return the messages."""
    found = []
    for i, message in enumerate(dicts(sent.body.get("messages"))):
        content = message.get("content")
        plain = isinstance(content, str)
        held = [{"type": "text", "text": content}] if plain else dicts(content)
        parts = [
            Place(i, j, block, of if isinstance(of := block.get("type"), str) else "") for j, block in enumerate(held)
        ]
        found.append(Said(i, text_of(message, "role"), parts, plain, content))
    return found


@once
def _by_kind(sent: Sent) -> dict[tuple[str, str], list[Place]]:
    found: dict[tuple[str, str], list[Place]] = defaultdict(list)
    for message in said(sent):
        for part in message.parts:
            found[message.role, part.kind].append(part)
    return found


def kinds(sent: Sent, role: str = "assistant") -> list[str]:
    """Return the types of the blocks that one role said."""
    return [of for by, of in _by_kind(sent) if by == role]


def places(sent: Sent, *kinds: str, role: str = "assistant") -> list[Place]:
    """Return the blocks of some kinds that one role said, in order."""
    held = [_by_kind(sent).get((role, of), []) for of in kinds]
    return held[0] if len(held) == 1 else sorted((part for parts in held for part in parts), key=_order)


def _order(place: Place) -> tuple[int, int]:
    return place.i, place.j


@once
def turns(sent: Sent) -> list[Turn]:
    """Return what users and the assistant said, neighbours of one role joined."""
    found: list[Turn] = []
    for message in said(sent):
        role, parts = message.role, message.parts
        if role not in ("user", "assistant"):
            continue
        if not found or found[-1].role != role:
            found.append(Turn(role, [], [], []))
        turn = found[-1]
        turn.parts.extend(parts)
        if role == "user":
            turn.results.extend([part for part in parts if part.kind == "tool_result"])
        else:
            calls = [part for part in parts if part.kind == "tool_use"]
            turn.calls.extend([part for part in calls if isinstance(part.block.get("id"), str)])
    return found


def started(before: Turn) -> bool:
    """Tell whether what stands before an assistant's turn begins something: the user said more than results."""
    return any(part.kind != "tool_result" for part in before.parts) or not before.parts


@once
def in_results(sent: Sent) -> dict[tuple[int, int], list[tuple[str, Block]]]:
    """Return what stands in those results that are lists, each with its pointer, by message and block."""
    results = [place for (_, of), held in _by_kind(sent).items() if of == "tool_result" for place in held]
    return {
        _order(place): [(f"{place.pointer}/content/{at}", inner) for at, inner in enumerate(dicts(content))]
        for place in results
        if isinstance(content := place.block.get("content"), list)
    }


@once
def blocks(sent: Sent) -> list[tuple[str, Block]]:
    """Return the texts, the pictures and whatever carries a mark for the cache, in the conversation and in its results,
    each with its pointer; strings are none.
    """
    found: list[tuple[str, Block]] = []
    inside = in_results(sent)
    for message in said(sent):
        for part in () if message.plain else message.parts:
            if part.kind in ("text", "image") or "cache_control" in part.block:
                found.append((part.pointer, part.block))
            if inside and part.kind == "tool_result":
                found.extend(inside.get((part.i, part.j), ()))
    return found


# --- the rest of the body ---------------------------------------------------------------------------------------------


def tools(sent: Sent) -> list[Block]:
    """Return the tools that are declared."""
    return dicts(sent.body.get("tools"))


@once
def marks(sent: Sent) -> list[tuple[str, Block]]:
    """Return every block that carries a mark for the cache, in the provider's order: tools, system, messages."""
    held = [(f"/tools/{k}", tool) for k, tool in enumerate(tools(sent))]
    held += [(f"/system/{k}", block) for k, block in enumerate(dicts(sent.body.get("system")))]
    return [
        (pointer, block) for pointer, block in (*held, *blocks(sent)) if isinstance(block.get("cache_control"), dict)
    ]


def setting(sent: Sent, name: str) -> Block:
    """Return a setting that is an object; an empty one if it is none."""
    value = sent.body.get(name)
    return value if isinstance(value, dict) else {}


def mode(sent: Sent) -> str:
    """Return how thinking is asked for; empty if nothing is said."""
    return text_of(setting(sent, "thinking"), "type")


def forced(sent: Sent) -> bool:
    """Tell whether the model has to call a tool."""
    return text_of(setting(sent, "tool_choice"), "type") in ("any", "tool")


def betas(sent: Sent) -> str:
    """Return the betas that are named, in the header or, as clouds want it, in the body."""
    listed = sent.body.get("anthropic_beta")
    named = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    return ",".join([sent.headers.get("anthropic-beta", ""), *named])


def natively(check: Check) -> Check:
    """Ask a check only where the dialect is the model's own: Claude, wherever it is served."""

    @functools.wraps(check)
    def asked(sent: Sent) -> Iterator[Broken]:
        if _own_dialect(sent):
            yield from check(sent)

    return asked


def _own_dialect(sent: Sent) -> bool:
    row, dialect = sent.target.provider, sent.target.dialect
    if sent.target.traits.dialect is not None:
        return sent.target.traits.dialect == dialect
    return row.dialect == dialect or bool(row.anthropic.raw_predict)
