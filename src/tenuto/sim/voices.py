"""The voices of the simulator, each loaded when it is first asked for."""

from __future__ import annotations

from functools import cache

from tenuto.core.provider import Dialect
from tenuto.sim.voice import Voice

__all__ = ["unchecked", "voice"]


@cache
def voice(dialect: Dialect) -> Voice:
    """Return what speaks a dialect."""
    match dialect:
        case "anthropic-messages":
            from tenuto.sim.anthropic.voice import VOICE as MESSAGES

            return MESSAGES
        case "openai-responses":
            from tenuto.sim.responses.voice import VOICE as RESPONSES

            return RESPONSES
        case "openai-chat":
            from tenuto.sim.chat.voice import VOICE as CHAT

            return CHAT
        case "gemini":
            from tenuto.sim.gemini.voice import VOICE as GEMINI

            return GEMINI


def unchecked() -> dict[str, str]:
    """Return the rules that no check holds, by their ids, and why none does."""
    from tenuto.sim.anthropic.rules import UNCHECKED as MESSAGES
    from tenuto.sim.chat.rules import UNCHECKED as CHAT
    from tenuto.sim.cross import UNCHECKED as CROSS
    from tenuto.sim.gemini.rules import UNCHECKED as GEMINI
    from tenuto.sim.responses.rules import UNCHECKED as RESPONSES

    return {**MESSAGES, **RESPONSES, **CHAT, **GEMINI, **CROSS}
