"""Open the store and find sessions in it. A store file that does not exist is not created for reading."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from tenuto import settings
from tenuto.cli.errors import plural
from tenuto.cli.terminal.text import closest_names, one_line
from tenuto.errors import SessionNotFound

if TYPE_CHECKING:
    from pathlib import Path

    from tenuto.store.protocol import Store, StoredSession
    from tenuto.store.sessions import ListQuery


T = TypeVar("T")
D = TypeVar("D")
_SHORT_LENGTH = 12  # the first ten characters of an ID are its time in milliseconds, and two are random
_RECENT = 50  # the number of sessions in which `last` looks for one of the current directory
ANYWHERE = "tenuto.anywhere"  # the name of the option in `click.Context.meta`
NO_SESSIONS = 'no sessions yet; start one with: tenuto run "..."'


def run_async(work: Coroutine[Any, Any, T], stopped: str = "") -> T:
    """Run a coroutine; on Ctrl-C, print what its state is then. asyncio is imported here: a list needs no loop."""
    import asyncio

    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        if stopped:
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

    return run_async(use(), stopped)


def use_session(place: str | None, named: str, work: Callable[[Store, str], Awaitable[T]]) -> T:
    """Return the result of `work` on a store and the ID of a session in it. Raise `SessionNotFound`."""
    return use_sessions(place, (named,), lambda store, ids: work(store, ids[0]))


def use_sessions(
    place: str | None,
    named: Sequence[str],
    work: Callable[[Store, list[str]], Awaitable[T]],
    stopped: str = "",
    *,
    find: Callable[[Store, str], Awaitable[str]] | None = None,
) -> T:
    """Return the result of `work` on a store and the IDs of sessions in it, each once. Raise `SessionNotFound`."""

    async def use() -> T:
        if is_missing_file(place):
            raise SessionNotFound(f"no session is called {''.join(named[:1])[:80]!r}: there are none yet")
        async with open_or_create_store(place) as store:
            return await work(store, list(dict.fromkeys([await (find or find_session)(store, name) for name in named])))

    return run_async(use(), stopped)


def open_or_create_store(place: str | None) -> Store:
    """Return the store; its file is created at the first use."""
    from tenuto.store.open import open_store

    try:
        return open_store(place or settings.store())
    except ValueError as exc:
        raise click.UsageError(f"--store: {exc}") from None


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
    """Return the ID for an ID, a unique prefix, a name, or a session of this directory by `last` or `~N`."""
    from tenuto.store.sessions import places_back

    context = click.get_current_context(silent=True)
    anywhere = context is not None and context.meta.get(ANYWHERE, False)
    if (back := places_back(named)) is not None and not anywhere:
        return await _find_here(store, back, await store.find(named, agent=""))
    try:
        return await store.find(named, agent="" if anywhere and back is not None else None)
    except SessionNotFound as exc:
        near = closest_names(named, [one.name async for one in all_sessions(store) if one.name])
        if near.startswith("did you mean"):
            exc.add_note(near)
        raise


async def _find_here(store: Store, back: int, latest: str) -> str:
    """Return the `back`-th last session of this directory or without one; `latest`, with a note, if there are fewer."""
    page, directory = await store.sessions(agent="", limit=_RECENT), _current_directory()
    here = [one.id for one in page.sessions if not one.meta.directories or directory in one.meta.directories]
    if back < len(here):
        return here[back]
    stored = await store.session(latest)
    click.echo(f"no such session in this directory; using {describe_session(stored)}", err=True)
    return latest


def _current_directory() -> str:
    return os.path.realpath(".")


def describe_session(stored: StoredSession) -> str:
    """Return ID, name or title, and the directory of a session, escaped."""
    title = one_line(stored.name or stored.meta.title, 40)
    directories = " ".join(one_line(directory, 200) for directory in stored.meta.directories)
    return " ".join(filter(None, (short_id(stored.id), title and f'"{title}"', directories and f"({directories})")))


def all_sessions(store: Store) -> AsyncIterator[StoredSession]:
    from tenuto.store.sessions import list_all

    return list_all(store, archived=None)


def check_session_name(name: str) -> str:
    """Return a valid session name. Raise `click.UsageError` for others, such as `last`."""
    from tenuto.store.sessions import check_name

    try:
        return check_name(name)
    except ValueError as exc:
        raise click.UsageError(str(exc)) from None


def short_id(id: str) -> str:
    """Return a unique prefix of an ID made by tenuto; other IDs stay whole."""
    return id[:_SHORT_LENGTH] if len(id) == 26 else id


def format_status(status: str, waiting_for: str, messages: int = 0) -> str:
    """Return `waiting (approval)`, for example; `forked`, not `new`, for a fork without entries of its own."""
    shown = "forked" if status == "new" and messages else status
    return f"{shown} ({waiting_for})" if waiting_for else shown


def format_age(at: int) -> str:
    seconds = max(time.time() - at / 1000, 0)
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            return f"{plural(int(seconds // length), unit)} ago"
    return "just now"


def format_time(at: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at / 1000))
