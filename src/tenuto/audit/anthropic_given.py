"""What the provider gave, beside what is sent back of it: replies and turns are laid side by side.

A turn of the body is that reply of which it holds a token, a call, or else the very words. What is compared is what the
provider can tell: texts, calls and tokens in their order; marks for the cache and blank texts do not count.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import msgspec

from tenuto.audit.anthropic_body import THOUGHTS, Place, Turn, kind, text_of, turns
from tenuto.audit.looking import Sent, given_blocks, once
from tenuto.audit.scope import of_each
from tenuto.core import jsonio
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    Block,
    Marker,
    Opaque,
    Reasoning,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.core.messages import AssistantMessage, Origin
from tenuto.wire.token_scope import issued_by

__all__ = [
    "Broke", "Gave", "Lined", "Token", "broken_in", "fields_of", "given_calls", "given_thoughts", "last_paused", "lined", "model_of",
    "own", "parsed", "row_of", "sent_shapes", "token_of",
]  # fmt: skip

Token = tuple[str, str]
_TOKENS = {"thinking": "signature", "redacted_thinking": "data"}
Form = tuple[Hashable, ...]
_spelt = json.JSONEncoder(sort_keys=True).encode
"""Writes a value so that equal ones are equal."""


class Gave(msgspec.Struct, frozen=True):
    """A thought that was given: in which reply, and in which message."""

    reply: int
    message: AssistantMessage
    block: Reasoning


class Lined(msgspec.Struct, frozen=True):
    """An assistant's turn of the body, and the replies that stand in it."""

    turn: Turn
    replies: tuple[int, ...]


class Broke(NamedTuple):
    """A thought that does not stand where it stood. `gone` tells that a thought before it is missing."""

    place: Place
    gone: bool


# --- values -----------------------------------------------------------------------------------------------------------


def parsed(text: str) -> Any:
    """Read stored JSON text; None if it is none."""
    try:
        return jsonio.parse(text) if text else None
    except jsonio.JsonError:
        return None


def fields_of(text: str) -> dict[str, Any]:
    """Read the text of an object; an empty one if it is none."""
    found = parsed(text)
    return found if isinstance(found, dict) else {}


def token_of(place: Place) -> Token | None:
    """Return the token of reasoning in the body, with its kind."""
    token = place.block.get(_TOKENS[place.kind]) if place.kind in _TOKENS else None
    return (place.kind, token) if token and isinstance(token, str) else None


def _token_given(block: Reasoning) -> Token | None:
    match block.meta:
        case AnthropicMeta(signature=signature):
            return ("thinking", signature)
        case AnthropicRedactedMeta(data=data):
            return ("redacted_thinking", data)
        case _:
            return None


# --- who gave it ------------------------------------------------------------------------------------------------------


def own(sent: Sent, reply: int) -> bool:
    """Tell whether the target itself gave a reply; one of which nobody knows who gave it counts as its own."""
    return not _issued_elsewhere(sent)[reply]


@once
def _issued_elsewhere(sent: Sent) -> list[bool]:
    return of_each(sent, lambda origin: not issued_by(origin, sent.target))


def row_of(sent: Sent, origin: Origin) -> str:
    """Return whose row gave a reply: of a simulator, the part that it played."""
    played = origin.provider == sent.target.provider.name and bool(sent.target.provider.plays)
    return origin.model.partition("/")[0] if played else origin.provider


def model_of(message: AssistantMessage) -> str:
    """Return the bare name of the model that gave a reply; empty if nobody knows."""
    return message.origin.model.rpartition("/")[2] if message.origin is not None else ""


# --- what was given ---------------------------------------------------------------------------------------------------


@once
def given_thoughts(sent: Sent) -> dict[Token, Gave]:
    """Return all reasoning that was given, by its token."""
    found: dict[Token, Gave] = {}
    for at, block in given_blocks(sent, Reasoning):
        token = _token_given(block)
        if token is not None:
            found.setdefault(token, Gave(at, sent.given[at], block))
    return found


@once
def given_calls(sent: Sent) -> dict[str, ToolUse]:
    """Return the calls that the target itself gave, by their ids. Of calls that share an id, the last counts."""
    return {block.id: block for at, block in given_blocks(sent, ToolUse) if own(sent, at)}


@once
def sent_shapes(sent: Sent) -> dict[str, frozenset[str]]:
    """Return types of blocks that no table has and that were given all the same, with their keys."""
    found: dict[str, frozenset[str]] = {}
    for _, block in given_blocks(sent, Opaque):
        held = fields_of(block.raw)
        found[kind(held)] = found.get(kind(held), frozenset()) | frozenset(held) | {"cache_control"}
    return found


@once
def last_paused(sent: Sent) -> bool:
    """Tell whether the last reply broke off by itself and is the body's last word: it goes on."""
    if not sent.given or not sent.given[-1].paused:
        return False
    last = next(reversed(turns(sent)), None)
    if last is None or last.role != "assistant" or not last.parts:
        return False
    *_, end = (None, *_forms(sent.given[-1]))
    return _form(last.parts[-1]) == end


# --- side by side -----------------------------------------------------------------------------------------------------


