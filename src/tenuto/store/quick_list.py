"""A look at which sessions a SQLite file holds, from a thread that waits for it: no event loop, no thread of its own.

`list_page` gives what a store's `sessions` gives. `list_lines` gives the few words of each that a list of one line a session
shows, and loads neither the values nor the codecs: most of what it costs to list sessions from a command is loading.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tenuto.store.driver import Driver
from tenuto.store.sessions import ListQuery, SessionRow, list_sql
from tenuto.store.sqlite import SqliteEngine

if TYPE_CHECKING:
    from tenuto.store.protocol import SessionPage, StoredSession

__all__ = ["SessionLine", "list_lines", "list_page", "read_line"]


class SessionLine(NamedTuple):
    """What a line says of a session; the fields are those of `StoredSession` and its summary."""

    id: str
    name: str
    title: str
    status: str
    model: str
    message_count: int
    updated_at: int
    holder: str


def list_lines(file: Path, wanted: ListQuery) -> list[SessionLine]:
    """List sessions, newest first. Raise `StoreError`, `StoreCorrupt` as a store does; a file that is not there is made."""
    limit = max(wanted.limit, 1)
    with _opened(file) as (_, driver):
        now = driver.clock()
        return [_glimpse(SessionRow(*row), now) for row in driver.rows(*list_sql(wanted))[:limit]]


def read_line(stored: StoredSession) -> SessionLine:
    """Return the same of a session that a store has shown."""
    meta = stored.meta
    return SessionLine(
        stored.id,
        stored.name,
        meta.title,
        meta.status,
        meta.model,
        meta.message_count,
        meta.updated_at,
        stored.holder,
    )


def list_page(file: Path, wanted: ListQuery) -> SessionPage:
    """List sessions as a store does, whole."""
    from tenuto.store.leases import Leases
    from tenuto.store.session_list import list_sessions
    from tenuto.store.sessions import TTL

    with _opened(file) as (engine, driver):
        return list_sessions(driver, Leases(engine, now=None, ttl_ms=TTL, pid=0, host=""), wanted)


@contextmanager
def _opened(file: Path) -> Iterator[tuple[SqliteEngine, Driver]]:
    """Open the file for one question."""
    engine = SqliteEngine(file)
    driver = engine.open(write=False)
    try:
        driver.begin(write=False)
        yield engine, driver
        driver.commit()
    finally:
        driver.rollback()
        driver.close()


_DEFAULTS = {"title": "", "status": "open", "model": "", "message_count": 0, "updated_at": 0}
"""What a summary means that does not say otherwise."""


def _glimpse(row: SessionRow, now: int) -> SessionLine:
    return SessionLine(id=row.id, name=row.name, holder=row.holder(now), **_summary(row))


def _summary(row: SessionRow) -> dict[str, Any]:
    """Return the summary in a session's row. If plain JSON does not give it, `meta_of` reads it or raises the error."""
    found = _plain(row.meta)
    if found is None:
        from tenuto.store.leases import meta_of

        judged = meta_of(row.meta)
        found = {name: getattr(judged, name) for name in _DEFAULTS}
    return found


def _plain(meta: bytes) -> dict[str, Any] | None:
    try:
        said = json.loads(meta)
        found = {name: said.get(name, default) for name, default in _DEFAULTS.items()}
    except (ValueError, AttributeError, RecursionError):
        return None
    return found if all(type(found[name]) is type(default) for name, default in _DEFAULTS.items()) else None
