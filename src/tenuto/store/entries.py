"""Writing and reading entries.

A session that was forked off another has only the entries behind its fork; those before are read through its ancestors,
each of which gives no more than was asked of the one below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tenuto.core import stored
from tenuto.core.journal import Draft, Entry, Strange, digest_of
from tenuto.core.jsonio import JsonError
from tenuto.errors import SessionNotFound, StoreCorrupt, StoreError
from tenuto.store.driver import Arg, Driver
from tenuto.store.leases import Holding, Leases, lost
from tenuto.store.protocol import BLOB, ID, Lease
from tenuto.store.schema import ENTRY, place_of, seq_of
from tenuto.store.shelf import Row
from tenuto.store.summaries import TAIL, act_of, clean, row_of, summary, tell

__all__ = ["append", "damaged", "found", "read", "rows_of"]

_ENTRY = """
INSERT INTO {into} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
""".replace("{into}", ENTRY)
_BLOB = "INSERT INTO blobs (digest, size, data) VALUES (?, ?, ?) ON CONFLICT (digest) DO NOTHING"
_SENT = "SELECT id, digest FROM entries WHERE place > ? AND place <= ? ORDER BY place"
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
SELECT seq, id, at, fence, kind, body, digest, version FROM entries WHERE place > ? AND place <= ? ORDER BY place
"""
_FETCH = "SELECT data FROM blobs WHERE digest = ?"
_KEPT_APART = 5
_DIGEST = 6


# --- writing ----------------------------------------------------------------------------------------------------------


def append(driver: Driver, leases: Leases, lease: Lease, drafts: Sequence[Draft]) -> Lease | None:
    """Add entries behind the head, in the transaction that is open. Whether head, fence and owner are what the lease says is
    the database's to judge. The session's row is left alone as long as it may be (`summaries`). None: the transaction may
    be one statement only, and that does not do.
    """
    holding = leases.held.get(lease.owner)
    if holding is None or holding.head != lease.head or holding.fence != lease.fence:
        return None if driver.single else _told(driver, leases, lease, drafts, None)
    rows = _beside(driver, leases, lease, holding, drafts)
    # What can be made before the disk is waited for is: afterwards, this thread has slept, and all it does costs more.
    head = lease.head + len(drafts)
    after = msgspec.structs.replace(lease, head=head, until=holding.until)
    if rows is None or not driver.add(rows[0]):
        return None if driver.single else _told(driver, leases, lease, drafts, holding)
    for row in rows[1:]:
        if not driver.add(row):
            raise _doubled(lease.session)
    for draft in drafts:
        holding.behind[draft.id] = draft
    holding.head = head
    return after


def _beside(
    driver: Driver, leases: Leases, lease: Lease, holding: Holding, drafts: Sequence[Draft]
) -> list[tuple[Arg, ...]] | None:
    """Return what is to be added, if the session's row may stay as it is: what it does not tell of is little and still has
    its ids in memory, and a list finds the session all the same.
    """
    behind, meta, n = holding.behind, holding.meta, holding.n
    if not 0 < len(drafts) <= TAIL - len(behind) or not leases.is_fresh(driver, holding):
        return None
    rows: list[tuple[Arg, ...]] = []
    at = place_of(n, lease.head)
    for draft in drafts:
        id, source = draft.id, draft.body
        if id in behind or len(source) > BLOB or meta.is_moved_by(draft.act):
            return None
        rows.append((*_row_of(lease, at + 1, draft, source), *holding.key, at, n, id))
        at += 1
    return rows if len(rows) == 1 or len({draft.id for draft in drafts}) == len(rows) else None


def _told(driver: Driver, leases: Leases, lease: Lease, drafts: Sequence[Draft], known: Holding | None) -> Lease:
    """Add entries, and let the session's row tell of them and of all before."""
    row, until = row_of(driver, lease.session), leases.until(driver)
    if row is None or (row.fence, row.owner) != (lease.fence, lease.owner):
        raise lost(lease.session)
    if row.head != lease.head:
        return _sent_again(driver, leases, lease, row, drafts)
    meta = summary(driver, row) if known is None else known.summary()
    for draft in drafts:
        meta = meta.after(draft.act, draft.at)
    at = place_of(row.n, lease.head)
    driver.insert(
        _ENTRY, [_row_of(lease, place, draft, _kept(driver, draft)) for place, draft in enumerate(drafts, at + 1)]
    )
    head = lease.head + len(drafts)
    if not tell(driver, row, head, meta):
        raise _doubled(lease.session)
    leases.extend(driver, row.n, until)
    leases.note(lease.owner, head, meta, until)
    return msgspec.structs.replace(lease, head=head, until=until)


