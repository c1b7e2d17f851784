"""Kept replies in a SQLite file, for several threads and processes.

Each act opens the file anew: a connection that is never kept open needs no closing, belongs to no thread, and survives a
fork. Next to a call to a model it costs nothing.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

from tenuto.errors import StoreError

__all__ = ["FileCache"]

T = TypeVar("T")
_MAKING = threading.Lock()
_PATIENCE = 5.0
_PAUSE = 0.01
_SCHEMA = """
CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, value BLOB NOT NULL, expires REAL NOT NULL) WITHOUT ROWID
"""
_TOO_MANY = "DELETE FROM replies WHERE key IN (SELECT key FROM replies ORDER BY expires DESC LIMIT -1 OFFSET ?)"


class FileCache:
    """A table of replies in one file, which is made when it is first needed, for its owner's eyes only."""

    def __init__(self, path: str | os.PathLike[str], max_entries: int, now: Callable[[], float]) -> None:
        self._path = Path(path).absolute()
        self._most = max_entries
        self._now = now
        if not self._path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {str(self._path.parent)!r} for the cache to be in")

    def get(self, key: str) -> bytes | None:
        """Return what is kept under a key and has not expired."""
        asked = "SELECT value FROM replies WHERE key = ? AND expires > ?", (key, self._now())
        found = self._act(lambda db: db.execute(*asked).fetchone())
        return None if found is None else bytes(found[0])

    def set(self, key: str, value: bytes, expires: float) -> None:
        """Keep a value; what has expired goes, and what expires first makes room."""

        def write(db: sqlite3.Connection) -> None:
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", (key, value, expires))
            db.execute("DELETE FROM replies WHERE expires <= ?", (self._now(),))
            db.execute(_TOO_MANY, (self._most,))
            db.execute("COMMIT")

        self._act(write)

    def _act(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Do something with the file. Where SQLite does not wait for another by itself, it is tried again."""
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                with closing(self._opened()) as db:
                    _prepare(db)
                    return act(db)
            except sqlite3.Error as exc:
                if getattr(exc, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise StoreError(f"{str(self._path)!r}: {exc}") from exc
            time.sleep(_PAUSE)

    def _opened(self) -> sqlite3.Connection:
        # A process that closes a file loses every lock it has on it, those of other connections, too. So the file is
        # opened here once, when it is made, and before anybody of this process can be connected to it.
        with _MAKING, suppress(FileExistsError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        return sqlite3.connect(self._path, timeout=_PATIENCE, isolation_level=None)


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'replies'").fetchone():
        db.execute("BEGIN IMMEDIATE")
        db.execute(_SCHEMA)
        db.execute("COMMIT")
