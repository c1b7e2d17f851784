"""`tenuto show`: print a session's transcript."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenuto.cli.options import color_option, session_argument, store_option
from tenuto.cli.store import find_session, open_existing_store
from tenuto.cli.terminal.output import detect_terminal, print_json, print_text

if TYPE_CHECKING:
    from tenuto.core.journal import Entry
    from tenuto.store.protocol import StoredSession


_EXAMPLES = """\b
Examples:
  tenuto show                  # the last session
  tenuto show 01m7q2 | less
  tenuto show ~1 --json        # every entry
"""


@click.command("show", epilog=_EXAMPLES)
@session_argument(default="last")
@click.option("--hide-thinking", is_flag=True, help="Hide the model's thinking.")
@click.option("--full", is_flag=True, help="Show the original messages, too, where a summary is sent.")
@click.option("--json", "as_json", is_flag=True, help="Print all entries, losses and forks as JSON.")
@store_option
@color_option
def command(session: str, hide_thinking: bool, full: bool, as_json: bool, store: str | None, color: str) -> int:
    """Show the transcript of SESSION: ID or unique prefix, name, `last`, or `~N` (N sessions ago).

    Works on sessions in use. Message numbers can be passed to fork --at.
    """
    import asyncio

    from tenuto.cli.transcript.text import format_session

    if as_json:
        print_json(asyncio.run(_session_document(session, store)))
        return 0
    stored, entries, forks = asyncio.run(_read_session(session, store))
    for text in format_session(
        stored, entries, forks, thinking=not hide_thinking, color=detect_terminal(color).out_color, full=full
    ):
        print_text(text, escape=False)  # format_session escapes the text and adds colors
    return 0


async def _read_session(named: str, place: str | None) -> tuple[StoredSession, list[Entry], list[str]]:

    async with open_existing_store(place, named) as store:
        id = await find_session(store, named)
        return await store.session(id), await store.read(id), await store.forks(id)


async def _session_document(named: str, place: str | None) -> bytes:
    """Return session and entries as in an export, with losses and forks."""
    from tenuto.cli.session.result import recorded_losses
    from tenuto.core import jsonio
    from tenuto.store.export import export_session

    async with open_existing_store(place, named) as store:
        id = await find_session(store, named)
        head, *lines = [line.rstrip(b"\n") async for line in export_session(store, id)]
        losses = jsonio.encode(list(recorded_losses(await store.read(id))))
        forks = jsonio.encode(await store.forks(id))
    pieces = (
        b'{"session":',
        head,
        b',"entries":[',
        b",".join(lines),
        b'],"losses":',
        losses,
        b',"forks":',
        forks,
        b"}",
    )
    return b"".join(pieces)
