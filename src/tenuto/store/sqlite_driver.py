"""One connection to a SQLite file, through the standard library.

SQLite before 3.51.3 can damage a file if one connection starts its log again while another copies the log into the file.
So SQLite copies nothing by itself (`wal_autocheckpoint=0`): writers share a lock on `<file>.lock` during a transaction, and
`checkpoint` copies the log only under an exclusive lock.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tenuto.errors import StoreError
from tenuto.store.driver import Arg
from tenuto.store.locks import Guard
from tenuto.store.sqlite_errors import ERRORS, PATIENCE, name_of, said, spoken
from tenuto.store.words import snippet_of, words_in

__all__ = ["SqliteDriver", "beside", "copied", "wait_for"]

_PAUSE = 0.005
_TURN = 0.002
"""Seconds between two tries to begin a transaction."""
_LOG_BYTES = 4 * 1024 * 1024
"""A log of this length is copied into the file."""
_FIND = """
SELECT words.session, words.seq, words.text FROM found JOIN words ON words.n = found.rowid
WHERE found MATCH ? ORDER BY found.rank, words.n LIMIT ?
"""


class SqliteDriver:
    """One connection to the file, for one thread."""

    def __init__(self, open: Callable[[], sqlite3.Connection], path: Path, *, guarded: bool = True) -> None:
        self._open = open
        self._path = path
        self._guard = Guard(beside(path, ".lock") if guarded else None)
        self._log = beside(path, "-wal")
        self._db: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._sqlite_waits = True
        self._connect()
        self._marked = False
        self._wrote = False
        self._held_up = 0

    def begin(self, *, write: bool) -> None:
        """Begin a transaction. A connection that broke, or whose file was replaced, is opened again."""
        try:
            if write and not self._guard.share():
                wait_for(self._guard.share, self._path)
            if self._db is not None and _identity(self._path) != self._file:
                self._part_with(self._db)
            if self._db is None:
                self._connect()
            if not write:
                self._run("BEGIN")
                return
            self._wrote = True
            self._begin_immediate()
        except StoreError:
            self._guard.free()
            raise
        except (sqlite3.Error, OSError) as exc:
            self._guard.free()
            raise said(self._path, exc) from exc

    def _begin_immediate(self) -> None:
        """Wait for the turn to write.

        SQLite waits up to 0.1 s between two tries, so a process may wait for long while others write without pause. Short
        waits give every process its turn.
        """
        if self._sqlite_waits:
            self._run("PRAGMA busy_timeout=0")
            self._sqlite_waits = False
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self._run("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as exc:
                if not name_of(exc).startswith("SQLITE_BUSY") or time.monotonic() > until:
                    raise
            time.sleep(_TURN)

    def commit(self) -> None:
        """End it; what was written is on the disk."""
        self._marked = False
        try:
            self._run("COMMIT")
        except sqlite3.Error as exc:
            self._wrote = False  # nothing more is asked of a disk that fails
            raise said(self._path, exc) from exc
        self._guard.free()

    def rollback(self) -> None:
        """Undo it."""
        self._marked = False
        if self._db is not None:
            try:
                self._run("ROLLBACK")
            except sqlite3.Error as exc:
                if name_of(exc) != "SQLITE_ERROR":  # that one says that no transaction is open
                    self._part_with(self._db)
        self._guard.free()

    def save(self) -> None:
        """Set a mark. There is one at a time: whatever came before it stays."""
        with spoken(self._path):
            if self._marked:
                self._run("RELEASE mark")
            self._run("SAVEPOINT mark")
        self._marked = True

    def undo(self) -> None:
        """Go back to the mark."""
        with spoken(self._path):
            self._run("ROLLBACK TO mark")

    def rows(self, sql: str, args: Sequence[Arg] = ()) -> list[tuple[Any, ...]]:
        """Ask; return everything."""
        try:
            return self._run(sql, args).fetchall()
        except ERRORS as exc:
            raise said(self._path, exc) from exc

    def change(self, sql: str, args: Sequence[Arg] = ()) -> int:
        """Change something; return how many rows that touched."""
        try:
            return self._run(sql, args).rowcount
        except ERRORS as exc:
            raise said(self._path, exc) from exc

    def insert(self, sql: str, rows: Iterable[Sequence[Arg]]) -> int:
        """Insert several rows; return how many were inserted."""
        assert self._db is not None
        with spoken(self._path):
            return max(self._db.executemany(sql, rows).rowcount, 0)

    def clock(self) -> int:
        """Return the time of this machine."""
        return time.time_ns() // 1_000_000

    def index(self, rows: Iterable[tuple[str, int, str]]) -> None:
        """Let these texts be found. What a word is is told here, as for every store: SQLite is given them one by one."""
        [[last]] = self.rows("SELECT coalesce(max(n), 0) FROM words")
        numbered = list(enumerate(rows, last + 1))
        self.insert("INSERT INTO words (n, session, seq, text) VALUES (?, ?, ?, ?)", [(n, *row) for n, row in numbered])
        words = [(n, " ".join(words_in(text))) for n, (_, _, text) in numbered]
        self.insert("INSERT INTO found (rowid, text) VALUES (?, ?)", words)

    def unindex(self, session: str | None) -> None:
        """Forget the texts of a session, or of all."""
        if session is None:
            self.change("INSERT INTO found (found) VALUES ('delete-all')")
            self.change("DELETE FROM words")
            return
        rows = self.rows("SELECT n, text FROM words WHERE session = ?", (session,))
        words = [(n, " ".join(words_in(text))) for n, text in rows]
        self.insert("INSERT INTO found (found, rowid, text) VALUES ('delete', ?, ?)", words)
        self.change("DELETE FROM words WHERE session = ?", (session,))

    def search(self, words: str, limit: int) -> list[tuple[str, int, str]]:
        """Find texts with all the words. SQLite's own snippets take long where a word occurs often: ours is made here."""
        wanted = words_in(words)
        asked = " ".join(f'"{word}"' for word in dict.fromkeys(wanted))
        rows = self.rows(_FIND, (asked, limit)) if asked else []
        return [(session, seq, snippet_of(text, wanted)) for session, seq, text in rows]

    def check(self) -> list[str]:
        """Look for damage in the file itself; return what is wrong."""
        return [str(what) for (what,) in self.rows("PRAGMA integrity_check(20)") if what != "ok"]

    def size(self) -> int:
        """Return the bytes of the file and its log."""
        return sum(_size(path) for path in (self._path, self._log))

    def backup(self, to: str) -> None:
        """Write a consistent copy to a file that does not exist yet."""
        assert self._db is not None
        [[only]] = self.rows("PRAGMA query_only")
        with spoken(Path(to)):
            self._run("PRAGMA query_only=0")  # else SQLite does not write the copy, either
            try:
                copied(self._db, Path(to))
            finally:
                self._run(f"PRAGMA query_only={only}")

    def checkpoint(self) -> None:
        """Copy the log into the file and empty it, if it is long and no process writes."""
        size = _size(self._log)
        if size < max(_LOG_BYTES, self._held_up):
            return
        if self._checkpoint():
            self._held_up = 0
        else:  # a process writes, or reads an older state: try again when the log has grown further
            self._held_up = size + _LOG_BYTES // 4

    def close(self) -> None:
        """Copy the log if that can be done now, and close."""
        db = self._db
        if db is not None:
            if self._wrote:
                with suppress(StoreError):
                    self._checkpoint()
            self._part_with(db)
        self._guard.leave()

    def part(self) -> None:
        """Let go of the connection without closing it: it is somebody else's."""
        self._db = None
        with suppress(sqlite3.Error):  # it may be closed already
            self._cursor.close()
        self._guard.leave()

    def _connect(self) -> None:
        """Open a connection. All goes through one cursor: each `execute` of a connection's own would make another."""
        while True:
            before = _identity(self._path)
            self._db = self._open()
            self._file = _identity(self._path)
            if self._file == before:
                break
            self._db.close()  # the file was replaced meanwhile
        self._cursor = self._db.cursor()
        self._sqlite_waits = True
        self._run: Callable[..., sqlite3.Cursor] = self._cursor.execute

    def _checkpoint(self) -> bool:
        """Copy the log and empty it, if no process writes; return whether all of it was copied."""
        with spoken(self._path):
            if not self._guard.alone():
                return False
            try:
                self._run("PRAGMA busy_timeout=0")  # do not wait for readers
                self._sqlite_waits = False
                [[busy, _, _]] = self._run("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                self._guard.free()
        return not busy

    def _part_with(self, db: sqlite3.Connection) -> None:
        self._db = None
        with suppress(sqlite3.Error):
            self._cursor.close()  # it holds its last statement, and as long as one is held the file stays open
        with suppress(sqlite3.Error):
            db.close()


# --- small things -----------------------------------------------------------------------------------------------------


def beside(path: Path, ending: str) -> Path:
    """Return the file that lies beside another, and is called as it is, with an ending."""
    return path.with_name(path.name + ending)


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what identifies a file, whatever its name; None if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def wait_for(taken: Callable[[], bool], path: Path) -> None:
    """Ask for a lock until it is had. Raise `StoreError` if that takes too long."""
    until = time.monotonic() + PATIENCE
    while not taken():
        if time.monotonic() > until:
            raise StoreError(f"{str(path)!r} was busy for {PATIENCE:.0f} s: another process works on it; try again")
        time.sleep(_PAUSE)


def copied(db: sqlite3.Connection, to: Path) -> None:
    """Copy everything into a file that must not be there, for its owner's eyes only."""
    file = os.open(to, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        db.execute("VACUUM INTO ?", (str(to),))
        os.fsync(file)
    except BaseException:
        to.unlink()
        raise
    finally:
        os.close(file)
