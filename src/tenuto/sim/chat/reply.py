"""A reply in the chat dialect, drawn but not yet written."""

from __future__ import annotations

from typing import Any

import msgspec

from tenuto.sim.asked import Asked
from tenuto.sim.chat import models
from tenuto.sim.chat.details import Detail
from tenuto.sim.chat.habits import Habits
from tenuto.sim.chat.saying import Saying
from tenuto.sim.chat.usage import Cost

__all__ = ["Reply", "Told"]

_ENDS = {
    "anthropic": {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"},
    "google": {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS"},
    "openai": {"stop": "completed", "tool_calls": "completed", "length": "max_output_tokens"},
}


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One choice, with its tokens."""

    index: int
    said: Saying
    details: list[Detail]
    signatures: list[str | None]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """All choices, and what they share. `top` are fields of bodies and chunks, `extra` of bodies."""

    asked: Asked
    habits: Habits
    place: str
    id: str
    created: int
    top: dict[str, Any]
    extra: dict[str, Any]
    told: list[Told]
    spent: Cost

    @property
    def style(self) -> str:
        """The name of the provider that is played."""
        return self.asked.request.style.name

    @property
    def always(self) -> bool:
        """Whether reasoning has its field even if there is none: where it will be wanted back."""
        return self.style in ("deepseek", "moonshot") and self.asked.think and self.place == "reasoning_content"

    @property
    def blank(self) -> bool:
        """Whether a body has the field of reasoning even if there is none, as a matter of form."""
        return self.style in ("xai", "zai") and self.asked.think

    def beside(self) -> dict[str, Any]:
        """Return what Perplexity says beside the choices: what it found."""
        if self.habits.sources != "citations":
            return {}
        found = [one for told in self.told for one in told.said.found]
        results = [
            {"title": one.title, "url": one.url, "last_updated": "2026-06-08", "snippet": one.text, "source": "web"}
            for one in found
        ]
        return {"citations": [one.url for one in found], **({"search_results": results} if results else {})}

    def native(self, finish: str) -> dict[str, Any]:
        """Return the upstream's own word for the end, where it is told."""
        if "native_finish_reason" not in self.habits.choice:
            return {}
        ends = _ENDS.get(models.vendor(self.asked.request.model) or "anthropic", {})
        return {"native_finish_reason": ends.get(finish, finish)}
