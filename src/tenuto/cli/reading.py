"""Looking into a store without writing anything: a file that is not there is not made."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click

from tenuto import settings
from tenuto.store.opening import open_store
from tenuto.store.protocol import Store

__all__ = ["found", "is_missing", "reading", "short", "when"]

_SHORT = 12
"""The first ten signs of an id are the time in milliseconds: two more leave no doubt."""


@asynccontextmanager
async def reading(place: str | None) -> AsyncIterator[Store | None]:
    """Open the store that is meant; None if it is a file that is not there."""
    where = place or settings.store()
    if is_missing(where):
        yield None
        return
    try:
        store = open_store(where)
    except ValueError as exc:
        raise click.UsageError(f"--store: {exc}") from None
    async with store:
        yield store


def is_missing(where: str) -> bool:
    """Tell whether a place is a file that is not there."""
    path = where.removeprefix("sqlite:///")
    return "://" not in path and not Path(path).expanduser().exists()


async def found(store: Store, named: str) -> str:
    """Return the id that is meant: `last` and `~N` pass over the sessions of sub-agents; an id and its beginning do not."""
    back = named == "last" or named.startswith("~")
    return await store.find(named, agent="" if back else None)


def short(id: str) -> str:
    """Return the beginning of an id that is enough to find it; ids that were not made here are shown whole."""
    return id[:_SHORT] if len(id) == 26 else id


def when(at: int) -> str:
    """Return a time, milliseconds since 1970, as a clock here shows it."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at / 1000))
