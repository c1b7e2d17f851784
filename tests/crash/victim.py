"""A program with an agent, to be killed from outside: `python tests/crash/victim.py DATABASE [hours]`.

It asks the simulator at `TENUTO_SIM_URL` and prints a word for each thing that happens, so that whoever kills it knows
when. Its clock may go wrong by some hours.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from tenuto import Agent, tool
from tenuto.agent.events import ToolReturned
from tenuto.core.events import ContentDelta

HOURS = 3_600_000


def said(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


@tool(effect="pure")
def look() -> str:
    """Look."""
    return "seen"


@tool
async def hold() -> str:
    """Hold on, for as long as nobody minds; and a while longer."""
    said("holding")
    try:
        await asyncio.sleep(60)
    finally:
        said("let go")
        await asyncio.sleep(0.5)
    return "held"


@tool
def grip() -> str:
    """The same, in a thread that hears of nothing."""
    said("holding")
    time.sleep(60)
    return "gripped"


def agent(where: str, hours: float = 0, **given: Any) -> Agent:
    """Make the agent, with a clock that is some hours off."""
    return Agent(
        "sim/anthropic",
        tools=[look, hold, grip],
        store=where,
        now=lambda: time.time_ns() // 1_000_000 + int(hours * HOURS),
        **given,
    )


def main() -> None:
    """Say something, and tell what happens."""
    where, *hours = sys.argv[1:]
    with agent(where, *map(float, hours)) as mine:
        session = mine.session("run")
        with session.stream("Go.") as run:
            for event in run:
                if isinstance(event, ContentDelta):
                    said("text")
                elif isinstance(event, ToolReturned):
                    said("returned")
        said(session.text)


if __name__ == "__main__":
    main()
