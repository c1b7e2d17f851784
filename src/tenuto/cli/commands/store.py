"""`tenuto store`: check, back up and clean up the session database."""

from __future__ import annotations

from pathlib import Path

import click

from tenuto import settings
from tenuto.cli.errors import ExitCode, plural
from tenuto.cli.main import CommandGroup
from tenuto.cli.options import flag, json_option, session_argument, store_option, yes_option
from tenuto.cli.store import NO_SESSIONS, is_missing_file, use_sessions, use_store
from tenuto.cli.terminal.output import confirm, format_table, print_lines, print_table, progress
from tenuto.cli.terminal.text import one_line
from tenuto.errors import StoreError
from tenuto.store.open import restore as restore_store
from tenuto.store.protocol import Store, VerifyProblem

_EXAMPLES = """\b
Examples:
  tenuto store backup ~/sessions-backup.db
  tenuto store restore ~/sessions-backup.db
"""
_RESTORE = "restore a backup; tenuto store backup and tenuto export save what can still be read"


@click.group("store", cls=CommandGroup, epilog=_EXAMPLES)
def command() -> None:
    """Check, back up and clean up the session database."""


@command.command("stats")
@json_option
@store_option
def stats(as_json: bool, store: str | None) -> None:
    """Show counts and disk usage."""
    counts = use_store(store, lambda opened: opened.stats(), None)
    if counts is None:
        print_table((), (), None, as_json=as_json, empty=NO_SESSIONS)
        return
    rows = [
        ("sessions", f"{counts.sessions:,}"),
        ("entries", f"{counts.entries:,}"),
        ("bytes", f"{counts.bytes:,}"),
        ("blobs", f"{counts.blobs:,} with {counts.blob_bytes:,} bytes"),
        ("backend", f"{counts.backend}, schema {counts.schema}"),
    ]
    print_lines(format_table(rows).splitlines(), counts, as_json=as_json)


@command.command("verify")
@session_argument("sessions", nargs=-1, metavar="[SESSION]...")
@flag("--repair", help="Rebuild the search index.")
@json_option
@store_option
def verify(sessions: tuple[str, ...], repair: bool, as_json: bool, store: str | None) -> int:
    """Check SESSION, or all sessions and the database, for damage.

    Checks digests, order, tool call pairs and blobs. Changes nothing without --repair. Exit 7 on damage.
    """
    if repair:
        indexed = use_store(store, lambda opened: opened.reindex(), 0, "the next search continues it")
        click.echo(f"indexed {plural(indexed, 'entry')}", err=True)

    async def check(opened: Store, ids: list[str]) -> tuple[int, list[VerifyProblem]]:
        with progress("verifying", len(ids)) as bar:

            def tell(done: int, total: int) -> None:
                bar.length = total
                bar.update(done - bar.pos)

            found = [] if ids else await opened.verify(tell=tell)
            for id in ids:
                found += await opened.verify(id)
                bar.update(1)
            return bar.pos, found

    if sessions:
        count, problems = use_sessions(store, sessions, check, "nothing was changed")
    else:
        count, problems = use_store(store, lambda opened: check(opened, []), None) or (0, [])
    lines = []
    for problem in problems:
        where = f"session {problem.session}" if problem.session else "the database"
        lines.append(f"{where}{f', entry {problem.seq}' if problem.seq else ''}: {one_line(problem.what, 400)}")
    lines = lines or [f"{plural(count, 'session')}: OK"]
    print_lines(lines, {"sessions": count, "faults": problems}, as_json=as_json)
    if problems:
        click.echo(f"error: {plural(len(problems), 'problem')} in {plural(count, 'session')}\n  {_RESTORE}", err=True)
    return ExitCode.SESSION if problems else ExitCode.OK


@command.command("gc")
@json_option
@store_option
def gc(as_json: bool, store: str | None) -> None:
    """Delete unreferenced data: blobs of deleted sessions, and sessions without entries."""
    stopped = "run it again when there is time: no referenced data was deleted"
    count = use_store(store, lambda opened: opened.gc(), 0, stopped)
    print_lines([f"deleted {count:,} bytes"], {"bytes": count}, as_json=as_json)


@command.command("backup")
@click.argument("file")
@json_option
@store_option
def backup(file: str, as_json: bool, store: str | None) -> None:
    """Write a consistent copy to FILE, which must not exist; safe while in use.

    The copy is a store: --store FILE reads it. Use the tools of the database server for a server's database.
    """
    path = Path(file).expanduser().absolute()
    if is_missing_file(store):
        raise StoreError("no sessions yet: nothing to copy")
    stopped = f"run it again with another name if {path} exists now"
    use_store(store, lambda opened: opened.backup(str(path)), None, stopped)
    size = path.stat().st_size
    print_lines([f"{path}: {size:,} bytes"], {"file": str(path), "bytes": size}, as_json=as_json)


@command.command("restore")
@click.argument("file")
@yes_option
@json_option
@store_option
def restore(file: str, yes: bool, as_json: bool, store: str | None) -> int:
    """Replace all sessions by those of FILE, which tenuto store backup wrote. FILE stays as it is.

    The backup is checked first. Do not copy a backup over a store by hand: the log of the old store (-wal) would be applied
    to it. Processes that use the store continue with the restored sessions; work in progress there ends with an error.
    """
    place = store or settings.store()
    refusal = "refusing to replace all sessions without a terminal; pass --yes"
    if not yes and not is_missing_file(place) and not confirm(f"replace all sessions in {place}?", refusal):
        click.echo("nothing was changed", err=True)
        return ExitCode.FAILED
    try:
        restore_store(Path(file).expanduser().absolute(), place)
    except ValueError as exc:
        raise click.UsageError(f"--store: {exc}") from None
    print_lines([f"restored {place} from {file}"], {"file": file, "store": place}, as_json=as_json)
    return ExitCode.OK
