"""A store in memory, for experiments and tests.

It is also the simplest implementation of a store: the others are tested against it.
"""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Literal, Self

from tenuto.core import stored
from tenuto.core.inbox import InboxItem, PostedItem, UnknownItem
from tenuto.core.journal import VERSION, Entry, EntryDraft, SessionMeta, session_meta_of, sha256_hex
from tenuto.errors import InboxNotEmpty, LeaseLost, SessionInUse, SessionNotFound, StoreCorrupt, StoreError
from tenuto.store import budgets, ids
from tenuto.store.driver import tokenize
from tenuto.store.entries import earlier_version
from tenuto.store.ids import check_entry_id, check_id, check_name, only_match, places_back
from tenuto.store.leases import check_lease_options, lease_lost
from tenuto.store.maintenance import find_entry_problems, forked_meta
from tenuto.store.protocol import (
    BLOB,
    BudgetChange,
    BudgetMember,
    Lease,
    ProgressCallback,
    SearchHit,
    SessionPage,
    StoredSession,
    StoreStats,
    VerifyProblem,
)
from tenuto.store.search import snippet_of, text_of
from tenuto.store.sessions import TTL, check_status, is_live


class _Row:
    """One session with its own entries, without those it shares with its parent."""

    def __init__(self, id: str, *, parent: _Row | None = None, forked_at: int = 0) -> None:
        self.id = id
        self.parent = parent
        self.forked_at = forked_at
        self.entries: list[Entry] = []
        self.ids: set[str] = set()
        self.inbox: list[PostedItem] = []
        self.budget: list[BudgetMember] = []
        self.meta = SessionMeta(id=id)
        self.name = ""
        self.archived = False
        self.fence = 0
        self.owner = ""
        self.generation = 0
        self.until = 0
        self.ttl_ms = 0
        self.holder = (0, "")

    @property
    def head(self) -> int:
        return self.forked_at + len(self.entries)

    @property
    def exists(self) -> bool:
        """Whether the session has an entry or is a fork; otherwise a process only holds its lease."""
        return self.head > 0 or self.parent is not None

    def read(self, after: int, upto: int) -> list[Entry]:
        """Return the entries after `after` up to `upto`, those before the fork point from the ancestors."""
        parts: list[list[Entry]] = []
        row: _Row | None = self
        while row is not None and upto > after:
            first = max(after - row.forked_at, 0)
            parts.append(row.entries[first : max(upto - row.forked_at, 0)])
            upto = min(upto, row.forked_at)
            row = row.parent
        return [entry for part in reversed(parts) for entry in part]

    def has_entry(self, id: str) -> bool:
        """Return whether an entry has this id, also a shared one."""
        return id in self.ids or any(entry.id == id for entry in self.read(0, self.forked_at))

    def descends_from(self, other: _Row) -> bool:
        row = self.parent
        while row is not None and row is not other:
            row = row.parent
        return row is not None


class Memory:
    """The data that several `MemoryStore`s share."""

    def __init__(self) -> None:
        self.rows: dict[str, _Row] = {}
        self.blobs: dict[str, bytes] = {}
        """Large bodies by digest, until `gc` removes them."""
        self.item_numbers = itertools.count(1)


_SHARED: dict[str, Memory] = {}


def shared_memory(name: str) -> Memory:
    """Return the memory of this process that has this name."""
    return _SHARED.setdefault(name, Memory())


def forget_memory(name: str) -> None:
    """Forget a shared memory."""
    _SHARED.pop(name, None)


