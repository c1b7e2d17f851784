"""Open the store and find sessions in it. A store file that does not exist is not created for reading."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tenuto import settings

if TYPE_CHECKING:
    from pathlib import Path

    from tenuto.errors import SessionNotFound
    from tenuto.store.protocol import Store, StoredSession


T = TypeVar("T")
_SHORT_LENGTH = 12
"""The first ten characters of an id are the time in milliseconds; two random ones make it unique in practice."""


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine. asyncio is imported here: the list of sessions needs no loop."""
    import asyncio

    return asyncio.run(work)


def run_interruptible(work: Coroutine[Any, Any, T], stopped: str) -> T:
    """Run a coroutine; on Ctrl-C, print what its state is then."""
    try:
        return run_async(work)
    except KeyboardInterrupt:
        click.echo(f"stopped; {stopped}", err=True)
        raise


@asynccontextmanager
async def open_store_if_exists(place: str | None) -> AsyncIterator[Store | None]:
    """Open the store; yield None if its file does not exist."""
    if is_missing_file(place or settings.store()):
        yield None
        return
    async with open_or_create_store(place) as store:
        yield store


def open_or_create_store(place: str | None) -> Store:
    """Return the store; its file is created at the first use."""
    from tenuto.store.open import open_store

    try:
        return open_store(place or settings.store())
    except ValueError as exc:
        raise click.UsageError(f"--store: {exc}") from None


@asynccontextmanager
async def open_existing_store(place: str | None, named: str) -> AsyncIterator[Store]:
    """Open the store in which a session is searched. Raise `SessionNotFound` if it does not exist."""
    async with open_store_if_exists(place) as store:
        if store is None:
            from tenuto.errors import SessionNotFound

            raise SessionNotFound(f"no session is called {named[:80]!r}: there are none yet")
        yield store


def is_missing_file(where: str) -> bool:
    """Whether a store is a file that does not exist. False without permission to look: the store reports why."""
    from pathlib import Path

    path = where.removeprefix("sqlite:///")
    try:
        return "://" not in path and not Path(path).expanduser().exists()
    except OSError:
        return False


def store_file(place: str | None) -> Path | None:
    """Return the file of the store; None for a database server."""
    from tenuto.store.open import file_of

    try:
        return file_of(place or settings.store())
    except ValueError as exc:
        raise click.UsageError(f"--store: {exc}") from None


async def find_session(store: Store, named: str) -> str:
    """Return the ID for an ID, a unique prefix, a name, `last` or `~N`, which skip sessions of sub-agents.

    Raise `SessionNotFound`, with similar names.
    """
    from tenuto.errors import SessionNotFound

    back = named == "last" or named.startswith("~")
    try:
        return await store.find(named, agent="" if back else None)
    except SessionNotFound as exc:
        if not back:
            await _suggest_names(store, named, exc)
        raise


async def _suggest_names(store: Store, named: str, exc: SessionNotFound) -> None:
    import difflib

    from tenuto.cli.terminal.text import one_line

    names = [one.name async for one in all_sessions(store) if one.name]
    near = difflib.get_close_matches(named, names, n=2)
    if near:
        exc.add_note(f"did you mean {' or '.join(one_line(name, 80) for name in near)}?")


async def find_sessions(store: Store, named: Iterable[str]) -> list[str]:
    """Return the IDs of several sessions, each once."""
    return list(dict.fromkeys([await find_session(store, name) for name in named]))


def all_sessions(store: Store) -> AsyncIterator[StoredSession]:
    """Yield every session, also archived ones and those of sub-agents."""
    from tenuto.store.sessions import list_all

    return list_all(store, archived=None)


def check_session_name(name: str) -> str:
    """Return a valid session name. Raise `click.UsageError` for others, such as `last`."""
    from tenuto.store.ids import check_name, places_back

    if places_back(name) is not None:
        raise click.UsageError(f"no session can be called {name!r}: that means one by its place in the list")
    try:
        return check_name(name)
    except ValueError as exc:
        raise click.UsageError(str(exc)) from None


def short_id(id: str) -> str:
    """Return a unique prefix of an ID made by tenuto; other IDs stay whole."""
    return id[:_SHORT_LENGTH] if len(id) == 26 else id


def format_status(status: str, waiting_for: str) -> str:
    """Return the status, with the reason of a session that waits: `waiting (approval)`."""
    return f"{status} ({waiting_for})" if waiting_for else status


def format_time(at: int) -> str:
    """Return local time for milliseconds since 1970."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at / 1000))
