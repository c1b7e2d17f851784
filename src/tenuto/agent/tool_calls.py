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
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from tenuto.agent.events import ApprovalNeeded, ToolFinished, ToolProgress, ToolStarted
from tenuto.agent.hooks import CallInfo, permission, run_around
from tenuto.agent.limits import TOO_MANY
from tenuto.agent.machine import CallState, Phase
from tenuto.agent.run_context import AwaitingApproval, CallResult, RunContext
from tenuto.agent.session_log import SessionLog
from tenuto.core.inbox import Decision, PostedItem, Prompt, item_kind
from tenuto.core.journal import (
    ApprovalDecided,
    ApprovalRequested,
    CallFinished,
    CallStarted,
    EntryPayload,
    SubSessionLinked,
)
from tenuto.core.messages import ToolCallView
from tenuto.tools.execution import Outcome, ToolContext, call_function, failure
from tenuto.tools.toolbox import PreparedCall

if TYPE_CHECKING:
    from tenuto.agent.session import AsyncSession

logger = logging.getLogger("tenuto")

AGAIN = ("pure", "idempotent", "keyed")
_NO_RESULT = "no result was recorded"


class _ReadyCall(msgspec.Struct, frozen=True):
    call: CallState
    prepared: PreparedCall
    key: str
    session: str
    """The session of the sub-agent that runs the call; empty for other tools."""
    background: bool
    permitted: bool = False
    """Whether a hook permits the call, so that it needs no approval."""

    @property
    def attempt(self) -> int:
        return self.call.attempt + 1

    def start_entries(self) -> tuple[EntryPayload, ...]:
        """Return the entries that are written before the call runs."""
        view, index = self.call.view, self.call.ordinal
        background_tool = view.name if self.background else ""
        link = SubSessionLinked(self.session, view.id, index, background_tool)
        start = CallStarted(
            view.id,
            index,
            name=view.name,
            idempotency_key=self.key,
            effect="keyed" if self.session else self.prepared.effect,
            attempt=self.attempt,
            pid=os.getpid(),
            host=socket.gethostname(),
        )
        approval = ApprovalDecided(view.id, index, allowed=True, reason="permitted by a hook")
        return (
            *([approval] if self.permitted and self.call.phase is Phase.WAITING else []),
            *([link] if self.session != self.call.session else []),
            start,
        )


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

    async def run(self, calls: tuple[CallState, ...]) -> None:
        """Run the calls. Those that are open afterwards wait for approval.

        Raise the error of the approver after the other calls have finished, and that of a hook's `permit` before.
        """
        await self._take_decisions()
        calls = tuple(self._log.machine.calls[call.ordinal] for call in calls)
        finished: list[CallFinished] = []
        ready: list[_ReadyCall] = []
        for call in calls:
            decided = await self._classify(call)
            if isinstance(decided, CallFinished):
                finished.append(decided)
            elif self._needs_approval(decided):
                self._waiting[call.ordinal] = decided
            else:
                ready.append(decided)
        new = [one.call for one in self._waiting.values() if one.call.phase is not Phase.WAITING]
        requests = [ApprovalRequested(call.view.id, call.ordinal, call.view.name) for call in new]
        entries = [*finished, *requests, *(entry for one in ready for entry in one.start_entries())]
        if entries:
            await self._log.append(*entries)
        for result in finished:
            self._emit_finished(self._log.machine.calls[result.call_index].view, result)
        for one in self._waiting.values():
            self._session._emit(ApprovalNeeded(one.call.view, one.call.ordinal))
        for one in ready:
            self._start(self._run_one(one))
        if self._waiting and self._context.approve is not None:
            self._start(self._ask_approver([*self._waiting.values()]))
        await self._finish()
        await self._log.flush()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    async def _finish(self) -> None:
        """Wait for all calls. If one fails, or the wait is cancelled, cancel the others and wait for them.

        Calls that another process approves meanwhile start at once.
        """
        error: BaseException | None = None
        try:
            while self._tasks:
                has_items = await self._session._wait_for_post(self._tasks)
                for task in [task for task in self._tasks if task.done()]:
                    self._tasks.discard(task)
                    if isinstance(task.exception(), _DecisionError):
                        error = task.exception()
                    else:
                        task.result()
                if has_items and self._waiting and self._tasks:
                    await self._take_decisions()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if error is not None and error.__cause__ is not None:
            raise error.__cause__

    # --- decisions ---

    async def _classify(self, call: CallState) -> _ReadyCall | CallFinished:
        """Return the call, ready to run, or the result that it gets without a run."""
        if call.phase is Phase.DENIED:
            return _denied(call, call.why)
        if call.phase is Phase.STARTED and call.effect not in AGAIN:
            return interrupted_result(call, _NO_RESULT)
        prepared = self._context.toolbox.prepare(call.view)
        if isinstance(prepared, Outcome):
            return CallFinished(prepared.result, call.ordinal, outcome="failed", detail=prepared.detail)
        limits = self._context.limits
        if limits.calls_per_reply is not None and call.ordinal >= limits.calls_per_reply:
            return _denied(call, f"a reply may make at most {limits.calls_per_reply} tool calls", "calls_per_reply")
        key = call.key or f"{self._log.id}/{self._log.reply_seq}/{call.ordinal}"
        session, background = self._session._sub_agents.session_for(prepared.name, key)
        ready = _ReadyCall(call, prepared, key, call.session or session, background)
        if call.phase is not Phase.ALLOWED and self._context.hooks:
            decision = await permission(self._context.hooks, self._info(ready))
            if decision is False or isinstance(decision, str):
                return _denied(call, decision or "a policy denies it", "policy")
            ready = msgspec.structs.replace(ready, permitted=decision is True)
        if self._room is not None and not call.attempt:
            if not self._room:
                return _denied(call, f"the limit of {limits.tool_calls} tool calls is reached", TOO_MANY)
            self._room -= 1
        return ready

    def _needs_approval(self, ready: _ReadyCall) -> bool:
        """Whether a call needs approval. One that a crash interrupted needs it again."""
        phase = ready.call.phase
        if ready.permitted or phase is Phase.ALLOWED:
            return False
        return ready.prepared.needs_approval or phase is Phase.WAITING

    def _info(self, ready: _ReadyCall) -> CallInfo:
        return CallInfo(
            session_id=self._log.id,
            call=ready.call.view,
            ordinal=ready.call.ordinal,
            attempt=ready.attempt,
            key=ready.key,
            fence=self._log.fence,
            effect=ready.prepared.effect,
            needs_approval=ready.prepared.needs_approval,
        )

    async def _take_decisions(self) -> None:
        """Take decisions about waiting calls from the inbox. Calls of this turn that are approved start."""
        items = [item for item in await self._log.read_inbox() if isinstance(item.item, Decision)]
        for item in items:
            decision = item.item
            assert isinstance(decision, Decision)
            call = self._open_call(decision)
            if call is None:
                await forward_or_drop(self._log, item)
                continue
            ready = self._waiting.pop(call.ordinal, None)
            entry = ApprovalDecided(call.view.id, call.ordinal, allowed=decision.allowed, reason=decision.reason)
            if ready is None:  # the calls of this turn are not classified yet
                await self._log.append(entry, taking=[item])
            else:
                await self._decide(ready, entry, [item])

    def _open_call(self, decision: Decision) -> CallState | None:
        """Return the call that a decision is about; None if it does not wait for approval in this session."""
        calls, index = self._log.machine.calls, decision.call_index
        if decision.session or decision.reply_seq not in (0, self._log.reply_seq) or not 0 <= index < len(calls):
            return None
        call = calls[index]
        return call if call.phase is Phase.WAITING and call.view.id == decision.call_id else None

    async def _decide(self, ready: _ReadyCall, entry: ApprovalDecided, taking: list[PostedItem]) -> None:
        """Record a decision; start the call, or record its denial."""
        if entry.allowed:
            await self._log.append(entry, *ready.start_entries(), taking=taking)
            self._start(self._run_one(ready))
            return
        result = _denied(ready.call, entry.reason)
        await self._log.append(entry, result, taking=taking)
        self._emit_finished(ready.call.view, result)

    async def _ask_approver(self, waiting: list[_ReadyCall]) -> None:
        """Ask about each call in turn. An approved call starts at once, while the next question is asked."""
        for one in waiting:
            try:
                decision = await self._ask_about(one.call.view)
            except AwaitingApproval:  # no decision: the call stays open
                continue
            except Exception as exc:
                raise _DecisionError from exc
            if self._waiting.pop(one.call.ordinal, None) is None:  # decided by another process meanwhile
                continue
            reason = decision if isinstance(decision, str) else ""
            view = one.call.view
            await self._decide(one, ApprovalDecided(view.id, one.call.ordinal, decision is True, reason), [])

    async def _ask_about(self, call: ToolCallView) -> bool | str:
        """Ask the approver. A function that is not `async` may wait for a person, so it runs in a thread."""
        assert self._context.approve is not None
        decision = await call_function(functools.partial(self._context.approve, call), ToolContext(call))
        if not isinstance(decision, bool | str):
            raise TypeError(f"approve returned {decision!r:.100}: expected True, False or a reason")
        return decision

    # --- running ---

    async def _run_one(self, ready: _ReadyCall) -> None:
        view, index = ready.call.view, ready.call.ordinal
        self._session._emit(ToolStarted(view, index, ready.attempt))
        context = ToolContext(
            view,
            key=ready.key,
            attempt=ready.attempt,
            session=self._log.id,
            fence=self._log.fence,
            progress=functools.partial(self._progress, asyncio.get_running_loop(), view, index),
        )
        try:
            async with self._slots:
                result = await self._outcome(ready, context)
        except AwaitingApproval:
            return
        outcome = result.outcome
        entry = CallFinished(
            outcome.result,
            index,
            attempt=ready.attempt,
            outcome=outcome.outcome,
            detail=outcome.detail,
            usage=result.usage,
            cost=result.cost,
        )
        await self._log.record(entry, "" if ready.background else ready.session)
        self._emit_finished(view, entry)
        await self._session._wait_for_readers()

    async def _outcome(self, ready: _ReadyCall, context: ToolContext) -> CallResult:
        """Run a call inside the hooks. An exception of a hook is a failed outcome; one of the call itself is raised."""
        view = ready.call.view
        result = CallResult(failure(view, "the call did not run", "hook"))
        error: Exception | None = None

        async def run() -> Outcome:
            nonlocal result, error
            try:
                if ready.session:
                    result = await self._session._sub_agents.run(ready.prepared, ready.session, context)
                else:
                    result = CallResult(await self._context.toolbox.run(ready.prepared, context))
            except Exception as exc:  # the sub-agent waits for approval, or the store failed
                error = exc
                raise
            return result.outcome

        try:
            outcome = await run_around(self._context.hooks, "around_tool", self._info(ready), run)
            if not isinstance(outcome, Outcome) or outcome.result.tool_use_id != view.id:
                raise TypeError(f"around_tool returned {outcome!r:.100}: expected the Outcome of the call")
        except Exception as exc:
            outcome = failure(view, f"a hook failed: {type(exc).__name__}: {exc}", "hook")
            if error is None:
                logger.exception("session %s: a hook around the tool %s failed", self._log.id, ready.prepared.name)
        if error is not None:
            raise error
        return msgspec.structs.replace(result, outcome=outcome)

    def _emit_finished(self, view: ToolCallView, entry: CallFinished) -> None:
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


class _DecisionError(Exception):
    """The approver failed; the cause is its error."""


def interrupted_result(call: CallState, why: str) -> CallFinished:
    """Return the result of a call that did not run to its end, or not at all."""
    if not call.attempt:
        answer = call.view.answer(f"{call.view.name} was not run: {why}.", is_error=True)
        return CallFinished(answer, call.ordinal, outcome="cancelled")
    text = f"{call.view.name} was interrupted: {why}. It may or may not have taken effect: check before you retry."
    answer = call.view.answer(text, is_error=True)
    return CallFinished(answer, call.ordinal, attempt=call.attempt, outcome="interrupted")


def _denied(call: CallState, why: str, detail: str = "") -> CallFinished:
    """Return the result of a call that was denied; one that was started before may have taken effect."""
    if call.attempt:
        return interrupted_result(
            call, f"{_NO_RESULT}, and running it again was denied{f': {why}' if why else ''}".rstrip(".")
        )
    text = f"{call.view.name} was not run: {why.rstrip('.') or 'it was denied'}."
    return CallFinished(call.view.answer(text, is_error=True), call.ordinal, outcome="denied", detail=detail)
