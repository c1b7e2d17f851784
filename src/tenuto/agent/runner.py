"""The loop of a run: do the next step of the machine, record it, until no step is left or the run has to stop.

The same loop starts a run and continues one after a crash. Every decision depends on the journal; the state of the
`Runner` itself (retries, the last error) may be lost with the process.
"""

from __future__ import annotations

import asyncio
import hashlib
from datetime import date
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

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
from tenuto.agent.hooks import RequestInfo, run_around
from tenuto.agent.limits import Reservation
from tenuto.agent.machine import (
    CANCELLED,
    CANCELLING,
    FinishCancel,
    Machine,
    RunTools,
    State,
    TurnBoundary,
)
from tenuto.agent.refusals import is_item_refusal, refused_block
from tenuto.agent.run_context import PendingCall, RunContext
from tenuto.agent.tool_calls import ToolTurn, forward_or_drop, interrupted_result
from tenuto.client.middleware.retry import RetryState
from tenuto.client.prices import cost
from tenuto.client.reply import Reply
from tenuto.client.stream import AsyncStream
from tenuto.core.inbox import Cancel, Decision, Finished, PostedItem, Prompt, Steer, UnknownItem
from tenuto.core.journal import (
    EntryPayload,
    LossRecorded,
    MessageAdded,
    ReplyReceived,
    RequestFailed,
    RequestStarted,
    RunEnded,
    SteeringAdded,
)
from tenuto.core.messages import Usage
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse
from tenuto.errors import (
    BudgetExceeded,
    ContextTooLong,
    InboxNotEmpty,
    LimitReached,
    LLMError,
    RunCancelled,
    SessionInUse,
    StoreError,
)
from tenuto.wire.write import ENCODER_VERSION

if TYPE_CHECKING:
    from tenuto.agent.session import AsyncSession

WaitingFor: TypeAlias = Literal["", "approval", "input", "limit", "context"]

_REPLY_TOKENS = 4096
"""The estimated length of a reply to a request without `max_tokens`."""
_BUDGET_POLL = 0.1
"""The seconds between two attempts to reserve a budget that other requests in flight use up."""
_FULL = (
    "the session is saved: hand it over to a model with a larger context window, session.handover(model), and continue"
)


class More(msgspec.Struct, frozen=True):
    """There is another step to do."""


class Done(msgspec.Struct, frozen=True):
    """The run has ended."""

    reason: str
    """The reason in `RunEnded`: `completed`, or that of an earlier run if there was nothing to do."""


class Wait(msgspec.Struct, frozen=True):
    """The request failed; send it again after this time."""

    seconds: float
    reason: str


class Blocked(msgspec.Struct, frozen=True):
    """The run waits for approval of these calls."""

    pending: tuple[PendingCall, ...]


Step: TypeAlias = More | Done | Wait | Blocked
"""The result of one step of a run."""


