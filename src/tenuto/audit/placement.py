"""The outcome of each block of a transcript in a request: from the placements of the encoder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from tenuto.audit.report import BlockOutcome, OutcomeKind
from tenuto.core.blocks import Block
from tenuto.core.loss import Location, Loss, Placement
from tenuto.core.messages import AssistantMessage, Message, ToolResult, ToolResults
from tenuto.rules.issued_tokens import token_of
from tenuto.wire.translate import LOSS_EFFECTS

_STEP = re.compile(r"[^./\[\]]+")
_RANK: tuple[OutcomeKind, ...] = ("kept", "translated", "stripped", "dropped")
_EFFECTS: dict[str, OutcomeKind] = {
    **LOSS_EFFECTS,
    "open-call": "kept",  # the call is sent unchanged: only its result is a placeholder
    **dict.fromkeys(
        ("arguments-not-an-object", "media-moved", "missing-signature", "moved-instructions", "system-hoisted",
         "trimmed-prefill"), "translated"
    ),
    **dict.fromkeys(
        ("cache-hint", "foreign-citations", "id-left-out", "implicit-cache", "unreadable-token", "unsupported-field",
         "unsupported-parameter"), "stripped"
    ),
    **dict.fromkeys(
        ("blank-turn", "content-refused", "empty", "empty-message", "reasoning-left-out", "reasoning-unfinished",
         "reasoning-withheld", "stale-prefix", "unaccounted", "unfinished-call", "unreadable-block",
         "unsigned-reasoning", "unsupported-block", "unsupported-content"), "dropped"
    ),
}  # fmt: skip
"""The effect of each kind of loss on the block at its location. Other kinds concern parameters."""
_RULES = {
    "call-id-mapped": "XP-01", "foreign-reasoning": "XP-02", "foreign-token": "XP-02", "missing-signature": "XP-04",
    "stale-prefix": "ANT-THINK-08",
}  # fmt: skip
"""The rule that a loss avoids to break."""


def block_outcomes(messages: Sequence[Message], placements: Iterable[Placement]) -> tuple[BlockOutcome, ...]:
    """Return the outcome of each block, in the order of the transcript."""
    blocks = {
        Location(index, position): block
        for index, message in enumerate(messages)
        for position, block in enumerate(blocks_of(message))
    }
    return tuple(_outcome(placement, blocks[placement.location]) for placement in placements)


def blocks_of(message: Message) -> tuple[Block | ToolResult, ...]:
    """Return the blocks, content parts or tool results of a message."""
    if isinstance(message, AssistantMessage):
        return message.blocks
    return message.results if isinstance(message, ToolResults) else message.parts


def _outcome(placement: Placement, block: Block | ToolResult) -> BlockOutcome:
    is_result = isinstance(block, ToolResult)
    kind = "tool_result" if is_result else str(block.__struct_config__.tag)
    loss = max(placement.losses, key=lambda loss: _RANK.index(_effect(loss)), default=None)
    effect = _effect(loss) if loss is not None else "kept"
    if not placement.pointer:
        outcome: OutcomeKind = "translated" if effect == "translated" else "dropped"
        loss = loss or Loss("empty", placement.location, "the block is empty")
    elif effect == "dropped":  # the block was sent: only a part of it can have been dropped
        outcome = "stripped" if is_result or (loss is not None and loss.kind == "left-out") else "translated"
    else:
        outcome = effect
    if loss is None or outcome == "kept":
        has_token = isinstance(block, Block) and bool(token_of(block.meta))
        return BlockOutcome(
            location=placement.location, kind=kind, outcome="kept", pointer=placement.pointer, token=has_token
        )
    return BlockOutcome(
        location=placement.location, kind=kind, outcome=outcome, pointer=placement.pointer, loss=loss.kind,
        rule=_RULES.get(loss.kind, ""), reason=loss.detail, remedy=loss.remedy,
    )  # fmt: skip


def _effect(loss: Loss) -> OutcomeKind:
    return _EFFECTS.get(loss.kind, "kept")


class PointerIndex:
    """Find the location in the transcript of a JSON pointer into the body."""

    def __init__(self, outcomes: Iterable[BlockOutcome]) -> None:
        self._exact: dict[str, Location] = {}
        self._above: dict[str, Location] = {}
        for outcome in outcomes:
            if outcome.pointer:
                self._exact.setdefault(outcome.pointer, outcome.location)
                for pointer in _parents(outcome.pointer):
                    self._above.setdefault(pointer, outcome.location)

    def find(self, pointer: str) -> Location | None:
        """Return the location of the block at or around a pointer, else of the first block below it.

        A path as providers write it is accepted, too: `messages.3.content.0`, `input[3].id`.
        """
        if not pointer.startswith("/"):
            pointer = "".join(f"/{step}" for step in _STEP.findall(pointer))
        for above in (pointer, *_parents(pointer)):
            if above in self._exact:
                return self._exact[above]
        return self._above.get(pointer)


def _parents(pointer: str) -> Iterator[str]:
    while "/" in pointer[1:]:
        pointer = pointer.rpartition("/")[0]
        yield pointer


def location_at(outcomes: Iterable[BlockOutcome], pointer: str) -> Location | None:
    """Return the location in the transcript of one pointer; None if no block is there."""
    return PointerIndex(outcomes).find(pointer)
