"""The store in a database: one implementation for SQLite and Postgres.

Two threads have a connection each: one writes, one reads. `SqlStore` describes the jobs and awaits them; a `Worker` is a
thread that runs them in the order in which they were submitted.

Group commit: all jobs that wait when the thread is free share one transaction, each after a savepoint of its own, so
callers share one wait for the disk. A job that fails is rolled back alone. A job whose caller is cancelled still runs,
or never starts.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import queue
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from tenuto.core import stored
from tenuto.core.inbox import InboxItem, PostedItem, UnknownItem
from tenuto.core.journal import Entry, EntryDraft
from tenuto.errors import LeaseLost, SessionInUse, SessionNotFound, StoreError
from tenuto.store import entries, maintenance, protocol, search, sessions
from tenuto.store.driver import CommitUnknown, ConnectionLost, Driver, Engine
from tenuto.store.leases import Leases
from tenuto.store.search import SearchIndex
from tenuto.store.sessions import TTL, ListQuery, check_entry_id, check_id, check_name, require_session

T = TypeVar("T")
log = logging.getLogger("tenuto")
Work: TypeAlias = Callable[[Driver], T]
_BATCH = 256
"""The most jobs in one transaction: more would not save much waiting for the disk, and the first would wait for long."""
_PAUSE = 0.5  # seconds after which background work that failed is tried again
_RETRY_PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0)  # seconds to wait before a job is tried again after the connection broke
_INHERITED: list[_ProcessState] = []
"""The threads and connections of the parent process. A forked child neither uses nor closes them."""


# --- the threads -------------------------------------------------------------------------------------------------------


class BackgroundTask(Protocol):
    """Work that is due from time to time and that no caller awaits."""

    next_at: float | None
    """When the work is due, by the monotonic clock; None: no work. `run` sets it again."""

    def run(self, driver: Driver) -> None: ...


@dataclass(slots=True, eq=False)
class Job(Generic[T]):
    work: Work[T] | None
    """None ends the thread."""
    future: asyncio.Future[T] | None = None
    """The future of the caller; None if no caller waits."""
    alone: bool = False
    """Run the work outside of a transaction."""
    value: Any = None
    error: Exception | None = None


class Worker:
    """One thread and its connection. The first job opens the connection; after an error it is opened again."""

    def __init__(
        self, name: str, open: Callable[[], Driver], *, write: bool, background: Sequence[BackgroundTask] = ()
    ) -> None:
        self._open = open
        self._write = write
        self._background = background
        self._queue: queue.SimpleQueue[Job[Any]] = queue.SimpleQueue()
        self._driver: Driver | None = None
        self._stopped = False
        self._failure: BaseException | None = None
        self._wait: float | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Work[T] | None, *, alone: bool = False) -> asyncio.Future[T]:
        """Queue work; return a future of the running loop. `alone` runs it outside of a transaction."""
        if self._stopped:
            raise StoreError("the store is closed")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put(Job(work, future, alone))
        return future

    def submit_nowait(self, work: Work[Any]) -> None:
        """Queue work whose outcome no caller awaits."""
        self._queue.put(Job(work))

    def stop(self) -> asyncio.Future[None]:
        """End the thread and close the connection after all jobs that were submitted before."""
        last: asyncio.Future[None] = self.submit(None, alone=True)
        self._stopped = True
        return last

    def join(self) -> None:
        """Wait until the thread has ended, after the future of `stop` is done."""
        self._thread.join()

    # --- in the thread ---

    def _run(self) -> None:
        running = True
        while running:
            jobs: list[Job[Any]] = []
            with suppress(queue.Empty):  # background work is due
                jobs.append(self._queue.get(timeout=self._wait))
                while len(jobs) < _BATCH and jobs[-1].work is not None and not self._queue.empty():
                    jobs.append(self._queue.get())
            running = not (jobs and jobs[-1].work is None)
            try:
                self._run_jobs(jobs, running)
            except BaseException as exc:  # if this thread ended, its callers would wait forever
                log.exception("the thread of a store failed")
                self._failure, self._wait = exc, None
                with suppress(Exception):
                    self._close()
                self._fail(jobs, exc)
            del jobs  # while the thread waits, it keeps no entry in memory

    def _run_jobs(self, jobs: list[Job[Any]], running: bool) -> None:
        """Run jobs, then background work if the thread continues."""
        if self._failure is not None:
            self._fail(jobs, self._failure)
            return
        for alone, some in groupby(jobs, key=lambda job: job.alone):
            batch = list(some)
            if alone:
                for job in batch:
                    self._run_alone(job)
            else:
                self._run_batch(batch)
            _resolve(batch)
        if not running:
            return
        self._run_background()
        if self._write and self._driver is not None:
            try:
                self._driver.checkpoint()
            except Exception:
                log.debug("a checkpoint failed", exc_info=True)
                self._close()

    def _run_batch(self, jobs: list[Job[Any]]) -> None:
        """Run jobs in one transaction. If it fails, every job fails, each with its own error if it has one."""
        several = len(jobs) > 1
        try:
            driver = self._driver = self._driver or self._open()
            driver.begin(write=self._write)
            for job in jobs:
                assert job.work is not None
                if several:
                    driver.savepoint()
                try:
                    job.value = job.work(driver)
                except Exception as exc:
                    log.debug("a job of a store failed", exc_info=True)
                    job.error = exc  # the caller raises it
                    if several:
                        driver.rollback_to()
            if several or jobs[0].error is None:
                driver.commit()
            else:
                driver.rollback()
        except Exception as exc:
            log.debug("a transaction of a store failed", exc_info=True)
            self._close()
            for job in jobs:
                job.value = None
                if job.error is None:
                    job.error = copy.copy(exc)
                    job.error.__cause__ = exc

    def _run_alone(self, job: Job[Any]) -> None:
        try:
            if job.work is None:
                self._close()
            else:
                self._driver = self._driver or self._open()
                job.value = job.work(self._driver)
        except Exception as exc:
            log.debug("a job of a store failed", exc_info=True)
            job.error = exc

    def _run_background(self) -> None:
        """Run the first work that is due. An error is logged: the work is due again later."""
        now = time.monotonic()
        for task in self._background:
            if task.next_at is not None and task.next_at <= now:
                job: Job[Any] = Job(task.run)
                self._run_batch([job])
                if job.error is not None:
                    task.next_at = now + _PAUSE
                    log.warning("background work of a store failed and is tried again later: %s", job.error)
                break
        times = [task.next_at for task in self._background if task.next_at is not None]
        self._wait = max(min(times) - time.monotonic(), 0) if times else None

    def _fail(self, jobs: list[Job[Any]], cause: BaseException) -> None:
        """Fail jobs after the thread itself failed."""
        for job in jobs:
            if job.work is not None:
                job.value = None
                job.error = StoreError(f"the store failed and must be opened again: {cause}")
                job.error.__cause__ = cause
        _resolve(jobs)

    def _close(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.rollback()
            driver.close()


def _resolve(jobs: list[Job[Any]]) -> None:
    """Give the outcomes to the callers; wake each event loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[Job[Any]]] = {}
    for job in jobs:
        if job.future is not None:
            loops.setdefault(job.future.get_loop(), []).append(job)
    for loop, mine in loops.items():
        with suppress(RuntimeError):  # the loop is closed: no caller waits
            loop.call_soon_threadsafe(set_results, mine)


