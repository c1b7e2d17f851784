"""Locks on sessions that the operating system frees when their holder dies, however it dies.

A lock is `flock` on a file of its own, named by the digest of the session's id, with `pid@host` inside for whoever looks.
A folder of locks has a name, made by chance when it is first used: who finds the same name in it looks at the same locks,
whatever machines and containers are called. Where there is no `flock` (Windows), nothing is locked, and a lease's time
alone tells whether its holder lives.
"""

from __future__ import annotations

import os
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
from tenuto.store.driver import FileLock

__all__ = ["Guard", "Locks"]

# LOCK_EX and LOCK_SH, both with LOCK_NB, and LOCK_UN: they have these numbers everywhere
_ALONE, _SHARED, _FREE = 2 | 4, 1 | 4, 8
_MODE = 0o600


class _Lock:
    """One lock that is held. A child that was forked off has the file, too, and must not keep it locked by that."""

    def __init__(self, file: int, path: Path) -> None:
        self._file = file
        self._path = path
        _OPEN.add(self)

    def free(self) -> None:
        """Let go. The file goes while it is still locked: whoever waits for it sees that, and makes another."""
        if self._file >= 0:
            with suppress(OSError):
                self._path.unlink()
        self.leave()

    def leave(self) -> None:
        """Close the file; the lock stays with whoever else has it open."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


class _Nothing:
    """Where nothing can be locked."""

    def free(self) -> None:
        pass


class Locks:
    """The locks of one store, in a folder that is made, for its owner only, when the first is taken."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._place = ""

    @property
    def real(self) -> bool:
        """Whether there are locks here at all."""
        return flock is not None

    @property
    def place(self) -> str:
        """The name of the folder; empty where there are no locks."""
        if flock is not None and not self._place:
            try:
                self._place = self._named()
            except OSError as exc:
                raise StoreError(
                    f"the folder of locks {str(self._folder)!r} cannot be used: {exc.strerror or exc}: name another place"
                ) from exc
        return self._place

    def hold(self, session: str) -> FileLock | None:
        """Take the lock on a session; None if a live process has it."""
        if flock is None:
            return _Nothing()
        import hashlib  # with the next one: only who locks something needs them
        import socket

        path = self._folder / hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()
        lock: _Lock | None = None
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            while True:
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
                if not _locked(file, _ALONE):
                    return None
                if _is_at(file, path):
                    break
                os.close(file)  # its last holder took it away after we had opened it
            lock = _Lock(file, path)
            os.ftruncate(file, 0)
            os.write(file, f"{os.getpid()}@{socket.gethostname()}\n".encode())
        except OSError as exc:
            if lock is not None:
                lock.free()
            raise StoreError(f"session {session!r} cannot be locked by the file {str(path)!r}: {exc}") from exc
        return lock

    def _named(self) -> str:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / "place"
        with suppress(FileNotFoundError):
            return path.read_text("ascii")
        import secrets

        own = self._folder / f"place.{secrets.token_hex(8)}"
        own.touch(_MODE)
        own.write_text(secrets.token_hex(16), "ascii")
        try:
            os.link(own, path)
        except FileExistsError:  # somebody else was quicker, and theirs is the name
            own.unlink()
        except OSError:  # a file system without links
            own.rename(path)
        else:
            own.unlink()
        return path.read_text("ascii")


def _locked(file: int, how: int) -> bool:
    """Lock a file, or close it. What `flock` cannot do here (some network folders) is an error, not a refusal."""
    assert flock is not None
    try:
        flock(file, how)
    except BlockingIOError:
        os.close(file)
        return False
    except OSError:
        os.close(file)
        raise
    return True


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


class Guard:
    """A file that writers lock together and a checkpoint locks alone, so that the two never happen at one moment.

    Without a path there is nothing to guard, and everybody may.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file = -1
        _OPEN.add(self)

    def share(self) -> bool:
        """Lock it with all other writers; tell whether that went."""
        return self._take(_SHARED)

    def alone(self) -> bool:
        """Lock it against everybody; tell whether that went."""
        return self._take(_ALONE)

    def free(self) -> None:
        """Let go."""
        if self._file >= 0 and flock is not None:
            flock(self._file, _FREE)

    def leave(self) -> None:
        """Let go, and close the file."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def _take(self, how: int) -> bool:
        file = self._file
        if file < 0:
            if flock is None or self._path is None:
                return True
            file = self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        assert flock is not None
        try:
            flock(file, how)
        except BlockingIOError:
            return False
        return True


_OPEN: weakref.WeakSet[_Lock | Guard] = weakref.WeakSet()


def _leave_all() -> None:
    """A child that was forked off has the parent's files open, and would keep them locked when the parent is dead."""
    for lock in list(_OPEN):
        lock.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all)
