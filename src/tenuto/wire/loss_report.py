"""The losses of a session: those in its journal, and a summary for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tenuto.core.journal import Entry, HandedOver, LossRecorded, ReplyReceived
from tenuto.core.loss import Loss
from tenuto.wire.translate import LOSS_EFFECTS


def recorded_losses(entries: Iterable[Entry]) -> Iterator[Loss]:
    for entry in entries:
        if isinstance(entry.payload, ReplyReceived | HandedOver):
            yield from entry.payload.losses
        elif isinstance(entry.payload, LossRecorded):
            yield entry.payload.loss


def summarize_losses(losses: Iterable[Loss]) -> str:
    """Return one line with the number of blocks that are affected, each counted once; empty without losses."""
    known = list(losses)
    kinds: dict[tuple[int, int | None], set[str]] = {}
    for loss in known:
        if loss.location.message is not None:
            kinds.setdefault((loss.location.message, loss.location.block), set()).add(loss.kind)
    blocks: dict[str, list[set[str]]] = {"dropped": [], "stripped": [], "translated": []}
    for found in kinds.values():
        effects = {LOSS_EFFECTS.get(kind, "translated") for kind in found}
        blocks[next(effect for effect in blocks if effect in effects)].append(found)
    unsent = []
    if dropped := blocks["dropped"]:
        is_reasoning = all("foreign-reasoning" in found for found in dropped)
        unsent.append(_count(len(dropped), "reasoning block" if is_reasoning else "block"))
    if stripped := blocks["stripped"]:
        unsent.append(f"the signature or ID of {_count(len(stripped), 'block')}")
    parts = [f"not sent: {', '.join(unsent)}"] if unsent else []
    if translated := blocks["translated"]:
        parts.append(f"in another form: {_count(len(translated), 'block')}")
    parts += [f"{loss.location}: {loss.detail}" for loss in known if loss.location.message is None]
    if any("returns to its issuer" in loss.remedy for loss in known):
        parts.append("restored if you switch back")
    return "; ".join(parts)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
