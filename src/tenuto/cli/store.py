"""Open the store and find sessions in it. A store file that does not exist is not created for reading."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from tenuto import settings
from tenuto.cli.terminal.text import escape_control

if TYPE_CHECKING:
    from pathlib import Path

    from tenuto.store.protocol import Store, StoredSession
    from tenuto.store.sessions import ListQuery


T = TypeVar("T")
D = TypeVar("D")
_SHORT_LENGTH = 12
"""The first ten characters of an id are the time in milliseconds; two random ones make it unique in practice."""
_RECENT = 50
"""The number of sessions in which `last` looks for one of the current directory."""
NO_SESSIONS = 'no sessions yet; start one with: tenuto run "..."'


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


def use_store(
    place: str | None, work: Callable[[Store], Awaitable[T]], default: D, stopped: str = "nothing was changed"
) -> T | D:
    """Return the result of `work` on the store, or `default` if its file does not exist."""

    async def use() -> T | D:
        if is_missing_file(place):
            return default
        async with open_or_create_store(place) as store:
            return await work(store)

    return run_interruptible(use(), stopped)


def use_session(place: str | None, named: str, work: Callable[[Store, str], Awaitable[T]]) -> T:
    """Return the result of `work` on a store and the ID of a session in it. Raise `SessionNotFound`."""

    async def use() -> T:
        async with open_existing_store(place, named) as store:
            return await work(store, await find_session(store, named))

    return run_async(use())


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
    if is_missing_file(place):
        from tenuto.errors import SessionNotFound

        raise SessionNotFound(f"no session is called {named[:80]!r}: there are none yet")
    async with open_or_create_store(place) as store:
        yield store


def recent_sessions(limit: int, *, every: bool = False) -> ListQuery:
    """Return the query for the last sessions; `every` includes archived ones and those of sub-agents."""
    from tenuto.store.sessions import ListQuery

    agent, archived = (None, None) if every else ("", False)
    return ListQuery(agent=agent, status=None, archived=archived, order="updated", limit=limit, after="")


def check_store_directory(place: str | None) -> None:
    """Raise `click.UsageError` if the directory of a typed `--store` does not exist: it may be mistyped."""
    source = click.get_current_context().get_parameter_source("store")
    file = store_file(place) if source is ParameterSource.COMMANDLINE else None
    if file is not None and not file.parent.is_dir():
        raise click.UsageError(f"--store: directory {str(file.parent)!r} does not exist")


def is_missing_file(place: str | None) -> bool:
    """Whether a store is a file that does not exist. False without permission to look: the store reports why."""
    file = store_file(place)
    try:
        return file is not None and not file.exists()
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
    """Return the ID for an ID, a unique prefix, a name, `last` or `~N`.

    `last` and `~N` are sessions of the current directory, without those of sub-agents. Raise `SessionNotFound`, with
    similar names.
    """
    from tenuto.errors import SessionNotFound
    from tenuto.store.sessions import places_back

    back = places_back(named)
    try:
        found = await store.find(named, agent=None if back is None else "")
    except SessionNotFound as exc:
        if back is None:
            from difflib import get_close_matches

            from tenuto.cli.terminal.text import one_line

            names = [one.name async for one in all_sessions(store) if one.name]
            if near := get_close_matches(named, names, n=2):
                exc.add_note(f"did you mean {' or '.join(one_line(name, 80) for name in near)}?")
        raise
    return found if back is None else await _find_here(store, back, found)


async def _find_here(store: Store, back: int, latest: str) -> str:
    """Return the `back`-th last session of this directory; `latest`, with a note, if there are fewer.

    Sessions without tools have no directory: they belong to every one.
    """
    here = _current_directory()
    page = await store.sessions(agent="", limit=_RECENT)
    directories = []
    for one in page.sessions:
        directories.append(await _session_directory(store, one.id))
        if directories[-1] in ("", here) and (back := back - 1) < 0:
            return one.id
    stored = await store.session(latest)
    directory = next((path for one, path in zip(page.sessions, directories, strict=True) if one.id == latest), "")
    where = f" ({directory})" if directory else ""
    title = f' "{stored.name or stored.meta.title[:40]}"' if stored.name or stored.meta.title else ""
    click.echo(escape_control(f"no such session in this directory; using {short_id(latest)}{title}{where}"), err=True)
    return latest


def _current_directory() -> str:
    return os.path.realpath(".")


async def _session_directory(store: Store, id: str) -> str:
    """Return the working directory of a session's tools; empty if it has none or cannot be read."""
    from tenuto.core import jsonio
    from tenuto.core.journal import Configured
    from tenuto.errors import StoreError

    try:
        [payload] = [entry.payload for entry in await store.read(id, upto=1)]
    except (StoreError, ValueError):
        return ""
    roots = payload.roots if isinstance(payload, Configured) else ""
    return str(next(iter(jsonio.parse(roots).values()), "")) if roots else ""


async def find_sessions(store: Store, named: Iterable[str]) -> list[str]:
    """Return the IDs of several sessions, each once."""
    return list(dict.fromkeys([await find_session(store, name) for name in named]))


def all_sessions(store: Store) -> AsyncIterator[StoredSession]:
    """Yield every session, also archived ones and those of sub-agents."""
    from tenuto.store.sessions import list_all

    return list_all(store, archived=None)


def check_session_name(name: str) -> str:
    """Return a valid session name. Raise `click.UsageError` for others, such as `last`."""
    from tenuto.store.sessions import check_name, places_back

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
