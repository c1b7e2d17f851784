"""Sub-agents: an agent as a tool. Each call is answered in a session of its own, in the store of the one who called.

The session's id follows from the call's key and is written with the call's start, so that a run which goes on after a
crash finds it, and goes on with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Coroutine
from typing import Any, Protocol

from tenuto.agent.events import SubAgentEvent
from tenuto.agent.machine import Phase
from tenuto.agent.run_context import AwaitingApproval, CallResult, PendingCall
from tenuto.agent.session import AsyncSession
from tenuto.core.blocks import Text
from tenuto.core.journal import ApprovalDecided
from tenuto.core.messages import Content
from tenuto.errors import SessionNotFound, StoreError, TenutoError
from tenuto.tools.decorator import FunctionTool
from tenuto.tools.execution import Outcome, ToolContext, failure
from tenuto.tools.results import to_outcome
from tenuto.tools.toolbox import PreparedCall

__all__ = ["AgentTool", "Answering", "SubAgents"]


_TOO_SOON = {"length": "(cut off: the reply reached its limit of length)", "content_filter": "(it refused to go on)"}


class Answering(Protocol):
    """What a sub-agent is: it has sessions of its own, and opens some for others."""

    def session(self, id: str = "") -> AsyncSession:
        """Begin a session."""

    async def child_of(self, parent: AsyncSession, id: str, name: str) -> AsyncSession:
        """Open the session in which a call of another's is answered."""


class AgentTool(FunctionTool[[str], Coroutine[Any, Any, str]]):
    """An agent that answers calls. Called by hand, it answers a prompt in a session of its own."""

    def __init__(self, agent: Answering, name: str, description: str = "") -> None:
        async def ask(prompt: str) -> str:
            async with agent.session() as session:
                return (await session.send(prompt)).text

        super().__init__(ask, name=name, description=description or f"Ask the agent {name}.", effect="idempotent")
        self.agent = agent


class SubAgents:
    """The sub-agents of one session."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    def session_for(self, name: str, key: str) -> str:
        """Return the id of the session in which a call is answered; empty if no sub-agent answers calls of this name."""
        found = isinstance(self._session.crew.toolbox.get(name), AgentTool)
        return hashlib.sha256(key.encode()).hexdigest()[:26] if found else ""

    async def answer(self, prepared: PreparedCall, session: str, context: ToolContext) -> CallResult:
        """Answer a call; a session that is there already goes on. Raise `AwaitingApproval` if it cannot."""
        tool = prepared.tool
        assert isinstance(tool, AgentTool)
        child = await tool.agent.child_of(self._session, session, tool.name)
        tell = self._session.tell
        child.on_event(lambda event: tell(SubAgentEvent(context.call, session, event)))
        try:
            async with child:
                return await self._answer(child, prepared, context, tool)
        except BaseException:
            child.budget.close()
            raise

    async def _answer(
        self, child: AsyncSession, prepared: PreparedCall, context: ToolContext, tool: AgentTool
    ) -> CallResult:
        try:
            if child.log.head == 0:
                await child.send(str(prepared.arguments["prompt"]))
            else:
                await child.continue_()
        except StoreError:
            raise
        except TenutoError as exc:
            text = f"{tool.name} could not answer: {type(exc).__name__}: {exc}"
            return _done(child, failure(context.call, text[:2000], "exception"))
        if child.status == "waiting":
            raise AwaitingApproval
        return _done(child, to_outcome(context.call, _said(child), tool.max_output))

    async def waiting(self, session: str) -> list[PendingCall]:
        """Return the calls of a sub-agent's session, and of its own sub-agents', that wait for somebody's word."""
        kept = self._session.log.sibling(session)
        try:
            await kept.read()
        except SessionNotFound:  # it was about to be begun
            return []
        found: list[PendingCall] = []
        for call in kept.machine.open_calls:
            if call.phase is Phase.WAITING:
                found.append(PendingCall(call.view, call.ordinal, session))
            elif call.session:
                found += await self.waiting(call.session)
        return found

    async def decided(self, session: str, act: ApprovalDecided) -> None:
        """Write somebody's word into a sub-agent's session."""
        kept = self._session.log.sibling(session)
        await kept.read()
        await kept.acquire()
        try:
            await kept.append(act)
        finally:
            await kept.release()


def _said(child: AsyncSession) -> str | list[Any]:
    """What a session ended with: its text and what else can be shown to a model, and that it ended too soon, if it did."""
    last = child.last
    note = _TOO_SOON.get(last.stop_reason or "", "") if last is not None else ""
    shown = [block for block in last.blocks if isinstance(block, Content)] if last is not None else []
    if all(isinstance(block, Text) for block in shown):
        return "\n".join(filter(None, (child.text, note)))
    return [*shown, *([note] if note else [])]


def _done(child: AsyncSession, outcome: Outcome) -> CallResult:
    spent = child.log.spent
    return CallResult(outcome, spent.usage, "" if spent.unpriced else str(spent.usd), child.budget)
