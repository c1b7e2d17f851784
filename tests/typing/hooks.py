"""Hooks, steps, keys and the inbox of a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, assert_type

from tenuto import Agent, AsyncSession, Hooks, PendingCall, Reply, Run, Session, Tool, ToolContext
from tenuto.hooks import CallInfo, Outcome, RequestInfo, RunInfo
from tenuto.steps import Blocked, Done, More, Step, Wait
from tenuto.tools import ToolSource


class Watch(Hooks):
    async def around_run(self, run: RunInfo, next: Callable[[], Awaitable[None]]) -> None:
        assert_type(run.resumed, bool)
        await next()

    async def around_request(self, request: RequestInfo, next: Callable[[], Awaitable[Reply]]) -> Reply:
        return await next()

    async def around_tool(self, call: CallInfo, next: Callable[[], Awaitable[Outcome]]) -> Outcome:
        return Outcome(call.call.answer("cached")) if call.attempt > 1 else await next()

    def permit(self, call: CallInfo) -> bool | str | None:
        return "no" if call.needs_approval else None


class Source:
    async def open(self) -> Sequence[Tool]:
        return [Tool("look", "Look.", {"type": "object"}, self.look, effect="pure", timeout=1)]

    async def look(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        return context.session

    async def close(self) -> None:
        pass


source: ToolSource = Source()
agent = Agent("anthropic/claude-opus-4-6", tools=[source], hooks=[Watch()], store=None)
session: Session = agent.session("job", owner="queue", generation=2)
run: Run = session.stream("Go.", key="1")
assert_type(session.waiting_for, str)


def work(step: Step) -> float | tuple[PendingCall, ...] | str:
    match step:
        case More():
            return 0.0
        case Wait(seconds=seconds):
            return seconds
        case Blocked(pending=pending):
            return pending
        case Done(reason=reason):
            return reason


async def from_elsewhere(session: AsyncSession) -> None:
    await session.steer("Quickly.")
    await session.enqueue("And then?", key="2")
    await session.cancel()
    assert_type(session.cancel_local(), bool)
    assert_type(await session.step(), Step)
