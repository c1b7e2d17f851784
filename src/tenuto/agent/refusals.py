"""Find the block that a provider's error refuses, so that the request can be sent again without it.

The patterns are the error texts of the rule book. Only errors that identify one block lead to a second request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from tenuto.core.blocks import OpenAiMeta, Reasoning
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.errors import BadRequest, LLMError, NotFound
from tenuto.rules import rule
from tenuto.wire.adapt import is_signed_part
from tenuto.wire.token_scope import issued_by

REFUSED = "refused-item"
"""The kind of the loss of a refused block."""

_POSITION_RULES = (
    "ANT-THINK-02",
    "ANT-THINK-04",
    "ANT-THINK-08",
    "ANT-THINK-09",
    "ANT-THINK-13",
    "ANT-THINK-14",
    "ANT-THINK-16",
)
"""Rules whose error texts give the position of a block."""
_ID_RULES = ("OAR-REAS-01", "OAR-REAS-02", "OAR-REAS-03", "OAR-REAS-04", "OAR-REAS-05")
"""Rules whose error texts have the id of an item."""
_ID_PATTERN = r"[\w.-]+?"
_FIELD_PATTERNS = {"i": r"\d+", "j": r"\d+", "first": r"\S+?", "last": r"\S+?"}
"""The patterns of placeholders that are not ids: indices, and the start and end of encrypted content."""
_FIELD = re.compile(r"\\\{(\w+)\\\}")


def refused_block(
    error: LLMError, request: ChatRequest, target: Target, wire: WireRequest
) -> tuple[int, int, Loss] | None:
    """Return the message index and block index that an error names, and the loss of the block; None if it names none."""
    if not isinstance(error, BadRequest | NotFound):
        return None
    position = _find_by_id(error, request, target) or _find_by_position(error, request, target, wire)
    if position is None:
        return None
    message = request.transcript[position[0]]
    if not isinstance(message, AssistantMessage) or position[1] >= len(message.blocks):
        return None
    block = message.blocks[position[1]]
    if not isinstance(block, Reasoning) and block.meta is None:
        return None  # the request cannot be sent without it
    token = "the token of " if is_signed_part(block) else ""
    kind = "reasoning" if isinstance(block, Reasoning) else f"{token}a {type(block).__name__}"
    detail = f"{kind}, refused: {error.message[:200]}"
    return *position, Loss(REFUSED, Location(*position), detail, "it stays in the journal")


def is_item_refusal(error: LLMError, target: Target) -> bool:
    """Return whether an error refuses one item, even if the item is not in the request: another model would not help."""
    rules = (id for id in (*_POSITION_RULES, *_ID_RULES) if rule(id).dialect == target.dialect)
    return isinstance(error, BadRequest | NotFound) and any(_fields(error.message, id) is not None for id in rules)


def _find_by_id(error: LLMError, request: ChatRequest, target: Target) -> tuple[int, int] | None:
    """Return the position of the item that an error names by its id or content; None if several items match."""
    for id in _ID_RULES:
        fields = _fields(error.message, id) if rule(id).dialect == target.dialect else None
        if fields is None:
            continue
        matches = [position for position, meta in _items(request, target) if _is_named(meta, fields)]
        if matches and ("id" in fields or len(matches) == 1):
            return matches[0]
    return None


def _items(request: ChatRequest, target: Target) -> Iterator[tuple[tuple[int, int], OpenAiMeta]]:
    """Yield the items of the target that the request may contain, with message and block index."""
    omitted = set(request.omit_blocks)
    for message_index, message in enumerate(request.transcript):
        if not isinstance(message, AssistantMessage) or (message.origin and not issued_by(message.origin, target)):
            continue
        for block_index, block in enumerate(message.blocks):
            if isinstance(block.meta, OpenAiMeta) and (message_index, block_index) not in omitted:
                yield (message_index, block_index), block.meta


def _is_named(meta: OpenAiMeta, fields: dict[str, str]) -> bool:
    """Return whether an error names this item: by its id, or by the start and end of its encrypted content."""
    if "id" in fields:
        return bool(meta.id) and meta.id == fields["id"]
    content = meta.encrypted_content or ""
    return "first" in fields and content.startswith(fields["first"]) and content.endswith(fields["last"])


def _find_by_position(
    error: LLMError, request: ChatRequest, target: Target, wire: WireRequest
) -> tuple[int, int] | None:
    from tenuto.audit.api import PointerIndex, outcomes_of

    for id in _POSITION_RULES:
        fields = _fields(error.message, id) if rule(id).dialect == target.dialect else None
        if fields is None or not {"i", "j"} <= fields.keys():
            continue
        pointer = f"/messages/{fields['i']}/content/{fields['j']}"
        location = PointerIndex(outcomes_of(request, target)).find(pointer)
        if location is not None and location.message is not None and location.block is not None:
            return location.message, location.block
    return None


def _fields(message: str, id: str) -> dict[str, str] | None:
    """Return the values of the placeholders in a rule's error text; None if the message is another text."""
    matches = (pattern.search(message) for pattern in _patterns(id))
    return next((match.groupdict() for match in matches if match is not None), None)


@cache
def _patterns(id: str) -> list[re.Pattern[str]]:
    """Return patterns for the error texts of a rule. A repeated placeholder has the same value."""
    patterns = []
    for text in filter(None, rule(id).messages):
        pattern = re.escape(text)
        for name in dict.fromkeys(_FIELD.findall(pattern)):
            field = rf"\{{{name}\}}"
            group = rf"(?P<{name}>{_FIELD_PATTERNS.get(name, _ID_PATTERN)})"
            pattern = pattern.replace(field, group, 1).replace(field, f"(?P={name})")
        patterns.append(re.compile(pattern))
    return patterns
