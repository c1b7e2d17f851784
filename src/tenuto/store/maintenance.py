"""Keeping house: branches, names, removing, counting and looking for damage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from tenuto.core.journal import Entry, SessionMeta, session_meta_of, unknown_payloads_in
from tenuto.errors import SessionNotFound, StoreCorrupt, StoreError
from tenuto.store.checks import faults_in, forked_meta
from tenuto.store.driver import Driver
from tenuto.store.entries import columns_of, damaged, read, require_session, rows_of, wrong_column
from tenuto.store.leases import Leases, meta_of
from tenuto.store.protocol import StoreStats, VerifyProblem
from tenuto.store.schema import VERSION, place_of
from tenuto.store.search import text_of
from tenuto.store.sessions import SessionRow, row_of

__all__ = [
    "all_ids",
    "archive",
    "count_rows",
    "delete",
    "delete_unreferenced",
    "file_faults",
    "find_problems_in",
    "fork",
    "indexed_count",
    "rename",
    "summary_at",
]

_FORK = """
INSERT INTO sessions (
    id, head, fence, until, owner, pid, host, lock_dir_id, parent, forked_at, indexed, archived, created_at, updated_at, status,
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
_REMOVE_ENTRIES = "DELETE FROM entries WHERE rowid_key > ? AND rowid_key < ?"
_REMOVE = "DELETE FROM sessions WHERE id = ?"
_MEANT = "SELECT id FROM sessions WHERE head = 0 AND parent = ''"
_UNUSED = "SELECT digest, size FROM blobs WHERE digest NOT IN (SELECT digest FROM entries WHERE body IS NULL)"
_REMOVE_BLOB = "DELETE FROM blobs WHERE digest = ?"
_THERE = "SELECT id FROM sessions WHERE head > 0 OR parent <> '' ORDER BY id"
_SESSIONS = "SELECT count(*) FROM sessions WHERE head > 0 OR parent <> ''"
_ENTRIES = "SELECT count(*) FROM entries"
_BLOBS = "SELECT count(*), coalesce(sum(size), 0) FROM blobs"
_FINDABLE = "SELECT count(*) FROM words"
_WITHOUT = (
    "SELECT session, count(*) FROM entries WHERE (rowid_key >> 32) NOT IN (SELECT n FROM sessions) GROUP BY session"
)
_OUTSIDE = "SELECT seq FROM entries WHERE rowid_key > ? AND rowid_key < ? AND (session <> ? OR seq > ? OR seq <= ?) ORDER BY rowid_key"
_WORDS = "SELECT seq, text FROM words WHERE session = ?"
_SHOWN = 5


@runtime_checkable
class _Checks(Protocol):
    """A driver that can look for damage in what keeps its tables."""

    def check(self) -> list[str]: ...


# --- branches and names -----------------------------------------------------------------------------------------------


def summary_at(driver: Driver, session: str, at: int | None) -> tuple[int, SessionMeta]:
    """Return where a session is to be forked, and its summary there. Entries do not change: this needs no write."""
    row = require_session(driver, session)
    at = row.head if at is None else at
    if not 0 <= at <= row.head:
        raise ValueError(f"session {session!r} has entries 1 to {row.head}: it cannot be forked at {at}")
    return at, meta_of(row.meta) if at == row.head else session_meta_of(session, read(driver, row, 0, at))


def fork(driver: Driver, session: str, at: int, new: str, meta: SessionMeta) -> str:
    """Add a session that shares another's entries; `meta` is its summary."""
    require_session(driver, session)
    row = (new, at, session, at, at, *columns_of(meta))
    if not driver.change(_FORK, row):
        raise StoreError(f"there is a session {new!r} already")
    return new


def rename(driver: Driver, session: str, name: str) -> None:
    """Call a session something, if no other is called so."""
    require_session(driver, session)
    if name and driver.rows(_OTHERS, (name, session)):
        raise ValueError(f"another session is called {name!r}")
    driver.change(_RENAME, (name, session))


def archive(driver: Driver, session: str, archived: bool) -> None:
    """Put a session away, or fetch it back."""
    require_session(driver, session)
    driver.change(_ARCHIVE, (int(archived), session))


# --- removing ---------------------------------------------------------------------------------------------------------


def delete(driver: Driver, leases: Leases, session: str, children: bool) -> tuple[str, ...]:
    """Remove a session, with what was forked off it if that is wanted."""
    require_session(driver, session)
    below = [id for (id,) in driver.rows(_BELOW, (session,))]
    if below and not children:
        some = ", ".join(below[:_SHOWN]) + (", ..." if len(below) > _SHOWN else "")
        raise StoreError(f"session {session!r} has forks that share its entries: {some}; delete it with its children")
    for id in (session, *below):
        leases.is_free(driver, id)
    for id in (session, *below):
        n = require_session(driver, id).n
        driver.unindex(id)
        driver.change(_REMOVE_ENTRIES, (place_of(n, 0), place_of(n + 1, 0)))
        driver.change(_REMOVE, (id,))
    return (session, *below)


def delete_unreferenced(driver: Driver, leases: Leases) -> int:
    """Remove sessions that never came into being, and large bodies of which no entry speaks; return the bytes of these."""
    for (id,) in driver.rows(_MEANT):
        row = row_of(driver, id)
        if row is not None and not leases.is_held(driver, row):
            driver.change(_REMOVE, (id,))
    unused = driver.rows(_UNUSED)
    for digest, _ in unused:
        driver.change(_REMOVE_BLOB, (digest,))
    return sum(size for _, size in unused)


# --- looking ----------------------------------------------------------------------------------------------------------


def count_rows(driver: Driver, backend: str) -> StoreStats:
    """Count."""
    [[sessions]], [[entries]], [[blobs, blob_bytes]] = (driver.rows(sql) for sql in (_SESSIONS, _ENTRIES, _BLOBS))
    return StoreStats(
        sessions=sessions,
        entries=entries,
        bytes=driver.size(),
        blobs=blobs,
        blob_bytes=int(blob_bytes),
        schema=VERSION,
        backend=backend,
    )


def indexed_count(driver: Driver) -> int:
    """Return how many entries can be found by their words."""
    [[count]] = driver.rows(_FINDABLE)
    return int(count)


def all_ids(driver: Driver) -> list[str]:
    """Return the ids of all sessions."""
    return [str(id) for (id,) in driver.rows(_THERE)]


def file_faults(driver: Driver) -> list[VerifyProblem]:
    """Look for damage that is no session's."""
    found = [VerifyProblem("", 0, what) for what in (driver.check() if isinstance(driver, _Checks) else ())]
    return found + [VerifyProblem(id, 0, f"is gone, and left {count} entries") for id, count in driver.rows(_WITHOUT)]


def find_problems_in(driver: Driver, session: str) -> list[VerifyProblem]:
    """Look for damage in one session."""
    try:
        row = require_session(driver, session)
        found = list(rows_of(driver, row, 0, row.head))
    except StoreCorrupt as exc:
        return [VerifyProblem(session, 0, str(exc))]
    rows = [kept for kept in found if not wrong_column(kept)]
    unreadable = [
        VerifyProblem(session, kept[0] if type(kept[0]) is int else 0, f"has a damaged value as its {column}")
        for kept in found
        if (column := wrong_column(kept))
    ]
    bare = [VerifyProblem(session, kept[0], _bodiless(kept)) for kept in rows if not isinstance(kept[5], bytes)]
    missing = {fault.seq for fault in bare}
    entries = [damaged(kept) for kept in rows]
    wrong = [fault for fault in faults_in(session, row.head, entries) if fault.seq not in missing]
    return [
        *unreadable,
        *bare,
        *wrong,
        *(VerifyProblem(session, seq, what) for seq, what in _of_the_row(driver, row, entries, wrong)),
    ]


def _bodiless(kept: tuple[Any, ...]) -> str:
    """SQLite keeps whatever it is given, in whatever column."""
    return f"has lost its body ({kept[6]})" if kept[5] is None else "has a body that is no bytes: somebody changed it"


def _of_the_row(
    driver: Driver, row: SessionRow, entries: list[Entry], wrong: list[VerifyProblem]
) -> Iterator[tuple[int, str]]:
    for (seq,) in driver.rows(_OUTSIDE, (place_of(row.n, 0), place_of(row.n + 1, 0), row.id, row.head, row.forked_at)):
        yield seq, f"stands outside of what is the session's own: {row.forked_at + 1} to {row.head}"
    if row.parent:
        try:
            require_session(driver, row.parent)
        except StoreCorrupt as exc:
            yield 0, f"was forked off {row.parent!r}, which is damaged: {exc}"
        except SessionNotFound:
            yield 0, f"was forked off {row.parent!r}, which is gone"
    readable = not wrong and not any(unknown_payloads_in(entries))  # what cannot be read cannot be added up
    if readable and _expected_meta(row, entries) != meta_of(row.meta):
        yield 0, "has a summary that is not what its entries come to"
    damaged_seqs = {fault.seq for fault in wrong}
    for seq in _differences_of_search(driver, row, entries):
        if seq not in damaged_seqs:
            yield seq, "has another text in the search index: `reindex` repairs it"


def _expected_meta(row: SessionRow, entries: list[Entry]) -> SessionMeta:
    """Return the summary that a session row must contain."""
    if not row.parent:
        return session_meta_of(row.id, entries)
    meta = forked_meta(session_meta_of(row.id, entries[: row.forked_at]), row.id, row.created_at)
    for entry in entries[row.forked_at :]:
        meta = meta.after(entry.payload, entry.time_ms)
    return meta


def _differences_of_search(driver: Driver, row: SessionRow, entries: list[Entry]) -> list[int]:
    """Return the entries of the session's own whose text in the search index is missing, wrong or unexpected."""
    texts = {entry.seq: text_of(entry.payload) for entry in entries if row.forked_at < entry.seq <= row.indexed}
    expected = {(seq, text) for seq, text in texts.items() if text}
    different = {seq for seq, _ in expected ^ {*driver.rows(_WORDS, (row.id,))}}
    return sorted({seq if type(seq) is int else 0 for seq in different})
