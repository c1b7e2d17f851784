"""`tenuto sessions`: what is kept. Without another word it is the list; the other words are in files of their own."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tenuto.cli.options import store_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenuto.store.protocol import StoredSession
    from tenuto.store.sessions import ListQuery, SessionLine

__all__ = ["BELOW", "command"]

BELOW = {
    "list": ("sessions", "List them, the last one first; as without a word."),
    "search": ("sessions_looking", "Find what was said by its words."),
    "rename": ("sessions_changing", "Call a session something."),
    "archive": ("sessions_changing", "Put sessions away, or fetch them back."),
    "rm": ("sessions_changing", "Remove sessions for good."),
    "stats": ("sessions_looking", "Say how much there is."),
    "verify": ("sessions_looking", "Look for damage."),
    "gc": ("sessions_changing", "Remove what nothing refers to any more."),
    "reindex": ("sessions_changing", "Make what searches look into anew."),
    "backup": ("sessions_changing", "Write a copy of everything to a file."),
    "restore": ("sessions_restore", "Replace all sessions by a backup."),
}
"""Each word behind `sessions`: the file it is in, which is loaded when it is called, and what it does."""

_EXAMPLES = """\b
Examples:
  tenuto sessions
  tenuto sessions -n 100 --all
  tenuto sessions --json | jq -r '.[0].id'
  tenuto sessions search weather Oslo
  tenuto sessions rename last trip
  tenuto sessions rm 01m7q2 trip
  tenuto sessions verify
"""


class _Sessions(click.Group):
    """Loads a word's file when the word is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(BELOW)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in BELOW:
            return None
        if cmd_name == "list":
            return _list
        found = getattr(importlib.import_module(f"tenuto.cli.{BELOW[cmd_name][0]}"), cmd_name)
        assert isinstance(found, click.Command)
        return found

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the word; say which ones are spelt alike if there is none. What stands before it holds for it, too."""
        word = args[0]
        if word not in BELOW and not ctx.resilient_parsing:
            import difflib

            near = difflib.get_close_matches(word, BELOW, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(BELOW)}"
            raise click.UsageError(f"there is nothing called {word!r} to do with sessions: {hint}", ctx)
        said = {name for name in ctx.params if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT}
        ctx.default_map = {word: {name: ctx.params[name] for name in said}}
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the words from the table: none of their files is loaded."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, says) for name, (_, says) in BELOW.items()])


def _list_options(command: Callable[..., int]) -> Callable[..., int]:
    for option in reversed(
        (
            click.option("-n", "--number", type=click.IntRange(min=1), default=20, show_default=True, help="How many."),
            click.option(
                "--all", "every", is_flag=True, help="Also those put away, and those of named agents and sub-agents."
            ),
            click.option("--json", "as_json", is_flag=True, help="A JSON array."),
            store_option,
        )
    ):
        command = option(command)
    return command


@click.group(
    "sessions", cls=_Sessions, invoke_without_command=True, epilog=_EXAMPLES, subcommand_metavar="[COMMAND] [ARGS]..."
)
@_list_options
@click.pass_context
def command(ctx: click.Context, number: int, every: bool, as_json: bool, store: str | None) -> int:
    """List the sessions that are kept, the last one first; or do something with them.

    Each id is shown as a unique prefix: tenuto resume ID, tenuto show ID. The process of an interrupted session died
    during its run; tenuto resume continues it.

    tenuto sessions COMMAND --help says more about each command.
    """
    return 0 if ctx.invoked_subcommand else _listed(number, every=every, as_json=as_json, store=store)


@click.command("list", epilog=_EXAMPLES.replace("sessions -", "sessions list -"))
@_list_options
def _list(number: int, every: bool, as_json: bool, store: str | None) -> int:
    """List the sessions that are kept, the last one first.

    Each id is shown as a unique prefix. The process of an interrupted session died during its run.
    """
    return _listed(number, every=every, as_json=as_json, store=store)


def _listed(number: int, *, every: bool, as_json: bool, store: str | None) -> int:
    from tenuto.cli.screen import write_document, write_text
    from tenuto.store.sessions import ListQuery

    wanted = ListQuery(None if every else "", None, None if every else False, "updated", number, "")
    if as_json:
        from tenuto.core import jsonio

        write_document(jsonio.encode([_fields(one) for one in _whole(wanted, store)]))
        return 0
    found = _glimpses(wanted, store)
    if not found:
        click.echo('no sessions yet: begin one with tenuto run "..."', err=True)
        return 0
    from tenuto.cli.columns import columns

    rows = [_row(one, id) for one, id in zip(found, _ids(found), strict=True)]
    write_text(columns([("ID", "CHANGED", "STATUS", "MODEL", "MESSAGES", "TITLE"), *rows]), escape=True)
    return 0


# --- from where -------------------------------------------------------------------------------------------------------


def _glimpses(wanted: ListQuery, place: str | None) -> list[SessionLine]:
    """A file is looked into without a loop: most of what a list costs is loading."""
    from tenuto.cli.reading import file_at, is_missing

    file = file_at(place)
    if file is None:
        from tenuto.store.sessions import read_line

        return [read_line(one) for one in _awaited(wanted, place)]
    if is_missing(str(file)):
        return []
    from tenuto.store.sessions import list_lines

    return list_lines(file, wanted)


def _whole(wanted: ListQuery, place: str | None) -> list[StoredSession]:
    from tenuto.cli.reading import file_at, is_missing

    file = file_at(place)
    if file is None:
        return _awaited(wanted, place)
    if is_missing(str(file)):
        return []
    from tenuto.store.sessions import list_page

    return list(list_page(file, wanted).sessions)


def _awaited(wanted: ListQuery, place: str | None) -> list[StoredSession]:
    import asyncio

    from tenuto.cli.reading import reading

    async def listed() -> list[StoredSession]:
        async with reading(place) as store:
            if store is None:
                return []
            page = await store.sessions(agent=wanted.agent, archived=wanted.archived, limit=wanted.limit)
            return list(page.sessions)

    return asyncio.run(listed())


# --- as it is shown ---------------------------------------------------------------------------------------------------


def _ids(found: list[SessionLine]) -> list[str]:
    """The ids, each as far as it takes to tell it from the others."""
    from tenuto.cli.reading import short

    ids = [one.id for one in found]
    shorts = [short(id) for id in ids]
    return [s if shorts.count(s) == 1 else id for s, id in zip(shorts, ids, strict=True)]


def _row(one: SessionLine, id: str) -> tuple[str, ...]:
    from tenuto.cli.escaping import one_line
    from tenuto.cli.reading import status_text, when

    title, model = one_line(one.name or one.title, 60), one_line(one.model, 40)
    return id, when(one.updated_at), status_text(one.status, one.waiting_for), model, str(one.message_count), title


def _fields(one: StoredSession) -> dict[str, Any]:
    meta = one.meta
    return {
        "id": one.id,
        "name": one.name,
        "title": meta.title,
        "status": one.status,
        "waiting_for": one.reason,
        "model": meta.model,
        "agent": meta.agent,
        "messages": meta.message_count,
        "created_at": meta.created_at,
        "updated_at": meta.updated_at,
        "usage": meta.usage,
        "parent": one.parent,
        "archived": one.archived,
        "holder": one.holder,
    }
