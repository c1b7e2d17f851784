"""The loop of a run: do the next step of the machine, record it, until no step is left or the run has to stop.

The same loop starts a run and continues one after a crash. Every decision depends on the journal; the state of the
`Runner` itself (retries, the last error) may be lost with the process.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from tenuto import errors
from tenuto.agent.compaction import Compactor, check_summary_scope, inline_entry
from tenuto.agent.events import (
    CacheMissed,
    ConfigurationChanged,
    ModelChanged,
    OutputRetried,
    RefusedBlockDropped,
    RequestReady,
    Retrying,
    RunStopped,
    SteeringInjected,
    TurnStarted,
)
from tenuto.agent.handover import best_fallback
from tenuto.agent.hooks import RequestInfo, RunInfo, run_around
from tenuto.agent.limits import FINAL_TOOL
from tenuto.agent.machine import (
    CANCELLED,
    CANCELLING,
    FinishCancel,
    Machine,
    PendingCall,
    RunTools,
    State,
    TurnBoundary,
)
from tenuto.agent.output import OutputRejected, RunOutput, is_unrecoverable
from tenuto.agent.refusals import is_item_refusal, refused_block
from tenuto.agent.result import stored_reply
from tenuto.agent.run_settings import RunSettings, configure_run, new_losses
from tenuto.agent.tool_calls import ToolTurn, forward_or_drop, interrupted_result
from tenuto.client.middleware.retry import RetryState
from tenuto.client.reply import Reply
from tenuto.core import journal
from tenuto.core.cache_misses import CacheMiss
from tenuto.core.inbox import Cancel, Decision, Finished, PostedItem, Prompt, Steer, UnknownItem
from tenuto.core.loss import Loss
from tenuto.core.messages import Message, Usage, summary_block, user
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.wire.token_scope import issued_by
from tenuto.wire.write import ENCODER_VERSION

if TYPE_CHECKING:
    from tenuto.agent.session import AsyncSession

logger = logging.getLogger("tenuto")

_REPLY_TOKENS = 4096
"""The estimated length of a reply to a request without `max_tokens`."""
_BUDGET_POLL = 0.1
"""The seconds between two attempts to reserve a budget that other requests in flight use up."""
_FULL = (
    "the session is saved: compact it, session.compact(), or hand it over to a model with a larger context window, "
    "session.handover(model), and continue"
)


class More(msgspec.Struct, frozen=True):
    """There is another step to do."""


class Done(msgspec.Struct, frozen=True):
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

    info: RunInfo[Any]
    """The run; `configure` sets it."""

    def __init__(self, session: AsyncSession[Any, Any], *, failures: int = 0) -> None:
        self._session = session
        self._log = session._log
        self._context = session._context
        self._configs: tuple[journal.Configured, ...] = ()
        """The configurations of the session and of the run."""
        self._note = ""
        """The instructions of the run that are sent as a message."""
        self._retries = RetryState(self._context.retry, failures)
        self._error: errors.LLMError | None = None
        self._started = False
        """Whether `RequestStarted` is recorded for the current request."""
        self._sent: tuple[ChatRequest, Target, WireRequest] | None = None
        self._healed = False
        self._ended = False
        self._compactor = Compactor(session)
        self.output: RunOutput | None = None
        """The output of the run; None if any reply ends it."""
        self.reply: Reply | None = None
        self.losses: tuple[Loss, ...] = ()

    @property
    def has_result(self) -> bool:
        """Whether the run received a reply, or checked the output in that of an earlier run."""
        return self.reply is not None or (self.output is not None and self._ended)

    async def configure(self, settings: RunSettings, *, is_new: bool) -> None:
        """Evaluate the settings of the run. `is_new`: a message starts it."""
        self._context, self._configs, self.info, self._note = await configure_run(
            self._session, settings, is_new=is_new
        )
        self._compactor.context, self.output = self._context, self._context.output

    def _unwritten_configs(self, messages: tuple[Message, ...]) -> list[journal.Configured]:
        """Return the configurations that the journal does not have; these messages follow.

        Report the reasoning that they cost.
        """
        state = self._log.next
        current, entries = state.configured, list[journal.Configured]()
        for config in self._configs:
            is_changed = config.scope == "session" and config != state.session_config
            if is_changed or (config is self._configs[-1] and config != current):
                entries.append(config)
                current = config
        if entries:
            target = self._context.client._target(entries[-1].model)
            losses = new_losses(state, entries[-1], target, messages)
            if losses:
                logger.warning(
                    "session %s: the model loses %d blocks of its reasoning, because instructions or tools changed",
                    self._log.id,
                    len(losses),
                )
                self._session._emit(ConfigurationChanged(losses))
        return entries

    async def begin(self, messages: tuple[Message, ...], key: str = "") -> None:
        """Write the entries before the first step."""
        session, log = self._session, self._log
        log.next.cache.miss = None  # of an earlier run
        items = await log.read_inbox()
        entries: list[journal.EntryPayload] = [*self._unwritten_configs(messages), *session._metadata_entries()]
        if not messages:
            await self.check_cancel(items)
            await log.append(*entries)
        else:
            entries += [*entries_before_message(log.machine), *(journal.MessageAdded(one, key) for one in messages)]
            entries += self._note_entries() if self._note else ()
            # A cancel in the inbox was meant for the work before this message.
            await log.append(*entries, taking=[item for item in items if isinstance(item.item, Cancel)])
        early, session._early = session._early, []
        for item in early:
            await log.post(item)

    def _note_entries(self) -> list[journal.SteeringAdded]:
        """Return the entry of the instructions that are sent as a message, unless the model has the same text already."""
        if self._note in ("", self._log.next.note):
            return []
        return [journal.SteeringAdded(user(self._note), instructions=True)]

    async def run(self, messages: tuple[Message, ...], key: str) -> None:
        """Add messages and do the pending work. Raise the error that ends it."""
        await self.begin(messages, key)
        try:
            while True:
                step = await self.step()
                if isinstance(step, Wait):
                    await self._context.retry.sleep(step.seconds)
                elif not isinstance(step, More):
                    return
        finally:
            if self._compactor.task is not None:
                await self._compactor.cancel()

    async def run_step(self, messages: tuple[Message, ...], key: str) -> Step:
        """Add messages and do one step, with the background sub-agents that it starts."""
        await self.begin(messages, key)
        try:
            step = await self.step()
            while self._session._sub_agents.tasks:
                await self._session._sub_agents.wait_for_one()
            if self._compactor.task is not None:
                await self._compactor.finish()
        finally:
            await self._compactor.cancel()
        return step

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
            await self._log.append(*cancel_entries(self._log.machine))
            return More()
        if isinstance(step, TurnBoundary) and not step.paused:
            if self.output is not None and await self._end_after_output():
                return More() if self._log.background else Done("completed")
            await self._inject_messages()
        return await self._ask()

    async def fail(self, error: Exception) -> None:
        """Record that an error ended the run, unless its end is recorded already."""
        if not self._ended and self._log.held and self._log.machine.state is not State.CANCELLING:
            await self._end(journal.RunEnded("failed", f"{type(error).__name__}: {error}"[:500]))

    async def _rest(self) -> Step:
        """Take messages from the inbox, or wait for background sub-agents, or end the run."""
        while not await self._inject_messages(at_rest=True):
            if self._log.background:
                if not await self._session._sub_agents.wait():
                    return await self._block()
                continue
            halted = self._log.machine.halted or (journal.RunEnded("completed") if self._log.last is None else None)
            if halted is not None:  # there was nothing to do
                self._session._emit(RunStopped(halted.reason, halted.detail, halted.waiting_for))
                return Done(halted.reason)
            if await self._repair_output():
                return More()
            try:
                await self._end(journal.RunEnded("completed"), unless_posted=True)
            except errors.InboxNotEmpty:
                continue
            return Done("completed")
        return More()

    # --- output

    async def _repair_output(self) -> bool:
        """Check the output in the last reply. Return whether it is sent back; raise `SchemaMismatch` if it cannot be."""
        output, repairs = self.output, self._context.repairs
        if output is None or output.value is not msgspec.UNSET:
            return False
        reply = self.reply or stored_reply(self._session, self._log.last_run)
        assert reply is not None  # the state follows a reply
        try:
            await output.accept_reply(reply)
        except OutputRejected as exc:
            if self._log.spent.repairs >= repairs or is_unrecoverable(reply, exc):
                raise output.mismatch(reply, exc, self._log.spent.repairs) from exc.__cause__
            await self._log.append(journal.SteeringAdded(user(output.repair_prompt(exc)), repair=True))
            self._session._emit(OutputRetried(str(exc)))
            return True
        return False

    async def _end_after_output(self) -> bool:
        """End the run if its output was accepted as the arguments of a call.

        Return False if there is none, or if messages arrived meanwhile. Raise `SchemaMismatch` after too many outputs that
        were rejected.
        """
        output, spent = self.output, self._log.spent
        calls = [call for call in self._log.machine.calls if call.view.name == FINAL_TOOL]
        if output is None or output.mode != "tool" or not calls:
            return False
        if output.error is not None:
            raise output.error
        if not any(call.outcome == "done" for call in calls):
            reply = self.reply or stored_reply(self._session, self._log.last_run)
            if spent.repairs > self._context.repairs and reply is not None:
                raise output.mismatch(reply, output.problem, spent.repairs - 1)
            return False
        if self._log.background:  # the run continues with their results
            await self._log.append(journal.RunEnded("completed"))
            return True
        try:
            await self._end(journal.RunEnded("completed"), unless_posted=True)
        except errors.InboxNotEmpty:
            return False
        return True

    # --- end

    async def _end(self, end: journal.RunEnded, *before: journal.EntryPayload, unless_posted: bool = False) -> None:
        """Record the end of the run, after its background sub-agents have ended."""
        while self._session._sub_agents.tasks:
            await self._session._sub_agents.wait_for_one()
        if self._compactor.task is not None:
            await self._compactor.finish()
        await self._log.append(*before, end, last=True, unless_posted=unless_posted)
        self._ended = True
        if self._log.next.cache.miss is not None:
            self._report_cache_miss(self._log.next.cache.miss)
        self._session._emit(RunStopped(end.reason, end.detail, end.waiting_for))

    # --- requests ---

    async def _ask(self) -> Step:
        exceeded = self._session._budget.exceeded(self._log.spent)
        if exceeded is not None:
            await self._end(journal.RunEnded("waiting", exceeded.limit, "limit"))
            raise exceeded
        target = await self._session._locate()
        await self._compactor.before_request(target)
        self._session._emit(TurnStarted(self._log.spent.turns + 1, self._log.machine.attempt))
        is_own = self._configs[-1].scope == "run"  # the toolbox has no server tools then
        tools = None if is_own else self._context.toolbox.definitions()
        in_scope = partial(issued_by, target=target)
        request = self._log.next_request(tools, self._context.headers, in_scope)
        self._started, self._sent, self._error = False, None, None
        if self.output is not None:
            self.output.value = msgspec.UNSET  # of a reply before messages that arrived meanwhile
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
        except errors.LLMError:
            if self._error is None:  # raised by a hook
                raise
        if self._error is not None:
            return await self._recover(self._error)
        return Done("completed") if self._ended else More()

    async def _exchange(self, request: ChatRequest) -> Reply:
        """Send one request and record its reply or its error."""
        session, client = self._session, self._context.client
        before_send, timeout = partial(self._before_send, request), self._context.timeout
        try:
            async with client._stream(request, before_send, timeout=timeout, written=self._log.written) as stream:
                async for event in stream:
                    session._emit(event)
                    await session._wait_for_readers()
                reply = stream.reply
        except errors.LimitReached as exc:
            await self._end(journal.RunEnded("waiting", exc.limit, "limit"))
            raise
        except errors.LLMError as exc:
            self._error = exc
            healing = self._healing(exc)
            await self._log.append(*self._unsent(request.model), self._failure(exc), *healing)
            self._healed = bool(healing)
            for entry in healing:
                if isinstance(entry, journal.LossRecorded):
                    session._emit(RefusedBlockDropped(entry.loss))
            raise
        await self._record_reply(request, reply)
        return reply

    async def _before_send(self, request: ChatRequest, target: Target, wire: WireRequest) -> None:
        """Record that the request is about to be sent: from here on it may be charged."""
        self._sent = request, target, wire
        if self._log.next.compaction is not None:
            check_summary_scope(request, target)
        self._session._emit(RequestReady(request, target, wire))
        entry = journal.RequestStarted(
            model=f"{target.provider.name}/{target.model}",
            digest=hashlib.sha256(wire.body).hexdigest(),
            encoder_version=ENCODER_VERSION,
            attempt=self._log.machine.attempt,
            account=target.account,
        )
        budget, reserve = self._log.budget, None
        if budget is not None:
            usage = Usage(input_tokens=len(wire.body) // 4, output_tokens=request.max_tokens or _REPLY_TOKENS)
            reserve = usage.total_tokens or 0, self._log.price(usage, target.provider.name, target.model)
        while True:
            try:
                await self._log.append(entry, reserve=reserve)
                break
            except errors.BudgetExceeded as exc:
                reached = budget.limit_error(exc) if budget is not None else None
                if reached is not None:
                    raise reached from None
            await asyncio.sleep(_BUDGET_POLL)
        self._started = True

    def _healing(self, error: errors.LLMError) -> tuple[journal.LossRecorded | journal.Compacted, ...]:
        """Return the loss of the block that an error refuses; at most one for each request, none with `strict`."""
        if self._sent is None or self._context.strict or self._log.next.healed:
            return ()
        request, target, _ = self._sent
        if without := self._compactor.drop_refused(error, request, target):
            return without
        refused = refused_block(error, *self._sent)
        if refused is None:
            return ()
        message, block, loss = refused
        reply = self._log.next.reply_at(self._sent[0].transcript[message])
        return (journal.LossRecorded(loss, reply, block),) if reply else ()

    def _unsent(self, model: str) -> tuple[journal.EntryPayload, ...]:
        """Return the start of a request that was not sent: the reply is from a cache, or the provider is unknown."""
        return () if self._started else (journal.RequestStarted(model=model, attempt=self._log.machine.attempt),)

    async def _record_reply(self, request: ChatRequest, reply: Reply) -> None:
        response, price = reply.response, reply.cost
        message = response.message
        entry = journal.ReplyReceived(
            message=message,
            usage=response.usage,
            losses=response.losses,
            response_id=response.id,
            request_id=reply.request_id or "",
            cost="" if price is None else str(price),
            cache_miss_reason=reply.cache_miss_reason if request.cache_diagnosis else "",
        )
        unsent = self._unsent(request.model)
        entries: tuple[journal.EntryPayload, ...] = (*unsent, entry)
        if (block := summary_block(message)) is not None:
            covered = self._log.head if unsent else self._log.size.request_seq - 1
            entries = (*unsent, inline_entry(reply, block, covered), entry)
        is_open = message.has_tool_calls() or message.paused
        is_checked = self.output is not None  # before the run ends
        last = not (is_open or is_checked or self._log.background or self._compactor.task)
        try:
            if last:
                await self._end(journal.RunEnded("completed"), *entries, unless_posted=True)
        except errors.InboxNotEmpty:
            last = False
        if not last:
            await self._log.append(*entries)
            if self._log.next.cache.miss is not None:
                self._report_cache_miss(self._log.next.cache.miss)
        self.reply = reply
        self.losses += response.losses
        self._retries = RetryState(self._context.retry)

    def _report_cache_miss(self, miss: CacheMiss) -> None:
        self._log.next.cache.miss = None
        self._session._emit(CacheMissed(miss.part, miss.names, miss.tokens, miss.provider_reason))
        is_surprising = miss.part in ("tools", "system", "parameters")
        logger.log(logging.WARNING if is_surprising else logging.INFO, "session %s: %s", self._log.id, miss)

    def _failure(self, error: errors.LLMError) -> journal.RequestFailed:
        usage, paid = self._log.price_error(error)
        return journal.RequestFailed(
            type(error).__name__,
            error.message,
            attempt=self._log.machine.attempt - self._started,
            retryable=error.retryable,
            usage=usage,
            cost=paid,
        )

    async def _recover(self, error: errors.LLMError) -> Step:
        """Decide what follows a failed request: the same request again, another model, or the end of the run."""
        self._error = None
        delay = 0.0 if self._healed else self._retries.after(error)
        self._healed = False
        if delay is not None:
            self._session._emit(Retrying(type(error).__name__, error.message, delay))
            return Wait(delay, type(error).__name__)
        if await self._try_fallback(error):
            return More()
        is_too_long = isinstance(error, errors.ContextTooLong) or error.status == 413
        if is_too_long and await self._compactor.shrink(await self._session._locate()):
            return More()
        if isinstance(error, errors.ContextTooLong):
            await self._end(journal.RunEnded("waiting", "", "context"))
            error.add_note(_FULL)
        raise error

    async def _try_fallback(self, error: errors.LLMError) -> bool:
        """Hand the session over to the next fallback model. Return False if there is none for this error."""
        configured = self._log.next.configured
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
        while self._session._sub_agents.tasks:
            await self._session._sub_agents.wait_for_one()
            if await self._has_decision():
                return More()
        return await self._block()

    async def _block(self) -> Step:
        """Wait for approval: end the run, unless a decision was posted meanwhile."""
        session, end = self._session, journal.RunEnded("waiting", "", "approval")
        if self._compactor.task is not None:
            await self._compactor.finish()
        session._pending_below = await session._sub_agents.pending()
        if not await self._has_decision():
            await self._log.append(end, last=True)
            is_blocked = not await self._has_decision()
            if not is_blocked:  # it was posted before the lease was released, so its sender found the session in use
                try:
                    await self._log.acquire()
                except errors.SessionInUse:  # the process that posted it continues the run
                    is_blocked = True
            if is_blocked:
                self._ended = True
                session._emit(RunStopped(end.reason, end.detail, end.waiting_for))
                return Blocked(session.pending)
        await self.check_cancel(self._log.inbox)
        return More()

    async def _has_decision(self) -> bool:
        return any(isinstance(item.item, Decision | Cancel) for item in await self._log.read_inbox())

    async def check_cancel(self, items: list[PostedItem]) -> None:
        """Cancel the run and raise `RunCancelled` if one of these items says so."""
        cancels = [item for item in items if isinstance(item.item, Cancel)]
        if not cancels or not self._log.has_work:
            return
        await self._compactor.cancel()
        await self._log.append(*cancel_entries(self._log.machine), taking=cancels, last=True)
        self._ended = True
        self._session._emit(RunStopped(CANCELLED))
        raise errors.RunCancelled(f"the run of session {self._log.id!r} was cancelled; continue_() continues it")

    async def _inject_messages(self, *, at_rest: bool = False) -> bool:
        """Add the messages of the inbox to the transcript; a new prompt only at rest. Return whether there were any."""
        await self._log.acquire()  # a completed run has released the lease
        items = await self._log.read_inbox()
        if not items:
            return False
        await self.check_cancel(items)
        messages: list[PostedItem] = []
        prompts: list[PostedItem] = []
        notes: list[journal.SteeringAdded] = []
        for item in items:
            posted = item.item
            if isinstance(posted, UnknownItem):
                raise errors.StoreError(
                    f"session {self._log.id!r}: inbox item {item.number} ({posted.kind}) was posted by a later version "
                    "of tenuto: continue the session with that version"
                )
            if isinstance(posted, Steer | Finished):
                messages.append(item)
            elif isinstance(posted, Prompt) and posted.key not in self._log.keyed_runs:
                prompts.append(item)
            elif at_rest or (isinstance(posted, Decision) and posted.session):
                await forward_or_drop(self._log, item)
        if at_rest and not messages:
            messages = prompts[:1]
            if messages:
                await self.configure(RunSettings(), is_new=True)
                following = tuple(item.item.message for item in messages if isinstance(item.item, Prompt))
                await self._log.append(*self._unwritten_configs(following))
                notes = self._note_entries()
        if not messages:
            return False
        finished = [item.item.session for item in messages if isinstance(item.item, Finished)]
        await self._log.append(*map(_message_entry, messages), *notes, taking=messages, forget=finished)
        for item in messages:
            if isinstance(item.item, Steer | Finished):
                self._session._emit(SteeringInjected(item.item.message))
        return True


def cancel_entries(
    machine: Machine, end: journal.RunEnded | None = None, why: str = "the run was cancelled"
) -> tuple[journal.EntryPayload, ...]:
    """Return the entries that stop the pending work of a session: results of open calls, and the end of the run."""
    results = (interrupted_result(call, why) for call in machine.open_calls)
    is_marked = machine.state in (State.COMPLETED, State.CANCELLING)  # completed: it waits for background sub-agents
    return (*(() if is_marked else (journal.RunEnded(CANCELLING),)), *results, end or journal.RunEnded(CANCELLED))


def entries_before_message(machine: Machine) -> tuple[journal.EntryPayload, ...]:
    """Return the entries that close open calls, so that a new message can be added."""
    results = (interrupted_result(call, "a new user message arrived") for call in machine.open_calls)
    return (*results, *((journal.RunEnded(CANCELLED),) if machine.state is State.CANCELLING else ()))


def _message_entry(item: PostedItem) -> journal.EntryPayload:
    posted = item.item
    if isinstance(posted, Prompt):
        return journal.MessageAdded(posted.message, posted.key)
    if isinstance(posted, Finished):
        return journal.SteeringAdded(posted.message, posted.session, posted.usage, posted.cost)
    assert isinstance(posted, Steer)
    return journal.SteeringAdded(posted.message)
