"""Kept replies in a SQLite file, for several threads and processes.

Each act opens the file anew: a connection that is never kept open needs no closing, belongs to no thread, and survives a
fork. Next to a call to a model it costs nothing.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tenuto.errors import StoreError

__all__ = ["FileStore"]

_BUSY = 5.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, value BLOB NOT NULL, expires REAL NOT NULL) WITHOUT ROWID
"""


class FileStore:
    """A table of replies in one file, which is made when it is first needed, for its owner's eyes only."""

    def __init__(self, path: str | os.PathLike[str], max_entries: int, now: Callable[[], float]) -> None:
        self._path = Path(path).absolute()
        self._most = max_entries
        self._now = now
        if not self._path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {str(self._path.parent)!r} for the cache to be in")

    def get(self, key: str) -> bytes | None:
        """Return what is kept under a key and has not expired."""
        with self._opened() as db:
            found = db.execute("SELECT value FROM replies WHERE key = ? AND expires > ?", (key, self._now())).fetchone()
        return None if found is None else bytes(found[0])

    def set(self, key: str, value: bytes, expires: float) -> None:
        """Keep a value; what has expired goes, and what expires first makes room."""
        with self._opened() as db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", (key, value, expires))
            db.execute("DELETE FROM replies WHERE expires <= ?", (self._now(),))
            db.execute(
                "DELETE FROM replies WHERE key IN (SELECT key FROM replies ORDER BY expires DESC LIMIT -1 OFFSET ?)",
                (self._most,),
            )
            db.execute("COMMIT")

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        try:
            with closing(sqlite3.connect(self._path, timeout=_BUSY, isolation_level=None)) as db:
                with suppress(sqlite3.OperationalError):  # another is just doing it; either journal will do
                    db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = NORMAL")
                db.execute(_SCHEMA)
                yield db
        except sqlite3.Error as exc:
            raise StoreError(f"{str(self._path)!r}: {exc}") from exc
