"""Sessions in one SQLite file, through the standard library.

The file is in WAL mode and every commit waits for the disk (`synchronous=FULL`): what was acknowledged survives a killed
process, a crash of the system and a loss of power. It is made whole under another name and then put in its place, so that
a file at that place is either ours or not ours, and never half made. Whatever else is found there is left as it is.

SQLite before 3.51.3 can damage a file when one connection begins its log anew while another copies the log into the file.
So nothing is copied by itself: writers share the lock on `<file>.lock` for as long as a transaction lasts, and the log is
copied (`settle`) only by who has that lock alone. Who writes next begins it anew, having the lock with other writers: so
the two cannot happen at one moment, in whatever process.

A network folder (NFS, SMB) is no place for such a file: the log needs memory that all of its users share.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tenuto.errors import StoreCorrupt, StoreError
from tenuto.store import sqlite_log
from tenuto.store.driver import Arg, Driver, Held
from tenuto.store.locks import Guard, Locks
from tenuto.store.schema import APPLICATION, ENTRY, HELD, MARKER, bring_up, newer, steps_for
from tenuto.store.sqlite_errors import ERRORS, PATIENCE, name_of, said, spoken
from tenuto.store.sqlite_log import full_at, make_room
from tenuto.store.words import snippet_of, words_in

__all__ = ["SqliteDriver", "SqliteEngine"]

_PAUSE = 0.005
_LOG_BYTES = 4 * 1024 * 1024
"""A log that is as long as this and nearly full is copied into the file, and then written anew from its beginning. It is
not cut off: to write over what is there costs far less than to make a file longer. A shorter one is made longer beforehand.
"""
_LOG_MOST = _LOG_BYTES * 5 // 4
"""One that became longer is cut off there when it is written anew."""
_WRITING = (
    "PRAGMA synchronous=FULL",
    "PRAGMA fullfsync=1",  # macOS: a disk's own cache is no disk
    "PRAGMA checkpoint_fullfsync=1",
    "PRAGMA wal_autocheckpoint=0",
    f"PRAGMA journal_size_limit={_LOG_MOST}",
    "PRAGMA trusted_schema=0",
)
_ADD = "INSERT OR IGNORE INTO {into} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT ? {condition}))"
_ADD = _ADD.replace("{into}", ENTRY).replace("{condition}", HELD)
"""Without its condition an entry would have no number, which it needs: so it is ignored. To select all of it instead would
have SQLite put it down elsewhere before.
"""
_FIND = """
SELECT words.session, words.seq, words.text FROM found JOIN words ON words.n = found.rowid
WHERE found MATCH ? ORDER BY found.rank, words.n LIMIT ?
"""


class SqliteEngine:
    """A SQLite file and the locks beside it.

    `connect` is called as `sqlite3.connect` is and gives a connection like its own: `execute`, `executemany`, `close`,
    `cursor`, the last with `execute` and `close` of its own; its errors are `sqlite3.Error`s that carry
    `sqlite_errorname`. `steps` are the steps of the schema.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        connect: Callable[..., sqlite3.Connection] = sqlite3.connect,
        *,
        steps: tuple[tuple[str, ...], ...] | None = None,
    ) -> None:
        self.name = f"SQLite {sqlite3.sqlite_version}"
        self._path = Path(path).absolute()
        self._connect = connect
        self._steps = steps_for("sqlite") if steps is None else steps
        self._locks = Locks(_beside(self._path, ".locks"))

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
        if self._path.is_dir():
            raise StoreError(f"{str(self._path)!r} is a folder: name a file in it")
        if not found.st_size:
            raise StoreError(
                f"{str(self._path)!r} is empty: a store never is. If nothing was in it, remove it and it is made anew; "
                "if there were sessions in it, fetch it from a backup"
            )
        return True

    def _make(self) -> None:
        """Make the file under another name, whole, and put it in its place."""
        new = _beside(self._path, ".new")
        guard = Guard(_beside(self._path, ".lock"))
        with spoken(self._path):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                _wait_for(guard.alone, self._path)
                if self._path.exists():  # somebody else made it while we waited
                    return
                for left in ("", "-wal", "-shm", "-journal"):
                    _beside(new, left).unlink(missing_ok=True)
                os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                self._fill(new)
                _put(new, self._path)
            finally:
                guard.leave()

    def _fill(self, path: Path) -> None:
        db = self._connected(path, "mode=rw")
        try:
            _prepare(db, write=True)
            db.execute(f"PRAGMA application_id={APPLICATION}")
            self._upgrade(db, SqliteDriver(lambda: db, path, guarded=False), 0)
        finally:
            db.close()

    def _upgrade(self, db: sqlite3.Connection, driver: SqliteDriver, found: int) -> None:
        """Bring the schema up to date, in one transaction with the record of it."""
        driver.begin(write=True)
        try:
            if _version(db) == found:  # else somebody else did it while we waited
                bring_up(driver, found, self._steps)
                db.execute(f"PRAGMA user_version={len(self._steps)}")
            driver.commit()
        finally:
            driver.rollback()
            driver.part()

    def _keep_a_copy(self, db: sqlite3.Connection, found: int) -> None:
        copy = _beside(self._path, f".schema-{found}")
        if not copy.exists():
            _copied(db, copy)

    # --- connections ---

    def _writer(self) -> sqlite3.Connection:
        with spoken(self._path):
            db = self._connected(self._path, "mode=rw")
            try:
                found = self._checked(db)
                _prepare(db, write=True)
                if found < len(self._steps):
                    self._keep_a_copy(db, found)
                    self._upgrade(db, SqliteDriver(lambda: db, self._path), found)
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
        log = _beside(self._path, "-wal")
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
            found = self._checked(db)
            _prepare(db, write=False)
        except BaseException:
            db.close()
            raise
        if found < len(self._steps):
            db.close()
            self._writer().close()  # brings it up to date
            return self._reading(how)
        return db

    def _connected(self, path: Path, how: str) -> sqlite3.Connection:
        return self._connect(
            f"{path.as_uri()}?{how}", uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False
        )

    def _checked(self, db: sqlite3.Connection) -> int:
        """Make sure that this is a store of ours that we can read; return the version of its schema."""
        what = repr(str(self._path))
        [[application]] = db.execute("PRAGMA application_id").fetchall()
        if application != APPLICATION:
            raise StoreError(f"{what} is a database of another program; name another file. Nothing was changed")
        found = _version(db)
        if found > len(self._steps):
            raise newer(what, found, len(self._steps))
        if db.execute("SELECT value FROM meta WHERE key = 'store'").fetchall() != [(MARKER,)]:
            raise StoreCorrupt(f"{what} says that it is a store of tenuto and does not look like one; fetch a backup")
        return found


