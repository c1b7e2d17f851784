"""`tenuto import`: exported sessions come in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenuto.cli.options import store_option

if TYPE_CHECKING:
    from tenuto.store.export import Imported

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  tenuto import trip.jsonl
  tenuto import *.jsonl --store postgresql://localhost/tenuto
  tenuto export trip | ssh elsewhere tenuto import -
  tenuto import trip.jsonl --id trip-2 --name "trip, again"
"""


@click.command("import", epilog=_EXAMPLES)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--id", "id", metavar="ID", help="Under another id than its own; for one session only.")
@click.option("-n", "--name", metavar="NAME", help="What it is called, instead of its own name; for one session only.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@store_option
def command(files: tuple[str, ...], id: str | None, name: str | None, as_json: bool, store: str | None) -> int:
    """Bring in the sessions that tenuto export (jsonl) wrote to each FILE; - is stdin.

    Everything is looked through before anything is written: a line that is damaged, lost or out of order is named, the exit
    code is 7, and nothing is imported. Entries are the same then as they were, byte for byte. A session that is there
    already is left as it is; one that was cut off while it was imported is taken up where it ended: import it again.

    A session that was forked off another stands for itself, with all of its entries. What else cannot be taken along is
    told on stderr.
    """
    from tenuto.cli.bringing import Wish, brought_in
    from tenuto.cli.reading import naming

    wish = Wish(_checked(id), None if name is None else naming(name))
    done: list[Imported] = []
    try:
        brought_in(files, wish, store, done)
    finally:
        _tell(done, as_json=as_json)
    return 0


def _checked(id: str | None) -> str:
    from tenuto.store.ids import check_id

    try:
        return check_id(id) if id is not None else ""
    except ValueError as exc:
        raise click.UsageError(f"--id: {exc}") from None


def _tell(done: list[Imported], *, as_json: bool) -> None:
    """Say what came in; also if something else did not."""
    from tenuto.cli.escaping import one_line
    from tenuto.cli.screen import write_document, write_text
    from tenuto.core import jsonio

    if as_json and done:
        write_document(jsonio.encode({"imported": done}))
    for one in done:
        if not as_json:
            write_text(f"{one.session}  {one.entries} {'entry' if one.entries == 1 else 'entries'}\n", escape=True)
        for what in one.left_out:
            click.echo(one_line(f"left out: session {one.session}: {what}", 400), err=True)
