"""The journal of one session: its lease, its entries, its inbox, and the state that follows from them.

`append` returns when the entries are committed. The state (`machine`, transcript, usage) changes with the commit, never
before it: a write that fails leaves it unchanged.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

import msgspec

from tenuto.agent.limits import FamilyBudget, Reservation, Spent
from tenuto.agent.machine import Machine
from tenuto.core.inbox import InboxItem, PostedItem
from tenuto.core.journal import (
    CallFinished,
    Configured,
    Entry,
    EntryDraft,
    EntryPayload,
    MessageAdded,
    ReplyReceived,
    RequestFailed,
    SteeringAdded,
    SubSessionLinked,
    unknown_payloads_in,
)
from tenuto.core.messages import AssistantMessage, Message, Usage
from tenuto.core.next_request import ConfigurationError, NextRequest, Tools
from tenuto.core.request import ChatRequest
from tenuto.core.stored import make_draft
from tenuto.core.transcript import Transcript
from tenuto.errors import BudgetExceeded, InboxNotEmpty, LeaseLost, SessionNotFound, StoreError, TenutoError
from tenuto.store.protocol import Lease, Store

logger = logging.getLogger("tenuto")


class IdSource(msgspec.Struct, frozen=True):
    """The source of times (milliseconds since 1970) and entry ids."""

    now: Callable[[], int]
    new_id: Callable[[], str]


def system_ids() -> IdSource:
    """Return the clock of this machine, and random ids that grow with time, so that they are neighbors in an index."""
    return IdSource(_now, lambda: f"{_now():012x}{secrets.token_hex(8)}")


def _now() -> int:
    return time.time_ns() // 1_000_000


class LeaseOptions(msgspec.Struct, frozen=True):
    """The lease owner that a caller chose; by default each acquisition has a random owner."""

    owner: str = ""
    generation: int = 0


class KeyedRun(msgspec.Struct):
    """A run that was started with an idempotency key: its messages and its last reply so far."""

    messages: tuple[Message, ...]
    reply: ReplyReceived | None = None
    replied_at: float = 0.0
    """The time of the reply, in Unix seconds."""


class SessionLog:
    """The journal of one session in a store."""

    def __init__(
        self, store: Store, id: str, ids: IdSource, *, new: bool = False, lease_options: LeaseOptions | None = None
    ) -> None:
        self.id = id
        self.store = store
        self.ids = ids
        self.new = new
        """Whether the session does not exist yet, as far as this process knows."""
        self.keep_lease = False
        """Whether the lease is kept at the end of a run. Otherwise it is released with the last entry."""
        self._options = lease_options or LeaseOptions()
        self._lease: Lease | None = None
        self._writing = asyncio.Lock()
        self._uncertain = False
        """Whether the last write failed or was cancelled, and may be committed nevertheless."""
        self._releasing = False
        self._in_flight: asyncio.Future[Lease] | None = None
        """The last write. It continues if its caller is cancelled."""
        self._results: list[tuple[int, CallFinished, str]] = []
        """Results that are not written yet: the sequence number of the reply with the call, the result, the sub-session."""
        self.budget: FamilyBudget | None = None
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
        self.next = NextRequest()
        self.keyed_runs: dict[str, KeyedRun] = {}
        self._key = ""
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

    def transcript(self) -> Transcript:
        """Return the conversation without the system prompt."""
        return self.next.transcript()

    def next_request(self, tools: Tools | None = None, headers: Mapping[str, str] | None = None) -> ChatRequest:
        """Build the next request. Raise `StoreError` if the session has no configuration that this version knows."""
        try:
            return self.next.request(tools, headers)
        except ConfigurationError as exc:
            raise StoreError(str(exc)) from None

    @property
    def configured(self) -> Configured | None:
        """The configuration of the session; None before its first message."""
        return self.next.configured

    @property
    def has_work(self) -> bool:
        """Whether the entries show work to do; a background sub-agent whose result has not arrived is work."""
        return self.machine.next_step() is not None or bool(self.background)

    @property
    def held(self) -> bool:
        """Whether this process holds the lease."""
        return self._lease is not None

    @property
    def fence(self) -> int:
        """The fence of the lease; 0 without a lease."""
        return 0 if self._lease is None else self._lease.fence

    def today(self) -> date:
        """Return the current day by the clock of the entries, in UTC."""
        return datetime.fromtimestamp(self.ids.now() / 1000, UTC).date()

    async def entries(self) -> list[Entry]:
        """Read the journal; a new session has no entries."""
        return await self.store.read(self.id) if self.head else []

    def sibling(self, id: str, *, new: bool = False) -> SessionLog:
        """Return the log of another session of the same store."""
        return SessionLog(self.store, id, self.ids, new=new)

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
            self._lease = msgspec.structs.replace(lease, head=self.head)
            self._uncertain = False
        await self.flush()

    async def _new_lease(self, *, takeover: bool = False) -> Lease:
        options = self._options
        return await self.store.lease(self.id, takeover=takeover, owner=options.owner, generation=options.generation)

    async def release(self) -> None:
        """Release the lease."""
        async with self._writing:
            lease, self._lease = self._lease, None
            if lease is not None:
                await self.store.release(lease)

    async def append(
        self,
        *payloads: EntryPayload,
        last: bool = False,
        taking: Sequence[PostedItem] = (),
        unless_posted: bool = False,
        reserve: Reservation | None = None,
        forget: Sequence[str] = (),
    ) -> None:
        """Write entries, all or none.

        `last`: they end a run; the lease is released with them unless `keep_lease` is set. `taking`: items that leave the
        inbox in the same transaction; the first payloads get their ids. `unless_posted`: raise `InboxNotEmpty` and write
        nothing if the inbox has other items. `reserve`: the estimate of a request; raise `BudgetExceeded`
        and write nothing if it does not fit into the budget of the family. `forget`: sub-sessions whose usage is in
        these entries.

        If the caller is cancelled, the entries are written nevertheless; the next write waits for that.
        """
        async with self._writing:
            await self._append(payloads, last, taking, unless_posted, reserve, forget)

    async def _append(
        self,
        payloads: Sequence[EntryPayload],
        last: bool = False,
        taking: Sequence[PostedItem] = (),
        unless_posted: bool = False,
        reserve: Reservation | None = None,
        forget: Sequence[str] = (),
    ) -> None:
        if self._lease is None:
            raise StoreError(f"session {self.id!r} is not held by this process: send a message or continue it")
        if self._uncertain:
            await self._resync()
        machine, spent = self.machine.copy(), copy.copy(self.spent)
        for payload in payloads:
            machine.apply(payload)
            spent.record(payload)
        ids = [*(item.id for item in taking), *(self.ids.new_id() for _ in payloads[len(taking) :])]
        drafts = [
            make_draft(payload, id=id, time_ms=self.ids.now()) for payload, id in zip(payloads, ids, strict=False)
        ]
        self._releasing, fence = last and not self.keep_lease, self.fence
        try:
            self._in_flight = asyncio.ensure_future(
                self.store.append(
                    self._lease,
                    drafts,
                    release=self._releasing,
                    taking=[item.number for item in taking],
                    unless_posted=unless_posted,
                    budget=self.budget.change(payloads, spent, reserve, forget) if self.budget is not None else None,
                )
            )
            self._lease = await asyncio.shield(self._in_flight)
        except LeaseLost:
            self._lease = None  # the next run acquires it again and reads what was written meanwhile
            self._results.clear()  # the other process decides about these calls
            raise
        except (InboxNotEmpty, BudgetExceeded):
            raise  # nothing was written
        except BaseException:
            self._uncertain = True
            raise
        if self._releasing:
            self._lease = None
        self.new = False
        taken = {item.number for item in taking}
        self.inbox = [item for item in self.inbox if item.number not in taken]
        self._adopt(
            machine, spent, [_entry(draft, self.head + number, fence) for number, draft in enumerate(drafts, 1)]
        )

    async def post(self, item: InboxItem, *, session: str = "", id: str = "") -> None:
        """Post an item to this session or to another one of the store. It is durable when this returns."""
        await self.store.post(session or self.id, item, id=id or self.ids.new_id())

    async def record(self, result: CallFinished, sub_session: str = "") -> None:
        """Write the result of a call. If the store fails or the caller is cancelled, keep it: `flush` writes it.

        `sub_session` is the session of the sub-agent that ran the call. Raise `LeaseLost` if another process holds the
        session now.
        """
        self._results.append((self.reply_seq, result, sub_session))
        try:
            await self.flush()
        except LeaseLost:
            raise
        except StoreError as exc:
            logger.warning("session %s: a tool result was not written yet: %s", self.id, exc)

    async def flush(self) -> None:
        """Write the results that are not written yet. Raise `StoreError` if the store fails."""
        if not self._results:
            return
        async with self._writing:
            if self._uncertain:
                await self._resync()
            batch, self._results = self._results, []
            new = [
                (result, session)
                for seq, result, session in batch
                if seq == self.reply_seq and self.machine.calls[result.call_index].open
            ]
            try:
                if new:
                    await self._append([one for one, _ in new], forget=[session for _, session in new if session])
            except LeaseLost:
                raise
            except BaseException:
                self._results = [*batch, *self._results]
                raise

    async def settle(self) -> None:
        """Wait until no write is active, and find out what was written."""
        async with self._writing:
            if self._uncertain:
                await self._resync()

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
            self._lease = msgspec.structs.replace(self._lease, head=self.head)
        self._uncertain = False

    # --- state ---

    def _apply(self, entries: list[Entry]) -> None:
        """Apply entries that were read. All of them are checked before anything changes."""
        unknown = next(unknown_payloads_in(entries), None)
        if unknown is not None:
            raise StoreError(
                f"session {self.id!r} cannot be resumed: entry {unknown.seq} ({unknown.kind}) was written by a later "
                "version of tenuto; it can be shown and exported, or resumed with that version"
            )
        machine, spent = self.machine.copy(), copy.copy(self.spent)
        for entry in entries:
            try:
                machine.apply(entry.payload)
            except TenutoError as exc:
                exc.add_note(f"entry {entry.seq} of session {self.id!r}")
                raise
            spent.record(entry.payload)
        self._adopt(machine, spent, entries)

    def _adopt(self, machine: Machine, spent: Spent, entries: list[Entry]) -> None:
        """Move the state past these entries, which `machine` and `spent` include."""
        self.machine, self.spent = machine, spent
        for entry in entries:
            self.next.apply(entry)
            self._note(entry)
            self.head = entry.seq

    def _note(self, entry: Entry) -> None:
        payload = entry.payload
        if (
            isinstance(payload, ReplyReceived | RequestFailed | CallFinished | SteeringAdded)
            and payload.usage is not None
        ):
            self.usage += payload.usage
            self.cost = self.cost + Decimal(payload.cost) if self.cost is not None and payload.cost else None
        if isinstance(payload, ReplyReceived):
            self.last, self.reply_seq = payload.message, entry.seq
            if self._key:
                run = self.keyed_runs[self._key]
                run.reply, run.replied_at = payload, entry.time_ms / 1000
        elif isinstance(payload, MessageAdded):
            self._key = payload.key
            if payload.key:
                run = self.keyed_runs.setdefault(payload.key, KeyedRun(()))
                run.messages = (*run.messages, payload.message)
        elif isinstance(payload, SubSessionLinked) and payload.background_tool:
            self.background[payload.session] = payload.background_tool
        elif isinstance(payload, SteeringAdded):
            self.background.pop(payload.session, None)


def _entry(draft: EntryDraft, seq: int, fence: int) -> Entry:
    return Entry(seq, draft.id, draft.time_ms, fence, draft.kind, draft.body, "", draft.payload, draft.version)
