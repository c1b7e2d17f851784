"""Opening a store at a location, and restoring one from a backup."""

from __future__ import annotations

import os
from pathlib import Path

import tenuto.store  # annotations load `tenuto.store.Store` when they are evaluated
from tenuto.errors import StoreError
from tenuto.store.sessions import TTL


def open_store(
    where: str | os.PathLike[str] | tenuto.store.Store | None, *, ttl: float | None = None
) -> tenuto.store.Store:
    """Return the store at a location. Nothing is opened or created before it is used.

    A path, or `sqlite:///` and a path, is a SQLite file; `postgresql://...` is a Postgres database; None is memory, and
    `memory://NAME` is memory that this process shares under this name. A store is returned as it is.

    `ttl` is the number of seconds after which a lease ends unless it is used or renewed (default: 60).
    Raise `ValueError` for another kind of URL.
    """
    ttl_ms = TTL if ttl is None else int(ttl * 1000)
    if ttl_ms < 1:
        raise ValueError(f"ttl is {ttl} s: use a positive number of seconds")
    if where is not None and not isinstance(where, str | os.PathLike):
        if not hasattr(where, "lease"):
            raise TypeError(f"store: expected a path, a URL, a store or None, got {type(where).__name__}")
        if ttl is not None:
            raise ValueError("ttl cannot be changed for an open store: pass it when the store is opened")
        return where
    location = "memory://" if where is None else os.fspath(where)
    file = file_of(location)
    scheme, _, rest = location.partition("://")
    if file is not None:
        from tenuto.store.sql_store import SqlStore
        from tenuto.store.sqlite import SqliteEngine

        return SqlStore(SqliteEngine(file), ttl_ms=ttl_ms)
    if scheme == "memory":
        from tenuto.store.memory import MemoryStore, shared_memory

        return MemoryStore(None if where is None else shared_memory(rest), ttl_ms=ttl_ms)
    if scheme in ("postgresql", "postgres"):
        from tenuto.store.postgres import PostgresEngine
        from tenuto.store.sql_store import SqlStore

        return SqlStore(PostgresEngine(location), ttl_ms=ttl_ms)
    raise ValueError(f"a store cannot be at {scheme}://...: use a file, sqlite:///FILE or postgresql://HOST/DATABASE")


def file_of(location: str) -> Path | None:
    """Return the SQLite file of a location; None for another kind of store. Raise `ValueError` for an invalid name."""
    if "://" in location:
        prefix, _, rest = location.partition(":///")
        if prefix != "sqlite" or not rest:
            return None
        location = rest
    if not location or "\0" in location:
        raise ValueError("the name of the store is empty or has a NUL character: use the name of a file")
    file = Path(location).expanduser()
    if not file.name:
        raise ValueError(f"{location!r} is a directory: use the name of a file in it")
    return file


def restore(backup: str | os.PathLike[str], store: str | os.PathLike[str]) -> None:
    """Replace a SQLite store by a backup that `Store.backup` wrote. The backup is not changed.

    `store` is a path or `sqlite:///` and a path; the file need not exist. It is replaced in one step, under the lock that
    writers share, together with its log. Processes that have it open continue with the restored sessions; their leases are
    lost. If the process is killed meanwhile, call it again.

    Raise `StoreError` for a store on a server or in memory, if the store is in use for too long, or if the backup is not a
    store of this version; `StoreCorrupt` for a damaged backup. The store is not changed then.
    """
    from tenuto.store.sqlite import SqliteEngine

    file = file_of(os.fspath(store))
    if file is None:
        raise StoreError("only a SQLite store can be restored: use the commands of the server (pg_restore)")
    source = Path(backup).expanduser()
    if source.exists() and file.exists() and source.samefile(file):
        raise StoreError(f"{str(source)!r} is the store itself: use the file of a backup")
    SqliteEngine(file).restore(source)
