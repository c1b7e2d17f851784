"""Timing: how long runs, requests and tool calls take, with the tool calls of each run."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tenuto import Agent, Hooks, Reply, tool
from tenuto.hooks import CallInfo, Outcome, RequestInfo, RunInfo

current_run: ContextVar[str] = ContextVar("current_run", default="")
"""The session of the run. Tools see it, too, also in threads."""


class Timing(Hooks):
    """Collect times by kind and name. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.times: defaultdict[str, list[float]] = defaultdict(list)
        self.calls: defaultdict[str, list[str]] = defaultdict(list)
        """The tool calls of each session."""

    @contextmanager
    def _measure(self, name: str) -> Iterator[None]:
        start = self._clock()
        try:
            yield
        finally:
            self.times[name].append(self._clock() - start)

    async def around_run(self, run: RunInfo, next: Callable[[], Awaitable[None]]) -> None:
        token = current_run.set(run.session_id)
        try:
            with self._measure("run"):
                await next()
        finally:
            current_run.reset(token)

    async def around_request(self, request: RequestInfo, next: Callable[[], Awaitable[Reply]]) -> Reply:
        with self._measure(f"request to {request.target.provider.name}/{request.target.model}"):
            return await next()

    async def around_tool(self, call: CallInfo, next: Callable[[], Awaitable[Outcome]]) -> Outcome:
        self.calls[current_run.get()].append(call.call.name)
        with self._measure(f"tool {call.call.name}"):
            return await next()

    def report(self) -> str:
        """Return a line for each name: how often, the sum and the longest time."""
        lines = [
            f"{name}: {len(times)} x, {sum(times):.1f} s, longest {max(times):.1f} s"
            for name, times in self.times.items()
        ]
        return "\n".join(sorted(lines))


@tool(effect="pure")
def weather(city: str) -> str:
    """Current weather in a city."""
    return f"12 degrees in {city} (asked in {current_run.get()})"


timing = Timing()
agent = Agent("anthropic/claude-sonnet-5-5", name="timing", tools=[weather], hooks=[timing])

if __name__ == "__main__":
    with agent:
        agent.session().send("Weather in Oslo?")
        print(timing.report())
