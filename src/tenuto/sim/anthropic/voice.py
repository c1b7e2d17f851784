"""The Anthropic Messages dialect, put together."""

from __future__ import annotations

from typing import Any

from tenuto.sim import listing
from tenuto.sim.anthropic.opening import open_request, read
from tenuto.sim.anthropic.rules import CHECKS
from tenuto.sim.anthropic.writing import write
from tenuto.sim.asked import Asked
from tenuto.sim.voice import Voice

__all__ = ["VOICE", "count"]


def count(asked: Asked) -> dict[str, Any]:
    """Answer a question for the number of tokens."""
    return {"input_tokens": asked.prompt_tokens}


VOICE = Voice(
    open=open_request,
    checks=CHECKS,
    read=read,
    write=write,
    count=count,
    listed_dialects=("anthropic-messages",),
    model_entry=listing.anthropic_entry,
    model_list=listing.anthropic_list,
)
