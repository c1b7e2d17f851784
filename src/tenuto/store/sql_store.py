"""The store over a database: one logic for SQLite and Postgres.

Two threads, each with a connection of its own: one writes, one reads. What they do is a transaction each; appends that
wait at the same moment share one (`worker`). Nothing here touches a connection: it says what is to be done, and awaits it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from tenuto.core.journal import Entry, EntryDraft
from tenuto.errors import LeaseLost, SessionInUse, SessionNotFound, StoreError
from tenuto.store import entries, ids, maintenance, session_list
from tenuto.store.checks import forked_meta
from tenuto.store.driver import CommitUnknown, ConnectionLost, Driver, Engine
from tenuto.store.ids import check_id, check_name
from tenuto.store.leases import Leases
from tenuto.store.protocol import (
    Lease,
    ProgressCallback,
    SearchHit,
    SessionPage,
    StoredSession,
    StoreStats,
    VerifyProblem,
)
from tenuto.store.search import SearchIndex
from tenuto.store.sessions import TTL, ListQuery
from tenuto.store.worker import Work, Worker

__all__ = ["SqlStore"]

T = TypeVar("T")
log = logging.getLogger("tenuto")
_PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0)
"""How many seconds to wait before something is tried again because the line broke."""
_INHERITED: list[_ProcessState] = []
"""The threads and connections of a parent process: a child that was forked off neither uses nor closes them."""
_POLL_INTERVAL = 0.5
"""Seconds after which the writing thread asks for background work; less if leases are short, so that they are renewed in
time.
"""


class _BackgroundTasks:
    """Renew leases and update the search index, in the thread that writes."""

    def __init__(self, leases: Leases, index: SearchIndex, ttl_ms: int) -> None:
        self._leases = leases
        self._index = index
        self.poll_interval = min(_POLL_INTERVAL, ttl_ms / 60_000)

    def wait(self) -> float | None:
        """Return in how many seconds the first is due."""
        leases, index, now = self._leases, self._index, time.monotonic()
        found = [index.at(now)] if index.late else []
        if leases.held:
            found.append(leases.at)
        return max(min(found) - now, 0) if found else None

    def due(self) -> Work[Any] | None:
        """Return the first that is due."""
        now = time.monotonic()
        return self._leases.due(now) or self._index.due(now)


class _ProcessState:
    """Everything of a store that belongs to one process."""

    def __init__(self, engine: Engine, leases: Leases, ttl_ms: int) -> None:
        self.pid = os.getpid()
        self.leases = leases
        self.index = SearchIndex()
        background = _BackgroundTasks(leases, self.index, ttl_ms)
        self.writer = Worker("tenuto-writer", partial(engine.open, write=True), write=True, background=background)
        self.reader = Worker("tenuto-reader", partial(engine.open, write=False), write=False)


class SqlStore:
    """Keeps sessions in a database that an engine opens.

    `now` gives milliseconds since 1970 (the database's own clock, if not given) and `new_id` ids for forks. A lease lapses
    after `ttl_ms` unless this process lives, which renews it; `pid` and `host` are what others are told of its holder.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        now: Callable[[], int] | None = None,
        new_id: Callable[[], str] | None = None,
        ttl_ms: int = TTL,
        host: str | None = None,
        pid: int | None = None,
    ) -> None:
        self._engine = engine
        self._now = now
        self._new_id = new_id or (lambda: ids.new_id(time.time_ns() // 1_000_000))
        self._ttl = ttl_ms
        self._host = socket.gethostname() if host is None else host
        self._as = pid
        self._crew: _ProcessState | None = None
        self._making = threading.Lock()
        self._closed = False

    # --- writing ---

    async def lease(self, session: str, *, takeover: bool = False) -> Lease:
        """Take the right to write a session."""
        check_id(session)
        crew, owner = self._state(), secrets.token_hex(8)
        try:
            return await self._with_retry(
                crew.writer, lambda driver: crew.leases.take(driver, session, owner, takeover)
            )
        except SessionInUse:
            raise
        except BaseException:  # also if nobody waits any more: what was taken is given back
            crew.writer.submit_nowait(lambda driver: crew.leases.abandon(driver, owner))
            raise

    async def append(self, lease: Lease, drafts: Sequence[EntryDraft], *, release: bool = False) -> Lease:
        """Add entries after the head, all or none."""
        crew, drafts = self._state(), tuple(drafts)

        def work(driver: Driver) -> Lease:
            crew.index.behind(lease.session)  # before it is: to look for nothing does no harm
            if not release:
                return entries.append(driver, crew.leases, lease, drafts)
            return entries.append_and_release(driver, crew.leases, lease, drafts)

        try:
            added = await self._with_retry(crew.writer, work)
        except LeaseLost:
            crew.leases.drop(lease.owner)
            raise
        if release:
            crew.leases.drop(lease.owner)
        return added

    async def renew(self, lease: Lease) -> Lease:
        """Hold on to a lease for its time from now on."""
        leases = self._state().leases
        return await self._write(lambda driver: leases.renew(driver, lease))

    async def release(self, lease: Lease) -> None:
        """Let go; a lease that is lost already is no error."""
        leases = self._state().leases
        try:
            await self._write(lambda driver: leases.release(driver, lease.session, lease.owner, lease.fence))
        finally:
            leases.drop(lease.owner)

    async def fork(self, session: str, *, at: int | None = None, id: str = "") -> str:
        """Branch a session off; the entries are shared."""
        new = check_id(id or self._new_id())
        crew = self._state()
        where, shared = await self._read(lambda driver: maintenance.summary_at(driver, session, at))

        def work(driver: Driver) -> str:
            meta = forked_meta(shared, new, crew.leases.now(driver))
            return maintenance.fork(driver, session, where, new, meta)

        return await self._with_retry(crew.writer, work, unsure=False)

    async def rename(self, session: str, name: str) -> None:
        """Call a session something."""
        check_name(name)
        await self._write(lambda driver: maintenance.rename(driver, session, name))

    async def archive(self, session: str, *, archived: bool = True) -> None:
        """Put a session away, or fetch it back."""
        await self._write(lambda driver: maintenance.archive(driver, session, archived))

    async def delete(self, session: str, *, children: bool = False) -> tuple[str, ...]:
        """Remove a session for good, with what was forked off it if that is wanted."""
        crew = self._state()
        gone = await self._with_retry(
            crew.writer, lambda driver: maintenance.delete(driver, crew.leases, session, children), unsure=False
        )
        crew.index.gone(gone)
        return gone

    # --- reading ---

    async def read(self, session: str, *, after: int = 0, upto: int | None = None) -> list[Entry]:
        """Return the entries, oldest first."""

        def work(driver: Driver) -> list[Entry]:
            row = entries.require_session(driver, session)
            return entries.read(driver, row, after, row.head if upto is None else upto)

        return await self._read(work)

    async def session(self, session: str) -> StoredSession:
        """Return what a list would show of one session."""
        leases = self._state().leases
        return await self._read(lambda driver: session_list.shown(driver, leases, session))

    async def sessions(
        self,
        *,
        agent: str | None = None,
        status: str | None = None,
        archived: bool | None = False,
        order: Literal["updated", "created"] = "updated",
        limit: int = 50,
        after: str = "",
    ) -> SessionPage:
        """List sessions, newest first."""
        wanted = ListQuery(agent, status, archived, order, limit, after)
        leases = self._state().leases
        return await self._read(lambda driver: session_list.list_sessions(driver, leases, wanted))

    async def forks(self, session: str) -> list[str]:
        """Return the ids of the sessions that were forked from this one, in order."""
        return await self._read(lambda driver: session_list.forks_of(driver, session))

    async def find(self, text: str, *, agent: str | None = None) -> str:
        """Return the id that is meant: an id, a name, `last`, `~N`, or the beginning of one id only."""
        return await self._read(lambda driver: session_list.find(driver, text, agent))

    async def search(self, words: str, *, limit: int = 20) -> list[SearchHit]:
        """Find the entries in which all the words occur. Entries that cannot be found yet are made so first."""
        index = self._state().index
        await self._read(index.look)  # each time: others write, too, and may die before they index what they wrote
        try:
            await self._catch_up(index)
        except StoreError as exc:  # where nothing can be written, what is there is searched
            log.warning("a search looks only into what was made ready for it before: %s", exc)
        found = await self._read(lambda driver: driver.search(words, limit))
        return [SearchHit(*row) for row in found]

    # --- keeping house ---

    async def stats(self) -> StoreStats:
        """Count."""
        return await self._read(lambda driver: maintenance.count_rows(driver, self._engine.name))

    async def verify(self, session: str | None = None, *, tell: ProgressCallback | None = None) -> list[VerifyProblem]:
        """Look for damage, session by session: whoever reads meanwhile waits for no more than one."""
        if session is not None:
            return await self._read(lambda driver: maintenance.find_problems_in(driver, session))
        found = await self._read(maintenance.file_faults)
        ids = await self._read(maintenance.all_ids)
        for done, id in enumerate(ids, 1):
            found += await self._read(partial(_faults_unless_gone, session=id))
            if tell is not None:
                tell(done, len(ids))
        return found

    async def gc(self) -> int:
        """Remove what nothing refers to any more."""
        leases = self._state().leases
        return await self._write(lambda driver: maintenance.delete_unreferenced(driver, leases))

    async def reindex(self) -> int:
        """Make what searches look into anew; return the number of entries in it."""
        index = self._state().index
        await self._write(_unindex)
        await self._read(index.look)
        await self._catch_up(index)
        return await self._read(
            maintenance.indexed_count
        )  # counted there: the thread that writes may have had its share of it

    async def backup(self, to: str) -> None:
        """Write a consistent copy to a file that must not exist yet."""
        await self._state().reader.submit(lambda driver: driver.backup(to), alone=True)

    async def close(self) -> None:
        """Let go of everything; leases that are held are released."""
        crew, closed = self._crew, self._closed
        self._closed = True
        if closed or crew is None or crew.pid != os.getpid():
            return
        try:
            if crew.leases.held:
                await crew.writer.submit(crew.leases.release_all)
            while crew.index.late:
                await crew.writer.submit(crew.index.catch_up)
                await crew.writer.submit(_checkpoint, alone=True)  # that was much at once, and the log is to stay short
        except StoreError as exc:  # a disk that fails now fails nobody: leases lapse, and words can be found later
            log.warning("the store was closed without letting go of everything: %s", exc)
        finally:
            for owner in list(crew.leases.held):
                crew.leases.drop(owner)
            for stopped in (crew.writer.stop(), crew.reader.stop()):
                await stopped
            crew.writer.join()
            crew.reader.join()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- parts ---

    def _state(self) -> _ProcessState:
        """Return what belongs to this process; after a fork, that is made anew."""
        crew = self._crew
        if self._closed:
            raise StoreError("the store is closed")
        if crew is not None and crew.pid == os.getpid():
            return crew
        if crew is not None:
            _INHERITED.append(crew)
            self._crew, self._making = None, threading.Lock()
        with self._making:
            if self._crew is None:
                pid = os.getpid() if self._as is None else self._as
                leases = Leases(self._engine, now=self._now, ttl_ms=self._ttl, pid=pid, host=self._host)
                self._crew = _ProcessState(self._engine, leases, self._ttl)
            return self._crew

    async def _read(self, work: Work[T]) -> T:
        return await self._with_retry(self._state().reader, work)

    async def _write(self, work: Work[T]) -> T:
        return await self._with_retry(self._state().writer, work)

    async def _with_retry(self, worker: Worker, work: Work[T], *, unsure: bool = True) -> T:
        """Have something done. If the line breaks, it is tried again on another: all of it, or nothing of it, was done.

        `unsure`: it finds out by itself that it was done before.
        """
        for pause in _PAUSES:
            try:
                return await worker.submit(work)
            except ConnectionLost:
                await asyncio.sleep(pause)
            except CommitUnknown:
                if not unsure:
                    raise
                await asyncio.sleep(pause)
        return await worker.submit(work)

    async def _catch_up(self, index: SearchIndex) -> None:
        while index.late:
            await self._write(index.advance)


def _faults_unless_gone(driver: Driver, session: str) -> list[VerifyProblem]:
    try:
        return maintenance.find_problems_in(driver, session)
    except SessionNotFound:
        there = session in maintenance.all_ids(driver)
        return [VerifyProblem(session, 0, "is listed, and cannot be looked up")] if there else []


def _checkpoint(driver: Driver) -> None:
    driver.checkpoint()


def _unindex(driver: Driver) -> None:
    driver.unindex(None)
    driver.change("UPDATE sessions SET indexed = forked_at")
