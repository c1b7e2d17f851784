"""`reasoning_details`: the array in which a router hands on the reasoning of many vendors, and wants it handed back.

The raw array is what is kept and replayed, in order and word for word. The items are a typed view of it
(`tenuto.wire.reasoning_items`). Any reply, of whatever dialect, can be shown as such an array and made of one again
(`tenuto.wire.reasoning_views`); here stand the array on its way, and the look at it before it goes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.wire.merge import MergedFields, merge_fields
from tenuto.wire.reasoning_items import (
    OpenRouterReasoningCodec,
    ReasoningCodec,
    ReasoningEncrypted,
    ReasoningFormat,
    ReasoningItem,
    ReasoningOther,
    ReasoningServerToolCall,
    ReasoningSummary,
    ReasoningText,
    ReplayContract,
    contract_for,
    from_openrouter_value,
    items_of,
)
from tenuto.wire.reasoning_views import details_of, stripped, with_details

__all__ = [
    "Details",
    "MissingSignaturesForStrictProvider",
    "OpenRouterReasoningCodec",
    "ReasoningCodec",
    "ReasoningEncrypted",
    "ReasoningFormat",
    "ReasoningItem",
    "ReasoningOther",
    "ReasoningServerToolCall",
    "ReasoningSummary",
    "ReasoningText",
    "ReplayAudit",
    "ReplayContract",
    "ReplayViolation",
    "audit_replay",
    "contract_for",
    "details_of",
    "from_openrouter_value",
    "items_of",
    "stripped",
    "with_details",
]

# --- streams ----------------------------------------------------------------------------------------------------------

_GROWING = ("text", "summary", "data")


class _Detail:
    __slots__ = ("fields", "pieces", "signed")

    def __init__(self) -> None:
        self.fields = MergedFields()
        self.signed = False  # a signed item does not grow
        self.pieces: dict[str, list[str]] = {}

    def take(self, fields: Mapping[str, Raw]) -> None:
        for name, value in fields.items():
            if name in _GROWING and bytes(value)[:1] == b'"':
                self.pieces.setdefault(name, []).append(jsonio.text_of(value))
                if name not in self.fields:
                    self.fields[name] = value
            else:
                merge_fields(self.fields, ((name, value),))
                if name == "signature":
                    self.signed = self.signed if bytes(value) == b"null" else bytes(value) != b'""'

    def whole(self) -> dict[str, Raw]:
        for name, pieces in self.pieces.items():
            if len(pieces) > 1 or bytes(self.fields[name]) == b"null":
                self.pieces[name] = [jsonio.whole("".join(pieces))]
                self.fields[name] = Raw(jsonio.encode(self.pieces[name][0]))
        return self.fields.written()


class Details:
    """The array on its way: fragments that belong together are joined, in the order in which each item first came.

    Fragments with an `index` belong together when index and type agree; without one, when they follow each other and
    type and id agree and no signature stands between. `text`, `summary` and `data` grow; of everything else the last
    value that is not null counts.
    """

    def __init__(self) -> None:
        self._items: list[_Detail | Raw] = []
        self._keyed: dict[tuple[bytes, bytes], _Detail] = {}
        self._last: tuple[bytes, bytes] | None = None

    def add(self, fragments: Iterable[Raw], *, whole: bool = False) -> str:
        """Take the fragments of one frame, or the items of a whole array; return what of them can be read."""
        return "".join([self._add(fragment, whole=whole) for fragment in fragments])

    def _add(self, fragment: Raw, *, whole: bool) -> str:
        if bytes(fragment)[:1] != b"{":
            self._items.append(fragment)
            self._last = None
            return ""
        fields = jsonio.members(fragment)
        if whole:
            self._items.append(fragment)
        else:
            self._merge(fields)
        return "".join(jsonio.text_of(fields[n]) for n in ("text", "summary") if bytes(fields.get(n, b""))[:1] == b'"')

    def _merge(self, fields: dict[str, Raw]) -> None:
        index, kind = bytes(fields.get("index", b"null")), bytes(fields.get("type", b"null"))
        if index != b"null":
            self._last = None
            detail = self._keyed.get((index, kind)) or self._keyed.setdefault((index, kind), self._new())
        else:
            key = (kind, bytes(fields.get("id", b"null")))
            last = self._items[-1] if self._items else None
            follows = self._last == key and isinstance(last, _Detail) and not last.signed
            detail = last if follows and isinstance(last, _Detail) else self._new()
            self._last = key
        detail.take(fields)

    def _new(self) -> _Detail:
        detail = _Detail()
        self._items.append(detail)
        return detail

    def raw(self) -> str:
        """Return the array so far as JSON text."""
        held = [item if isinstance(item, Raw) else item.whole() for item in self._items]
        return jsonio.as_text(jsonio.encode(held))


# --- before the request goes out --------------------------------------------------------------------------------------


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
