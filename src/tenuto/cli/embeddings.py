"""Vectors of texts for `tenuto embed`: read files, embed new and changed ones, store and rank vectors.

The file is SQLite. `about` has the model, the number of dimensions and the number that was requested (0: the model's own).
`embeddings` has id, digest (SHA-256 of the text), at (milliseconds since 1970), vector (little-endian float32) and text.
"""

from __future__ import annotations

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

from tenuto.catalog import PROVIDERS
from tenuto.cli.config import configured_providers
from tenuto.cli.keys_file import key_source, key_variables, load_keys
from tenuto.cli.session.models import model_resolver
from tenuto.client.client import AsyncClient
from tenuto.errors import BadRequest, StoreError, UnsupportedModel
from tenuto.store.sqlite import translating_errors

_BATCH = 256  # texts that are stored together; the client divides them into the requests that a provider accepts
_SAME_REFUSALS = 3  # texts refused with one message, and none embedded: the request is wrong
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


class EmbedItem(NamedTuple):
    """A text to embed. `id` is the path of its file."""

    id: str
    text: str = ""
    error: str = ""  # why the file has no text
    in_directory: bool = False  # whether a directory was named, not the file

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def read_items(names: Iterable[str]) -> Iterator[EmbedItem]:
    """Read files, stdin (`-`) and directories, each once: their text files that are not hidden, in order of their names."""
    for name in dict.fromkeys(names):
        if not Path(name).is_dir():
            yield read_item(name)
            continue
        for path in sorted(Path(name).rglob("*")):
            is_hidden = any(part.startswith(".") for part in path.relative_to(name).parts)
            item = read_item(str(path)) if path.is_file() and not is_hidden else None
            if item is not None:
                yield item._replace(in_directory=True)


def read_item(name: str) -> EmbedItem:
    """Read the text of a file, or of stdin (`-`)."""
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        text = "" if b"\0" in data else data.decode("utf-8-sig")
    except OSError as exc:
        return EmbedItem(name, error=f"cannot be read: {exc.strerror or exc}")
    except UnicodeDecodeError as exc:
        return EmbedItem(name, error=f"is not UTF-8 text (byte {exc.start + 1})")
    id = os.fsencode(name).decode("utf-8", "backslashreplace")
    return EmbedItem(id, text) if text.strip() else EmbedItem(id, error="is binary or empty")


class EmbedModel(NamedTuple):
    """The model of all vectors of a file."""

    name: str
    dimensions: int = 0
    asked: int = 0  # the number of dimensions that is requested; 0: the model's own

    def describe(self) -> str:
        return f"{self.name} ({self.dimensions} dimensions)"


def create_client() -> AsyncClient:
    return AsyncClient(keys=load_keys(), providers=configured_providers(), on_loss="keep")


def default_models() -> dict[str, str]:
    """Return the default embedding model of each provider that has one."""
    models = {row.name: row.embeddings.default_model for row in PROVIDERS.values()}
    return {name: f"{name}/{model}" for name, model in models.items() if model}


async def choose_model(
    client: AsyncClient, stored: EmbedModel | None, model: str | None, dimensions: int | None
) -> tuple[EmbedModel, str]:
    """Return the model to use, and a note: that of the file, else the given one, else that of a provider with a key."""
    note = ""
    if model:
        target = model_resolver()(model)
        model = f"{target.provider.name}/{target.model}"
    elif stored is None:
        defaults = default_models()
        model = next((defaults[name] for name in defaults if key_source(name)), None)
        if model is None:
            model, variable = "sim/openai", key_variables(next(iter(defaults)))[0]
            note = f"no API key: the simulator embeds, for testing only; set {variable}, for example, or pass -m"
    if stored and ((model and model != stored.name) or (dimensions and dimensions != stored.dimensions)):
        problem = f"the file has vectors of {stored.describe()}"
        raise click.UsageError(f"{problem}: omit -m and --dimensions, or choose another file with --into")
    chosen = stored or EmbedModel(model or "", asked=dimensions or 0)
    try:
        await client.embed(chosen.name, ())
    except UnsupportedModel as exc:
        raise click.UsageError(f"{exc.model} cannot embed: {exc.reason}") from None
    return chosen, note


