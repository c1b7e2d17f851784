"""What a provider's refusal names: the one block without which the request may be taken.

The book's own texts are the patterns, so an error is understood exactly where a rule says what the provider says. An
error that names no block heals nothing: what cannot be found is not guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from tenuto.core.blocks import Block, OpenAiMeta, Reasoning
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.core.rules import rule
from tenuto.errors import BadRequest, LLMError, NotFound
from tenuto.wire.adapt import is_signed_part
from tenuto.wire.token_scope import issued_by

__all__ = ["REFUSED", "is_item_refusal", "refused_block"]

REFUSED = "refused-item"
"""The rule of a loss that a refusal led to."""

_BY_PLACE = (
    "ANT-THINK-02",
    "ANT-THINK-04",
    "ANT-THINK-08",
    "ANT-THINK-09",
    "ANT-THINK-13",
    "ANT-THINK-14",
    "ANT-THINK-16",
)
_BY_ID = {
    "OAR-REAS-01": "fc_id",
    "OAR-REAS-02": "msg_id",
    "OAR-REAS-03": "rs_id",
    "OAR-REAS-04": "rs_id",
    "OAR-REAS-05": "rs_id",
    "OAR-REAS-10": "rs_id",
}
"""Refusals that name an item by its id, and the name that stands for it in the text."""
_WORD = r"[\w.-]+?"
_LETTERS = {"i": r"\d+", "j": r"\d+", "first4": r"\S+?", "last4": r"\S+?"}
"""What may stand where a text has a name: an id, a number; and how a ciphertext, of any alphabet, begins and ends."""
_FIELD = re.compile(r"\\\{(\w+)\\\}")
_PLACE = re.compile(r"messages\[(\d+)\]\.blocks\[(\d+)\]")


def refused_block(
    error: LLMError, request: ChatRequest, target: Target, wire: WireRequest
) -> tuple[int, int, Loss] | None:
    """Return the block that an error names (message, and place in it), and what leaving it out loses; None if none."""
    if not isinstance(error, BadRequest | NotFound):
        return None
    found = _by_id(error, request, target) or _by_place(error, request, target, wire)
    if found is None:
        return None
    at, place = found
    block = _block(request, at, place)
    if block is None:
        return None
    token = "the token of " if is_signed_part(block) else ""
    kind = "reasoning" if isinstance(block, Reasoning) else f"{token}a {type(block).__name__}"
    what = f"{kind}, refused: {error.message[:200]}"
    return at, place, Loss(REFUSED, Location(at, place), what, "it stays in the journal")


def is_item_refusal(error: LLMError, target: Target) -> bool:
    """Tell whether an error refuses an item by its name, be it in the request or not: such a request is at fault."""
    rules = (id for id in (*_BY_PLACE, *_BY_ID) if rule(id).dialect == target.dialect)
    return isinstance(error, BadRequest | NotFound) and any(_said(error.message, id) is not None for id in rules)


def _by_id(error: LLMError, request: ChatRequest, target: Target) -> tuple[int, int] | None:
    """Find the one item that an error means; of several that it may mean, none is it."""
    for id, field in _BY_ID.items():
        said = _said(error.message, id) if rule(id).dialect == target.dialect else None
        if said is None:
            continue
        found = [place for place, meta in _items(request, target) if _is(meta, said, field)]
        if found and (field in said or len(found) == 1):
            return found[0]
    return None


def _items(request: ChatRequest, target: Target) -> Iterator[tuple[tuple[int, int], OpenAiMeta]]:
    """Yield the items that may stand in the request as the target gave them, with their places."""
    left = set(request.omit_blocks)
    for at, message in enumerate(request.transcript):
        if not isinstance(message, AssistantMessage) or (message.origin and not issued_by(message.origin, target)):
            continue
        for place, block in enumerate(message.blocks):
            if isinstance(block.meta, OpenAiMeta) and (at, place) not in left:
                yield (at, place), block.meta


def _is(meta: OpenAiMeta, said: dict[str, str], field: str) -> bool:
    """Tell whether an error means this item: by its id, or by how its ciphertext begins and ends."""
    if field in said:
        return bool(meta.id) and meta.id == said[field]
    held = meta.encrypted_content or ""
    return held.startswith(said["first4"]) and held.endswith(said["last4"]) if "first4" in said else False


def _by_place(error: LLMError, request: ChatRequest, target: Target, wire: WireRequest) -> tuple[int, int] | None:
    from tenuto.audit.auditing import fates_of
    from tenuto.audit.fates import place_at

    for id in _BY_PLACE:
        said = _said(error.message, id) if rule(id).dialect == target.dialect else None
        if said is None or not {"i", "j"} <= said.keys():
            continue
        pointer = f"/messages/{said['i']}/content/{said['j']}"
        found = _PLACE.fullmatch(place_at(fates_of(request, target, wire), pointer))
        if found is not None:
            return int(found[1]), int(found[2])
    return None


def _block(request: ChatRequest, at: int, place: int) -> Block | None:
    """Return a block that carries something a provider could refuse: a thought, or a token."""
    message = request.transcript[at]
    if not isinstance(message, AssistantMessage) or place >= len(message.blocks):
        return None
    block = message.blocks[place]
    return block if isinstance(block, Reasoning) or block.meta is not None else None


def _said(message: str, id: str) -> dict[str, str] | None:
    """Return what stands where the rule's text has its names; None if it is another text."""
    for pattern in _patterns(id):
        found = pattern.search(message)
        if found is not None:
            return found.groupdict()
    return None


@cache
def _patterns(id: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(_pattern(text)) for text in rule(id).says if text)


def _pattern(text: str) -> str:
    """Make a pattern of a text with names in braces; a name that comes twice is the same both times."""
    seen: set[str] = set()

    def group(found: re.Match[str]) -> str:
        name = found[1]
        if name in seen:
            return f"(?P={name})"
        seen.add(name)
        return rf"(?P<{name}>{_LETTERS.get(name, _WORD)})"

    return _FIELD.sub(group, re.escape(text))
