"""`tenuto sessions`: what is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tenuto.cli.options import store_option

if TYPE_CHECKING:
    from tenuto.store.protocol import StoredSession

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  tenuto sessions
  tenuto sessions -n 100 --all
  tenuto sessions --json | jq -r '.[0].id'
"""


@click.command("sessions", epilog=_EXAMPLES)
@click.option("-n", "--number", type=click.IntRange(min=1), default=20, show_default=True, help="How many.")
@click.option("--all", "every", is_flag=True, help="Also those put away, and those of named agents and sub-agents.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array.")
@store_option
def command(number: int, every: bool, as_json: bool, store: str | None) -> int:
    """List the sessions that are kept, the last one first.

    The id is shown as far as it takes to find the session: tenuto resume ID, tenuto show ID. A session that is open and
    that nobody has was broken off; tenuto resume goes on with it.
    """
    import asyncio

    from tenuto.cli.reading import reading, when
    from tenuto.cli.screen import write_document, write_text
    from tenuto.core import jsonio

    async def listed() -> list[StoredSession]:
        async with reading(store) as opened:
            if opened is None:
                return []
            page = await opened.sessions(agent=None if every else "", archived=None if every else False, limit=number)
            return list(page.sessions)

    found = asyncio.run(listed())
    if as_json:
        write_document(jsonio.encode([_fields(one) for one in found]))
    elif not found:
        click.echo('no sessions yet: begin one with tenuto run "..."', err=True)
    else:
        rows = [_row(one, id, when(one.meta.updated_at)) for one, id in zip(found, _ids(found), strict=True)]
        write_text(_table([("ID", "CHANGED", "STATUS", "MODEL", "MESSAGES", "TITLE"), *rows]), escape=True)
    return 0


def _ids(found: list[StoredSession]) -> list[str]:
    """The ids, each as far as it takes to tell it from the others."""
    from tenuto.cli.reading import short

    ids = [one.id for one in found]
    shorts = [short(id) for id in ids]
    return [s if shorts.count(s) == 1 else id for s, id in zip(shorts, ids, strict=True)]


def _state(one: StoredSession) -> str:
    return "running" if one.holder else one.meta.status


def _row(one: StoredSession, id: str, changed: str) -> tuple[str, ...]:
    from tenuto.cli.escaping import one_line

    title = one_line(one.name or one.meta.title, 60)
    return id, changed, _state(one), one_line(one.meta.model, 40), str(one.meta.message_count), title


def _table(rows: list[tuple[str, ...]]) -> str:
    """Columns as wide as their widest, but for the last."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)][:-1]
    lines = []
    for row in rows:
        cells = [cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return "\n".join(lines) + "\n"


def _width(text: str) -> int:
    """How many places a terminal gives a text."""
    import unicodedata

    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )


def _fields(one: StoredSession) -> dict[str, Any]:
    meta = one.meta
    return {
        "id": one.id,
        "name": one.name,
        "title": meta.title,
        "status": _state(one),
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