class VectorFile:
    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        with translating_errors(self.path):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = sqlite3.connect(self.path, timeout=10, isolation_level=None)
            if self._rows("PRAGMA application_id") != [(_APPLICATION_ID,)]:
                if self._rows("SELECT name FROM sqlite_master"):
                    raise StoreError(f"{self.path} is another kind of database: choose another file with --into")
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.executescript(_SCHEMA)

    def close(self) -> None:
        self._db.close()

    def model(self) -> EmbedModel | None:
        rows = self._rows("SELECT model, dimensions, asked FROM about")
        return EmbedModel(*rows[0]) if rows else None

    def is_stored(self, item: EmbedItem) -> bool:
        """Whether a text needs no request. A text that exists under another ID gets its vector."""
        same = self._rows("SELECT id, vector FROM embeddings WHERE digest = ? ORDER BY id != ?", item.digest, item.id)
        if same and same[0][0] != item.id:
            self._rows(_UPSERT, item.id, item.digest, _now(), same[0][1], item.text)
        return bool(same)

    def add(self, items: Sequence[EmbedItem], vectors: Sequence[Sequence[float]], model: EmbedModel) -> None:
        """Store vectors in one transaction. Raise `StoreError` if the file has those of another model or length."""
        with translating_errors(self.path), self._db as db:  # a number may be too large for float32
            db.execute("BEGIN IMMEDIATE")
            stored = self.model()
            if stored is None:
                db.execute("INSERT INTO about (model, dimensions, asked) VALUES (?, ?, ?)", model)
            elif stored[:2] != model[:2]:
                raise StoreError(f"{self.path} has vectors of {stored.describe()}: choose another file with --into")
            for item, vector in zip(items, vectors, strict=True):
                packed = struct.pack(f"<{model.dimensions}f", *vector)
                db.execute(_UPSERT, (item.id, item.digest, _now(), packed, item.text))

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


def _now() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Embedder:
    """Embeds items in batches, and stores each batch when it is complete."""

    client: AsyncClient
    file: VectorFile
    model: EmbedModel
    embedded: int = 0
    unchanged: int = 0
    failed: list[EmbedItem] = field(default_factory=list)
    skipped: list[EmbedItem] = field(default_factory=list)  # files of directories without a text
    losses: dict[str, None] = field(default_factory=dict)
    tokens: int | None = 0  # None if a reply has no usage

    async def run(self, items: Iterable[EmbedItem]) -> None:
        """Embed all items. Raise the error of a whole request; batches that are complete are stored."""
        batch: list[EmbedItem] = []
        for item in items:
            if item.error and item.in_directory:  # such as an image next to texts
                self.skipped.append(item)
            elif item.error:
                self.failed.append(item)
            elif self.file.is_stored(item):
                self.unchanged += 1
            else:
                batch.append(item)
            if len(batch) == _BATCH:
                await self._embed(batch)
                batch = []
        if batch:
            await self._embed(batch)

    async def _embed(self, items: Sequence[EmbedItem]) -> None:
        """Embed a batch. If it is refused, embed its halves, until the text that is refused is found."""
        texts = [item.text for item in items]
        try:
            reply = await self.client.embed(self.model.name, texts, dimensions=self.model.asked or None)
        except BadRequest as exc:
            if half := len(items) // 2:
                await self._embed(items[:half])
                await self._embed(items[half:])
                return
            self.failed.append(EmbedItem(items[0].id, error=f"was refused: {exc.message}"))
            if not self.embedded and Counter(one.error for one in self.failed)[self.failed[-1].error] >= _SAME_REFUSALS:
                raise
            return
        used = reply.usage.total_tokens
        self.tokens = None if used is None or self.tokens is None else self.tokens + used
        self.losses |= dict.fromkeys(f"{loss.detail} ({loss.location})" for loss in reply.losses)
        self.file.add(items, reply.embeddings, self.model._replace(dimensions=len(reply.embeddings[0])))
        self.embedded += len(items)
