"""Vectors of texts for `tenuto embed`: read files, embed new and changed ones, store and rank vectors.

The file is SQLite. `about` has the model, the number of dimensions and the number that was requested (0: the model's own).
`embeddings` has id, digest (SHA-256 of the text), at (milliseconds since 1970), vector (little-endian float32) and text.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import math
import os
import sqlite3
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple

import click

from tenuto.cli.config import configured_providers
from tenuto.cli.keys_file import key_source, key_variables, load_keys
from tenuto.client.client import AsyncClient
from tenuto.core import jsonio
from tenuto.core.embeddings import EmbedRequest
from tenuto.errors import BadRequest, StoreError, TenutoError, UnknownProvider, UnsupportedModel
from tenuto.store.sqlite import translating_errors

SIMULATOR_MODEL = "sim/openai"
MAX_BYTES = 16 * 1024 * 1024
"""No model reads a longer text."""
BATCH = 64
CONCURRENT_BATCHES = 4
_SAME_REFUSALS = 3
"""If this number of texts is refused with the same message and none is embedded, the request is wrong."""
_MAX_FLOAT32 = 3.4e38
_CONTROLS = bytes((*range(8), *range(14, 27), *range(28, 32)))
_APPLICATION_ID = 0x74_65_6E_65
_VERSION = 1
_SCHEMA = (
    "CREATE TABLE about (model TEXT NOT NULL, dimensions INTEGER NOT NULL, asked INTEGER NOT NULL)",
    """CREATE TABLE embeddings (n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, digest TEXT NOT NULL, at INTEGER NOT NULL,
        vector BLOB NOT NULL, text TEXT NOT NULL)""",
    "CREATE INDEX embeddings_digest ON embeddings (digest)",
    f"PRAGMA application_id={_APPLICATION_ID}",
    f"PRAGMA user_version={_VERSION}",
)
_UPSERT = """INSERT INTO embeddings (id, digest, at, vector, text) VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE
    SET digest = excluded.digest, at = excluded.at, vector = excluded.vector, text = excluded.text"""


# --- texts ------------------------------------------------------------------------------------------------------------


class EmbedItem(NamedTuple):
    """A text to embed. `id` is the path of its file."""

    id: str
    text: str
    digest: str


class ItemError(NamedTuple):
    id: str
    why: str


class SkippedItem(NamedTuple):
    """A file in a directory that is not text."""

    id: str
    kind: str


Item = EmbedItem | ItemError | SkippedItem


def read_items(names: Sequence[str], exclude: Path) -> Iterator[Item]:
    """Yield the texts of files, of directories (without hidden files) and of stdin (`-`), each file once.

    `exclude` and files whose names start with its name are left out: vectors are written there.
    """
    ids: set[str] = set()
    for name in names:
        for path in [Path(name)] if name == "-" or not Path(name).is_dir() else _walk(Path(name)):
            id = "-" if name == "-" else _relative(path)
            if id not in ids and not id.startswith(_relative(exclude)):
                ids.add(id)
                yield _read_item(path, id, named=path == Path(name))


def check_names(names: Sequence[str]) -> None:
    for name in names:
        if name != "-" and not os.path.lexists(name):
            raise click.UsageError(f"file not found: {name!r}; pass a text with --text, or pipe it in for -")


def _walk(directory: Path) -> Iterator[Path]:
    for parent, directories, files in os.walk(directory):
        directories[:] = sorted(name for name in directories if not name.startswith("."))
        paths = (Path(parent, name) for name in sorted(files) if not name.startswith("."))
        yield from (path for path in paths if path.is_file() or path.is_symlink())  # not pipes: they block


def _relative(path: Path) -> str:
    try:
        return Path(os.path.relpath(path)).as_posix()
    except ValueError:  # Windows: another drive
        return path.absolute().as_posix()


def _read_item(path: Path, id: str, *, named: bool) -> Item:
    if jsonio.lone_surrogates(id):
        return ItemError(id.encode("utf-8", "backslashreplace").decode(), "the file name is not UTF-8")
    try:
        if id == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1) if sys.stdin is not None and not sys.stdin.closed else b""
        else:
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
    except OSError as exc:
        return ItemError(id, f"cannot be read: {exc.strerror or exc}")
    if data[:8192].translate(None, _CONTROLS) != data[:8192]:
        return ItemError(id, "is binary") if named else SkippedItem(id, "binary")
    if len(data) > MAX_BYTES:
        return ItemError(id, f"is longer than {MAX_BYTES // 2**20} MB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        return ItemError(id, f"is not UTF-8 text (byte {exc.start + 1})")
    if not text.strip():
        return ItemError(id, "is empty") if named else SkippedItem(id, "empty")
    return EmbedItem(id, text, hashlib.sha256(text.encode()).hexdigest())


# --- models -----------------------------------------------------------------------------------------------------------


class EmbedModel(NamedTuple):
    name: str
    dimensions: int = 0
    """0: the model's own."""
    note: str = ""


