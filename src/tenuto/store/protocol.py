"""The interface of a store and its values. Every store passes `tenuto.testing.StoreConformance`.

* `append` is one transaction: all of its entries or none, at the head and under the fence of the lease, durable when it
  returns. Its cost does not depend on the length of the session. The same append sent again is the same append: a caller
  that does not know whether an append was stored sends it again.
* A lease is the exclusive right to write a session. Its fence grows with every holder, so a write under a lost lease
  raises `LeaseLost`, however late it is. While the holder lives, others get `SessionInUse`: on the same machine whatever
  the clock says. A dead holder on the same machine is replaced at once, on another machine after the time of its lease.
  Only the process that acquired a lease can use it.
* An inbox item is posted without a lease. The holder takes it in the transaction that writes its entries.
* Reading, listing, searching and showing write nothing and need no lease.
* Entries are never changed, and only `delete` removes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias

import msgspec

from tenuto.core.inbox import InboxItem, PostedItem, UnknownItem
from tenuto.core.journal import Entry, EntryDraft, SessionMeta

ProgressCallback: TypeAlias = Callable[[int, int], object]
"""Receives how many of the items are done, and how many there are."""

BLOB = 64 * 1024  # larger bodies (in bytes) are stored in their own table, once for each content


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to write a session."""

    session: str
    owner: str
    """Identifies the holder."""
    fence: int
    """Grows with every holder of the session."""
    head: int
    """The number of the last entry when the lease was acquired or last used."""
    until: int = 0
    """When the lease ends unless it is used or renewed: milliseconds since 1970 by the clock of the store."""


class BudgetChange(msgspec.Struct, frozen=True, kw_only=True):
    """What the session of an append has spent and reserved of the budget that a family of sessions shares.

    All values are totals, not differences, so that an append can be sent again. USD are decimal numbers.
    """

    root: str
    """The session whose row has the budget."""
    spent_tokens: int = 0
    spent_usd: str = "0"
    reserved_tokens: int = 0
    """Counts until it is replaced, or until the lease of this append is released or its holder is dead."""
    reserved_usd: str = "0"
    limit_tokens: int | None = None
    """Refuse the append if the family would have spent and reserved more; None: no limit."""
    limit_usd: str | None = None
    forget: tuple[str, ...] = ()
    """Sessions to remove from the budget, because the values of another member include theirs."""
    reset: bool = False
    """Remove all other members: a new run starts."""
    single_may_exceed: bool = False
    """Accept a reservation that exceeds a limit if no other member has one and the limit is not spent yet."""

    def __post_init__(self) -> None:
        for name in ("spent_usd", "reserved_usd", "limit_usd"):
            amount = getattr(self, name)
            try:
                valid = amount is None or Decimal(amount) >= 0
            except ArithmeticError:  # not a number
                valid = False
            if not valid:
                raise ValueError(f"{name} is {amount!r}: use a decimal number that is not negative")


