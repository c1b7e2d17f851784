"""Check the reasoning that is about to be sent back against its vendor's replay contract."""

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


class MissingSignaturesForStrictProvider(msgspec.Struct, frozen=True):
    """The contract requires signed reasoning, and no item is signed: the vendor will refuse the request."""

    contract: ReplayContract
    formats: tuple[ReasoningFormat, ...]


ReplayViolation: TypeAlias = MissingSignaturesForStrictProvider


class ReplayAudit(msgspec.Struct, frozen=True):
    item_count: int
    signed_count: int
    formats: tuple[ReasoningFormat, ...]
    """The formats of the items, each once, sorted by wire name."""
    violation: ReplayViolation | None = None
    """Set if the contract requires signed reasoning and no item is signed."""
    unsigned: tuple[int, ...] = ()
    """The indices of items without the signature that other items of their format have."""


def audit_replay(
    items: Sequence[ReasoningItem], contract: ReplayContract, next_turn_carries_tools: bool
) -> ReplayAudit:
    """Check items against a contract. One signed item is enough to satisfy it.

    A contract that requires signed reasoning is violated by an empty list, too. `contract_for(items)` returns a contract
    that requires nothing of an empty list.
    """
    formats = tuple(sorted({item.format for item in items}, key=ReasoningFormat.as_wire))
    signed = sum(item.carries_signed_payload() for item in items)
    required = contract is ReplayContract.ALWAYS_REQUIRED or (
        contract is ReplayContract.REQUIRED_WITH_TOOLS and next_turn_carries_tools
    )
    violation = MissingSignaturesForStrictProvider(contract, formats) if required and signed == 0 else None
    return ReplayAudit(len(items), signed, formats, violation, _unsigned(items))


def _unsigned(items: Sequence[ReasoningItem]) -> tuple[int, ...]:
    """Return the indices of items that lost their signature: unsigned texts of a format that has signed ones, and
    readable items without the encrypted item of the same id, of a format that has such pairs.
    """
    signed_formats = {item.format for item in items if isinstance(item, ReasoningText) and item.signature is not None}
    encrypted = {
        (item.format, item.id) for item in items if isinstance(item, ReasoningEncrypted) and item.id is not None
    }
    encrypted_formats = {format for format, _ in encrypted}
    indices = []
    for index, item in enumerate(items):
        if isinstance(item, ReasoningText) and item.format in signed_formats:
            unsigned = item.signature is None
        else:
            readable = isinstance(item, ReasoningText | ReasoningSummary) and item.id is not None
            unsigned = readable and item.format in encrypted_formats and (item.format, item.id) not in encrypted
        if unsigned:
            indices.append(index)
    return tuple(indices)
