"""`tenuto fork`: copy a session to a new branch."""

from __future__ import annotations

import shlex

import click

from tenuto.agent.session import fork_point
from tenuto.cli.options import SESSION_HELP, WholeNumber, json_option, option, session_argument, store_option
from tenuto.cli.store import check_session_name, short_id, use_session
from tenuto.cli.terminal.output import print_lines
from tenuto.cli.terminal.text import escape_control
from tenuto.store.protocol import Store

_HELP = f"""Copy SESSION ({SESSION_HELP}) to a new branch and print its ID.

--at takes message numbers from tenuto show. A tool call is never separated from its result.
"""
_EXAMPLES = """\b
Examples:
  tenuto fork trip --at 3              # its first three messages
  tenuto fork last -n attempt-2 && tenuto resume attempt-2 "Now in French"
"""


@click.command("fork", help=_HELP, epilog=_EXAMPLES)
@session_argument(default="last")
@option("--at", type=WholeNumber(min=1), metavar="N", help="Keep the first N messages.  [default: all]")
@option("-n", "--name", default="", metavar="NAME", help="Session name.")
@json_option
@store_option
def command(session: str, at: int | None, name: str, as_json: bool, store: str | None) -> None:
    async def copy(opened: Store, parent: str) -> tuple[str, str, int]:
        try:
            fork = await opened.fork(parent, at=fork_point(await opened.read(parent), at))
        except ValueError as exc:
            raise click.UsageError(str(exc)) from None
        if name:
            try:
                await opened.rename(fork, name)
            except ValueError as exc:
                await opened.delete(fork)
                raise click.UsageError(f"{exc}: choose another name") from None
        return parent, fork, (await opened.session(fork)).forked_at

    check_session_name(name)
    parent, fork, last = use_session(store, session, copy)
    print_lines([fork], {"session": fork, "name": name, "parent": parent, "forked_at": last}, as_json=as_json)
    if not as_json:
        shown = shlex.quote(escape_control(name)) if name else short_id(fork)
        click.echo(f"resume with: tenuto resume {shown}{_store_option(store)}", err=True)


def _store_option(place: str | None) -> str:
    """Return the `--store` that was typed, for the next command; a password is not repeated."""
    context = click.get_current_context()
    if not place or context.get_parameter_source("store") is not click.core.ParameterSource.COMMANDLINE:
        return ""
    return f" --store {'...' if '://' in place and '@' in place else shlex.quote(place)}"
