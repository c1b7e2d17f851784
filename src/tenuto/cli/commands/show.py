"""`tenuto show`: print a session's transcript."""

from __future__ import annotations

import sys

import click

from tenuto import settings
from tenuto.cli.options import SESSION_HELP, color_option, flag, session_argument, store_option
from tenuto.cli.store import use_session
from tenuto.cli.terminal.output import detect_terminal, print_json, print_text, window_size
from tenuto.cli.transcript.text import format_session
from tenuto.core import jsonio
from tenuto.core.journal import Entry
from tenuto.store.export import export_session
from tenuto.store.protocol import Store, StoredSession
from tenuto.wire.loss_report import recorded_losses

_HELP = f"""Show the transcript of SESSION: {SESSION_HELP}.

Works on sessions in use. Message numbers can be passed to fork --at.
"""
_EXAMPLES = """\b
Examples:
  tenuto show 01m7q2 | less
  tenuto show ~1 --json        # every entry
"""


@click.command("show", help=_HELP, epilog=_EXAMPLES)
@session_argument(default="last")
@flag("--hide-thinking", help="Hide the model's thinking.")
@flag("--raw", help="Print Markdown as it is written, also on a terminal.")
@flag("--no-pager", help="Do not open a pager on a terminal (PAGER, else less).")
@flag("--full", help="Show the original messages, too, where a summary is sent.")
@flag("--json", "as_json", help="Print all entries, losses and forks as JSON.")
@store_option
@color_option
def command(
    session: str,
    hide_thinking: bool,
    raw: bool,
    no_pager: bool,
    full: bool,
    as_json: bool,
    store: str | None,
    color: str,
) -> None:
    if as_json:
        print_json(use_session(store, session, _session_document))
        return
    stored, entries, forks = use_session(store, session, _read_session)
    terminal = detect_terminal(color)
    columns = window_size(sys.stdout).columns if terminal.renders_markdown and not raw else 0
    lines = format_session(
        stored, entries, forks, thinking=not hide_thinking, color=terminal.out_color, full=full, columns=columns
    )
    if terminal.is_out_terminal and not no_pager:
        settings.set_default("LESS", "-FRX")  # it ends at once if the session fits the window
        click.echo_via_pager(lines, color=True)
    else:
        print_text("".join(lines), escape=False)  # format_session escapes the text and adds colors


async def _read_session(store: Store, id: str) -> tuple[StoredSession, list[Entry], list[str]]:
    return await store.session(id), await store.read(id), await store.forks(id)


async def _session_document(store: Store, id: str) -> bytes:
    head, *lines = [line.rstrip(b"\n") async for line in export_session(store, id)]
    losses = jsonio.encode(list(recorded_losses(await store.read(id))))
    forks = jsonio.encode(await store.forks(id))
    return b'{"session":%b,"entries":[%b],"losses":%b,"forks":%b}' % (head, b",".join(lines), losses, forks)
