"""Keeping house: branches, names, removing, counting and looking for damage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import msgspec

from tenuto.core import jsonio
from tenuto.core.journal import Entry, SessionMeta, session_meta_of, strange_in
from tenuto.errors import SessionNotFound, StoreError
from tenuto.store.checks import faults_in
from tenuto.store.driver import Driver
from tenuto.store.entries import Branch, branch_of, clean, damaged, read, rows_of
from tenuto.store.leases import Leases
from tenuto.store.protocol import Fault, Stats
from tenuto.store.schema import VERSION

__all__ = [
    "archive",
    "collect",
    "counted",
    "delete",
    "faults",
    "file_faults",
    "findable",
    "folded",
    "fork",
    "rename",
    "there",
]

_FORK = """
INSERT INTO sessions (
    id, head, fence, until, owner, pid, host, place, parent, forked_at, indexed, archived, created_at, updated_at, status,
    agent, name, meta
) VALUES (?, ?, 0, 0, '', 0, '', '', ?, ?, ?, 0, ?, ?, ?, ?, '', ?) ON CONFLICT (id) DO NOTHING
"""
_RENAME = "UPDATE sessions SET name = ? WHERE id = ?"
_OTHERS = "SELECT id FROM sessions WHERE name = ? AND id <> ?"
_ARCHIVE = "UPDATE sessions SET archived = ? WHERE id = ?"
_BELOW = """
WITH RECURSIVE below (id) AS (
    SELECT id FROM sessions WHERE parent = ?
    UNION
    SELECT s.id FROM sessions s JOIN below b ON s.parent = b.id
)
SELECT id FROM below ORDER BY id
"""
_REMOVE_ENTRIES = "DELETE FROM entries WHERE session = ?"
_REMOVE = "DELETE FROM sessions WHERE id = ?"
_MEANT = "SELECT id, owner, until FROM sessions WHERE head = 0 AND parent = ''"
_UNUSED = "SELECT digest, size FROM blobs WHERE digest NOT IN (SELECT digest FROM entries WHERE body IS NULL)"
_REMOVE_BLOB = "DELETE FROM blobs WHERE digest = ?"
_THERE = "SELECT id FROM sessions WHERE head > 0 OR parent <> '' ORDER BY id"
_SESSIONS = "SELECT count(*) FROM sessions WHERE head > 0 OR parent <> ''"
_ENTRIES = "SELECT count(*) FROM entries"
_BLOBS = "SELECT count(*), coalesce(sum(size), 0) FROM blobs"
_FINDABLE = "SELECT count(*) FROM words"
_WITHOUT = "SELECT session, count(*) FROM entries WHERE session NOT IN (SELECT id FROM sessions) GROUP BY session"
_OUTSIDE = "SELECT seq FROM entries WHERE session = ? AND (seq > ? OR seq <= ?) ORDER BY seq"
_SHOWN = 5


@runtime_checkable
class _Checks(Protocol):
    """A driver that can look for damage in what keeps its tables."""

    def check(self) -> list[str]: ...


# --- branches and names -----------------------------------------------------------------------------------------------


def folded(driver: Driver, session: str, at: int | None) -> tuple[int, SessionMeta]:
    """Return where a session is to be forked, and its summary there. Entries do not change: this needs no write."""
    branch = branch_of(driver, session)
    at = branch.head if at is None else at
    if not 0 <= at <= branch.head:
        raise ValueError(f"session {session!r} has entries 1 to {branch.head}: it cannot be forked at {at}")
    return at, branch.meta if at == branch.head else session_meta_of(session, read(driver, branch, 0, at))


def fork(driver: Driver, session: str, at: int, new: str, meta: SessionMeta) -> str:
    """Add a session that shares another's entries."""
    branch_of(driver, session)
    meta = msgspec.structs.replace(meta, id=new)
    times = (meta.created_at, meta.updated_at)
    row = (new, at, session, at, at, *times, clean(meta.status), clean(meta.agent), jsonio.encode(meta))
    if not driver.change(_FORK, row):
        raise StoreError(f"there is a session {new!r} already")
    return new


def rename(driver: Driver, session: str, name: str) -> None:
    """Call a session something, if no other is called so."""
    branch_of(driver, session)
    if name and driver.rows(_OTHERS, (name, session)):
        raise ValueError(f"another session is called {name!r}")
    driver.change(_RENAME, (name, session))


