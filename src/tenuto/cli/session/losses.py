"""Losses of a session: what a model does not receive, or receives in another form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tenuto.cli.errors import plural
from tenuto.core.journal import Entry, HandedOver, LossRecorded, ReplyReceived
from tenuto.core.loss import Loss
from tenuto.wire.translate import LOSS_EFFECTS

_ORDER = ("dropped", "stripped", "translated")


def recorded_losses(entries: Iterable[Entry]) -> Iterator[Loss]:
    """Yield all losses of a journal in their order."""
    for entry in entries:
        if isinstance(entry.payload, ReplyReceived | HandedOver):
            yield from entry.payload.losses
        elif isinstance(entry.payload, LossRecorded):
            yield entry.payload.loss


def format_loss(loss: Loss) -> str:
    """Return a loss as one line; the caller escapes it."""
    return f"{loss.detail} ({loss.location}){f'; {loss.remedy}' if loss.remedy else ''}"


def summarize_losses(losses: Iterable[Loss]) -> str:
    """Return one line with the number of blocks that are affected, each counted once; empty without losses."""
    known = list(losses)
    effects: dict[tuple[int | None, int | None, str], list[Loss]] = {}
    for loss in known:
        place = loss.location
        effects.setdefault((place.message, place.block, place.path if place.message is None else ""), []).append(loss)
    groups: dict[str, list[list[Loss]]] = {}
    for (message, _, _), found in effects.items():
        kinds = {LOSS_EFFECTS.get(loss.kind, "translated") for loss in found}
        effect = next(name for name in _ORDER if name in kinds) if message is not None else "parameters"
        groups.setdefault(effect, []).append(found)
    unsent = []
    if dropped := groups.get("dropped"):
        is_reasoning = all(any(loss.kind == "foreign-reasoning" for loss in found) for found in dropped)
        unsent.append(plural(len(dropped), "reasoning block" if is_reasoning else "block"))
    if stripped := groups.get("stripped"):
        unsent.append(f"the signature or ID of {plural(len(stripped), 'block')}")
    parts = [f"not sent: {', '.join(unsent)}"] if unsent else []
    if translated := groups.get("translated"):
        parts.append(f"in another form: {plural(len(translated), 'block')}")
    if parameters := groups.get("parameters"):
        parts.append("; ".join(f"{loss.location}: {loss.detail}" for found in parameters for loss in found))
    if any("returns to its issuer" in loss.remedy for loss in known):
        parts.append("restored if you switch back")
    return "; ".join(parts)
