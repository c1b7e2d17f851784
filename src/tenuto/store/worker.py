"""A thread that owns one connection and runs jobs in the order in which they were submitted.

Group commit: all jobs that wait when the thread is free share one transaction, each after a savepoint of its own. The
transaction is committed once, so callers that write at the same time share one wait for the disk. A job that fails is
rolled back alone. No caller gets its result before the commit.

A caller awaits a future. If the caller is cancelled, the job still runs, or was never started: no transaction is torn.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from tenuto.errors import StoreError
from tenuto.store.driver import Driver

T = TypeVar("T")
log = logging.getLogger("tenuto")
Work: TypeAlias = Callable[[Driver], T]
_BATCH = 256
"""The most jobs in one transaction: more would not save much waiting for the disk, and the first would wait for long."""


class BackgroundTask(Protocol):
    """Work that is due from time to time and that no caller awaits."""

    def next_at(self) -> float | None:
        """Return when work is due, by the monotonic clock; None: there is no work."""

    def due(self, now: float) -> Work[Any] | None:
        """Return the work that is due."""


class Job(Generic[T]):
    """Work, the future of its caller (None if no caller waits), and its outcome. Work None ends the thread.

    `alone` runs the work outside of a transaction.
    """

    __slots__ = ("alone", "error", "future", "value", "work")

    def __init__(self, work: Work[T] | None, future: asyncio.Future[T] | None = None, *, alone: bool = False) -> None:
        self.work = work
        self.future = future
        self.alone = alone
        self.value: Any = None
        self.error: Exception | None = None

    def run(self, driver: Driver) -> None:
        """Run the work; keep its result or its error."""
        assert self.work is not None
        try:
            self.value = self.work(driver)
        except Exception as exc:
            log.debug("a job of a store failed", exc_info=True)
            self.error = exc  # the caller raises it

    def resolve(self) -> None:
        """Give the outcome to the caller, in its event loop."""
        if self.future is None or self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.value)


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
        self._queue.put(Job(work, future, alone=alone))
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
            jobs = self._next_jobs()
            try:
                running = self._run_once(jobs)
            except BaseException as exc:  # if this thread ended, its callers would wait forever
                log.exception("the thread of a store failed")
                self._failure, self._wait = exc, None
                self._attempt(self._close)
                running = _fail(jobs, exc)
            del jobs  # while the thread waits, it keeps no entry in memory

    def _next_jobs(self) -> list[Job[Any]]:
        """Wait for jobs; return those that wait, or none if background work is due."""
        try:
            jobs = [self._queue.get(timeout=self._wait)]
        except queue.Empty:
            return []
        while len(jobs) < _BATCH and jobs[-1].work is not None and not self._queue.empty():
            jobs.append(self._queue.get())
        return jobs

    def _run_once(self, jobs: list[Job[Any]]) -> bool:
        """Run jobs, then background work; return whether the thread continues."""
        if self._failure is not None:
            return _fail(jobs, self._failure)
        for alone, some in groupby(jobs, key=lambda job: job.alone):
            batch = list(some)
            if alone:
                self._run_alone(batch)
            else:
                self._run_batch(batch)
            _resolve(batch)
        if jobs and jobs[-1].work is None:
            return False
        self._background_work()
        if self._write and self._driver is not None and self._attempt(self._driver.checkpoint) is not None:
            self._close()
        return True

    def _run_batch(self, jobs: list[Job[Any]]) -> None:
        """Run jobs in one transaction. If it fails, every job fails, each with its own error if it has one."""
        error = self._attempt(lambda: self._transaction(jobs))
        if error is None:
            return
        self._close()
        for job in jobs:
            job.value = None
            if job.error is None:
                job.error = copy.copy(error)
                job.error.__cause__ = error

    def _transaction(self, jobs: list[Job[Any]]) -> None:
        several = len(jobs) > 1
        driver = self._opened()
        driver.begin(write=self._write)
        for job in jobs:
            if several:
                driver.savepoint()
            job.run(driver)
            if several and job.error is not None:
                driver.rollback_to()
        if several or jobs[0].error is None:
            driver.commit()
        else:
            driver.rollback()

    def _run_alone(self, jobs: list[Job[Any]]) -> None:
        for job in jobs:
            if job.work is None:
                self._close()
                continue
            error = self._attempt(partial(self._run_one, job))
            job.error = job.error or error

    def _run_one(self, job: Job[Any]) -> None:
        job.run(self._opened())

    def _background_work(self) -> None:
        """Run the first work that is due. An error is logged: the work is due again later."""
        now = time.monotonic()
        work = next(filter(None, (task.due(now) for task in self._background)), None)
        if work is not None:
            job: Job[Any] = Job(work)
            self._run_batch([job])
            if job.error is not None:
                log.warning("background work of a store failed and is tried again later: %s", job.error)
        times = [at for at in (task.next_at() for task in self._background) if at is not None]
        self._wait = max(min(times) - time.monotonic(), 0) if times else None

    def _attempt(self, action: Callable[[], object]) -> Exception | None:
        """Run an action of the connection; return its error."""
        try:
            action()
        except Exception as exc:
            log.debug("the connection of a store failed", exc_info=True)
            return exc  # the callers raise it
        return None

    def _opened(self) -> Driver:
        if self._driver is None:
            self._driver = self._open()
        return self._driver

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
            loop.call_soon_threadsafe(_resolve_each, mine)


def _resolve_each(jobs: list[Job[Any]]) -> None:
    for job in jobs:
        job.resolve()


def _fail(jobs: list[Job[Any]], cause: BaseException) -> bool:
    """Fail jobs after the thread itself failed; return whether the thread continues."""
    for job in jobs:
        if job.work is not None:
            job.value = None
            job.error = StoreError(f"the store failed and must be opened again: {cause}")
            job.error.__cause__ = cause
    _resolve(jobs)
    return not (jobs and jobs[-1].work is None)
