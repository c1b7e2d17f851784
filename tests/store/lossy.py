"""A disk that fails: what SQLite writes is written down, so that any moment of it can be brought back as a crash left it.

`Disk` is a VFS for `apsw`. It hands everything on to real files, and keeps a log: each write, truncation, sync and removal,
in their order. `Disk.left` makes of the log the files that are there after a crash at any place of it. A killed process
loses nothing that it wrote; a loss of power may lose, tear or reorder whatever no sync had returned for.

`connect` is called as `sqlite3.connect` is, and gives what `tenuto.store.sqlite` needs of a connection, over that VFS:
statements and transactions are the product's own.
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
"""A kill; power that goes with all that was not synced, with all but the oldest of it, or with any part of it."""

_names = itertools.count(1)


class Op(NamedTuple):
    """What was done to a file: `write`, `truncate`, `sync`, `failed` (a sync that failed), `delete` or `gone` (a removal
    that the folder was synced for). `at` is the place of a write or the length that a truncation leaves.
    """

    what: str
    file: str
    at: int = 0
    data: bytes = b""


class Disk(apsw.VFS):
    """Watches what is written in one folder. `fault` is asked before everything that is done, and may raise."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.log: list[Op] = []
        self.first = self.contents()
        self.fault = None
        self.sync = "FULL"
        """What is really asked of SQLite when the product asks for FULL."""
        self.name = f"lossy-{next(_names)}"
        super().__init__(self.name, "")

    # --- what SQLite asks ---

    def xOpen(self, name, flags):
        return _File(self, name, flags)

    def xDelete(self, name, sync):
        self.note(Op("gone" if sync else "delete", Path(name).name))
        return super().xDelete(name, sync)

    def note(self, op):
        """Write down what is about to be done, unless it is to fail."""
        if self.fault is not None:
            self.fault(op)
        self.log.append(op)

    # --- what the product asks ---

    def connect(self, name, *, timeout, **_):
        return Line(self, name, timeout)

    # --- after the crash ---

    def contents(self):
        """Return what is in the folder now, but for what is no file of SQLite's or only shared memory."""
        return {
            path.name: path.read_bytes()
            for path in self.folder.iterdir()
            if path.is_file() and not path.name.endswith(("-shm", ".lock"))
        }

    def left(self, moments, chance):
        """Yield, for moments in their order, how the power went and the files after it, if as many operations of the log
        were done and perhaps a part of the next. How it goes changes from one to the next.
        """
        disk, done = _Platter(self.first), 0
        for how, moment in zip(itertools.cycle(HOWS), moments, strict=False):
            for op in self.log[done:moment]:
                disk.do(op)
            done = moment
            torn = [
                op._replace(data=op.data[: chance.randrange(len(op.data))])
                for op in self.log[moment : moment + 1]
                if op.what == "write"
            ]
            yield moment, how, disk.crashed(how, chance, torn)


class _File(apsw.VFSFile):
    """A real file, watched."""

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
            self._note("sync")  # the disk need not be waited for: it is told by the log what was safe when
        except apsw.Error:
            self.disk.log.append(Op("failed", self.file))
            raise

    def _note(self, what, at=0, data=b""):
        if self.file:  # what has no name is gone with the connection anyway
            self.disk.note(Op(what, self.file, at, data))


class _Platter:
    """What is safe of each file, what was done to it since, and what who reads it now is shown."""

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
        # "failed": systems forget what they could not write, and say of the next sync that it went well

    def crashed(self, how, chance, begun):
        """Return the files as they are found; `begun` was being done when it happened."""
        kept = [*self.since, *begun]
        if how == "kill":
            kept = begun
        elif how == "drop":
            kept = []
        elif how == "prefix":
            kept = kept[: chance.randrange(len(kept) + 1)]
            if kept:
                kept[-1] = _torn(kept[-1], chance)
        elif how == "any":
            kept = [_torn(op, chance) if chance.random() < 0.3 else op for op in kept if chance.random() < 0.5]
        files = {name: bytearray(data) for name, data in (self.live if how == "kill" else self.safe).items()}
        for op in kept:
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
    """Cut a write off at a sector, at its end or at its beginning."""
    cut = chance.randrange(0, len(op.data) + 1, SECTOR) if op.what == "write" else 0
    if chance.random() < 0.5:
        return op._replace(data=op.data[:cut])
    return op._replace(at=op.at + cut, data=op.data[cut:]) if op.what == "write" else op


# --- a connection -----------------------------------------------------------------------------------------------------


class Line:
    """As much of a `sqlite3.Connection` as the store uses, over `apsw`."""

    def __init__(self, disk, uri, timeout):
        self._disk = disk
        with _Spoken():
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
            self._db = apsw.Connection(uri, flags=flags, vfs=disk.name)
            self._db.set_busy_timeout(int(timeout * 1000))

    def execute(self, sql, args=()):
        if sql == "PRAGMA synchronous=FULL":
            sql = f"PRAGMA synchronous={self._disk.sync}"
        with _Spoken():
            rows = list(self._db.execute(sql, tuple(args)))
            return _Cursor(rows, self._db.changes())

    def cursor(self):
        return _Through(self.execute)

    def executemany(self, sql, rows):
        with _Spoken():
            before = self._db.total_changes()
            self._db.executemany(sql, [tuple(row) for row in rows])
            return _Cursor([], self._db.total_changes() - before)

    def close(self):
        with _Spoken():
            self._db.close(True)


class _Through(NamedTuple):
    execute: object

    def close(self):
        pass


class _Cursor(NamedTuple):
    rows: list
    rowcount: int

    def fetchall(self):
        return self.rows


class _Spoken:
    """Says what `apsw` says as `sqlite3` would."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, apsw.Error):
            said = sqlite3.OperationalError(str(error))
            with suppress(KeyError):
                code = getattr(error, "extendedresult", 0) or getattr(error, "result", 1)
                names = apsw.mapping_extended_result_codes if code > 255 else apsw.mapping_result_codes
                said.sqlite_errorname = names[code]
            raise said from error


def failing(code):
    """Make the error that SQLite is given for what could not be done."""
    return apsw.exception_for(code)
