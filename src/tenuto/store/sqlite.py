"""The SQLite database of a store: one file, not on a network directory (NFS, SMB), because its users share memory.

It is in WAL mode and every commit waits for the disk (`synchronous=FULL`): acknowledged entries survive a power
failure. It is created under another name and then renamed, so that it is never incomplete. A file that is not a store
is not changed.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from tenuto.errors import StoreCorrupt, StoreError
from tenuto.store import schema
from tenuto.store.driver import Arg, Driver, tokenize
from tenuto.store.locks import FileLock, Locks, rename_new

PATIENCE = 10.0  # the number of seconds to wait for other writers
_NOT_WRITABLE = "the file or its directory cannot be written: change their permissions, or choose another file"
_MEANINGS = {
    "FULL": "the disk is full; nothing was written: free some space and try again",
    "IOERR": "the disk reports an error, or a quota is used up: check that the last entries are there before you continue",
    "CORRUPT": (
        "the file is damaged, or it was replaced while its -wal file was left next to it: copy both away, then restore a "
        "backup with `tenuto store restore BACKUP`, or try `sqlite3 FILE .recover`"
    ),
    "NOTADB": (
        "the file is not a SQLite database, or its start is damaged; nothing was changed: choose another file, or restore a "
        "backup"
    ),
    "READONLY": _NOT_WRITABLE,
    "PERM": _NOT_WRITABLE,
    "CANTOPEN": "the file cannot be opened: check its permissions, and whether its directory can be written",
    "BUSY": (
        f"the store is saturated: other processes wrote without a pause for {PATIENCE:.0f} s; nothing was written: try again, "
        "or let fewer processes write to one file"
    ),
    "CONSTRAINT": "this name or number already exists",
    "TOOBIG": "a value is larger than SQLite can store (1 GB)",
}
ERRORS = (sqlite3.Error, UnicodeEncodeError, OverflowError)
"""The errors of a statement; the last two are for an unpaired surrogate and a number of more than 64 bits."""
_TURN_PAUSE, _LOCK_PAUSE = 0.002, 0.005  # seconds between two attempts to begin a transaction, and to get a file lock
_LOG_BYTES = 4 * 1024 * 1024  # a log of this length is copied into the file
_SEARCH = """
SELECT words.session, words.seq, words.text FROM found JOIN words ON words.n = found.rowid
WHERE found MATCH ? AND (? OR words.session IN (SELECT id FROM sessions WHERE agent = ?)) ORDER BY found.rank, words.n LIMIT ?
"""
_PRAGMAS = (
    "PRAGMA synchronous=FULL",
    "PRAGMA fullfsync=1",  # macOS: fsync alone leaves data in the cache of the disk
    "PRAGMA checkpoint_fullfsync=1",
    "PRAGMA wal_autocheckpoint=0",
    "PRAGMA trusted_schema=0",
)


def _error_name(exc: Exception) -> str:
    return str(getattr(exc, "sqlite_errorname", "") or "")


def translate_error(path: Path, exc: Exception) -> StoreError:
    """Return the error of the store for an error of SQLite: what it means and what to do."""
    name = _error_name(exc).removeprefix("SQLITE_").split("_")[0]
    if name == "NOTADB" and (error := _export_error(path)):
        return error
    kind = StoreCorrupt if name in ("CORRUPT", "NOTADB") else StoreError
    meaning = _MEANINGS.get(name)
    return kind(f"{str(path)!r}: {meaning} ({exc})" if meaning else f"{str(path)!r}: {exc}")


def _export_error(path: Path) -> StoreError | None:
    """Return the error for an exported session that is used as a store; None for any other file."""
    try:
        with path.open("rb") as file:
            head = json.loads(file.readline(4096))
        version = head["format"] if head["tenuto"] == "session" else None
    except (OSError, ValueError, LookupError, TypeError):
        return None
    if type(version) is not int:
        return None
    if version != schema.EXPORT_FORMAT:
        return StoreError(f"{str(path)!r}: {schema.export_version_error(version)}")
    return StoreError(f"{str(path)!r} is an exported session, not a store: import it with `tenuto import {path}`")


@contextmanager
def translating_errors(path: Path) -> Iterator[None]:
    """Translate the errors of SQLite and of the file system that concern the file `path`."""
    try:
        yield
    except ERRORS as exc:
        raise translate_error(path, exc) from exc
    except FileExistsError as exc:
        raise StoreError(f"{str(path)!r} already exists and is not overwritten: choose another file") from exc
    except OSError as exc:
        raise StoreError(f"{str(path)!r} cannot be used: {exc.strerror or exc}; choose another file") from exc


class SqliteDriver:
    """One connection to the file, for one thread."""

    def __init__(self, open: Callable[[], sqlite3.Connection], path: Path, *, guarded: bool = True) -> None:
        self._open = open
        self._path = path
        self._guard = FileLock(sibling(path, ".lock") if guarded else None)
        """Shared by writers; a checkpoint has it alone, so that they never run at the same time."""
        self._log = sibling(path, "-wal")
        self._db: sqlite3.Connection | None = None
        self._sqlite_waits = True
        self._has_savepoint = False
        self._wrote = False
        self._next_checkpoint = 0
        self.now = 0
        self._connect()

    def begin(self, *, write: bool) -> None:
        """Begin a transaction; connect again if the connection is broken or the file was replaced. Short waits give
        every process its turn: SQLite waits up to 0.1 s between two attempts.
        """
        try:
            if write and not self._guard.lock(exclusive=False):
                _wait_for(lambda: self._guard.lock(exclusive=False), self._path)
            if self._db is not None and _stat(self._path)[0] != self._file:
                self._disconnect(self._db)
            if self._db is None:
                self._connect()
            self._wrote = self._wrote or write
            if write and self._sqlite_waits:
                self._run("PRAGMA busy_timeout=0")
                self._sqlite_waits = False
            until = time.monotonic() + PATIENCE
            while True:
                try:
                    self._run("BEGIN IMMEDIATE" if write else "BEGIN")
                    break
                except sqlite3.OperationalError as exc:
                    if not _error_name(exc).startswith("SQLITE_BUSY") or time.monotonic() > until:
                        raise
                time.sleep(_TURN_PAUSE)
        except StoreError:
            self._guard.unlock()
            raise
        except (sqlite3.Error, OSError) as exc:
            self._guard.unlock()
            raise translate_error(self._path, exc) from exc
        self.now = time.time_ns() // 1_000_000

    def commit(self) -> None:
        self._has_savepoint = False
        try:
            self._run("COMMIT")
        except sqlite3.Error as exc:
            self._wrote = False  # no checkpoint on a disk that fails
            raise translate_error(self._path, exc) from exc
        self._guard.unlock()

    def rollback(self) -> None:
        self._has_savepoint = False
        if self._db is not None:
            try:
                self._run("ROLLBACK")
            except sqlite3.Error as exc:
                if _error_name(exc) != "SQLITE_ERROR":  # SQLITE_ERROR: no transaction is open
                    self._disconnect(self._db)
        self._guard.unlock()

    def savepoint(self) -> None:
        with translating_errors(self._path):
            if self._has_savepoint:
                self._run("RELEASE mark")
            self._run("SAVEPOINT mark")
        self._has_savepoint = True

    def rollback_to(self) -> None:
        with translating_errors(self._path):
            self._run("ROLLBACK TO mark")

    def rows(self, sql: str, args: Sequence[Arg] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._run(sql, args).fetchall()
        except ERRORS as exc:
            raise translate_error(self._path, exc) from exc

    def change(self, sql: str, args: Sequence[Arg] = ()) -> int:
        try:
            return self._run(sql, args).rowcount
        except ERRORS as exc:
            raise translate_error(self._path, exc) from exc

    def insert(self, sql: str, rows: Iterable[Sequence[Arg]]) -> int:
        assert self._db is not None
        try:
            return max(self._db.executemany(sql, rows).rowcount, 0)
        except ERRORS as exc:
            raise translate_error(self._path, exc) from exc

    def index(self, rows: Iterable[tuple[str, int, str]]) -> None:
        [[last]] = self.rows("SELECT coalesce(max(n), 0) FROM words")
        numbered = list(enumerate(rows, last + 1))
        self.insert("INSERT INTO words (n, session, seq, text) VALUES (?, ?, ?, ?)", [(n, *row) for n, row in numbered])
        words = [(n, " ".join(tokenize(text))) for n, (_, _, text) in numbered]
        self.insert("INSERT INTO found (rowid, text) VALUES (?, ?)", words)

    def unindex(self, session: str | None) -> None:
        if session is None:
            self.change("INSERT INTO found (found) VALUES ('delete-all')")
            self.change("DELETE FROM words")
            return
        rows = self.rows("SELECT n, text FROM words WHERE session = ?", (session,))
        words = [(n, " ".join(tokenize(text))) for n, text in rows]
        self.insert("INSERT INTO found (found, rowid, text) VALUES ('delete', ?, ?)", words)
        self.change("DELETE FROM words WHERE session = ?", (session,))

    def search(self, words: list[str], limit: int, agent: str | None = None) -> list[tuple[str, int, str]]:
        query = " ".join(f'"{word}"' for word in dict.fromkeys(words))
        return self.rows(_SEARCH, (query, int(agent is None), agent or "", limit))

    def check(self) -> list[str]:
        return [str(problem) for (problem,) in self.rows("PRAGMA integrity_check(20)") if problem != "ok"]

    def size(self) -> int:
        [[pages]], [[size]] = self.rows("PRAGMA page_count"), self.rows("PRAGMA page_size")
        return int(pages * size)

    def backup(self, to: str) -> None:
        """Copy the database to a file that must not exist, readable by its owner only."""
        path = Path(to)
        [[query_only]] = self.rows("PRAGMA query_only")
        with translating_errors(path):
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            try:
                self._run("PRAGMA query_only=0")  # otherwise SQLite does not write the copy
                self._run("VACUUM INTO ?", (to,))
                os.fsync(file)
            except BaseException:
                path.unlink()
                raise
            finally:
                self._run(f"PRAGMA query_only={query_only}")
                os.close(file)

    def checkpoint(self) -> None:
        """Copy the log into the file and empty it, if it is long and no process writes."""
        size = _stat(self._log)[1]
        if size < max(_LOG_BYTES, self._next_checkpoint):
            return
        # If a process writes, or reads an older state, try again when the log has grown further.
        self._next_checkpoint = 0 if self._checkpoint() else size + _LOG_BYTES // 4

    def close(self) -> None:
        """Copy the log if that is possible now, and close."""
        db = self._db
        if db is not None:
            if self._wrote:
                with suppress(StoreError):
                    self._checkpoint()
            self._disconnect(db)
        self._guard.close()

    def _connect(self) -> None:
        """Connect. One cursor runs all statements: `Connection.execute` would create one for each."""
        while True:
            before = _stat(self._path)[0]
            db = self._open()
            self._file = _stat(self._path)[0]
            if self._file == before:
                break
            db.close()  # the file was replaced meanwhile
        self._db = db
        self._cursor = db.cursor()
        self._sqlite_waits = True
        self._run: Callable[..., sqlite3.Cursor] = self._cursor.execute

    def _checkpoint(self) -> bool:
        """Copy the log and empty it, if no process writes; return whether all of it was copied."""
        with translating_errors(self._path):
            if not self._guard.lock(exclusive=True):
                return False
            try:
                self._run("PRAGMA busy_timeout=0")  # do not wait for readers
                self._sqlite_waits = False
                [[busy, _, _]] = self._run("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                self._guard.unlock()
        return not busy

    def _disconnect(self, db: sqlite3.Connection) -> None:
        self._db = None
        with suppress(sqlite3.Error):
            self._cursor.close()  # its last statement would keep the file open
        with suppress(sqlite3.Error):
            db.close()


class SqliteEngine:
    """A SQLite file and the locks next to it.

    `connect` is called like `sqlite3.connect` and returns a connection with `execute`, `executemany`, `cursor` and `close`; its
    errors are `sqlite3.Error`s with `sqlite_errorname`.
    """

    def __init__(
        self, path: str | os.PathLike[str], connect: Callable[..., sqlite3.Connection] = sqlite3.connect
    ) -> None:
        self.name = f"SQLite {sqlite3.sqlite_version}"
        self._path = Path(os.path.realpath(path))  # all links to the file share its locks and its log
        self._connect = connect
        self.locks = Locks(sibling(self._path, ".locks"))

    def open(self, *, write: bool) -> Driver:
        if not self._exists():
            self._create()
        return SqliteDriver(partial(self._open_connection, write=write), self._path)

    def _exists(self) -> bool:
        """Return whether the file exists. Raise `StoreError` if it cannot be a store."""
        with translating_errors(self._path):
            try:
                status = self._path.stat()
            except FileNotFoundError:
                return False
        if stat.S_ISDIR(status.st_mode):
            raise StoreError(f"{str(self._path)!r} is a directory: use the name of a file in it")
        if not stat.S_ISREG(status.st_mode):
            raise StoreError(f"{str(self._path)!r} is not a regular file: choose another file")
        if not status.st_size:
            raise StoreError(
                f"{str(self._path)!r} is empty, which a store never is: if it had no sessions, remove it, and a new one is "
                "created; if it had sessions, restore a backup"
            )
        return True

    def _create(self) -> None:
        """Create the file under another name, then rename it. Processes that find the file meanwhile wait no longer."""
        new = sibling(self._path, ".new")
        guard = FileLock(sibling(self._path, ".lock"))
        with translating_errors(self._path):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                _wait_for(lambda: self._path.exists() or guard.lock(exclusive=True), self._path)
                if self._path.exists():  # another process created it
                    return
                _remove_logs(self._path)  # of a file that was deleted: SQLite would apply them to the new one
                _create_empty(new)
                self._create_tables(new)
                rename_new(new, self._path)
                _sync_directory(self._path)
            finally:
                guard.close()

    def _create_tables(self, path: Path) -> None:
        db = self._connect_to(path, "mode=rw")
        with closing(SqliteDriver(lambda: db, path, guarded=False)) as driver:
            _configure(db, write=True)
            create_store(db, driver)

    def restore(self, backup: Path) -> None:
        """Replace the file by a copy of a backup. No process can write meanwhile; open stores notice the new file.

        Raise `StoreError` if the backup is not a store of this version, `StoreCorrupt` if it is damaged; the store is not
        changed then.
        """
        new = sibling(self._path, ".restore")
        guard = FileLock(sibling(self._path, ".lock"))
        with translating_errors(self._path):
            if self._path.exists() and not stat.S_ISREG(self._path.stat().st_mode):
                raise StoreError(f"{str(self._path)!r} is not a regular file: choose another file")
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                _wait_for(lambda: guard.lock(exclusive=True), self._path)
                _create_empty(new)
                self._copy_backup(backup, new)
                _remove_logs(self._path)  # before the rename: SQLite would apply them to the new file
                new.replace(self._path)
                _sync_directory(self._path)
            finally:
                _remove(new)
                guard.close()

    def _copy_backup(self, backup: Path, new: Path) -> None:
        """Copy a backup and check it. Leases in it are lost: their holders get `LeaseLost`."""
        source = SqliteEngine(backup, self._connect)
        if not source._exists():
            raise StoreError(f"{str(backup)!r} does not exist: use the file of a backup")
        with closing(SqliteDriver(partial(source._open_connection, write=False), source._path)) as driver:
            problems = driver.check()
            if problems:
                raise StoreCorrupt(f"{str(backup)!r} is damaged and was not restored: {problems[0]}")
            new.unlink()
            driver.backup(str(new))
        with closing(self._connect_to(new, "mode=rw")) as db:
            _configure(db, write=True)
            db.execute(
                "UPDATE sessions SET fence = fence + 1, until = 0, owner = '', pid = 0, host = '', lock_dir_id = ''"
            )
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _open_connection(self, *, write: bool) -> sqlite3.Connection:
        """Open the file. In a read-only directory it can be read, but not its log: then there must be none."""
        try:
            return self._open_checked("mode=rw", write=write)
        except sqlite3.Error as exc:
            if write or not _error_name(exc).startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
                raise translate_error(self._path, exc) from exc
        log = sibling(self._path, "-wal")
        if _stat(log)[1]:
            raise StoreError(
                f"{str(self._path)!r} cannot be read in a read-only directory, because its newest entries are in {str(log)!r}: "
                "copy both files to a directory that can be written"
            )
        with translating_errors(self._path):
            return self._open_checked("mode=ro&immutable=1", write=False)

    def _open_checked(self, mode: str, *, write: bool) -> sqlite3.Connection:
        """Connect. Raise `StoreError` unless the file is a store of this version."""
        db = self._connect_to(self._path, mode)
        try:
            location = repr(str(self._path))
            [[application]] = db.execute("PRAGMA application_id").fetchall()
            if application != schema.APPLICATION:
                raise StoreError(
                    f"{location} is a database of another program; nothing was changed: choose another file"
                )
            [[version]] = db.execute("PRAGMA user_version").fetchall()
            if version != schema.VERSION:
                raise schema.version_error(location, version)
            if db.execute("SELECT value FROM meta WHERE key = 'store'").fetchall() != [(schema.MARKER,)]:
                raise StoreCorrupt(
                    f"{location} is marked as a store of tenuto, but has other content: restore a backup"
                )
            _configure(db, write=write)
        except BaseException:
            db.close()
            raise
        return db

    def _connect_to(self, path: Path, mode: str) -> sqlite3.Connection:
        return self._connect(
            f"{path.as_uri()}?{mode}", uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False
        )


def create_store(db: sqlite3.Connection, driver: SqliteDriver) -> None:
    """Create the tables of a new database, and mark it as a store."""
    db.execute(f"PRAGMA application_id={schema.APPLICATION}")
    driver.begin(write=True)
    schema.create_tables(driver, "sqlite")
    db.execute(f"PRAGMA user_version={schema.VERSION}")
    driver.commit()


def _configure(db: sqlite3.Connection, *, write: bool) -> None:
    if not write:
        db.execute("PRAGMA query_only=1")
        return
    if db.execute("PRAGMA journal_mode").fetchall() != [("wal",)]:  # a backup is not in WAL mode
        db.execute("PRAGMA journal_mode=WAL").fetchall()
    for pragma in _PRAGMAS:
        db.execute(pragma).fetchall()


# --- files ------------------------------------------------------------------------------------------------------------


def sibling(path: Path, suffix: str) -> Path:
    """Return the path next to another whose name has a suffix."""
    return path.with_name(path.name + suffix)


def _stat(path: Path) -> tuple[tuple[int, int], int]:
    """Return the device and inode of a file, and its size; zeros if it does not exist."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return (0, 0), 0
    return (status.st_dev, status.st_ino), status.st_size


def _wait_for(lock: Callable[[], bool], path: Path) -> None:
    """Call `lock` until it succeeds. Raise `StoreError` if that takes too long."""
    until = time.monotonic() + PATIENCE
    while not lock():
        if time.monotonic() > until:
            raise StoreError(f"{str(path)!r} was busy for {PATIENCE:.0f} s, because another process uses it: try again")
        time.sleep(_LOCK_PAUSE)


def _create_empty(path: Path) -> None:
    _remove(path)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    _remove_logs(path)


def _remove_logs(path: Path) -> None:
    for suffix in ("-wal", "-shm", "-journal"):
        sibling(path, suffix).unlink(missing_ok=True)


def _sync_directory(path: Path) -> None:
    with suppress(OSError):  # Windows cannot open a directory
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
