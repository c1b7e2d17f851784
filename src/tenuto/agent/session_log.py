"""The journal of one session: its lease, its entries, its inbox, and the state that follows from them.

`append` returns when the entries are committed. The state (`machine`, transcript, usage) changes with the commit, never
before it: a write that fails leaves it unchanged.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial

import msgspec

from tenuto.agent.compaction import ContextSize
from tenuto.agent.limits import FamilyBudget, Spent
from tenuto.agent.machine import AGAIN, Machine, Phase, State
from tenuto.client.reply import cost
from tenuto.core import journal
from tenuto.core.blocks import Text
from tenuto.core.inbox import InboxItem, PostedItem, Steer
from tenuto.core.messages import AssistantMessage, Message, Usage, UserMessage
from tenuto.core.next_request import ConfigurationError, NextRequest, Tools
from tenuto.core.request import ChatRequest
from tenuto.core.stored import make_draft
from tenuto.errors import BudgetExceeded, InboxNotEmpty, LeaseLost, LLMError, SessionNotFound, StoreError, TenutoError
from tenuto.store.protocol import Lease, Store
from tenuto.wire.body_builder import WrittenMessages

logger = logging.getLogger("tenuto")


def _now() -> int:
    return time.time_ns() // 1_000_000


class IdSource(msgspec.Struct, frozen=True):
    """The source of times (milliseconds since 1970) and entry ids. By default, ids grow with time: neighbors in an index."""

    now: Callable[[], int] = _now
    new_id: Callable[[], str] = lambda: f"{_now():012x}{secrets.token_hex(8)}"


class KeyedRun(msgspec.Struct):
    """A run that was started with an idempotency key: its messages and its last reply so far."""

    messages: tuple[Message, ...]
    reply: journal.ReplyReceived | None = None
    replied_at: float = 0.0
    """The time of the reply, in Unix seconds."""
    configured: journal.Configured | None = None
    """The configuration of the run."""


class SessionLog:
    def __init__(
        self, store: Store, id: str, ids: IdSource, *, new: bool = False, owner: str = "", generation: int = 0
    ) -> None:
        self.id = id
        self.store = store
        self.ids = ids
        self.new = new
        """Whether the session does not exist yet, as far as this process knows."""
        self.keep_lease = False
        """Whether the lease is kept at the end of a run. Otherwise it is released with the last entry."""
        self._new_lease = partial(store.lease, id, owner=owner, generation=generation)
        """Acquires the lease. Without an owner, each acquisition has a random one."""
        self._lease: Lease | None = None
        self.fence = 0
        """The fence of the last lease."""
        self._writing = asyncio.Lock()
        self._uncertain = False
        """Whether the last write failed or was cancelled, and may be committed nevertheless."""
        self._releasing = False
        self._in_flight: asyncio.Future[Lease] | None = None
        """The last write. It continues if its caller is cancelled."""
        self._results: list[tuple[int, journal.CallFinished, str]] = []
        """Results that are not written yet: the sequence number of the reply with the call, the result, the sub-session."""
        self.budget: FamilyBudget | None = None
        """The budget that the session shares with others; None if it shares none."""
        self.inbox: list[PostedItem] = []
        """The posted items, as far as they were read."""
        self.head = 0
        self.reply_seq = 0
        """The sequence number of the last reply."""
        self.machine = Machine()
        self.spent = Spent()
        self.usage = Usage()
        self.cost: Decimal | None = Decimal(0)
        self.last: AssistantMessage | None = None
        self.last_run = KeyedRun(())
        """The last run, with a key or without one."""
        self.next = NextRequest()
        self.written = WrittenMessages()
        """The messages of the last request as they were sent."""
        self.size = ContextSize()
        """The tokens of the conversation."""
        self.keyed_runs: dict[str, KeyedRun] = {}
        self.metadata: dict[str, str] = {}
        """The keys and values that the user has given the session."""
        self.background: dict[str, str] = {}
        """The sessions of background sub-agents whose result has not arrived, with the name of the tool."""

    # --- reading ---

    async def read(self) -> None:
        """Read the new entries. Raise `StoreError` for entries that a later version wrote."""
        self._apply(await self.store.read(self.id, after=self.head))
        self.new = False

    async def read_inbox(self) -> list[PostedItem]:
        """Read the posted items, the oldest first."""
        self.inbox = await self.store.inbox(self.id) if not self.new else []
        return self.inbox

    def next_request(
        self,
        tools: Tools | None = None,
        headers: Mapping[str, str] | None = None,
        in_scope: journal.Scope | None = None,
    ) -> ChatRequest:
        """Build the next request. Raise `StoreError` if the session has no configuration that this version knows."""
        try:
            return self.next.request(tools, headers, in_scope)
        except ConfigurationError as exc:
            raise StoreError(str(exc)) from None

    @property
    def has_work(self) -> bool:
        """Whether the entries show work to do: a step, the result of a background sub-agent, an output to check."""
        config, machine = self.next.configured, self.machine
        is_open = machine.state is State.COMPLETED and machine.halted is None and self.last is not None
        unchecked = is_open and config is not None and config.output_mode != ""
        return machine.next_step() is not None or bool(self.background) or unchecked

    @property
    def held(self) -> bool:
        """Whether this process holds the lease."""
        return self._lease is not None

    def sibling(self, id: str, *, new: bool = False) -> SessionLog:
        return SessionLog(self.store, id, self.ids, new=new)

    def price(self, usage: Usage, provider: str, model: str) -> Decimal | None:
        """Return the cost of a request by today's prices."""
        return cost(usage, provider, model, datetime.fromtimestamp(self.ids.now() / 1000, UTC).date())

    def price_error(self, error: LLMError) -> tuple[Usage | None, str]:
        """Return the usage of a failed request, which is charged, too, and its cost as the journal stores it."""
        usage = error.partial.usage if error.partial is not None else None
        origin = error.partial.message.origin if error.partial is not None else None
        if usage is None or origin is None:
            return usage, ""
        known = {"input_tokens": usage.input_tokens or 0, "output_tokens": usage.output_tokens or 0}
        paid = self.price(msgspec.structs.replace(usage, **known), origin.provider, origin.model)
        return usage, "" if paid is None else str(paid)

    # --- writing ---

    async def acquire(self, *, takeover: bool = False) -> None:
        """Acquire the lease, unless it is held, and read the entries that others wrote.

        Raise `SessionInUse` while another process holds it, unless `takeover` is set.
        """
        if self._lease is None:
            lease = await self._new_lease(takeover=takeover)
            try:
                if lease.head != self.head:
                    await self.read()
            except BaseException:
                await asyncio.shield(self.store.release(lease))
                raise
            self._lease, self.fence = msgspec.structs.replace(lease, head=self.head), lease.fence
            self._uncertain = False
        if self._results:
            await self.append()

    async def release(self) -> None:
        async with self._writing:
            lease, self._lease = self._lease, None
            if lease is not None:
                await self.store.release(lease)

    async def append(
        self,
        *payloads: journal.EntryPayload,
        last: bool = False,
        taking: Sequence[PostedItem] = (),
        unless_posted: bool = False,
        reserve: tuple[int, Decimal | None] | None = None,
        forget: Sequence[str] = (),
    ) -> None:
        """Write entries, all or none: first the results that are not written yet, then these.

        `last`: they end a run; the lease is released with them unless `keep_lease` is set. `taking`: items that leave the
        inbox in the same transaction; the first payloads get their ids. `unless_posted`: raise `InboxNotEmpty` and write
        nothing if the inbox has other items. `reserve`: the tokens and cost of a request, estimated; raise `BudgetExceeded`
        and write nothing if it does not fit into the budget of the family. `forget`: sub-sessions whose usage is in
        these entries.

        If the caller is cancelled, the entries are written nevertheless; the next write waits for that.
        """
        async with self._writing:
            if self._uncertain:
                try:
                    await self._resync()
                except LeaseLost:
                    await self._post_late_results()
                    raise
            unwritten = len(self._results)
            results = [
                (result, session)
                for seq, result, session in self._results
                if seq == self.reply_seq and self.machine.calls[result.call_index].phase is not Phase.RETURNED
            ]
            ids = [self.ids.new_id() for _ in results] + [item.id for item in taking]
            payloads = (*(result for result, _ in results), *payloads)
            if not payloads and not taking:
                self._results.clear()
                return
            if self._lease is None:
                raise StoreError(f"session {self.id!r} is not held by this process: send a message or continue it")
            machine, spent = self.machine.copy(), self.spent
            for payload in payloads:
                machine.apply(payload)
                spent = spent.after(payload)
            ids += [self.ids.new_id() for _ in payloads[len(ids) :]]
            drafts = [
                make_draft(payload, id=id, time_ms=self.ids.now()) for payload, id in zip(payloads, ids, strict=False)
            ]
            budget = None
            if self.budget is not None:
                forget = [*(session for _, session in results if session), *forget]
                budget = self.budget.change(payloads, spent, reserve, forget)
            self._releasing, fence = last and not self.keep_lease, self._lease.fence
            numbers = [item.number for item in taking]
            write = self.store.append(
                self._lease, drafts, release=self._releasing, taking=numbers, unless_posted=unless_posted, budget=budget
            )
            self._in_flight = asyncio.ensure_future(write)
            try:
                self._lease = await asyncio.shield(self._in_flight)
            except LeaseLost:
                self._lease = None  # the next run acquires it again and reads what was written meanwhile
                await self._post_late_results()
                raise
            except (InboxNotEmpty, BudgetExceeded):
                raise  # nothing was written
            except BaseException:
                self._uncertain = True
                raise
            if self._releasing:
                self._lease = None
            self.new = False
            del self._results[:unwritten]
            self.inbox = [item for item in self.inbox if item.number not in numbers]
            entries = [
                journal.Entry(
                    seq, draft.id, draft.time_ms, fence, draft.kind, draft.body, "", draft.payload, draft.version
                )
                for seq, draft in enumerate(drafts, self.head + 1)
            ]
            self._adopt(machine, spent, entries)

    async def post(self, item: InboxItem, *, session: str = "", id: str = "") -> None:
        """Post an item to this session or to another one of the store. It is durable when this returns."""
        await self.store.post(session or self.id, item, id=id or self.ids.new_id())

    async def record(self, result: journal.CallFinished, sub_session: str = "") -> None:
        """Write the result of a call. If the store fails or the caller is cancelled, the next `append` writes it.

        `sub_session` is the session of the sub-agent that ran the call. Raise `LeaseLost` if another process holds the
        session now.
        """
        self._results.append((self.reply_seq, result, sub_session))
        try:
            await self.append()
        except LeaseLost:
            raise
        except StoreError as exc:
            logger.warning("session %s: a tool result was not written yet: %s", self.id, exc)

    async def _post_late_results(self) -> None:
        """Post the results that another holder of the session has reported as unknown, as messages for the model.

        A call that may run again is left out: the holder runs it, and its result is in the transcript.
        """
        while self._results:
            seq, result, _ = self._results[0]
            call = self.machine.calls[result.call_index] if seq == self.reply_seq else None
            if call is not None and call.effect not in AGAIN and result.outcome in ("done", "failed"):
                content, view = result.result.content, call.view
                text = f"{view.name} (call {view.id}) was reported as interrupted. It has ended since. Its result: "
                message = UserMessage(text + content if isinstance(content, str) else (Text(text), *content))
                await self.post(Steer(message), id=f"late-{seq}-{result.call_index}")
            del self._results[0]

    async def _resync(self) -> None:
        """Find out whether the last write was committed: read the entries after the head."""
        if self._in_flight is not None:  # its caller was cancelled
            await asyncio.wait({self._in_flight})
        if self._lease is not None:  # the store works in order: no earlier write is active after this one
            try:
                self._lease = await self.store.renew(self._lease)
            except LeaseLost:
                self._lease = None
                if not self._releasing:
                    raise
                self._lease = await self._new_lease()  # the failed write released it
        try:
            await self.read()
        except SessionNotFound:
            if self.head:
                raise
        if self._lease is not None:
            self._lease, self.fence = msgspec.structs.replace(self._lease, head=self.head), self._lease.fence
        self._uncertain = False

    # --- state ---

    def _apply(self, entries: list[journal.Entry]) -> None:
        """Apply entries that were read. All of them are checked before anything changes."""
        unknown = next(journal.unknown_payloads_in(entries), None)
        if unknown is not None:
            raise StoreError(
                f"session {self.id!r} cannot be resumed: entry {unknown.seq} ({unknown.kind}) was written by a later "
                "version of tenuto; it can be shown and exported, or resumed with that version"
            )
        machine, spent = self.machine.copy(), self.spent
        for entry in entries:
            try:
                machine.apply(entry.payload)
            except TenutoError as exc:
                exc.add_note(f"entry {entry.seq} of session {self.id!r}")
                raise
            spent = spent.after(entry.payload)
        self._adopt(machine, spent, entries)

    def _adopt(self, machine: Machine, spent: Spent, entries: list[journal.Entry]) -> None:
        """Move the state past these entries, which `machine` and `spent` include."""
        self.machine, self.spent = machine, spent
        for entry in entries:
            self.next.apply(entry)
            self.size.apply(entry)
            self.head, payload = entry.seq, entry.payload
            if (
                isinstance(
                    payload,
                    journal.ReplyReceived
                    | journal.RequestFailed
                    | journal.CallFinished
                    | journal.SteeringAdded
                    | journal.Compacted,
                )
                and payload.usage
            ):
                self.usage += payload.usage
                self.cost = self.cost + Decimal(payload.cost) if self.cost is not None and payload.cost else None
            if isinstance(payload, journal.ReplyReceived):
                self.last, self.reply_seq = payload.message, entry.seq
                self.last_run.reply, self.last_run.replied_at = payload, entry.time_ms / 1000
            elif isinstance(payload, journal.MessageAdded):
                is_same = bool(payload.key) and payload.key in self.keyed_runs
                run = self.last_run = self.keyed_runs[payload.key] if is_same else KeyedRun(())
                run.messages, run.configured = (*run.messages, payload.message), self.next.configured
                if payload.key:
                    self.keyed_runs[payload.key] = run
            elif isinstance(payload, journal.MetadataChanged):
                self.metadata = payload.metadata
            elif isinstance(payload, journal.SubSessionLinked) and payload.background_tool:
                self.background[payload.session] = payload.background_tool
            elif isinstance(payload, journal.SteeringAdded):
                self.background.pop(payload.session, None)
