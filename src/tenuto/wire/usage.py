"""Counts of tokens, for all dialects: what can be read as one, and buckets that do not contradict their sum.

Usage is billing: a count that cannot be read is unknown and never voids a reply. The provider's own object stands beside
the normalised one, so nothing is lost by it.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Raw

from tenuto.core import jsonio
from tenuto.core.loss import Loss

__all__ = ["Count", "count", "less", "plain", "within"]

Count: TypeAlias = Annotated[int, Meta(ge=0)]
"""A count, where a whole usage object is read as a struct; one that does not fit is read count by count."""


def plain(raw: Raw | None) -> Any:
    """Read a value of a usage object; None where there is none, or where no number can hold it."""
    try:
        return None if raw is None else jsonio.parse(raw)
    except jsonio.JsonError:
        return None


def count(value: object) -> int | None:
    """Return a count: a whole number that is not below zero. Anything else is unknown."""
    if type(value) is int:
        return value if value >= 0 else None
    return int(value) if isinstance(value, float) and value >= 0 and value.is_integer() else None


def less(total: int | None, *parts: int | None) -> int | None:
    """Return what is left of a total beside its known parts."""
    for part in parts:
        if total is not None and part is not None:
            total -= part
    return total


def within(name: str, part: int | None, total: int | None, losses: list[Loss]) -> int | None:
    """Cut a part down to the total it belongs to, with a `Loss`."""
    if part is None or total is None or part <= total:
        return part
    losses.append(Loss("contradicting-usage", f"usage.{name}", f"{part} is more than the {total} it is a part of"))
    return total
