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
  tenuto show                  the last one
  tenuto show 01m7q2 | less
  tenuto show ~1 --json        every entry, whole
"""


@click.command("show", epilog=_EXAMPLES)
@click.argument("session", default="last")
@click.option("--hide-thinking", is_flag=True, help="Leave out what the model thought.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document with every entry.")
@store_option
@color_option
def command(session: str, hide_thinking: bool, as_json: bool, store: str | None, color: str) -> int:
    """Show SESSION: an id, how one begins, a name, last, or ~N for the N-th before the last.

    Nothing is written, and it does not matter whether somebody works on the session. Entries of a later version of tenuto
    are shown as they are.
    """
    import asyncio

    from tenuto.cli.screen import looks, write_document, write_text
    from tenuto.cli.telling import told

    if as_json:
        write_document(asyncio.run(_document(session, store)))
        return 0
    stored, entries = asyncio.run(_read(session, store))
    for text in told(stored, entries, thinking=not hide_thinking, color=looks(color).out_color):
        write_text(text, escape=False)  # what was said is spelt out there, which leaves the colors
    return 0


async def _read(named: str, place: str | None) -> tuple[StoredSession, list[Entry]]:
    from tenuto.cli.reading import found, reading

    async with reading(place) as store:
        if store is None:
            raise _none(named)
        id = await found(store, named)
        return await store.session(id), await store.read(id)


async def _document(named: str, place: str | None) -> bytes:
    """The session and its entries, as an export has them."""
    from tenuto.cli.reading import found, reading
    from tenuto.store.transfer import export_session

    async with reading(place) as store:
        if store is None:
            raise _none(named)
        lines = [line.rstrip(b"\n") async for line in export_session(store, await found(store, named))]
    return b'{"session":' + lines[0] + b',"entries":[' + b",".join(lines[1:]) + b"]}"


def _none(named: str) -> Exception:
    from tenuto.errors import SessionNotFound

    return SessionNotFound(f"no session is called {named[:80]!r}: there are none yet")
