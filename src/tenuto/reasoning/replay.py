"""`reasoning_details`: the array in which a router hands on the reasoning of many vendors, and wants it handed back.

The raw array is what is kept and replayed, in order and word for word. The items are a typed view of it
(`tenuto.reasoning.items`). Any reply, of whatever dialect, can be shown as such an array and made of one again
(`tenuto.reasoning.views`); here stand the array on its way, and the look at it before it goes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from tenuto.reasoning.items import (
    ReasoningEncrypted,
    ReasoningFormat,
    ReasoningItem,
    ReasoningSummary,
    ReasoningText,
    ReplayContract,
)

__all__ = ["MissingSignaturesForStrictProvider", "ReplayAudit", "ReplayViolation", "audit_replay"]


class MissingSignaturesForStrictProvider(msgspec.Struct, frozen=True):
    """Reasoning goes back without a single signature, to a vendor that will refuse it."""

    contract: ReplayContract
    formats: tuple[ReasoningFormat, ...]


ReplayViolation: TypeAlias = MissingSignaturesForStrictProvider


class ReplayAudit(msgspec.Struct, frozen=True):
    """What a turn's reasoning would look like to its vendor. `formats` are sorted by their word, each once.

    `violation` speaks of reasoning without a single signature. `unsigned` are the places of those items that lack the
    signature which others of their format have: one lost among many.
    """

    item_count: int
    signed_count: int
    formats: tuple[ReasoningFormat, ...]
    violation: ReplayViolation | None = None
    unsigned: tuple[int, ...] = ()


def audit_replay(
    items: Sequence[ReasoningItem], contract: ReplayContract, *, next_turn_carries_tools: bool
) -> ReplayAudit:
    """Say what is about to go back, and whether the contract is kept: one signed item is enough.

    A contract that demands signatures is broken by no items at all, too. Take the contract from `contract_for(items)`,
    and it demands nothing where there is nothing, unless the model is known to.
    """
    formats = tuple(sorted({item.format for item in items}, key=ReasoningFormat.as_wire))
    signed = sum(item.carries_signed_payload() for item in items)
    demanded = contract is ReplayContract.ALWAYS_REQUIRED or (
        contract is ReplayContract.REQUIRED_WITH_TOOLS and next_turn_carries_tools
    )
    violation = MissingSignaturesForStrictProvider(contract, formats) if demanded and signed == 0 else None
    return ReplayAudit(len(items), signed, formats, violation, _unsigned(items))


def _unsigned(items: Sequence[ReasoningItem]) -> tuple[int, ...]:
    """Find texts without a signature among texts with one, and readable items whose ciphertext is gone while others of
    their format have theirs: both go by the id of what they belong to.
    """
    texts = {item.format for item in items if isinstance(item, ReasoningText) and item.signature is not None}
    sealed = {(item.format, item.id) for item in items if isinstance(item, ReasoningEncrypted) and item.id is not None}
    by_id = {format for format, _ in sealed}

    def lacks(item: ReasoningItem) -> bool:
        if isinstance(item, ReasoningText) and item.format in texts:
            return item.signature is None
        readable = isinstance(item, ReasoningText | ReasoningSummary) and item.id is not None
        return readable and item.format in by_id and (item.format, item.id) not in sealed

    return tuple(at for at, item in enumerate(items) if lacks(item))
