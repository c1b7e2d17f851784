"""`tenuto fork`: branch a session off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenuto.cli.options import store_option

if TYPE_CHECKING:
    from tenuto.store.protocol import Store

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  tenuto fork                          # the last one, whole
  tenuto fork trip --at 3              # with its first three messages
  tenuto fork last -n attempt-2 && tenuto resume attempt-2 "Now in French"
"""


@click.command("fork", epilog=_EXAMPLES)
@click.argument("session", default="last")
@click.option(
    "--at", type=click.IntRange(min=1), metavar="N", help="With the first N messages.  [default: all of them]"
)
@click.option("-n", "--name", metavar="NAME", help="What the new session is called.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@store_option
def command(session: str, at: int | None, name: str | None, as_json: bool, store: str | None) -> int:
    """Branch a new session off SESSION (an id, how one begins, a name, last, or ~N), which stays as it is.

    What was said and done so far is shared, not copied: a fork costs nothing. Messages are counted as tenuto show does;
    the results of one turn's calls are one message. A call is not cut from its result: where that would happen, it says
    which places near would do. The id of the new session is printed.
    """
    import asyncio

    from tenuto.cli.reading import naming
    from tenuto.cli.screen import write_document, write_text
    from tenuto.core import jsonio

    parent, new, place = asyncio.run(_forked(session, at, naming(name or ""), store))
    if as_json:
        write_document(jsonio.encode({"session": new, "name": name or "", "parent": parent, "forked_at": place}))
    else:
        write_text(f"{new}\n", escape=True)
        click.echo(f"go on with: tenuto resume {_called(new, name)}{_at(store)}", err=True)
    return 0


def _called(id: str, name: str | None) -> str:
    """What the new session can be called on a command line."""
    import shlex

    from tenuto.cli.escaping import shown
    from tenuto.cli.reading import short

    return shlex.quote(shown(name)) if name else short(id)


def _at(place: str | None) -> str:
    """What has to be typed besides, for the same store to be found; a password is not repeated."""
    import shlex

    context = click.get_current_context()
    if not place or context.get_parameter_source("store") is not click.core.ParameterSource.COMMANDLINE:
        return ""
    return f" --store {'...' if '://' in place and '@' in place else shlex.quote(place)}"


async def _forked(named: str, at: int | None, name: str, place: str | None) -> tuple[str, str, int]:
    """Return what was forked, the new one, and behind which entry."""
    from tenuto.cli.reading import existing, found

    async with existing(place, named) as store:
        parent = await found(store, named)
        new = await store.fork(parent, at=await _cut(store, parent, at))
        if name:
            await _name(store, new, name)
        return parent, new, (await store.session(new)).forked_at


async def _cut(store: Store, session: str, count: int | None) -> int:
    """Return the entry behind which a session can be cut. Raise `click.UsageError` where a call would lose its result."""
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


async def _name(store: Store, new: str, name: str) -> None:
    """Name what was just made; if that cannot be, it is as if nothing had been made."""
    try:
        await store.rename(new, name)
    except ValueError as exc:
        await store.delete(new)
        raise click.UsageError(f"{exc}: choose another name") from None
