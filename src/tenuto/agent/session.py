"""A session: send messages to the agent, approve its tool calls, resume, fork, hand over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Generic, Self, TypeVar, Unpack, overload

import msgspec

import tenuto  # annotations load `tenuto.AsyncAgent` and `tenuto.Report` when they are evaluated
from tenuto.agent.compaction import DEFAULT, Compactor, plan
from tenuto.agent.config import RunContext, admit, json_text
from tenuto.agent.events import AgentEvent, Listener, ModelChanged, RunStarted, RunStopped
from tenuto.agent.handover import handover_entry
from tenuto.agent.hooks import run_around
from tenuto.agent.limits import FamilyBudget, Limits, limit_reached
from tenuto.agent.machine import CANCELLED, PendingCall, Phase, State
from tenuto.agent.result import Out, Result, make_result
from tenuto.agent.run_settings import OutputForm, RunParameters, RunSettings, missing_tools, read_settings
from tenuto.agent.run_stream import AsyncRun, EventQueue
from tenuto.agent.runner import Done, Runner, Step, cancel_entries
from tenuto.agent.session_log import SessionLog
from tenuto.agent.session_properties import SessionProperties
from tenuto.agent.sub_agents import AgentTool, SubAgents
from tenuto.client.parameters import MessageInput, ModelParameters, expand_parameters
from tenuto.client.reply import Reply
from tenuto.client.request import check_newest, to_messages
from tenuto.closable import AsyncClosable
from tenuto.core import jsonio
from tenuto.core.events import StreamEvent
from tenuto.core.inbox import Cancel, Decision, InboxItem, PostedItem, Prompt, Steer
from tenuto.core.journal import (
    Compacted,
    Configured,
    Entry,
    EntryPayload,
    MessageAdded,
    MetadataChanged,
    RunEnded,
    TranscriptFold,
)
from tenuto.core.loss import Loss
from tenuto.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCallView,
    ToolResults,
    UserMessage,
)
from tenuto.core.provider import Target
from tenuto.core.request import Effort
from tenuto.errors import MissingTool, RunCancelled, SessionInUse, SessionNotFound, StoreError, TenutoError
from tenuto.tools.execution import Deps
from tenuto.tools.toolbox import Toolbox

logger = logging.getLogger("tenuto")
T = TypeVar("T")
_NO_SETTINGS = RunSettings()


def fork_point(entries: Iterable[Entry], count: int | None) -> int:
    """Return the first entry after which the conversation is its first `count` messages and no call is open.

    Without a count, return the last entry. Raise `ValueError` with the possible values if there is no such entry.
    """
    fold = TranscriptFold()
    points: dict[int, int] = {}
    last = 0
    for entry in entries:
        last = entry.seq
        fold.apply(entry)
        if not fold.open_calls():
            points.setdefault(len(fold), last)
    if count is None and not fold.open_calls():
        return last
    count = len(fold) if count is None else count
    if not 0 < count <= len(fold):
        raise ValueError(f"cannot fork after message {count}: choose 1 to {len(fold)}")
    if count in points:
        return points[count]
    near = sorted((point for point in points if point > 0), key=lambda point: abs(point - count))[:2]
    choice = f"; choose {' or '.join(map(str, sorted(near)))}" if near else ""
    raise ValueError(f"cannot fork after message {count}: a tool call would lose its result{choice}")


class _ActiveRun:
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


class AsyncSession(SessionProperties, AsyncClosable, Generic[Deps, Out]):
    """A stored conversation. `AsyncAgent.session()` opens or creates one, `AsyncAgent.resume()` finds an existing one.

    Nothing is written before the first message. A run holds the session's lease, so no other process can write meanwhile,
    and releases it when it ends. `async with session:` holds the lease from the first run until the block ends. One run at
    a time. `steer`, `approve`, `deny` and `cancel` work from any process: they go through the session's inbox.
    """

    def __init__(
        self,
        agent: tenuto.AsyncAgent[Any, Any],
        log: SessionLog,
        context: RunContext,
        configured: Configured,
        listeners: Iterable[Listener] = (),
        parent: AsyncSession | None = None,
        deps: Deps | None = None,
    ) -> None:
        self._async = self
        self._deps = deps
        """The last dependencies that were passed."""
        self._run_settings = _NO_SETTINGS
        """The settings of the last run."""
        self._agent = agent
        self._log = log
        self._configured = configured
        self._parent = parent
        self._listeners = [*listeners]
        self._readers: list[EventQueue] = []
        self._active: _ActiveRun | None = None
        self._posted = asyncio.Event()
        """Set when the inbox has new items during a run."""
        self._early: list[InboxItem] = []
        """Items for a session that does not exist in the store yet."""
        self._cancel_end: RunEnded | None = RunEnded(CANCELLED)
        """The end of the run if its task is cancelled; None: no end, another process continues the run."""
        self._is_interrupted: Callable[[], bool] = parent._is_interrupted if parent else lambda: False
        """Tells whether a cancellation of the task only stops its process. A job of an engine sets it."""
        self._stop_record: asyncio.Future[None] | None = None
        self._releasing: asyncio.Future[None] | None = None
        self._pending_below: tuple[PendingCall, ...] = ()
        self._budget: FamilyBudget
        self._budget_source: tuple[Limits, Toolbox, FamilyBudget | None] | None = None
        self._set_context(context)
        self._own_settings: tuple[RunContext, Configured] | None = None
        """The settings of the session while an override of its agent is in effect."""
        self._own_model = ""
        """The model of the session while an override uses another one."""
        self._admitted: tuple[str, bool, bool] | None = None
        """The last model that was checked, whether an unverified one is allowed, and whether there are tools."""
        self._use_override()
        self._reply: Reply | None = None
        self._new_metadata: dict[str, str] | None = None
        """Metadata that are not stored yet."""

    def _set_context(self, context: RunContext) -> None:
        """Use other tools, limits or another approver from the next run on."""
        self._context = context
        self._set_limits(context)
        self._sub_agents = SubAgents(self)

    def _set_limits(self, context: RunContext) -> None:
        parent = self._parent._budget if self._parent is not None else None
        source = (context.limits, context.toolbox, parent)
        if source == self._budget_source:
            return
        self._budget_source = source
        tools = map(context.toolbox.get, context.toolbox.names())
        shared = any(isinstance(tool, AgentTool) for tool in tools)
        self._budget = FamilyBudget(self._log.id, context.limits, parent, shared=shared)
        self._log.budget = self._budget if self._budget.shared else None

    def _use_tools(self, toolbox: Toolbox, configured: Configured) -> None:
        """Use the tools of sources that were opened after the session."""
        context, own = self._own_settings or (self._context, self._configured)
        context = msgspec.structs.replace(context, toolbox=toolbox)
        own = msgspec.structs.replace(configured, model=own.model)
        if self._own_settings:
            self._own_settings = context, own  # the run starts with those of the override
        else:
            self._configured = own
            self._set_context(context)

    def _use_override(self) -> str:
        """Use the settings of an override of the agent, or return to its own. Return the model to switch to, if any.

        The settings of a sub-agent are those of its own agent, from its start.
        """
        agent = self._agent
        if self._parent is not None or not (agent._overrides or self._own_settings):
            return ""
        model = agent._overrides[-1].model if agent._overrides else ""
        previous, self._own_model = self._own_model, (self._own_model or self.model) if model else ""
        system = self._effective_config().system  # of a stored session, also if the agent has none
        own = self._own_settings or (msgspec.structs.replace(self._context, system=system), self._configured)
        context, self._configured = agent._settings(*own)
        self._own_settings = own if agent._overrides else None
        if context != self._context:
            self._set_context(context)
        return model or previous

    # --- runs ---

    @overload
    async def send(
        self, message: MessageInput, *, output: None = ..., **options: Unpack[RunParameters[Deps]]
    ) -> Result[Out, AsyncSession[Deps, Out]]: ...
    @overload
    async def send(
        self, message: MessageInput, *, output: type[T], **options: Unpack[RunParameters[Deps]]
    ) -> Result[T, AsyncSession[Deps, Out]]: ...
    @overload
    async def send(
        self, message: MessageInput, *, output: OutputForm, **options: Unpack[RunParameters[Deps]]
    ) -> Result[Any, AsyncSession[Deps, Out]]: ...
    @expand_parameters(ModelParameters, RunParameters)
    async def send(
        self,
        message: MessageInput,
        *,
        output: Any = None,
        **options: Any,
    ) -> Result[Any, AsyncSession[Deps, Out]]:
        """Send a message, run tools until the model is done, and return the result.

        `output`: the output type of this run. The other options apply to this run, too; the journal stores them.

        `key` makes the call idempotent: a message with the same key is sent once, also after a crash. A second call
        finishes the pending work and returns the reply of that run. Raise `ValueError` for the same key with another message.

        If calls need approval, the result has no output: see `pending`. Calls that wait for approval when a new message is
        sent are answered as not run. Raise an `LLMError` when retries do not help, `SchemaMismatch` for an output that no
        repair could correct, `LimitReached`, `RunCancelled`, `SessionInUse` or `LeaseLost`; the session is saved.
        """
        result = await self._run(_user_messages(message), read_settings(options, output=output))
        assert result is not None  # a message was added, so a request was sent
        return result

    async def continue_(self, *, deps: Deps | None = None) -> Result[Out, AsyncSession[Deps, Out]] | None:
        """Do the pending work, and take the messages of the inbox. Return the result; None if there was no work.

        It continues with the settings of the run that was interrupted.
        """
        return await self._run((), RunSettings(deps=deps))

    @overload
    def stream(
        self, message: MessageInput | None = ..., *, output: None = ..., **options: Unpack[RunParameters[Deps]]
    ) -> AsyncRun[Out]: ...
    @overload
    def stream(
        self, message: MessageInput | None = ..., *, output: type[T], **options: Unpack[RunParameters[Deps]]
    ) -> AsyncRun[T]: ...
    @overload
    def stream(
        self, message: MessageInput | None = ..., *, output: OutputForm, **options: Unpack[RunParameters[Deps]]
    ) -> AsyncRun[Any]: ...
    @expand_parameters(ModelParameters, RunParameters)
    def stream(
        self,
        message: MessageInput | None = None,
        *,
        output: Any = None,
        **options: Any,
    ) -> AsyncRun[Any]:
        """Send a message, or continue without one, as a stream of events: use it in `async with` and iterate.

        The options are those of `send`; without a message, only `deps` may be passed.
        """
        settings = read_settings(options, output=output)
        if message is None and (settings.is_journalled or settings.notes):
            raise TypeError("options of a run need a message: the run continues with the options that it started with")
        return AsyncRun(self, () if message is None else _user_messages(message), settings)

    async def step(self, message: MessageInput | None = None, *, key: str = "") -> Step:
        """Do one step of a run: one request, or the tool calls of one turn.

        Return `More`, `Done`, `Wait` (call again after the time) or `Blocked` (approval is needed). The lease is released
        after the step, and no work outlives it: it waits for the background sub-agents that it starts. Raise the same
        errors as `send`.
        """
        messages = () if message is None else _user_messages(message)
        async with self._working():
            if self._is_known(messages, key):
                messages = ()
            if not messages and not await self._has_work():
                halted = self._log.machine.halted
                return Done(halted.reason if halted is not None else "completed")
            runner = await self._make_runner(messages, self._log.machine.failures)
            return await self._guard(runner, partial(runner.run_step, messages, key))

    async def enqueue(self, message: MessageInput, *, key: str = "") -> None:
        """Post a message that starts a run at rest: `continue_()` of any process runs it. It is stored when this returns.

        `key` is as for `send`: a message with a key that the session has is not run again. A new session is created.
        """
        messages = _user_messages(message)
        if key and len(messages) > 1:
            raise ValueError(f"{len(messages)} messages for the key {key!r}: enqueue one message with each key")
        if self.is_new:
            await self.load()
        if self.is_new and self._active is None:
            await self._create()
        for one in messages:
            await self._post(Prompt(one, key), id=f"prompt-{key}" if key else "")

    async def steer(self, message: MessageInput, *, key: str = "") -> None:
        """Post a message for the active run: the model receives it at the next turn boundary.

        It works from any process and is stored when this returns. Without an active run, the next one takes it. A message
        with a `key` is posted once.
        """
        for number, one in enumerate(_user_messages(message)):
            await self._post(Steer(one), id=f"steer-{key}-{number}" if key else "")

    async def approve(self, *calls: PendingCall | ToolCallView | str) -> Result[Out, AsyncSession[Deps, Out]] | None:
        """Approve calls that wait for approval (all of them, if none is named), and continue the run.

        If another process holds the session, that process runs the calls and this returns None.
        """
        return await self._decide(calls, allowed=True, reason="")

    async def deny(
        self, *calls: PendingCall | ToolCallView | str, reason: str = ""
    ) -> Result[Out, AsyncSession[Deps, Out]] | None:
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
                cancels = [item for item in await self._log.read_inbox() if isinstance(item.item, Cancel)]
                entries = cancel_entries(self._log.machine) if cancels and self._log.has_work else ()
                await self._log.append(*entries, taking=cancels, last=True)

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

    async def fork(self, at: int | None = None) -> AsyncSession[Deps, Out]:
        """Create a new session with the first `at` messages (None: all). This one is not changed.

        Raise `ValueError` if a call would lose its result.
        """
        if self.is_new:
            raise ValueError("the session has no messages yet: nothing to fork")
        if at is None and self._log.machine.open_calls:
            raise ValueError("calls have no result yet: continue first, or fork at an earlier message")
        seq = None if at is None else fork_point(await self.entries(), at)
        return await self._agent._fork(self.id, seq, self._deps)

    async def undo(self, count: int = 1) -> tuple[AsyncSession[Deps, Out], Message]:
        """Create a new session without the last `count` user messages and everything after them. This one is not changed.

        Return it with the first of these messages. Raise `ValueError` if there are fewer.
        """
        entries = await self.entries()
        added = [at for at, entry in enumerate(entries) if at and isinstance(entry.payload, MessageAdded)]
        if not 0 < count <= len(added):
            raise ValueError(f"cannot undo {count}: choose 1 to {len(added)}" if added else "nothing to undo")
        at = added[-count]
        undone = entries[at].payload
        assert isinstance(undone, MessageAdded)
        return await self._agent._fork(self.id, entries[at - 1].seq, self._deps), undone.message

    async def handover(self, model: str) -> tuple[Loss, ...]:
        """Switch to another model; return the content that it does not receive.

        The journal keeps everything, so a switch back restores it. Raise `UnknownProvider`, or `UnsupportedModel` for a
        model that agents refuse.
        """
        model = self._context.client._full_name(model)
        self._check_model(model)
        if self.is_new and self._active is None:
            self._configure_new(model=model)
            return ()
        async with self._working():
            self._own_model = self._own_model and model
            return await self._switch(model)

    async def _switch(self, model: str) -> tuple[Loss, ...]:
        """Write the entry of a handover. Return its losses."""
        if model == self.model:  # another process may have switched meanwhile
            return ()
        entry = handover_entry(model, self._log, self._context.client._target, self._context.toolbox.definitions())
        config = self._effective_config()
        await self._log.append(*([] if config == self._log.next.configured else [config]), entry)
        self._emit(ModelChanged(entry.model, entry.previous_model, entry.losses))
        return entry.losses

    async def compact(self, focus: str = "") -> Compacted | None:
        """Shorten what later requests contain: a summary instead of the older messages. The journal keeps the originals.

        `focus` is what the summary should emphasize. Return the entry; None if there is nothing to compact, or if no usable
        summary was made. Raise `ValueError` for a session without messages.
        """
        if self.is_new:
            raise ValueError("the session has no messages yet: nothing to compact")
        async with self._working():
            return await Compactor(self).compact(await self._locate(), focus)

    async def uncompact(self) -> bool:
        """Send the whole conversation again. Return False if it is not compacted."""
        if self._log.next.compaction is None:
            await self.load()
        if self._log.next.compaction is None:
            return False
        async with self._working():
            await self._log.append(Compacted(0, reason="user"))
        return True

    async def _locate(self) -> Target:
        """Return the target of the next request; with its account if that decides what a compaction sends back."""
        client, model = self._context.client, (self._log.next.configured or self._configured).model
        held = self._log.next.compaction
        if held is None or not (held.native or held.inline):
            return client._target(model)
        return await client._locate(model, self._context.headers)

    async def audit(self, model: str | None = None, *, compaction: bool = False) -> tenuto.Report:
        """Report what a provider would refuse if the session were sent to its model (or another) now.

        With `compaction`, the report has the plan of a compaction: what it would keep, and what becomes invalid.

        Nothing is sent or written. Each request of the journal is built again and compared with the bytes that were sent.
        Raise `UnknownProvider`, `TranscriptError` for content that cannot be written, `ValueError` for a new session.
        """
        from tenuto.audit import audit

        if self.is_new:
            raise ValueError("the session has no messages yet: nothing to audit")
        client = self._context.client
        target = client._target(client._full_name(model)) if model is not None else None
        entries, tools = await self.entries(), self._context.toolbox.definitions()
        report = audit(entries, target, tools=tools, find=client._target)
        if compaction:
            settings = self._context.compaction or DEFAULT
            made = plan(entries, target or client._target(self.model), settings, full=True)
            report = msgspec.structs.replace(report, plan=str(made) if made else "compaction: nothing to compact")
        return report

    async def entries(self) -> list[Entry]:
        """Read the journal; a new session has no entries."""
        return [] if self.is_new else await self._log.store.read(self.id)

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

    async def load(self) -> None:
        """Read the entries that other processes have written. Every run does this first."""
        if self._active is None:
            with suppress(SessionNotFound):
                await self._log.read()

    async def set_metadata(self, metadata: Mapping[str, str]) -> None:
        """Give the session keys and values, by which `AsyncAgent.sessions` finds it. They replace earlier ones.

        A session that is not stored yet stores them with its first message. Raise `TypeError` for a value that is not a
        string.
        """
        self._new_metadata = check_metadata(metadata)
        if not self.is_new:
            async with self._working():
                await self._log.append(*self._metadata_entries(), last=True)

    def _metadata_entries(self) -> list[EntryPayload]:
        """Return the entry of metadata that are not stored yet."""
        metadata, self._new_metadata = self._new_metadata, None
        return [] if metadata in (None, self._log.metadata) else [MetadataChanged(metadata)]

    # --- configuration ---

    async def set_effort(self, effort: Effort | None) -> None:
        """Change the reasoning effort of all later requests; None: the default of the model."""
        config = self._effective_config()
        parameters: dict[str, Any] = jsonio.members(config.parameters or "{}")
        parameters.pop("effort", None)
        text = json_text({**parameters, "effort": effort} if effort else parameters)
        if self.is_new and self._active is None:
            self._configure_new(parameters=text)
        elif text != config.parameters:
            async with self._working():
                await self._log.append(msgspec.structs.replace(self._effective_config(), parameters=text))

    def _configure_new(self, **changes: str) -> None:
        """Change the configuration of a session without entries."""
        self._configured = msgspec.structs.replace(self._configured, **changes)
        if self._own_settings:
            context, own = self._own_settings
            self._own_settings = context, msgspec.structs.replace(own, **changes)

    async def _create(self) -> None:
        """Store a new session without a message, so that its inbox exists."""
        async with self._working():
            if self.is_new:
                await (await self._make_runner(())).begin(())

    def _effective_config(self, *, new_run: bool = False) -> Configured:
        """Return the configuration of the next request, as far as it is known before a run starts.

        Instructions and tools are those of this agent (instructions only if it has any); everything else is the session's.
        A run with settings of its own keeps its configuration until it ends.
        """
        current, stored, context = self._log.next.configured, self._log.next.session_config, self._context
        if current is not None and current.scope == "run" and self._log.has_work and not new_run:
            return current
        if stored is None:
            return self._configured
        system = stored.system if context.system is None or context.instructions else context.system
        roots = context.toolbox.roots
        if roots and stored.roots and context.keep_roots:
            roots = {**roots, **{name: root for name, root in jsonio.parse(stored.roots).items() if name in roots}}
        text = json_text(dict(sorted(roots.items()))) if roots else ""
        return msgspec.structs.replace(stored, system=system, tools=self._configured.tools, roots=text)

    def _check_model(self, model: str = "") -> Configured:
        """Raise `UnsupportedModel` if agents refuse the session's model, or this one. Return the next configuration."""
        config = self._effective_config()
        allow_unverified = config.allow_unverified or self._configured.allow_unverified
        checked = (model or config.model, allow_unverified, bool(config.tools))
        if checked != self._admitted:
            model = model or config.model
            target = self._context.client._target(model)
            admit(model, target, allow_unverified=allow_unverified, tools=bool(config.tools))
            self._admitted = checked
        return config

    # --- the run ---

    async def _run(
        self,
        messages: tuple[Message, ...],
        settings: RunSettings = _NO_SETTINGS,
        *,
        is_new: bool = False,
    ) -> Result[Any, Any] | None:
        """Add messages, if any, and do the pending work. Return the result of this run.

        `is_new`: the pending work is a message that no run has received yet.
        """
        async with self._working():
            key = settings.key
            if settings.deps is not None:
                self._deps = settings.deps
            known = bool(key) and self._is_known(messages, key)
            if known:
                messages = ()
            if not messages and not await self._has_work():
                return await make_result(self, self._log.keyed_runs[key]) if known else None
            runner = await self._make_runner(messages, settings=settings)
            is_resumed = not messages and not is_new and self._log.has_work
            info = msgspec.structs.replace(runner.info, resumed=is_resumed)
            work = partial(runner.run, messages, key)
            self._emit(RunStarted(info.model, info.resumed))
            if self._context.hooks:
                work = partial(run_around, self._context.hooks, "around_run", info, work)
            await self._guard(runner, work)
            if self._log.machine.state is not State.COMPLETED or self._log.background:
                self._pending_below = await self._sub_agents.pending()
            if not known and not runner.has_result:
                return None
            return await make_result(self, self._log.keyed_runs[key] if known else self._log.last_run, runner)

    async def _has_work(self) -> bool:
        return bool(self._log.has_work or self._early or await self._log.read_inbox())

    async def _make_runner(
        self, messages: tuple[Message, ...], failures: int = 0, settings: RunSettings = _NO_SETTINGS
    ) -> Runner:
        """Check that the work can be done, and return a runner for it."""
        model = self._use_override()
        if model and self._log.next.configured is not None:
            await self._switch(model)
        stored = self._log.next.configured
        if not messages and stored is not None:
            gone = missing_tools(self, stored)
            for call in self._log.machine.open_calls:
                if call.view.name in gone and call.phase is not Phase.DENIED:
                    raise MissingTool(call.view.name)
        config = self._check_model()
        if not self._log.head:
            await self._context.client.check_key(config.model, self._context.headers)
        runner = Runner(self, failures=failures)
        await runner.configure(settings, is_new=bool(messages))
        self._pending_below = ()
        return runner

    def _is_known(self, messages: tuple[Message, ...], key: str) -> bool:
        """Return whether messages with this key were added before. Raise `ValueError` if those were others."""
        run = self._log.keyed_runs.get(key) if key else None
        if run is not None and run.messages != messages:
            raise ValueError(f"session {self.id!r} has another message with the key {key!r}: use a new key")
        return run is not None

    async def _guard(self, runner: Runner, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work of a run or a step. Record a cancellation, a timeout or an error that ends it.

        Background sub-agents that still run are stopped for the same reason as the run. Only those of a cancelled run are
        cancelled; the next run continues the others.
        """
        seconds = runner._context.limits.seconds
        self._cancel_end = RunEnded(CANCELLED)
        end: RunEnded | None = RunEnded("failed", "the run of the calling session failed")
        try:
            with self._agent._watching_inbox(self):
                async with asyncio.timeout(seconds) as limit:
                    try:
                        return await work()
                    except StoreError:
                        raise
                    except Exception as exc:
                        end = RunEnded(CANCELLED) if isinstance(exc, RunCancelled) else end
                        await runner.fail(exc)
                        raise
        except TimeoutError:
            if not limit.expired():
                raise
            end = RunEnded("waiting", "seconds", "limit")
            await self._record_stop(end, f"the limit of {seconds:g} s is reached")
            raise limit_reached("seconds", f"the run took more than {seconds:g} s") from None
        except asyncio.CancelledError:
            end = None if self._is_interrupted() else self._cancel_end
            await self._record_stop(end, "the run was cancelled")
            raise
        finally:
            self._reply = runner.reply or self._reply
            if self._sub_agents.tasks:
                await self._sub_agents.cancel(end)

    async def _record_stop(self, end: RunEnded | None, why: str) -> None:
        """Record that the run was ended from outside. It is recorded even if the caller does not wait."""
        self._stop_record = asyncio.ensure_future(self._write_stop(end, why))
        await asyncio.shield(self._stop_record)

    async def _write_stop(self, end: RunEnded | None, why: str) -> None:
        log = self._log
        try:
            await log.append()  # finish the writes that were interrupted
            machine = log.machine
            at_rest = machine.state is State.COMPLETED
            if end is None or not log.held or (at_rest and (machine.halted is not None or log.last is None)):
                return  # the run has ended, or it has not started
            cancels = [item for item in await log.read_inbox() if isinstance(item.item, Cancel)]
            await log.append(*cancel_entries(machine, end, why), taking=cancels, last=True)
        except StoreError as exc:  # a later run continues from the entries that are there
            logger.warning("session %s was ended, and that could not be recorded: %s", self.id, exc)
            return
        self._emit(RunStopped(end.reason, end.detail, end.waiting_for))

    async def _add_message(self, prompt: str) -> None:
        """Write the first message of a background sub-agent, without a run."""
        messages = _user_messages(prompt)
        async with self._working():
            runner = await self._make_runner(messages)
            await runner.begin(messages)

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
    ) -> Result[Any, Any] | None:
        """Post decisions; then continue the run, unless another process or another task holds the session."""
        await self._post_decisions(calls, allowed=allowed, reason=reason)
        if self._active is not None and not self._active.ending:
            return None
        try:
            return await self._run(())
        except SessionInUse:
            return None

    async def _post_decisions(
        self, calls: tuple[PendingCall | ToolCallView | str, ...], *, allowed: bool, reason: str, key: str = ""
    ) -> None:
        """Post decisions about calls that wait for approval (all, if none is named). Raise `ValueError` for others."""
        await self.load()
        self._pending_below = await self._sub_agents.pending()
        waiting = self.pending
        chosen: list[PendingCall] = [] if calls else [*waiting]
        for call in calls:
            id = call if isinstance(call, str) else call.id if isinstance(call, ToolCallView) else call.call.id
            matches = [one for one in waiting if one.call.id == id]
            if isinstance(call, PendingCall):
                matches = [one for one in matches if (one.ordinal, one.session) == (call.ordinal, call.session)]
            if not matches:
                names = ", ".join(f"{one.call.name} ({one.call.id})" for one in waiting)
                others = f"these do: {names}" if names else "no call does"
                raise ValueError(f"no call {id!r} waits for approval; {others}")
            chosen += [one for one in matches if one not in chosen]
        for one in chosen:
            call_id, index = one.call.id, one.ordinal
            id = f"decision-{key}-{one.session}-{one.reply_seq}-{index}" if key else ""
            await self._post(Decision(call_id, index, allowed, reason, one.reply_seq, one.session), id=id)

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

    async def _wait_for_readers(self) -> None:
        """Wait until the readers of this session, and of those above it, have read enough events."""
        session: AsyncSession | None = self
        while session is not None:
            for reader in tuple(session._readers):
                await reader.wait_for_room()
            session = session._parent

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
            if not self._log.keep_lease and (self._log.held or self._stop_record is not None):
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


def check_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return a copy; raise `TypeError` for a key or a value that is not a string."""
    for key, value in metadata.items():
        if not (isinstance(key, str) and isinstance(value, str)):
            raise TypeError(f"metadata: expected strings, got {key!r:.80}: {value!r:.80}")
    return dict(metadata)


def _user_messages(content: MessageInput) -> tuple[Message, ...]:
    """Return the messages of a user. Raise `ValueError` without any, `TypeError` for messages of another role."""
    if isinstance(content, str) and content.strip():
        return (UserMessage(content),)
    messages = to_messages(content)
    if not messages:
        raise ValueError("no message: give a text or a message; continue_() continues without one")
    check_newest(messages)
    for message in messages:
        if isinstance(message, AssistantMessage | ToolResults | SystemMessage):
            raise TypeError(f"expected a user message, got {type(message).__name__}")
    return messages
