"""Options of a client that are values: timeouts, and the handling of losses."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

OnLoss: TypeAlias = Literal["warn", "raise", "keep"]


def check_on_loss(on_loss: OnLoss) -> OnLoss:
    """Return the option. Raise `ValueError` for an unknown value."""
    if on_loss not in get_args(OnLoss):
        raise ValueError(f"on_loss: expected {', '.join(map(repr, get_args(OnLoss)))}, got {on_loss!r}")
    return on_loss


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts in seconds; None waits without a limit."""

    connect: float | None = 10.0
    """Open a connection."""
    read: float | None = 300.0
    """The longest time without a byte inside a response."""
    event: float | None = 600.0
    """The longest time until a response starts, and between two events of a stream. Keep-alive comments do not count."""
    total: float | None = 3600.0
    """The whole call."""
