"""`tenuto sessions`: list, search and manage sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tenuto.cli import store as stores
from tenuto.cli.errors import ExitCode
from tenuto.cli.main import CommandGroup
from tenuto.cli.options import (
    SESSION_HELP,
    WholeNumber,
    flag,
    json_option,
    option,
    session_argument,
    store_option,
    yes_option,
)
from tenuto.cli.store import find_session, short_id, use_session, use_sessions, use_store
from tenuto.cli.terminal.output import confirm, print_json, print_lines, print_table
from tenuto.cli.terminal.text import one_line
from tenuto.errors import StoreError

if TYPE_CHECKING:
    from tenuto.store.protocol import Store, StoredSession
    from tenuto.store.sessions import ListQuery, SessionLine

_EXAMPLES = """\b
Examples:
  tenuto sessions search weather Oslo --limit 100
  tenuto sessions rename last trip
"""
_TITLE_LENGTH = 60
_SNIPPET_LENGTH = 160
_COLUMNS = ("ID", "CHANGED", "STATUS", "MODEL", "MESSAGES", "TITLE")
_limit_option = option(
    "--limit", type=WholeNumber(min=1), default=20, show_default=True, metavar="N", help="Maximum number of rows."
)
_sessions_argument = session_argument("sessions", nargs=-1, required=True, metavar="SESSION...")


@click.group(
    "sessions",
    cls=CommandGroup,
    invoke_without_command=True,
    epilog=_EXAMPLES,
    subcommand_metavar="[COMMAND] [ARGS]...",
)
@_limit_option
@flag("--all", "every", help="Include archived and sub-agent sessions.")
@json_option
@store_option
@click.pass_context
def command(ctx: click.Context, limit: int, every: bool, as_json: bool, store: str | None) -> None:
    """List sessions, newest first, or manage them.

    IDs are shortened to a unique prefix: tenuto resume ID, tenuto show ID. `interrupted` means that the session's process
    died; continue it with tenuto resume.
    """
    if ctx.invoked_subcommand:
        return
    query = stores.recent_sessions(limit, every=every)
    if as_json:
        print_json([_fields(session) for session in _read_sessions(query, store)])
        return
    lines = _read_lines(query, store)
    short = [short_id(line.id) for line in lines]
    ids = [id if short.count(id) == 1 else line.id for id, line in zip(short, lines, strict=True)]
    rows = map(_row, lines, ids)
    print_table(_COLUMNS, rows, None, as_json=False, drop=("MESSAGES", "MODEL"), empty=stores.NO_SESSIONS)


def _read_lines(query: ListQuery, place: str | None) -> list[SessionLine]:
    """Read a store file without an event loop: a list takes mostly start-up time."""
    from tenuto.store.sessions import list_lines, read_line

    file = stores.store_file(place)
    if file is None:
        return [read_line(session) for session in _read_sessions(query, place)]
    return [] if stores.is_missing_file(place) else list_lines(file, query)


def _read_sessions(query: ListQuery, place: str | None) -> list[StoredSession]:
    from tenuto.store.sessions import list_page

    file = stores.store_file(place)
    if file is not None:
        return [] if stores.is_missing_file(place) else list(list_page(file, query).sessions)

    async def read(store: Store) -> list[StoredSession]:
        page = await store.sessions(agent=query.agent, archived=query.archived, limit=query.limit)
        return list(page.sessions)

    return use_store(place, read, None) or []


def _row(line: SessionLine, id: str) -> tuple[str, ...]:
    title, model = one_line(line.name or line.title, _TITLE_LENGTH), one_line(line.model, 40)
    status = stores.format_status(line.status, line.waiting_for, line.message_count)
    return id, stores.format_time(line.updated_at), status, model, str(line.message_count), title


def _fields(session: StoredSession) -> dict[str, Any]:
    names = ("title", "model", "agent", "created_at", "updated_at", "usage")
    return {
        **{name: getattr(session, name) for name in ("id", "name", "status", "parent", "archived", "holder")},
        "status": stores.format_status(session.status, "", session.meta.message_count),
        **{name: getattr(session.meta, name) for name in names},
        "waiting_for": session.reason,
        "messages": session.meta.message_count,
    }


@command.command("search")
@click.argument("words", nargs=-1, required=True)
@_limit_option
@json_option
@store_option
def search(words: tuple[str, ...], limit: int, as_json: bool, store: str | None) -> int:
    """Search transcripts: prompts, replies, thinking, tool calls and results, best match first.

    Matches entries with all WORDS, any order, case-insensitive; no wildcards or operators. Prints session, entry number
    and an excerpt. Exit 1 if nothing matches.
    """
    hits = use_store(store, lambda opened: opened.search(" ".join(words), limit=limit), None) or []
    rows = [(short_id(hit.session), str(hit.seq), one_line(hit.snippet, _SNIPPET_LENGTH)) for hit in hits]
    print_table(("SESSION", "ENTRY", "TEXT"), rows, hits, as_json=as_json, bold=words, empty="no matching entry")
    return ExitCode.OK if hits else ExitCode.FAILED


@command.command("rename", help=f"Rename SESSION: {SESSION_HELP}.\n\nAn empty NAME removes the name. Names are unique.")
@session_argument()
@click.argument("name")
@json_option
@store_option
def rename(session: str, name: str, as_json: bool, store: str | None) -> None:
    async def change(opened: Store, id: str) -> str:
        try:
            await opened.rename(id, name)
        except ValueError as exc:
            raise click.UsageError(f"{exc}: choose another name, or remove that one") from None
        return id

    stores.check_session_name(name)
    id = use_session(store, session, change)
    message = f"session {id} renamed to {name}" if name else f"removed the name of session {id}"
    print_lines([message], {"session": id, "name": name}, as_json=as_json)


@command.command("archive")
@_sessions_argument
@flag("--undo", help="Restore them.")
@json_option
@store_option
def archive(sessions: tuple[str, ...], undo: bool, as_json: bool, store: str | None) -> None:
    """Hide sessions from the list. Archived ones are skipped by `last` and `~N`.

    tenuto sessions --all lists them; their IDs and names still work. With --undo, `last` is the last archived session.
    """

    async def change(opened: Store, ids: list[str]) -> list[str]:
        for id in ids:
            await opened.archive(id, archived=not undo)
        return ids

    ids = use_sessions(store, sessions, change, find=_find_archived if undo else find_session)
    action = "restored" if undo else "archived"
    print_lines([f"{action} {id}" for id in ids], {"sessions": ids, "archived": not undo}, as_json=as_json)


async def _find_archived(store: Store, name: str) -> str:
    """Return the ID of an archived session. Raise `click.UsageError` for a session that is not archived."""
    if name == "last":
        page = await store.sessions(archived=True, limit=1)
        if not page.sessions:
            raise click.UsageError("no session is archived")
        return page.sessions[0].id
    id = await find_session(store, name)
    if not (await store.session(id)).archived:
        raise click.UsageError(f"session {id} is not archived")
    return id


@command.command("rm")
@_sessions_argument
@flag("--forks", help="Delete their forks too.")
@yes_option
@json_option
@store_option
def rm(sessions: tuple[str, ...], forks: bool, yes: bool, as_json: bool, store: str | None) -> int:
    """Delete sessions.

    A session with forks is kept unless --forks deletes them too. Sessions in use are kept, and so are those of
    sub-agents. tenuto export writes a copy.
    """

    async def delete(opened: Store, ids: list[str]) -> int:
        stored = {session.id: session async for session in stores.all_sessions(opened)}
        titles = {id: one_line(one.name or one.meta.title, _TITLE_LENGTH) for id, one in stored.items()}
        lines = {id: f"{id}  {title}".rstrip() for id, title in titles.items()}
        selected = _with_forks(ids, stored)
        if not forks and (other := [id for id in selected if id not in ids]):
            error = StoreError(f"session {stored[other[-1]].parent} has a fork that shares its entries: {other[-1]}")
            error.add_note("--forks deletes forks too; nothing was deleted")
            raise error
        which = "this session" if len(selected) == 1 else f"these {len(selected)} sessions"
        question = "".join(f"  {lines[id]}\n" for id in selected) + f"delete {which}?"
        if not yes and not confirm(question, "refusing to delete without a terminal; pass --yes"):
            click.echo("nothing was deleted", err=True)
            return ExitCode.FAILED
        deleted: list[str] = []
        try:
            for id in ids if forks else selected:
                if id not in deleted:
                    deleted += await opened.delete(id, children=forks)
        finally:
            if deleted:
                print_lines([f"deleted {lines.get(id, id)}" for id in deleted], {"removed": deleted}, as_json=as_json)
        return ExitCode.OK

    return use_sessions(store, sessions, delete)


def _with_forks(ids: list[str], stored: dict[str, StoredSession]) -> list[str]:
    forks = [session.id for session in stored.values() if session.parent in ids]
    return list(dict.fromkeys([*(_with_forks(forks, stored) if forks else ()), *ids]))
