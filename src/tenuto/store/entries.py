"""Entries and inbox items: appending, posting and reading.

Each function works in the transaction that the caller has begun. `docs/store.md` describes the inbox.

A fork has only the entries after its fork point. Those before it are read from its ancestors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tenuto.core import stored
from tenuto.core.inbox import InboxItem, PostedItem, UnknownItem, item_kind
from tenuto.core.journal import OLDEST_VERSION, VERSION, Entry, EntryDraft, EntryPayload, UnknownPayload, sha256_hex
from tenuto.core.jsonio import JsonError
from tenuto.errors import InboxNotEmpty, StoreCorrupt, StoreError
from tenuto.store.driver import Arg, Driver
from tenuto.store.leases import Leases, lease_lost
from tenuto.store.protocol import BLOB, BudgetChange, Lease
from tenuto.store.schema import other_version
from tenuto.store.sessions import SessionRow, clean, columns_of, meta_of, require_session, row_of

_HEAD = """
UPDATE sessions SET head = ?, until = ?, created_at = ?, updated_at = ?, status = ?, agent = ?, meta = ?
WHERE id = ? AND owner = ? AND fence = ? AND head = ?
"""
_INSERT = """
INSERT INTO entries (rowid_key, session, seq, id, at, fence, version, kind, digest, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (session, id) DO NOTHING
"""
_INSERT_BLOB = "INSERT INTO blobs (digest, size, data) VALUES (?, ?, ?) ON CONFLICT (digest) DO NOTHING"
_BLOB = "SELECT data FROM blobs WHERE digest = ?"
_DIGESTS = "SELECT id, digest FROM entries WHERE rowid_key > ? AND rowid_key <= ? ORDER BY rowid_key"
_CHAIN = """
WITH RECURSIVE chain (n, id, parent, forked_at, depth) AS (
    SELECT n, id, parent, forked_at, 0 FROM sessions WHERE id = ?
    UNION ALL
    SELECT s.n, s.id, s.parent, s.forked_at, c.depth + 1 FROM sessions s JOIN chain c ON s.id = c.parent
    WHERE c.parent <> '' AND c.depth < 100000
)
SELECT n, forked_at FROM chain ORDER BY depth
"""
_READ = """
SELECT seq, id, at, fence, kind, body, digest, version FROM entries
WHERE rowid_key > ? AND rowid_key <= ? ORDER BY rowid_key
"""
_READ_TYPES = {"seq": int, "id": str, "at": int, "fence": int, "kind": str, "body": None, "digest": str, "version": int}
"""The types of the columns of `_READ`. A body is checked separately: large ones are in another table."""
_BODY, _DIGEST = 5, 6
_TOUCH = "UPDATE sessions SET until = until WHERE id = ?"
"""Changes nothing. Its commit ensures that the entries written before are on the disk."""


def rowid_key(session: int, seq: int) -> int:
    """Return the `rowid_key` of an entry, from its session's number `n` and its own number."""
    return (session << 32) + seq


# --- appending --------------------------------------------------------------------------------------------------------


def append(
    driver: Driver,
    leases: Leases,
    lease: Lease,
    drafts: Sequence[EntryDraft],
    *,
    release: bool = False,
    taking: Sequence[int] = (),
    unless_posted: bool = False,
    budget: BudgetChange | None = None,
) -> Lease:
    """Append as `Store.append` describes, in the open transaction. The database checks head, fence and owner."""
    held = leases.get(lease)
    if held is None:
        return _check_stored(driver, leases, lease, drafts, release=release)
    if held.head != lease.head:  # the commit of an append failed, or the append is sent again
        row = row_of(driver, lease.session)
        if row is not None:
            held.head, held.meta = row.head, meta_of(row.meta)
    meta, until, head = held.meta, leases.now(driver) + held.ttl_ms, lease.head + len(drafts)
    for draft in drafts:
        meta = meta.after(draft.payload, draft.time_ms)
    values = (head, until, *columns_of(meta), lease.session, lease.owner, lease.fence, lease.head)
    if held.head != lease.head or not driver.change(_HEAD, values):
        return _check_stored(driver, leases, lease, drafts, release=release)
    rows: list[Sequence[Arg]] = []
    for seq, draft in enumerate(drafts, lease.head + 1):
        digest, body = draft.digest, draft.body if len(draft.body) <= BLOB else None
        if body is None:
            driver.change(_INSERT_BLOB, (digest, len(draft.body), draft.body))
        kind = draft.kind if draft.kind.isascii() else clean(draft.kind)
        key = rowid_key(held.n, seq)
        rows.append((key, lease.session, seq, draft.id, draft.time_ms, lease.fence, draft.version, kind, digest, body))
    if driver.insert(_INSERT, rows) != len(rows):
        raise StoreError(f"session {lease.session!r} already has an entry with the id of one of these")
    for number in taking:
        driver.change(_TAKE, (lease.session, number))
    if unless_posted and driver.rows(_READ_INBOX, (lease.session,)):
        raise InboxNotEmpty(f"session {lease.session!r} has new inbox items; nothing was written: take them first")
    if budget is not None:
        leases.change_budget(driver, lease, budget)
    if release:
        leases.release(driver, lease)
    held.head, held.meta = head, meta
    return msgspec.structs.replace(lease, head=head, until=until)


def _check_stored(
    driver: Driver, leases: Leases, lease: Lease, drafts: Sequence[EntryDraft], *, release: bool
) -> Lease:
    """Accept entries that are stored already. Raise `LeaseLost`, or `StoreError` if the head moved for another reason.

    If the connection broke during the commit of an append that releases its lease, the append runs again, and only the
    stored entries show that it succeeded. In any case the row is written: that commit ensures that they are on the disk.
    """
    row, head = row_of(driver, lease.session), lease.head + len(drafts)
    if row is None:
        raise lease_lost(lease.session)
    is_own = leases.get(lease) is not None and (row.fence, row.owner) == (lease.fence, lease.owner)
    digests = driver.rows(_DIGESTS, (rowid_key(row.n, lease.head), rowid_key(row.n, head)))
    is_stored = bool(drafts) and digests == [(draft.id, draft.digest) for draft in drafts]
    if is_own and is_stored and row.head == head:
        lease = leases.renew(driver, lease)
        if release:
            leases.release(driver, lease)
        return lease
    if is_own:
        raise StoreError(
            f"session {lease.session!r} has {row.head} entries, but this lease was last used at {lease.head}: "
            "append with the lease that the last append returned"
        )
    if not (release and is_stored):
        raise lease_lost(lease.session)
    driver.change(_TOUCH, (lease.session,))
    return msgspec.structs.replace(lease, head=head)


def read(driver: Driver, row: SessionRow, after: int, upto: int) -> list[Entry]:
    """Return the entries after `after`, up to `upto`. Raise `StoreCorrupt` or, for an earlier version, `StoreError`."""
    rows = list(rows_of(driver, row, after, upto))
    after = max(after, 0)
    if [values[0] for values in rows] != list(range(after + 1, max(min(upto, row.head), after) + 1)):
        raise StoreCorrupt(f"session {row.id!r} lacks entries; `verify` shows which")
    entries: list[Entry] = []
    for seq, id, at, fence, kind, body, digest, version in rows:
        location = f"entry {seq} of session {row.id!r}"
        if not isinstance(body, bytes):
            problem = f"has lost its body ({digest})" if body is None else "has a body that is not bytes"
            raise StoreCorrupt(f"{location} {problem}; restore a backup")
        if sha256_hex(body) != digest:
            raise StoreCorrupt(f"{location} is damaged: its bytes do not match their digest; restore a backup")
        if type(version) is not int:
            raise StoreCorrupt(f"{location} is damaged: its version is {version!r:.40}; restore a backup")
        if version < OLDEST_VERSION:
            raise earlier_version(row.id, seq, version)
        try:
            payload = stored.load_payload(body)
        except JsonError as exc:
            raise StoreCorrupt(f"{location} cannot be read: {exc}") from exc
        read_kind = payload.kind if isinstance(payload, UnknownPayload) else kind
        entries.append(Entry(seq, id, at, fence, read_kind, body, digest, payload, version))
    return entries


def earlier_version(session: str, seq: int, version: int) -> StoreError:
    """Return the error for an entry of an earlier version, whose kind and fields may have had other names."""
    remedy = "use that version to show or export it"
    return StoreError(other_version(f"entry {seq} of session {session!r}", version, VERSION, remedy))


def rows_of(driver: Driver, row: SessionRow, after: int, upto: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the entries, oldest first; a large body that is missing is None."""
    upto, after = min(upto, row.head), max(after, 0)
    chain: list[tuple[int, int]] = [(row.n, row.forked_at)]
    if row.parent and after < row.forked_at:
        chain = driver.rows(_CHAIN, (row.id,))
        if not all(type(n) is type(at) is int for n, at in chain):
            raise StoreCorrupt(f"session {row.id!r} was forked from a session whose row is damaged; restore a backup")
    ranges: list[tuple[int, int]] = []
    for n, forked_at in chain:
        if upto <= after:
            break
        ranges.append((rowid_key(n, max(after, forked_at)), rowid_key(n, upto)))
        upto = min(upto, forked_at)
    for first, last in reversed(ranges):
        for values in driver.rows(_READ, (first, last)):
            if values[_BODY] is not None:
                yield values
            else:
                blobs = driver.rows(_BLOB, (values[_DIGEST],))
                yield (*values[:_BODY], blobs[0][0] if blobs else None, *values[_DIGEST:])


def wrong_column(row: tuple[Any, ...]) -> str:
    """Return the name of a column, other than the body, whose value has a type that is never written; empty: none."""
    for (column, type_), value in zip(_READ_TYPES.items(), row, strict=True):
        if type_ is not None and type(value) is not type_:
            return column
    return ""


def damaged_entry(row: tuple[Any, ...]) -> Entry:
    """Make an entry of a row, whatever its body is. A body that cannot be read is a payload of an unknown kind."""
    seq, id, at, fence, kind, body, digest, version = row
    body = body if isinstance(body, bytes) else b""
    try:
        payload: EntryPayload | UnknownPayload = stored.load_payload(body)
    except JsonError:
        payload = UnknownPayload(kind, "")
    return Entry(seq, id, at, fence, kind, body, digest, payload, version)


# --- inbox ------------------------------------------------------------------------------------------------------------


_POST = """
INSERT INTO inbox (session, id, at, kind, digest, body) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (session, id) DO NOTHING
"""
_READ_INBOX = "SELECT number, id, at, kind, digest, body FROM inbox WHERE session = ? ORDER BY number"
POSTED = "SELECT session, max(number) FROM inbox GROUP BY session"
_TAKE = "DELETE FROM inbox WHERE session = ? AND number = ?"
_ENTRY_WITH_ID = "SELECT seq FROM entries WHERE session = ? AND id = ?"
INBOX_WITHOUT_SESSION = (
    "SELECT session, count(*) FROM inbox WHERE session NOT IN (SELECT id FROM sessions) GROUP BY session"
)
REMOVE_INBOX = "DELETE FROM inbox WHERE session = ?"


def post_item(driver: Driver, session: str, id: str, time_ms: int, item: InboxItem | UnknownItem, body: bytes) -> None:
    """Add an item, unless the inbox or the journal of the session has its id."""
    if not _is_entry_id(driver, require_session(driver, session), id):
        driver.change(_POST, (session, id, time_ms, item_kind(item), sha256_hex(body), body))


def _is_entry_id(driver: Driver, row: SessionRow, id: str) -> bool:
    """Return whether an entry has this id, also one that a fork shares with the sessions before it."""
    last, ancestor = row.head, row
    while True:
        rows = driver.rows(_ENTRY_WITH_ID, (ancestor.id, id))
        if rows and rows[0][0] <= last:
            return True
        last, parent = ancestor.forked_at, row_of(driver, ancestor.parent) if ancestor.parent else None
        if parent is None:
            return False
        ancestor = parent


def read_inbox(driver: Driver, session: str) -> list[PostedItem]:
    """Return the items, oldest first. Raise `StoreCorrupt` for an item whose bytes do not match their digest."""
    require_session(driver, session)
    items: list[PostedItem] = []
    for row in driver.rows(_READ_INBOX, (session,)):
        number, id, at, _, _, body = row
        problem = _item_problem(row)
        if problem:
            raise StoreCorrupt(f"inbox item {number} of session {session!r} {problem}; restore a backup")
        items.append(PostedItem(number, id, at, stored.load_item(body)))
    return items


def find_inbox_problems(driver: Driver, session: str) -> Iterator[str]:
    for row in driver.rows(_READ_INBOX, (session,)):
        problem = _item_problem(row)
        if problem:
            yield f"inbox item {row[0]} {problem}"


def _item_problem(row: tuple[Any, ...]) -> str:
    _, id, at, kind, digest, body = row
    if type(id) is not str or type(at) is not int:
        return f"is damaged: its id is {id!r:.40} and its time is {at!r:.40}"
    if not isinstance(body, bytes) or sha256_hex(body) != digest:
        return "is damaged: its bytes do not match their digest"
    try:
        read_kind = item_kind(stored.load_item(body))
    except JsonError as exc:
        return f"cannot be read: {exc}"
    return "" if kind == read_kind else f"has the kind {kind!r}, but its bytes have {read_kind!r}"
