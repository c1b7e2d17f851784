"""Which place is meant: a table, a file of JSON lines, or stdout."""

from __future__ import annotations

from pathlib import Path

import click

from tenuto import settings
from tenuto.cli.embedding.keeping import Keeper, Shelf
from tenuto.cli.embedding.lines import LinesFile, LinesShelf, Printed
from tenuto.cli.embedding.table import Table

__all__ = ["keeper", "place", "shelf"]

_DEFAULT = "embeddings.db"
_TABLES = (".db", ".sqlite", ".sqlite3")
_LINES = (".jsonl", ".ndjson")


def place(into: str | None) -> Path | None:
    """Return the file that is meant; None for stdout. Raise `click.UsageError` for what is no place."""
    if into == "-":
        return None
    path = Path(into).expanduser() if into is not None else settings.home() / _DEFAULT
    if path.suffix.lower() not in (*_TABLES, *_LINES):
        raise click.UsageError(
            f"--into {into!r}: name a file that ends in .db (a SQLite table) or .jsonl (a line for each), or - for stdout"
        )
    if path.is_dir():
        raise click.UsageError(f"--into {into!r} is a folder: name a file in it")
    return path


def _is_lines(path: Path) -> bool:
    return path.suffix.lower() in _LINES


def keeper(path: Path | None) -> Keeper:
    """Open the place for writing. Raise `StoreError` if it cannot be."""
    if path is None:
        return Printed()
    return LinesFile(path) if _is_lines(path) else Table(path)


def shelf(path: Path | None) -> Shelf:
    """Open the place for reading. Raise `click.UsageError` if nothing is there."""
    if path is None:
        raise click.UsageError("nothing is kept on stdout: name the file in which vectors are, with --into")
    if not path.exists():
        raise click.UsageError(f"{str(path)!r} is not there: embed something first, such as tenuto embed FOLDER")
    return LinesShelf(path) if _is_lines(path) else Table(path, write=False)
