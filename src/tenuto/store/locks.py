"""File locks that the operating system releases when their process ends, for whatever reason.

A session lock is `flock` on its own file, named by the digest of the session id; the file contains `pid@host`.
Processes that read the same random id in the file `place` of a directory see the same locks. Without `flock` (Windows)
nothing is locked, and only the time of a lease shows whether its holder lives.
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


class FileLock:
    """A lock on a file that processes share, or that one has alone. Without a path nothing is locked."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.file = -1
        _OPEN.add(self)

    def lock(self, *, exclusive: bool) -> bool:
        """Lock the file; return False if another process has locked it."""
        if flock is None or self._path is None:
            return True
        if self.file < 0:
            self.file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            flock(self.file, _EXCLUSIVE if exclusive else _SHARED)
        except BlockingIOError:
            return False
        return True

    def unlock(self) -> None:
        if self.file >= 0 and flock is not None:
            flock(self.file, _UNLOCK)

    def close(self) -> None:
        """Close the file. The lock stays with other processes that have inherited the file."""
        file, self.file = self.file, -1
        if file >= 0:
            os.close(file)

    def remove(self) -> None:
        """Remove the file while it is locked, then close it. A waiting process notices that and creates another."""
        if self.file >= 0 and self._path is not None:
            with suppress(OSError):
                self._path.unlink()
        self.close()


class Locks:
    """The session locks of one store, in a directory that only its owner can read."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)
        self._id = ""

    @property
    def available(self) -> bool:
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

    def acquire(self, session: str) -> FileLock | None:
        """Lock a session; return None if a live process has the lock."""
        import socket  # only processes that lock a session load it

        path, attempts, locked = self._path(session), _ATTEMPTS, False
        lock = FileLock(path)
        if flock is None:
            return lock
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            while not locked:
                if lock.lock(exclusive=True):
                    with suppress(FileNotFoundError):
                        locked = os.path.samestat(os.fstat(lock.file), path.stat())
                    if not locked:
                        lock.close()  # the previous holder removed the file after it was opened here
                elif attempts > 1:
                    attempts -= 1
                    time.sleep(_PAUSE)
                else:
                    lock.close()
                    return None
            os.ftruncate(lock.file, 0)
            os.write(lock.file, f"{os.getpid()}@{socket.gethostname()}\n".encode())
        except OSError as exc:
            lock.remove() if locked else lock.close()
            raise StoreError(f"session {session!r} cannot be locked with the file {str(path)!r}: {exc}") from exc
        return lock

    def is_locked(self, session: str) -> bool:
        """Return whether a live process has the lock of a session. Nothing is written."""
        path = self._path(session)
        file = -1
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            assert flock is not None
            flock(file, _SHARED)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        except OSError as exc:
            raise StoreError(f"the lock file {str(path)!r} of session {session!r} cannot be read: {exc}") from exc
        finally:
            if file >= 0:
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
        with suppress(FileExistsError):  # another process created it meanwhile
            rename_new(new, path)
        new.unlink(missing_ok=True)
        return path.read_text("ascii")


def rename_new(new: Path, path: Path) -> None:
    """Rename a file; raise `FileExistsError` if the other name exists."""
    try:
        os.link(new, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        new.rename(path)
    else:
        new.unlink()


_OPEN: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _close_all() -> None:
    """Close the files that a forked child inherited: they would stay locked after the parent has ended."""
    for lock in list(_OPEN):
        lock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)
