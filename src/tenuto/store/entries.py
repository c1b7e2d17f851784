"""Appending and reading entries.

A fork has only the entries after its fork point. Those before it are read from its ancestors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tenuto.core import jsonio, stored
from tenuto.core.journal import VERSION, Entry, EntryDraft, EntryPayload, SessionMeta, UnknownPayload, sha256_hex
from tenuto.core.jsonio import JsonError
from tenuto.errors import LeaseLost, StoreCorrupt, StoreError
from tenuto.store import budgets, inbox
from tenuto.store.driver import Arg, Driver
from tenuto.store.ids import clean
from tenuto.store.leases import Leases, lease_lost
from tenuto.store.protocol import BLOB, BudgetChange, Lease
from tenuto.store.schema import rowid_key
from tenuto.store.sessions import SessionRow, meta_of, row_of

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


# --- appending --------------------------------------------------------------------------------------------------------


def append(
    driver: Driver,
    leases: Leases,
    lease: Lease,
    drafts: Sequence[EntryDraft],
    *,
    taking: Sequence[int] = (),
    unless_posted: bool = False,
    budget: BudgetChange | None = None,
) -> Lease:
    """Append as `Store.append` describes, in the transaction that is open.

    The database checks head, fence and owner. Entries that are stored already were stored with all that belongs to them.
    """
    held = leases.get(lease)
    if held is None:
        raise lease_lost(lease.session)
    if held.head != lease.head:  # the commit of an append failed, or the append is sent again
        row = _held_row(driver, lease)
        if row.head != lease.head:
            return _check_stored(driver, leases, lease, row, drafts)
        held.head, held.meta = row.head, meta_of(row.meta)
    meta, until, head = held.meta, leases.now(driver) + held.ttl_ms, lease.head + len(drafts)
    for draft in drafts:
        meta = meta.after(draft.payload, draft.time_ms)
    if not driver.change(_HEAD, (head, until, *columns_of(meta), lease.session, lease.owner, lease.fence, lease.head)):
        return _check_stored(driver, leases, lease, _held_row(driver, lease), drafts)
    rows = [
        (rowid_key(held.n, seq), lease.session, seq, *_values_of(driver, lease, draft))
        for seq, draft in enumerate(drafts, lease.head + 1)
    ]
    inserted = driver.change(_INSERT, rows[0]) if len(rows) == 1 else driver.insert(_INSERT, rows)
    if inserted != len(rows):
        raise StoreError(f"session {lease.session!r} already has an entry with the id of one of these")
    if taking or unless_posted:
        inbox.take(driver, lease.session, taking, unless_posted=unless_posted)
    if budget is not None:
        budgets.change(driver, leases, lease, budget)
    held.head, held.meta = head, meta
    return msgspec.structs.replace(lease, head=head, until=until)


def append_and_release(
    driver: Driver, leases: Leases, lease: Lease, drafts: Sequence[EntryDraft], **options: Any
) -> Lease:
    """Append and release the lease.

    If the connection broke during the commit, this runs again; stored entries then show that the lease was released.
    """
    try:
        released = append(driver, leases, lease, drafts, **options)
    except LeaseLost:
        row = row_of(driver, lease.session)
        if row is None or not drafts or _digests(driver, row, lease.head, len(drafts)) != _digests_of(drafts):
            raise
        driver.change(_TOUCH, (lease.session,))
        return msgspec.structs.replace(lease, head=lease.head + len(drafts))
    leases.release(driver, lease)
    return released


def columns_of(meta: SessionMeta) -> tuple[Arg, ...]:
    """Return created_at, updated_at, status, agent and meta as a session row contains them."""
    agent = meta.agent if meta.agent.isprintable() else clean(meta.agent)
    return meta.created_at, meta.updated_at, meta.status, agent, jsonio.encode(meta)


def _values_of(driver: Driver, lease: Lease, draft: EntryDraft) -> tuple[Arg, ...]:
    """Return the columns of an entry after `seq`. Write a large body to `blobs`."""
    body: bytes | None = draft.body
    digest = sha256_hex(draft.body)
    if len(draft.body) > BLOB:
        driver.change(_INSERT_BLOB, (digest, len(draft.body), draft.body))
        body = None
    kind = draft.kind if draft.kind.isascii() else clean(draft.kind)
    return (draft.id, draft.time_ms, lease.fence, draft.version, kind, digest, body)


def _held_row(driver: Driver, lease: Lease) -> SessionRow:
    """Return the row of a session. Raise `LeaseLost` if another holder has it."""
    row = row_of(driver, lease.session)
    if row is None or (row.fence, row.owner) != (lease.fence, lease.owner):
        raise lease_lost(lease.session)
    return row


def _check_stored(driver: Driver, leases: Leases, lease: Lease, row: SessionRow, drafts: Sequence[EntryDraft]) -> Lease:
    """Accept entries that are stored already; raise `StoreError` if the head moved for another reason.

    The lease is renewed: that commit ensures that the entries are on the disk.
    """
    new = row.head - lease.head
    if new < 0 or _digests(driver, row, lease.head, new) != _digests_of(drafts):
        raise StoreError(
            f"session {lease.session!r} has {row.head} entries, but this lease was last used at {lease.head}: "
            "append with the lease that the last append returned"
        )
    return leases.renew(driver, lease)


def _digests(driver: Driver, row: SessionRow, after: int, count: int) -> list[tuple[Any, ...]]:
    return driver.rows(_DIGESTS, (rowid_key(row.n, after), rowid_key(row.n, after + count)))


def _digests_of(drafts: Sequence[EntryDraft]) -> list[tuple[Any, ...]]:
    return [(draft.id, draft.digest) for draft in drafts]


# --- reading ----------------------------------------------------------------------------------------------------------


def read(driver: Driver, row: SessionRow, after: int, upto: int) -> list[Entry]:
    """Return the entries after `after`, up to and including `upto`.

    Raise `StoreCorrupt` if one is missing or damaged, `StoreError` for one of an earlier version.
    """
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
        if version < VERSION:
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
    return StoreError(
        f"entry {seq} of session {session!r} {written_earlier(version)}: use that version to show or export it"
    )


def written_earlier(version: int) -> str:
    return f"was written by an earlier version of tenuto (format {version}; this version reads {VERSION})"


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
