"""Sub-agents: an agent as a tool. Each call runs in its own session, in the store of the calling session.

The id of that session follows from the key of the call and is recorded with the start of the call, so that a run after a
crash finds it and continues it. A background sub-agent answers its call at once; its result is posted to the inbox of the
calling session when it ends.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from tenuto.agent.events import SubAgentEvent
from tenuto.agent.machine import CANCELLED, PendingCall, Phase
from tenuto.agent.result import make_result
from tenuto.agent.session_log import SessionLog
from tenuto.core.blocks import Text
from tenuto.core.inbox import Finished
from tenuto.core.journal import RunEnded
from tenuto.core.messages import Content, Message, ToolCallView, Usage, user
from tenuto.errors import SessionNotFound, StoreError, TenutoError
from tenuto.tools.decorator import FunctionTool
from tenuto.tools.execution import Outcome, ToolContext, failure, to_json, to_outcome
from tenuto.tools.toolbox import PreparedCall

if TYPE_CHECKING:
    from tenuto.agent.agent import AsyncAgent
    from tenuto.agent.session import AsyncSession

_INCOMPLETE = {
    "length": "(incomplete: the reply reached its maximum length)",
    "content_filter": "(incomplete: the model refused to continue)",
}


class AwaitingApproval(Exception):
    """A call still needs approval, or the call of a sub-agent does."""


class CallResult(msgspec.Struct, frozen=True):
    """The outcome of a call, and the usage of the sub-agent that ran it."""

    outcome: Outcome
    usage: Usage | None = None
    cost: str = ""


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
    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._log = session._log
        self.tasks: dict[AsyncSession, asyncio.Task[bool]] = {}
        """The background sub-agents that run in this process."""

    async def run(self, prepared: PreparedCall, session: str, context: ToolContext) -> CallResult:
        """Run a call, or continue its session. Raise `AwaitingApproval` if the sub-agent waits for approval."""
        tool, call = prepared.tool, context.call
        assert isinstance(tool, AgentTool)
        child = await self._open(tool, session, call)
        is_new, prompt = child.is_new, str(prepared.arguments["prompt"])
        if tool.background:
            if is_new:
                await child._add_message(prompt)
            self._start(child, tool.name, is_new=is_new)
            text = f"{tool.name} runs in the background. Its result arrives later as a message."
            return CallResult(Outcome(call.answer(text)))
        async with child:
            answer, is_error = await _finish(tool.name, child, child.send(prompt) if is_new else child.continue_())
        outcome = failure(call, answer, "exception") if is_error else to_outcome(call, answer, tool.max_output)
        return CallResult(outcome, child._log.spent.usage, child._log.spent.cost)

    async def pending(self) -> tuple[PendingCall, ...]:
        """Return the calls of sub-agents, and of their own sub-agents, that need approval."""
        calls: list[PendingCall] = []
        logs = [self._log]
        for log in logs:
            below = [call.session for call in log.machine.open_calls if call.session]
            for session in dict.fromkeys((*below, *log.background)):
                child = self._log.sibling(session)
                with suppress(SessionNotFound):  # it was about to start
                    await child.read()
                    logs.append(child)
                    calls += [
                        PendingCall(call.view, call.ordinal, session, child.reply_seq)
                        for call in child.machine.open_calls
                        if call.phase is Phase.WAITING
                    ]
        return tuple(calls)

    async def _open(self, tool: AgentTool, session: str, call: ToolCallView) -> AsyncSession:
        child = await tool.agent._open_child(self._session, session, tool.name)
        parent = self._session
        child.on_event(lambda event: parent._emit(SubAgentEvent(call, session, event)))
        return child

    # --- background ---

    async def wait(self) -> bool:
        """Wait until a background sub-agent ends or an item is posted; start those that an earlier process left.

        Return False if all of them wait for approval.
        """
        toolbox = self._session._context.toolbox
        running = {child.id for child in self.tasks}
        for session, name in [*self._log.background.items()]:
            if session in running:
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
        while self.tasks:
            if await self.wait_for_one():
                return True
        return False

    async def wait_for_one(self) -> bool:
        """Wait until a background sub-agent stops or an item is posted. Return False if it only waits for approval."""
        has_news = await self._session._wait_for_post(self.tasks.values())
        for child, task in [*self.tasks.items()]:
            if task.done():
                del self.tasks[child]
                has_news |= task.result()
        return has_news

    async def cancel(self, end: RunEnded | None) -> None:
        """Stop the background sub-agents of this process, with this end in their journals, if any, and wait for them."""
        tasks, self.tasks = self.tasks, {}
        for child, task in tasks.items():
            child._cancel_end = end
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)

    def _start(self, child: AsyncSession, name: str, *, is_new: bool = False) -> None:
        if child.id not in {other.id for other in self.tasks}:
            self.tasks[child] = asyncio.create_task(self._run_background(child, name, is_new=is_new))

    async def _run_background(self, child: AsyncSession, name: str, *, is_new: bool) -> bool:
        """Run a background sub-agent to its end and post its result. Return False if it waits for approval."""
        answer: str | list[Any]
        if child.status in (CANCELLED, "new"):  # new: the call was interrupted before the session got its message
            answer = f"{name} was cancelled"
        else:
            async with child:
                try:
                    answer, is_error = await _finish(name, child, child._run((), is_new=is_new))
                except AwaitingApproval:
                    return False
            if isinstance(answer, list):
                answer = [f"Result of {name}:", *answer]
            elif not is_error:
                answer = f"Result of {name}:\n{answer}"
        await self._deliver(child._log, user(answer) if isinstance(answer, str) else user(*answer))
        return True

    async def _deliver(self, log: SessionLog, message: Message) -> None:
        """Post the result of a background sub-agent; its id makes a second delivery harmless."""
        item = Finished(log.id, message, log.spent.usage, log.spent.cost)
        with suppress(SessionNotFound):  # the calling session was deleted
            await self._log.post(item, id=f"finished-{log.id}")


def session_id_for(key: str) -> str:
    """Return the id of the session that runs the call of a sub-agent with this key."""
    return hashlib.sha256(key.encode()).hexdigest()[:26]


def is_sub_session(id: str) -> bool:
    """Return whether an id has the form of those of `session_id_for`. Other new ids start with letters that are not hex."""
    return re.fullmatch(r"[0-9a-f]{26}", id) is not None


async def _finish(name: str, child: AsyncSession, run: Coroutine[Any, Any, object]) -> tuple[Any, bool]:
    """Run a sub-agent. Return the text and media of its answer, or the text of its error and True.

    Raise `AwaitingApproval` if it waits for approval.
    """
    try:
        await run
    except StoreError:
        raise
    except TenutoError as exc:
        return f"{name} could not answer: {type(exc).__name__}: {exc}"[:2000], True
    if child.status == "waiting":
        raise AwaitingApproval
    config, result = child._log.next.configured, await make_result(child, child._log.last_run)
    if config is not None and config.output_schema and result is not None:
        return to_json(result.output), False
    last = child.last
    note = _INCOMPLETE.get(last.stop_reason or "", "") if last is not None else ""
    blocks = [block for block in last.blocks if isinstance(block, Content)] if last is not None else []
    if all(isinstance(block, Text) for block in blocks):
        return "\n".join(filter(None, (child.text, note))), False
    return [*blocks, *([note] if note else [])], False