class IndexInfo(NamedTuple):
    """The model of all vectors of a file. `asked` is the number of dimensions that was requested, or 0."""

    model: str
    dimensions: int
    asked: int


def create_client() -> AsyncClient:
    return AsyncClient(keys=load_keys(), providers=configured_providers(), on_loss="keep")


def default_models() -> dict[str, str]:
    """Return the default embedding model of each provider that has one."""
    from tenuto.catalog import PROVIDERS

    rows = {row.name: row for row in PROVIDERS.values()}
    return {
        name: f"{name}/{row.embeddings.default_model}" for name, row in rows.items() if row.embeddings.default_model
    }


async def choose_model(
    client: AsyncClient, info: IndexInfo | None, model: str | None, dimensions: int | None
) -> EmbedModel:
    """Return the model to use: that of the file, else the given one, else that of the first provider with a key.

    Raise `click.UsageError` for another model than that of the file, and for one that cannot embed.
    """
    named = _qualify(client, model) if model else ""
    if info is None:
        chosen = EmbedModel(named, dimensions or 0) if named else _default_model()._replace(dimensions=dimensions or 0)
    elif (named and named != info.model) or (dimensions and dimensions != info.dimensions):
        raise click.UsageError(
            f"the file has vectors of {info.model} ({info.dimensions} dimensions): omit -m and --dimensions, or choose "
            "another file with --into"
        )
    else:
        chosen = EmbedModel(info.model, info.asked or dimensions or 0)
    try:
        await client.embed(chosen.name, ())
    except UnsupportedModel as exc:
        raise click.UsageError(f"{exc.model} cannot embed: {exc.reason}") from None
    return chosen


def _qualify(client: AsyncClient, model: str) -> str:
    try:
        target = client._target(model)
    except UnknownProvider as exc:
        if not exc.bare:
            raise
        example = next(iter(default_models().values()))
        raise click.UsageError(f"no provider in {model!r}: use provider/model, such as {example}") from None
    return f"{target.provider.name}/{target.model}"


def _default_model() -> EmbedModel:
    models = default_models()
    for provider, model in models.items():
        if key_source(provider):
            return EmbedModel(model)
    *first, last = [key_variables(name)[0] for name in [*models][:3]]
    note = f"no API key: the simulator embeds, for testing only; set {', '.join(first)} or {last}, or pass -m"
    return EmbedModel(SIMULATOR_MODEL, note=note)


# --- file -------------------------------------------------------------------------------------------------------------


