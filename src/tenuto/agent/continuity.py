"""Whether a model can be an agent's: known before anything is asked.

An agent's turns go back to the model again and again, so it has to be known what the model wants back of its reasoning:
either it gives tokens or text that are handed back, or it has no reasoning that could be lost.
"""

from __future__ import annotations

from tenuto.core.target import Target
from tenuto.errors import UnsupportedModel
from tenuto.providers import is_row, provider

__all__ = ["DECLARED", "admit"]

DECLARED = "declared"
"""The user vouches for the model; the journal says so."""
_NOTHING_TO_LOSE = "no: it returns no reasoning that could be handed back"


def admit(named: str, target: Target, continuity: str, *, tools: bool) -> None:
    """Raise `UnsupportedModel`, naming the missing feature, unless an agent can rely on the model.

    `continuity` is `declared` where the user says that he knows better; `tools` whether the agent has any.
    """
    if continuity not in ("", DECLARED):
        raise ValueError(f'continuity is "declared" or nothing, not {continuity!r}')
    name = target.provider.name
    home = provider(name).dialect if is_row(name) else target.provider.dialect
    if home == "openai-responses" and target.dialect == "openai-chat":
        raise UnsupportedModel(
            named, "Chat Completions returns no reasoning that could be handed back; an agent asks through Responses"
        )
    if tools and not target.traits.tools:
        raise UnsupportedModel(named, "it takes no tools")
    known = target.traits.continuity
    if continuity == DECLARED or known in ("yes", _NOTHING_TO_LOSE):
        return
    reason = known.removeprefix("no: ") or f"nothing is known of what {name} wants back of its reasoning"
    raise UnsupportedModel(named, f'{reason}; pass continuity="declared" if you know that it can be relied on')
