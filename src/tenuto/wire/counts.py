"""Counts of tokens, for all dialects: what can be read as one, and buckets that do not contradict their sum.

Usage is billing: a count that cannot be read is unknown and never voids a reply. The provider's own object stands beside
the normalised one, so nothing is lost by it.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.target import Loss

__all__ = ["count", "less", "plain", "within"]


def plain(raw: Raw | None) -> Any:
    """Read a value of a usage object; None where there is none, or where no number can hold it."""
    try:
        return None if raw is None else jsonio.parse(raw)
    except jsonio.JsonError:
        return None


def count(value: object) -> int | None:
    """Return a count: a whole number that is not below zero. Anything else is unknown."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    return int(value) if isinstance(value, int) or value.is_integer() else None


def less(total: int | None, *parts: int | None) -> int | None:
    """Return what is left of a total beside its known parts."""
    return None if total is None else total - sum(part or 0 for part in parts)


def within(name: str, part: int | None, total: int | None, losses: list[Loss]) -> int | None:
    """Cut a part down to the total it belongs to, with a `Loss`."""
    if part is None or total is None or part <= total:
        return part
    losses.append(Loss("contradicting-usage", f"usage.{name}", f"{part} is more than the {total} it is a part of"))
    return total