class BudgetMember(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One session of a family and its part of the budget."""

    session: str
    fence: int
    """The fence of the lease under which the values were written."""
    spent_tokens: int = 0
    spent_usd: str = "0"
    reserved_tokens: int = 0
    reserved_usd: str = "0"
    live: bool = False
    """Whether that lease is held, so that the reservation counts."""


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session as a list shows it."""

    id: str
    head: int
    """The number of its last entry."""
    meta: SessionMeta
    status: str = "new"
    """`new`, `running` (a live process holds the lease), `waiting`, `interrupted` (a run has begun and not ended, and no live
    process holds the lease), `completed`, `cancelled` or `failed`.
    """
    reason: str = ""
    """What a `waiting` session waits for: `approval`, `input`, `limit` or `context`."""
    name: str = ""
    """The name that the user gave it."""
    parent: str = ""
    """The session that it was forked from."""
    forked_at: int = 0
    """The number of the last entry that it shares with `parent`."""
    archived: bool = False
    holder: str = ""
    """The live holder of the lease, as `pid@host`; empty: none."""


class SessionPage(msgspec.Struct, frozen=True):
    sessions: tuple[StoredSession, ...]
    next: str = ""
    """Pass it as `after` to get the next page; empty: this is the last page."""


class SearchHit(msgspec.Struct, frozen=True):
    session: str
    seq: int
    snippet: str
    """The text around the first word."""


class StoreStats(msgspec.Struct, frozen=True, kw_only=True):
    sessions: int
    entries: int
    bytes: int
    blobs: int
    blob_bytes: int
    schema: int
    """The version of the tables."""
    backend: str
    """The database with its version."""


class VerifyProblem(msgspec.Struct, frozen=True):
    session: str
    seq: int
    """The entry; 0: the session itself."""
    what: str


class Store(Protocol):
    """Keeps sessions. Every method may raise `StoreError`; `SessionNotFound` for an unknown session."""

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
        """Acquire the right to write a session. A new session exists from its first entry on.

        `takeover`: replace a live holder, too.
        `owner`: the name of the holder; empty: a random one. A job that is delivered again names itself here.
        `generation`: the attempt of the owner. A higher one replaces the holder of the same owner at once, with a higher
        fence; the same one gets the same lease again. A holder that is dead or whose time is over is replaced whatever its
        generation.
        `ttl`: the seconds after which the lease ends unless it is used or renewed; None: the default of the store.

        Raise `SessionInUse` while another holder lives, unless `takeover`; `LeaseLost` if the owner holds the session with a
        higher generation; `ValueError` for an invalid id.
        """

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
        """Add entries after the head and return the lease with the new head.

        All of this is one transaction; if it raises, nothing was written:

        `release`: release the lease; the returned lease cannot be used again.
        `taking`: remove these inbox items by their numbers; numbers that are not in the inbox are ignored. An entry that
        an item becomes must have the id of the item.
        `unless_posted`: raise `InboxNotEmpty` if the inbox has other items than `taking`.

        `budget`: write what the session has spent and reserved to the root session of its family. Raise `BudgetExceeded` if
        that exceeds a limit, `SessionNotFound` for an unknown root.

        Raise `LeaseLost` if another holder has the session.
        """

    async def renew(self, lease: Lease) -> Lease:
        """Extend a lease by its full time from now on. Raise `LeaseLost`."""

    async def release(self, lease: Lease) -> None:
        """Release a lease. A lost lease is not an error."""

    async def post(self, session: str, item: InboxItem | UnknownItem, *, id: str = "") -> str:
        """Add an item to the inbox, without a lease; return its id. It is durable when this returns.

        The same `id` twice is one item. An id that an entry of the session has is ignored: the item was taken already.
        An empty id is replaced by a new one.
        """

    async def fork(self, session: str, *, at: int | None = None, id: str = "") -> str:
        """Create a session that shares the entries up to `at` (None: all); return its id.

        The fork has its own times, no inbox, and the status `new` until an entry is written to it.
        """

    async def rename(self, session: str, name: str) -> None:
        """Set the name of a session; an empty name removes it. Raise `ValueError` if another session has the name."""

    async def archive(self, session: str, *, archived: bool = True) -> None:
        """Hide a session from lists, or show it again."""

    async def delete(self, session: str, *, children: bool = False) -> tuple[str, ...]:
        """Delete a session; return the ids of all deleted sessions.

        Raise `StoreError` if it has forks, unless `children` deletes them too; `SessionInUse` while it is held.
        """

    # --- reading ---

    async def read(self, session: str, *, after: int = 0, upto: int | None = None) -> list[Entry]:
        """Return the entries after `after`, up to and including `upto`, oldest first.

        Raise `StoreCorrupt`, with the number of the entry, if its bytes do not match their digest, and `StoreError` for
        an entry of an earlier version.
        """

    async def inbox(self, session: str) -> list[PostedItem]:
        """Return the inbox items of a session, oldest first."""

    async def posted(self) -> dict[str, int]:
        """Return the sessions that have inbox items, each with its highest number. This is one cheap query."""

    async def budget(self, root: str) -> list[BudgetMember]:
        """Return what the sessions that share the budget of `root` have spent and reserved, in order of their ids."""

    async def session(self, session: str) -> StoredSession:
        """Return one session as a list shows it."""

    async def sessions(
        self,
        *,
        agent: str | None = None,
        status: str | None = None,
        archived: bool | None = False,
        name: str = "",
        directory: str = "",
        metadata: Mapping[str, str] | None = None,
        order: Literal["updated", "created"] = "updated",
        limit: int = 50,
        after: str = "",
    ) -> SessionPage:
        """List sessions, newest first; `archived=None` lists all. `status` is one of those of `StoredSession`.

        `name` is a text in the name or the title, in any case; `directory` a working directory of its tools; `metadata`
        keys with the values that the session must have.

        Raise `ValueError` for an unknown status.
        """

    async def forks(self, session: str) -> list[str]:
        """Return the ids of the direct forks of a session, in order."""

    async def find(self, text: str, *, agent: str | None = None) -> str:
        """Return the id for an id, a name, a unique prefix of an id, `last`, or `~N` (the N-th before the last).

        Raise `SessionNotFound`; if a prefix has several matches, the message lists them.
        """

    async def search(self, words: str, *, agent: str | None = None, limit: int = 20) -> list[SearchHit]:
        """Find the entries that contain all of the words, best matches first; `agent`: only in sessions of this agent."""

    # --- maintenance ---

    async def stats(self) -> StoreStats:
        """Count sessions, entries and bytes."""

    async def verify(self, session: str | None = None, *, tell: ProgressCallback | None = None) -> list[VerifyProblem]:
        """Find damage in one session or all: digests, order, gaps, results without calls, blobs, summaries, inboxes.

        `tell` is called after each session with the number of checked sessions and the number of all.
        """

    async def gc(self) -> int:
        """Remove data that nothing refers to; return its size in bytes."""

    async def reindex(self) -> int:
        """Rebuild the search index; return the number of entries in it."""

    async def backup(self, to: str) -> None:
        """Write a consistent copy, while others write, to a file that must not exist. Not every store supports it."""

    async def close(self) -> None:
        """Release all leases and close the store."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
