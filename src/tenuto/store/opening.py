"""Opening a store by saying where it is."""

from __future__ import annotations

import os
from pathlib import Path

from tenuto.store.protocol import Store

__all__ = ["open_store"]


def open_store(where: str | os.PathLike[str] | Store | None) -> Store:
    """Return the store at a place; nothing is opened or made before it is used.

    None is memory, and `memory://NAME` a memory that all who name it in this process share, for as long as it lives;
    `postgresql://...` is a database on a server; a path, or `sqlite:///` and a path, is a file. What is a store already
    stays what it is. Raise `ValueError` for an address of another kind.
    """
    if where is None:
        from tenuto.store.memory import MemoryStore

        return MemoryStore()
    if not isinstance(where, str | os.PathLike):
        return where
    place = os.fspath(where)
    scheme, separator, rest = place.partition("://")
    if not separator:
        return _file(place)
    if scheme == "memory":
        from tenuto.store.memory import MemoryStore, shared

        return MemoryStore(shared(rest))
    if scheme in ("postgresql", "postgres"):
        from tenuto.store.postgres import PostgresEngine
        from tenuto.store.sql import SqlStore

        return SqlStore(PostgresEngine(place))
    if scheme == "sqlite" and rest.startswith("/") and rest != "/":
        return _file(rest[1:])
    raise ValueError(
        f"{scheme}://... is no place for a store: name a file, sqlite:///FILE, or postgresql://HOST/DATABASE"
    )


def _file(place: str) -> Store:
    from tenuto.store.sql import SqlStore
    from tenuto.store.sqlite import SqliteEngine

    if not place or "\0" in place:
        raise ValueError("name a file for the store to be in")
    return SqlStore(SqliteEngine(Path(place).expanduser()))
