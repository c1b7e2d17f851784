"""The chat dialect, as the simulator takes it."""

from __future__ import annotations

from typing import Any

from tenuto.sim.asked import Asked
from tenuto.sim.chat import opening
from tenuto.sim.chat.rules import CHECKS
from tenuto.sim.chat.writing import write
from tenuto.sim.voice import Voice

__all__ = ["VOICE"]


def _count(asked: Asked) -> dict[str, Any]:
    return {"prompt_tokens": asked.prompt_tokens}


VOICE = Voice(open=opening.open, checks=CHECKS, read=opening.read, write=write, count=_count)
