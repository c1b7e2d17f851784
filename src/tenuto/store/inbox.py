"""The inbox table: items that any process posts, and that the holder of the lease takes.

Each function works in the transaction that the caller has begun. `docs/store.md` describes the inbox.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tenuto.core import stored
from tenuto.core.inbox import InboxItem, PostedItem, UnknownItem, item_kind
from tenuto.core.journal import sha256_hex
from tenuto.core.jsonio import JsonError
from tenuto.errors import StoreCorrupt
from tenuto.store.driver import Driver
from tenuto.store.sessions import SessionRow, require_session, row_of

_POST = """
INSERT INTO inbox (session, id, at, kind, digest, body) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (session, id) DO NOTHING
"""
READ = "SELECT number, id, at, kind, digest, body FROM inbox WHERE session = ? ORDER BY number"
POSTED = "SELECT session, max(number) FROM inbox GROUP BY session"
TAKE = "DELETE FROM inbox WHERE session = ? AND number = ?"
_ENTRY = "SELECT seq FROM entries WHERE session = ? AND id = ?"
WITHOUT_SESSION = "SELECT session, count(*) FROM inbox WHERE session NOT IN (SELECT id FROM sessions) GROUP BY session"
REMOVE = "DELETE FROM inbox WHERE session = ?"


def post(driver: Driver, session: str, id: str, time_ms: int, item: InboxItem | UnknownItem, body: bytes) -> None:
    """Add an item, unless the inbox or the journal of the session has its id."""
    if not _is_entry_id(driver, require_session(driver, session), id):
        driver.change(_POST, (session, id, time_ms, item_kind(item), sha256_hex(body), body))


def _is_entry_id(driver: Driver, row: SessionRow, id: str) -> bool:
    """Return whether an entry has this id, also one that a fork shares with the sessions before it."""
    last, ancestor = row.head, row
    while True:
        rows = driver.rows(_ENTRY, (ancestor.id, id))
        if rows and rows[0][0] <= last:
            return True
        last, parent = ancestor.forked_at, row_of(driver, ancestor.parent) if ancestor.parent else None
        if parent is None:
            return False
        ancestor = parent


def read(driver: Driver, session: str) -> list[PostedItem]:
    """Return the items, oldest first. Raise `StoreCorrupt` for an item whose bytes do not match their digest."""
    require_session(driver, session)
    items: list[PostedItem] = []
    for row in driver.rows(READ, (session,)):
        number, id, at, _, _, body = row
        problem = _problem(row)
        if problem:
            raise StoreCorrupt(f"inbox item {number} of session {session!r} {problem}; restore a backup")
        items.append(PostedItem(number, id, at, stored.load_item(body)))
    return items


def find_problems(driver: Driver, session: str) -> Iterator[str]:
    for row in driver.rows(READ, (session,)):
        problem = _problem(row)
        if problem:
            yield f"inbox item {row[0]} {problem}"


def _problem(row: tuple[Any, ...]) -> str:
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
