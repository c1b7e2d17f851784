"""Vectors in a SQLite file: collections, and the items of each.

The view `embeddings` is for whoever reads it with something else: collection, id, digest, model, dimensions, vector
(floats of four bytes, the low one first), text (null if it was not to be kept), at (milliseconds since 1970). What is
true of a whole collection, its model and its number of dimensions, is written once, so that it cannot be mixed.

Transactions, locks and the log are as in the store of sessions (`tenuto.store.sqlite`): what was committed survives a
killed process and a loss of power, and several processes may write.
"""

from __future__ import annotations

import difflib
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tenuto.cli.embed_items import Item
from tenuto.cli.embed_keeping import Answered, Kept, packed
from tenuto.errors import StoreError
from tenuto.store.sqlite import SqliteDriver
from tenuto.store.sqlite_errors import PATIENCE, spoken

__all__ = ["Collection", "Table"]

_APPLICATION = 0x74_65_6E_65
"""In the header of the file: by this it is known as ours, and as no store of sessions."""
_VERSION = 1
_PAGE = 256
_SCHEMA = (
    """CREATE TABLE collections (
        n INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        model TEXT NOT NULL,
        dimensions INTEGER NOT NULL,
        asked INTEGER NOT NULL
    )""",
    # The text stands last: whoever looks through the vectors need not read it.
    """CREATE TABLE items (
        n INTEGER PRIMARY KEY,
        collection INTEGER NOT NULL REFERENCES collections (n),
        id TEXT NOT NULL,
        digest TEXT NOT NULL,
        at INTEGER NOT NULL,
        vector BLOB NOT NULL,
        text TEXT,
        UNIQUE (collection, id)
    )""",
    "CREATE INDEX items_digest ON items (collection, digest)",
    """CREATE VIEW embeddings AS
        SELECT collections.name AS collection, id, digest, model, dimensions, vector, text, at
        FROM items JOIN collections ON collections.n = items.collection""",
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
_PUT = """INSERT INTO items (collection, id, digest, at, vector, text) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (collection, id) DO UPDATE
    SET digest = excluded.digest, at = excluded.at, vector = excluded.vector, text = excluded.text"""


class Collection(NamedTuple):
    """A collection, as it is listed."""

    collection: str
    items: int
    model: str
    dimensions: int


class Table:
    """One collection of a file, which is made when the first vectors are put into it."""

    ordered = False

    def __init__(self, path: Path, collection: str, *, text: bool = True, write: bool = True) -> None:
        self._path = path.absolute()
        self._name = collection
        self._text = text
        self._write = write
        self._driver: SqliteDriver | None = None
        self.where = f"{path}, collection {collection}"
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
        """What the vectors of this collection have in common; None if it is not there."""
        if self._driver is None:
            return None
        rows = self._db.rows("SELECT model, dimensions, asked FROM collections WHERE name = ?", (self._name,))
        return Kept(*rows[0]) if rows else None

    def collections(self) -> list[Collection]:
        """Every collection of the file."""
        rows = self._db.rows(
            "SELECT name, (SELECT count(*) FROM items WHERE collection = collections.n), model, dimensions "
            "FROM collections ORDER BY name"
        )
        return [Collection(*row) for row in rows]

    def names(self) -> list[str]:
        """The names of the collections."""
        return [one.collection for one in self.collections()]

    def near(self, id: str) -> list[str]:
        """Return ids that look like this one."""
        rows = self._db.rows("SELECT id FROM items WHERE collection = ? LIMIT 5000", (self._number(),))
        return difflib.get_close_matches(id, [row[0] for row in rows], n=3)

    def vectors(self) -> Iterator[list[tuple[str, bytes]]]:
        """Yield ids and vectors, in the order of the ids."""
        number, last = self._number(), ""
        while rows := self._db.rows(
            "SELECT id, vector FROM items WHERE collection = ? AND id > ? ORDER BY id LIMIT ?", (number, last, _PAGE)
        ):
            yield [(id, vector) for id, vector in rows]
            last = rows[-1][0]

    def vector(self, id: str) -> bytes | None:
        """Return the vector of one item."""
        found = self._one("SELECT vector FROM items WHERE collection = ? AND id = ?", self._number(), id)
        return found if isinstance(found, bytes) else None

    def texts(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the texts of items."""
        sql, number = "SELECT text FROM items WHERE collection = ? AND id = ?", self._number()
        found = {id: self._one(sql, number, id) for id in ids}
        return {id: text for id, text in found.items() if isinstance(text, str)}

    # --- what is added and taken away ---

    def left(self, items: Sequence[Item]) -> list[Item]:
        """Return what has to be asked for. A text that is there under another id, since a file was renamed or a line was
        put in, gets the vector that is there.
        """
        number = self._number()
        if not number:
            return list(items)
        same = "SELECT digest FROM items WHERE collection = ? AND id = ?"
        new = [item for item in items if self._one(same, number, item.id) != item.digest]
        alike = "SELECT vector FROM items WHERE collection = ? AND digest = ? LIMIT 1"
        held = [(item, self._one(alike, number, item.digest)) for item in new]
        moved = [(item, vector) for item, vector in held if isinstance(vector, bytes)]
        if moved:
            with self._writing():
                self._insert(number, moved)
        return [item for item, vector in held if vector is None]

    def put(self, batch: Sequence[Answered], kept: Kept) -> None:
        """Keep vectors, in one transaction. Raise `StoreError` if somebody else began the collection otherwise."""
        rows = [(item, packed(vector)) for item, vector in batch]
        with self._writing():
            there = self.kept()
            if there is None:
                sql = "INSERT INTO collections (name, model, dimensions, asked) VALUES (?, ?, ?, ?)"
                self._db.change(sql, (self._name, *kept))
            elif there[:2] != kept[:2]:
                raise StoreError(
                    f"collection {self._name!r} was begun with {there.model} ({there.dimensions} dimensions) by somebody "
                    "else meanwhile: choose another --collection"
                )
            self._insert(self._number(), rows)
        self._db.settle()

    def prune(self, seen: set[str]) -> int:
        """Take away what is not among these ids; return how much that was."""
        number, last, gone = self._number(), "", 0
        if not number:
            return 0
        sql = "SELECT id FROM items WHERE collection = ? AND id > ? ORDER BY id LIMIT ?"
        while rows := self._db.rows(sql, (number, last, _PAGE)):
            last = rows[-1][0]
            old = [(number, id) for (id,) in rows if id not in seen]
            if old:
                with self._writing():
                    self._db.insert("DELETE FROM items WHERE collection = ? AND id = ?", old)
                gone += len(old)
        self._db.settle()
        return gone

    def remove(self) -> int:
        """Take the whole collection away; return how many items it had."""
        with self._writing():
            number = self._number()
            gone = self._db.change("DELETE FROM items WHERE collection = ?", (number,))
            self._db.change("DELETE FROM collections WHERE n = ?", (number,))
        self._db.settle()
        return gone

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

    def _number(self) -> int:
        """Return the collection's number; 0 if there is none."""
        if self._driver is None:
            return 0
        rows = self._db.rows("SELECT n FROM collections WHERE name = ?", (self._name,))
        return int(rows[0][0]) if rows else 0

    def _insert(self, number: int, rows: Sequence[tuple[Item, bytes]]) -> None:
        now = time.time_ns() // 1_000_000
        self._db.insert(
            _PUT,
            [(number, item.id, item.digest, now, vector, item.text if self._text else None) for item, vector in rows],
        )

    def _one(self, sql: str, number: int, key: str) -> object:
        """Return the one value that is asked for; None if there is none."""
        rows = self._db.rows(sql, (number, key))
        return rows[0][0] if rows else None

    def _writer(self) -> sqlite3.Connection:
        with spoken(self._path):
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
        with spoken(self._path):
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
    with spoken(path):
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
