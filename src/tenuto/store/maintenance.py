"""Forks, names, deleting, counting, and finding damage."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tenuto.core import journal, stored
from tenuto.core.jsonio import JsonError
from tenuto.errors import SessionNotFound, StoreCorrupt, StoreError
from tenuto.store.driver import Driver
from tenuto.store.entries import (
    INBOX_WITHOUT_SESSION,
    REMOVE_INBOX,
    damaged_entry,
    find_inbox_problems,
    read,
    rowid_key,
    rows_of,
    wrong_column,
)
from tenuto.store.leases import Leases, stored_budget
from tenuto.store.protocol import StoreStats, VerifyProblem
from tenuto.store.schema import VERSION, other_version
from tenuto.store.search import text_of
from tenuto.store.sessions import SessionRow, insert_row, meta_of, require_session, row_of

_RENAME = "UPDATE sessions SET name = ? WHERE id = ?"
_OTHERS = "SELECT id FROM sessions WHERE name = ? AND id <> ?"
_ARCHIVE = "UPDATE sessions SET archived = ? WHERE id = ?"
_DESCENDANTS = """
WITH RECURSIVE below (id) AS (
    SELECT id FROM sessions WHERE parent = ?
    UNION
    SELECT s.id FROM sessions s JOIN below b ON s.parent = b.id
)
SELECT id FROM below ORDER BY id
"""
_DELETE_ENTRIES = "DELETE FROM entries WHERE rowid_key > ? AND rowid_key < ?"
_DELETE = "DELETE FROM sessions WHERE id = ?"
_WITHOUT_ENTRIES = "SELECT id FROM sessions WHERE head = 0 AND parent = ''"
_UNUSED_BLOBS = "SELECT digest, size FROM blobs WHERE digest NOT IN (SELECT digest FROM entries WHERE body IS NULL)"
_DELETE_BLOB = "DELETE FROM blobs WHERE digest = ?"
_IDS = "SELECT id FROM sessions WHERE head > 0 OR parent <> '' ORDER BY id"
_COUNTS = (
    "SELECT count(*) FROM sessions WHERE head > 0 OR parent <> ''",
    "SELECT count(*) FROM entries",
    "SELECT count(*), coalesce(sum(size), 0) FROM blobs",
)
_WITHOUT_SESSION = (
    "SELECT session, count(*) FROM entries WHERE (rowid_key >> 32) NOT IN (SELECT n FROM sessions) GROUP BY session"
)
_OUTSIDE = """
SELECT seq FROM entries WHERE rowid_key > ? AND rowid_key < ? AND (session <> ? OR seq > ? OR seq <= ?) ORDER BY rowid_key
"""
_TEXTS = "SELECT seq, text FROM words WHERE session = ?"
_SHOWN = 5


# --- forks and names --------------------------------------------------------------------------------------------------


def summary_at(driver: Driver, session: str, at: int | None) -> tuple[int, journal.SessionMeta]:
    """Return the fork point of a session and its summary there. Entries do not change, so this needs no write."""
    row = require_session(driver, session)
    at = row.head if at is None else at
    if not 0 <= at <= row.head:
        raise ValueError(f"session {session!r} has entries 1 to {row.head}: it cannot be forked at {at}")
    return at, meta_of(row.meta) if at == row.head else journal.session_meta_of(session, read(driver, row, 0, at))


def fork(driver: Driver, session: str, at: int, meta: journal.SessionMeta) -> str:
    """Add a session that shares the entries of another up to `at`; `meta` is its summary."""
    require_session(driver, session)
    if not insert_row(driver, meta, parent=session, forked_at=at):
        raise StoreError(f"there is already a session {meta.id!r}: choose another id")
    return meta.id


def forked_meta(meta: journal.SessionMeta, id: str, now: int) -> journal.SessionMeta:
    """Return the summary of a new fork from the summary of its shared entries. The fork has its own times."""
    return msgspec.structs.replace(meta, id=id, created_at=now, updated_at=now, status="new", waiting_for="")


def rename(driver: Driver, session: str, name: str) -> None:
    require_session(driver, session)
    if name and driver.rows(_OTHERS, (name, session)):
        raise ValueError(f"another session is called {name!r}: choose another name")
    driver.change(_RENAME, (name, session))


def archive(driver: Driver, session: str, archived: bool) -> None:
    require_session(driver, session)
    driver.change(_ARCHIVE, (int(archived), session))


# --- deleting ---------------------------------------------------------------------------------------------------------


def delete(driver: Driver, leases: Leases, session: str, children: bool) -> tuple[str, ...]:
    row = require_session(driver, session)
    below = [id for (id,) in driver.rows(_DESCENDANTS, (session,))]
    if below and not children:
        some = ", ".join(below[:_SHOWN]) + (", ..." if len(below) > _SHOWN else "")
        raise StoreError(f"session {session!r} has forks that share its entries: {some}; delete it with its children")
    rows = [row, *(require_session(driver, id) for id in below)]
    for row in rows:
        if leases.is_held(driver, row):
            raise leases.in_use(row)
    for row in rows:
        driver.unindex(row.id)
        driver.change(REMOVE_INBOX, (row.id,))
        driver.change(_DELETE_ENTRIES, (rowid_key(row.n, 0), rowid_key(row.n + 1, 0)))
        driver.change(_DELETE, (row.id,))
    return (session, *below)


def delete_unreferenced(driver: Driver, leases: Leases) -> int:
    """Delete sessions that have no entry and no holder, and bodies without entries; return the bytes of these."""
    for (id,) in driver.rows(_WITHOUT_ENTRIES):
        row = row_of(driver, id)
        if row is not None and not leases.is_held(driver, row):
            driver.change(_DELETE, (id,))
    for id, _ in driver.rows(INBOX_WITHOUT_SESSION):
        driver.change(REMOVE_INBOX, (id,))
    unused = driver.rows(_UNUSED_BLOBS)
    for digest, _ in unused:
        driver.change(_DELETE_BLOB, (digest,))
    return sum(size for _, size in unused)


def count_rows(driver: Driver, backend: str) -> StoreStats:
    [[sessions]], [[entries]], [[blobs, blob_bytes]] = (driver.rows(sql) for sql in _COUNTS)
    return StoreStats(
        sessions=sessions,
        entries=entries,
        bytes=driver.size(),
        blobs=blobs,
        blob_bytes=int(blob_bytes),
        schema=VERSION,
        backend=backend,
    )


def all_ids(driver: Driver) -> list[str]:
    return [str(id) for (id,) in driver.rows(_IDS)]


# --- damage -----------------------------------------------------------------------------------------------------------


def find_problems_of_database(driver: Driver) -> list[VerifyProblem]:
    """Find damage that does not belong to a session."""
    problems = [VerifyProblem("", 0, what) for what in driver.check()]
    for session, count in driver.rows(_WITHOUT_SESSION):
        problems.append(VerifyProblem(session, 0, f"does not exist, but {count} entries do"))
    for session, count in driver.rows(INBOX_WITHOUT_SESSION):
        problems.append(
            VerifyProblem(str(session), 0, f"does not exist, but {count} inbox items do: `gc` removes them")
        )
    return problems


def find_problems_in(driver: Driver, session: str) -> list[VerifyProblem]:
    try:
        row = require_session(driver, session)
        stored_rows = list(rows_of(driver, row, 0, row.head))
    except StoreCorrupt as exc:
        return [VerifyProblem(session, 0, str(exc))]
    except SessionNotFound:
        if session in all_ids(driver):
            return [VerifyProblem(session, 0, "is listed, but cannot be read")]
        raise
    problems: list[tuple[int, str]] = []
    entries: list[journal.Entry] = []
    without_body: set[int] = set()
    for values in stored_rows:
        seq, body, column = values[0], values[5], wrong_column(values)
        if column:
            problems.append((seq if type(seq) is int else 0, f"has a damaged value as its {column}"))
            continue
        entries.append(damaged_entry(values))
        if not isinstance(body, bytes):
            lost = f"has lost its body ({values[6]})"
            problems.append((seq, lost if body is None else "has a body that is not bytes: it was changed"))
            without_body.add(seq)
    wrong = [(seq, what) for seq, what in find_entry_problems(row.head, entries) if seq not in without_body]
    problems += [*wrong, *_row_problems(driver, row, entries, {seq for seq, _ in wrong})]
    problems += [(0, what) for what in find_inbox_problems(driver, session)]
    try:
        stored_budget(driver, session)
    except StoreCorrupt as exc:
        problems.append((0, str(exc)))
    return [VerifyProblem(session, seq, what) for seq, what in problems]


def find_entry_problems(head: int, entries: list[journal.Entry]) -> Iterator[tuple[int, str]]:
    """Check the entries of a session, oldest first: numbers, digests, contents, results for calls.

    A call without a result is not a problem: the process may have ended, and the next run adds the result. A result without a
    call is one, because no provider accepts it.
    """
    calls: list[str] = []
    ids: set[str] = set()
    for expected, entry in enumerate(entries, 1):
        if entry.seq != expected:
            yield entry.seq, f"is in the place of entry {expected}"
        if entry.id in ids:
            yield entry.seq, f"has the id {entry.id!r} of an entry before it"
        ids.add(entry.id)
        yield from ((entry.seq, what) for what in _content_problems(entry))
        payload = entry.payload
        if isinstance(payload, journal.ReplyReceived):
            calls = [call.id for call in payload.message.tool_calls()]
        elif isinstance(payload, journal.MessageAdded | journal.SteeringAdded):
            calls = []
        elif isinstance(payload, journal.CallFinished):
            index, id = payload.call_index, payload.result.tool_use_id
            if (index, id) not in enumerate(calls):
                yield entry.seq, f"is a result for call {index}, {id!r}, which the last reply does not have"
    if len(entries) != head:
        yield 0, f"should have {head} entries, but has {len(entries)}"


def _content_problems(entry: journal.Entry) -> Iterator[str]:
    digest = journal.sha256_hex(entry.body)
    if digest != entry.digest:
        yield f"is damaged: its digest is {digest[:12]}... and was {str(entry.digest)[:12]}... when it was written"
        return
    if entry.version < journal.OLDEST_VERSION:
        yield other_version("", entry.version, journal.VERSION, "use that version to show or export it").strip()
        return
    try:
        payload = stored.load_payload(entry.body)
    except JsonError as exc:
        yield f"cannot be read: {exc}"
        return
    if payload != entry.payload or journal.payload_kind(payload) != entry.kind:
        yield f"has the kind {entry.kind!r}, but its bytes have another content"


def _row_problems(
    driver: Driver, row: SessionRow, entries: list[journal.Entry], damaged: set[int]
) -> Iterator[tuple[int, str]]:
    keys = (rowid_key(row.n, 0), rowid_key(row.n + 1, 0))
    for (seq,) in driver.rows(_OUTSIDE, (*keys, row.id, row.head, row.forked_at)):
        yield seq, f"is not one of the session's own entries, {row.forked_at + 1} to {row.head}"
    if row.parent:
        try:
            require_session(driver, row.parent)
        except StoreCorrupt as exc:
            yield 0, f"was forked from {row.parent!r}, which is damaged: {exc}"
        except SessionNotFound:
            yield 0, f"was forked from {row.parent!r}, which does not exist"
    readable = not damaged and not any(journal.unknown_payloads_in(entries))
    if readable and _expected_meta(row, entries) != meta_of(row.meta):
        yield 0, "has a summary that does not match its entries"
    for seq in _search_differences(driver, row, entries):
        if seq not in damaged:
            yield seq, "has another text in the search index: `reindex` repairs it"


def _expected_meta(row: SessionRow, entries: list[journal.Entry]) -> journal.SessionMeta:
    if not row.parent:
        return journal.session_meta_of(row.id, entries)
    meta = forked_meta(journal.session_meta_of(row.id, entries[: row.forked_at]), row.id, row.created_at)
    for entry in entries[row.forked_at :]:
        meta = meta.after(entry.payload, entry.time_ms)
    return meta


def _search_differences(driver: Driver, row: SessionRow, entries: list[journal.Entry]) -> list[int]:
    """Return the session's own entries whose text in the search index is missing, wrong or unexpected."""
    texts = {entry.seq: text_of(entry.payload) for entry in entries if row.forked_at < entry.seq <= row.indexed}
    expected = {(seq, text) for seq, text in texts.items() if text}
    different = {seq for seq, _ in expected ^ {*driver.rows(_TEXTS, (row.id,))}}
    return sorted({seq if type(seq) is int else 0 for seq in different})
