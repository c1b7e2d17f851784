"""A session: send messages to the agent, approve its tool calls, resume, fork, hand over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from decimal import Decimal
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

import tenuto  # annotations load `tenuto.AsyncAgent` and `tenuto.Report` when they are evaluated
from tenuto.agent.config import roots_text, stored_roots, tool_names
from tenuto.agent.events import AgentEvent, ModelChanged, RunStarted, RunStopped
from tenuto.agent.handover import handover_entry
from tenuto.agent.hooks import RunInfo, run_around
from tenuto.agent.limits import FamilyBudget, limit_reached
from tenuto.agent.machine import CANCELLED, Phase, State
from tenuto.agent.run_context import Listener, PendingCall, RunContext
from tenuto.agent.run_stream import AsyncRun, EventQueue
from tenuto.agent.runner import Done, Runner, Step, cancel_entries, close_calls_for_new_input
from tenuto.agent.session_log import SessionLog
from tenuto.agent.sub_agents import AgentTool, SubAgents
from tenuto.client.parameters import MessageInput
from tenuto.client.reply import Reply
from tenuto.client.request import check_newest, to_messages
from tenuto.core.events import StreamEvent
from tenuto.core.inbox import Cancel, Decision, InboxItem, PostedItem, Prompt, Steer
from tenuto.core.journal import (
    Compacted,
    Configured,
    Entry,
    EntryPayload,
    MessageAdded,
    ReplyReceived,
    TranscriptFold,
    status_after,
)
from tenuto.core.loss import Loss
from tenuto.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCallView,
    ToolResults,
    Usage,
    display_text,
)
from tenuto.core.response import ChatResponse, Choice
from tenuto.core.transcript import Transcript
from tenuto.errors import (
    MissingTool,
    RunCancelled,
    SessionInUse,
    SessionNotFound,
    StoreError,
    TenutoError,
)
from tenuto.tools.toolbox import Toolbox

logger = logging.getLogger("tenuto")
T = TypeVar("T")


def fork_point(entries: Iterable[Entry], count: int) -> int:
    """Return the first entry after which the conversation is its first `count` messages and no call is open.

    Raise `ValueError` with the possible values if there is no such entry.
    """
    fold, least = TranscriptFold(), 0
    points: dict[int, int] = {}
    for entry in entries:
        fold.apply(entry)
        if isinstance(entry.payload, Compacted):  # the conversation starts with other messages now
            points, least = {}, len(fold)
        if not fold.open_calls():
            points.setdefault(len(fold), entry.seq)
    if 0 < count <= len(fold) and count in points:
        return points[count]
    if not 0 < count <= len(fold):
        raise ValueError(f"cannot fork after message {count}: choose 1 to {len(fold)}")
    if count < least:
        raise ValueError(f"cannot fork after message {count}: it was compacted since")
    near = sorted((point for point in points if point > 0), key=lambda point: abs(point - count))[:2]
    choice = f"; choose {' or '.join(map(str, sorted(near)))}" if near else ""
    raise ValueError(f"cannot fork after message {count}: a tool call would lose its result{choice}")


class _ActiveRun:
    """The run that is active in a session, and its task."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # coroutines run in tasks
        self.task: asyncio.Task[Any] = task
        self.loop = asyncio.get_running_loop()
        self.over = asyncio.Event()
        self._cancels_before = task.cancelling()
        self._cancelled = False
        self.cancel_requested = False

    def cancel(self) -> None:
        """Cancel the run; without effect if it is over or cancelled already."""
        if not self.over.is_set() and not self._cancelled:
            self._cancelled = True
            self.task.cancel()

    @property
    def ending(self) -> bool:
        """Whether it was cancelled and has not ended yet."""
        return self.cancel_requested or self.task.cancelling() > self._cancels_before

    def end(self) -> bool:
        """Mark the run as over. Return whether `cancel` ended it, and nothing else cancelled its task."""
        if self.over.is_set():
            return False
        self.over.set()
        return self._cancelled and self.task.uncancel() <= self._cancels_before