def set_results(jobs: list[Job[Any]]) -> None:
    """Give the outcomes to the callers, in their event loop."""
    for job in jobs:
        if job.future is None or job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.value)


# --- the store ---------------------------------------------------------------------------------------------------------


class _ProcessState:
    """The parts of a store that belong to one process."""

    def __init__(self, engine: Engine, leases: Leases, worker: Callable[..., Worker]) -> None:
        self.pid = os.getpid()
        self.leases = leases
        self.index = SearchIndex()
        background = (leases, self.index)
        self.writer = worker("tenuto-writer", partial(engine.open, write=True), write=True, background=background)
        self.reader = worker("tenuto-reader", partial(engine.open, write=False), write=False)


class SqlStore(protocol.Store):
    """A store in the database of an engine.

    `now` returns milliseconds since 1970 (default: the clock of the database) and `new_id` ids for forks and inbox items. A
    lease ends after `ttl_ms` unless it is used or renewed; `pid` and `host` identify its holder for others. `worker` runs
    the jobs.
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
        worker: Callable[..., Worker] = Worker,
    ) -> None:
        self._engine = engine
        self._now = now
        self._new_id = new_id or (lambda: sessions.new_id(time.time_ns() // 1_000_000))
        self._ttl_ms = ttl_ms
        self._host = socket.gethostname() if host is None else host
        self._pid = pid
        self._worker = worker
        self._process: _ProcessState | None = None
        self._creation = threading.Lock()
        self._closed = False

    # --- writing ---

    async def lease(
        self,
        session: str,
        *,
        takeover: bool = False,
        owner: str = "",
        generation: int = 0,
        ttl: float | None = None,
    ) -> protocol.Lease:
        check_id(session)
        owner = check_entry_id(owner, "owner") if owner else secrets.token_hex(8)
        if generation < 0 or generation >= 2**63:
            raise ValueError(f"generation is {generation}: use 0 or a higher number")
        if ttl is not None and not 0 < ttl < 10**9:
            raise ValueError(f"ttl is {ttl} s: use a positive number of seconds")
        ttl_ms = None if ttl is None else max(int(ttl * 1000), 1)
        state, acquired = self._state(), list[protocol.Lease]()
        leases = state.leases

        def work(driver: Driver) -> protocol.Lease:
            before = leases.held.get((session, owner))
            lease = leases.acquire(driver, session, owner, takeover=takeover, generation=generation, ttl_ms=ttl_ms)
            if before is None or before.fence != lease.fence:
                acquired.append(lease)
            return lease

        try:
            return await self._with_retry(state.writer, work)
        except SessionInUse:
            raise
        except BaseException:  # also if the caller was cancelled: no caller would release the lease
            state.writer.submit_nowait(lambda driver: leases.abandon(driver, acquired))
            raise

    async def append(
        self,
        lease: protocol.Lease,
        drafts: Sequence[EntryDraft],
        *,
        release: bool = False,
        taking: Sequence[int] = (),
        unless_posted: bool = False,
        budget: protocol.BudgetChange | None = None,
    ) -> protocol.Lease:
        state, drafts = self._state(), tuple(drafts)
        append = partial(entries.append, release=release, taking=taking, unless_posted=unless_posted, budget=budget)

        def work(driver: Driver) -> protocol.Lease:
            state.index.mark(lease.session)
            return append(driver, state.leases, lease, drafts)

        try:
            appended = await self._with_retry(state.writer, work)
        except LeaseLost:
            state.leases.drop(lease)
            raise
        if release:
            state.leases.drop(lease)
        return appended

    async def renew(self, lease: protocol.Lease) -> protocol.Lease:
        return await self._write(partial(self._state().leases.renew, lease=lease))

    async def release(self, lease: protocol.Lease) -> None:
        leases = self._state().leases
        try:
            await self._write(lambda driver: leases.release(driver, lease))
        finally:
            leases.drop(lease)

    async def post(self, session: str, item: InboxItem | UnknownItem, *, id: str = "") -> str:
        id, body = check_entry_id(id or self._new_id()), stored.dump_item(item)
        leases = self._state().leases
        await self._write(lambda driver: entries.post_item(driver, session, id, leases.now(driver), item, body))
        return id

    async def fork(self, session: str, *, at: int | None = None, id: str = "") -> str:
        new = check_id(id or self._new_id())
        state = self._state()
        fork_point, shared = await self._read(lambda driver: maintenance.summary_at(driver, session, at))

        def work(driver: Driver) -> str:
            meta = maintenance.forked_meta(shared, new, state.leases.now(driver))
            return maintenance.fork(driver, session, fork_point, meta)

        return await self._with_retry(state.writer, work, idempotent=False)

    async def rename(self, session: str, name: str) -> None:
        check_name(name)
        await self._write(lambda driver: maintenance.rename(driver, session, name))

    async def archive(self, session: str, *, archived: bool = True) -> None:
        await self._write(lambda driver: maintenance.archive(driver, session, archived))

    async def delete(self, session: str, *, children: bool = False) -> tuple[str, ...]:
        state = self._state()
        deleted = await self._with_retry(
            state.writer, lambda driver: maintenance.delete(driver, state.leases, session, children), idempotent=False
        )
        state.index.forget(deleted)
        return deleted

    # --- reading ---

    async def read(self, session: str, *, after: int = 0, upto: int | None = None) -> list[Entry]:
        def work(driver: Driver) -> list[Entry]:
            row = require_session(driver, session)
            return entries.read(driver, row, after, row.head if upto is None else upto)

        return await self._read(work)

    async def inbox(self, session: str) -> list[PostedItem]:
        return await self._read(lambda driver: entries.read_inbox(driver, session))

    async def posted(self) -> dict[str, int]:
        return dict(await self._read(lambda driver: driver.rows(entries.POSTED)))

    async def budget(self, root: str) -> list[protocol.BudgetMember]:
        return await self._read(partial(self._state().leases.read_budget, root=root))

    async def session(self, session: str) -> protocol.StoredSession:
        leases = self._state().leases
        return await self._read(lambda driver: sessions.read_session(driver, self._engine, leases.now(driver), session))

    async def sessions(
        self,
        *,
        agent: str | None = None,
        status: str | None = None,
        archived: bool | None = False,
        name: str = "",
        directory: str = "",
        metadata: Mapping[str, str] | None = None,
        order: Literal["updated", "created"] = "updated",
        limit: int = 50,
        after: str = "",
    ) -> protocol.SessionPage:
        if status is not None and status not in sessions.STATUSES:
            raise ValueError(f"unknown status {status[:80]!r}: use {', '.join(sessions.STATUSES)}")
        query = ListQuery(agent, status, archived, order, limit, after, name, directory, metadata or {})
        leases = self._state().leases
        return await self._read(lambda driver: sessions.list_sessions(driver, self._engine, leases.now(driver), query))

    async def forks(self, session: str) -> list[str]:
        return await self._read(lambda driver: sessions.forks_of(driver, session))

    async def find(self, text: str, *, agent: str | None = None) -> str:
        leases = self._state().leases
        find = sessions.find_session
        return await self._read(lambda driver: find(driver, self._engine, leases.now(driver), text, agent))

    async def search(self, words: str, *, agent: str | None = None, limit: int = 20) -> list[protocol.SearchHit]:
        index = self._state().index
        await self._read(index.scan)  # other processes write, too, and may end before they index their entries
        try:
            await self._catch_up(index)
        except StoreError as exc:
            log.warning("the newest entries are not searched, because the store cannot be written: %s", exc)
        return await self._read(lambda driver: search.search(driver, words, agent, limit))

    # --- maintenance ---

    async def stats(self) -> protocol.StoreStats:
        return await self._read(lambda driver: maintenance.count_rows(driver, self._engine.name))

    async def verify(
        self, session: str | None = None, *, tell: protocol.ProgressCallback | None = None
    ) -> list[protocol.VerifyProblem]:
        """Find damage. Each session is one job, so that other readers wait for no more than one."""
        if session is not None:
            return await self._read(lambda driver: maintenance.find_problems_in(driver, session))
        problems = await self._read(maintenance.find_problems_of_database)
        all_ids = await self._read(maintenance.all_ids)
        for done, id in enumerate(all_ids, 1):
            with suppress(SessionNotFound):  # it was deleted meanwhile
                problems += await self._read(partial(maintenance.find_problems_in, session=id))
            if tell is not None:
                tell(done, len(all_ids))
        return problems

    async def gc(self) -> int:
        return await self._write(partial(maintenance.delete_unreferenced, leases=self._state().leases))

    async def reindex(self) -> int:
        index = self._state().index
        await self._write(search.clear)
        await self._read(index.scan)
        await self._catch_up(index)
        [[count]] = await self._read(lambda driver: driver.rows(search.COUNT))
        return int(count)

    async def backup(self, to: str) -> None:
        await self._state().reader.submit(lambda driver: driver.backup(to), alone=True)

    async def close(self) -> None:
        state, closed = self._process, self._closed
        self._closed = True
        if closed or state is None or state.pid != os.getpid():
            return
        try:
            if state.leases.held:
                held = list(state.leases.held.values())
                await state.writer.submit(lambda driver: state.leases.abandon(driver, held))
            while state.index.pending:
                await state.writer.submit(state.index.catch_up)
                await state.writer.submit(lambda driver: driver.checkpoint(), alone=True)  # keep the log short
        except StoreError as exc:  # the leases end by themselves, and the entries are indexed later
            log.warning("the store was closed without releasing its leases and updating its search index: %s", exc)
        finally:
            for lease in list(state.leases.held.values()):
                state.leases.drop(lease)
            try:  # one after the other: the connection that is closed last removes the log of SQLite
                await state.writer.stop()
                state.writer.join()
            finally:
                await state.reader.stop()
                state.reader.join()

    # --- jobs ---

    def _state(self) -> _ProcessState:
        """Return the state of this process. A forked child gets its own."""
        state = self._process
        if self._closed:
            raise StoreError("the store is closed")
        if state is not None and state.pid == os.getpid():
            return state
        if state is not None:
            _INHERITED.append(state)
            self._process, self._creation = None, threading.Lock()
        with self._creation:
            if self._process is None:
                pid = os.getpid() if self._pid is None else self._pid
                leases = Leases(self._engine, now=self._now, ttl_ms=self._ttl_ms, pid=pid, host=self._host)
                self._process = _ProcessState(self._engine, leases, self._worker)
            return self._process

    async def _read(self, work: Work[T]) -> T:
        return await self._with_retry(self._state().reader, work)

    async def _write(self, work: Work[T]) -> T:
        return await self._with_retry(self._state().writer, work)

    async def _with_retry(self, worker: Worker, work: Work[T], *, idempotent: bool = True) -> T:
        """Run a job; if the connection breaks, run it again. `idempotent`: also if it may have been committed."""
        for pause in _RETRY_PAUSES:
            try:
                return await worker.submit(work)
            except ConnectionLost:
                await asyncio.sleep(pause)
            except CommitUnknown:
                if not idempotent:
                    raise
                await asyncio.sleep(pause)
        return await worker.submit(work)

    async def _catch_up(self, index: SearchIndex) -> None:
        while index.pending:
            await self._write(index.run)
