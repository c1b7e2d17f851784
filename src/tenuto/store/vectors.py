"""Vectors of texts in one SQLite file, to find texts by meaning. The command `tenuto embed` writes it.

`about` has the model, the number of dimensions and the number that was requested (0: the model's own). `embeddings` has id,
digest (SHA-256 of the text), at (milliseconds since 1970), vector (little-endian float32) and text.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import os
import sqlite3
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple

from tenuto.errors import StoreError
from tenuto.store.sqlite import translating_errors

_APPLICATION_ID = 0x74_65_6E_65
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS about (model TEXT NOT NULL, dimensions INTEGER NOT NULL, asked INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS embeddings (n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, digest TEXT NOT NULL,
    at INTEGER NOT NULL, vector BLOB NOT NULL, text TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS embeddings_digest ON embeddings (digest);
PRAGMA application_id={_APPLICATION_ID};
COMMIT;
"""
_UPSERT = """INSERT INTO embeddings (id, digest, at, vector, text) VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE
    SET digest = excluded.digest, at = excluded.at, vector = excluded.vector, text = excluded.text"""


class EmbedModel(NamedTuple):
    """The model of all vectors of a file."""

    name: str
    dimensions: int = 0
    asked: int = 0
    """The number of dimensions that is requested; 0: the model's own."""

    def describe(self) -> str:
        return f"{self.name} ({self.dimensions} dimensions)"


class VectorFile:
    """Texts with their vectors in an SQLite file, all of one model. Methods raise `StoreError`."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        with translating_errors(self.path):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = sqlite3.connect(self.path, timeout=10, isolation_level=None)
            try:
                self._create_tables()
            except BaseException:
                self._db.close()
                raise

    def _create_tables(self) -> None:
        if self._rows("PRAGMA application_id") != [(_APPLICATION_ID,)]:
            if self._rows("SELECT name FROM sqlite_master"):
                raise StoreError(f"{self.path} is another kind of database: choose another file")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.executescript(_SCHEMA)

    def close(self) -> None:
        self._db.close()

    def model(self) -> EmbedModel | None:
        rows = self._rows("SELECT model, dimensions, asked FROM about")
        return EmbedModel(*rows[0]) if rows else None

    def is_stored(self, id: str, text: str) -> bool:
        """Whether a text needs no request. A text that exists under another ID gets its vector."""
        same = self._rows("SELECT id, vector FROM embeddings WHERE digest = ? ORDER BY id != ?", _digest(text), id)
        if same and same[0][0] != id:
            self._rows(_UPSERT, id, _digest(text), _now(), same[0][1], text)
        return bool(same)

    def add(self, texts: Mapping[str, str], vectors: Sequence[Sequence[float]], model: EmbedModel) -> None:
        """Store the vectors of texts by ID, in one transaction. Raise `StoreError` if the file has those of another model or length."""
        with translating_errors(self.path), self._db as db:  # a number may be too large for float32
            db.execute("BEGIN IMMEDIATE")
            stored = self.model()
            if stored is None:
                db.execute("INSERT INTO about (model, dimensions, asked) VALUES (?, ?, ?)", model)
            elif stored[:2] != model[:2]:
                raise StoreError(f"{self.path} has vectors of {stored.describe()}: choose another file")
            for (id, text), vector in zip(texts.items(), vectors, strict=True):
                packed = struct.pack(f"<{model.dimensions}f", *vector)
                db.execute(_UPSERT, (id, _digest(text), _now(), packed, text))

    def rank(self, vector: Sequence[float], limit: int) -> list[tuple[float, str, str]]:
        """Return score, ID and text of the most similar vectors, by cosine; vectors of zeros are left out."""
        length = math.hypot(*vector)

        def scores() -> Iterator[tuple[float, str, str]]:
            for id, packed, text in self._rows("SELECT id, vector, text FROM embeddings"):
                numbers = struct.unpack(f"<{len(vector)}f", packed)
                if product := math.hypot(*numbers) * length:
                    yield sum(map(mul, numbers, vector)) / product, id, text

        with translating_errors(self.path):
            return heapq.nsmallest(limit, scores(), key=lambda row: (-row[0], row[1]))

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with translating_errors(self.path):
            return self._db.execute(sql, values).fetchall()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _now() -> int:
    return time.time_ns() // 1_000_000
