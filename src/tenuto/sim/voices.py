"""The voices of the simulator by the name of their dialect."""

from __future__ import annotations

import importlib
from functools import cache

from tenuto.core.provider import Dialect
from tenuto.sim.voice import Voice

__all__ = ["unchecked", "voice"]

_MODULES: dict[Dialect, str] = {
    "anthropic-messages": "tenuto.sim.anthropic.voice",
    "openai-responses": "tenuto.sim.responses.voice",
    "openai-chat": "tenuto.sim.chat.voice",
    "gemini": "tenuto.sim.gemini.voice",
}


@cache
def voice(dialect: Dialect) -> Voice:
    """Return the voice of a dialect, and import it if this is its first use."""
    found: Voice = importlib.import_module(_MODULES[dialect]).VOICE
    return found


def unchecked() -> dict[str, str]:
    """Return the rules that no check holds, by their ids, and why none does."""
    from tenuto.sim.anthropic.rules import UNCHECKED as MESSAGES
    from tenuto.sim.chat.rules import UNCHECKED as CHAT
    from tenuto.sim.cross import UNCHECKED as CROSS
    from tenuto.sim.gemini.rules import UNCHECKED as GEMINI
    from tenuto.sim.responses.rules import UNCHECKED as RESPONSES

    return {**MESSAGES, **RESPONSES, **CHAT, **GEMINI, **CROSS}
