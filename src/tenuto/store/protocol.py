"""What a store promises, whatever it keeps sessions in.

* `append` is one transaction: all of its entries or none, at the head and under the fence of the lease, durable when it
  returns. Its cost does not depend on the length of the session. The same drafts sent again are the same entries: a
  caller who does not know whether an append arrived sends it again.
* A lease says who may write. Its fence grows with every holder, so whoever lost a lease is told `LeaseLost` by the next
  write, however late. A live holder refuses others (`SessionInUse`): on the same machine whatever the clock says. A dead
  holder on the same machine is replaced at once, on another machine after the lease's time. Only the process that took a
  lease can use it.
* Reading, listing, searching and showing write nothing, and need no lease.
* Nothing is ever overwritten, and nothing but `delete` removes an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias

import msgspec

from tenuto.core.journal import Entry, EntryDraft, SessionMeta

__all__ = [
    "BLOB",
    "ID",
    "Lease",
    "ProgressCallback",
    "SearchHit",
    "SessionPage",
    "Store",
    "StoreStats",
    "StoredSession",
    "VerifyProblem",
]

ProgressCallback: TypeAlias = Callable[[int, int], object]
"""Hears how much of something long is done, and how much there is to do."""

ID = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
"""What a session's id looks like, in full."""
BLOB = 64 * 1024
"""Bodies with more bytes than this are kept apart, once for each content."""


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to write a session. `head` is the number of its last entry when the lease was taken or last used.

    `owner` tells this holder from all others; `until` is when it lapses, in milliseconds by the store's own clock, unless
    it is used or renewed before. (Whether each use renews it, or only one that comes when some of its time is gone, is the
    store's own affair.)
    """

    session: str
    owner: str
    fence: int
    head: int
    until: int = 0


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session as a list shows it. `parent` and `forked_at` say where it branched off, `name` how its user calls it."""

    id: str
    head: int
    meta: SessionMeta
    name: str = ""
    parent: str = ""
    forked_at: int = 0
    archived: bool = False
    holder: str = ""
    """Who holds it, as `pid@host`; empty if nobody does."""


class SessionPage(msgspec.Struct, frozen=True):
    """Some sessions, and what to pass as `after` to get the next ones; empty at the end."""

    sessions: tuple[StoredSession, ...]
    next: str = ""


class SearchHit(msgspec.Struct, frozen=True):
    """An entry that a search found, with a piece of its text around the words."""

    session: str
    seq: int
    snippet: str


class StoreStats(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is."""

    sessions: int
    entries: int
    bytes: int
    blobs: int
    blob_bytes: int
    schema: int
    backend: str
    """What keeps it, with its version."""


class VerifyProblem(msgspec.Struct, frozen=True):
    """Something that `verify` found wrong: in which session, at which entry (0: the session itself), and what."""

    session: str
    seq: int
    what: str


class Store(Protocol):
    """Keeps sessions. Every method may raise `StoreError`; `SessionNotFound` for a session that is not there."""

    # --- writing ---

    async def lease(self, session: str, *, takeover: bool = False) -> Lease:
        """Take the right to write a session; one that is not there yet comes into being with its first entry.

        Raise `SessionInUse` while somebody else holds it, unless `take`; `ValueError` for an id that is none.
        """

    async def append(self, lease: Lease, drafts: Sequence[EntryDraft], *, release: bool = False) -> Lease:
        """Add entries after the head, all or none, and return the lease with the new head. Raise `LeaseLost`.

        With `release` the lease is released in the same transaction; the lease that is returned cannot be used again.
        """

    async def renew(self, lease: Lease) -> Lease:
        """Hold on to a lease for its time from now on. Raise `LeaseLost`."""

    async def release(self, lease: Lease) -> None:
        """Let go. A lease that is lost already is no error."""

    async def fork(self, session: str, *, at: int | None = None, id: str = "") -> str:
        """Branch a session off behind entry `at` (None: its last); return the new id. The entries are shared.

        The fork has times of its own, and the status `new` until something is written to it.
        """

    async def rename(self, session: str, name: str) -> None:
        """Call a session something; an empty name takes it off. Raise `ValueError` if another has the name."""

    async def archive(self, session: str, *, archived: bool = True) -> None:
        """Put a session away, or fetch it back."""

    async def delete(self, session: str, *, children: bool = False) -> tuple[str, ...]:
        """Remove a session for good; return the ids of all that went. Raise `StoreError` if sessions that were forked
        off it live, unless they are to go with it; `SessionInUse` while it is held.
        """

    # --- reading ---

    async def read(self, session: str, *, after: int = 0, upto: int | None = None) -> list[Entry]:
        """Return the entries, oldest first: those behind `after`, up to and with `upto`.

        Raise `StoreCorrupt`, with the number of the entry, if its bytes do not match their digest, and `StoreError` for
        an entry of an earlier version.
        """

    async def session(self, session: str) -> StoredSession:
        """Return what a list would show of one session."""

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
        """List sessions, newest first; `archived=None` lists all."""

    async def forks(self, session: str) -> list[str]:
        """Return the ids of the sessions that were forked from this one itself, in order."""

    async def find(self, text: str, *, agent: str | None = None) -> str:
        """Return the id that is meant by an id, a name, the beginning of one id only, `last` or `~N` (the N-th before the
        last). Raise `SessionNotFound`, which says so if the beginning fits several.
        """

    async def search(self, words: str, *, limit: int = 20) -> list[SearchHit]:
        """Find entries by words in what was said, the most fitting first."""

    # --- keeping house ---

    async def stats(self) -> StoreStats:
        """Count."""

    async def verify(self, session: str | None = None, *, tell: ProgressCallback | None = None) -> list[VerifyProblem]:
        """Look for damage: digests, order, gaps, pairs of calls and results, blobs, heads; of one session or all.

        `tell` hears, after each session, how many were looked through and how many there are.
        """

    async def gc(self) -> int:
        """Remove what nothing refers to any more; return how many bytes that were."""

    async def reindex(self) -> int:
        """Make what searches look into anew; return the number of entries in it."""

    async def backup(self, to: str) -> None:
        """Write a copy that is consistent, while others write, to a file that must not exist yet. Not every store can."""

    async def close(self) -> None:
        """Let go of everything. Leases that are held are released."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
