"""Writing and reading entries.

A session that was forked off another has only the entries behind its fork; those before are read through its ancestors,
each of which gives no more than was asked of the one below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from tenuto.core import jsonio, stored
from tenuto.core.journal import Draft, Entry, SessionMeta, Strange, digest_of
from tenuto.core.jsonio import JsonError
from tenuto.errors import SessionNotFound, StoreCorrupt, StoreError
from tenuto.store.driver import Arg, Driver
from tenuto.store.leases import Leases, lost, meta_of
from tenuto.store.protocol import BLOB, ID, Lease
from tenuto.store.schema import place_of

__all__ = ["Branch", "append", "branch_of", "clean", "damaged", "read", "rows_of"]

_LOOK = "SELECT n, head, fence, owner, meta FROM sessions WHERE id = ?"
_MOVE = """
UPDATE sessions SET head = ?, until = ?, created_at = ?, updated_at = ?, status = ?, agent = ?, meta = ?
WHERE n = ? AND id = ? AND head = ? AND fence = ? AND owner = ?
"""
_ENTRY = """
INSERT INTO entries (place, session, seq, id, at, fence, version, kind, digest, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_BLOB = "INSERT INTO blobs (digest, size, data) VALUES (?, ?, ?) ON CONFLICT (digest) DO NOTHING"
_SENT = "SELECT id, digest FROM entries WHERE place > ? AND place <= ? ORDER BY place"
_BRANCH = "SELECT n, head, parent, forked_at, meta FROM sessions WHERE id = ?"
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


def append(driver: Driver, leases: Leases, lease: Lease, drafts: Sequence[Draft]) -> Lease:
    """Add entries behind the head, in the transaction that is open. The condition is the database's to judge."""
    holding = leases.held.get(lease.owner)
    until, at = leases.until(driver), lease.head
    meta = None
    if holding is not None and holding.head == at and holding.fence == lease.fence:
        n = holding.n
        meta = _moved(driver, lease, n, holding.meta, drafts, until)
    if meta is None:
        n, head, before = _looked(driver, lease)
        if head != at:
            return _sent_again(driver, lease, n, head, drafts, until)
        meta = _moved(driver, lease, n, before, drafts, until)
        if meta is None:
            raise lost(lease.session)
    if len(drafts) == 1:
        driver.change(_ENTRY, _row_of(driver, lease, n, at + 1, drafts[0]))
    elif drafts:
        driver.insert(_ENTRY, [_row_of(driver, lease, n, seq, draft) for seq, draft in enumerate(drafts, at + 1)])
    head = at + len(drafts)
    if holding is not None:
        holding.head, holding.meta = head, meta
    return msgspec.structs.replace(lease, head=head, until=until)


def _looked(driver: Driver, lease: Lease) -> tuple[int, int, SessionMeta]:
    """Return number, head and summary, if the lease is still what it was."""
    rows = driver.rows(_LOOK, (lease.session,))
    if not rows or rows[0][2:4] != (lease.fence, lease.owner):
        raise lost(lease.session)
    n, head, _, _, meta = rows[0]
    return n, head, meta_of(meta)


def _moved(
    driver: Driver, lease: Lease, n: int, meta: SessionMeta, drafts: Sequence[Draft], until: int
) -> SessionMeta | None:
    """Move the head; None if it, the fence or the owner is not what the lease says."""
    for draft in drafts:
        meta = meta.after(draft.act, draft.at)
    status, agent, head = meta.status, meta.agent, lease.head
    row = (
        head + len(drafts),
        until,
        meta.created_at,
        meta.updated_at,
        status if status.isprintable() else clean(status),
        agent if agent.isprintable() else clean(agent),
        bytearray(jsonio.encode(meta)),
        n,
        lease.session,
        head,
        lease.fence,
        lease.owner,
    )
    return meta if driver.change(_MOVE, row) else None


def _row_of(driver: Driver, lease: Lease, n: int, seq: int, draft: Draft) -> tuple[Arg, ...]:
    """Return the row of an entry; a large body is put in its own place.

    Bytes go to the database as a `bytearray`: `sqlite3` asks of `bytes`, and not of that, how they are to be adapted,
    and is long about it. SQLite and Postgres keep the same.
    """
    source = draft.body
    digest = digest_of(source)
    body: bytearray | None = None
    if len(source) <= BLOB:
        body = bytearray(source)
    else:
        driver.change(_BLOB, (digest, len(source), source))
    kind = draft.kind if draft.kind.isascii() else clean(draft.kind)
    return place_of(n, seq), lease.session, seq, draft.id, draft.at, lease.fence, draft.version, kind, digest, body


def _sent_again(driver: Driver, lease: Lease, n: int, head: int, drafts: Sequence[Draft], until: int) -> Lease:
    """The head is not where the lease was used last: either these very entries are there already, or this is a mistake.

    If they are, the session is written to all the same: what is answered now has to be on the disk.
    """
    these = [(draft.id, draft.digest) for draft in drafts]
    if head < lease.head or driver.rows(_SENT, (place_of(n, lease.head), place_of(n, head))) != these:
        raise StoreError(
            f"session {lease.session!r} has {head} entries, and this lease was last used at {lease.head}: "
            "append with the lease that the last append returned"
        )
    now = Lease(session=lease.session, owner=lease.owner, fence=lease.fence, head=head, until=until)
    if _moved(driver, now, n, _looked(driver, lease)[2], (), until) is None:
        raise lost(lease.session)
    return now


def clean(text: str) -> str:
    """Return a text that every database takes: for what is listed or looked for, and kept elsewhere as it was."""
    return jsonio.printable(text).replace("\0", "\ufffd")


# --- reading ----------------------------------------------------------------------------------------------------------


class Branch(NamedTuple):
    """What is known of a session's place among others."""

    n: int
    id: str
    head: int
    parent: str
    forked_at: int
    meta: SessionMeta


def branch_of(driver: Driver, session: str) -> Branch:
    """Look a session up; one that has no entry yet is not there."""
    rows = driver.rows(_BRANCH, (session,)) if re.fullmatch(ID, session) else []
    if not rows or not (rows[0][1] or rows[0][2]):
        raise SessionNotFound(f"there is no session {session[:80]!r}")
    n, head, parent, forked_at, meta = rows[0]
    return Branch(n, session, head, parent, forked_at, meta_of(meta))


def read(driver: Driver, branch: Branch, after: int, upto: int) -> list[Entry]:
    """Return the entries behind `after`, up to and with `upto`; raise `StoreCorrupt` if one is missing or unreadable."""
    rows = list(rows_of(driver, branch, after, upto))
    after = max(after, 0)
    if [row[0] for row in rows] != list(range(after + 1, max(min(upto, branch.head), after) + 1)):
        raise StoreCorrupt(f"session {branch.id!r} lacks entries; `verify` says which")
    entries: list[Entry] = []
    load = stored.load_act
    try:
        for seq, id, at, fence, kind, body, digest, version in rows:
            if not isinstance(body, bytes):
                gone = f"has lost its body ({digest})" if body is None else "has a body that is no bytes"
                raise StoreCorrupt(f"entry {seq} of session {branch.id!r} {gone}")
            act = load(body)
            called = act.kind if isinstance(act, Strange) else kind
            entries.append(Entry(seq, id, at, fence, called, body, digest, act, version))
    except JsonError as exc:
        raise StoreCorrupt(f"entry {seq} of session {branch.id!r} cannot be read: {exc}") from exc
    return entries


def rows_of(driver: Driver, branch: Branch, after: int, upto: int) -> Iterator[tuple[Any, ...]]:
    """Yield what there is of the entries, as rows, oldest first; a large body that is missing is None."""
    upto, after = min(upto, branch.head), max(after, 0)
    chain: list[tuple[int, int]] = [(branch.n, branch.forked_at)]
    if branch.parent and after < branch.forked_at:
        chain = [(n, at) for n, at in driver.rows(_CHAIN, (branch.id,))]
    pieces: list[tuple[int, int]] = []
    for n, forked_at in chain:
        if upto <= after:
            break
        pieces.append((place_of(n, max(after, forked_at)), place_of(n, upto)))
        upto = min(upto, forked_at)
    for first, last in reversed(pieces):
        for row in driver.rows(_READ, (first, last)):
            yield row if row[_KEPT_APART] is not None else _fetched(driver, row)


def _fetched(driver: Driver, row: tuple[Any, ...]) -> tuple[Any, ...]:
    data = driver.rows(_FETCH, (row[_DIGEST],))
    return (*row[:_KEPT_APART], data[0][0] if data else None, *row[_DIGEST:])


def damaged(row: tuple[Any, ...]) -> Entry:
    """Make an entry of a row, whatever its body is: for who looks for damage."""
    seq, id, at, fence, kind, body, digest, version = row
    try:
        act = stored.load_act(body)
    except JsonError:
        act = Strange(kind, "")
    return Entry(seq, id, at, fence, kind, body, digest, act, version)
