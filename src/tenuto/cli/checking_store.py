"""Check the store for the doctor: the SQLite version, damage, and interrupted sessions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from tenuto.cli.checking import Finding
from tenuto.cli.progress import progress
from tenuto.cli.reading import every, reading, short
from tenuto.store.protocol import Store, VerifyProblem

__all__ = ["sqlite_findings", "store_findings"]

_WAL_RESET = ((3, 7, 0), (3, 51, 3))
"""From which version on, and before which, a log that is begun anew can damage the file."""
_SHOWN = 3


def sqlite_findings(version: tuple[int, ...] | None = None, *, guarded: bool | None = None) -> Iterator[Finding]:
    """Whether this SQLite can keep a store, and which of its faults are known.

    `version` and `guarded` (whether files can be locked here) are those of this machine unless they are given.
    """
    from tenuto.store.locks import Locks

    found = version or sqlite3.sqlite_version_info
    safe = Locks("").available if guarded is None else guarded
    name = ".".join(map(str, found))
    if not _has_search():
        yield Finding("SQLite", "problem", f"{name} was built without FTS5", "use a Python whose SQLite has it")
    if not _WAL_RESET[0] <= found < _WAL_RESET[1]:
        yield Finding("SQLite", "ok", name)
        return
    what = f"{name} has the WAL-reset bug of 3.7.0 to 3.51.2, unless who built it mended it"
    if safe:
        held = "the store guards against it; let no other program write its file"
        yield Finding("SQLite", "note", f"{what}: {held}")
    else:
        todo = "use one process at a time with this store, or a Python with SQLite 3.51.3 or later"
        yield Finding("SQLite", "warning", f"{what}, and files cannot be locked here", todo)


def _has_search() -> bool:
    db = sqlite3.connect(":memory:")
    try:
        db.execute("CREATE VIRTUAL TABLE found USING fts5 (text)")
    except sqlite3.Error:
        return False
    finally:
        db.close()
    return True


def store_findings(place: str, file: Path | None) -> Iterator[Finding]:
    """Look for damage, all of it. A file that is not there is not made."""
    import asyncio

    if place.startswith("memory:"):
        yield Finding("store", "note", "memory: nothing is kept", "set TENUTO_STORE to a file")
        return
    if file is not None and not file.exists():
        yield Finding("store", "ok", f"none yet; the first session makes {file}")
        return
    yield from asyncio.run(_looked(place, file))


async def _looked(place: str, file: Path | None) -> list[Finding]:
    async with reading(place) as store:
        assert store is not None  # it is there
        faults = await _verified(store)
        stats = await store.stats()
        where = str(file) if file is not None else stats.backend
        count = f"{stats.sessions} session{'' if stats.sessions == 1 else 's'}, {stats.entries} entries"
        interrupted = await _interrupted(store)
    if faults:
        return [*map(_damage, faults[:_SHOWN]), _all(where, len(faults)), *interrupted]
    return [Finding("store", "ok", f"{where}: {count}, nothing damaged"), *interrupted]


async def _verified(store: Store) -> list[VerifyProblem]:
    with progress("verifying sessions") as bar:

        def tell(done: int, total: int) -> None:
            bar.total = total
            bar.advance(done - bar.done)

        return await store.verify(tell=tell)


def _damage(fault: VerifyProblem) -> Finding:
    place = f"session {fault.session}" if fault.session else "the file"
    entry = f", entry {fault.seq}" if fault.seq else ""
    return Finding("store", "problem", f"{place}{entry}: {fault.what}", damaged=True)


def _all(where: str, count: int) -> Finding:
    what = f"{where} has {count} fault{'' if count == 1 else 's'}"
    todo = (
        "tenuto sessions verify lists all; copy the file away before anything else, and fetch a backup if there is one"
    )
    return Finding("store", "problem", what, todo, damaged=True)


async def _interrupted(store: Store) -> list[Finding]:
    """List the sessions whose process died during a run."""
    ids = [short(one.id) async for one in every(store) if one.status == "interrupted"]
    if not ids:
        return []
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    message = f"{len(ids)} interrupted session{'' if len(ids) == 1 else 's'}: {', '.join(ids[:_SHOWN])}{more}"
    return [Finding("sessions", "note", message, f"tenuto resume {ids[0]} continues it")]
