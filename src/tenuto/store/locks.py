"""File locks that the operating system releases when their process ends, for whatever reason.

A session lock is `flock` on its own file, named by the digest of the session id; the file contains `pid@host`. A directory
of locks has a random id in the file `place`: processes that read the same id see the same locks, whatever their machines
and containers are called. Without `flock` (Windows) nothing is locked, and only the time of a lease shows whether its
holder lives.
"""

from __future__ import annotations

import os
import time
import weakref
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    flock = None
else:
    flock = fcntl.flock

from tenuto.errors import StoreError

# LOCK_EX and LOCK_SH, both with LOCK_NB, and LOCK_UN: they have these values on every system
_EXCLUSIVE, _SHARED, _UNLOCK = 2 | 4, 1 | 4, 8
_MODE = 0o600
_ATTEMPTS, _PAUSE = 4, 0.001
"""`is_locked` locks a file for some microseconds: a process that wants the lock then tries again."""


class SessionLock:
    """A session lock that this process holds; without a file it locks nothing."""

    def __init__(self, file: int, path: Path) -> None:
        self._file = file
        self._path = path
        _OPEN.add(self)

    def release(self) -> None:
        """Release the lock. The file is removed while it is locked: a waiting process notices that and creates another."""
        if self._file >= 0:
            with suppress(OSError):
                self._path.unlink()
        self.close()

    def close(self) -> None:
        """Close the file. The lock stays with other processes that have inherited the file."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


class Locks:
    """The session locks of one store, in a directory that only its owner can read."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)
        self._id = ""

    @property
    def available(self) -> bool:
        """Whether this system has locks."""
        return flock is not None

    def directory_id(self, *, create: bool = False) -> str:
        """Return the id of the directory. With `create`, create the directory if needed; empty: there are no locks."""
        if flock is not None and not self._id:
            try:
                self._id = self._create_id() if create else self._read_id()
            except OSError as exc:
                if not create:  # another user's directory: its locks cannot be seen
                    return ""
                raise StoreError(
                    f"the lock directory {str(self._directory)!r} cannot be used: {exc.strerror or exc}; choose another "
                    "location for the store"
                ) from exc
        return self._id

    def acquire(self, session: str) -> SessionLock | None:
        """Lock a session; return None if a live process has the lock."""
        path = self._path(session)
        if flock is None:
            return SessionLock(-1, path)
        import socket  # only processes that lock a session load it

        lock: SessionLock | None = None
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            while True:
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
                if not _lock_or_close(file, _EXCLUSIVE, attempts=_ATTEMPTS):
                    return None
                if _is_at(file, path):
                    break
                os.close(file)  # the previous holder removed it after it was opened here
            lock = SessionLock(file, path)
            os.ftruncate(file, 0)
            os.write(file, f"{os.getpid()}@{socket.gethostname()}\n".encode())
        except OSError as exc:
            if lock is not None:
                lock.release()
            raise StoreError(f"session {session!r} cannot be locked with the file {str(path)!r}: {exc}") from exc
        return lock

    def is_locked(self, session: str) -> bool:
        """Return whether a live process has the lock of a session. Nothing is written."""
        path = self._path(session)
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            if not _lock_or_close(file, _SHARED):
                return True
        except FileNotFoundError:
            return False
        except OSError as exc:
            raise StoreError(f"the lock file {str(path)!r} of session {session!r} cannot be read: {exc}") from exc
        os.close(file)
        return False

    def _path(self, session: str) -> Path:
        import hashlib  # only processes that look at a lock load it

        return self._directory / hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()

    def _read_id(self) -> str:
        with suppress(FileNotFoundError):
            return (self._directory / "place").read_text("ascii")
        return ""

    def _create_id(self) -> str:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if id := self._read_id():
            return id
        import secrets

        path, new = self._directory / "place", self._directory / f"place.{secrets.token_hex(8)}"
        new.touch(_MODE)
        new.write_text(secrets.token_hex(16), "ascii")
        try:
            os.link(new, path)
        except FileExistsError:  # another process created it meanwhile
            new.unlink()
        except OSError:  # a file system without links
            new.rename(path)
        else:
            new.unlink()
        return path.read_text("ascii")


def _lock_or_close(file: int, mode: int, *, attempts: int = 1) -> bool:
    """Lock a file; close it and return False if another process has it locked, raise `OSError` if locking fails."""
    assert flock is not None
    try:
        for attempt in range(1, attempts + 1):
            with suppress(BlockingIOError):
                flock(file, mode)
                return True
            if attempt < attempts:
                time.sleep(_PAUSE)
    except OSError:
        os.close(file)
        raise
    os.close(file)
    return False


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


class Guard:
    """A file that writers lock together and a checkpoint locks alone, so that they never run at the same time.

    Without a path nothing is locked.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file = -1
        _OPEN.add(self)

    def lock_shared(self) -> bool:
        """Lock the file together with other writers; return whether it succeeded."""
        return self._lock(_SHARED)

    def lock_exclusive(self) -> bool:
        """Lock the file alone; return whether it succeeded."""
        return self._lock(_EXCLUSIVE)

    def unlock(self) -> None:
        if self._file >= 0 and flock is not None:
            flock(self._file, _UNLOCK)

    def close(self) -> None:
        """Unlock and close the file."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def _lock(self, mode: int) -> bool:
        if flock is None or self._path is None:
            return True
        if self._file < 0:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            flock(self._file, mode)
        except BlockingIOError:
            return False
        return True


_OPEN: weakref.WeakSet[SessionLock | Guard] = weakref.WeakSet()


def _close_all() -> None:
    """Close the files that a forked child inherited: they would stay locked after the parent has ended."""
    for lock in list(_OPEN):
        lock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)
