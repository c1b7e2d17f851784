"""Writing and reading entries.

A session that was forked off another has only the entries behind its fork; those before are read through its ancestors,
each of which gives no more than was asked of the one below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tenuto.core import jsonio, stored
from tenuto.core.journal import VERSION, Entry, EntryDraft, EntryPayload, SessionMeta, UnknownPayload, sha256_hex
from tenuto.core.jsonio import JsonError
from tenuto.errors import LeaseLost, SessionNotFound, StoreCorrupt, StoreError
from tenuto.store.checks import earlier_version
from tenuto.store.driver import Arg, Driver
from tenuto.store.leases import Leases, lost, meta_of
from tenuto.store.protocol import BLOB, ID, Lease
from tenuto.store.schema import place_of
from tenuto.store.sessions import SessionRow, row_of

__all__ = [
    "append",
    "append_and_release",
    "clean",
    "columns_of",
    "damaged",
    "read",
    "require_session",
    "rows_of",
    "wrong_column",
]

_HEAD = """
UPDATE sessions SET head = ?, until = ?, created_at = ?, updated_at = ?, status = ?, agent = ?, meta = ?
WHERE id = ? AND owner = ? AND fence = ? AND head = ?
"""
_ENTRY = """
INSERT INTO entries (rowid_key, session, seq, id, at, fence, version, kind, digest, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (session, id) DO NOTHING
"""
_BLOB = "INSERT INTO blobs (digest, size, data) VALUES (?, ?, ?) ON CONFLICT (digest) DO NOTHING"
_SENT = "SELECT id, digest FROM entries WHERE rowid_key > ? AND rowid_key <= ? ORDER BY rowid_key"
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
"""The types of what `_READ` gives. A body is checked apart, since large ones are in another table."""
_TOUCH = "UPDATE sessions SET until = until WHERE id = ?"
"""Changes nothing. Its commit makes sure that what was written before is on the disk."""
_FETCH = "SELECT data FROM blobs WHERE digest = ?"
_KEPT_APART = 5
_DIGEST = 6


# --- writing ----------------------------------------------------------------------------------------------------------


def append(driver: Driver, leases: Leases, lease: Lease, drafts: Sequence[EntryDraft]) -> Lease:
    """Add entries after the head and write the session row, in the transaction that is open.

    The database checks head, fence and owner. Raise `LeaseLost` for a lease that this process does not hold.
    """
    holding = leases.held.get(lease.owner)
    if holding is None or holding.fence != lease.fence:
        raise lost(lease.session)
    if holding.head != lease.head:  # an append whose commit failed, or one that is sent again
        row = _held_row(driver, lease)
        if row.head != lease.head:
            return _sent_again(driver, leases, lease, row, drafts)
        holding.head, holding.meta = row.head, meta_of(row.meta)
    meta, until, head = holding.meta, leases.until(driver), lease.head + len(drafts)
    for draft in drafts:
        meta = meta.after(draft.payload, draft.time_ms)
    if not driver.change(_HEAD, (head, until, *columns_of(meta), lease.session, lease.owner, lease.fence, lease.head)):
        return _sent_again(driver, leases, lease, _held_row(driver, lease), drafts)
    place = place_of(holding.n, lease.head)
    rows = [
        (place + at, lease.session, lease.head + at, *_values_of(driver, lease, draft))
        for at, draft in enumerate(drafts, 1)
    ]
    added = driver.change(_ENTRY, rows[0]) if len(rows) == 1 else driver.insert(_ENTRY, rows)
    if added != len(rows):
        raise StoreError(f"session {lease.session!r} has an entry with the id of one of these already")
    holding.head, holding.meta = head, meta
    return msgspec.structs.replace(lease, head=head, until=until)


def append_and_release(driver: Driver, leases: Leases, lease: Lease, drafts: Sequence[EntryDraft]) -> Lease:
    """Add entries and release the lease, in the transaction that is open.

    If the connection broke at the commit, this runs again; entries that are stored then show that the lease was released.
    """
    try:
        added = append(driver, leases, lease, drafts)
    except LeaseLost:
        row = row_of(driver, lease.session)
        if row is None or not _are_stored(driver, row, lease, drafts):
            raise
        driver.change(_TOUCH, (lease.session,))
        return msgspec.structs.replace(lease, head=lease.head + len(drafts))
    leases.release(driver, lease.session, lease.owner, lease.fence)
    return added


def _are_stored(driver: Driver, row: SessionRow, lease: Lease, drafts: Sequence[EntryDraft]) -> bool:
    """Return whether the entries after the head of the lease are these."""
    stored = driver.rows(_SENT, (place_of(row.n, lease.head), place_of(row.n, lease.head + len(drafts))))
    return bool(drafts) and stored == [(draft.id, draft.digest) for draft in drafts]


def columns_of(meta: SessionMeta) -> tuple[Arg, ...]:
    """Return created_at, updated_at, status, agent and meta as a session row contains them."""
    status, agent = meta.status, meta.agent
    return (
        meta.created_at,
        meta.updated_at,
        status if status.isprintable() else clean(status),
        agent if agent.isprintable() else clean(agent),
        jsonio.encode(meta),
    )


def _values_of(driver: Driver, lease: Lease, draft: EntryDraft) -> tuple[Arg, ...]:
    """Return the columns of an entry after `seq`. A large body is written to `blobs`."""
    body: bytes | None = draft.body
    digest = sha256_hex(draft.body)
    if len(draft.body) > BLOB:
        driver.change(_BLOB, (digest, len(draft.body), draft.body))
        body = None
    kind = draft.kind if draft.kind.isascii() else clean(draft.kind)
    return (draft.id, draft.time_ms, lease.fence, draft.version, kind, digest, body)


def _held_row(driver: Driver, lease: Lease) -> SessionRow:
    """Return the row of a session. Raise `LeaseLost` if another holder has it."""
    row = row_of(driver, lease.session)
    if row is None or (row.fence, row.owner) != (lease.fence, lease.owner):
        raise lost(lease.session)
    return row


def _sent_again(driver: Driver, leases: Leases, lease: Lease, row: SessionRow, drafts: Sequence[EntryDraft]) -> Lease:
    """Accept entries that are stored already; raise `StoreError` if the head moved for another reason.

    The lease is renewed: that commit makes sure that the entries are on the disk.
    """
    these, head = [(draft.id, draft.digest) for draft in drafts], row.head
    if head < lease.head or driver.rows(_SENT, (place_of(row.n, lease.head), place_of(row.n, head))) != these:
        raise StoreError(
            f"session {lease.session!r} has {head} entries, and this lease was last used at {lease.head}: "
            "append with the lease that the last append returned"
        )
    return leases.renew(driver, lease)


# --- reading ----------------------------------------------------------------------------------------------------------


def require_session(driver: Driver, session: str) -> SessionRow:
    """Look a session up; one that has no entry yet is not there."""
    row = row_of(driver, session) if re.fullmatch(ID, session) else None
    if row is None or not (row.head or row.parent):
        raise SessionNotFound(f"there is no session {session[:80]!r}")
    return row


def read(driver: Driver, row: SessionRow, after: int, upto: int) -> list[Entry]:
    """Return the entries behind `after`, up to and with `upto`; raise `StoreCorrupt` if one is missing or unreadable.

    Raise `StoreError` for one of an earlier version.
    """
    rows = list(rows_of(driver, row, after, upto))
    after = max(after, 0)
    if [kept[0] for kept in rows] != list(range(after + 1, max(min(upto, row.head), after) + 1)):
        raise StoreCorrupt(f"session {row.id!r} lacks entries; `verify` says which")
    entries: list[Entry] = []
    load = stored.load_payload
    try:
        for seq, id, at, fence, kind, body, digest, version in rows:
            if not isinstance(body, bytes):
                gone = f"has lost its body ({digest})" if body is None else "has a body that is no bytes"
                raise StoreCorrupt(f"entry {seq} of session {row.id!r} {gone}")
            if sha256_hex(body) != digest:
                raise StoreCorrupt(
                    f"entry {seq} of session {row.id!r} is damaged: its bytes do not match their digest; restore a backup"
                )
            if type(version) is not int:
                raise StoreCorrupt(f"entry {seq} of session {row.id!r} is damaged: its version is {version!r:.40}")
            if version < VERSION:
                raise earlier_version(row.id, seq, version)
            act = load(body)
            called = act.kind if isinstance(act, UnknownPayload) else kind
            entries.append(Entry(seq, id, at, fence, called, body, digest, act, version))
    except JsonError as exc:
        raise StoreCorrupt(f"entry {seq} of session {row.id!r} cannot be read: {exc}") from exc
    return entries


def rows_of(driver: Driver, row: SessionRow, after: int, upto: int) -> Iterator[tuple[Any, ...]]:
    """Yield what there is of the entries, as rows, oldest first; a large body that is missing is None."""
    upto, after = min(upto, row.head), max(after, 0)
    chain: list[tuple[int, int]] = [(row.n, row.forked_at)]
    if row.parent and after < row.forked_at:
        chain = driver.rows(_CHAIN, (row.id,))
        if not all(type(n) is type(at) is int for n, at in chain):
            raise StoreCorrupt(f"session {row.id!r} was forked from a session whose row is damaged; restore a backup")
    pieces: list[tuple[int, int]] = []
    for n, forked_at in chain:
        if upto <= after:
            break
        pieces.append((place_of(n, max(after, forked_at)), place_of(n, upto)))
        upto = min(upto, forked_at)
    for first, last in reversed(pieces):
        for kept in driver.rows(_READ, (first, last)):
            yield kept if kept[_KEPT_APART] is not None else _fetched(driver, kept)


def _fetched(driver: Driver, row: tuple[Any, ...]) -> tuple[Any, ...]:
    data = driver.rows(_FETCH, (row[_DIGEST],))
    return (*row[:_KEPT_APART], data[0][0] if data else None, *row[_DIGEST:])


def wrong_column(row: tuple[Any, ...]) -> str:
    """Return the name of a column, other than the body, whose value has a type that is never written; empty if none has."""
    for (column, type_), value in zip(_READ_TYPES.items(), row, strict=True):
        if type_ is not None and type(value) is not type_:
            return column
    return ""


def damaged(row: tuple[Any, ...]) -> Entry:
    """Make an entry of a row, whatever its body is: for who looks for damage."""
    seq, id, at, fence, kind, body, digest, version = row
    return Entry(
        seq, id, at, fence, kind, body if isinstance(body, bytes) else b"", digest, act_of(kind, body), version
    )


def act_of(kind: str, body: Any) -> EntryPayload | UnknownPayload:
    """Read an entry's body; one that cannot be read is an act of an unknown kind."""
    try:
        return stored.load_payload(body if isinstance(body, bytes) else b"")
    except JsonError:
        return UnknownPayload(kind, "")


def clean(text: str) -> str:
    """Return text that every database accepts: without NUL and unpaired surrogates."""
    return jsonio.printable(text).replace("\0", "\ufffd")
