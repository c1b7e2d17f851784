"""What the tests of agents have in common: how they are run, what their journals look like, tools that can be watched."""

from __future__ import annotations

import asyncio
import contextlib
import functools

from tenuto import AsyncAgent, tool
from tenuto.client.middleware.retry import Retry
from tenuto.core.journal import CallFinished, CallStarted, RequestFailed, RunEnded, payload_kind

MODEL = "sim/anthropic"
QUICK = Retry(4, base=0.0)
"""Tries again, and waits for nothing."""


def scene(play):
    """Run a test that awaits, on a loop of its own."""

    @functools.wraps(play)
    def run(*args, **kwargs):
        asyncio.run(play(*args, **kwargs))

    return run


def agent(*tools, **options) -> AsyncAgent:
    return AsyncAgent(options.pop("model", MODEL), tools=tools, retry=options.pop("retry", QUICK), **options)


def shown(entry) -> str:
    """An entry in a word or two."""
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


async def story(session) -> list[str]:
    """The whole journal, entry by entry."""
    return [shown(entry) for entry in await session.entries()]


async def results(session) -> list[str]:
    """What the calls of the session came to, in the order in which it was written."""
    return [
        str(entry.payload.result.content)
        for entry in await session.entries()
        if isinstance(entry.payload, CallFinished)
    ]


async def until(holds, *, turns: int = 20_000) -> None:
    """Let the others work until something holds."""
    for _ in range(turns):
        if holds():
            return
        await asyncio.sleep(0.0005)
    raise AssertionError("it never came to that")


class Held:
    """A tool that begins, and goes on when it is told to; and what became of it."""

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
async def running(coroutine):
    """Have a coroutine run in a task of its own, and be over at the end."""
    task = asyncio.create_task(coroutine)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
