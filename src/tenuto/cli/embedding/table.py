"""Vectors in a SQLite file, for whoever reads it with something else, too.

The table `embeddings` has id, digest, at (milliseconds since 1970), vector (floats of four bytes, the low one first) and
text. What is true of all, the model and the number of dimensions, stands once, in `about`, so that it cannot be mixed.

Transactions, locks and the log are as in the store of sessions (`tenuto.store.sqlite`): what was committed survives a
killed process and a loss of power, and several processes may write.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tenuto.cli.embedding.items import Item
from tenuto.cli.embedding.keeping import Answered, Kept, packed
from tenuto.errors import StoreError
from tenuto.store.sqlite import PATIENCE, SqliteDriver, translating_errors

__all__ = ["Table"]

_APPLICATION = 0x74_65_6E_65
"""In the header of the file: by this it is known as ours, and as no store of sessions."""
_VERSION = 1
_PAGE = 256
_SCHEMA = (
    "CREATE TABLE about (model TEXT NOT NULL, dimensions INTEGER NOT NULL, asked INTEGER NOT NULL)",
    # The text stands last: whoever looks through the vectors need not read it.
    """CREATE TABLE embeddings (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        digest TEXT NOT NULL,
        at INTEGER NOT NULL,
        vector BLOB NOT NULL,
        text TEXT NOT NULL
    )""",
    "CREATE INDEX embeddings_digest ON embeddings (digest)",
    f"PRAGMA application_id={_APPLICATION}",
    f"PRAGMA user_version={_VERSION}",
)
_SETTINGS = (
    "PRAGMA synchronous=FULL",
    "PRAGMA fullfsync=1",
    "PRAGMA checkpoint_fullfsync=1",
    "PRAGMA wal_autocheckpoint=0",  # the driver copies the log, when nobody writes
    "PRAGMA trusted_schema=0",
)
_PUT = """INSERT INTO embeddings (id, digest, at, vector, text) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE
    SET digest = excluded.digest, at = excluded.at, vector = excluded.vector, text = excluded.text"""


class Table:
    """A file, which is made when the first vectors are put into it."""

    ordered = False

    def __init__(self, path: Path, *, write: bool = True) -> None:
        self._path = path.absolute()
        self._write = write
        self._driver: SqliteDriver | None = None
        self.where = str(path)
        if self._path.exists():
            _ = self._db  # what cannot be used is told before anybody is asked

    @property
    def _db(self) -> SqliteDriver:
        if self._driver is None:
            if self._write:
                _make(self._path)
            self._driver = SqliteDriver(self._writer if self._write else self._reader, self._path)
        return self._driver

    def close(self) -> None:
        """Close the file."""
        if self._driver is not None:
            self._driver.close()

    # --- what is there ---

    def kept(self) -> Kept | None:
        """What the vectors have in common; None if there are none."""
        rows = self._db.rows("SELECT model, dimensions, asked FROM about") if self._driver is not None else []
        return Kept(*rows[0]) if rows else None

    def vectors(self) -> Iterator[list[tuple[str, bytes]]]:
        """Yield ids and vectors, in the order of the ids."""
        last = ""
        sql = "SELECT id, vector FROM embeddings WHERE id > ? ORDER BY id LIMIT ?"
        while rows := self._db.rows(sql, (last, _PAGE)):
            yield [(id, vector) for id, vector in rows]
            last = rows[-1][0]

    def texts(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the texts of items."""
        return {id: str(self._one("SELECT text FROM embeddings WHERE id = ?", id)) for id in ids}

    # --- what is added and taken away ---

    def left(self, items: Sequence[Item]) -> list[Item]:
        """Return what has to be asked for. A text that is there under another id, since a file was renamed or a line was
        put in, gets the vector that is there.
        """
        if self._driver is None:
            return list(items)
        same = "SELECT digest FROM embeddings WHERE id = ?"
        new = [item for item in items if self._one(same, item.id) != item.digest]
        alike = "SELECT vector FROM embeddings WHERE digest = ? LIMIT 1"
        held = [(item, self._one(alike, item.digest)) for item in new]
        moved = [(item, vector) for item, vector in held if isinstance(vector, bytes)]
        if moved:
            with self._writing():
                self._insert(moved)
        return [item for item, vector in held if vector is None]

    def put(self, batch: Sequence[Answered], kept: Kept) -> None:
        """Keep vectors, in one transaction. Raise `StoreError` if somebody else began the table otherwise."""
        rows = [(item, packed(vector)) for item, vector in batch]
        db = self._db
        with self._writing():
            there = self.kept()
            if there is None:
                db.change("INSERT INTO about (model, dimensions, asked) VALUES (?, ?, ?)", tuple(kept))
            elif there[:2] != kept[:2]:
                raise StoreError(
                    f"{self.where!r} was begun with {there.model} ({there.dimensions} dimensions) by somebody else "
                    "meanwhile: choose another --into"
                )
            self._insert(rows)
        db.checkpoint()

    def prune(self, seen: set[str]) -> int:
        """Take away what is not among these ids; return how much that was."""
        if self._driver is None:
            return 0
        old = [(id,) for (id,) in self._db.rows("SELECT id FROM embeddings") if id not in seen]
        if old:
            with self._writing():
                self._db.insert("DELETE FROM embeddings WHERE id = ?", old)
        self._db.checkpoint()
        return len(old)

    # --- inside ---

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._db.begin(write=True)
        try:
            yield
            self._db.commit()
        except BaseException:
            self._db.rollback()
            raise

    def _insert(self, rows: Sequence[tuple[Item, bytes]]) -> None:
        now = time.time_ns() // 1_000_000
        self._db.insert(_PUT, [(item.id, item.digest, now, vector, item.text) for item, vector in rows])

    def _one(self, sql: str, key: str) -> object:
        """Return the one value that is asked for; None if there is none."""
        rows = self._db.rows(sql, (key,))
        return rows[0][0] if rows else None

    def _writer(self) -> sqlite3.Connection:
        with translating_errors(self._path):
            db = _connected(self._path)
            try:
                if _version(db, self._path) == 0:
                    _fill(db, self._path)
                for pragma in _SETTINGS:
                    db.execute(pragma).fetchall()
            except BaseException:
                db.close()
                raise
        return db

    def _reader(self) -> sqlite3.Connection:
        with translating_errors(self._path):
            db = _connected(self._path)
            try:
                if _version(db, self._path) == 0:
                    raise StoreError(f"{str(self._path)!r} is empty: nothing was embedded yet")
                db.execute("PRAGMA query_only=1").fetchall()
            except BaseException:
                db.close()
                raise
        return db


def _make(path: Path) -> None:
    """Make an empty file, for its owner's eyes only; one that is there stays as it is."""
    with translating_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False
    )


def _version(db: sqlite3.Connection, path: Path) -> int:
    """Make sure that the file is ours; return the version of its tables, 0 if there are none yet."""
    [[application]] = db.execute("PRAGMA application_id").fetchall()
    [[version]] = db.execute("PRAGMA user_version").fetchall()
    [[tables]] = db.execute("SELECT count(*) FROM sqlite_master").fetchall()
    if application != _APPLICATION and tables:
        raise StoreError(f"{str(path)!r} is a database of another kind: name another file. Nothing was changed")
    if version > _VERSION:
        raise StoreError(f"{str(path)!r} was made by a newer version of tenuto: update it, or name another file")
    return int(version) if tables else 0


def _fill(db: sqlite3.Connection, path: Path) -> None:
    """Make the tables, all or none; somebody else may be about to do the same."""
    db.execute("PRAGMA journal_mode=WAL").fetchall()
    db.execute("BEGIN IMMEDIATE")
    if _version(db, path) == 0:
        for statement in _SCHEMA:
            db.execute(statement)
    db.execute("COMMIT")
