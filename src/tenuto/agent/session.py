"""A session in the hand: say something, and it is answered; leave it, and it goes on where it was."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from decimal import Decimal
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec

import tenuto  # annotations load `tenuto.Report` when they are evaluated
from tenuto.agent.config import roots_text, stored_roots, tool_names
from tenuto.agent.events import AgentEvent, ModelChanged, RunStopped
from tenuto.agent.handover import handover_entry
from tenuto.agent.limits import Budget
from tenuto.agent.machine import CANCELLED, CANCELLING, FinishCancel, Phase, State
from tenuto.agent.run_context import PendingCall, RunContext, SubAgentRunner
from tenuto.agent.runner import Runner, close_calls, close_calls_for_new_input
from tenuto.agent.session_log import SessionLog
from tenuto.client.parameters import MessageInput
from tenuto.client.reply import Reply
from tenuto.client.request import check_newest, to_messages
from tenuto.core.events import StreamEvent
from tenuto.core.journal import (
    ApprovalDecided,
    Compacted,
    Configured,
    Entry,
    EntryPayload,
    MessageAdded,
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
    Usage,
    display_text,
)
from tenuto.core.transcript import Transcript
from tenuto.errors import LimitReached, MissingTool, RunCancelled, StoreError, TenutoError
from tenuto.tools.toolbox import Toolbox

__all__ = ["AsyncRun", "AsyncSession", "Home", "PendingCall", "Runs", "fork_point"]


def fork_point(entries: Iterable[Entry], count: int) -> int:
    """Return the first entry with which the conversation is its first `count` messages and no call is open.

    Raise `ValueError`, which says where a cut can be made, if there is no such entry.
    """
    fold, least = TranscriptFold(), 0
    places: dict[int, int] = {}
    for entry in entries:
        fold.apply(entry)
        if isinstance(entry.payload, Compacted):  # what was before is not what the conversation begins with any more
            places, least = {}, len(fold)
        if not fold.open_calls():
            places.setdefault(len(fold), entry.seq)
    if 0 < count <= len(fold) and count in places:
        return places[count]
    if not 0 < count <= len(fold):
        raise ValueError(f"cannot fork after message {count}: choose 1 to {len(fold)}")
    if count < least:
        raise ValueError(f"cannot fork after message {count}: it was compacted since")
    near = sorted((place for place in places if place > 0), key=lambda place: abs(place - count))[:2]
    where = f"; choose {' or '.join(map(str, sorted(near)))}" if near else ""
    raise ValueError(f"cannot fork after message {count}: a tool call would lose its result{where}")


class Runs(Protocol):
    """What a run needs of the session whose it is."""

    reply: Reply | None

    def on_event(self, hear: Callable[[StreamEvent | AgentEvent], object]) -> Callable[[], None]:
        """Have a function called for everything that happens from now on; return what ends that."""

    async def run(self, messages: tuple[Message, ...]) -> Reply | None:
        """Say something, if there is something to say, and do what is owed. Return the last reply that came."""


class AsyncRun:
    """A run as a stream of its events. Use it in `async with`, and iterate over it.

    Leaving early cancels the run and records that. After `Retrying`, the events of the failed reply are void.
    """

    def __init__(self, session: Runs, messages: tuple[Message, ...]) -> None:
        self._session = session
        self._said = messages
        self._queue: asyncio.Queue[StreamEvent | AgentEvent | None] = asyncio.Queue()
        self._task: asyncio.Task[Reply | None] | None = None
        self._stop_listening: Callable[[], None] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent | AgentEvent:
        task = self._task or self._start()
        try:
            event = await self._queue.get()
        except asyncio.CancelledError:
            await self.close()
            raise
        if event is not None:
            return event
        self._queue.put_nowait(None)  # for another reader, and for the next call
        await self.close()
        if not task.cancelled():  # after close() by another task, the events just end
            task.result()
        raise StopAsyncIteration

    def _start(self) -> asyncio.Task[Reply | None]:
        if self._closed:
            raise TenutoError("the run is closed")
        queue = self._queue
        self._stop_listening = self._session.on_event(queue.put_nowait)
        self._task = task = asyncio.create_task(self._session.run(self._said))

        def end(task: asyncio.Task[Reply | None]) -> None:
            if not task.cancelled():
                task.exception()  # a reader who left early is not interested
            queue.put_nowait(None)

        task.add_done_callback(end)
        weakref.finalize(self, _abandon, asyncio.get_running_loop(), task, self._stop_listening).atexit = False
        return task

    @property
    def reply(self) -> Reply:
        """The last reply; it is available once the run has ended."""
        task = self._task
        if task is None or not task.done():
            raise TenutoError("the run has not ended: read on")
        if task.cancelled():
            raise TenutoError("the run was closed before it ended: the session has the events until then")
        reply = task.result() or self._session.reply
        if reply is None:
            raise TenutoError("no work was pending, so no request was sent")
        return reply

    async def cancel(self) -> None:
        """Cancel the run; its results so far are saved."""
        await self.close()

    async def close(self) -> None:
        """Cancel the run, if it has not ended."""
        self._closed = True
        if self._stop_listening is not None:
            self._stop_listening()
        task = self._task
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task})


def _abandon(
    loop: asyncio.AbstractEventLoop, task: asyncio.Task[Reply | None], stop_listening: Callable[[], None]
) -> None:
    """Cancel a run whose stream was dropped. The garbage collector may call this in any thread."""
    stop_listening()
    try:
        here = asyncio.get_running_loop() is loop
    except RuntimeError:
        here = False
    if here:
        task.cancel()
    elif not loop.is_closed():
        loop.call_soon_threadsafe(task.cancel)


log = logging.getLogger("tenuto")


class Home(Protocol):
    """What a session needs of the agent whose it is."""

    def admit(self, model: str, *, allow_unverified: bool) -> None:
        """Raise `UnsupportedModel` for a model that agents refuse, unless `allow_unverified`."""

    def children_of(self, session: AsyncSession) -> SubAgentRunner:
        """Return the sub-agents of a session."""

    def register(self, session: AsyncSession) -> None:
        """Remember a session that holds its lease, so that closing the agent releases it."""

    async def forked(self, session: str, at: int | None) -> AsyncSession:
        """Branch a session off behind an entry."""


class _Current:
    """The run that is under way, in the task of whoever wants its reply."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # coroutines are run by tasks
        self.task: asyncio.Task[Any] = task
        self.loop = asyncio.get_running_loop()
        self.over = asyncio.Event()
        self._before = task.cancelling()
        self._cancelled = False
        self.cancel_requested = False

    def cancel(self) -> None:
        """End it; a second time, or when it is over, this does nothing."""
        if not self.over.is_set() and not self._cancelled:
            self._cancelled = True
            self.task.cancel()

    @property
    def ending(self) -> bool:
        """Whether it was cancelled, and has not ended yet."""
        return self.cancel_requested or self.task.cancelling() > self._before

    def end(self) -> bool:
        """It is over. Return whether it was cancelled here, and the task by nobody else."""
        if self.over.is_set():
            return False
        self.over.set()
        return self._cancelled and self.task.uncancel() <= self._before


