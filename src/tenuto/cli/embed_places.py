"""Which place is meant: a table, a file of JSON lines, or stdout."""

from __future__ import annotations

from pathlib import Path

import click

from tenuto import settings
from tenuto.cli.embed_keeping import Keeper, Shelf
from tenuto.cli.embed_lines import LinesFile, LinesShelf, Printed
from tenuto.cli.embed_table import Table

__all__ = ["COLLECTION", "is_lines", "keeper", "place", "shelf", "table"]

DEFAULT = "embeddings.db"
COLLECTION = "default"
_TABLES = (".db", ".sqlite", ".sqlite3")
_LINES = (".jsonl", ".ndjson")


def place(into: str | None) -> Path | None:
    """Return the file that is meant; None for stdout. Raise `click.UsageError` for what is no place."""
    if into == "-":
        return None
    path = Path(into).expanduser() if into else settings.home() / DEFAULT
    if path.suffix.lower() not in (*_TABLES, *_LINES):
        raise click.UsageError(
            f"--into {into!r}: name a file that ends in .db (a SQLite table) or .jsonl (a line for each), or - for stdout"
        )
    if path.is_dir():
        raise click.UsageError(f"--into {into!r} is a folder: name a file in it")
    return path


def is_lines(path: Path) -> bool:
    """Tell whether a file holds JSON lines, by its name."""
    return path.suffix.lower() in _LINES


def keeper(path: Path | None, collection: str | None, *, text: bool) -> Keeper:
    """Open the place for writing. Raise `click.UsageError`, or `StoreError`, if it cannot be."""
    if collection is not None and (path is None or is_lines(path)):
        raise click.UsageError("--collection: only a table (.db) has collections; lines are all of one")
    if path is None:
        return Printed(text=text)
    if is_lines(path):
        return LinesFile(path, text=text)
    return Table(path, collection or COLLECTION, text=text)


def shelf(path: Path | None, collection: str | None) -> Shelf:
    """Open the place for reading. Raise `click.UsageError` if nothing is there."""
    there = _there(path)
    if not is_lines(there):
        return Table(there, collection or COLLECTION, write=False)
    if collection is not None:
        raise click.UsageError("--collection: only a table (.db) has collections; lines are all of one")
    return LinesShelf(there)


def table(path: Path | None, collection: str = COLLECTION, *, write: bool = False) -> Table:
    """Open a table that is there. Raise `click.UsageError` if it is none."""
    there = _there(path)
    if is_lines(there):
        raise click.UsageError("only a table (.db) has collections; lines are all of one")
    return Table(there, collection, write=write)


def _there(path: Path | None) -> Path:
    if path is None:
        raise click.UsageError("nothing is kept on stdout: name the file in which vectors are, with --into")
    if not path.exists():
        raise click.UsageError(f"{str(path)!r} is not there: embed something first, such as tenuto embed FOLDER")
    return path
