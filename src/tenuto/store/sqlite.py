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
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tenuto.errors import StoreCorrupt, StoreError
from tenuto.store.driver import Driver, Held
from tenuto.store.locks import Guard, Locks
from tenuto.store.schema import APPLICATION, MARKER, VERSION, create_tables, version_error
from tenuto.store.sqlite_driver import SqliteDriver, beside, wait_for
from tenuto.store.sqlite_errors import PATIENCE, name_of, said, spoken

__all__ = ["SqliteEngine"]

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
        self._locks = Locks(beside(self._path, ".locks"))

    @property
    def locks(self) -> bool:
        """Whether a session can be locked here."""
        return self._locks.real

    @property
    def place(self) -> str:
        """The name of the folder of locks."""
        return self._locks.place

    def hold(self, session: str) -> Held | None:
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
        with spoken(self._path):
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
        new = beside(self._path, ".new")
        guard = Guard(beside(self._path, ".lock"))
        with spoken(self._path):
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
                driver.part()
        finally:
            db.close()

    def restore(self, backup: Path) -> None:
        """Replace the file by a copy of a backup. No process can write meanwhile; open stores notice the new file.

        Raise `StoreError` if the backup is no store of this version, `StoreCorrupt` if it is damaged; the store is not
        changed then.
        """
        new = beside(self._path, ".restore")
        guard = Guard(beside(self._path, ".lock"))
        with spoken(self._path):
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
        with spoken(self._path):
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
                raise said(self._path, exc) from exc
        log = beside(self._path, "-wal")
        if log.exists() and log.stat().st_size:
            raise StoreError(
                f"{str(self._path)!r} cannot be read where it is: its newest entries are in {str(log)!r}, which needs a "
                "folder that can be written. Copy both files to one"
            )
        with spoken(self._path):
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
        beside(path, ending).unlink(missing_ok=True)


def _sync_directory(path: Path) -> None:
    with suppress(OSError):  # a directory cannot be opened everywhere
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
