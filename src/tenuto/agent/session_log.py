"""A session as it is kept: the right to write it, and everything that follows from its entries.

What is appended is committed when `append` returns. Acts that are given while a write is under way go out together in the
next one. What follows from the entries (`machine`, the transcript, what was spent) moves with the commit, never before
it: a write that fails leaves everything as it was.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal

import msgspec

from tenuto.agent.limits import Spent
from tenuto.agent.machine import Machine
from tenuto.core.journal import (
    CallFinished,
    Configured,
    Entry,
    EntryDraft,
    EntryPayload,
    ReplyReceived,
    RequestFailed,
    unknown_payloads_in,
)
from tenuto.core.messages import AssistantMessage, Usage
from tenuto.core.next_request import ConfigurationError, NextRequest, Tools
from tenuto.core.request import ChatRequest
from tenuto.core.stored import make_draft
from tenuto.core.transcript import Transcript
from tenuto.errors import LeaseLost, SessionNotFound, StoreError, TenutoError
from tenuto.store.protocol import Lease, Store

__all__ = ["IdSource", "SessionLog", "own_clock"]

logger = logging.getLogger("tenuto")

_Append = tuple[tuple[EntryPayload, ...], bool, asyncio.Future[None]]
"""Acts that wait to be written, whether they end a run, and who waits for it."""


class IdSource(msgspec.Struct, frozen=True):
    """Where times and ids come from: milliseconds since 1970, and a new id for each entry."""

    now: Callable[[], int]
    new_id: Callable[[], str]


def own_clock() -> IdSource:
    """Return the clock of this machine, and ids by time and chance: those that grow lie side by side in a store."""
    return IdSource(_now, lambda: f"{_now():012x}{secrets.token_hex(8)}")


def _now() -> int:
    return time.time_ns() // 1_000_000


class SessionLog:
    """One session of a store."""

    def __init__(self, store: Store, id: str, clock: IdSource, *, new: bool) -> None:
        self.id = id
        self._new = new
        self._store = store
        self._clock = clock
        self._lease: Lease | None = None
        self.keep_lease = False
        """Whether the lease is kept at the end of a run. Otherwise it is released with the last entry."""
        self._doubt = False
        self._releasing = False
        self._waiting: list[_Append] = []
        self._writing: asyncio.Task[None] | None = None
        self._unwritten: list[tuple[int, CallFinished]] = []
        self.head = 0
        self.replied_at = 0
        self.machine = Machine()
        self.spent = Spent()
        self.usage = Usage()
        self.cost: Decimal | None = Decimal(0)
        self.last: AssistantMessage | None = None
        self.asking = NextRequest()

    # --- reading ---

    async def read(self) -> None:
        """Read what is there and was not read before. Raise `StoreError` for entries that a later version wrote."""
        self._apply(await self._store.read(self.id, after=self.head))
        self._new = False

    def transcript(self) -> Transcript:
        """The conversation as the model is to see it, without the system's words."""
        return self.asking.transcript()

    def next_request(self, tools: Tools | None = None, headers: Mapping[str, str] | None = None) -> ChatRequest:
        """Build the next request; raise `StoreError` if the session has no configuration that this version knows."""
        try:
            return self.asking.request(tools, headers)
        except ConfigurationError as exc:
            raise StoreError(str(exc)) from None

    @property
    def configured(self) -> Configured | None:
        """What the session asks with; None as long as nothing was said in it."""
        return self.asking.configured

    @property
    def held(self) -> bool:
        """Whether this session may be written from here."""
        return self._lease is not None

    @property
    def fence(self) -> int:
        """The number of this hold; 0 without one."""
        return 0 if self._lease is None else self._lease.fence

    def today(self) -> date:
        """The day by the clock of the entries, in UTC."""
        return datetime.fromtimestamp(self._clock.now() / 1000, UTC).date()

    async def entries(self) -> list[Entry]:
        """Read the journal; a session in which nothing was said has none."""
        return await self._store.read(self.id) if self.head else []

    def sibling(self, id: str, *, new: bool = False) -> SessionLog:
        """Return another session of the same store."""
        return SessionLog(self._store, id, self._clock, new=new)

    # --- writing ---

    async def acquire(self, *, takeover: bool = False) -> None:
        """Take the right to write, unless it is held, and read what others wrote meanwhile.

        Raise `SessionInUse` while somebody else holds it, unless `take`.
        """
        if self._lease is None:
            lease = await self._store.lease(self.id, takeover=takeover)
            try:
                if lease.head and self._new and not self._doubt:
                    raise StoreError(f"there is a session {self.id!r} already: resume it, or choose another id")
                if lease.head != self.head:
                    await self.read()
            except BaseException:
                await asyncio.shield(self._store.release(lease))
                raise
            self._lease = msgspec.structs.replace(lease, head=self.head)
            self._doubt = False
        elif self._doubt:
            await self._resync()
        await self.flush()

    async def release(self) -> None:
        """Give the right to write back."""
        await self._written()
        lease, self._lease = self._lease, None
        if lease is not None:
            await self._store.release(lease)

    async def append(self, *acts: EntryPayload, last: bool = False) -> None:
        """Write acts, all or none; they are on the disk when this returns.

        `last`: they end a run. The lease is released with them unless `keep_lease` is set.

        Whoever is cancelled meanwhile stops waiting; what was given is written all the same, before anything else is.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((acts, last, done))
        if self._writing is None:
            self._begin()
        await done

    async def record(self, result: CallFinished) -> None:
        """Write the result of a call. If the store fails, keep it: `flush` writes it.

        Raise `LeaseLost` if another process owns the session now.
        """
        try:
            await self.append(result)
        except LeaseLost:
            raise
        except StoreError as exc:
            logger.warning("session %s: a tool result was not written yet: %s", self.id, exc)
            self._unwritten.append((self.replied_at, result))

    async def flush(self) -> None:
        """Write the results that the store did not take before. Raise `StoreError` if it fails again."""
        if self._unwritten and self._doubt:
            await self._resync()
        results = [
            result
            for reply, result in self._unwritten
            if reply == self.replied_at and self.machine.calls[result.call_index].open
        ]
        if results:
            await self.append(*results)
        self._unwritten.clear()

    async def settled(self) -> None:
        """Wait until nothing is being written, and it is known what was."""
        await self._written()
        if self._doubt:
            await self._resync()

    async def _written(self) -> None:
        while self._writing is not None:
            await asyncio.wait({self._writing})

    def _begin(self) -> None:
        self._writing = asyncio.get_running_loop().create_task(self._write())
        self._writing.add_done_callback(self._ended)

    def _ended(self, _: asyncio.Task[None]) -> None:
        """A loop that ends cancels every task, also one that has not begun: what was given to it is written all the same."""
        self._writing = None
        if self._waiting:
            self._begin()

    async def _write(self) -> None:
        batch: list[_Append] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                acts = tuple(act for given, _, _ in batch for act in given)
                release = batch[-1][1] and not self.keep_lease
                [outcome] = await asyncio.gather(self._commit(acts, release), return_exceptions=True)
                for _, _, done in batch:
                    _tell(done, outcome)
        finally:
            for _, _, done in batch:  # nobody waits for what will not be told
                done.cancel()

    async def _commit(self, acts: tuple[EntryPayload, ...], release: bool) -> None:
        if self._lease is None:
            raise StoreError(f"session {self.id!r} is not held here, and cannot be written: say something, or go on")
        if self._doubt:
            await self._resync()
        machine = self.machine.copy()
        for act in acts:
            machine.apply(act)
        drafts = [make_draft(act, id=self._clock.new_id(), time_ms=self._clock.now()) for act in acts]
        self._releasing, fence = release, self.fence
        try:
            self._lease = await self._store.append(self._lease, drafts, release=release)
        except LeaseLost:
            self._lease = None  # the next run acquires it again, and reads what was written meanwhile
            self._unwritten.clear()  # the other process decides about these calls
            raise
        except BaseException:
            self._doubt = True  # it may be there all the same: that is looked up before anything else is written
            raise
        self._new = False
        if release:
            self._lease = None
        self._adopt(machine, [_entry(draft, self.head + at, fence) for at, draft in enumerate(drafts, 1)])

    async def _resync(self) -> None:
        """The last write failed, and nobody knows how far it came: read on, and write behind what is there."""
        if self._lease is not None:  # writes are done in their order: behind this one, none is under way any more
            try:
                self._lease = await self._store.renew(self._lease)
            except LeaseLost:
                self._lease = None
                if not self._releasing:
                    raise
                self._lease = await self._store.lease(self.id)  # the failed write released it
        try:
            await self.read()
        except SessionNotFound:
            if self.head:
                raise
        if self._lease is not None:
            self._lease = msgspec.structs.replace(self._lease, head=self.head)
        self._doubt = False

    def _apply(self, entries: list[Entry]) -> None:
        """Apply entries that were read. All of them are checked before anything changes."""
        strange = next(unknown_payloads_in(entries), None)
        if strange is not None:
            raise StoreError(
                f"session {self.id!r} cannot be resumed: entry {strange.seq} ({strange.kind}) was written by a later "
                "version of tenuto; it can be shown and exported, or resumed with that version"
            )
        machine = self.machine.copy()
        for entry in entries:
            try:
                machine.apply(entry.payload)
            except TenutoError as exc:
                exc.add_note(f"entry {entry.seq} of session {self.id!r}")
                raise
        self._adopt(machine, entries)

    def _adopt(self, machine: Machine, entries: list[Entry]) -> None:
        """Move everything that is derived from the journal past these entries; `machine` has taken them."""
        self.machine = machine
        for entry in entries:
            self.asking.apply(entry)
            self.spent.record(entry.payload)
            self._note(entry.payload, entry.seq)
            self.head = entry.seq

    def _note(self, act: object, seq: int) -> None:
        if isinstance(act, ReplyReceived | RequestFailed | CallFinished) and act.usage is not None:
            self.usage += act.usage
            self.cost = self.cost + Decimal(act.cost) if self.cost is not None and act.cost else None
        if isinstance(act, ReplyReceived):
            self.last, self.replied_at = act.message, seq


def _tell(done: asyncio.Future[None], outcome: BaseException | None) -> None:
    """Answer who waits, if anybody still does."""
    if done.done():
        return
    if outcome is None:
        done.set_result(None)
    else:
        done.set_exception(outcome)
        done.exception()  # whoever is gone by then misses nothing: the next write says it again


def _entry(draft: EntryDraft, seq: int, fence: int) -> Entry:
    return Entry(seq, draft.id, draft.time_ms, fence, draft.kind, draft.body, "", draft.payload, draft.version)
