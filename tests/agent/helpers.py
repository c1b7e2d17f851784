"""Helpers for tests of agents: running a test, reading a journal, tools that a test controls."""

from __future__ import annotations

import asyncio
import contextlib
import functools

from tenuto import AsyncAgent, tool
from tenuto.client.middleware.retry import Retry
from tenuto.core.journal import CallFinished, CallStarted, RequestFailed, RunEnded, payload_kind

MODEL = "sim/anthropic"
QUICK = Retry(4, base=0.0)
"""Retries without pauses."""


def scene(play):
    """Run a coroutine function as a test."""

    @functools.wraps(play)
    def run(*args, **kwargs):
        asyncio.run(play(*args, **kwargs))

    return run


def agent(*tools, **options) -> AsyncAgent:
    return AsyncAgent(options.pop("model", MODEL), tools=tools, retry=options.pop("retry", QUICK), **options)


def entry_label(entry) -> str:
    """Describe an entry in a word or two."""
    act = entry.payload
    if isinstance(act, RunEnded):
        details = ": ".join(filter(None, (act.waiting_for, act.detail)))
        return f"{act.reason}({details})" if details else act.reason
    if isinstance(act, CallFinished):
        return f"{act.outcome} {act.call_index}" + (f" ({act.detail})" if act.detail else "")
    if isinstance(act, CallStarted):
        return f"started {act.call_index}"
    if isinstance(act, RequestFailed):
        return f"failed {act.error}"
    return payload_kind(act)


async def journal_labels(session) -> list[str]:
    """Describe the entries of the journal."""
    return [entry_label(entry) for entry in await session.entries()]


async def call_results(session) -> list[str]:
    """Return the results of the calls in the order of the journal."""
    return [
        str(entry.payload.result.content)
        for entry in await session.entries()
        if isinstance(entry.payload, CallFinished)
    ]


async def until(holds, *, turns: int = 20_000) -> None:
    """Let other tasks run until a condition is true."""
    for _ in range(turns):
        if holds():
            return
        await asyncio.sleep(0.0005)
    raise AssertionError("it never came to that")


class HeldTool:
    """A tool that starts, waits for the test, and records how it ended."""

    def __init__(self, name: str = "hold", **options) -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.ended = ""
        self.runs = 0
        self.tool = tool(name=name, **options)(self._run)

    async def _run(self, x: int = 0) -> str:
        """Hold on."""
        self.runs += 1
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.ended = "cancelled"
            raise
        self.ended = "done"
        return f"held {x}"


@tool(effect="pure")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@contextlib.asynccontextmanager
async def running_task(coroutine):
    """Run a coroutine in a task for the length of a block."""
    task = asyncio.create_task(coroutine)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
