"""The calls of one turn: which of them may run, which wait for somebody's word, and what is made of those that a crash
left open. All that may run do so at once; each result is written as it comes.

A call that was started and never returned is treated by its effect: `pure` and `idempotent` run again, `keyed` too, with
the same key; `once` does not, and its result says that nobody knows what became of it.
"""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import sys
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any

import msgspec

from tenuto.agent.events import ApprovalNeeded, ToolFinished, ToolProgress, ToolStarted
from tenuto.agent.limits import TOO_MANY
from tenuto.agent.machine import CallState, Phase
from tenuto.agent.run_context import AwaitingApproval, CallResult, Listener, RunContext
from tenuto.agent.session_log import SessionLog
from tenuto.core.journal import (
    ApprovalDecided,
    ApprovalRequested,
    CallFinished,
    CallStarted,
    EntryPayload,
    SubSessionLinked,
)
from tenuto.core.messages import ToolCallView
from tenuto.tools.execution import Outcome, ToolContext, call_function
from tenuto.tools.toolbox import PreparedCall

__all__ = ["ToolTurn", "interrupted_result"]

AGAIN = ("pure", "idempotent", "keyed")
_NO_RESULT = "no result was recorded"


class _ReadyCall(msgspec.Struct, frozen=True):
    call: CallState
    prepared: PreparedCall
    key: str
    session: str

    @property
    def attempt(self) -> int:
        return self.call.attempt + 1

    def started(self) -> tuple[EntryPayload, ...]:
        """What is written before it acts. A sub-agent's session is known before it is begun, so that it can be found."""
        view, at = self.call.view, self.call.ordinal
        linked = (SubSessionLinked(self.session, view.id, at),) if self.session != self.call.session else ()
        effect = "keyed" if self.session else self.prepared.effect
        begun = CallStarted(
            view.id,
            at,
            name=view.name,
            idempotency_key=self.key,
            effect=effect,
            attempt=self.attempt,
            pid=os.getpid(),
            host=socket.gethostname(),
        )
        return (*linked, begun)


