"""The loop: what the machine says is owed is done, and written down, until nothing is owed or the run has to stop.

There is one loop for a run that begins and for one that goes on after a crash. Everything it decides upon is in the
journal; what it holds itself (how often it tried, the last error) may be lost with the process.
"""

from __future__ import annotations

import hashlib
from collections import deque
from datetime import date
from decimal import Decimal
from functools import partial

import msgspec

from tenuto.agent.events import (
    ModelChanged,
    RefusedBlockDropped,
    RequestReady,
    Retrying,
    RunStopped,
    SteeringInjected,
    TurnStarted,
)
from tenuto.agent.handover import best_fallback
from tenuto.agent.limits import Budget, Reservation
from tenuto.agent.machine import CANCELLED, FinishCancel, Machine, NextStep, RetryRequest, RunTools, State, TurnBoundary
from tenuto.agent.refusals import is_item_refusal, refused_block
from tenuto.agent.run_context import Listener, RunContext
from tenuto.agent.session_log import SessionLog
from tenuto.agent.tool_calls import ToolTurn, interrupted_result
from tenuto.client.middleware.retry import RetryState
from tenuto.client.prices import cost
from tenuto.client.reply import Reply
from tenuto.client.stream import AsyncStream
from tenuto.core.journal import (
    EntryPayload,
    LossRecorded,
    ReplyReceived,
    RequestFailed,
    RequestStarted,
    RunEnded,
    SteeringAdded,
)
from tenuto.core.messages import Message, Usage
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse
from tenuto.errors import ContextTooLong, LimitReached, LLMError, StoreError
from tenuto.wire.write import ENCODER_VERSION

__all__ = ["Runner", "close_calls", "close_calls_for_new_input"]

_REPLY_TOKENS = 4096
"""The estimated length of a reply to a request without `max_tokens`."""
_FULL = (
    "the session is saved: hand it over to a model with a larger context window, session.handover(model), and continue"
)


