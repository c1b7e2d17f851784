"""Restoring a store from a backup."""

from __future__ import annotations

import os
from pathlib import Path

from tenuto.errors import StoreError
from tenuto.store.open import file_of

__all__ = ["restore"]


def restore(backup: str | os.PathLike[str], store: str | os.PathLike[str]) -> None:
    """Replace a SQLite store by a backup that `Store.backup` wrote. The backup stays as it is.

    `store` is a path or `sqlite:///` and a path; the file need not exist. It is replaced in one step, under the lock that
    writers share, together with its log. Processes that have it open continue with the restored sessions; their leases are
    lost. If the process is killed meanwhile, call it again.

    Raise `StoreError` for a store on a server or in memory, if the store is in use for too long, or if the backup is no
    store of this version; `StoreCorrupt` for a damaged backup. The store is not changed then.
    """
    from tenuto.store.sqlite import SqliteEngine

    file = file_of(os.fspath(store))
    if file is None:
        raise StoreError("only a store in a SQLite file can be restored: a server has commands of its own (pg_restore)")
    source = Path(backup).expanduser()
    if source.exists() and file.exists() and source.samefile(file):
        raise StoreError(f"{str(source)!r} is the store itself: name a backup")
    SqliteEngine(file).restore(source)
