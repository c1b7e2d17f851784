"""How long a client waits."""

from __future__ import annotations

import msgspec

__all__ = ["Timeouts"]


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
