"""A disk that fails, and files as a crash at any moment would leave them.

`Disk` is a VFS for `apsw`. It passes everything to real files and logs each write, truncation, sync and removal in
their order. `Disk.crashes` computes from the log the files after a crash at any position. A killed process loses
nothing that it wrote; a power failure may lose, tear or reorder all data that was not synced.

`connect` has the parameters of `sqlite3.connect` and returns a connection over that VFS with the methods that
`tenuto.store.sqlite` uses. Statements and transactions are those of the product.
"""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import apsw

SECTOR = 512
HOWS = ("kill", "drop", "prefix", "any")
"""A kill, and power failures that lose all data that was not synced, a suffix of it, or any part of it."""

_names = itertools.count(1)


class Op(NamedTuple):
    """An operation on a file: `write`, `truncate`, `sync`, `failed` (a sync that failed), `delete` or `gone` (a
    removal after which the directory was synced).

    `at` is the offset of a write or the length after a truncation.
    """

    what: str
    file: str
    at: int = 0
    data: bytes = b""


class Disk(apsw.VFS):
    """Records the writes in one directory. `fault` is called before each operation and may raise."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.log: list[Op] = []
        self.first = self.contents()
        self.fault = None
        self.sync = "FULL"
        """The mode that SQLite uses when the product requests FULL."""
        self.name = f"faulty-{next(_names)}"
        super().__init__(self.name, "")

    # --- interface for SQLite ---

    def xOpen(self, name, flags):
        return _File(self, name, flags)

    def xDelete(self, name, sync):
        self.note(Op("gone" if sync else "delete", Path(name).name))
        return super().xDelete(name, sync)

    def note(self, op):
        """Log an operation before it is done, unless it fails."""
        if self.fault is not None:
            self.fault(op)
        self.log.append(op)

    # --- interface for the product ---

    def connect(self, name, *, timeout, **_):
        return Connection(self, name, timeout)

    # --- files after a crash ---

    def contents(self):
        """Return the SQLite files in the directory, without those for shared memory."""
        return {
            path.name: path.read_bytes()
            for path in self.folder.iterdir()
            if path.is_file() and not path.name.endswith(("-shm", ".lock"))
        }

    def crashes(self, moments, chance):
        """Yield moments with a kind of crash and the files after it: that many operations are done, and perhaps a part
        of the next.

        The kinds of crash alternate.
        """
        disk, done = _Storage(self.first), 0
        for how, moment in zip(itertools.cycle(HOWS), moments, strict=False):
            for op in self.log[done:moment]:
                disk.do(op)
            done = moment
            torn = [
                op._replace(data=op.data[: chance.randrange(len(op.data))])
                for op in self.log[moment : moment + 1]
                if op.what == "write"
            ]
            yield moment, how, disk.files_after(how, chance, torn)


class _File(apsw.VFSFile):
    """A real file whose operations are logged."""

    def __init__(self, disk, name, flags):
        self.disk = disk
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self.file = Path(path).name if path else ""
        super().__init__("", name, flags)

    def xWrite(self, data, offset):
        self._note("write", offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, size):
        self._note("truncate", size)
        super().xTruncate(size)

    def xSync(self, flags):
        try:
            self._note("sync")  # no real sync is needed: the log determines which data was safe
        except apsw.Error:
            self.disk.log.append(Op("failed", self.file))
            raise

    def _note(self, what, at=0, data=b""):
        if self.file:  # a file without a name ends with the connection
            self.disk.note(Op(what, self.file, at, data))


class _Storage:
    """The synced content of each file, the operations since then, and the content that a reader sees."""

    def __init__(self, first):
        self.safe = {name: bytearray(data) for name, data in first.items()}
        self.live = {name: bytearray(data) for name, data in first.items()}
        self.since: list[Op] = []

    def do(self, op):
        _apply(self.live, op)
        if op.what in ("write", "truncate", "delete"):
            self.since.append(op)
            return
        mine = [each for each in self.since if each.file == op.file]
        self.since = [each for each in self.since if each.file != op.file]
        if op.what == "gone":
            self.safe.pop(op.file, None)
        elif op.what == "sync":
            self.safe.setdefault(op.file, bytearray())
            for each in mine:
                _apply(self.safe, each)
        # "failed": systems discard data that they could not write, and the next sync succeeds

    def files_after(self, how, chance, unfinished):
        """Return the files after a crash during the operations in `unfinished`."""
        surviving = [*self.since, *unfinished]
        if how == "kill":
            surviving = unfinished
        elif how == "drop":
            surviving = []
        elif how == "prefix":
            surviving = surviving[: chance.randrange(len(surviving) + 1)]
            if surviving:
                surviving[-1] = _torn(surviving[-1], chance)
        elif how == "any":
            surviving = [
                _torn(op, chance) if chance.random() < 0.3 else op for op in surviving if chance.random() < 0.5
            ]
        files = {name: bytearray(data) for name, data in (self.live if how == "kill" else self.safe).items()}
        for op in surviving:
            _apply(files, op)
        return files


def _apply(files, op):
    if op.what in ("delete", "gone"):
        files.pop(op.file, None)
    if op.what not in ("write", "truncate"):
        return
    found = files.setdefault(op.file, bytearray())
    if op.what == "truncate":
        del found[op.at :]
    else:
        found.extend(bytes(max(op.at - len(found), 0)))
        found[op.at : op.at + len(op.data)] = op.data


def _torn(op, chance):
    """Cut a write at a sector boundary, at its end or at its start."""
    cut = chance.randrange(0, len(op.data) + 1, SECTOR) if op.what == "write" else 0
    if chance.random() < 0.5:
        return op._replace(data=op.data[:cut])
    return op._replace(at=op.at + cut, data=op.data[cut:]) if op.what == "write" else op


# --- a connection -----------------------------------------------------------------------------------------------------


class Connection:
    """The part of `sqlite3.Connection` that the store uses, over `apsw`."""

    def __init__(self, disk, uri, timeout):
        self._disk = disk
        with _Sqlite3Errors():
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
            self._db = apsw.Connection(uri, flags=flags, vfs=disk.name)
            self._db.set_busy_timeout(int(timeout * 1000))

    def execute(self, sql, args=()):
        if sql == "PRAGMA synchronous=FULL":
            sql = f"PRAGMA synchronous={self._disk.sync}"
        with _Sqlite3Errors():
            rows = list(self._db.execute(sql, tuple(args)))
            return _Cursor(rows, self._db.changes())

    def cursor(self):
        return _PlainCursor(self.execute)

    def executemany(self, sql, rows):
        with _Sqlite3Errors():
            before = self._db.total_changes()
            self._db.executemany(sql, [tuple(row) for row in rows])
            return _Cursor([], self._db.total_changes() - before)

    def close(self):
        with _Sqlite3Errors():
            self._db.close(True)


class _PlainCursor(NamedTuple):
    execute: object

    def close(self):
        pass


class _Cursor(NamedTuple):
    rows: list
    rowcount: int

    def fetchall(self):
        return self.rows


class _Sqlite3Errors:
    """Raises errors of `apsw` as those of `sqlite3`."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, apsw.Error):
            converted = sqlite3.OperationalError(str(error))
            with suppress(KeyError):
                code = getattr(error, "extendedresult", 0) or getattr(error, "result", 1)
                names = apsw.mapping_extended_result_codes if code > 255 else apsw.mapping_result_codes
                converted.sqlite_errorname = names[code]
            raise converted from error


def error_of(code):
    """Return the error that SQLite receives for a failed operation."""
    return apsw.exception_for(code)
