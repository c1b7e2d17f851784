"""Run an agent until it is killed: `python tests/crash/agent_program.py DATABASE [HOURS]`.

It uses the simulator at `TENUTO_SIM_URL` and prints a word for each event, so that a test knows when to kill it. HOURS
is added to its clock.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from tenuto import Agent, tool
from tenuto.agent.events import ToolFinished
from tenuto.core.events import ContentDelta
from tenuto.store.sql_store import SqlStore
from tenuto.store.sqlite import SqliteEngine

HOURS = 3_600_000


def report(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


@tool(effect="pure")
def look() -> str:
    """Look."""
    return "seen"


@tool
async def hold() -> str:
    """Wait until cancelled, and half a second longer."""
    report("holding")
    try:
        await asyncio.sleep(60)
    finally:
        report("cancelled")
        await asyncio.sleep(0.5)
    return "held"


@tool
def grip() -> str:
    """Wait in a thread that cannot be cancelled."""
    report("holding")
    time.sleep(60)
    return "gripped"


def agent(where: str, hours: float = 0) -> Agent:
    """Make the agent. A clock error also applies to its store."""

    def now() -> int:
        return time.time_ns() // 1_000_000 + int(hours * HOURS)

    store = SqlStore(SqliteEngine(Path(where)), now=now) if hours else where
    return Agent("sim/anthropic", tools=[look, hold, grip], store=store, now=now)


def main() -> None:
    """Run the agent and print its events."""
    where, *hours = sys.argv[1:]
    with agent(where, *map(float, hours)) as mine:
        session = mine.session("run")
        with session.stream("Go.") as run:
            for event in run:
                if isinstance(event, ContentDelta):
                    report("text")
                elif isinstance(event, ToolFinished):
                    report("returned")
        report(session.text)


if __name__ == "__main__":
    main()
