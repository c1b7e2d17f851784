"""`tenuto fork`: copy a session to a new branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenuto.cli.options import json_option, session_argument, store_option
from tenuto.cli.store import check_session_name, find_session, open_existing_store, short_id
from tenuto.cli.terminal.output import print_json, print_text
from tenuto.cli.terminal.text import escape_control

if TYPE_CHECKING:
    from tenuto.store.protocol import Store


_EXAMPLES = """\b
Examples:
  tenuto fork                          # the whole last session
  tenuto fork trip --at 3              # its first three messages
  tenuto fork last -n attempt-2 && tenuto resume attempt-2 "Now in French"
"""


@click.command("fork", epilog=_EXAMPLES)
@session_argument(default="last")
@click.option("--at", type=click.IntRange(min=1), metavar="N", help="Keep the first N messages.  [default: all]")
@click.option("-n", "--name", metavar="NAME", help="Session name.")
@json_option
@store_option
def command(session: str, at: int | None, name: str | None, as_json: bool, store: str | None) -> int:
    """Copy SESSION (ID or unique prefix, name, `last`, or `~N`) to a new branch and print its ID.

    --at takes message numbers from tenuto show. A tool call is never separated from its result.
    """
    import asyncio

    from tenuto.core import jsonio

    parent, new, place = asyncio.run(_fork(session, at, check_session_name(name or ""), store))
    if as_json:
        print_json(jsonio.encode({"session": new, "name": name or "", "parent": parent, "forked_at": place}))
    else:
        print_text(f"{new}\n", escape=True)
        click.echo(f"resume with: tenuto resume {_command_name(new, name)}{_store_option(store)}", err=True)
    return 0


def _command_name(id: str, name: str | None) -> str:
    """What the new session can be called on a command line."""
    import shlex

    return shlex.quote(escape_control(name)) if name else short_id(id)


def _store_option(place: str | None) -> str:
    """What has to be typed besides, for the same store to be found; a password is not repeated."""
    import shlex

    context = click.get_current_context()
    if not place or context.get_parameter_source("store") is not click.core.ParameterSource.COMMANDLINE:
        return ""
    return f" --store {'...' if '://' in place and '@' in place else shlex.quote(place)}"


async def _fork(named: str, at: int | None, name: str, place: str | None) -> tuple[str, str, int]:
    """Return the session, its fork, and the last shared entry."""

    async with open_existing_store(place, named) as store:
        parent = await find_session(store, named)
        new = await store.fork(parent, at=await _fork_point(store, parent, at))
        if name:
            await _name_fork(store, new, name)
        return parent, new, (await store.session(new)).forked_at


async def _fork_point(store: Store, session: str, count: int | None) -> int:
    """Return the last entry of a fork. Raise `click.UsageError` if it would separate a call from its result."""
    from tenuto.agent.session import fork_point
    from tenuto.core.journal import TranscriptFold

    entries = await store.read(session)
    if count is None:
        fold = TranscriptFold()
        for entry in entries:
            fold.apply(entry)
        if not fold.open_calls():
            return entries[-1].seq if entries else 0
        count = len(fold)
    try:
        return fork_point(entries, count)
    except ValueError as exc:
        raise click.UsageError(str(exc)) from None


async def _name_fork(store: Store, new: str, name: str) -> None:
    """Name what was just made; if that cannot be, it is as if nothing had been made."""
    try:
        await store.rename(new, name)
    except ValueError as exc:
        await store.delete(new)
        raise click.UsageError(f"{exc}: choose another name") from None
