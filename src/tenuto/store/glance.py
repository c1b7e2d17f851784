"""A look at which sessions a SQLite file holds, from a thread that waits for it: no event loop, no thread of its own.

`page` gives what a store's `sessions` gives. `glimpses` gives the few words of each that a list of one line a session
shows, and loads neither the values nor the codecs: most of what it costs to list sessions from a command is loading.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tenuto.store.driver import Driver
from tenuto.store.shelf import Wanted, asked, is_live
from tenuto.store.sqlite import SqliteEngine

if TYPE_CHECKING:
    from tenuto.store.protocol import Page, StoredSession

__all__ = ["Glimpse", "glimpse_of", "glimpses", "page"]


class Glimpse(NamedTuple):
    """What a line says of a session; the fields are those of `StoredSession` and its summary."""

    id: str
    name: str
    title: str
    status: str
    model: str
    message_count: int
    updated_at: int
    holder: str


def glimpses(file: Path, wanted: Wanted) -> list[Glimpse]:
    """List sessions, newest first. Raise `StoreError`, `StoreCorrupt` as a store does; a file that is not there is made."""
    limit = max(wanted.limit, 1)
    with _opened(file) as (_, driver):
        rows = driver.rows(*asked(wanted))
        now = driver.clock()
    return [_glimpse(row, now) for row in rows[:limit]]


def glimpse_of(stored: StoredSession) -> Glimpse:
    """Return the same of a session that a store has shown."""
    meta = stored.meta
    return Glimpse(
        stored.id,
        stored.name,
        meta.title,
        meta.status,
        meta.model,
        meta.message_count,
        meta.updated_at,
        stored.holder,
    )


def page(file: Path, wanted: Wanted) -> Page:
    """List sessions as a store does, whole."""
    from tenuto.store.leases import Leases
    from tenuto.store.listing import listed
    from tenuto.store.shelf import TTL

    with _opened(file) as (engine, driver):
        return listed(driver, Leases(engine, now=None, ttl_ms=TTL, pid=0, host=""), wanted)


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


def _glimpse(row: tuple[Any, ...], now: int) -> Glimpse:
    id, _, name, _, _, _, owner, until, pid, host, meta, _ = row
    holder = f"{pid}@{host}" if is_live(owner, until, now) else ""
    return Glimpse(id=id, name=name, holder=holder, **_summary(meta))


def _summary(meta: bytes) -> dict[str, Any]:
    """Read a summary. One that is not plain is left to who judges all of them, and can say what is wrong with it."""
    try:
        said = json.loads(meta)
        found = {name: said.get(name, default) for name, default in _DEFAULTS.items()}
    except (ValueError, AttributeError, RecursionError):
        found = {}
    if found and all(type(found[name]) is type(default) for name, default in _DEFAULTS.items()):
        return found
    from tenuto.store.leases import meta_of

    judged = meta_of(meta)
    return {name: getattr(judged, name) for name in _DEFAULTS}
