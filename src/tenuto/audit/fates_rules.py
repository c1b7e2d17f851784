"""What the reasons of losses mean for a block: one line a reason, with the rule of the book that stands behind it."""

from __future__ import annotations

from tenuto.audit.report import Fate
from tenuto.wire.translate import LOSS_EFFECTS

__all__ = ["FATE_OF", "NOT_OF_BLOCKS", "UNACCOUNTED"]

UNACCOUNTED = "unaccounted"
"""The reason of a block that is neither in the body nor in the losses. It never happens, or something is broken."""

FATE_OF: dict[str, tuple[Fate, str]] = {
    "arguments-not-an-object": ("translated", ""),
    "blank-turn": ("dropped", ""),
    "cache-hint": ("stripped", ""),
    "call-id-mapped": ("translated", "XP-01"),
    "calls-last": ("translated", ""),
    "content-refused": ("dropped", ""),
    "custom-tool": ("translated", ""),
    "empty": ("dropped", ""),
    "empty-message": ("dropped", ""),
    "foreign-block": ("dropped", ""),
    "foreign-call": ("translated", ""),
    "foreign-citations": ("stripped", ""),
    "foreign-fields": ("stripped", ""),
    "foreign-reasoning": ("dropped", "XP-02"),
    "foreign-token": ("stripped", "XP-02"),
    "id-left-out": ("stripped", ""),
    "implicit-cache": ("stripped", ""),
    "left-out": ("dropped", ""),
    "media-moved": ("translated", ""),
    "missing-signature": ("translated", "XP-04"),
    "moved-instructions": ("translated", ""),
    "orphan-result": ("dropped", ""),
    "prefill-refused": ("dropped", ""),
    "reasoning-left-out": ("dropped", ""),
    "reasoning-unfinished": ("dropped", ""),
    "reasoning-withheld": ("dropped", ""),
    "stale-prefix": ("dropped", "ANT-THINK-08"),
    "system-hoisted": ("translated", ""),
    "trimmed-prefill": ("translated", ""),
    "unfinished-call": ("dropped", ""),
    "unreadable-block": ("dropped", ""),
    "unreadable-token": ("stripped", ""),
    "unsigned-reasoning": ("dropped", ""),
    "unsupported-block": ("dropped", ""),
    "unsupported-content": ("dropped", ""),
    "unsupported-field": ("stripped", ""),
    "unsupported-parameter": ("stripped", ""),
    UNACCOUNTED: ("dropped", ""),
}
FATE_OF |= {rule: (fate, FATE_OF[rule][1] if rule in FATE_OF else "") for rule, fate in LOSS_EFFECTS.items()}
FATE_OF["open-call"] = ("kept", "")  # the call goes as it is: it is its answer that is made up

NOT_OF_BLOCKS = frozenset(
    (
        "clamped", "clamped-parameter", "dropped-schema", "dropped-tools", "effort-degree", "effort-mapped",
        "forced-choice-refused", "lone-surrogate", "max-tokens-raised", "no-parallel-tools", "no-structured-output",
        "no-such-thinking", "no-thinking-budget", "no-tools", "parameter-refused", "sampling-refused", "schema-lowered",
        "stripped-parameter", "thinking-off", "thinking-stays-on", "too-many-stops", "unsupported-tool",
    )
)  # fmt: skip
"""Reasons that concern the request around the blocks: parameters, tools, the answer's shape."""