class Runner:
    """One run of a session whose lease is held."""

    def __init__(self, session: AsyncSession, context: RunContext, *, failures: int = 0) -> None:
        self._session = session
        self._log = session._log
        self._context = context
        self._retries = RetryState(context.retry, failures)
        self._error: LLMError | None = None
        self._started = False
        """Whether `RequestStarted` is recorded for the current request."""
        self._sent: tuple[ChatRequest, Target, WireRequest] | None = None
        self._healed = False
        self._ended = False
        self.reply: Reply | None = None

    async def run(self) -> None:
        """Do the pending work. Raise the error that ends it."""
        while True:
            step = await self.step()
            if isinstance(step, Wait):
                await self._context.retry.sleep(step.seconds)
            elif not isinstance(step, More):
                return

    async def step(self) -> Step:
        """Do one step and record it: one request, or the calls of one turn, or the end of a cancelled run.

        The caller records an error that this raises: see `fail`.
        """
        step = self._log.machine.next_step()
        if step is None:
            return await self._rest()
        if isinstance(step, RunTools):
            return await self._run_tools(step)
        if isinstance(step, FinishCancel):
            await self._log.append(*close_calls(step, CANCELLED))
            return More()
        if isinstance(step, TurnBoundary) and not step.paused:
            await self._inject_messages()
        return await self._ask()

    async def fail(self, error: Exception) -> None:
        """Record that an error ended the run, unless its end is recorded already."""
        if not self._ended and self._log.held and self._log.machine.state is not State.CANCELLING:
            await self._stop("failed", _error_text(error))

    async def _rest(self) -> Step:
        """Take messages from the inbox, or wait for background sub-agents, or end the run."""
        if self._ended:
            return Done("completed")
        while not await self._inject_messages(at_rest=True):
            if not self._log.background:
                return await self._complete()
            if not await self._session._sub_agents.wait():
                return await self._block()
        return More()

    async def _complete(self) -> Step:
        halted = self._log.machine.halted or (RunEnded("completed") if self._log.last is None else None)
        if halted is not None:  # there was nothing to do
            self._session._emit(RunStopped(halted.reason, halted.detail, halted.waiting_for))
            return Done(halted.reason)
        try:
            await self._stop("completed", unless_posted=True)
        except InboxNotEmpty:
            return More()
        return Done("completed")

    # --- requests ---

    async def _ask(self) -> Step:
        exceeded = self._session._budget.exceeded(self._log.spent)
        if exceeded is not None:
            raise await self._stop_at_limit(exceeded)
        self._session._emit(TurnStarted(self._log.spent.turns + 1, self._log.machine.attempt))
        request = self._log.next_request(self._context.toolbox.definitions(), self._context.headers)
        self._started, self._sent, self._error = False, None, None
        send = partial(self._exchange, request)
        if self._context.hooks:
            info = RequestInfo(
                session_id=self._log.id,
                request=request,
                target=self._context.client._target(request.model),
                attempt=self._log.machine.attempt,
            )
            send = partial(run_around, self._context.hooks, "around_request", info, send)
        try:
            await send()
        except LLMError:
            if self._error is None:  # raised by a hook
                raise
        if self._error is not None:
            return await self._recover(self._error)
        return Done("completed") if self._ended else More()

    async def _exchange(self, request: ChatRequest) -> Reply:
        """Send one request and record its reply or its error."""
        stream = self._context.client._stream(
            request, partial(self._before_send, request), timeout=self._context.timeout
        )
        try:
            reply = await self._read(stream)
        except LimitReached as exc:
            raise await self._stop_at_limit(exc) from None
        except LLMError as exc:
            self._error = exc
            healing = self._healing(exc)
            await self._log.append(*self._unsent(request.model), self._failure(exc), *healing)
            self._healed = bool(healing)
            for loss in healing:
                self._session._emit(RefusedBlockDropped(loss.loss))
            raise
        await self._record_reply(request.model, reply)
        return reply

    async def _read(self, stream: AsyncStream) -> Reply:
        session = self._session
        async with stream:
            async for event in stream:
                session._emit(event)
                if session._is_behind():
                    await session._wait_for_readers()
            return stream.reply

    async def _before_send(self, request: ChatRequest, target: Target, wire: WireRequest) -> None:
        """Record that the request is about to be sent: from here on it may be charged."""
        self._sent = request, target, wire
        self._session._emit(RequestReady(request, target, wire))
        entry = RequestStarted(
            model=f"{target.provider.name}/{target.model}",
            digest=hashlib.sha256(wire.body).hexdigest(),
            encoder_version=ENCODER_VERSION,
            attempt=self._log.machine.attempt,
            account=target.account,
        )
        reserve = self._estimate(request, target, wire)
        while True:
            try:
                await self._log.append(entry, reserve=reserve)
                break
            except BudgetExceeded as exc:
                reached = self._session._budget.limit_error(exc)
                if reached is not None:
                    raise reached from None
            await asyncio.sleep(_BUDGET_POLL)
        self._started = True

    def _estimate(self, request: ChatRequest, target: Target, wire: WireRequest) -> Reservation:
        """Estimate the tokens of a request and its reply, and their cost."""
        usage = Usage(input_tokens=len(wire.body) // 4, output_tokens=request.max_tokens or _REPLY_TOKENS)
        price = cost(usage, target.provider.name, target.model, self._log.today())
        return Reservation(usage.total_tokens or 0, price)

    def _healing(self, error: LLMError) -> tuple[LossRecorded, ...]:
        """Return the loss of the block that an error refuses; at most one for each request, none with `strict`."""
        if self._sent is None or self._context.strict or self._log.next.healed:
            return ()
        refused = refused_block(error, *self._sent)
        if refused is None:
            return ()
        message, block, loss = refused
        reply = self._log.next.reply_at(self._sent[0].transcript[message])
        return (LossRecorded(loss, reply, block),) if reply else ()

    def _unsent(self, model: str) -> tuple[EntryPayload, ...]:
        """Return the start of a request that was not sent: the reply is from a cache, or the provider is unknown."""
        return () if self._started else (RequestStarted(model=model, attempt=self._log.machine.attempt),)

    async def _record_reply(self, model: str, reply: Reply) -> None:
        price = reply.cost
        entry = ReplyReceived(
            message=reply.message,
            usage=reply.usage,
            losses=reply.losses,
            response_id=reply.response.id,
            request_id=reply.request_id or "",
            cost="" if price is None else str(price),
        )
        entries = (*self._unsent(model), entry)
        last = not (reply.message.has_tool_calls() or reply.message.paused or self._log.background)
        if last:
            try:
                await self._log.append(*entries, RunEnded("completed"), last=True, unless_posted=True)
            except InboxNotEmpty:
                last = False
        if not last:
            await self._log.append(*entries)
        self.reply = reply
        self._retries = RetryState(self._context.retry)
        if last:
            self._ended = True
            self._session._emit(RunStopped("completed"))

    def _failure(self, error: LLMError) -> RequestFailed:
        attempt, partial_reply = self._log.machine.attempt - self._started, error.partial
        paid = _partial_cost(partial_reply, self._log.today()) if partial_reply is not None else None
        return RequestFailed(
            type(error).__name__,
            error.message,
            attempt=attempt,
            retryable=error.retryable,
            usage=partial_reply.usage if partial_reply is not None else None,
            cost="" if paid is None else str(paid),
        )

    async def _recover(self, error: LLMError) -> Step:
        """Decide what follows a failed request: the same request again, another model, or the end of the run."""
        self._error = None
        delay = 0.0 if self._healed else self._retries.after(error)
        self._healed = False
        if delay is not None:
            self._session._emit(Retrying(type(error).__name__, error.message, delay))
            return Wait(delay, type(error).__name__)
        if await self._try_fallback(error):
            return More()
        if isinstance(error, ContextTooLong):
            await self._stop("waiting", waiting_for="context")
            error.add_note(_FULL)
        raise error

    async def _try_fallback(self, error: LLMError) -> bool:
        """Hand the session over to the next fallback model. Return False if there is none for this error."""
        configured = self._log.configured
        assert configured is not None  # a request was sent
        if self._sent is not None and is_item_refusal(error, self._sent[1]):
            return False
        tried = {*self._log.machine.tried, configured.model}
        others = [model for model in self._context.fallback if model not in tried]
        entry = best_fallback(error, others, self._log, self._context)
        if entry is None:
            return False
        await self._log.append(entry)
        self._retries = RetryState(self._context.retry)
        self._session._emit(ModelChanged(entry.model, entry.previous_model, entry.losses))
        return True

    # --- tools, inbox, end ---

    async def _run_tools(self, step: RunTools) -> Step:
        await ToolTurn(self._session, self._context).run(step.calls)
        if not self._log.machine.open_calls:
            return More()
        while self._session._sub_agents.has_tasks:
            await self._session._sub_agents.wait_for_one()
            if await self._has_decision():
                return More()
        return await self._block()

    async def _block(self) -> Step:
        """Wait for approval: end the run, unless a decision was posted meanwhile."""
        await self._session._refresh_pending()
        if not await self._has_decision():
            await self._stop("waiting", waiting_for="approval")
            # A decision that was posted before the lease was released found the session in use: take it here.
            if not await self._has_decision():
                return Blocked(self._session.pending)
            try:
                await self._log.acquire()
            except SessionInUse:  # the process that posted it continues the run
                return Blocked(self._session.pending)
            self._ended = False
        await self.check_cancel(self._log.inbox)
        return More()

    async def _has_decision(self) -> bool:
        return any(isinstance(item.item, Decision | Cancel) for item in await self._log.read_inbox())

    async def check_cancel(self, items: list[PostedItem]) -> None:
        """Cancel the run and raise `RunCancelled` if one of these items says so."""
        cancels = [item for item in items if isinstance(item.item, Cancel)]
        if not cancels or not self._log.has_work:
            return
        reason = "the run was cancelled"
        await self._log.append(*cancel_entries(self._log.machine, CANCELLED, "", reason), taking=cancels, last=True)
        self._ended = True
        self._session._emit(RunStopped(CANCELLED))
        raise RunCancelled(f"the run of session {self._log.id!r} was cancelled; continue_() continues it")

    async def _inject_messages(self, *, at_rest: bool = False) -> bool:
        """Add the messages of the inbox to the transcript; a new prompt only at rest. Return whether there were any."""
        await self._log.acquire()  # a completed run has released the lease
        items = await self._log.read_inbox()
        if not items:
            return False
        check_items(self._log.id, items)
        await self.check_cancel(items)
        for item in items:
            is_forwarded = isinstance(item.item, Decision) and bool(item.item.session)
            has_no_effect = at_rest and (isinstance(item.item, Decision | Cancel) or self._is_repeated(item))
            if is_forwarded or has_no_effect:
                await forward_or_drop(self._log, item)
        messages = [item for item in items if isinstance(item.item, Steer | Finished)]
        if at_rest and not messages:
            messages = [item for item in self._log.inbox if isinstance(item.item, Prompt)][:1]
        if not messages:
            return False
        finished = [item.item.session for item in messages if isinstance(item.item, Finished)]
        await self._log.append(*map(_message_entry, messages), taking=messages, forget=finished)
        for item in messages:
            if isinstance(item.item, Steer | Finished):
                self._session._emit(SteeringInjected(item.item.message))
        return True

    def _is_repeated(self, item: PostedItem) -> bool:
        """Return whether an item is a prompt with a key that was sent before."""
        return isinstance(item.item, Prompt) and item.item.key in self._log.keyed_runs

    async def _stop_at_limit(self, reached: LimitReached) -> LimitReached:
        await self._stop("waiting", reached.limit, waiting_for="limit")
        return reached

    async def _stop(
        self, reason: str, detail: str = "", *, waiting_for: WaitingFor = "", unless_posted: bool = False
    ) -> None:
        entry = RunEnded(reason, detail, waiting_for)
        await self._log.append(entry, last=True, unless_posted=unless_posted)
        self._ended = True
        self._session._emit(RunStopped(reason, detail, waiting_for))


def close_calls(
    step: FinishCancel, reason: str, detail: str = "", why: str = "the run was cancelled"
) -> tuple[EntryPayload, ...]:
    """Return the results of open calls that do not run to their end, and the end of the run."""
    return (*(interrupted_result(call, why) for call in step.calls), _end_entry(reason, detail))


def _end_entry(reason: str, detail: str) -> RunEnded:
    return RunEnded("waiting", detail, "limit") if reason == "limit" else RunEnded(reason, detail)


def close_calls_for_new_input(machine: Machine) -> tuple[EntryPayload, ...]:
    """Return the entries that close open calls, so that a new message can be added."""
    entries = close_calls(FinishCancel(machine.open_calls), CANCELLED, why="a new user message arrived")
    if machine.state is State.CANCELLING:
        return entries
    return entries[:-1] if machine.state is State.WAITING_FOR_OPS else ()


def cancel_entries(machine: Machine, reason: str, detail: str, why: str) -> tuple[EntryPayload, ...]:
    """Return the entries that cancel the pending work of a session."""
    if machine.state is State.COMPLETED:  # the run waits for background sub-agents
        return (_end_entry(reason, detail),)
    return RunEnded(CANCELLING), *close_calls(FinishCancel(machine.open_calls), reason, detail, why)


def check_items(session: str, items: list[PostedItem]) -> None:
    """Raise `StoreError` for an inbox item that a later version posted."""
    for item in items:
        if isinstance(item.item, UnknownItem):
            raise StoreError(
                f"session {session!r}: inbox item {item.number} ({item.item.kind}) was posted by a later version of "
                "tenuto: continue the session with that version"
            )


def _message_entry(item: PostedItem) -> EntryPayload:
    posted = item.item
    if isinstance(posted, Prompt):
        return MessageAdded(posted.message, posted.key)
    if isinstance(posted, Finished):
        return SteeringAdded(posted.message, posted.session, posted.usage, posted.cost)
    assert isinstance(posted, Steer)
    return SteeringAdded(posted.message)


def _partial_cost(partial_reply: ChatResponse, on: date) -> Decimal | None:
    """Return the cost of an incomplete reply; counts that were not reported are 0."""
    usage, origin = partial_reply.usage, partial_reply.message.origin
    if usage is None or origin is None:
        return None
    least = msgspec.structs.replace(usage, input_tokens=usage.input_tokens or 0, output_tokens=usage.output_tokens or 0)
    return cost(least, origin.provider, origin.model, on)


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]
