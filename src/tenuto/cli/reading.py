"""Finding the store and the sessions that are meant, without writing anything: a file that is not there is not made."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tenuto import settings

if TYPE_CHECKING:  # most of what a short command costs is loading
    from pathlib import Path

    from tenuto.errors import SessionNotFound
    from tenuto.store.protocol import Store, StoredSession

__all__ = [
    "awaited",
    "every",
    "existing",
    "file_at",
    "found",
    "found_all",
    "is_missing",
    "making",
    "naming",
    "reading",
    "short",
    "status_text",
    "when",
]

T = TypeVar("T")
_SHORT = 12
"""The first ten signs of an id are the time in milliseconds: two more leave no doubt."""
_PAGE = 500


def awaited(work: Coroutine[Any, Any, T], stopped: str) -> T:
    """Do something that may take long; if somebody stops it, say what became of it."""
    import asyncio

    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        click.echo(f"stopped; {stopped}", err=True)
        raise


@asynccontextmanager
async def reading(place: str | None) -> AsyncIterator[Store | None]:
    """Open the store that is meant; None if it is a file that is not there."""
    if is_missing(place or settings.store()):
        yield None
        return
    async with making(place) as store:
        yield store


def making(place: str | None) -> Store:
    """Return the store that is meant; a file that is not there is made when it is used."""
    from tenuto.store.open import open_store

    try:
        return open_store(place or settings.store())
    except ValueError as exc:
        raise click.UsageError(f"--store: {exc}") from None


@asynccontextmanager
async def existing(place: str | None, named: str) -> AsyncIterator[Store]:
    """Open the store that a session of this name is to be in. Raise `SessionNotFound` where nothing is kept yet."""
    async with reading(place) as store:
        if store is None:
            from tenuto.errors import SessionNotFound

            raise SessionNotFound(f"no session is called {named[:80]!r}: there are none yet")
        yield store


def is_missing(where: str) -> bool:
    """Tell whether a place is a file that is not there. One that may not be looked at may be there: the store says why."""
    from pathlib import Path

    path = where.removeprefix("sqlite:///")
    try:
        return "://" not in path and not Path(path).expanduser().exists()
    except OSError:
        return False


def file_at(place: str | None) -> Path | None:
    """Return the file that the store is; None if it is kept elsewhere."""
    from tenuto.store.open import file_of

    try:
        return file_of(place or settings.store())
    except ValueError as exc:
        raise click.UsageError(f"--store: {exc}") from None


async def found(store: Store, named: str) -> str:
    """Return the id that is meant: `last` and `~N` pass over the sessions of sub-agents; an id and its beginning do not.

    Raise `SessionNotFound`, which names those that are spelt alike.
    """
    from tenuto.errors import SessionNotFound

    back = named == "last" or named.startswith("~")
    try:
        return await store.find(named, agent="" if back else None)
    except SessionNotFound as exc:
        if not back:
            await _note_near(store, named, exc)
        raise


async def _note_near(store: Store, named: str, exc: SessionNotFound) -> None:
    import difflib

    from tenuto.cli.escaping import one_line

    names = [one.name async for one in every(store) if one.name]
    near = difflib.get_close_matches(named, names, n=2)
    if near:
        exc.add_note(f"did you mean {' or '.join(one_line(name, 80) for name in near)}?")


async def found_all(store: Store, named: Iterable[str]) -> list[str]:
    """Return the ids that are meant, each once. All of them are found before anything is done with one."""
    return list(dict.fromkeys([await found(store, name) for name in named]))


async def every(store: Store) -> AsyncIterator[StoredSession]:
    """Yield every session, whoever's it is and whether it was put away or not."""
    after = ""
    while True:
        page = await store.sessions(archived=None, limit=_PAGE, after=after)
        for one in page.sessions:
            yield one
        after = page.next
        if not after:
            return


def naming(name: str) -> str:
    """Return a name that a session can be given. Raise `click.UsageError` for one that means something else."""
    from tenuto.store.ids import check_name, places_back

    if places_back(name) is not None:
        raise click.UsageError(f"no session can be called {name!r}: that means one by its place in the list")
    try:
        return check_name(name)
    except ValueError as exc:
        raise click.UsageError(str(exc)) from None


def short(id: str) -> str:
    """Return the beginning of an id that is enough to find it; ids that were not made here are shown whole."""
    return id[:_SHORT] if len(id) == 26 else id


def status_text(status: str, waiting_for: str) -> str:
    """Return the status of a session, with the reason if it waits: `waiting (approval)`."""
    return f"{status} ({waiting_for})" if waiting_for else status


def when(at: int) -> str:
    """Return a time, milliseconds since 1970, as a clock here shows it."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at / 1000))
