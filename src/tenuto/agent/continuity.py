"""Decide whether an agent can use a model, before any request is sent.

An agent sends the turns of a model back to it. So it must be known what the model needs of its earlier reasoning: it
returns tokens or text that are sent back, or it has no reasoning that could be lost.
"""

from __future__ import annotations

from tenuto.core.target import Target
from tenuto.errors import UnsupportedModel
from tenuto.providers import forced, is_row, provider

__all__ = ["DECLARED", "admit", "refusal"]

DECLARED = "declared"
"""The user accepts the model without proof; the journal records it."""
_NOTHING_TO_LOSE = "no: it returns no reasoning that could be handed back"


def admit(named: str, target: Target, continuity: str, *, tools: bool) -> None:
    """Raise `UnsupportedModel`, with the missing feature, unless an agent can use the model.

    `named` is the model as the user wrote it. `continuity` and `tools` are those of `refusal`. Raise `ValueError` for
    any other `continuity`.
    """
    if continuity not in ("", DECLARED):
        raise ValueError(f'continuity is "declared" or nothing, not {continuity!r}')
    reason = refusal(target, continuity, tools=tools)
    if reason:
        raise UnsupportedModel(named, reason)


def refusal(target: Target, continuity: str = "", *, tools: bool) -> str:
    """Return why an agent cannot use a model; empty if it can.

    `continuity` is `declared` if the user accepts a model whose reasoning may be lost; `tools` tells whether the agent
    has tools.
    """
    traits, name = target.traits, target.provider.name
    if "text" not in traits.output_modalities:
        return f"it returns {' and '.join(traits.output_modalities)} only"
    if not traits.served:
        return f"{name} does not serve it"
    if tools and not traits.tools:
        return "it takes no tools"
    if continuity != DECLARED and traits.continuity not in ("yes", _NOTHING_TO_LOSE):
        reason = traits.continuity.removeprefix("no: ")
        reason = reason or f"nothing is known of what {name} wants back of its reasoning"
        return f'{reason}; pass continuity="declared" if you know that it can be relied on'
    home = provider(name).dialect if is_row(name) else target.provider.dialect
    if home == "openai-responses" and target.dialect == "openai-chat":
        use = forced(name, home)
        return f"agents need the Responses API for {name} models{f': use {use}/{target.model}' if use else ''}"
    return ""
