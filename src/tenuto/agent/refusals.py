"""Find the block that a provider's error refuses, so that the request can be sent again without it.

The patterns are the error texts of the rule book. Only errors that identify one block lead to a second request.
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
_ID_RULES = {
    "OAR-REAS-01": "fc_id",
    "OAR-REAS-02": "msg_id",
    "OAR-REAS-03": "rs_id",
    "OAR-REAS-04": "rs_id",
    "OAR-REAS-05": "rs_id",
    "OAR-REAS-10": "rs_id",
}
"""Rules whose error texts have the id of an item, and the placeholder of the id in the text."""
_ID_PATTERN = r"[\w.-]+?"
_FIELD_PATTERNS = {"i": r"\d+", "j": r"\d+", "first4": r"\S+?", "last4": r"\S+?"}
"""The patterns of placeholders that are not ids: indices, and the start and end of encrypted content."""
_FIELD = re.compile(r"\\\{(\w+)\\\}")
_LOCATION = re.compile(r"messages\[(\d+)\]\.blocks\[(\d+)\]")


def refused_block(
    error: LLMError, request: ChatRequest, target: Target, wire: WireRequest
) -> tuple[int, int, Loss] | None:
    """Return the message index and block index that an error names, and the loss of the block; None if it names none."""
    if not isinstance(error, BadRequest | NotFound):
        return None
    position = _find_by_id(error, request, target) or _find_by_position(error, request, target, wire)
    block = _removable_block(request, *position) if position is not None else None
    if position is None or block is None:
        return None
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
    for id, placeholder in _ID_RULES.items():
        fields = _fields(error.message, id) if rule(id).dialect == target.dialect else None
        if fields is None:
            continue
        matches = [position for position, meta in _items(request, target) if _is_named(meta, fields, placeholder)]
        if matches and (placeholder in fields or len(matches) == 1):
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


def _is_named(meta: OpenAiMeta, fields: dict[str, str], placeholder: str) -> bool:
    """Return whether an error names this item: by its id, or by the start and end of its encrypted content."""
    if placeholder in fields:
        return bool(meta.id) and meta.id == fields[placeholder]
    if "first4" not in fields:
        return False
    content = meta.encrypted_content or ""
    return content.startswith(fields["first4"]) and content.endswith(fields["last4"])


def _find_by_position(
    error: LLMError, request: ChatRequest, target: Target, wire: WireRequest
) -> tuple[int, int] | None:
    from tenuto.audit.auditing import fates_of
    from tenuto.audit.fates import place_at

    for id in _POSITION_RULES:
        fields = _fields(error.message, id) if rule(id).dialect == target.dialect else None
        if fields is None or not {"i", "j"} <= fields.keys():
            continue
        pointer = f"/messages/{fields['i']}/content/{fields['j']}"
        location = _LOCATION.fullmatch(place_at(fates_of(request, target, wire), pointer))
        if location is not None:
            return int(location[1]), int(location[2])
    return None


def _removable_block(request: ChatRequest, message_index: int, block_index: int) -> Block | None:
    """Return the block if the request may be sent without it: reasoning, or a block with a token."""
    message = request.transcript[message_index]
    if not isinstance(message, AssistantMessage) or block_index >= len(message.blocks):
        return None
    block = message.blocks[block_index]
    return block if isinstance(block, Reasoning) or block.meta is not None else None


def _fields(message: str, id: str) -> dict[str, str] | None:
    """Return the values of the placeholders in a rule's error text; None if the message is another text."""
    for pattern in _patterns(id):
        match = pattern.search(message)
        if match is not None:
            return match.groupdict()
    return None


@cache
def _patterns(id: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(_pattern(text)) for text in rule(id).says if text)


def _pattern(text: str) -> str:
    """Return a pattern for a text with placeholders in braces. A repeated placeholder has the same value."""
    names: set[str] = set()

    def group(field: re.Match[str]) -> str:
        name = field[1]
        if name in names:
            return f"(?P={name})"
        names.add(name)
        return rf"(?P<{name}>{_FIELD_PATTERNS.get(name, _ID_PATTERN)})"

    return _FIELD.sub(group, re.escape(text))
