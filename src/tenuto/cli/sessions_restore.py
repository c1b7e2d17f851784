"""`tenuto sessions restore`: replace the store by a backup."""

from __future__ import annotations

import sys

import click

from tenuto.cli.options import store_option

__all__ = ["restore"]

_RESTORE = """\b
Examples:
  tenuto sessions restore ~/sessions-backup.db
  tenuto sessions restore ~/sessions-backup.db --yes     # do not ask
"""


@click.command("restore", epilog=_RESTORE)
@click.argument("file")
@click.option("-y", "--yes", is_flag=True, help="Do not ask. Required without a terminal.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@store_option
def restore(file: str, yes: bool, as_json: bool, store: str | None) -> int:
    """Replace all sessions by those of FILE, which tenuto sessions backup wrote. FILE stays as it is.

    The backup is checked first. Do not copy a backup over a store by hand: the log of the old store (-wal) would be applied
    to it. Processes that use the store go on with the restored sessions; work in progress there ends with an error.
    """
    from pathlib import Path

    from tenuto import settings
    from tenuto.cli.exits import Exit
    from tenuto.cli.reading import is_missing
    from tenuto.cli.screen import write_document, write_text
    from tenuto.core import jsonio
    from tenuto.store.open import restore as restore_store

    place = store or settings.store()
    if not yes and not is_missing(place) and not _confirm(place):
        click.echo("nothing was changed", err=True)
        return Exit.FAILED
    try:
        restore_store(Path(file).expanduser().absolute(), place)
    except ValueError as exc:
        raise click.UsageError(f"--store: {exc}") from None
    if as_json:
        write_document(jsonio.encode({"file": file, "store": place}))
    else:
        write_text(f"restored {place} from {file}\n", escape=True)
    return Exit.DONE


def _confirm(place: str) -> bool:
    """Ask on the terminal. Raise `click.UsageError` without one."""
    if sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty() or not sys.stderr.isatty():
        raise click.UsageError("restoring replaces all sessions: add --yes, or run it on a terminal")
    return click.confirm(f"replace all sessions in {place}?", default=False, err=True)
