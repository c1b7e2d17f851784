"""What SQLite's errors mean, and what is to be done about them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenuto.errors import StoreCorrupt, StoreError

__all__ = ["ERRORS", "PATIENCE", "name_of", "said", "spoken"]

PATIENCE = 10.0
"""How many seconds somebody else who writes is waited for."""
_MEANING = {
    "FULL": "the disk is full: make room and try again; nothing of this was written",
    "IOERR": "the disk reports an error, or a quota is used up; look whether the last entries are there before going on",
    "CORRUPT": (
        "the file is damaged, or it was replaced while its -wal file was left next to it: copy both away, then restore a "
        "backup with `tenuto sessions restore BACKUP`, or try `sqlite3 FILE .recover`"
    ),
    "NOTADB": "the file is no SQLite database, or its beginning is damaged: name another, or fetch a backup; nothing was changed",
    "READONLY": "the file or its folder cannot be written: change their permissions, or name another place",
    "PERM": "the file or its folder cannot be written: change their permissions, or name another place",
    "CANTOPEN": (
        "the file cannot be opened: look at the permissions of it and its folder, and whether anything can be written there"
    ),
    "BUSY": (
        f"the store is saturated: other processes wrote without pause for {PATIENCE:.0f} s; nothing of this was written, try "
        "again, or let fewer processes write to one file"
    ),
    "CONSTRAINT": "something of this name or number is there already",
    "TOOBIG": "a value is larger than SQLite can hold (1 GB)",
}
_DAMAGE = ("CORRUPT", "NOTADB")
ERRORS = (sqlite3.Error, UnicodeEncodeError, OverflowError)
"""What a statement may raise: also for half a character, or a number of more than 64 bits, as an argument."""


def name_of(exc: Exception) -> str:
    """Return SQLite's own name of an error."""
    return str(getattr(exc, "sqlite_errorname", "") or "")


def said(path: Path, exc: Exception) -> StoreError:
    """Say what an error of SQLite's means, and what to do."""
    word = name_of(exc).removeprefix("SQLITE_").split("_")[0]
    kind = StoreCorrupt if word in _DAMAGE else StoreError
    meaning = _MEANING.get(word)
    return kind(f"{str(path)!r}: {meaning} ({exc})" if meaning else f"{str(path)!r}: {exc}")


@contextmanager
def spoken(path: Path) -> Iterator[None]:
    """Say in our words what goes wrong in the block; `path` is the file that it is about."""
    try:
        yield
    except ERRORS as exc:
        raise said(path, exc) from exc
    except FileExistsError as exc:
        raise StoreError(f"{str(path)!r} is there already, and is not overwritten") from exc
    except OSError as exc:
        raise StoreError(f"{str(path)!r} cannot be used: {exc.strerror or exc}: name another place") from exc