def _kept(driver: Driver, draft: Draft) -> bytes | None:
    """Return the body as it is kept with its entry: a large one is put in its own place."""
    if len(draft.body) <= BLOB:
        return draft.body
    driver.change(_BLOB, (draft.digest, len(draft.body), draft.body))
    return None


def _row_of(lease: Lease, place: int, draft: Draft, body: bytes | None) -> tuple[Arg, ...]:
    """Return the row of an entry.

    Bytes go to the database as a `bytearray`: `sqlite3` asks of `bytes`, and not of that, how they are to be adapted,
    and is long about it. SQLite and Postgres keep the same.
    """
    kind = draft.kind
    return (
        place,
        lease.session,
        draft.id,
        draft.at,
        lease.fence,
        draft.version,
        kind if kind.isascii() else clean(kind),
        digest_of(draft.body),
        None if body is None else bytearray(body),
        seq_of(place),
    )


def _doubled(session: str) -> StoreError:
    return StoreError(f"session {session!r} has an entry with the id of one of these already")


def _sent_again(driver: Driver, leases: Leases, lease: Lease, row: Row, drafts: Sequence[Draft]) -> Lease:
    """The head is not where the lease was used last: either these very entries are there already, or this is a mistake.

    If they are, the session is written to all the same: what is answered now has to be on the disk.
    """
    these, head = [(draft.id, draft.digest) for draft in drafts], row.head
    if head < lease.head or driver.rows(_SENT, (place_of(row.n, lease.head), place_of(row.n, head))) != these:
        raise StoreError(
            f"session {lease.session!r} has {head} entries, and this lease was last used at {lease.head}: "
            "append with the lease that the last append returned"
        )
    until = leases.until(driver)
    leases.extend(driver, row.n, until)
    return msgspec.structs.replace(lease, head=head, until=until)


# --- reading ----------------------------------------------------------------------------------------------------------


def found(driver: Driver, session: str) -> Row:
    """Look a session up; one that has no entry yet is not there."""
    row = row_of(driver, session) if re.fullmatch(ID, session) else None
    if row is None or not (row.told or row.parent):
        raise SessionNotFound(f"there is no session {session[:80]!r}")
    return row


def read(driver: Driver, row: Row, after: int, upto: int) -> list[Entry]:
    """Return the entries behind `after`, up to and with `upto`; raise `StoreCorrupt` if one is missing or unreadable."""
    rows = list(rows_of(driver, row, after, upto))
    after = max(after, 0)
    if [kept[0] for kept in rows] != list(range(after + 1, max(min(upto, row.head), after) + 1)):
        raise StoreCorrupt(f"session {row.id!r} lacks entries; `verify` says which")
    entries: list[Entry] = []
    load = stored.load_act
    try:
        for seq, id, at, fence, kind, body, digest, version in rows:
            if not isinstance(body, bytes):
                gone = f"has lost its body ({digest})" if body is None else "has a body that is no bytes"
                raise StoreCorrupt(f"entry {seq} of session {row.id!r} {gone}")
            act = load(body)
            called = act.kind if isinstance(act, Strange) else kind
            entries.append(Entry(seq, id, at, fence, called, body, digest, act, version))
    except JsonError as exc:
        raise StoreCorrupt(f"entry {seq} of session {row.id!r} cannot be read: {exc}") from exc
    return entries


def rows_of(driver: Driver, row: Row, after: int, upto: int) -> Iterator[tuple[Any, ...]]:
    """Yield what there is of the entries, as rows, oldest first; a large body that is missing is None."""
    upto, after = min(upto, row.head), max(after, 0)
    chain: list[tuple[int, int]] = [(row.n, row.forked_at)]
    if row.parent and after < row.forked_at:
        chain = [(n, at) for n, at in driver.rows(_CHAIN, (row.id,))]
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


def damaged(row: tuple[Any, ...]) -> Entry:
    """Make an entry of a row, whatever its body is: for who looks for damage."""
    seq, id, at, fence, kind, body, digest, version = row
    return Entry(
        seq, id, at, fence, kind, body if isinstance(body, bytes) else b"", digest, act_of(kind, body), version
    )