@once
def lined(sent: Sent) -> list[Lined]:
    """Lay the assistant's turns beside the replies they came from, in order."""
    keys = _given_keys(sent)
    found: list[Lined] = []
    first = 0
    for turn in turns(sent):
        if turn.role != "assistant":
            continue
        replies = sorted({_next(keys[key], first) for key in _keys(turn) if key in keys})
        first = replies[-1] if replies else first
        found.append(Lined(turn, tuple(replies)))
    return found


def _next(replies: list[int], first: int) -> int:
    return replies[min(bisect_left(replies, first), len(replies) - 1)]


def _keys(turn: Turn) -> list[Hashable]:
    tokens: list[Hashable] = [token for part in turn.parts if part.kind in _TOKENS and (token := token_of(part))]
    calls = [part.block for part in turn.parts if part.kind.endswith("tool_use")]
    tokens += [("id", id) for call in calls if (id := text_of(call, "id"))]
    if tokens:
        return tokens
    words = "".join(text_of(part.block, "text") for part in turn.parts if part.kind == "text")
    return [("text", words)] if words.strip() else []


def _given_keys(sent: Sent) -> dict[Hashable, list[int]]:
    """Return by what replies are known again, with the numbers of those that have it."""
    found: dict[Hashable, list[int]] = defaultdict(list)
    for at, block in given_blocks(sent, Reasoning):
        if (token := _token_given(block)) is not None:
            found[token].append(at)
    calls = [(at, call.id) for at, call in given_blocks(sent, ToolUse)]
    calls += [(at, call.id) for at, call in given_blocks(sent, ServerToolUse)]
    for at, id in sorted(calls):
        found["id", id].append(at)
    for at, message in enumerate(sent.given):
        found["text", str(message)].append(at)
    return found


def broken_in(sent: Sent, line: Lined) -> tuple[list[Broke], bool]:
    """Return the thoughts of a turn that do not stand where they stood, and whether all of it is as it was given.

    What nobody gave may stand behind a reply; before it only where the model takes words in its mouth; and never in it.
    """
    forms = [form for at in line.replies for form in _forms(sent.given[at])]
    now = [_form(part) for part in line.turn.parts]
    return _broken(sent, line.turn, forms, now) if now != forms else ([], True)


def _broken(sent: Sent, turn: Turn, forms: list[Form], now: list[Form]) -> tuple[list[Broke], bool]:
    where: dict[Form, deque[int]] = defaultdict(deque)
    for k, form in enumerate(forms):
        where[form].append(k)
    here = {token_of(part) for part in turn.parts}
    found: list[Broke] = []
    expected, intact, gone, strange = 0, True, False, False
    for part, form in zip(turn.parts, now, strict=True):
        left = where.get(form)
        if left:
            k = left.popleft()
            intact = intact and k == expected and not strange
            gone = gone or any(skipped[0] in THOUGHTS and skipped[:2] not in here for skipped in forms[expected:k])
            expected, strange = max(expected, k + 1), False
        elif form in where and part.kind in THOUGHTS:
            intact = False  # it was given once and stands here again
        else:
            strange = strange or _is_strange(sent, part, begun=expected > 0)
        if not intact and form in where and part.kind in THOUGHTS:
            found.append(Broke(part, gone))
    return found, intact and expected == len(forms)


def _is_strange(sent: Sent, part: Place, *, begun: bool) -> bool:
    """Tell whether a block that nobody gave cannot have stood there."""
    blank = part.kind == "text" and not text_of(part.block, "text").strip()
    return not blank and (begun or sent.target.traits.prefill == "rejected")


def _forms(message: AssistantMessage) -> Iterator[Form]:
    for block in message.blocks:
        form = _form_given(block)
        if form is not None:
            yield form


def _form_given(block: Block) -> Form | None:
    """Return what tells a block from others; None for one that may be left out."""
    match block:
        case Text(text=text):
            return ("text", text) if text.strip() else None
        case Reasoning(text=text):
            token = _token_given(block)
            return (*token, text) if token else None
        case ToolUse(id=id, name=name, args=args):
            return ("tool_use", id, name, _spelt(parsed(args or "{}")))
        case ServerToolUse(id=id, kind=of):
            return (of, id)
        case ServerToolResult(tool_use_id=id, kind=of):
            return (of, id)
        case Marker(kind=of, text=text):
            return (of, text)
        case Opaque(raw=raw):
            return _other(fields_of(raw))
        case _:
            return None


def _form(place: Place) -> Form:
    of, block = place.kind, place.block
    token = token_of(place)
    if token is not None:
        return (*token, text_of(block, "thinking"))
    if of == "text":
        return (of, text_of(block, "text"))
    if of == "tool_use":
        return (of, text_of(block, "id"), text_of(block, "name"), _spelt(block.get("input")))
    if of.endswith("tool_use"):
        return (of, text_of(block, "id"))
    if of.endswith("_tool_result"):
        return (of, text_of(block, "tool_use_id"))
    return _other(block)


def _other(block: dict[str, Any]) -> Form:
    content = block.get("content")
    return (kind(block), content if isinstance(content, str) else None)