class AsyncSession:
    """A stored conversation. `AsyncAgent.session()` opens or creates one, `AsyncAgent.resume()` finds an existing one.

    Nothing is written before the first message. A run holds the session's lease, so no other process can write meanwhile,
    and releases it when it ends. `async with session:` holds the lease from the first run until the block ends. One run at
    a time. `steer`, `approve`, `deny` and `cancel` work from any process: they go through the session's inbox.
    """

    def __init__(
        self,
        agent: tenuto.AsyncAgent,
        log: SessionLog,
        context: RunContext,
        configured: Configured,
        parent: AsyncSession | None = None,
    ) -> None:
        self._agent = agent
        self._log = log
        self._context = context
        self._configured = configured
        self._parent = parent
        self._listeners: list[Listener] = []
        self._readers: list[EventQueue] = []
        self._active: _ActiveRun | None = None
        self._posted = asyncio.Event()
        """Set when the inbox has new items during a run."""
        self._early: list[InboxItem] = []
        """Items for a session that does not exist in the store yet."""
        self._stop_record: asyncio.Future[None] | None = None
        self._releasing: asyncio.Future[None] | None = None
        self._pending_below: tuple[PendingCall, ...] = ()
        self._set_context(context)
        self.reply: Reply | None = None
        """The last reply that this process received; None before."""

    def _set_context(self, context: RunContext) -> None:
        """Use other tools, limits or an other approver from the next run on."""
        parent = self._parent
        self._context = context
        self._budget: FamilyBudget = FamilyBudget(
            self._log.id,
            context.limits,
            parent._budget if parent is not None else None,
            shared=any(isinstance(context.toolbox.get(name), AgentTool) for name in context.toolbox.names()),
        )
        self._log.budget = self._budget
        self._sub_agents = SubAgents(self)

    def _use_tools(self, toolbox: Toolbox, configured: Configured) -> None:
        """Use the tools of sources that were opened after the session."""
        self._configured = msgspec.structs.replace(configured, model=self._configured.model)
        self._set_context(msgspec.structs.replace(self._context, toolbox=toolbox))

    # --- properties ---

    @property
    def id(self) -> str:
        """The session's id."""
        return self._log.id

    @property
    def is_new(self) -> bool:
        """Whether the session has no entries yet."""
        return self._log.head == 0

    @property
    def transcript(self) -> Transcript:
        """The conversation without the system prompt."""
        return self._log.transcript()

    @property
    def usage(self) -> Usage:
        """The tokens used so far, failed attempts and sub-agents included."""
        return self._log.usage

    @property
    def cost(self) -> Decimal | None:
        """The cost in USD so far, failed attempts and sub-agents included; None if the price of a reply is unknown."""
        return self._log.cost

    @property
    def text(self) -> str:
        """The text of the last reply, refusals included; empty before the first reply."""
        last = self._log.last
        return "".join(filter(None, map(display_text, last.blocks))) if last is not None else ""

    @property
    def last(self) -> AssistantMessage | None:
        """The model's last message."""
        return self._log.last

    @property
    def model(self) -> str:
        """The model of the next request."""
        return (self._log.configured or self._configured).model

    @property
    def status(self) -> str:
        """`new`, `running` (here), `waiting`, `interrupted`, `completed`, `cancelled` or `failed`.

        `interrupted`: work is pending and its run did not end. `waiting_for` has the reason of `waiting`.
        """
        if self._active is not None:
            return "running"
        machine = self._log.machine
        if machine.halted is not None:
            return status_after(machine.halted)[0]
        if machine.state is State.COMPLETED:
            return "interrupted" if self._log.background else "completed" if self._log.last is not None else "new"
        return "interrupted"

    @property
    def waiting_for(self) -> str:
        """`approval`, `input`, `limit` or `context` if the status is `waiting`; else empty."""
        halted = self._log.machine.halted
        return status_after(halted)[1] if halted is not None and self._active is None else ""

    @property
    def has_pending_work(self) -> bool:
        """Whether `continue_()` has work to do that the journal shows; the inbox may have more."""
        return self._log.has_work

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls that need approval: `approve` or `deny` them. `send` denies them instead."""
        own = tuple(
            PendingCall(call.view, call.ordinal, reply_seq=self._log.reply_seq)
            for call in self._log.machine.calls
            if call.phase is Phase.WAITING
        )
        return (*own, *self._pending_below)

    def on_event(self, listener: Listener) -> Callable[[], None]:
        """Call a function for each event from now on. Return a function that ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    # --- runs ---

    async def send(self, message: MessageInput, *, key: str = "") -> Reply:
        """Send a message, run tools until the model is done, and return its last reply.

        `key` makes the call idempotent: a message with the same key is sent once, also after a crash. A second call
        finishes the pending work and returns the reply of that run. Raise `ValueError` for the same key with another message.

        If calls need approval, the reply that made them is returned: see `pending`. Calls that wait for approval when a
        new message is sent are answered as not run. Raise an `LLMError` when retries do not help, `LimitReached`,
        `RunCancelled`, `SessionInUse` or `LeaseLost`; the session is saved.
        """
        reply = await self._run(_user_messages(message), key)
        assert reply is not None  # a message was added, so a request was sent
        return reply

    async def continue_(self) -> Reply | None:
        """Do the pending work, and take the messages of the inbox. Return the last reply; None if there was no work."""
        return await self._run(())

    def stream(self, message: MessageInput | None = None, *, key: str = "") -> AsyncRun:
        """Send a message, or continue without one, as a stream of events: use it in `async with` and iterate."""
        return AsyncRun(self, () if message is None else _user_messages(message), key)

    async def step(self, message: MessageInput | None = None, *, key: str = "") -> Step:
        """Do one step of a run: one request, or the tool calls of one turn.

        Return `More`, `Done`, `Wait` (call again after the time) or `Blocked` (approval is needed). The lease is released
        after the step, and no work outlives it: it waits for the background sub-agents that it starts. Raise the same
        errors as `send`.
        """
        messages = () if message is None else _user_messages(message)
        async with self._working():
            if self._known_run(messages, key):
                messages = ()
            if not messages and not await self._has_work():
                halted = self._log.machine.halted
                return Done(halted.reason if halted is not None else "completed")
            runner = await self._make_runner(messages, self._log.machine.failures)
            try:
                return await self._guard(runner, partial(self._step, runner, messages, key))
            finally:
                self.reply = runner.reply or self.reply

    async def enqueue(self, message: MessageInput, *, key: str = "") -> None:
        """Post a message that starts a run at rest: `continue_()` of any process runs it. It is stored when this returns.

        `key` is as for `send`: a message with a key that the session has is not run again.
        """
        messages = _user_messages(message)
        if key and len(messages) > 1:
            raise ValueError(f"{len(messages)} messages for the key {key!r}: enqueue one message with each key")
        for one in messages:
            await self._post(Prompt(one, key), id=f"prompt-{key}" if key else "")

    async def steer(self, message: MessageInput) -> None:
        """Post a message for the active run: the model receives it at the next turn boundary.

        It works from any process and is stored when this returns. Without an active run, the next one takes it.
        """
        for one in _user_messages(message):
            await self._post(Steer(one))

    async def approve(self, *calls: PendingCall | ToolCallView | str) -> Reply | None:
        """Approve calls that wait for approval (all of them, if none is named), and continue the run.

        If another process holds the session, that process runs the calls and this returns None.
        """
        return await self._decide(calls, allowed=True, reason="")

    async def deny(self, *calls: PendingCall | ToolCallView | str, reason: str = "") -> Reply | None:
        """Deny calls that wait for approval, and continue the run. The model reads the reason."""
        return await self._decide(calls, allowed=False, reason=reason)

    async def cancel(self) -> None:
        """Cancel the run, in this process or in another one: its `send` raises `RunCancelled`.

        If the process of the run is dead, the session becomes `cancelled`. Without pending work this does nothing.
        """
        if self.cancel_local() or self._log.new:
            return
        await self._post(Cancel())
        with suppress(SessionInUse):  # the holder takes it from the inbox
            async with self._working():
                await self._take_cancel(await self._log.read_inbox())

    def cancel_local(self) -> bool:
        """Cancel the run of this object, from any thread. Return False if it has none."""
        active = self._active
        if active is None:
            return False
        active.cancel_requested = True
        with suppress(RuntimeError):  # the loop is closed
            active.loop.call_soon_threadsafe(active.cancel)
        return True

    # --- other operations ---

    async def fork(self, at: int | None = None) -> AsyncSession:
        """Create a new session with the first `at` messages (None: all). This one is not changed.

        Raise `ValueError` if a call would lose its result.
        """
        if self.is_new:
            raise ValueError("the session has no messages yet: nothing to fork")
        if at is None and self._log.machine.open_calls:
            raise ValueError("calls have no result yet: continue first, or fork at an earlier message")
        seq = None if at is None else fork_point(await self.entries(), at)
        return await self._agent._fork(self.id, seq)

    async def handover(self, model: str) -> tuple[Loss, ...]:
        """Switch to another model; return the content that it does not receive.

        The journal keeps everything, so a switch back restores it. Raise `UnknownProvider`, or `UnsupportedModel` for a
        model that agents refuse.
        """
        model = self._context.client._full_name(model)
        self._agent._check_model(model, allow_unverified=self._effective_config().allow_unverified)
        if self.is_new and self._active is None:
            self._configured = msgspec.structs.replace(self._configured, model=model)
            return ()
        async with self._working():
            if model == self.model:  # another process may have switched meanwhile
                return ()
            entry = handover_entry(model, self._log, self._context.client._target, self._context.toolbox.definitions())
            await self._log.append(*self._config_change(), entry)
            self._emit(ModelChanged(entry.model, entry.previous_model, entry.losses))
            return entry.losses

    async def audit(self, model: str | None = None) -> tenuto.Report:
        """Report what a provider would refuse if the session were sent to its model (or another) now.

        Nothing is sent or written. Each request of the journal is built again and compared with the bytes that were sent.
        Raise `UnknownProvider`, `TranscriptError` for content that cannot be written, `ValueError` for a new session.
        """
        from tenuto.audit import audit

        if self.is_new:
            raise ValueError("the session has no messages yet: nothing to audit")
        client = self._context.client
        target = client._target(client._full_name(model)) if model is not None else None
        return audit(await self.entries(), target, tools=self._context.toolbox.definitions(), find=client._target)

    async def entries(self) -> list[Entry]:
        """Read the journal; a new session has no entries."""
        return await self._log.entries()

    async def close(self) -> None:
        """Cancel the run, if there is one, and release the lease. The session can be used again."""
        self._log.keep_lease = False
        active = self._active
        if active is not None and active.task is not asyncio.current_task():
            active.cancel()
            await active.over.wait()
        if self._releasing is not None:
            await asyncio.wait({self._releasing})
        await self._release()

    async def __aenter__(self) -> Self:
        self._log.keep_lease = True
        await self.load()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.status}>"

    async def load(self) -> None:
        """Read the entries that other processes have written. Every run does this first."""
        if self._active is None:
            with suppress(SessionNotFound):
                await self._log.read()

    # --- configuration ---

    async def _take_over(self) -> None:
        """Acquire the lease from the process that holds it, which stops at its next write; then release it."""
        await self._log.acquire(takeover=True)
        await self._log.release()

    async def _configure(self, **changes: str) -> None:
        """Write a changed configuration: `parameters`, for example."""
        async with self._working():
            await self._log.append(msgspec.structs.replace(self._effective_config(), **changes))

    async def _refresh_pending(self) -> None:
        """Find the calls of sub-agents that need approval."""
        self._pending_below = await self._sub_agents.pending()

    def _effective_config(self) -> Configured:
        """Return the configuration of the next request.

        Instructions and tools are those of this agent (instructions only if it has any); everything else is the session's.
        """
        stored = self._log.configured
        if stored is None:
            return self._configured
        system = stored.system if self._context.system is None else self._context.system
        roots = self._context.toolbox.roots()
        if self._context.keep_roots:
            roots |= {name: root for name, root in stored_roots(stored).items() if name in roots}
        return msgspec.structs.replace(stored, system=system, tools=self._configured.tools, roots=roots_text(roots))

    def _config_change(self) -> list[EntryPayload]:
        """Return the configuration of the next request if it differs from the stored one."""
        config = self._effective_config()
        return [] if config == self._log.configured else [config]

    def _check_tools(self) -> None:
        """Raise `MissingTool` if an open call needs a tool that was offered before and is gone."""
        stored = self._log.configured
        gone = {*tool_names(stored)} - {*self._context.toolbox.names()} if stored is not None else set()
        for call in self._log.machine.open_calls:
            if call.view.name in gone and call.phase is not Phase.DENIED:
                raise MissingTool(call.view.name)

    # --- the run ---

    async def _run(self, messages: tuple[Message, ...], key: str = "") -> Reply | None:
        """Add messages, if any, and do the pending work. Return the last reply of this run."""
        async with self._working():
            return await self._run_held(messages, key)

    async def _run_held(self, messages: tuple[Message, ...], key: str = "") -> Reply | None:
        known = self._known_run(messages, key)
        if (known or not messages) and not await self._has_work():
            return self._keyed_reply(key) if known else None
        info = RunInfo(
            session_id=self.id,
            agent=self._configured.agent,
            model=self.model,
            resumed=self.has_pending_work and (known or not messages),
            parent=self._parent.id if self._parent is not None else "",
        )
        if known:
            messages = ()
        runner = await self._make_runner(messages)
        work = partial(run_around, self._context.hooks, "around_run", info, partial(self._work, runner, messages, key))
        self._emit(RunStarted(info.model, info.resumed))
        try:
            await self._guard(runner, work)
        finally:
            self.reply = runner.reply or self.reply
        await self._refresh_pending()
        return self._keyed_reply(key) if known else runner.reply

    async def _has_work(self) -> bool:
        return bool(self.has_pending_work or self._early or await self._log.read_inbox())

    async def _make_runner(self, messages: tuple[Message, ...], failures: int = 0) -> Runner:
        """Check that the work can be done, and return a runner for it."""
        if not messages:
            self._check_tools()
        self._agent._check_model(self.model, allow_unverified=self._effective_config().allow_unverified)
        if self.is_new:
            await self._context.client.check_key(self.model, self._context.headers)
        self._pending_below = ()
        toolbox = _at_stored_roots(self._context.toolbox, stored_roots(self._effective_config()))
        return Runner(self, msgspec.structs.replace(self._context, toolbox=toolbox), failures=failures)

    async def _work(self, runner: Runner, messages: tuple[Message, ...], key: str) -> None:
        await self._begin(runner, messages, key)
        await runner.run()

    async def _step(self, runner: Runner, messages: tuple[Message, ...], key: str) -> Step:
        await self._begin(runner, messages, key)
        step = await runner.step()
        while self._sub_agents.has_tasks:
            await self._sub_agents.wait_for_one()
        return step

    async def _begin(self, runner: Runner, messages: tuple[Message, ...], key: str) -> None:
        """Write the entries before the first step."""
        items = await self._log.read_inbox()
        entries = self._config_change()
        if not messages:
            await runner.check_cancel(items)
            if entries:
                await self._log.append(*entries)
        else:
            entries += [*close_calls_for_new_input(self._log.machine), *(MessageAdded(one, key) for one in messages)]
            # A cancel in the inbox was meant for the work before this message.
            await self._log.append(*entries, taking=[item for item in items if isinstance(item.item, Cancel)])
        early, self._early = self._early, []
        for item in early:
            await self._log.post(item)

    def _known_run(self, messages: tuple[Message, ...], key: str) -> bool:
        """Return whether messages with this key were added before. Raise `ValueError` if those were others."""
        run = self._log.keyed_runs.get(key) if key else None
        if run is None:
            return False
        if run.messages != messages:
            raise ValueError(f"session {self.id!r} has another message with the key {key!r}: use a new key")
        return True

    def _keyed_reply(self, key: str) -> Reply | None:
        """Return the reply of an earlier run, as the journal has it."""
        run = self._log.keyed_runs[key]
        return _stored_reply(run.reply, run.replied_at, self.transcript) if run.reply is not None else None

    async def _guard(self, runner: Runner, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work of a run or a step. Record a cancellation, a timeout or an error that ends it."""
        seconds = self._context.limits.seconds
        watcher = self._agent._inbox_watcher
        watcher.add(self)
        try:
            async with asyncio.timeout(seconds) as limit:
                return await work()
        except TimeoutError:
            if not limit.expired():
                raise
            await self._record_stop("limit", "seconds", f"the limit of {seconds:g} s is reached")
            raise limit_reached("seconds", f"the run took more than {seconds:g} s") from None
        except asyncio.CancelledError:
            await self._record_stop(CANCELLED, "", "the run was cancelled")
            raise
        except StoreError:
            raise
        except Exception as exc:
            await runner.fail(exc)
            raise
        finally:
            watcher.remove(self)
            await self._sub_agents.cancel()

    async def _record_stop(self, reason: str, detail: str, why: str) -> None:
        """Record that the run was ended from outside. It is recorded even if the caller does not wait."""
        self._stop_record = asyncio.ensure_future(self._write_stop(reason, detail, why))
        await asyncio.shield(self._stop_record)

    async def _write_stop(self, reason: str, detail: str, why: str) -> None:
        try:
            await self._log.settle()
            await self._log.flush()
            machine = self._log.machine
            at_rest = machine.state is State.COMPLETED
            if not self._log.held or (at_rest and (machine.halted is not None or self._log.last is None)):
                return  # the run has ended, or it has not started
            cancels = [item for item in await self._log.read_inbox() if isinstance(item.item, Cancel)]
            await self._log.append(*cancel_entries(machine, reason, detail, why), taking=cancels, last=True)
        except StoreError as exc:  # a later run continues from the entries that are there
            logger.warning("session %s was ended, and that could not be recorded: %s", self.id, exc)
            return
        halted = self._log.machine.halted
        assert halted is not None  # it was just written
        self._emit(RunStopped(halted.reason, halted.detail, halted.waiting_for))

    async def _take_cancel(self, items: list[PostedItem]) -> None:
        """Cancel the pending work of a session without a run."""
        cancels = [item for item in items if isinstance(item.item, Cancel)]
        if not cancels:
            return
        entries: tuple[EntryPayload, ...] = ()
        if self.has_pending_work:
            entries = cancel_entries(self._log.machine, CANCELLED, "", "the run was cancelled")
        await self._log.append(*entries, taking=cancels, last=True)

    async def _add_message(self, prompt: str) -> None:
        """Write the first message of a background sub-agent; `continue_()` runs it."""
        messages = _user_messages(prompt)
        async with self._working():
            await self._begin(await self._make_runner(messages), messages, "")

    # --- inbox ---

    async def _post(self, item: InboxItem, id: str = "") -> None:
        try:
            await self._log.post(item, id=id)
        except SessionNotFound:
            if self._log.head:
                raise
            self._early.append(item)
        self._on_posted([])

    async def _wait_for_post(self, tasks: Iterable[asyncio.Task[Any]]) -> bool:
        """Wait until one of the tasks ends or an item is posted. Return whether an item was posted."""
        self._posted.clear()
        listen = asyncio.create_task(self._posted.wait())
        try:
            await asyncio.wait({*tasks, listen}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            listen.cancel()
        return self._posted.is_set()

    def _on_posted(self, items: list[PostedItem]) -> None:
        """Tell the active run that its inbox has items."""
        self._posted.set()
        if any(isinstance(item.item, Cancel) for item in items):
            self.cancel_local()

    async def _decide(
        self, calls: tuple[PendingCall | ToolCallView | str, ...], *, allowed: bool, reason: str
    ) -> Reply | None:
        """Post decisions; then continue the run, unless another process or another task holds the session."""
        await self.load()
        await self._refresh_pending()
        for one in self._choose(calls):
            await self._post(
                Decision(
                    one.call.id,
                    one.ordinal,
                    allowed=allowed,
                    reason=reason,
                    reply_seq=one.reply_seq,
                    session=one.session,
                )
            )
        if self._active is not None and not self._active.ending:
            return None
        try:
            return await self._run(())
        except SessionInUse:
            return None

    def _choose(self, calls: tuple[PendingCall | ToolCallView | str, ...]) -> list[PendingCall]:
        waiting = list(self.pending)
        if not calls:
            return waiting
        chosen: list[PendingCall] = []
        for call in calls:
            id = call if isinstance(call, str) else call.id if isinstance(call, ToolCallView) else call.call.id
            matches = [one for one in waiting if _is_same_call(one, call, id)]
            if not matches:
                raise ValueError(f"no call {id!r} waits for approval{_call_list(waiting)}")
            chosen += [one for one in matches if one not in chosen]
        return chosen

    # --- events ---

    def _emit(self, event: StreamEvent | AgentEvent) -> None:
        """Pass an event to readers and listeners. Exceptions of listeners are logged and ignored."""
        if not self._readers and not self._listeners:
            return
        event = msgspec.structs.replace(event, session_id=self.id)
        for reader in self._readers:
            if not reader.closed:
                reader.put(event)
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                logger.exception("a listener of session %s failed", self.id)

    def _is_behind(self) -> bool:
        """Return whether a reader of this session, or of one above it, has too many unread events."""
        above = self._parent
        return any(reader.is_full() for reader in self._readers) or (above is not None and above._is_behind())

    async def _wait_for_readers(self) -> None:
        """Wait until the readers of this session, and of those above it, have read enough events."""
        for reader in tuple(self._readers):
            await reader.wait_for_room()
        if self._parent is not None:
            await self._parent._wait_for_readers()

    # --- lease ---

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[None]:
        """Allow one run at a time, and hold the lease during it. Raise `RunCancelled` if `cancel` ended it."""
        while self._active is not None:
            if not self._active.ending:
                raise TenutoError("a run of this session is active: wait for it, steer() it or cancel() it")
            await self._active.over.wait()
        self._active = active = _ActiveRun()
        try:
            if self._releasing is not None:
                await asyncio.wait({self._releasing})
            await self._agent._open_sources()
            await self._log.acquire()
            yield
        except asyncio.CancelledError:
            if active.end():
                raise RunCancelled(f"the run of session {self.id!r} was cancelled; continue_() continues it") from None
            raise
        finally:
            active.end()
            self._active = None
            self._readers = [reader for reader in self._readers if not reader.closed]
            if not self._log.keep_lease:
                self._releasing = asyncio.ensure_future(self._release())
                if self._stop_record is None or self._stop_record.done():  # a caller cancelled twice does not wait
                    await asyncio.shield(self._releasing)

    async def _release(self) -> None:
        """Release the lease, after the last entry of a cancelled run was written."""
        if self._stop_record is not None:
            await asyncio.wait({self._stop_record})
        try:
            await self._log.release()
        except StoreError as exc:  # the lease expires
            logger.warning("session %s: the lease could not be released: %s", self.id, exc)


def _at_stored_roots(toolbox: Toolbox, roots: Mapping[str, str]) -> Toolbox:
    """Return the tools for the directories of a session. Raise `TenutoError` if one does not exist any more."""
    try:
        return toolbox.at_roots(roots)
    except NotADirectoryError as exc:
        raise TenutoError(
            f"a working directory of the session is gone: {exc}; resume(..., root=...) sets another"
        ) from exc


def _user_messages(content: MessageInput) -> tuple[Message, ...]:
    """Return the messages of a user. Raise `ValueError` without any, `TypeError` for messages of another role."""
    messages = to_messages(content)
    if not messages:
        raise ValueError("no message: give a text or a message; continue_() continues without one")
    check_newest(messages)
    for message in messages:
        if isinstance(message, AssistantMessage | ToolResults | SystemMessage):
            raise TypeError(f"expected a user message, got {type(message).__name__}")
    return messages


def _stored_reply(received: ReplyReceived, replied_at: float, transcript: Transcript) -> Reply:
    """Build a reply from its journal entry."""
    messages = transcript.messages
    end = next((index for index, message in enumerate(messages, 1) if message is received.message), len(messages))
    origin = received.message.origin
    response = ChatResponse(
        id=received.response_id,
        model=origin.model if origin is not None else "",
        provider=origin.provider if origin is not None else "",
        choices=(Choice(received.message),),
        usage=received.usage,
        losses=received.losses,
    )
    return Reply(
        response=response,
        transcript=Transcript(messages[:end]),
        asked_at=replied_at,
        request_id=received.request_id or None,
    )


def _is_same_call(pending: PendingCall, call: PendingCall | ToolCallView | str, id: str) -> bool:
    if isinstance(call, PendingCall):
        return (pending.call.id, pending.ordinal, pending.session) == (id, call.ordinal, call.session)
    return pending.call.id == id


def _call_list(waiting: list[PendingCall]) -> str:
    if not waiting:
        return "; no call does"
    return f"; these do: {', '.join(f'{one.call.name} ({one.call.id})' for one in waiting)}"