def archive(driver: Driver, session: str, archived: bool) -> None:
    """Put a session away, or fetch it back."""
    branch_of(driver, session)
    driver.change(_ARCHIVE, (int(archived), session))


# --- removing ---------------------------------------------------------------------------------------------------------


def delete(driver: Driver, leases: Leases, session: str, children: bool) -> tuple[str, ...]:
    """Remove a session, with what was forked off it if that is wanted."""
    branch_of(driver, session)
    below = [id for (id,) in driver.rows(_BELOW, (session,))]
    if below and not children:
        some = ", ".join(below[:_SHOWN]) + (", ..." if len(below) > _SHOWN else "")
        raise StoreError(f"session {session!r} has forks that share its entries: {some}; delete it with its children")
    for id in (session, *below):
        leases.is_free(driver, id)
    for id in (session, *below):
        driver.unindex(id)
        driver.change(_REMOVE_ENTRIES, (id,))
        driver.change(_REMOVE, (id,))
    return (session, *below)


def collect(driver: Driver, leases: Leases) -> int:
    """Remove sessions that never came into being, and large bodies of which no entry speaks; return the bytes of these."""
    now = leases.now(driver)
    for id, owner, until in driver.rows(_MEANT):
        if not leases.is_live(owner, until, now):
            driver.change(_REMOVE, (id,))
    unused = driver.rows(_UNUSED)
    for digest, _ in unused:
        driver.change(_REMOVE_BLOB, (digest,))
    return sum(size for _, size in unused)


# --- looking ----------------------------------------------------------------------------------------------------------


def counted(driver: Driver, backend: str) -> Stats:
    """Count."""
    [[sessions]], [[entries]], [[blobs, blob_bytes]] = (driver.rows(sql) for sql in (_SESSIONS, _ENTRIES, _BLOBS))
    return Stats(
        sessions=sessions,
        entries=entries,
        bytes=driver.size(),
        blobs=blobs,
        blob_bytes=int(blob_bytes),
        schema=VERSION,
        backend=backend,
    )


def findable(driver: Driver) -> int:
    """Return how many entries can be found by their words."""
    [[count]] = driver.rows(_FINDABLE)
    return int(count)


def there(driver: Driver) -> list[str]:
    """Return the ids of all sessions."""
    return [id for (id,) in driver.rows(_THERE)]


def file_faults(driver: Driver) -> list[Fault]:
    """Look for damage that is no session's."""
    found = [Fault("", 0, what) for what in (driver.check() if isinstance(driver, _Checks) else ())]
    return found + [Fault(id, 0, f"is gone, and left {count} entries") for id, count in driver.rows(_WITHOUT)]


def faults(driver: Driver, session: str) -> list[Fault]:
    """Look for damage in one session."""
    branch = branch_of(driver, session)
    rows = list(rows_of(driver, branch, 0, branch.head))
    bare = [Fault(session, row[0], _bodiless(row)) for row in rows if not isinstance(row[5], bytes)]
    missing = {fault.seq for fault in bare}
    entries = [damaged((*row[:5], row[5] if isinstance(row[5], bytes) else b"", *row[6:])) for row in rows]
    found = [fault for fault in faults_in(session, branch.head, entries) if fault.seq not in missing]
    return [*bare, *found, *(Fault(session, seq, what) for seq, what in _of_the_row(driver, branch, entries, found))]


def _bodiless(row: tuple[Any, ...]) -> str:
    """SQLite keeps whatever it is given, in whatever column."""
    return f"has lost its body ({row[6]})" if row[5] is None else "has a body that is no bytes: somebody changed it"


def _of_the_row(driver: Driver, branch: Branch, entries: list[Entry], found: list[Fault]) -> Iterator[tuple[int, str]]:
    for (seq,) in driver.rows(_OUTSIDE, (branch.id, branch.head, branch.forked_at)):
        yield seq, f"stands outside of what is the session's own: {branch.forked_at + 1} to {branch.head}"
    if branch.parent:
        try:
            branch_of(driver, branch.parent)
        except SessionNotFound:
            yield 0, f"was forked off {branch.parent!r}, which is gone"
    readable = not found and not any(strange_in(entries))  # what cannot be read cannot be added up
    if readable and session_meta_of(branch.id, entries) != branch.meta:
        yield 0, "has a summary that is not what its entries come to"