class Runner:
    """One run of a session whose lease is held. `tell` receives every event."""

    def __init__(
        self, log: SessionLog, crew: RunContext, inbox: deque[Message], tell: Listener, budget: Budget
    ) -> None:
        self._log = log
        self._crew = crew
        self._inbox = inbox
        self._tell = tell
        self._budget = budget
        self._reservation: Reservation | None = None
        self._patience = RetryState(crew.retry)
        self._error: LLMError | None = None
        self._asked = False
        self._sent: tuple[ChatRequest, Target, WireRequest] | None = None
        self._mended = False
        self._tried: set[str] = set()
        self._waits = False
        self.reply: Reply | None = None

    async def run(self) -> None:
        """Do the pending work. Raise what ended it: an error, a limit, a failure of the store. The journal records it."""
        try:
            while not self._waits and (owed := await self._next()) is not None:
                await self._do(owed)
        except StoreError:
            raise
        except Exception as exc:
            if not self._waits:
                await self._stop("failed", _named(exc))
            raise

    async def _next(self) -> NextStep:
        owed = self._log.machine.next_step()
        if owed is None and self._inbox:
            await self._inject_steering()
            owed = self._log.machine.next_step()
        return owed

    async def _do(self, owed: NextStep) -> None:
        if isinstance(owed, RunTools):
            await self._run(owed)
        elif isinstance(owed, FinishCancel):
            await self._log.append(*close_calls(owed, CANCELLED))
        elif isinstance(owed, RetryRequest):
            await self._recover()
        else:
            if isinstance(owed, TurnBoundary) and not owed.paused:
                await self._inject_steering()
            await self._ask()

    # --- the model ---

    async def _ask(self) -> None:
        over = self._budget.exceeded()
        if over is not None:
            await self._stop("limit", over.limit)
            raise over
        self._tell(TurnStarted(self._log.spent.turns + 1, self._log.machine.attempt))
        request = self._log.next_request(self._crew.toolbox.definitions(), self._crew.headers)
        self._asked, self._sent = False, None
        try:
            await self._exchange(request)
        finally:
            if self._reservation is not None:
                self._reservation.release()
                self._reservation = None

    async def _exchange(self, request: ChatRequest) -> None:
        """Send one request and record its reply or its error."""
        stream = self._crew.client._stream(request, partial(self._before, request), timeout=self._crew.timeout)
        try:
            reply = await self._streamed(stream)
        except LimitReached as exc:
            await self._stop("limit", exc.limit)
            raise
        except LLMError as exc:
            self._error = exc
            healing = self._healing(exc)
            await self._log.append(*self._unasked(request.model), self._failed(exc), *healing)
            self._mended = bool(healing)
            for lost in healing:
                self._tell(RefusedBlockDropped(lost.loss))
        else:
            await self._replied(request.model, reply)

    async def _streamed(self, stream: AsyncStream) -> Reply:
        async with stream:
            async for event in stream:
                self._tell(event)
            return stream.reply

    async def _before(self, request: ChatRequest, target: Target, wire: WireRequest) -> None:
        """The bytes are about to go out: from here on the question may have been paid for."""
        if self._reservation is None:
            self._reservation = await self._budget.reserve(*self._estimate(request, target, wire))
        self._sent = request, target, wire
        self._tell(RequestReady(request, target, wire))
        asked = RequestStarted(
            model=f"{target.provider.name}/{target.model}",
            digest=hashlib.sha256(wire.body).hexdigest(),
            encoder_version=ENCODER_VERSION,
            attempt=self._log.machine.attempt,
            account=target.account,
        )
        await self._log.append(asked)
        self._asked = True

    def _estimate(self, request: ChatRequest, target: Target, wire: WireRequest) -> tuple[int, Decimal | None]:
        """Estimate the tokens of a request and its reply, and their cost."""
        usage = Usage(input_tokens=len(wire.body) // 4, output_tokens=request.max_tokens or _REPLY_TOKENS)
        return usage.total_tokens or 0, cost(usage, target.provider.name, target.model, self._log.today())

    def _healing(self, error: LLMError) -> tuple[LossRecorded, ...]:
        """What is to be left out because an error names it: once for a question, and nothing where that is not wanted."""
        if self._sent is None or self._crew.strict or self._log.asking.healed:
            return ()
        request = self._sent[0]
        found = refused_block(error, *self._sent)
        reply = self._log.asking.reply_at(request.transcript[found[0]]) if found is not None else 0
        return (LossRecorded(found[2], reply, found[1]),) if found is not None and reply else ()

    def _unasked(self, model: str) -> tuple[EntryPayload, ...]:
        """What came without anything going out (from a cache, or because the way was not found) is an attempt, too."""
        return () if self._asked else (RequestStarted(model=model, attempt=self._log.machine.attempt),)

    async def _replied(self, model: str, reply: Reply) -> None:
        price = reply.cost
        act = ReplyReceived(
            message=reply.message,
            usage=reply.usage,
            losses=reply.losses,
            response_id=reply.response.id,
            request_id=reply.request_id or "",
            cost="" if price is None else str(price),
        )
        last = not (reply.message.has_tool_calls() or reply.message.paused or self._inbox)
        await self._log.append(*self._unasked(model), act, *([RunEnded("completed")] if last else []), last=last)
        self.reply, self._error = reply, None
        self._patience = RetryState(self._crew.retry)
        self._tried.clear()
        if last:
            self._tell(RunStopped("completed"))

    def _failed(self, error: LLMError) -> RequestFailed:
        attempt, partial = self._log.machine.attempt - self._asked, error.partial
        paid = _paid(partial, self._log.today()) if partial is not None else None
        return RequestFailed(
            type(error).__name__,
            error.message,
            attempt=attempt,
            retryable=error.retryable,
            usage=partial.usage if partial is not None else None,
            cost="" if paid is None else str(paid),
        )

    async def _recover(self) -> None:
        error, self._error = self._error, None
        if error is None:  # it failed in a run before this one
            await self._ask()
            return
        delay = 0.0 if self._mended else self._patience.after(error)
        self._mended = False
        if delay is None:
            if await self._try_fallback(error):
                await self._ask()
                return
            full = isinstance(error, ContextTooLong)
            await self._stop("waiting" if full else "failed", "context" if full else _named(error))
            if full:
                error.add_note(_FULL)
            raise error
        self._tell(Retrying(type(error).__name__, error.message, delay))
        await self._crew.retry.sleep(delay)
        await self._ask()

    async def _try_fallback(self, error: LLMError) -> bool:
        """Hand the session over to somebody who may answer, if there is somebody; tell whether there is."""
        kept = self._log.configured
        assert kept is not None  # it has been asked
        if self._sent is not None and is_item_refusal(error, self._sent[1]):
            return False
        self._tried.add(kept.model)
        others = [model for model in self._crew.fallback if model not in self._tried]
        act = best_fallback(error, others, self._log, self._crew)
        if act is None:
            return False
        await self._log.append(act)
        self._patience = RetryState(self._crew.retry)
        self._tell(ModelChanged(act.model, act.previous_model, act.losses))
        return True

    # --- the tools, and what else is to be done ---

    async def _run(self, owed: RunTools) -> None:
        error = await ToolTurn(self._log, self._crew, self._tell).run(owed.calls)
        if error is not None:
            await self._stop("failed", _named(error))
            raise error
        if self._log.machine.open_calls:
            await self._stop("waiting", "approval")

    async def _inject_steering(self) -> None:
        """What was said while the agent was at work is said here."""
        said = [self._inbox.popleft() for _ in range(len(self._inbox))]
        if not said:
            return
        try:
            await self._log.acquire()  # a run that was over released the lease
            await self._log.append(*(SteeringAdded(message) for message in said))
        except StoreError:
            self._inbox.extendleft(reversed(said))
            raise
        for message in said:
            self._tell(SteeringInjected(message))

    async def _stop(self, reason: str, detail: str) -> None:
        await self._log.append(RunEnded(reason, detail), last=True)
        self._waits = True
        self._tell(RunStopped(reason, detail))


def close_calls(
    owed: FinishCancel, reason: str, detail: str = "", why: str = "the run was cancelled"
) -> tuple[EntryPayload, ...]:
    """Return what gives open calls the result that they were not run to their end, and says that the run has stopped."""
    return (*(interrupted_result(call, why) for call in owed.calls), RunEnded(reason, detail))


def close_calls_for_new_input(machine: Machine) -> tuple[EntryPayload, ...]:
    """Return what has to be written before something new can be said: calls that are open are closed."""
    acts = close_calls(FinishCancel(machine.open_calls), CANCELLED, why="something else was said")
    if machine.state is State.CANCELLING:
        return acts
    return acts[:-1] if machine.state is State.WAITING_FOR_OPS else ()


def _paid(partial: ChatResponse, on: date) -> Decimal | None:
    """Return what half a reply cost: what was not told before it broke off counts as nothing."""
    usage, origin = partial.usage, partial.message.origin
    if usage is None or origin is None:
        return None
    least = msgspec.structs.replace(usage, input_tokens=usage.input_tokens or 0, output_tokens=usage.output_tokens or 0)
    return cost(least, origin.provider, origin.model, on)


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]
