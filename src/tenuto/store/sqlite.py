"""Sessions in one SQLite file: creating it and opening it.

The file is in WAL mode and every commit waits for the disk (`synchronous=FULL`): what was acknowledged survives a killed
process, a crash of the system and a loss of power. It is made whole under another name and then put in its place, so that
a file at that place is either ours or not ours, and never half made. Whatever else is found there is left as it is.

A network folder (NFS, SMB) is no place for such a file: the log needs memory that all of its users share.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tenuto.core.jsonio import JsonError
from tenuto.errors import StoreCorrupt, StoreError
from tenuto.store.driver import Arg, Driver, FileLock
from tenuto.store.locks import Guard, Locks
from tenuto.store.schema import APPLICATION, MARKER, VERSION, create_tables, version_error
from tenuto.store.words import snippet_of, tokenize

__all__ = [
    "ERRORS",
    "PATIENCE",
    "SqliteDriver",
    "SqliteEngine",
    "copied",
    "name_of",
    "sibling",
    "translate_error",
    "translating_errors",
    "wait_for",
]

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


def translate_error(path: Path, exc: Exception) -> StoreError:
    """Say what an error of SQLite's means, and what to do."""
    word = name_of(exc).removeprefix("SQLITE_").split("_")[0]
    if word == "NOTADB" and (error := _export_error(path)):
        return error
    kind = StoreCorrupt if word in _DAMAGE else StoreError
    meaning = _MEANING.get(word)
    return kind(f"{str(path)!r}: {meaning} ({exc})" if meaning else f"{str(path)!r}: {exc}")


def _export_error(path: Path) -> StoreError | None:
    """Return the error for an exported session that was named as a store; None for any other file."""
    from tenuto.store.export import check_header

    try:
        with path.open("rb") as file:
            line = file.readline(4096).rstrip()
        if not line.startswith(b'{"tenuto":"session"'):
            return None
        check_header(line)
    except (JsonError, OSError):
        return None
    except StoreError as exc:
        return StoreError(f"{str(path)!r}: {exc}")
    return StoreError(f"{str(path)!r} is an exported session, not a store: import it with `tenuto import {path}`")


@contextmanager
def translating_errors(path: Path) -> Iterator[None]:
    """Say in our words what goes wrong in the block; `path` is the file that it is about."""
    try:
        yield
    except ERRORS as exc:
        raise translate_error(path, exc) from exc
    except FileExistsError as exc:
        raise StoreError(f"{str(path)!r} is there already, and is not overwritten") from exc
    except OSError as exc:
        raise StoreError(f"{str(path)!r} cannot be used: {exc.strerror or exc}: name another place") from exc


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
        self._guard = Guard(sibling(path, ".lock") if guarded else None)
        self._log = sibling(path, "-wal")
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
            raise translate_error(self._path, exc) from exc

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
            raise translate_error(self._path, exc) from exc
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
        with translating_errors(self._path):
            if self._marked:
                self._run("RELEASE mark")
            self._run("SAVEPOINT mark")
        self._marked = True

    def undo(self) -> None:
        """Go back to the mark."""
        with translating_errors(self._path):
            self._run("ROLLBACK TO mark")

    def rows(self, sql: str, args: Sequence[Arg] = ()) -> list[tuple[Any, ...]]:
        """Ask; return everything."""
        try:
            return self._run(sql, args).fetchall()
        except ERRORS as exc:
            raise translate_error(self._path, exc) from exc

    def change(self, sql: str, args: Sequence[Arg] = ()) -> int:
        """Change something; return how many rows that touched."""
        try:
            return self._run(sql, args).rowcount
        except ERRORS as exc:
            raise translate_error(self._path, exc) from exc

    def insert(self, sql: str, rows: Iterable[Sequence[Arg]]) -> int:
        """Insert several rows; return how many were inserted."""
        assert self._db is not None
        with translating_errors(self._path):
            return max(self._db.executemany(sql, rows).rowcount, 0)

    def clock(self) -> int:
        """Return the time of this machine."""
        return time.time_ns() // 1_000_000

    def index(self, rows: Iterable[tuple[str, int, str]]) -> None:
        """Let these texts be found. What a word is is told here, as for every store: SQLite is given them one by one."""
        [[last]] = self.rows("SELECT coalesce(max(n), 0) FROM words")
        numbered = list(enumerate(rows, last + 1))
        self.insert("INSERT INTO words (n, session, seq, text) VALUES (?, ?, ?, ?)", [(n, *row) for n, row in numbered])
        words = [(n, " ".join(tokenize(text))) for n, (_, _, text) in numbered]
        self.insert("INSERT INTO found (rowid, text) VALUES (?, ?)", words)

    def unindex(self, session: str | None) -> None:
        """Forget the texts of a session, or of all."""
        if session is None:
            self.change("INSERT INTO found (found) VALUES ('delete-all')")
            self.change("DELETE FROM words")
            return
        rows = self.rows("SELECT n, text FROM words WHERE session = ?", (session,))
        words = [(n, " ".join(tokenize(text))) for n, text in rows]
        self.insert("INSERT INTO found (found, rowid, text) VALUES ('delete', ?, ?)", words)
        self.change("DELETE FROM words WHERE session = ?", (session,))

    def search(self, words: str, limit: int) -> list[tuple[str, int, str]]:
        """Find texts with all the words. SQLite's own snippets take long where a word occurs often: ours is made here."""
        wanted = tokenize(words)
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
        with translating_errors(Path(to)):
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

    def detach(self) -> None:
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
        with translating_errors(self._path):
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