class ToolTurn:
    """The calls of the last reply."""

    def __init__(self, log: SessionLog, crew: RunContext, tell: Listener) -> None:
        self._log = log
        self._crew = crew
        self._tell = tell
        self._room = crew.limits.tool_calls
        if self._room is not None:
            self._room = max(self._room - log.spent.tool_calls, 0)
        self._slots = asyncio.Semaphore(crew.limits.parallel_calls or sys.maxsize)
        self._error: Exception | None = None

    async def run(self, calls: tuple[CallState, ...]) -> Exception | None:
        """Give each call its result. Calls that are still open afterwards wait for approval.

        Return the error, if the approver failed: the other calls ran, and their results are written.
        """
        over: list[CallFinished] = []
        ready: list[_ReadyCall] = []
        asking: list[_ReadyCall] = []
        for call in calls:
            sorted_ = self._classify(call)
            if isinstance(sorted_, CallFinished):
                over.append(sorted_)
            else:
                (asking if self._needs_approval(call, sorted_) else ready).append(sorted_)
        new = [one for one in asking if one.call.phase is not Phase.WAITING]
        asked = [ApprovalRequested(one.call.view.id, one.call.ordinal, one.call.view.name) for one in new]
        await self._write(*over, *asked, *(act for one in ready for act in one.started()))
        views = {call.ordinal: call.view for call in calls}
        for returned in over:
            self._tell_returned(views[returned.call_index], returned)
        for one in asking:
            self._tell(ApprovalNeeded(one.call.view, one.call.ordinal))
        word = [self._approved(asking)] if asking and self._crew.approve is not None else []
        await _run_all([*map(self._one, ready), *word])
        await self._log.flush()
        return self._error

    # --- sorting ---

    def _classify(self, call: CallState) -> _ReadyCall | CallFinished:
        """Return the call, ready to be run, or the result that it gets without."""
        if call.phase is Phase.DENIED:
            return _denied(call, call.why)
        if call.phase is Phase.STARTED and call.effect not in AGAIN:
            return interrupted_result(call, _NO_RESULT)
        prepared = self._crew.toolbox.prepare(call.view)
        if isinstance(prepared, Outcome):
            return CallFinished(prepared.result, call.ordinal, outcome="failed", detail=prepared.detail)
        most = self._crew.limits.calls_per_reply
        if most is not None and call.ordinal >= most:
            return _denied(call, f"a reply may make at most {most} tool calls", "calls_per_reply")
        if self._room is not None and not call.attempt:
            if not self._room:
                return _denied(call, f"the limit of {self._crew.limits.tool_calls} tool calls is reached", TOO_MANY)
            self._room -= 1
        key = call.key or f"{self._log.id}/{self._log.replied_at}/{call.ordinal}"
        below = self._crew.sub_agents
        return _ReadyCall(call, prepared, key, call.session or (below.session_for(prepared.name, key) if below else ""))

    def _needs_approval(self, call: CallState, ready: _ReadyCall) -> bool:
        """Whether a call needs approval. One that a crash interrupted needs it again."""
        undecided = call.phase in (Phase.PENDING, Phase.STARTED)
        return call.phase is Phase.WAITING or (undecided and ready.prepared.needs_approval)

    # --- running ---

    async def _one(self, ready: _ReadyCall) -> None:
        view, at = ready.call.view, ready.call.ordinal
        self._tell(ToolStarted(view, at, ready.attempt))
        progress = functools.partial(self._progress, asyncio.get_running_loop(), view, at)
        context = ToolContext(
            view,
            key=ready.key,
            attempt=ready.attempt,
            session=self._log.id,
            fence=self._log.fence,
            progress=progress,
        )
        try:
            async with self._slots:
                done = await self._done(ready, context)
        except AwaitingApproval:
            return
        told = done.outcome
        returned = CallFinished(
            told.result,
            at,
            attempt=ready.attempt,
            outcome=told.outcome,
            detail=told.detail,
            usage=done.usage,
            cost=done.cost,
        )
        try:
            await self._log.record(returned)
        finally:
            if done.budget is not None:
                done.budget.close()
        self._tell_returned(view, returned)

    async def _done(self, ready: _ReadyCall, context: ToolContext) -> CallResult:
        below = self._crew.sub_agents
        if ready.session and below is not None:
            return await below.answer(ready.prepared, ready.session, context)
        return CallResult(await self._crew.toolbox.run(ready.prepared, context))

    async def _approved(self, asking: list[_ReadyCall]) -> None:
        """Ask for each call in turn; what is allowed begins at once, while the next one is asked for."""
        begun: list[asyncio.Task[None]] = []
        try:
            for one in asking:
                [word] = await asyncio.gather(self._word(one.call.view), return_exceptions=True)
                if isinstance(word, AwaitingApproval):  # nobody gave one
                    continue
                if isinstance(word, Exception):
                    self._error = word
                    break
                at, id = one.call.ordinal, one.call.view.id
                if word is True:
                    await self._write(ApprovalDecided(id, at, allowed=True), *one.started())
                    begun.append(asyncio.create_task(self._one(one)))
                else:
                    why = word if isinstance(word, str) else ""
                    returned = _denied(one.call, why)
                    await self._write(ApprovalDecided(id, at, allowed=False, reason=why), returned)
                    self._tell_returned(one.call.view, returned)
        except BaseException:
            for task in begun:
                task.cancel()
            await asyncio.gather(*begun, return_exceptions=True)
            raise
        await _run_all(begun)

    async def _word(self, call: ToolCallView) -> bool | str:
        """Get somebody's word. A function that is not `async` may wait for a person: it gets a thread."""
        assert self._crew.approve is not None
        word = await call_function(functools.partial(self._crew.approve, call), ToolContext(call))
        if not isinstance(word, bool | str):
            raise TypeError(f"approve() gave {word!r:.100}: True lets a call run, False or a reason does not")
        return word

    # --- telling ---

    async def _write(self, *acts: EntryPayload) -> None:
        if acts:
            await self._log.append(*acts)

    def _tell_returned(self, view: ToolCallView, returned: CallFinished) -> None:
        self._tell(ToolFinished(view, returned.call_index, returned.result, returned.outcome, returned.detail))

    def _progress(self, loop: asyncio.AbstractEventLoop, view: ToolCallView, at: int, text: str) -> None:
        with suppress(RuntimeError):  # a thread that was left behind may outlive the loop
            loop.call_soon_threadsafe(self._tell, ToolProgress(view, at, text))


def interrupted_result(call: CallState, why: str) -> CallFinished:
    """Return the result of a call that was not run to its end, or not at all."""
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


async def _run_all(work: Iterable[Coroutine[Any, Any, None] | asyncio.Task[None]]) -> None:
    """Wait for all. If one fails, or the wait is cancelled, all the others are cancelled and waited for."""
    tasks = {one if isinstance(one, asyncio.Task) else asyncio.create_task(one) for one in work}
    if not tasks:
        return
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
