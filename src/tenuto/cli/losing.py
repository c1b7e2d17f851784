"""What was lost in a session, and how a loss is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tenuto.core.journal import Entry, HandedOver, LossRecorded, ReplyReceived
from tenuto.core.loss import Loss

__all__ = ["loss_line", "losses_of"]


def losses_of(entries: Iterable[Entry]) -> Iterator[Loss]:
    """Yield every loss that is written down, in its order: of requests and replies, of handing over, of healing."""
    for entry in entries:
        if isinstance(entry.payload, ReplyReceived | HandedOver):
            yield from entry.payload.losses
        elif isinstance(entry.payload, LossRecorded):
            yield entry.payload.loss


def loss_line(loss: Loss) -> str:
    """A loss in a line, as it was written; whoever shows it spells it out."""
    return f"{loss.detail} ({loss.location}){f'; {loss.remedy}' if loss.remedy else ''}"
