"""Sessions kept in memory, for as long as the process lives: for trying things out, and for tests.

It is also the plain statement of what a store does. The stores that keep sessions on disk are tested against it.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Literal, Self

from tenuto.core.journal import VERSION, Entry, EntryDraft, SessionMeta, session_meta_of, sha256_hex
from tenuto.errors import LeaseLost, SessionInUse, SessionNotFound, StoreCorrupt, StoreError
from tenuto.store import ids
from tenuto.store.checks import earlier_version, faults_in, forked_meta
from tenuto.store.ids import check_id, check_name, only_match, places_back
from tenuto.store.protocol import (
    BLOB,
    Lease,
    ProgressCallback,
    SearchHit,
    SessionPage,
    StoredSession,
    StoreStats,
    VerifyProblem,
)
from tenuto.store.search import text_of
from tenuto.store.sessions import is_live
from tenuto.store.words import snippet_of, tokenize

__all__ = ["Memory", "MemoryStore", "forgotten", "shared"]


class _Row:
    """One session: its own entries, without those it shares with the session it was forked off."""

    def __init__(self, id: str, *, parent: _Row | None = None, forked_at: int = 0) -> None:
        self.id = id
        self.parent = parent
        self.forked_at = forked_at
        self.entries: list[Entry] = []
        self.ids: set[str] = set()
        self.meta = SessionMeta(id=id)
        self.name = ""
        self.archived = False
        self.fence = 0
        self.owner = ""
        self.until = 0
        self.holder = (0, "")

    @property
    def head(self) -> int:
        return self.forked_at + len(self.entries)

    @property
    def there(self) -> bool:
        """A session comes into being with its first entry; before that, there is only somebody who means to write it."""
        return self.head > 0 or self.parent is not None

    def read(self, after: int, upto: int) -> list[Entry]:
        """Each ancestor gives what it has up to where the next one branched off, and never more than was asked for."""
        pieces: list[list[Entry]] = []
        row: _Row | None = self
        while row is not None and upto > after:
            first = max(after - row.forked_at, 0)
            pieces.append(row.entries[first : max(upto - row.forked_at, 0)])
            upto = min(upto, row.forked_at)
            row = row.parent
        return [entry for piece in reversed(pieces) for entry in piece]

    def descends_from(self, other: _Row) -> bool:
        row = self.parent
        while row is not None and row is not other:
            row = row.parent
        return row is not None


class Memory:
    """What several `MemoryStore`s share when they are to see the same sessions."""

    def __init__(self) -> None:
        self.rows: dict[str, _Row] = {}
        self.blobs: dict[str, bytes] = {}
        """Large bodies by digest: each is there once, and stays until it is collected."""


_SHARED: dict[str, Memory] = {}


def shared(name: str) -> Memory:
    """Return the memory of a name: all of this process who ask for it get the same."""
    return _SHARED.setdefault(name, Memory())


def forgotten(name: str) -> None:
    """Let go of the memory of a name."""
    _SHARED.pop(name, None)


class MemoryStore:
    """Keeps sessions in memory. Two stores over one `Memory` are to each other like two processes over one file.

    `now` gives milliseconds since 1970 and `new_id` ids for forks; a lease lapses after `ttl_ms` unless it is used.
    """

    def __init__(
        self,
        memory: Memory | None = None,
        *,
        now: Callable[[], int] | None = None,
        new_id: Callable[[], str] | None = None,
        ttl_ms: int = 60_000,
        host: str | None = None,
        pid: int | None = None,
    ) -> None:
        self._memory = Memory() if memory is None else memory
        self._now = now or (lambda: time.time_ns() // 1_000_000)
        self._new_id = new_id or (lambda: ids.new_id(self._now()))
        self._ttl = ttl_ms
        self._me = (os.getpid() if pid is None else pid, socket.gethostname() if host is None else host)
        self._held: dict[str, Lease] = {}
        self._closed = False

    # --- writing ---

    async def lease(self, session: str, *, takeover: bool = False) -> Lease:
        """Take the right to write a session."""
        self._open()
        row = self._memory.rows.get(check_id(session)) or _Row(session)
        if self._is_held(row) and not takeover:
            raise _in_use(row, self._me)
        self._memory.rows[session] = row
        row.fence += 1
        row.owner, row.holder = secrets.token_hex(8), self._me
        return self._renewed(row)

    async def append(self, lease: Lease, drafts: Sequence[EntryDraft], *, release: bool = False) -> Lease:
        """Add entries after the head, all or none."""
        added = self._appended(lease, drafts)
        if release:
            await self.release(added)
        return added

    def _appended(self, lease: Lease, drafts: Sequence[EntryDraft]) -> Lease:
        row = self._row_of(lease)
        if row.head != lease.head:
            written = row.read(lease.head, row.head)
            if [(entry.id, entry.digest) for entry in written] != [(draft.id, draft.digest) for draft in drafts]:
                raise StoreError(
                    f"session {row.id!r} has {row.head} entries, and this lease was last used at {lease.head}: "
                    "append with the lease that the last append returned"
                )
            return self._renewed(row)
        ids = [draft.id for draft in drafts]
        if len({*ids}) < len(ids) or not row.ids.isdisjoint(ids):
            raise StoreError(f"session {row.id!r} has an entry with the id of one of these already")
        for draft in drafts:
            self._add(row, draft)
        return self._renewed(row)

    async def renew(self, lease: Lease) -> Lease:
        """Hold on to a lease for its time from now on."""
        return self._renewed(self._row_of(lease))

    async def release(self, lease: Lease) -> None:
        """Let go; a lease that is lost already is no error."""
        row = self._memory.rows.get(lease.session)
        if row is not None and (row.fence, row.owner) == (lease.fence, lease.owner):
            row.owner, row.until, row.holder = "", 0, (0, "")
            self._held.pop(lease.session, None)

    async def fork(self, session: str, *, at: int | None = None, id: str = "") -> str:
        """Branch a session off; the entries are shared."""
        row = self._found(session)
        at = row.head if at is None else at
        if not 0 <= at <= row.head:
            raise ValueError(f"session {session!r} has entries 1 to {row.head}: it cannot be forked at {at}")
        new = check_id(id or self._new_id())
        if new in self._memory.rows:
            raise StoreError(f"there is a session {new!r} already")
        branch = _Row(new, parent=row, forked_at=at)
        branch.meta = forked_meta(session_meta_of(new, row.read(0, at)), new, self._now())
        self._memory.rows[new] = branch
        return new

    async def rename(self, session: str, name: str) -> None:
        """Call a session something."""
        row = self._found(session)
        if check_name(name) and any(other.name == name for other in self._rows() if other is not row):
            raise ValueError(f"another session is called {name!r}")
        row.name = name

    async def archive(self, session: str, *, archived: bool = True) -> None:
        """Put a session away, or fetch it back."""
        self._found(session).archived = archived

    async def delete(self, session: str, *, children: bool = False) -> tuple[str, ...]:
        """Remove a session for good, with what was forked off it if that is wanted."""
        row = self._found(session)
        below = [other for other in self._memory.rows.values() if other.descends_from(row)]
        if below and not children:
            raise StoreError(f"session {session!r} has forks: {', '.join(sorted(other.id for other in below)[:5])}")
        for other in (row, *below):
            if self._is_held(other):
                raise _in_use(other, self._me)
        for other in (row, *below):
            del self._memory.rows[other.id]
        return tuple(other.id for other in (row, *below))

    # --- reading ---

    async def read(self, session: str, *, after: int = 0, upto: int | None = None) -> list[Entry]:
        """Return the entries, oldest first."""
        row = self._found(session)
        entries = row.read(max(after, 0), row.head if upto is None else min(upto, row.head))
        for entry in entries:
            if sha256_hex(entry.body) != entry.digest:
                raise StoreCorrupt(f"entry {entry.seq} of session {session!r} is damaged: its digest differs")
            if entry.version < VERSION:
                raise earlier_version(session, entry.seq, entry.version)
        return entries

    async def session(self, session: str) -> StoredSession:
        """Return what a list would show of one session."""
        return self._shown(self._found(session))

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
        """List sessions, newest first. A page begins where the one before ended, whatever changed between them."""
        rows = self._listed(agent, order)
        rows = [row for row in rows if status in (None, row.meta.status) and archived in (None, row.archived)]
        if after:
            when, _, id = after.partition(".")
            rows = [row for row in rows if _place(row, order) < (int(when), id)]
        shown = tuple(self._shown(row) for row in rows[: max(limit, 1)])
        more = len(rows) > len(shown)
        return SessionPage(shown, "{}.{}".format(*_place(rows[len(shown) - 1], order)) if more else "")

    async def forks(self, session: str) -> list[str]:
        """Return the ids of the sessions that were forked from this one, in order."""
        row = self._found(session)
        return sorted(other.id for other in self._rows() if other.parent is row)

    async def find(self, text: str, *, agent: str | None = None) -> str:
        """Return the id that is meant: an id, a name, `last`, `~N`, or the beginning of one id only."""
        if not text:
            raise SessionNotFound("no session is called by an empty name")
        rows = self._listed(agent, "updated")
        back = places_back(text)
        if back is not None:
            return only_match(text, [row.id for row in rows if not row.archived][back : back + 1])
        there = {row.id: row for row in self._rows()}
        named = [text] if text in there else [row.id for row in there.values() if row.name == text]
        if named:
            return only_match(text, named)
        return only_match(text, [row.id for row in rows if row.id.startswith(text)])

    async def search(self, words: str, *, limit: int = 20) -> list[SearchHit]:
        """Find the entries in which all the words occur, those with the most occurrences first."""
        wanted = tokenize(words)
        hits: list[tuple[int, SearchHit]] = []
        for row in self._rows() if wanted else ():
            for entry in row.entries:
                text = text_of(entry.payload)
                said = tokenize(text)
                if {*wanted} <= {*said}:
                    count = sum(said.count(word) for word in wanted)
                    hits.append((count, SearchHit(row.id, entry.seq, snippet_of(text, wanted))))
        return [hit for _, hit in sorted(hits, key=lambda pair: -pair[0])[:limit]]

    # --- keeping house ---

    async def stats(self) -> StoreStats:
        """Count."""
        rows, blobs = list(self._rows()), self._memory.blobs.values()
        small = [entry.body for row in rows for entry in row.entries if len(entry.body) <= BLOB]
        kept = sum(map(len, blobs))
        return StoreStats(
            sessions=len(rows),
            entries=sum(len(row.entries) for row in rows),
            bytes=sum(map(len, small)) + kept,
            blobs=len(blobs),
            blob_bytes=kept,
            schema=1,
            backend="memory",
        )

    async def verify(self, session: str | None = None, *, tell: ProgressCallback | None = None) -> list[VerifyProblem]:
        """Look for damage."""
        rows = [self._found(session)] if session is not None else list(self._rows())
        found: list[VerifyProblem] = []
        for done, row in enumerate(rows, 1):
            found += faults_in(row.id, row.head, row.read(0, row.head))
            if tell is not None and session is None:
                tell(done, len(rows))
        return found

    async def gc(self) -> int:
        """Remove what nothing refers to any more."""
        self._open()
        memory = self._memory
        idle = [row.id for row in memory.rows.values() if not row.there and not self._is_held(row)]
        for id in idle:
            del memory.rows[id]
        used = {entry.digest for row in memory.rows.values() for entry in row.entries}
        unused = [digest for digest in memory.blobs if digest not in used]
        return sum(len(memory.blobs.pop(digest)) for digest in unused)

    async def reindex(self) -> int:
        """Return the number of entries that can be found by words; there is no index to make anew."""
        return sum(1 for row in self._rows() for entry in row.entries if text_of(entry.payload))

    async def backup(self, to: str) -> None:
        """Refuse: a copy of what is in memory would be a store of another kind."""
        raise StoreError(f"sessions in memory cannot be copied to {to!r}; export them one by one")

    async def close(self) -> None:
        """Let go of everything; leases that are held are released."""
        for lease in list(self._held.values()):
            await self.release(lease)
        self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- parts ---

    def _open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed")

    def _rows(self) -> Iterator[_Row]:
        self._open()
        return (row for row in self._memory.rows.values() if row.there)

    def _listed(self, agent: str | None, order: Literal["updated", "created"]) -> list[_Row]:
        rows = [row for row in self._rows() if agent in (None, row.meta.agent)]
        return sorted(rows, key=lambda row: _place(row, order), reverse=True)

    def _found(self, session: str) -> _Row:
        self._open()
        row = self._memory.rows.get(session)
        if row is None or not row.there:
            raise SessionNotFound(f"there is no session {session[:80]!r}")
        return row

    def _row_of(self, lease: Lease) -> _Row:
        self._open()
        row = self._memory.rows.get(lease.session)
        if row is None or (row.fence, row.owner) != (lease.fence, lease.owner):
            raise LeaseLost(f"session {lease.session!r} was taken over by somebody else; nothing was written")
        return row

    def _is_held(self, row: _Row) -> bool:
        """A holder on this machine lives as long as this memory; of another machine, the time decides."""
        if row.holder[1] == self._me[1]:
            return bool(row.owner)
        return is_live(row.owner, row.until, self._now(), self._ttl)

    def _renewed(self, row: _Row) -> Lease:
        row.until = self._now() + self._ttl
        lease = Lease(session=row.id, owner=row.owner, fence=row.fence, head=row.head, until=row.until)
        self._held[row.id] = lease
        return lease

    def _add(self, row: _Row, draft: EntryDraft) -> None:
        digest = draft.digest
        body = self._memory.blobs.setdefault(digest, draft.body) if len(draft.body) > BLOB else draft.body
        entry = Entry(
            row.head + 1, draft.id, draft.time_ms, row.fence, draft.kind, body, digest, draft.payload, draft.version
        )  # fmt: skip
        row.entries.append(entry)
        row.ids.add(draft.id)
        row.meta = row.meta.after(draft.payload, draft.time_ms)

    def _shown(self, row: _Row) -> StoredSession:
        return StoredSession(
            id=row.id,
            head=row.head,
            meta=row.meta,
            name=row.name,
            parent=row.parent.id if row.parent else "",
            forked_at=row.forked_at,
            archived=row.archived,
            holder="{}@{}".format(*row.holder) if self._is_held(row) else "",
        )


def _place(row: _Row, order: Literal["updated", "created"]) -> tuple[int, str]:
    return (row.meta.updated_at if order == "updated" else row.meta.created_at, row.id)


def _in_use(row: _Row, me: tuple[int, str]) -> SessionInUse:
    pid, host = row.holder
    return SessionInUse(row.id, pid=pid, host=host, own=row.holder == me)
