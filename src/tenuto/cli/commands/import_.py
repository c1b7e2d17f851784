"""`tenuto import`: import exported sessions."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from tenuto.cli.errors import plural
from tenuto.cli.options import json_option, option, store_option
from tenuto.cli.store import all_sessions, check_session_name, check_store_directory, open_or_create_store, run_async
from tenuto.cli.terminal.output import print_json, print_text, progress
from tenuto.cli.terminal.text import one_line
from tenuto.errors import SessionNotFound, StoreCorrupt, StoreError
from tenuto.store.export import ExportedSession, Imported, check_export, check_no_other_session, import_sessions
from tenuto.store.protocol import Store
from tenuto.store.sessions import check_id

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

_EXAMPLES = """\b
Examples:
  tenuto import trip.jsonl
  tenuto export trip | ssh elsewhere tenuto import -
"""


@click.command("import", epilog=_EXAMPLES)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@option("--id", metavar="ID", help="New ID (single session only).")
@option("-n", "--name", metavar="NAME", help="New name (single session only).")
@json_option
@store_option
def command(files: tuple[str, ...], id: str | None, name: str | None, as_json: bool, store: str | None) -> None:
    """Import the sessions that tenuto export (jsonl) wrote to each FILE; - is stdin.

    Files are validated first; nothing is imported on error (exit 7). Existing sessions are unchanged; an interrupted
    import can be repeated. A fork is imported as a session of its own.
    """
    if name is not None:
        check_session_name(name)
    try:
        id = check_id(id) if id is not None else ""
    except ValueError as exc:
        raise click.UsageError(f"--id: {exc}") from None
    check_store_directory(store)
    done: list[Imported] = []
    unchanged: set[str] = set()

    async def import_files(sources: Sequence[ImportFile], bar: ProgressBar[str]) -> None:
        found = [(source, session) for source in sources for session in source.check(bar)]
        if len(found) > 1 and (id or name is not None):
            raise click.UsageError(f"--id and --name are for one session, and the files have {len(found)}")
        async with open_or_create_store(store) as opened:
            for source, session in found:
                await _check_session(opened, source, session, id, name)
                with suppress(SessionNotFound):
                    if (await opened.session(id or session.session)).head == session.entries:
                        unchanged.add(id or session.session)
            for source in sources:
                async for one in import_sessions(opened, source, id=id, name=name):
                    done.append(one)
                    bar.update(0, f"{one.session}; indexing")  # when the store is closed, which takes a while

    try:
        with ExitStack() as stack:
            sources = [ImportFile(file, stack) for file in files]
            with progress("importing", 2 * sum(source.size for source in sources)) as bar:
                run_async(import_files(sources, bar), "repeat the import to continue: imported sessions are kept")
    finally:
        if as_json and done:
            print_json({"imported": done})
        for one in done:
            if not as_json:
                result = "unchanged" if one.session in unchanged else plural(one.entries, "entry")
                print_text(f"{one.session}  {result}\n", escape=True)
            for detail in one.left_out:
                click.echo(one_line(f"left out: session {one.session}: {detail}", 400), err=True)


async def _check_session(store: Store, source: ImportFile, session: ExportedSession, id: str, name: str | None) -> None:
    """Reject, before anything is written, what the store would reject later."""
    try:
        await check_no_other_session(store, session, id=id)
    except ValueError as exc:
        raise StoreCorrupt(f"{source.name}: {exc}") from None
    except StoreError as exc:
        exc.add_note("nothing was imported")
        raise
    if name:
        taken = [one.id async for one in all_sessions(store) if one.name == name]
        if taken and taken != [id or session.session]:
            raise click.UsageError(f"--name: another session is called {name!r}: {taken[0]}")


class ImportFile:
    """The lines of a file, for several passes. Input from a pipe is copied to a temporary file first."""

    def __init__(self, name: str, stack: ExitStack) -> None:
        self.name = "stdin" if name == "-" else name
        self._bar: ProgressBar[str] | None = None
        try:
            if name == "-":
                if sys.stdin is None or sys.stdin.closed:
                    raise ValueError("it is closed")
                self._file: BinaryIO = sys.stdin.buffer
            else:
                self._file = stack.enter_context(Path(name).expanduser().open("rb"))
            if not self._file.seekable():
                copy = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
                shutil.copyfileobj(self._file, copy)
                self._file = copy
            self.size = self._file.seek(0, os.SEEK_END)
        except (OSError, ValueError, RuntimeError) as exc:
            raise click.UsageError(f"{self.name!r} cannot be read: {getattr(exc, 'strerror', None) or exc}") from None

    def check(self, bar: ProgressBar[str]) -> list[ExportedSession]:
        self._bar = bar
        bar.update(0, self.name)
        try:
            return check_export(self)
        except StoreError as exc:
            error = type(exc)(f"{self.name}: {exc}")
            error.add_note("nothing was imported")
            raise error from None

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(0)
        for line in self._file:
            if self._bar is not None:
                self._bar.update(len(line))
            yield line
