"""Lists of sessions, and finding the one that is meant."""

from __future__ import annotations

from tenuto.errors import SessionNotFound
from tenuto.store.driver import Driver
from tenuto.store.entries import clean, require_session
from tenuto.store.ids import only_match, places_back
from tenuto.store.leases import Leases, meta_of
from tenuto.store.protocol import SessionPage, StoredSession
from tenuto.store.sessions import ListQuery, SessionRow, list_sql

__all__ = ["ListQuery", "find", "forks_of", "list_sessions", "shown"]

_CALLED = "SELECT id FROM sessions WHERE (head > 0 OR parent <> '') AND name = ?"
_FORKS = "SELECT id FROM sessions WHERE parent = ? AND parent <> '' ORDER BY id"
_BEGINNING = """
SELECT id FROM sessions WHERE (head > 0 OR parent <> '') AND substr(id, 1, ?) = ? AND (? = 0 OR agent = ?) LIMIT 6
"""


def list_sessions(driver: Driver, leases: Leases, wanted: ListQuery) -> SessionPage:
    """List sessions, newest first. A page begins where the one before ended, whatever changed between them."""
    limit = max(wanted.limit, 1)
    rows = _rows(driver, wanted)
    now = leases.now(driver)
    sessions = tuple(_session(row, leases, now) for row in rows[:limit])
    return SessionPage(sessions, f"{rows[limit - 1].at}.{sessions[-1].id}" if len(rows) > limit else "")


def _rows(driver: Driver, wanted: ListQuery) -> list[SessionRow]:
    cleaned = wanted._replace(agent=_clean(wanted.agent), status=_clean(wanted.status), after=clean(wanted.after))
    return [SessionRow(*row) for row in driver.rows(*list_sql(cleaned))]


def shown(driver: Driver, leases: Leases, session: str) -> StoredSession:
    """Return one session as a list shows it."""
    return _session(require_session(driver, session), leases, leases.now(driver))


def forks_of(driver: Driver, session: str) -> list[str]:
    """Return the ids of the sessions that were forked from this one, in order."""
    require_session(driver, session)
    return [id for (id,) in driver.rows(_FORKS, (session,))]


def find(driver: Driver, text: str, agent: str | None) -> str:
    """Return the id that is meant: an id, a name, `last`, `~N`, or the beginning of one id only."""
    if not text:
        raise SessionNotFound("no session is called by an empty name")
    if clean(text) != text:
        return only_match(text, ())
    back = places_back(text)
    if back is not None:
        rows = _rows(driver, ListQuery(agent, None, archived=False, order="updated", limit=back + 1, after=""))
        return only_match(text, [row.id for row in rows[back : back + 1]])
    try:
        return require_session(driver, text).id
    except SessionNotFound:
        named = driver.rows(_CALLED, (text,))
    if named:
        return str(named[0][0])
    wanted = (int(agent is not None), _clean(agent) or "")
    return only_match(text, [id for (id,) in driver.rows(_BEGINNING, (len(text), text, *wanted))])


def _clean(text: str | None) -> str | None:
    return None if text is None else clean(text)


def _session(row: SessionRow, leases: Leases, now: int) -> StoredSession:
    return StoredSession(
        id=row.id,
        head=row.head,
        meta=meta_of(row.meta),
        name=row.name,
        parent=row.parent,
        forked_at=row.forked_at,
        archived=bool(row.archived),
        holder=leases.holder(row, now),
    )