class SqliteDriver:
    """One connection to the file, for one thread."""

    def __init__(self, open: Callable[[], sqlite3.Connection], path: Path, *, guarded: bool = True) -> None:
        self._open = open
        self._path = path
        self._guard = Guard(_beside(path, ".lock") if guarded else None)
        self._log = _beside(path, "-wal")
        self._db: sqlite3.Connection | None = None
        self._connect()
        self._marked = False
        self._wrote = False
        self._short = guarded  # who makes a file writes little
        self.single = False
        self._held_up = 0

    def begin(self, *, write: bool) -> None:
        """Begin a transaction; a connection that broke is replaced."""
        if self._db is None:
            self._connect()
        try:
            if not write:
                self._run("BEGIN")
                return
            if not self._guard.share():
                _wait_for(self._guard.share, self._path)
            self._wrote = True
            self._run("BEGIN IMMEDIATE")
            if self._short:
                self._short = False
                make_room(self._log, _LOG_BYTES)
        except (sqlite3.Error, OSError) as exc:
            self._guard.free()
            raise said(self._path, exc) from exc

    def begin_one(self) -> None:
        """Begin what may be one statement: that is a transaction by itself, which needs neither its beginning nor its end
        said. Where there is more to be seen to, begin one with both.
        """
        if self._db is None or self._short or not self._guard.share():
            self.begin(write=True)
        else:
            self._wrote = self.single = True

    def commit(self) -> None:
        """End it; what was written is on the disk."""
        if self.single:
            self.single = False
            self._guard.free()
            return
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
        if self.single:
            self.single = False
        elif self._db is not None:
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

    def add(self, args: Sequence[Arg]) -> bool:
        """Insert an entry, if its session is what the caller takes it for; tell whether that was so."""
        try:
            return self._run(_ADD, args).rowcount == 1
        except ERRORS as exc:
            if self.single:
                self._wrote = False  # as after a commit that failed
            raise said(self._path, exc) from exc

    def insert(self, sql: str, rows: Iterable[Sequence[Arg]]) -> None:
        """Insert several rows."""
        assert self._db is not None
        with spoken(self._path):
            self._db.executemany(sql, rows)

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
                _copied(self._db, Path(to))
            finally:
                self._run(f"PRAGMA query_only={only}")

    def settle(self) -> None:
        """When the log is nearly full: let who writes next make it longer, or copy it into the file, if nobody writes."""
        size = full_at(self._log)
        if size is None or size < self._held_up:
            return
        if size + sqlite_log.STEP <= _LOG_BYTES:
            self._short = True
        elif self._checkpoint("RESTART"):
            self._held_up = 0
        else:  # somebody writes, or reads and keeps it from being written anew: it may grow on for a while
            self._held_up = size + _LOG_BYTES // 4

    def close(self) -> None:
        """Copy the log if that can be done now, and close."""
        db = self._db
        if db is not None:
            if self._wrote:
                with suppress(StoreError):
                    self._checkpoint("TRUNCATE")
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
        self._db = self._open()
        self._cursor = self._db.cursor()
        self._run = self._cursor.execute

    def _checkpoint(self, how: str) -> bool:
        """Copy the log, if nobody writes; tell whether all of it was copied, and the next to write begins it anew."""
        with spoken(self._path):
            if not self._guard.alone():
                return False
            try:
                self._run("PRAGMA busy_timeout=0")  # who reads is not waited for
                [[busy, _, _]] = self._run(f"PRAGMA wal_checkpoint({how})").fetchall()
                self._run(f"PRAGMA busy_timeout={int(PATIENCE * 1000)}")
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


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _version(db: sqlite3.Connection) -> int:
    [[version]] = db.execute("PRAGMA user_version").fetchall()
    return int(version)


def _prepare(db: sqlite3.Connection, *, write: bool) -> None:
    if not write:
        db.execute("PRAGMA query_only=1")
        return
    if db.execute("PRAGMA journal_mode").fetchall() != [("wal",)]:  # a backup comes without
        db.execute("PRAGMA journal_mode=WAL").fetchall()
    for pragma in _WRITING:
        db.execute(pragma).fetchall()


def _wait_for(taken: Callable[[], bool], path: Path) -> None:
    until = time.monotonic() + PATIENCE
    while not taken():
        if time.monotonic() > until:
            raise StoreError(f"{str(path)!r} was busy for {PATIENCE:.0f} s: another process works on it; try again")
        time.sleep(_PAUSE)


def _put(new: Path, path: Path) -> None:
    """Give a file its name, unless something has it; and wait until the disk knows."""
    try:
        os.link(new, path)
        new.unlink()
    except FileExistsError:
        raise
    except OSError:  # a file system without links; nobody of ours is here, since we have the lock
        new.rename(path)
    with suppress(OSError):  # a folder cannot be opened everywhere
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _copied(db: sqlite3.Connection, to: Path) -> None:
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
