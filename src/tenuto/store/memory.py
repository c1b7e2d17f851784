"""A store in memory, for experiments and tests: the SQLite store, on a database without a file and without threads."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tenuto.errors import StoreError
from tenuto.store.driver import Driver
from tenuto.store.locks import FileLock, Locks
from tenuto.store.sessions import TTL
from tenuto.store.sql_store import Job, SqlStore, Work, Worker, set_results
from tenuto.store.sqlite import SqliteDriver, create_store

T = TypeVar("T")


class Memory:
    """The data that several `MemoryStore`s share."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.turn = threading.Lock()  # held during each transaction: all stores share one connection
        self.locks: dict[tuple[str, str], _MemoryLock] = {}  # the session locks by host and session
        weakref.finalize(self, self.db.close).atexit = False  # an agent that is closed at the exit writes to it
        create_store(self.db, _MemoryDriver(self.db))


_SHARED: dict[str, Memory] = {}


def shared_memory(name: str) -> Memory:
    """Return the memory of this process that has this name."""
    return _SHARED.setdefault(name, Memory())


def forget_memory(name: str) -> None:
    _SHARED.pop(name, None)


class MemoryStore(SqlStore):
    """A store in memory. Two stores with one `Memory` behave like two processes with one file.

    `now` returns milliseconds since 1970 and `new_id` ids for forks and inbox items. Stores of one `host` see that the
    others are alive; for stores of other hosts, the time of a lease decides.
    """

    def __init__(
        self,
        memory: Memory | None = None,
        *,
        now: Callable[[], int] | None = None,
        new_id: Callable[[], str] | None = None,
        ttl_ms: int = TTL,
        host: str | None = None,
        pid: int | None = None,
    ) -> None:
        memory = Memory() if memory is None else memory
        host = socket.gethostname() if host is None else host
        engine, worker = _MemoryEngine(memory, host), partial(_InlineWorker, memory.turn)
        super().__init__(engine, now=now, new_id=new_id, ttl_ms=ttl_ms, host=host, pid=pid, worker=worker)


class _MemoryEngine:
    name = "memory"

    def __init__(self, memory: Memory, host: str) -> None:
        self._memory = memory
        self.locks: Locks = _MemoryLocks(memory, host)

    def open(self, *, write: bool) -> Driver:
        del write  # one connection does both
        return _MemoryDriver(self._memory.db)


class _MemoryDriver(SqliteDriver):
    def __init__(self, db: sqlite3.Connection) -> None:
        super().__init__(lambda: db, Path(os.devnull), guarded=False)  # never replaced by another file, never copied

    def close(self) -> None:
        """The other stores of the memory use the connection."""


class _MemoryLocks(Locks):
    """Session locks that the stores of one host see. A lease is acquired only if its session is free or taken over."""

    def __init__(self, memory: Memory, host: str) -> None:
        self._memory = memory
        self._host = host

    def directory_id(self, *, create: bool = False) -> str:
        del create
        return self._host

    def acquire(self, session: str) -> FileLock:
        lock = self._memory.locks[self._host, session] = _MemoryLock(self._memory, (self._host, session))
        return lock

    def is_locked(self, session: str) -> bool:
        return (self._host, session) in self._memory.locks


class _MemoryLock(FileLock):
    def __init__(self, memory: Memory, key: tuple[str, str]) -> None:
        super().__init__(None)
        self._memory = memory
        self._key = key

    def remove(self) -> None:
        if self._memory.locks.get(self._key) is self:
            del self._memory.locks[self._key]


class _InlineWorker(Worker):
    """Runs each job at once, in the thread of its caller. Locks need no renewal, and a search updates the index."""

    def __init__(self, turn: threading.Lock, name: str, open: Callable[[], Driver], **_: Any) -> None:
        self._turn = turn
        self._open = open
        self._write = True
        self._driver = None
        self._stopped = False

    def submit(self, work: Work[T] | None, *, alone: bool = False) -> asyncio.Future[T]:
        if self._stopped:
            raise StoreError("the store is closed")
        job: Job[T] = Job(work, asyncio.get_running_loop().create_future(), alone)
        with self._turn:
            self._run_alone(job) if alone else self._run_batch([job])
        set_results([job])
        assert job.future is not None
        return job.future

    def submit_nowait(self, work: Work[Any]) -> None:
        with self._turn:
            self._run_batch([Job(work)])

    def join(self) -> None:
        """There is no thread."""
