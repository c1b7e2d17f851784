"""`tenuto show`: what was said and done in a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenuto.cli.options import color_option, store_option

if TYPE_CHECKING:
    from tenuto.core.journal import Entry
    from tenuto.store.protocol import StoredSession

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  tenuto show                  # the last one
  tenuto show 01m7q2 | less
  tenuto show ~1 --json        # every entry, whole
"""


@click.command("show", epilog=_EXAMPLES)
@click.argument("session", default="last")
@click.option("--hide-thinking", is_flag=True, help="Leave out what the model thought.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document: every entry, the losses, the forks.")
@store_option
@color_option
def command(session: str, hide_thinking: bool, as_json: bool, store: str | None, color: str) -> int:
    """Show SESSION: an id, how one begins, a name, last, or ~N for the N-th before the last.

    Nothing is written, and it does not matter whether somebody works on the session. Entries of a later version of tenuto
    are shown as they are. Behind who speaks stands the number of the message: tenuto fork --at takes it.
    """
    import asyncio

    from tenuto.cli.screen import looks, write_document, write_text
    from tenuto.cli.telling import told

    if as_json:
        write_document(asyncio.run(_document(session, store)))
        return 0
    stored, entries, forks = asyncio.run(_read(session, store))
    for text in told(stored, entries, forks, thinking=not hide_thinking, color=looks(color).out_color):
        write_text(text, escape=False)  # what was said is spelt out there, which leaves the colors
    return 0


async def _read(named: str, place: str | None) -> tuple[StoredSession, list[Entry], list[str]]:
    from tenuto.cli.reading import existing, found

    async with existing(place, named) as store:
        id = await found(store, named)
        return await store.session(id), await store.read(id), await store.forks(id)


async def _document(named: str, place: str | None) -> bytes:
    """The session and its entries, as an export has them; what was lost on the way, and what was forked off."""
    from tenuto.cli.losing import losses_of
    from tenuto.cli.reading import existing, found
    from tenuto.core import jsonio
    from tenuto.store.export import export_session

    async with existing(place, named) as store:
        id = await found(store, named)
        head, *lines = [line.rstrip(b"\n") async for line in export_session(store, id)]
        losses = jsonio.encode(list(losses_of(await store.read(id))))
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
