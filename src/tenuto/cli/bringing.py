"""Files with exported sessions on their way into a store: looked through first, all of them, then written."""

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

from tenuto.cli.progress import Progress, progress
from tenuto.cli.reading import awaited, every, making
from tenuto.errors import StoreCorrupt, StoreError
from tenuto.store.export import ExportedSession, Imported, check_export, check_no_other_session, import_sessions
from tenuto.store.protocol import Store

__all__ = ["Wish", "brought_in"]


class Wish(NamedTuple):
    """Under which id, and called what; empty and None: as it was."""

    id: str
    name: str | None


def brought_in(files: Sequence[str], wish: Wish, place: str | None, done: list[Imported]) -> None:
    """Import the sessions of some files; `done` has those that came in, also if something goes wrong with another.

    Raise `click.UsageError` for a file that cannot be read, `StoreError` and `StoreCorrupt` for what is in it.
    """
    with ExitStack() as opened:
        sources = [_Source(file, opened) for file in files]
        with progress("importing", 2 * sum(source.size for source in sources)) as bar:
            found = _examined(sources, bar)
            count = sum(len(sessions) for _, sessions in found)
            if count > 1 and (wish.id or wish.name is not None):
                raise click.UsageError(f"--id and --name are for one session, and here are {count}")
            awaited(_written(found, wish, place, done), "import it again: it is taken up where it ended")


def _examined(sources: Sequence[_Source], bar: Progress) -> list[tuple[_Source, list[ExportedSession]]]:
    try:
        return [(source, source.examined(bar)) for source in sources]
    except KeyboardInterrupt:
        click.echo("stopped; nothing was imported", err=True)
        raise


async def _written(
    found: list[tuple[_Source, list[ExportedSession]]], wish: Wish, place: str | None, done: list[Imported]
) -> None:
    async with making(place) as store:
        for source, sessions in found:
            for whole in sessions:
                await _admitted(store, source, whole, wish)
        for source, _ in found:
            async for one in import_sessions(store, source, id=wish.id, name=wish.name):
                done.append(one)
                source.note(f"{one.session}; making its words findable")  # when the store is closed: that takes a while


async def _admitted(store: Store, source: _Source, whole: ExportedSession, wish: Wish) -> None:
    """Refuse, before anything is written, what would be refused in the middle of it."""
    try:
        await check_no_other_session(store, whole, id=wish.id)
    except ValueError as exc:
        raise StoreCorrupt(f"{source.named}: {exc}") from None
    except StoreError as exc:
        exc.add_note("nothing was imported")
        raise
    if wish.name:
        taken = [one.id async for one in every(store) if one.name == wish.name]
        if taken and taken != [wish.id or whole.session]:
            raise click.UsageError(f"--name: another session is called {wish.name!r}: {taken[0]}")


class _Source:
    """The lines of a file, as often as they are wanted: none of them is held. What comes through a pipe is put by first."""

    def __init__(self, named: str, opened: ExitStack) -> None:
        self.named = "stdin" if named == "-" else named
        self._bar: Progress | None = None
        try:
            file = _stdin() if named == "-" else opened.enter_context(Path(named).expanduser().open("rb"))
            if not file.seekable():
                file = opened.enter_context(_put_by(file))
            self._file = file
            self.size = os.fstat(self._file.fileno()).st_size
        except (OSError, ValueError, RuntimeError) as exc:
            why = getattr(exc, "strerror", None) or exc
            raise click.UsageError(f"{self.named!r} cannot be read: {why}") from None

    def examined(self, bar: Progress) -> list[ExportedSession]:
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


def _stdin() -> BinaryIO:
    if sys.stdin is None or sys.stdin.closed:
        raise ValueError("it is closed")
    return sys.stdin.buffer


@contextmanager
def _put_by(pipe: BinaryIO) -> Iterator[BinaryIO]:
    """Put what a pipe gives into a file without a name, which is gone when it is closed, whatever happens."""
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(pipe, file)
        file.flush()
        yield file
