"""Lists of sessions, and finding the one that is meant."""

from __future__ import annotations

from typing import Any

from tenuto.errors import SessionNotFound
from tenuto.store.driver import Driver
from tenuto.store.entries import branch_of, clean
from tenuto.store.ids import chosen, places_back
from tenuto.store.leases import Leases, meta_of
from tenuto.store.protocol import Page, StoredSession
from tenuto.store.shelf import COLUMNS, Wanted, asked

__all__ = ["Wanted", "find", "listed", "shown"]

_ONE = "SELECT {columns} FROM sessions WHERE id = ?".replace("{columns}", COLUMNS.replace("{order}", "updated_at"))
_CALLED = "SELECT id FROM sessions WHERE (head > 0 OR parent <> '') AND name = ?"
_BEGINNING = """
SELECT id FROM sessions WHERE (head > 0 OR parent <> '') AND substr(id, 1, ?) = ? AND (? = 0 OR agent = ?) LIMIT 6
"""
_BACK = """
SELECT id FROM sessions WHERE (head > 0 OR parent <> '') AND archived = 0 AND (? = 0 OR agent = ?)
ORDER BY updated_at DESC, id DESC LIMIT 1 OFFSET ?
"""


def listed(driver: Driver, leases: Leases, wanted: Wanted) -> Page:
    """List sessions, newest first. A page begins where the one before ended, whatever changed between them."""
    limit = max(wanted.limit, 1)
    rows = driver.rows(
        *asked(wanted._replace(agent=_clean(wanted.agent), status=_clean(wanted.status), after=clean(wanted.after)))
    )
    now = leases.now(driver)
    found = tuple(_session(row, leases, now) for row in rows[:limit])
    return Page(found, f"{rows[limit - 1][-1]}.{found[-1].id}" if len(rows) > limit else "")


def shown(driver: Driver, leases: Leases, session: str) -> StoredSession:
    """Return one session as a list shows it."""
    branch_of(driver, session)
    return _session(driver.rows(_ONE, (session,))[0], leases, leases.now(driver))


def find(driver: Driver, text: str, agent: str | None) -> str:
    """Return the id that is meant: an id, a name, `last`, `~N`, or the beginning of one id only."""
    if not text:
        raise SessionNotFound("no session is called by an empty name")
    if clean(text) != text:
        return chosen(text, ())
    try:
        return branch_of(driver, text).id
    except SessionNotFound:
        named = driver.rows(_CALLED, (text,))
    if named:
        return str(named[0][0])
    back = places_back(text)
    if back is not None:
        rows = driver.rows(_BACK, (*_filter(agent), back))
    else:
        rows = driver.rows(_BEGINNING, (len(text), text, *_filter(agent)))
    return chosen(text, [id for (id,) in rows])


def _filter(text: str | None) -> tuple[int, str]:
    return int(text is not None), clean(text or "")


def _clean(text: str | None) -> str | None:
    return None if text is None else clean(text)


def _session(row: tuple[Any, ...], leases: Leases, now: int) -> StoredSession:
    id, head, name, parent, forked_at, archived, owner, until, pid, host, meta, _ = row
    return StoredSession(
        id=id,
        head=head,
        meta=meta_of(meta),
        name=name,
        parent=parent,
        forked_at=forked_at,
        archived=bool(archived),
        holder=f"{pid}@{host}" if leases.is_live(owner, until, now) else "",
    )
