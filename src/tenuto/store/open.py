"""Opening a store by saying where it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenuto.store.protocol import Store

__all__ = ["file_of", "open_store"]


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
    file = file_of(place)
    if file is not None:
        from tenuto.store.sql_store import SqlStore
        from tenuto.store.sqlite import SqliteEngine

        return SqlStore(SqliteEngine(file))
    scheme, _, rest = place.partition("://")
    if scheme == "memory":
        from tenuto.store.memory import MemoryStore, shared

        return MemoryStore(shared(rest))
    if scheme in ("postgresql", "postgres"):
        from tenuto.store.postgres import PostgresEngine
        from tenuto.store.sql_store import SqlStore

        return SqlStore(PostgresEngine(place))
    raise ValueError(
        f"{scheme}://... is no place for a store: name a file, sqlite:///FILE, or postgresql://HOST/DATABASE"
    )


def file_of(place: str) -> Path | None:
    """Return the file that a place is; None if it is something else. Raise `ValueError` for a name that no file can have."""
    if "://" in place:
        prefix, _, rest = place.partition(":///")
        if prefix != "sqlite" or not rest:
            return None
        place = rest
    if not place or "\0" in place:
        raise ValueError("name a file for the store to be in")
    file = Path(place).expanduser()
    if not file.name:
        raise ValueError(f"{place!r} is a folder: name a file for the store to be in")
    return file
