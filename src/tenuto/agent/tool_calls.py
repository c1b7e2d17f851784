"""The tool calls of one turn: which of them may run, which need approval, and how a crash is repaired.

Calls run at the same time; each result is recorded when it arrives. A call that was started and has no result after a
crash is treated by its effect: `pure`, `idempotent` and `keyed` calls run again, the last with the same key. A `once` call
does not; its result says that it may or may not have taken effect.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from tenuto.agent.config import Approve, RunContext
from tenuto.agent.events import ApprovalNeeded, ToolFinished, ToolProgress, ToolStarted
from tenuto.agent.hooks import CallInfo, permission, run_around
from tenuto.agent.limits import TOO_MANY
from tenuto.agent.machine import AGAIN, CallState, Phase
from tenuto.agent.session_log import SessionLog
from tenuto.agent.sub_agents import AgentTool, AwaitingApproval, CallResult, session_id_for
from tenuto.core import journal
from tenuto.core.inbox import Decision, PostedItem, Prompt, item_kind
from tenuto.core.messages import ToolCallView
from tenuto.tools.execution import Outcome, ToolContext, call_function, failure
from tenuto.tools.toolbox import PreparedCall

if TYPE_CHECKING:
    from tenuto.agent.session import AsyncSession

logger = logging.getLogger("tenuto")

_NO_RESULT = "no result was recorded"


class _ReadyCall(msgspec.Struct, frozen=True):
    call: CallState
    prepared: PreparedCall
    info: CallInfo
    session: str
    """The session of the sub-agent that runs the call; empty for other tools."""
    background: bool
    permitted: bool = False
    """Whether a hook permits the call, so that it needs no approval."""

    def start_entries(self) -> list[journal.EntryPayload]:
        """Return the entries that are written before the call runs."""
        view, index = self.call.view, self.call.ordinal
        entries: list[journal.EntryPayload] = []
        if self.permitted and self.call.phase is Phase.WAITING:
            entries.append(journal.ApprovalDecided(view.id, index, allowed=True, reason="permitted by a hook"))
        if self.session != self.call.session:
            entries.append(journal.SubSessionLinked(self.session, view.id, index, view.name if self.background else ""))
        start = journal.CallStarted(
            view.id,
            index,
            name=view.name,
            idempotency_key=self.info.key,
            effect="keyed" if self.session else self.prepared.effect,
            attempt=self.info.attempt,
            pid=os.getpid(),
            host=socket.gethostname(),
        )
        return [*entries, start]


class ToolTurn:
    """The calls of the last reply."""

    def __init__(self, session: AsyncSession, context: RunContext) -> None:
        self._session = session
        self._log = session._log
        self._context = context
        limits = context.limits
        self._room = max(limits.tool_calls - self._log.spent.tool_calls, 0) if limits.tool_calls is not None else None
        self._slots = asyncio.Semaphore(limits.parallel_calls or sys.maxsize)
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[int, _ReadyCall] = {}
        """The calls that need approval, by their index."""
        self._approver_error: Exception | None = None

    async def run(self, calls: tuple[CallState, ...]) -> None:
        """Run the calls. Those that are open afterwards wait for approval.

        Raise the error of the approver after the other calls have finished, and that of a hook's `permit` before.
        """
        if any(call.phase is not Phase.PENDING for call in calls):
            await self._take_decisions()
        finished: list[journal.CallFinished] = []
        ready: list[_ReadyCall] = []
        for ordinal in [call.ordinal for call in calls]:
            decided = await self._classify(self._log.machine.calls[ordinal])
            if isinstance(decided, journal.CallFinished):
                finished.append(decided)
                continue
            phase = decided.call.phase
            needs_approval = decided.prepared.needs_approval or phase is Phase.WAITING
            if needs_approval and not decided.permitted and phase is not Phase.ALLOWED:
                self._waiting[ordinal] = decided  # also a call that a crash interrupted after its approval
            else:
                ready.append(decided)
        new = [one.call for one in self._waiting.values() if one.call.phase is not Phase.WAITING]
        requests = [journal.ApprovalRequested(call.view.id, call.ordinal, call.view.name) for call in new]
        await self._log.append(*finished, *requests, *(entry for one in ready for entry in one.start_entries()))
        for result in finished:
            self._emit_finished(self._log.machine.calls[result.call_index].view, result)
        for one in self._waiting.values():
            self._session._emit(ApprovalNeeded(one.call.view, one.call.ordinal))
        self._tasks = {asyncio.create_task(self._run_one(one)) for one in ready}
        if self._waiting and self._context.approve is not None:
            self._tasks.add(asyncio.create_task(self._ask_approver(self._context.approve, [*self._waiting.values()])))
        await self._finish()
        await self._log.append()  # results that could not be written before

    async def _finish(self) -> None:
        """Wait for all calls. If one fails, or the wait is cancelled, cancel the others and wait for them.

        Calls that another process approves meanwhile start at once.
        """
        try:
            while self._tasks:
                has_items = await self._session._wait_for_post(self._tasks)
                for task in [task for task in self._tasks if task.done()]:
                    self._tasks.discard(task)
                    task.result()
                if has_items and self._waiting and self._tasks:
                    await self._take_decisions()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._approver_error is not None:
            raise self._approver_error

    # --- decisions ---

    async def _classify(self, call: CallState) -> _ReadyCall | journal.CallFinished:
        """Return the call, ready to run, or the result that it gets without a run."""
        if call.phase is Phase.DENIED:
            return _denied(call, call.why)
        if call.phase is Phase.STARTED and call.effect not in AGAIN:
            return interrupted_result(call, _NO_RESULT)
        output = self._context.output
        is_output = output is not None and output.toolbox.get(call.view.name) is not None
        toolbox = output.toolbox if output is not None and is_output else self._context.toolbox
        prepared = toolbox.prepare(call.view)
        if isinstance(prepared, Outcome):
            return journal.CallFinished(prepared.result, call.ordinal, outcome="failed", detail=prepared.detail)
        limits = self._context.limits
        if limits.calls_per_reply is not None and call.ordinal >= limits.calls_per_reply:
            return _denied(call, f"a reply may make at most {limits.calls_per_reply} tool calls", "calls_per_reply")
        key = call.key or f"{self._log.id}/{self._log.reply_seq}/{call.ordinal}"
        info = CallInfo(
            session_id=self._log.id,
            call=call.view,
            ordinal=call.ordinal,
            attempt=call.attempt + 1,
            key=key,
            fence=self._log.fence,
            effect=prepared.effect,
            needs_approval=prepared.needs_approval,
        )
        agent = prepared.tool if isinstance(prepared.tool, AgentTool) else None
        session = call.session or (session_id_for(key) if agent is not None else "")
        ready = _ReadyCall(call, prepared, info, session, agent is not None and agent.background)
        if is_output:
            return ready
        if call.phase is not Phase.ALLOWED and self._context.hooks:
            decision = await permission(self._context.hooks, info)
            if decision is False or isinstance(decision, str):
                return _denied(call, decision or "a policy denies it", "policy")
            ready = msgspec.structs.replace(ready, permitted=decision is True)
        if self._room is not None and not call.attempt:
            if not self._room:
                return _denied(call, f"the limit of {limits.tool_calls} tool calls is reached", TOO_MANY)
            self._room -= 1
        return ready

    async def _take_decisions(self) -> None:
        """Take decisions about waiting calls from the inbox. Calls of this turn that are approved start."""
        for item in await self._log.read_inbox():
            decision, calls = item.item, self._log.machine.calls
            if not isinstance(decision, Decision):
                continue
            index = decision.call_index
            is_own = not decision.session and decision.reply_seq in (0, self._log.reply_seq)
            call = calls[index] if is_own and 0 <= index < len(calls) else None
            if call is None or call.phase is not Phase.WAITING or call.view.id != decision.call_id:
                await forward_or_drop(self._log, item)
                continue
            ready = self._waiting.pop(index, None)
            entry = journal.ApprovalDecided(call.view.id, index, allowed=decision.allowed, reason=decision.reason)
            if ready is None:  # the calls of this turn are not classified yet
                await self._log.append(entry, taking=[item])
            else:
                await self._decide(ready, entry, [item])

    async def _decide(self, ready: _ReadyCall, entry: journal.ApprovalDecided, taking: list[PostedItem]) -> None:
        """Record a decision; start the call, or record its denial."""
        if entry.allowed:
            await self._log.append(entry, *ready.start_entries(), taking=taking)
            self._tasks.add(asyncio.create_task(self._run_one(ready)))
            return
        result = _denied(ready.call, entry.reason)
        await self._log.append(entry, result, taking=taking)
        self._emit_finished(ready.call.view, result)

    async def _ask_approver(self, approve: Approve, waiting: list[_ReadyCall]) -> None:
        """Ask about each call in turn. An approved call starts at once, while the next question is asked."""
        for one in waiting:
            view, index = one.call.view, one.call.ordinal
            try:  # a function that is not `async` may wait for a person, so it runs in a thread
                decision = await call_function(functools.partial(approve, view), ToolContext(view))
                if not isinstance(decision, bool | str):
                    raise TypeError(f"approve returned {decision!r:.100}: expected True, False or a reason")
            except AwaitingApproval:  # no decision: the call stays open
                continue
            except Exception as exc:
                self._approver_error = exc
                return
            if self._waiting.pop(index, None) is not None:  # otherwise another process has decided meanwhile
                reason = decision if isinstance(decision, str) else ""
                await self._decide(one, journal.ApprovalDecided(view.id, index, decision is True, reason), [])

    # --- running ---

    async def _run_one(self, ready: _ReadyCall) -> None:
        view, index = ready.call.view, ready.call.ordinal
        self._session._emit(ToolStarted(view, index, ready.info.attempt))
        context = ToolContext(
            view,
            key=ready.info.key,
            attempt=ready.info.attempt,
            session=self._log.id,
            fence=ready.info.fence,
            progress=functools.partial(self._progress, asyncio.get_running_loop(), view, index),
            deps=self._context.deps,
        )
        run = self._run_in_hooks if self._context.hooks else self._run_tool
        try:
            async with self._slots:
                result = await run(ready, context)
        except AwaitingApproval:
            return
        outcome = result.outcome
        entry = journal.CallFinished(
            outcome.result,
            index,
            attempt=ready.info.attempt,
            outcome=outcome.outcome,
            detail=outcome.detail,
            usage=result.usage,
            cost=result.cost,
        )
        await self._log.record(entry, "" if ready.background else ready.session)
        self._emit_finished(view, entry)
        await self._session._wait_for_readers()

    async def _run_tool(self, ready: _ReadyCall, context: ToolContext) -> CallResult:
        if ready.session:
            return await self._session._sub_agents.run(ready.prepared, ready.session, context)
        return CallResult(await self._context.toolbox.run(ready.prepared, context))

    async def _run_in_hooks(self, ready: _ReadyCall, context: ToolContext) -> CallResult:
        """Run a call inside the hooks. An exception of a hook is a failed outcome; one of the call itself is raised."""
        view = ready.call.view
        result: CallResult | None = None
        error: Exception | None = None

        async def run() -> Outcome:
            nonlocal result, error
            try:
                result = await self._run_tool(ready, context)
            except Exception as exc:  # the sub-agent waits for approval, or the store failed
                error = exc
                raise
            return result.outcome

        try:
            outcome = await run_around(self._context.hooks, "around_tool", ready.info, run)
            if not isinstance(outcome, Outcome) or outcome.result.tool_use_id != view.id:
                raise TypeError(f"around_tool returned {outcome!r:.100}: expected the Outcome of the call")
        except Exception as exc:
            outcome = failure(view, f"a hook failed: {type(exc).__name__}: {exc}", "hook")
            if error is None:
                logger.exception("session %s: a hook around the tool %s failed", self._log.id, ready.prepared.name)
        if error is not None:
            raise error
        return CallResult(outcome) if result is None else msgspec.structs.replace(result, outcome=outcome)

    def _emit_finished(self, view: ToolCallView, entry: journal.CallFinished) -> None:
        self._session._emit(ToolFinished(view, entry.call_index, entry.result, entry.outcome, entry.detail))

    def _progress(self, loop: asyncio.AbstractEventLoop, view: ToolCallView, index: int, text: str) -> None:
        with suppress(RuntimeError):  # the thread of a tool may outlive the loop
            loop.call_soon_threadsafe(self._session._emit, ToolProgress(view, index, text))


async def forward_or_drop(log: SessionLog, item: PostedItem) -> None:
    """Pass a decision to the sub-agent session that it is about; drop an item that has no effect any more."""
    decision = item.item
    if isinstance(decision, Decision) and decision.session:  # the id makes a second delivery harmless
        await log.post(msgspec.structs.replace(decision, session=""), session=decision.session, id=item.id)
    else:
        level = logging.WARNING if isinstance(item.item, Prompt) else logging.INFO
        logger.log(
            level, "session %s: dropped a %s from the inbox: it has no effect any more", log.id, item_kind(item.item)
        )
    await log.append(taking=[item])


def interrupted_result(call: CallState, why: str) -> journal.CallFinished:
    """Return the result of a call that did not run to its end, or not at all."""
    if not call.attempt:
        answer = call.view.answer(f"{call.view.name} was not run: {why}.", is_error=True)
        return journal.CallFinished(answer, call.ordinal, outcome="cancelled")
    text = f"{call.view.name} was interrupted: {why}. It may or may not have taken effect: check before you retry."
    answer = call.view.answer(text, is_error=True)
    return journal.CallFinished(answer, call.ordinal, attempt=call.attempt, outcome="interrupted")


def _denied(call: CallState, why: str, detail: str = "") -> journal.CallFinished:
    """Return the result of a call that was denied; one that was started before may have taken effect."""
    if call.attempt:
        return interrupted_result(
            call, f"{_NO_RESULT}, and running it again was denied{f': {why}' if why else ''}".rstrip(".")
        )
    text = f"{call.view.name} was not run: {why.rstrip('.') or 'it was denied'}."
    return journal.CallFinished(call.view.answer(text, is_error=True), call.ordinal, outcome="denied", detail=detail)
