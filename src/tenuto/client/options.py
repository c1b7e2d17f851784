"""Options of a client that are values: how long it waits, and what it does about losses."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

__all__ = ["OnLoss", "Timeouts", "check_on_loss"]

OnLoss: TypeAlias = Literal["warn", "raise", "keep"]


def check_on_loss(on_loss: OnLoss) -> OnLoss:
    """Return the option. Raise `ValueError` for an unknown value."""
    if on_loss not in get_args(OnLoss):
        raise ValueError(f"on_loss: expected {', '.join(map(repr, get_args(OnLoss)))}, got {on_loss!r}")
    return on_loss


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait, in seconds; None waits for ever.

    `connect` is for opening a line. `read` is the longest silence inside an answer: any byte ends it. `event` is the
    longest time to the head of an answer, and between two events of a stream: comments that a server sends to keep the
    line open do not count. `total` is for the whole call.
    """

    connect: float | None = 10.0
    read: float | None = 300.0
    event: float | None = 600.0
    total: float | None = 3600.0
