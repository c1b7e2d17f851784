"""A thread that owns one connection and runs jobs in the order in which they were submitted.

Group commit: all jobs that wait when the thread is free share one transaction, each after a savepoint of its own, so
callers share one wait for the disk. A job that fails is rolled back alone. A job whose caller is cancelled still runs,
or never starts.
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
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from tenuto.errors import StoreError
from tenuto.store.driver import Driver

T = TypeVar("T")
log = logging.getLogger("tenuto")
Work: TypeAlias = Callable[[Driver], T]
_BATCH = 256
"""The most jobs in one transaction: more would not save much waiting for the disk, and the first would wait for long."""
_PAUSE = 0.5  # seconds after which background work that failed is tried again


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
