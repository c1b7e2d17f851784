"""Sub-agents: an agent as a tool. Each call runs in its own session, in the store of the calling session.

The id of that session follows from the key of the call and is recorded with the start of the call, so that a run after a
crash finds it and continues it. A background sub-agent answers its call at once; its result is posted to the inbox of the
calling session when it ends.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from tenuto.agent.events import SubAgentEvent
from tenuto.agent.machine import CANCELLED, Phase
from tenuto.agent.run_context import AwaitingApproval, CallResult, PendingCall
from tenuto.agent.session_log import SessionLog
from tenuto.core.blocks import Text
from tenuto.core.inbox import Finished
from tenuto.core.messages import Content, Message, ToolCallView, user
from tenuto.errors import SessionNotFound, StoreError, TenutoError
from tenuto.tools.decorator import FunctionTool
from tenuto.tools.execution import Outcome, ToolContext, failure
from tenuto.tools.results import to_outcome
from tenuto.tools.toolbox import PreparedCall

if TYPE_CHECKING:
    from tenuto.agent.agent import AsyncAgent
    from tenuto.agent.session import AsyncSession

_INCOMPLETE = {
    "length": "(incomplete: the reply reached its maximum length)",
    "content_filter": "(incomplete: the model refused to continue)",
}


class AgentTool(FunctionTool[[str], Coroutine[Any, Any, str]]):
    """An agent as a tool. Calling the object runs a prompt in a new session of the agent."""

    def __init__(self, agent: AsyncAgent, name: str, description: str = "", *, background: bool = False) -> None:
        async def ask(prompt: str) -> str:
            async with agent.session() as session:
                return (await session.send(prompt)).text

        super().__init__(ask, name=name, description=description or f"Ask the agent {name}.", effect="idempotent")
        self.agent = agent
        self.background = background


class SubAgents:
    """The sub-agents of one session."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._log = session._log
        self._tasks: dict[str, asyncio.Task[bool]] = {}
        """The background sub-agents that run in this process, by their session."""

    def session_for(self, name: str, key: str) -> tuple[str, bool]:
        """Return the id of the session that runs a call, and whether it runs in the background; "" for other tools."""
        tool = self._session._context.toolbox.get(name)
        if not isinstance(tool, AgentTool):
            return "", False
        return hashlib.sha256(key.encode()).hexdigest()[:26], tool.background

    async def run(self, prepared: PreparedCall, session: str, context: ToolContext) -> CallResult:
        """Run a call, or continue its session. Raise `AwaitingApproval` if the sub-agent waits for approval."""
        tool = prepared.tool
        assert isinstance(tool, AgentTool)
        child = await self._open(tool, session, context.call)
        prompt = str(prepared.arguments["prompt"])
        if tool.background:
            if child._log.head == 0:
                await child._add_message(prompt)
            self._start(child, tool.name)
            text = f"{tool.name} runs in the background. Its result arrives later as a message."
            return CallResult(Outcome(context.call.answer(text)))
        async with child:
            try:
                await (child.send(prompt) if child._log.head == 0 else child.continue_())
            except StoreError:
                raise
            except TenutoError as exc:
                text = f"{tool.name} could not answer: {type(exc).__name__}: {exc}"
                return _result(child, failure(context.call, text[:2000], "exception"))
            if child.status == "waiting":
                raise AwaitingApproval
            return _result(child, to_outcome(context.call, _answer(child), tool.max_output))

    async def pending(self) -> tuple[PendingCall, ...]:
        """Return the calls of sub-agents, and of their own sub-agents, that need approval."""
        calls: list[PendingCall] = []
        sessions = [call.session for call in self._log.machine.open_calls if call.session]
        for session in dict.fromkeys((*sessions, *self._log.background)):
            calls += await self._pending_in(session)
        return tuple(calls)

    async def _pending_in(self, session: str) -> list[PendingCall]:
        log = self._log.sibling(session)
        try:
            await log.read()
        except SessionNotFound:  # it was about to start
            return []
        calls: list[PendingCall] = []
        sessions = [*log.background]
        for call in log.machine.open_calls:
            if call.phase is Phase.WAITING:
                calls.append(PendingCall(call.view, call.ordinal, session, log.reply_seq))
            elif call.session:
                sessions.append(call.session)
        for one in dict.fromkeys(sessions):
            calls += await self._pending_in(one)
        return calls

    async def _open(self, tool: AgentTool, session: str, call: ToolCallView) -> AsyncSession:
        child = await tool.agent._open_child(self._session, session, tool.name)
        parent = self._session
        child.on_event(lambda event: parent._emit(SubAgentEvent(call, session, event)))
        return child

    # --- background ---

    @property
    def has_tasks(self) -> bool:
        """Whether a background sub-agent runs in this process."""
        return bool(self._tasks)

    async def wait(self) -> bool:
        """Wait until a background sub-agent ends or an item is posted; start those that an earlier process left.

        Return False if all of them wait for approval.
        """
        toolbox = self._session._context.toolbox
        for session, name in [*self._log.background.items()]:
            if session in self._tasks:
                continue
            tool = toolbox.get(name)
            if isinstance(tool, AgentTool):
                child = await self._open(tool, session, ToolCallView(session, name, "{}"))
                self._start(child, name)
            else:
                log = self._log.sibling(session)
                with suppress(SessionNotFound):
                    await log.read()
                await self._deliver(log, user(f"{name} cannot continue: the agent has no such tool any more"))
                return True
        while self._tasks:
            if await self.wait_for_one():
                return True
        return False

    async def wait_for_one(self) -> bool:
        """Wait until a background sub-agent stops or an item is posted. Return False if it only waits for approval."""
        has_news = await self._session._wait_for_post(self._tasks.values())
        for session, task in [*self._tasks.items()]:
            if task.done():
                del self._tasks[session]
                has_news |= task.result()
        return has_news

    async def cancel(self) -> None:
        """Cancel the background sub-agents of this process and wait for their end."""
        tasks, self._tasks = self._tasks, {}
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)

    def _start(self, child: AsyncSession, name: str) -> None:
        if child.id not in self._tasks:
            self._tasks[child.id] = asyncio.create_task(self._run_background(child, name))

    async def _run_background(self, child: AsyncSession, name: str) -> bool:
        """Run a background sub-agent to its end and post its result. Return False if it waits for approval."""
        deliver = partial(self._deliver, child._log)
        if child.status in (CANCELLED, "new"):  # new: the call was interrupted before the session got its message
            await deliver(user(f"{name} was cancelled"))
            return True
        async with child:
            try:
                await child.continue_()
            except StoreError:
                raise
            except TenutoError as exc:
                await deliver(user(f"{name} could not answer: {type(exc).__name__}: {exc}"[:2000]))
                return True
        if child.status == "waiting":
            return False
        answer, title = _answer(child), f"Result of {name}:"
        await deliver(user(f"{title}\n{answer}") if isinstance(answer, str) else user(title, *answer))
        return True

    async def _deliver(self, log: SessionLog, message: Message) -> None:
        """Post the result of a background sub-agent; its id makes a second delivery harmless."""
        spent = log.spent
        item = Finished(log.id, message, spent.usage, "" if spent.unpriced else str(spent.usd))
        with suppress(SessionNotFound):  # the calling session was deleted
            await self._log.post(item, id=f"finished-{log.id}")


def _answer(child: AsyncSession) -> str | list[Any]:
    """Return the answer of a session: its text and media, and a note if it is incomplete."""
    last = child.last
    note = _INCOMPLETE.get(last.stop_reason or "", "") if last is not None else ""
    blocks = [block for block in last.blocks if isinstance(block, Content)] if last is not None else []
    if all(isinstance(block, Text) for block in blocks):
        return "\n".join(filter(None, (child.text, note)))
    return [*blocks, *([note] if note else [])]


def _result(child: AsyncSession, outcome: Outcome) -> CallResult:
    spent = child._log.spent
    return CallResult(outcome, spent.usage, "" if spent.unpriced else str(spent.usd))