class AsyncSession:
    """A conversation that is kept. `AsyncAgent.session()` begins one, `AsyncAgent.resume()` takes one up again.

    Nothing is written before the first message. A run holds the session's lease, so no other process can write meanwhile,
    and releases it when it ends. `async with session:` holds the lease from the first run until the block ends. One run at
    a time; `steer` and `cancel` may be called during a run, from any thread.
    """

    def __init__(
        self, agent: Home, kept: SessionLog, crew: RunContext, mine: Configured, parent: AsyncSession | None = None
    ) -> None:
        self.agent = agent
        self.crew = crew
        self._log = kept
        self.budget: Budget = Budget(crew.limits, kept.spent, parent.budget if parent is not None else None)
        self._mine = mine
        self._inbox: deque[Message] = deque()
        self._listeners: list[Callable[[StreamEvent | AgentEvent], object]] = []
        self._current: _Current | None = None
        self._last_words: asyncio.Future[None] | None = None
        self._releasing: asyncio.Future[None] | None = None
        self._below: tuple[PendingCall, ...] = ()
        self.reply: Reply | None = None
        """What the model said last in this process; None if it was not asked here."""

    # --- what it is ---

    @property
    def id(self) -> str:
        """The session's id."""
        return self._log.id

    @property
    def transcript(self) -> Transcript:
        """The conversation, as the model is to see it."""
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
        """What the model said last, refusals included; empty if it has said nothing yet."""
        last = self._log.last
        return "".join(filter(None, map(display_text, last.blocks))) if last is not None else ""

    @property
    def last(self) -> AssistantMessage | None:
        """The model's last message."""
        return self._log.last

    @property
    def model(self) -> str:
        """Whom the session asks."""
        return (self._log.configured or self._mine).model

    @property
    def status(self) -> str:
        """`new`, `running`, the word with which the last run stopped (`completed`, `waiting`, `limit`, `cancelled`,
        `failed`), or `open` if it was broken off.
        """
        if self._current is not None:
            return "running"
        halted = self._log.machine.halted
        if halted is not None:
            return halted.reason
        if self._log.machine.state is State.COMPLETED:
            return "completed" if self._log.last is not None else "new"
        return "open"

    @property
    def has_pending_work(self) -> bool:
        """Whether there is something to be done without anything being said: `continue_()` does it."""
        return self._log.machine.next_step() is not None

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls that wait for approval: `approve` or `deny` them. `send` denies them instead."""
        own = tuple(
            PendingCall(call.view, call.ordinal) for call in self._log.machine.calls if call.phase is Phase.WAITING
        )
        return (*own, *self._below)

    def on_event(self, hear: Callable[[StreamEvent | AgentEvent], object]) -> Callable[[], None]:
        """Have a function called for everything that happens from now on; return what ends that."""
        self._listeners.append(hear)
        return lambda: self._listeners.remove(hear) if hear in self._listeners else None

    # --- going on ---

    async def send(self, message: MessageInput) -> Reply:
        """Send a message, run tools until the model is done, and return its last reply.

        If calls need approval, it is the reply that made them: see `pending`. Calls that wait for approval when a new
        message is sent are answered as not run. Raise an `LLMError` when retries do not help, `LimitReached`,
        `SessionInUse`, `LeaseLost`; everything until then is saved.
        """
        reply = await self.run(_user_messages(message))
        assert reply is not None  # something was said, so the model was asked
        return reply

    async def continue_(self) -> Reply | None:
        """Do what is owed, without saying anything; None if nothing is. `text` is then what was said last."""
        return await self.run(())

    def stream(self, message: MessageInput | None = None) -> AsyncRun:
        """Say something (or go on, without), and see everything that happens: `async with` it, and iterate."""
        return AsyncRun(self, () if message is None else _user_messages(message))

    async def approve(self, *calls: PendingCall | ToolCallView | str) -> Reply | None:
        """Let calls run that wait for somebody's word (all of them, if none is named), and go on."""
        return await self._decide(calls, allowed=True, why="")

    async def deny(self, *calls: PendingCall | ToolCallView | str, reason: str = "") -> Reply | None:
        """Have calls answered that they were not run, and why, and go on."""
        return await self._decide(calls, allowed=False, why=reason)

    def steer(self, message: MessageInput) -> None:
        """Say something while the agent is at work: the model hears it at the next turn boundary. From any thread.

        Where nothing runs, it is heard at the first boundary of the next run.
        """
        self._inbox.extend(_user_messages(message))

    def cancel(self) -> None:
        """End the run that is under way: `send` raises `RunCancelled` there. From any thread; harmless without a run."""
        current = self._current
        if current is not None:
            current.cancel_requested = True
            with suppress(RuntimeError):  # the loop is closed
                current.loop.call_soon_threadsafe(current.cancel)

    async def fork(self, at: int | None = None) -> AsyncSession:
        """Branch off a new session with the first `at` messages (all of them, if None). This one is not changed.

        Raise `ValueError` where a call would be cut from its result.
        """
        if self._log.head == 0:
            raise ValueError("nothing was said yet: there is nothing to fork")
        if at is None and self._log.machine.open_calls:
            raise ValueError("calls have no result yet: go on first, or fork at an earlier message")
        place = None if at is None else fork_point(await self.entries(), at)
        return await self.agent.forked(self.id, place)

    async def handover(self, model: str) -> tuple[Loss, ...]:
        """Go on with another model from here; return what cannot go along. The journal keeps it all: on the way back to
        its issuer, everything is in place.

        Raise `UnknownProvider`, `UnsupportedModel` for a model on which a session cannot rely, and what `send` raises
        where the session is in other hands.
        """
        model = self.crew.client._full_name(model)
        self.agent.admit(model, allow_unverified=self.ready().allow_unverified)
        if self._log.head == 0 and self._current is None:
            self._mine = msgspec.structs.replace(self._mine, model=model)
            return ()
        async with self._working():
            if model == self.model:  # as it is now: somebody else may have handed it over meanwhile
                return ()
            news = self._news()
            act = handover_entry(model, self._log, self.crew.client._target, self.crew.toolbox.definitions())
            await self._log.append(*news, act)
            self.tell(ModelChanged(act.model, act.previous_model, act.losses))
            return act.losses

    async def audit(self, model: str | None = None) -> tenuto.Report:
        """Say what would be refused if the session were sent to its model (or to another) now. Nothing is sent or written.

        Each question of the journal is made again and compared with what was sent. Raise `UnknownProvider`,
        `TranscriptError` for what cannot be written at all, `ValueError` as long as nothing was said.
        """
        from tenuto.audit import audit

        if self._log.head == 0:
            raise ValueError("nothing was said yet: there is nothing to audit")
        client = self.crew.client
        target = client._target(client._full_name(model)) if model is not None else None
        return audit(await self.entries(), target, tools=self.crew.toolbox.definitions(), find=client._target)

    async def entries(self) -> list[Entry]:
        """Read the journal; a session in which nothing was said has none."""
        return await self._log.entries()

    async def close(self) -> None:
        """Cancel the run, if there is one, and release the lease. The session can be used again."""
        self._log.keep_lease = False
        current = self._current
        if current is not None and current.task is not asyncio.current_task():
            current.cancel()
            await current.over.wait()
        if self._releasing is not None:
            await asyncio.wait({self._releasing})
        await self._release()

    async def __aenter__(self) -> Self:
        self._log.keep_lease = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.status}>"

    # --- inside ---

    @property
    def idle(self) -> bool:
        """Whether no run is active."""
        return self._current is None

    @property
    def log(self) -> SessionLog:
        """What is kept of it."""
        return self._log

    async def take_over(self) -> None:
        """Acquire the lease from the process that holds it, which stops at its next write; then release it."""
        await self._log.acquire(takeover=True)
        await self._log.release()

    async def configure(self, **changes: str) -> None:
        """Write a changed configuration: `parameters`, for example."""
        async with self._working():
            await self._log.append(msgspec.structs.replace(self.ready(), **changes))

    async def look(self) -> None:
        """Find out which calls of sub-agents wait for somebody's word."""
        found: list[PendingCall] = []
        below = self.agent.children_of(self)
        for call in self._log.machine.open_calls:
            if call.session:
                found += await below.waiting(call.session)
        self._below = tuple(found)

    def ready(self) -> Configured:
        """Return the configuration of the next request.

        Instructions and tools are those of this agent (instructions only if it has any); everything else is the session's.
        """
        stored = self._log.configured
        if stored is None:
            return self._mine
        system = stored.system if self.crew.system is None else self.crew.system
        own = self.crew.toolbox.roots()
        if self.crew.keep_roots:
            own |= {name: root for name, root in stored_roots(stored).items() if name in own}
        return msgspec.structs.replace(stored, system=system, tools=self._mine.tools, roots=roots_text(own))

    def _check_tools(self) -> None:
        """Raise `MissingTool` if an open call has to run a tool that was offered before and is gone."""
        stored = self._log.configured
        gone = {*tool_names(stored)} - {*self.crew.toolbox.names()} if stored is not None else set()
        for call in self._log.machine.open_calls:
            if call.view.name in gone and call.phase is not Phase.DENIED:
                raise MissingTool(call.view.name)

    async def run(self, messages: tuple[Message, ...]) -> Reply | None:
        """Add messages, if any, and do the pending work. Return the last reply received in this run."""
        async with self._working():
            return await self._run(messages)

    async def _run(self, messages: tuple[Message, ...]) -> Reply | None:
        if not messages:
            self._check_tools()
        self.agent.admit(self.model, allow_unverified=self.ready().allow_unverified)
        if self._log.head == 0:
            await self.crew.client.check_key(self.model, self.crew.headers)
        self._below = ()
        toolbox = _at_stored_roots(self.crew.toolbox, stored_roots(self.ready()))
        crew = msgspec.structs.replace(self.crew, sub_agents=self.agent.children_of(self), toolbox=toolbox)
        runner = Runner(self._log, crew, self._inbox, self.tell, self.budget)
        try:
            await self._guarded(runner, self._first(messages))
        finally:
            self.reply = runner.reply or self.reply
        await self.look()
        return runner.reply

    def _first(self, messages: tuple[Message, ...]) -> list[EntryPayload]:
        """What is written before anything is done; nothing, if nothing will be."""
        machine, acts = self._log.machine, self._news()
        if not messages and not self._inbox and machine.next_step() is None:
            return []
        if messages:
            acts += [*close_calls_for_new_input(machine), *(MessageAdded(message) for message in messages)]
        return acts

    def _news(self) -> list[EntryPayload]:
        """What the session asks with, if that has changed."""
        now = self.ready()
        return [] if now == self._log.configured else [now]

    async def _guarded(self, runner: Runner, first: list[EntryPayload]) -> None:
        """Run, and write down why it stopped where the runner itself cannot."""
        seconds = self.crew.limits.seconds
        try:
            async with asyncio.timeout(seconds) as limit:
                if first:
                    await self._log.append(*first)
                await runner.run()
        except TimeoutError:
            if not limit.expired():
                raise
            await self._put_down("limit", "seconds", f"the limit of {seconds:g} s is reached")
            message = (
                f"limit reached: the run took more than {seconds:g} s; nothing is lost: go on, or say something new"
            )
            raise LimitReached("seconds", message) from None
        except asyncio.CancelledError:
            await self._put_down(CANCELLED, "", "the run was cancelled")
            raise

    async def _put_down(self, reason: str, detail: str, why: str) -> None:
        """Write that the run was ended from outside; whoever is impatient does not wait for it, and it is written."""
        self._last_words = asyncio.ensure_future(self._written_down(reason, detail, why))
        await asyncio.shield(self._last_words)

    async def _written_down(self, reason: str, detail: str, why: str) -> None:
        try:
            await self._log.settled()
            machine = self._log.machine
            if machine.state is State.COMPLETED or not self._log.held:
                return
            acts = close_calls(FinishCancel(machine.open_calls), reason, detail, why)
            await self._log.append(RunEnded(CANCELLING), *acts, last=True)
        except StoreError as exc:  # it goes on from what is there: calls that were started are interrupted
            log.warning("session %s was ended, and that could not be written: %s", self.id, exc)
            return
        self.tell(RunStopped(reason, detail))

    async def _decide(
        self, calls: tuple[PendingCall | ToolCallView | str, ...], *, allowed: bool, why: str
    ) -> Reply | None:
        async with self._working():
            await self.look()
            chosen = self._chosen(calls)
            own = [ApprovalDecided(p.call.id, p.ordinal, allowed=allowed, reason=why) for p in chosen if not p.session]
            if own:
                await self._log.append(*self._news(), *own)
            for pending in chosen:
                if pending.session:
                    act = ApprovalDecided(pending.call.id, pending.ordinal, allowed=allowed, reason=why)
                    await self.agent.children_of(self).decided(pending.session, act)
            return await self._run(())

    def _chosen(self, calls: tuple[PendingCall | ToolCallView | str, ...]) -> list[PendingCall]:
        waiting = list(self.pending)
        if not calls:
            return waiting
        chosen: list[PendingCall] = []
        for call in calls:
            id = call if isinstance(call, str) else call.id if isinstance(call, ToolCallView) else call.call.id
            fitting = [p for p in waiting if (p == call if isinstance(call, PendingCall) else p.call.id == id)]
            if not fitting:
                raise ValueError(f"no call {id!r} waits for approval{_listed(waiting)}")
            chosen += [p for p in fitting if p not in chosen]
        return chosen

    def tell(self, event: StreamEvent | AgentEvent) -> None:
        """Let everybody who listens know. One who fails at it keeps nobody from his work: the log has the error."""
        for hear in tuple(self._listeners):
            try:
                hear(event)
            except Exception:
                log.exception("a listener of session %s failed", self.id)

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[None]:
        """Allow one run at a time, and hold the lease during it. Raise `RunCancelled` if `cancel` ended it."""
        while self._current is not None:
            if not self._current.ending:
                raise TenutoError("a run of this session is active: wait for it, steer() it or cancel() it")
            await self._current.over.wait()
        self._current = current = _Current()
        try:
            if self._releasing is not None:
                await asyncio.wait({self._releasing})
            self.agent.register(self)
            await self._log.acquire()
            yield
        except asyncio.CancelledError:
            if current.end():
                raise RunCancelled(f"the run of session {self.id!r} was cancelled; it goes on from there") from None
            raise
        finally:
            current.end()
            self._current = None
            if not self._log.keep_lease:
                self._releasing = asyncio.ensure_future(self._release())
                if self._last_words is None or self._last_words.done():  # a caller cancelled twice does not wait
                    await asyncio.shield(self._releasing)

    async def _release(self) -> None:
        """Release the lease, after the last entry of a cancelled run was written."""
        if self._last_words is not None:
            await asyncio.wait({self._last_words})
        try:
            await self._log.release()
        except StoreError as exc:  # the lease expires
            log.warning("session %s: the lease could not be released: %s", self.id, exc)


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
            raise TypeError(f"only a user's words can be said in a session, not a {type(message).__name__}")
    return messages


def _listed(waiting: list[PendingCall]) -> str:
    return f"; these do: {', '.join(f'{p.call.name} ({p.call.id})' for p in waiting)}" if waiting else "; none does"
