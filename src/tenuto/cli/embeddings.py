"""`tenuto embed`: read files, and embed new and changed texts in batches."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import click

from tenuto.catalog import PROVIDERS
from tenuto.cli.config import configured_providers
from tenuto.cli.keys_file import key_source, key_variables, load_keys
from tenuto.cli.session.models import model_resolver
from tenuto.client.client import AsyncClient
from tenuto.errors import BadRequest, UnsupportedModel
from tenuto.store.vectors import EmbedModel, VectorFile

_BATCH = 256  # texts that are stored together; the client divides them into the requests that a provider accepts
_REFUSALS = 3  # refused texts, and none embedded: the request is wrong


class EmbedItem(NamedTuple):
    """A text to embed. `id` is the path of its file."""

    id: str
    text: str = ""
    error: str = ""  # why the file has no text
    in_directory: bool = False  # whether a directory was named, not the file


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
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        text = "" if b"\0" in data else data.decode("utf-8-sig")
    except OSError as exc:
        return EmbedItem(name, error=f"cannot be read: {exc.strerror or exc}")
    except UnicodeDecodeError as exc:
        return EmbedItem(name, error=f"is not UTF-8 text (byte {exc.start + 1})")
    id = os.fsencode(name).decode("utf-8", "backslashreplace")
    return EmbedItem(id, text) if text.strip() else EmbedItem(id, error="is binary or empty")


def create_client() -> AsyncClient:
    return AsyncClient(keys=load_keys(), providers=configured_providers(), on_loss="keep")


def default_models() -> dict[str, str]:
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
            elif self.file.is_stored(item.id, item.text):
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
            self.failed.append(items[0]._replace(error=f"was refused: {exc.message}"))
            if not self.embedded and sum(bool(one.text) for one in self.failed) >= _REFUSALS:
                raise
            return
        used = reply.usage.total_tokens
        self.tokens = None if used is None or self.tokens is None else self.tokens + used
        self.losses |= dict.fromkeys(f"{loss.detail} ({loss.location})" for loss in reply.losses)
        self.file.add(
            {item.id: item.text for item in items},
            reply.embeddings,
            self.model._replace(dimensions=len(reply.embeddings[0])),
        )
        self.embedded += len(items)
