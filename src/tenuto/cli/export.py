"""`tenuto export`: a session leaves, in a form that others can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenuto.cli.exporting import FORMS
from tenuto.cli.options import store_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenuto.cli.saving import Put
    from tenuto.core.loss import Loss
    from tenuto.store.protocol import Store

__all__ = ["command"]

_HELP = """Write each SESSION (an id, how one begins, a name, last, or ~N; the last one if none is named) to stdout or a file.

\b
jsonl   a line for the session and one for each entry, with its digest. Nothing
        is changed on the way: tenuto import brings it in as it was. Several
        sessions stand one after another.
md      a document: what was said, thought, called, returned and lost.
openai  {"messages": [...]}, a line for each session: what OpenAI's chat dialect
        has words for. What it has none for is told on stderr.

Nothing of the session is changed, and it does not matter whether somebody works on it.
"""
_EXAMPLES = """\b
Examples:
  tenuto export trip -o trip.md
  tenuto export last > last.jsonl && tenuto import last.jsonl --store other.db
  tenuto export --all -o sessions.jsonl
  tenuto export 01m7q2 ~1 --format openai | jq '.messages[0]'
"""


@click.command("export", help=_HELP, epilog=_EXAMPLES)
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
@click.option(
    "--all", "every", is_flag=True, help="Every session there is, also those put away and those of sub-agents."
)
@click.option(
    "--format",
    "form",
    type=click.Choice([*FORMS]),
    help="A document to be read; lines that tenuto import takes, byte for byte; or OpenAI's messages.  "
    "[default: jsonl; md if FILE ends in .md]",
)
@click.option("-o", "--out", metavar="FILE", help="Where it goes: whole or not at all.  [default: stdout]")
@click.option("--force", is_flag=True, help="Overwrite FILE if it is there.")
@store_option
def command(
    sessions: tuple[str, ...], every: bool, form: str | None, out: str | None, force: bool, store: str | None
) -> int:
    """Write sessions to stdout or a file."""
    from tenuto.cli.escaping import json_shown, shown
    from tenuto.cli.reading import awaited
    from tenuto.cli.saving import saved

    if every and sessions:
        raise click.UsageError("--all takes every session: name none besides")
    form = form or ("md" if (out or "").lower().endswith(".md") else "jsonl")
    with saved(out, force=force, spelt=shown if form == "md" else json_shown) as put:
        told = awaited(_exported(sessions or ("last",), store, form, put, every=every), _stopped(out))
    for line in told:
        click.echo(line, err=True)
    return 0


def _stopped(out: str | None) -> str:
    return "nothing was written" if out not in (None, "-") else "what was printed is not all of it"


async def _exported(named: tuple[str, ...], place: str | None, form: str, put: Put, *, every: bool) -> list[str]:
    """Write the sessions; return what is to be said of it."""
    from tenuto.cli.progress import progress
    from tenuto.cli.reading import every as all_of
    from tenuto.cli.reading import existing, found_all

    async with existing(place, named[0]) as store:
        ids = [one.id async for one in all_of(store)] if every else await found_all(store, named)
        told: list[str] = []
        heads = [(await store.session(id)).head for id in ids]
        with progress("exporting", sum(heads), quiet=_is_shown()) as bar:
            for at, id in enumerate(ids):
                if at and form == "md":
                    put(b"\n")
                told += await _one(store, id, form, put, bar.advance)
    return told


async def _one(store: Store, id: str, form: str, put: Put, advance: Callable[[int], object]) -> list[str]:
    from tenuto.cli.escaping import one_line

    losses: list[Loss] = []
    async for piece in FORMS[form](store, id, losses.append):
        put(piece)
        advance(1)
    return [
        one_line(f"lost: session {id}: {loss.detail} ({loss.location}, {loss.kind}); {loss.remedy}", 400)
        for loss in losses
    ]


def _is_shown() -> bool:
    """What is seen at once needs no bar."""
    import sys

    return sys.stdout is not None and sys.stdout.isatty()