class MemoryStore:
    """A store in memory. Two stores with one `Memory` behave like two processes with one file.

    `now` returns milliseconds since 1970 and `new_id` ids for forks and inbox items.
    """

    def __init__(
        self,
        memory: Memory | None = None,
        *,
        now: Callable[[], int] | None = None,
        new_id: Callable[[], str] | None = None,
        ttl_ms: int = TTL,
        host: str | None = None,
        pid: int | None = None,
    ) -> None:
        self._memory = Memory() if memory is None else memory
        self._now = now or (lambda: time.time_ns() // 1_000_000)
        self._new_id = new_id or (lambda: ids.new_id(self._now()))
        self._ttl_ms = ttl_ms
        self._holder = (os.getpid() if pid is None else pid, socket.gethostname() if host is None else host)
        self._leases: dict[str, Lease] = {}
        self._closed = False

    # --- writing ---

    async def lease(
        self,
        session: str,
        *,
        takeover: bool = False,
        owner: str = "",
        generation: int = 0,
        ttl: float | None = None,
    ) -> Lease:
        self._check_open()
        row = self._memory.rows.get(check_id(session)) or _Row(session)
        owner, ttl_ms = check_lease_options(owner, generation, ttl)
        held, same_owner = self._is_held(row), row.owner == owner
        if held and not same_owner and not takeover:
            raise self._in_use(row)
        if held and same_owner and generation < row.generation:
            raise LeaseLost(f"session {session!r} is held by generation {row.generation} of owner {owner!r}")
        self._memory.rows[session] = row
        if not (held and same_owner and generation == row.generation):
            row.fence += 1
        row.owner, row.generation, row.holder = owner, generation, self._holder
        row.ttl_ms = ttl_ms or self._ttl_ms
        return self._renew(row)

    async def append(
        self,
        lease: Lease,
        drafts: Sequence[EntryDraft],
        *,
        release: bool = False,
        taking: Sequence[int] = (),
        unless_posted: bool = False,
        budget: BudgetChange | None = None,
    ) -> Lease:
        row = self._held_row(lease)
        if row.head != lease.head:
            written = row.read(lease.head, row.head)
            if [(entry.id, entry.digest) for entry in written] != [(draft.id, draft.digest) for draft in drafts]:
                raise StoreError(
                    f"session {row.id!r} has {row.head} entries, but this lease was last used at {lease.head}: "
                    "append with the lease that the last append returned"
                )
        else:
            self._append(row, lease, drafts, taking, unless_posted, budget)
        appended = self._renew(row)
        if release:
            await self.release(appended)
        return appended

    def _append(
        self,
        row: _Row,
        lease: Lease,
        drafts: Sequence[EntryDraft],
        taking: Sequence[int],
        unless_posted: bool,
        budget: BudgetChange | None,
    ) -> None:
        new_ids = [draft.id for draft in drafts]
        if len({*new_ids}) < len(new_ids) or not row.ids.isdisjoint(new_ids):
            raise StoreError(f"session {row.id!r} already has an entry with the id of one of these")
        other_items = [posted for posted in row.inbox if posted.number not in taking]
        if unless_posted and other_items:
            raise InboxNotEmpty(f"session {row.id!r} has new inbox items; nothing was written: take them first")
        if budget is not None:
            root = self._memory.rows.get(budget.root)
            if root is None:
                raise SessionNotFound(f"there is no session {budget.root[:80]!r}, which has the budget")
            root.budget = budgets.after_change(root.budget, budget, lease, self._is_member_live)
        row.inbox = other_items
        for draft in drafts:
            digest = draft.digest
            body = self._memory.blobs.setdefault(digest, draft.body) if len(draft.body) > BLOB else draft.body
            values = (row.head + 1, draft.id, draft.time_ms, row.fence, draft.kind, body, digest, draft.payload)
            row.entries.append(Entry(*values, draft.version))
            row.ids.add(draft.id)
            row.meta = row.meta.after(draft.payload, draft.time_ms)

    async def renew(self, lease: Lease) -> Lease:
        return self._renew(self._held_row(lease))

    async def release(self, lease: Lease) -> None:
        row = self._memory.rows.get(lease.session)
        if row is not None and (row.fence, row.owner) == (lease.fence, lease.owner):
            row.owner, row.until, row.holder = "", 0, (0, "")
            self._leases.pop(lease.session, None)

    async def post(self, session: str, item: InboxItem | UnknownItem, *, id: str = "") -> str:
        row = self._require(session)
        id, item = check_entry_id(id or self._new_id()), stored.load_item(stored.dump_item(item))
        if not row.has_entry(id) and all(posted.id != id for posted in row.inbox):
            row.inbox.append(PostedItem(next(self._memory.item_numbers), id, self._now(), item))
        return id

    async def fork(self, session: str, *, at: int | None = None, id: str = "") -> str:
        row = self._require(session)
        at = row.head if at is None else at
        if not 0 <= at <= row.head:
            raise ValueError(f"session {session!r} has entries 1 to {row.head}: it cannot be forked at {at}")
        new = check_id(id or self._new_id())
        if new in self._memory.rows:
            raise StoreError(f"there is already a session {new!r}: choose another id")
        fork = _Row(new, parent=row, forked_at=at)
        fork.meta = forked_meta(session_meta_of(new, row.read(0, at)), new, self._now())
        self._memory.rows[new] = fork
        return new

    async def rename(self, session: str, name: str) -> None:
        row = self._require(session)
        if check_name(name) and any(other.name == name for other in self._rows() if other is not row):
            raise ValueError(f"another session is called {name!r}: choose another name")
        row.name = name

    async def archive(self, session: str, *, archived: bool = True) -> None:
        self._require(session).archived = archived

    async def delete(self, session: str, *, children: bool = False) -> tuple[str, ...]:
        row = self._require(session)
        below = [other for other in self._memory.rows.values() if other.descends_from(row)]
        if below and not children:
            raise StoreError(f"session {session!r} has forks: {', '.join(sorted(other.id for other in below)[:5])}")
        for other in (row, *below):
            if self._is_held(other):
                raise self._in_use(other)
        for other in (row, *below):
            del self._memory.rows[other.id]
        return tuple(other.id for other in (row, *below))

    # --- reading ---

    async def read(self, session: str, *, after: int = 0, upto: int | None = None) -> list[Entry]:
        row = self._require(session)
        entries = row.read(max(after, 0), row.head if upto is None else min(upto, row.head))
        for entry in entries:
            if sha256_hex(entry.body) != entry.digest:
                raise StoreCorrupt(f"entry {entry.seq} of session {session!r} is damaged: its digest differs")
            if entry.version < VERSION:
                raise earlier_version(session, entry.seq, entry.version)
        return entries

    async def inbox(self, session: str) -> list[PostedItem]:
        return list(self._require(session).inbox)

    async def posted(self) -> dict[str, int]:
        return {row.id: row.inbox[-1].number for row in self._rows() if row.inbox}

    async def budget(self, root: str) -> list[BudgetMember]:
        return budgets.with_liveness(self._require(root).budget, self._is_member_live)

    async def session(self, session: str) -> StoredSession:
        return self._stored_session(self._require(session))

    async def sessions(
        self,
        *,
        agent: str | None = None,
        status: str | None = None,
        archived: bool | None = False,
        order: Literal["updated", "created"] = "updated",
        limit: int = 50,
        after: str = "",
    ) -> SessionPage:
        check_status(status)
        rows = self._sorted_rows(agent, order)
        rows = [row for row in rows if status in (None, self._status(row)) and archived in (None, row.archived)]
        if after:
            time, _, id = after.partition(".")
            rows = [row for row in rows if _sort_key(row, order) < (int(time), id)]
        page = tuple(self._stored_session(row) for row in rows[: max(limit, 1)])
        return SessionPage(
            page, "{}.{}".format(*_sort_key(rows[len(page) - 1], order)) if len(rows) > len(page) else ""
        )

    async def forks(self, session: str) -> list[str]:
        row = self._require(session)
        return sorted(other.id for other in self._rows() if other.parent is row)

    async def find(self, text: str, *, agent: str | None = None) -> str:
        if not text:
            raise SessionNotFound("the name of the session is empty")
        rows = self._sorted_rows(agent, "updated")
        back = places_back(text)
        if back is not None:
            return only_match(text, [row.id for row in rows if not row.archived][back : back + 1])
        all_rows = {row.id: row for row in self._rows()}
        named = [text] if text in all_rows else [row.id for row in all_rows.values() if row.name == text]
        return only_match(text, named or [row.id for row in rows if row.id.startswith(text)])

    async def search(self, words: str, *, limit: int = 20) -> list[SearchHit]:
        tokens = tokenize(words)
        hits: list[tuple[int, SearchHit]] = []
        for row in self._rows() if tokens else ():
            for entry in row.entries:
                text = text_of(entry.payload)
                found = tokenize(text)
                if {*tokens} <= {*found}:
                    count = sum(found.count(token) for token in tokens)
                    hits.append((count, SearchHit(row.id, entry.seq, snippet_of(text, tokens))))
        return [hit for _, hit in sorted(hits, key=lambda pair: -pair[0])[:limit]]

    # --- maintenance ---

    async def stats(self) -> StoreStats:
        rows, blobs = list(self._rows()), self._memory.blobs.values()
        small = [entry.body for row in rows for entry in row.entries if len(entry.body) <= BLOB]
        blob_bytes = sum(map(len, blobs))
        return StoreStats(
            sessions=len(rows),
            entries=sum(len(row.entries) for row in rows),
            bytes=sum(map(len, small)) + blob_bytes,
            blobs=len(blobs),
            blob_bytes=blob_bytes,
            schema=1,
            backend="memory",
        )

    async def verify(self, session: str | None = None, *, tell: ProgressCallback | None = None) -> list[VerifyProblem]:
        rows = [self._require(session)] if session is not None else list(self._rows())
        problems: list[VerifyProblem] = []
        for done, row in enumerate(rows, 1):
            problems += find_entry_problems(row.id, row.head, row.read(0, row.head))
            if tell is not None and session is None:
                tell(done, len(rows))
        return problems

    async def gc(self) -> int:
        self._check_open()
        memory = self._memory
        for row in list(memory.rows.values()):
            if not row.exists and not self._is_held(row):
                del memory.rows[row.id]
        used = {entry.digest for row in memory.rows.values() for entry in row.entries}
        unused = [digest for digest in memory.blobs if digest not in used]
        return sum(len(memory.blobs.pop(digest)) for digest in unused)

    async def reindex(self) -> int:
        """Return the number of entries with words; there is no index to rebuild."""
        return sum(1 for row in self._rows() for entry in row.entries if text_of(entry.payload))

    async def backup(self, to: str) -> None:
        raise StoreError(f"sessions in memory cannot be copied to {to!r}: export them one by one")

    async def close(self) -> None:
        for lease in list(self._leases.values()):
            await self.release(lease)
        self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- rows ---

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed")

    def _rows(self) -> Iterator[_Row]:
        self._check_open()
        return (row for row in self._memory.rows.values() if row.exists)

    def _sorted_rows(self, agent: str | None, order: Literal["updated", "created"]) -> list[_Row]:
        rows = [row for row in self._rows() if agent in (None, row.meta.agent)]
        return sorted(rows, key=lambda row: _sort_key(row, order), reverse=True)

    def _require(self, session: str) -> _Row:
        self._check_open()
        row = self._memory.rows.get(session)
        if row is None or not row.exists:
            raise SessionNotFound(f"there is no session {session[:80]!r}")
        return row

    def _held_row(self, lease: Lease) -> _Row:
        self._check_open()
        row = self._memory.rows.get(lease.session)
        if row is None or (row.fence, row.owner) != (lease.fence, lease.owner):
            raise lease_lost(lease.session)
        return row

    def _is_held(self, row: _Row) -> bool:
        """A holder on this machine lives as long as the memory; for another machine, the time decides."""
        if row.holder[1] == self._holder[1]:
            return bool(row.owner)
        return is_live(row.owner, row.until, row.ttl_ms, self._now())

    def _is_member_live(self, member: BudgetMember) -> bool:
        row = self._memory.rows.get(member.session)
        return row is not None and row.fence == member.fence and self._is_held(row)

    def _in_use(self, row: _Row) -> SessionInUse:
        pid, host = row.holder
        return SessionInUse(row.id, pid=pid, host=host, own=row.holder == self._holder)

    def _renew(self, row: _Row) -> Lease:
        row.until = self._now() + row.ttl_ms
        lease = Lease(session=row.id, owner=row.owner, fence=row.fence, head=row.head, until=row.until)
        self._leases[row.id] = lease
        return lease

    def _status(self, row: _Row) -> str:
        return "running" if self._is_held(row) else row.meta.status

    def _stored_session(self, row: _Row) -> StoredSession:
        status = self._status(row)
        return StoredSession(
            id=row.id,
            head=row.head,
            meta=row.meta,
            status=status,
            reason="" if status == "running" else row.meta.waiting_for,
            name=row.name,
            parent=row.parent.id if row.parent else "",
            forked_at=row.forked_at,
            archived=row.archived,
            holder="{}@{}".format(*row.holder) if status == "running" else "",
        )


def _sort_key(row: _Row, order: Literal["updated", "created"]) -> tuple[int, str]:
    return (row.meta.updated_at if order == "updated" else row.meta.created_at, row.id)
