"""The tools of the killed agent. They write each effect to a file before they continue, so that it can be counted.

The sweep also kills the process at their lines, while other tools run.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tenuto import tool
from tenuto.tools.execution import ToolContext

TIMEOUT = 30


class Effect(NamedTuple):
    """One effect of a tool."""

    name: str
    key: str
    attempt: int


class Ledger:
    """A file with a line for each effect."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, name: str, context: ToolContext) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, f"{name} {context.key} {context.attempt}\n".encode())
        os.fsync(file)
        os.close(file)

    def read(self) -> list[Effect]:
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        return [Effect(name, key, int(attempt)) for name, key, attempt in map(str.split, lines)]


class Barrier:
    """Let the tools of a turn wait until all of them run; 0 `parties`: no waiting."""

    def __init__(self, parties: int = 0) -> None:
        self._barrier = threading.Barrier(parties) if parties else None

    def wait(self, turn: int) -> None:
        if self._barrier is not None and turn == 1:
            self._barrier.wait(TIMEOUT)


def make_tools(ledger: Ledger, barrier: Barrier, on_look: Callable[[], None], *, approval: bool = False) -> list[Any]:
    """Make the tools. `on_look` is called while `look` runs; with `approval`, `pay` and `drop` need approval."""

    @tool(effect="pure")
    def look(turn: int, context: ToolContext) -> Iterator[str]:
        """Look.

        Args:
            turn: which turn it is
            context: filled in
        """
        yield "I look"
        barrier.wait(turn)
        ledger.write("look", context)
        on_look()
        yield f"seen {turn}"

    @tool(effect="idempotent", timeout=TIMEOUT)
    async def note(turn: int, context: ToolContext) -> dict[str, int]:
        """Note."""
        await asyncio.to_thread(barrier.wait, turn)
        ledger.write("note", context)
        await asyncio.sleep(0)
        return {"noted": turn}

    @tool(effect="once", approval=approval)
    def pay(turn: int, context: ToolContext) -> str:
        """Pay."""
        barrier.wait(turn)
        ledger.write("pay", context)
        return f"paid {turn}"

    @tool(effect="keyed")
    def send(turn: int, context: ToolContext) -> str:
        """Send."""
        ledger.write("send", context)
        return f"sent {turn}"

    @tool(effect="once", approval=lambda turn: approval and turn > 0)
    async def drop(turn: int, context: ToolContext) -> str:
        """Drop."""
        ledger.write("drop", context)
        return f"dropped {turn}"

    @tool(effect="once")
    async def stumble(turn: int, context: ToolContext) -> str:
        """Stumble."""
        ledger.write("stumble", context)
        raise ValueError(f"stumbled {turn}")

    return [look, note, pay, send, drop, stumble]