def sibling(path: Path, ending: str) -> Path:
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


_WRITING = (
    "PRAGMA synchronous=FULL",
    "PRAGMA fullfsync=1",  # macOS: a disk's own cache is no disk
    "PRAGMA checkpoint_fullfsync=1",
    "PRAGMA wal_autocheckpoint=0",
    "PRAGMA trusted_schema=0",
)


class SqliteEngine:
    """A SQLite file and the locks beside it.

    `connect` is called as `sqlite3.connect` is and gives a connection like its own: `execute`, `executemany`, `close`,
    `cursor`, the last with `execute` and `close` of its own; its errors are `sqlite3.Error`s that carry
    `sqlite_errorname`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        connect: Callable[..., sqlite3.Connection] = sqlite3.connect,
    ) -> None:
        self.name = f"SQLite {sqlite3.sqlite_version}"
        self._path = Path(os.path.realpath(path))  # one set of locks and logs, whatever links lead to the file
        self._connect = connect
        self._locks = Locks(sibling(self._path, ".locks"))

    @property
    def locks(self) -> bool:
        """Whether a session can be locked here."""
        return self._locks.real

    @property
    def place(self) -> str:
        """The name of the folder of locks."""
        return self._locks.place

    def hold(self, session: str) -> FileLock | None:
        """Take the lock on a session."""
        return self._locks.hold(session)

    def open(self, *, write: bool) -> Driver:
        """Open the file; make it if there is none."""
        if not self._is_there():
            self._make()
        if write:
            return SqliteDriver(self._writer, self._path)
        return SqliteDriver(self._reader, self._path)

    # --- the file ---

    def _is_there(self) -> bool:
        with translating_errors(self._path):
            try:
                found = self._path.stat()
            except FileNotFoundError:
                return False
        if stat.S_ISDIR(found.st_mode):
            raise StoreError(f"{str(self._path)!r} is a folder: name a file in it")
        if not stat.S_ISREG(found.st_mode):
            raise StoreError(f"{str(self._path)!r} is not a regular file: name another file")
        if not found.st_size:
            raise StoreError(
                f"{str(self._path)!r} is empty: a store never is. If nothing was in it, remove it and it is made anew; "
                "if there were sessions in it, fetch it from a backup"
            )
        return True

    def _make(self) -> None:
        """Create the file under another name, then rename it. Processes that find the file meanwhile wait no longer."""
        new = sibling(self._path, ".new")
        guard = Guard(sibling(self._path, ".lock"))
        with translating_errors(self._path):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                wait_for(lambda: self._path.exists() or guard.alone(), self._path)
                if self._path.exists():  # another process created it
                    return
                _remove_logs(self._path)  # of a file that was deleted: SQLite would apply them to the new one
                _create_empty(new)
                self._fill(new)
                _put(new, self._path)
            finally:
                guard.leave()

    def _fill(self, path: Path) -> None:
        db = self._connected(path, "mode=rw")
        try:
            _prepare(db, write=True)
            db.execute(f"PRAGMA application_id={APPLICATION}")
            driver = SqliteDriver(lambda: db, path, guarded=False)
            try:
                driver.begin(write=True)
                create_tables(driver, "sqlite")
                db.execute(f"PRAGMA user_version={VERSION}")
                driver.commit()
            finally:
                driver.rollback()
                driver.detach()
        finally:
            db.close()

    def restore(self, backup: Path) -> None:
        """Replace the file by a copy of a backup. No process can write meanwhile; open stores notice the new file.

        Raise `StoreError` if the backup is no store of this version, `StoreCorrupt` if it is damaged; the store is not
        changed then.
        """
        new = sibling(self._path, ".restore")
        guard = Guard(sibling(self._path, ".lock"))
        with translating_errors(self._path):
            if self._path.exists() and not stat.S_ISREG(self._path.stat().st_mode):
                raise StoreError(f"{str(self._path)!r} is not a regular file: name another file")
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                wait_for(guard.alone, self._path)
                _create_empty(new)
                self._copy_backup(backup, new)
                _remove_logs(self._path)  # before the rename: SQLite would apply them to the new file
                new.replace(self._path)
                _sync_directory(self._path)
            finally:
                _remove(new)
                guard.leave()

    def _copy_backup(self, backup: Path, new: Path) -> None:
        """Copy a backup and check it. Leases in it are lost: their holders get `LeaseLost`."""
        source = SqliteEngine(backup, self._connect)
        if not source._is_there():
            raise StoreError(f"{str(backup)!r} does not exist: name a backup")
        driver = SqliteDriver(source._reader, source._path)
        try:
            problems = driver.check()
            if problems:
                raise StoreCorrupt(f"{str(backup)!r} is damaged and was not restored: {problems[0]}")
            new.unlink()
            driver.backup(str(new))
        finally:
            driver.close()
        db = self._connected(new, "mode=rw")
        try:
            _prepare(db, write=True)
            db.execute(
                "UPDATE sessions SET fence = fence + 1, until = 0, owner = '', pid = 0, host = '', lock_dir_id = ''"
            )
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            db.close()

    # --- connections ---

    def _writer(self) -> sqlite3.Connection:
        with translating_errors(self._path):
            db = self._connected(self._path, "mode=rw")
            try:
                self._check(db)
                _prepare(db, write=True)
            except BaseException:
                db.close()
                raise
        return db

    def _reader(self) -> sqlite3.Connection:
        """Where nothing can be written, the log cannot be used, and the file is read as it is if there is no log."""
        try:
            return self._reading("mode=rw")
        except sqlite3.Error as exc:
            if not name_of(exc).startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
                raise translate_error(self._path, exc) from exc
        log = sibling(self._path, "-wal")
        if log.exists() and log.stat().st_size:
            raise StoreError(
                f"{str(self._path)!r} cannot be read where it is: its newest entries are in {str(log)!r}, which needs a "
                "folder that can be written. Copy both files to one"
            )
        with translating_errors(self._path):
            return self._reading("mode=ro&immutable=1")

    def _reading(self, how: str) -> sqlite3.Connection:
        db = self._connected(self._path, how)
        try:
            self._check(db)
            _prepare(db, write=False)
        except BaseException:
            db.close()
            raise
        return db

    def _connected(self, path: Path, how: str) -> sqlite3.Connection:
        return self._connect(
            f"{path.as_uri()}?{how}", uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False
        )

    def _check(self, db: sqlite3.Connection) -> None:
        """Raise `StoreError` unless this is a store of this version."""
        what = repr(str(self._path))
        [[application]] = db.execute("PRAGMA application_id").fetchall()
        if application != APPLICATION:
            raise StoreError(f"{what} is a database of another program; name another file. Nothing was changed")
        [[version]] = db.execute("PRAGMA user_version").fetchall()
        if version != VERSION:
            raise version_error(what, version)
        if db.execute("SELECT value FROM meta WHERE key = 'store'").fetchall() != [(MARKER,)]:
            raise StoreCorrupt(f"{what} says that it is a store of tenuto and does not look like one; fetch a backup")


# --- small things -----------------------------------------------------------------------------------------------------


def _prepare(db: sqlite3.Connection, *, write: bool) -> None:
    if not write:
        db.execute("PRAGMA query_only=1")
        return
    if db.execute("PRAGMA journal_mode").fetchall() != [("wal",)]:  # a backup comes without
        db.execute("PRAGMA journal_mode=WAL").fetchall()
    for pragma in _WRITING:
        db.execute(pragma).fetchall()


def _put(new: Path, path: Path) -> None:
    """Give a file its name, unless something has it; and wait until the disk knows."""
    try:
        os.link(new, path)
        new.unlink()
    except FileExistsError:
        raise
    except OSError:  # a file system without links; nobody of ours is here, since we have the lock
        new.rename(path)
    _sync_directory(path)


def _create_empty(path: Path) -> None:
    _remove(path)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    _remove_logs(path)


def _remove_logs(path: Path) -> None:
    for ending in ("-wal", "-shm", "-journal"):
        sibling(path, ending).unlink(missing_ok=True)


def _sync_directory(path: Path) -> None:
    with suppress(OSError):  # a directory cannot be opened everywhere
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
