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
from dataclasses import dataclass, field
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple

import click

from tenuto.cli.config import configured_providers
from tenuto.cli.keys_file import key_source, key_variables, load_keys
from tenuto.client.client import AsyncClient
from tenuto.core import jsonio
from tenuto.errors import BadRequest, StoreError, UnknownProvider, UnsupportedModel
from tenuto.store.sqlite import translating_errors

SIMULATOR_MODEL = "sim/openai"
MAX_BYTES = 16 * 1024 * 1024
"""No model reads a longer text."""
BATCH = 64
CONCURRENT_BATCHES = 4
_SAME_REFUSALS = 3
"""If this number of texts is refused with the same message and none is embedded, the request is wrong."""
_CONTROLS = bytes((*range(8), *range(14, 27), *range(28, 32)))
_APPLICATION_ID = 0x74_65_6E_65
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS about (model TEXT NOT NULL, dimensions INTEGER NOT NULL, asked INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS embeddings (n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, digest TEXT NOT NULL,
    at INTEGER NOT NULL, vector BLOB NOT NULL, text TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS embeddings_digest ON embeddings (digest);
PRAGMA application_id={_APPLICATION_ID};
"""
_UPSERT = """INSERT INTO embeddings (id, digest, at, vector, text) VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE
    SET digest = excluded.digest, at = excluded.at, vector = excluded.vector, text = excluded.text"""


# --- texts ------------------------------------------------------------------------------------------------------------


class EmbedItem(NamedTuple):
    """A text to embed. `id` is the path of its file."""

    id: str
    text: str = ""
    error: str = ""
    """Why the file has no text."""
    skipped: str = ""
    """The kind of a file in a directory that is not text: `binary` or `empty`."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def read_items(names: Sequence[str], exclude: Path) -> Iterator[EmbedItem]:
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


def _read_item(path: Path, id: str, *, named: bool) -> EmbedItem:
    if jsonio.lone_surrogates(id):
        return EmbedItem(id.encode("utf-8", "backslashreplace").decode(), error="the file name is not UTF-8")
    try:
        if id == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1) if sys.stdin is not None and not sys.stdin.closed else b""
        else:
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
    except OSError as exc:
        return EmbedItem(id, error=f"cannot be read: {exc.strerror or exc}")
    if len(data) > MAX_BYTES:
        return EmbedItem(id, error=f"is longer than {MAX_BYTES // 2**20} MB")
    kind = "binary" if data[:8192].translate(None, _CONTROLS) != data[:8192] else ""
    try:
        text = "" if kind else data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        return EmbedItem(id, error=f"is not UTF-8 text (byte {exc.start + 1})")
    if text.strip():
        return EmbedItem(id, text)
    kind = kind or "empty"
    return EmbedItem(id, error=f"is {kind}") if named else EmbedItem(id, skipped=kind)


# --- models -----------------------------------------------------------------------------------------------------------


class EmbedModel(NamedTuple):
    """The model of all vectors of a file."""

    name: str
    dimensions: int = 0
    asked: int = 0
    """The number of dimensions that is requested; 0: the model's own."""


def create_client() -> AsyncClient:
    return AsyncClient(keys=load_keys(), providers=configured_providers(), on_loss="keep")


def default_models() -> dict[str, str]:
    """Return the default embedding model of each provider that has one."""
    from tenuto.catalog import PROVIDERS

    models = {row.name: row.embeddings.default_model for row in PROVIDERS.values()}
    return {name: f"{name}/{model}" for name, model in models.items() if model}


async def choose_model(
    client: AsyncClient, stored: EmbedModel | None, model: str | None, dimensions: int | None
) -> tuple[EmbedModel, str]:
    """Return the model to use, and a note: that of the file, else the given one, else that of a provider with a key.

    Raise `click.UsageError` for another model than that of the file, and for one that cannot embed.
    """
    note = ""
    defaults = default_models()
    if model:
        try:
            target = client._target(model)
        except UnknownProvider as exc:
            if not exc.bare:
                raise
            example = next(iter(defaults.values()))
            raise click.UsageError(f"no provider in {model!r}: use provider/model, such as {example}") from None
        model = f"{target.provider.name}/{target.model}"
    elif stored is None and not (model := next((defaults[name] for name in defaults if key_source(name)), None)):
        *first, last = [key_variables(name)[0] for name in [*defaults][:3]]
        note = f"no API key: the simulator embeds, for testing only; set {', '.join(first)} or {last}, or pass -m"
        model = SIMULATOR_MODEL
    if stored and ((model and model != stored.name) or (dimensions and dimensions != stored.dimensions)):
        raise click.UsageError(
            f"the file has vectors of {stored.name} ({stored.dimensions} dimensions): omit -m and --dimensions, or choose "
            "another file with --into"
        )
    chosen = stored or EmbedModel(model or "", asked=dimensions or 0)
    try:
        await client.embed(chosen.name, ())
    except UnsupportedModel as exc:
        raise click.UsageError(f"{exc.model} cannot embed: {exc.reason}") from None
    return chosen, note


# --- file -------------------------------------------------------------------------------------------------------------


class VectorFile:
    """A SQLite file of vectors, created when the first ones are added."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._db = self._open() if self.path.exists() else None

    def close(self) -> None:
        if self._db is not None:
            self._db.close()

    def model(self) -> EmbedModel | None:
        rows = self._rows("SELECT model, dimensions, asked FROM about")
        return EmbedModel(*rows[0]) if rows else None

    def is_stored(self, item: EmbedItem) -> bool:
        """Whether a text needs no request. A text that exists under another ID gets its vector."""
        same = self._rows("SELECT id, vector FROM embeddings WHERE digest = ? ORDER BY id != ?", item.digest, item.id)
        if same and same[0][0] != item.id:
            self._write([(item.id, item.digest, same[0][1], item.text)])
        return bool(same)

    def add(self, items: Sequence[EmbedItem], vectors: Sequence[Sequence[float]], model: EmbedModel) -> None:
        """Store vectors in one transaction. Raise `StoreError` if the file has those of another model or length."""
        with translating_errors(self.path):  # a number may be too large for float32
            packed = [struct.pack(f"<{model.dimensions}f", *vector) for vector in vectors]
        self._write([(item.id, item.digest, data, item.text) for item, data in zip(items, packed, strict=True)], model)

    def _write(self, rows: Sequence[tuple[str, str, bytes, str]], model: EmbedModel | None = None) -> None:
        self._db = db = self._db or self._open()
        now = time.time_ns() // 1_000_000
        with translating_errors(self.path), db:
            db.execute("BEGIN IMMEDIATE")
            stored = self.model()
            if stored is None:
                db.execute("INSERT INTO about (model, dimensions, asked) VALUES (?, ?, ?)", model or ())
            elif model is not None and stored[:2] != model[:2]:
                raise StoreError(
                    f"{self.path} has vectors of {stored.name} ({stored.dimensions} dimensions), not of {model.name} "
                    f"({model.dimensions}): choose another file with --into"
                )
            db.executemany(_UPSERT, [(id, digest, now, vector, text) for id, digest, vector, text in rows])

    def rank(self, vector: Sequence[float], limit: int) -> list[tuple[float, str, str]]:
        """Return score, ID and text of the most similar vectors, by cosine; vectors of zeros are left out."""
        length = math.hypot(*vector)
        unpack = struct.Struct(f"<{len(vector)}f").unpack

        def scores() -> Iterator[tuple[float, str, str]]:
            assert self._db is not None
            for id, packed, text in self._db.execute("SELECT id, vector, text FROM embeddings"):
                numbers = unpack(packed)
                other = math.hypot(*numbers)
                if other and length:
                    yield sum(map(mul, numbers, vector)) / (length * other), id, text

        with translating_errors(self.path):
            return heapq.nsmallest(limit, scores(), key=lambda row: (-row[0], row[1]))

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        if self._db is None:
            return []
        with translating_errors(self.path):
            return self._db.execute(sql, values).fetchall()

    def _open(self) -> sqlite3.Connection:
        with translating_errors(self.path):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            db = sqlite3.connect(self.path, timeout=10, isolation_level=None)
            try:
                [[application]] = db.execute("PRAGMA application_id")
                if application != _APPLICATION_ID:
                    if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                        raise StoreError(f"{self.path} is another kind of database: choose another file with --into")
                    db.execute("PRAGMA journal_mode=WAL")
                    db.executescript(_SCHEMA)
                db.execute("PRAGMA synchronous=FULL")
            except BaseException:
                db.close()
                raise
            return db


# --- embedding --------------------------------------------------------------------------------------------------------


@dataclass
class EmbedSummary:
    embedded: int = 0
    unchanged: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    failed: list[EmbedItem] = field(default_factory=list)
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

    async def run(self, items: Iterable[EmbedItem]) -> None:
        """Embed all items. Raise the error of a whole request; batches that are complete are stored."""
        limit = asyncio.Semaphore(CONCURRENT_BATCHES)
        batch: list[EmbedItem] = []
        async with asyncio.TaskGroup() as group:
            for item in items:
                if item.skipped:
                    self.summary.skipped[item.skipped] += 1
                elif item.error:
                    self.summary.failed.append(item)
                elif self._file.is_stored(item):
                    self.summary.unchanged += 1
                else:
                    batch.append(item)
                if len(batch) == BATCH:
                    await limit.acquire()
                    group.create_task(self._embed(batch)).add_done_callback(lambda _: limit.release())
                    batch = []
            if batch:
                group.create_task(self._embed(batch))

    async def _embed(self, items: Sequence[EmbedItem]) -> None:
        """Embed a batch. If it is refused, embed its halves, until the text that is refused is found."""
        texts = [item.text for item in items]
        try:
            reply = await self._client.embed(self._model.name, texts, dimensions=self._model.asked or None)
        except BadRequest as exc:
            if len(items) > 1:
                half = len(items) // 2
                await self._embed(items[:half])
                await self._embed(items[half:])
                return
            self._refusals[exc.message] += 1
            if not self.summary.embedded and self._refusals[exc.message] >= _SAME_REFUSALS:
                raise
            self.summary.failed.append(EmbedItem(items[0].id, error=f"was refused: {exc.message}"))
            return
        summary, used = self.summary, reply.usage.total_tokens
        summary.tokens = None if used is None or summary.tokens is None else summary.tokens + used
        summary.losses |= dict.fromkeys(f"{loss.detail} ({loss.location})" for loss in reply.losses)
        self._file.add(items, reply.embeddings, self._model._replace(dimensions=len(reply.embeddings[0])))
        summary.embedded += len(items)