class VectorFile:
    """A SQLite file of vectors, created when the first ones are added."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._connection: sqlite3.Connection | None = None
        if self.path.exists():
            self._open()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def info(self) -> IndexInfo | None:
        rows = self._rows("SELECT model, dimensions, asked FROM about")
        return IndexInfo(*rows[0]) if rows else None

    def find_new(self, items: Sequence[EmbedItem]) -> list[EmbedItem]:
        """Return the items that have to be embedded. A text that exists under another ID gets its vector."""
        new: list[EmbedItem] = []
        for item in items:
            if self._rows("SELECT 1 FROM embeddings WHERE id = ? AND digest = ?", item.id, item.digest):
                continue
            same = self._rows("SELECT vector FROM embeddings WHERE digest = ? LIMIT 1", item.digest)
            if same:
                with self._transaction() as db:
                    db.execute(_UPSERT, (item.id, item.digest, _now(), same[0][0], item.text))
            else:
                new.append(item)
        return new

    def add(self, items: Sequence[EmbedItem], vectors: Sequence[Sequence[float]], info: IndexInfo) -> None:
        """Store vectors in one transaction. Raise `StoreError` if another process stored those of another model."""
        now = _now()
        rows = [
            (item.id, item.digest, now, struct.pack(f"<{len(vector)}f", *vector), item.text)
            for item, vector in zip(items, vectors, strict=True)
        ]
        with self._transaction() as db:
            stored = self.info()
            if stored is None:
                db.execute("INSERT INTO about (model, dimensions, asked) VALUES (?, ?, ?)", info)
            elif stored[:2] != info[:2]:
                raise StoreError(
                    f"{self.path} has vectors of {stored.model} ({stored.dimensions} dimensions), not of {info.model} "
                    f"({info.dimensions}): choose another file with --into"
                )
            db.executemany(_UPSERT, rows)

    def rank(self, vector: Sequence[float], limit: int) -> list[tuple[float, str, str]]:
        """Return score, ID and text of the most similar vectors, by cosine; vectors of zeros are left out."""
        db = self._connection or self._open()
        length = math.hypot(*vector)
        unpack = struct.Struct(f"<{len(vector)}f").unpack

        def scores() -> Iterator[tuple[float, str]]:
            for id, packed in db.execute("SELECT id, vector FROM embeddings"):
                numbers = unpack(packed)
                other = math.hypot(*numbers)
                if other and length:
                    yield -sum(map(mul, numbers, vector)) / (length * other), id

        with translating_errors(self.path):
            best = heapq.nsmallest(limit, scores())
        return [(-score, id, self._rows("SELECT text FROM embeddings WHERE id = ?", id)[0][0]) for score, id in best]

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        if self._connection is None:
            return []
        with translating_errors(self.path):
            return self._connection.execute(sql, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        db = self._connection or self._open()
        with translating_errors(self.path):
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                db.execute("ROLLBACK")
                raise

    def _open(self) -> sqlite3.Connection:
        with translating_errors(self.path):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            db = sqlite3.connect(self.path, timeout=10, isolation_level=None)
            try:
                self._prepare(db)
            except BaseException:
                db.close()
                raise
        self._connection = db
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        [[application]] = db.execute("PRAGMA application_id")
        [[version]] = db.execute("PRAGMA user_version")
        [[tables]] = db.execute("SELECT count(*) FROM sqlite_master")
        if tables and application != _APPLICATION_ID:
            raise StoreError(f"{self.path} is another kind of database: choose another file with --into")
        if version > _VERSION:
            raise StoreError(f"{self.path} was written by a newer version of tenuto")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        if not tables:
            db.execute("BEGIN IMMEDIATE")
            if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                for statement in _SCHEMA:
                    db.execute(statement)
            db.execute("COMMIT")


def _now() -> int:
    return time.time_ns() // 1_000_000


# --- embedding --------------------------------------------------------------------------------------------------------


@dataclass
class EmbedSummary:
    embedded: int = 0
    unchanged: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    errors: list[ItemError] = field(default_factory=list)
    losses: dict[str, None] = field(default_factory=dict)
    tokens: int | None = 0
    """None if a reply has no usage."""


class Embedder:
    """Embeds items in batches, a few at a time, and stores each batch when it is complete."""

    def __init__(self, client: AsyncClient, file: VectorFile, model: EmbedModel) -> None:
        self.summary = EmbedSummary()
        self._client = client
        self._file = file
        self._model = model
        self._refusals: Counter[str] = Counter()

    async def run(self, items: Iterable[Item]) -> None:
        """Embed all items. Raise the error of a whole request; batches that are complete are stored."""
        limit = asyncio.Semaphore(CONCURRENT_BATCHES)
        batch: list[EmbedItem] = []
        async with asyncio.TaskGroup() as group:
            for item in items:
                if isinstance(item, SkippedItem):
                    self.summary.skipped[item.kind] += 1
                elif isinstance(item, ItemError):
                    self._fail(item)
                elif self._file.find_new([item]):
                    batch.append(item)
                else:
                    self.summary.unchanged += 1
                if len(batch) == BATCH:
                    await limit.acquire()
                    group.create_task(self._embed(batch)).add_done_callback(lambda _: limit.release())
                    batch = []
            if batch:
                group.create_task(self._embed(batch))

    def _fail(self, error: ItemError) -> None:
        self.summary.errors.append(error)

    async def _embed(self, items: Sequence[EmbedItem]) -> None:
        """Embed a batch. If it is refused, embed its halves, until the text that is refused is found."""
        request = EmbedRequest(
            model=self._model.name, input=[item.text for item in items], dimensions=self._model.dimensions or None
        )
        try:
            reply = await self._client.embed(request)
        except BadRequest as exc:
            if len(items) > 1:
                half = len(items) // 2
                await self._embed(items[:half])
                await self._embed(items[half:])
                return
            self._refusals[exc.message] += 1
            if not self.summary.embedded and self._refusals[exc.message] >= _SAME_REFUSALS:
                raise
            self._fail(ItemError(items[0].id, f"was refused: {exc.message}"))
            return
        summary, used = self.summary, reply.usage.total_tokens
        summary.tokens = None if used is None or summary.tokens is None else summary.tokens + used
        summary.losses |= dict.fromkeys(f"{loss.detail} ({loss.location})" for loss in reply.losses)
        pairs = [(item, vector) for item, vector in zip(items, reply.embeddings, strict=True)]
        for item, vector in pairs:
            if not math.hypot(*vector) < _MAX_FLOAT32:
                self._fail(ItemError(item.id, "got a vector with numbers that are not finite"))
        pairs = [(item, vector) for item, vector in pairs if math.hypot(*vector) < _MAX_FLOAT32]
        if pairs:
            self._store([item for item, _ in pairs], [vector for _, vector in pairs])

    def _store(self, items: list[EmbedItem], vectors: list[tuple[float, ...]]) -> None:
        stored = self._file.info()
        dimensions = stored.dimensions if stored else len(vectors[0])
        if other := {len(vector) for vector in vectors} - {dimensions}:
            raise TenutoError(
                f"{self._model.name} returned vectors of {other.pop()} dimensions, and the file has {dimensions}: pass "
                f"--dimensions {dimensions}, or choose another file with --into"
            )
        self._file.add(items, vectors, IndexInfo(self._model.name, dimensions, self._model.dimensions))
        self.summary.embedded += len(items)
