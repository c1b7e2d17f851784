"""`tenuto import`: import exported sessions."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

import click

from tenuto.cli.errors import plural
from tenuto.cli.options import store_option
from tenuto.cli.store import all_sessions, check_session_name, open_or_create_store, run_interruptible
from tenuto.cli.terminal.output import Progress, print_json, print_text, progress
from tenuto.cli.terminal.text import one_line
from tenuto.errors import SessionNotFound, StoreCorrupt, StoreError
from tenuto.store.export import ExportedSession, Imported, check_export, check_no_other_session, import_sessions
from tenuto.store.protocol import Store

_EXAMPLES = """\b
Examples:
  tenuto import trip.jsonl
  tenuto import *.jsonl --store postgresql://localhost/tenuto
  tenuto export trip | ssh elsewhere tenuto import -
  tenuto import trip.jsonl --id trip-2 --name "trip, again"
"""


@click.command("import", epilog=_EXAMPLES)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--id", "id", metavar="ID", help="New ID (single session only).")
@click.option("-n", "--name", metavar="NAME", help="New name (single session only).")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@store_option
def command(files: tuple[str, ...], id: str | None, name: str | None, as_json: bool, store: str | None) -> int:
    """Import the sessions that tenuto export (jsonl) wrote to each FILE; - is stdin.

    Files are validated first; nothing is imported on error (exit 7). Existing sessions are unchanged; an interrupted
    import can be repeated. A fork is imported as a session of its own.
    """

    options = ImportOptions(_check_id(id), None if name is None else check_session_name(name))
    done: list[Imported] = []
    unchanged: set[str] = set()
    try:
        import_files(files, options, store, done, unchanged)
    finally:
        _print_imported(done, unchanged, as_json=as_json)
    return 0


def _check_id(id: str | None) -> str:
    from tenuto.store.sessions import check_id

    try:
        return check_id(id) if id is not None else ""
    except ValueError as exc:
        raise click.UsageError(f"--id: {exc}") from None


def _print_imported(done: list[Imported], unchanged: set[str], *, as_json: bool) -> None:
    from tenuto.core import jsonio

    if as_json and done:
        print_json(jsonio.encode({"imported": done}))
    for one in done:
        if not as_json:
            result = "unchanged" if one.session in unchanged else plural(one.entries, "entry")
            print_text(f"{one.session}  {result}\n", escape=True)
        for what in one.left_out:
            click.echo(one_line(f"left out: session {one.session}: {what}", 400), err=True)


class ImportOptions(NamedTuple):
    """Under which id, and called what; empty and None: as it was."""

    id: str
    name: str | None


def import_files(
    files: Sequence[str], options: ImportOptions, place: str | None, done: list[Imported], unchanged: set[str]
) -> None:
    """Import the sessions of some files; `done` has those that came in, also if something goes wrong with another.

    Raise `click.UsageError` for a file that cannot be read, `StoreError` and `StoreCorrupt` for what is in it.
    """
    with ExitStack() as opened:
        sources = [ImportFile(file, opened) for file in files]
        with progress("importing", 2 * sum(source.size for source in sources)) as bar:
            found = _check_files(sources, bar)
            count = sum(len(sessions) for _, sessions in found)
            if count > 1 and (options.id or options.name is not None):
                raise click.UsageError(f"--id and --name are for one session, and here are {count}")
            run_interruptible(
                _write_sessions(found, options, place, done, unchanged),
                "import it again: it is taken up where it ended",
            )


def _check_files(sources: Sequence[ImportFile], bar: Progress) -> list[tuple[ImportFile, list[ExportedSession]]]:
    try:
        return [(source, source.check(bar)) for source in sources]
    except KeyboardInterrupt:
        click.echo("stopped; nothing was imported", err=True)
        raise


async def _write_sessions(
    found: list[tuple[ImportFile, list[ExportedSession]]],
    options: ImportOptions,
    place: str | None,
    done: list[Imported],
    unchanged: set[str],
) -> None:
    async with open_or_create_store(place) as store:
        for source, sessions in found:
            for whole in sessions:
                await _check_session(store, source, whole, options)
                if await _is_complete(store, options.id or whole.session, whole.entries):
                    unchanged.add(options.id or whole.session)
        for source, _ in found:
            async for one in import_sessions(store, source, id=options.id, name=options.name):
                done.append(one)
                source.note(f"{one.session}; making its words findable")  # when the store is closed: that takes a while


async def _is_complete(store: Store, id: str, entries: int) -> bool:
    try:
        return (await store.session(id)).head == entries
    except SessionNotFound:
        return False


async def _check_session(store: Store, source: ImportFile, whole: ExportedSession, options: ImportOptions) -> None:
    """Refuse, before anything is written, what would be refused in the middle of it."""
    try:
        await check_no_other_session(store, whole, id=options.id)
    except ValueError as exc:
        raise StoreCorrupt(f"{source.named}: {exc}") from None
    except StoreError as exc:
        exc.add_note("nothing was imported")
        raise
    if options.name:
        taken = [one.id async for one in all_sessions(store) if one.name == options.name]
        if taken and taken != [options.id or whole.session]:
            raise click.UsageError(f"--name: another session is called {options.name!r}: {taken[0]}")


class ImportFile:
    """The lines of a file, for several passes. Input from a pipe is copied to a temporary file first."""

    def __init__(self, named: str, opened: ExitStack) -> None:
        self.named = "stdin" if named == "-" else named
        self._bar: Progress | None = None
        try:
            file = _open_stdin() if named == "-" else opened.enter_context(Path(named).expanduser().open("rb"))
            if not file.seekable():
                file = opened.enter_context(_spool(file))
            self._file = file
            self.size = os.fstat(self._file.fileno()).st_size
        except (OSError, ValueError, RuntimeError) as exc:
            why = getattr(exc, "strerror", None) or exc
            raise click.UsageError(f"{self.named!r} cannot be read: {why}") from None

    def check(self, bar: Progress) -> list[ExportedSession]:
        """Look all of it through."""
        self._bar = bar
        bar.note(self.named)
        try:
            return check_export(self)
        except StoreError as exc:
            told = type(exc)(f"{self.named}: {exc}")
            told.add_note("nothing was imported")
            raise told from None

    def note(self, session: str) -> None:
        """Show which session came in last."""
        if self._bar is not None:
            self._bar.note(session)

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(0)
        for line in self._file:
            if self._bar is not None:
                self._bar.advance(len(line))
            yield line


def _open_stdin() -> BinaryIO:
    if sys.stdin is None or sys.stdin.closed:
        raise ValueError("it is closed")
    return sys.stdin.buffer


@contextmanager
def _spool(pipe: BinaryIO) -> Iterator[BinaryIO]:
    """Put what a pipe gives into a file without a name, which is gone when it is closed, whatever happens."""
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(pipe, file)
        file.flush()
        yield file
