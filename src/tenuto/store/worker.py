"""A thread that owns one connection, and does what it is given in the order in which it was given.

**Group commit.** Whatever waits when the thread is free is done in one transaction, each piece behind a mark of its own,
and committed once: callers who write at the same moment share one wait for the disk. A piece that fails is undone alone.
Nobody is answered before the commit.

A caller awaits a future. One that is cancelled stops waiting; what it gave is done all the same, or was not begun: no
transaction is ever torn.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import queue
import threading
from collections.abc import Callable
from itertools import groupby
from types import TracebackType
from typing import Any, Protocol, TypeAlias, TypeVar

from tenuto.errors import StoreError
from tenuto.store.answers import Answer
from tenuto.store.bells import Bell, Bells
from tenuto.store.driver import Driver

__all__ = ["Duties", "Work", "Worker"]

T = TypeVar("T")
log = logging.getLogger("tenuto")
Work: TypeAlias = Callable[[Driver], T]
_MOST = 256
"""How many pieces share a transaction at most: a wait for the disk is small against as many, and an answer is not late."""
_SETTLE = 16
"""After as many rounds the driver sees to what is due from time to time."""


class Duties(Protocol):
    """What is to be done from time to time, without anybody asking."""

    def wait(self) -> float | None:
        """Return in how many seconds something will be due, if nothing is asked before; None if nothing will."""

    def due(self) -> Work[Any] | None:
        """Return what is due now."""


class _Job:
    """A piece of work, who waits for it, and how it ended. No work is the last: the thread ends there."""

    __slots__ = ("alone", "bell", "error", "future", "value", "work")

    def __init__(
        self,
        work: Work[Any] | None,
        alone: bool = False,
        bell: Bell[list[_Job]] | None = None,
        future: Answer[Any] | None = None,
    ) -> None:
        self.work = work
        self.alone = alone
        self.bell = bell
        self.future = future
        self.value: Any = None
        self.error: Exception | None = None


class _Caught:
    """Holds the error that ended its block: whatever it is, it is the caller's, and not this thread's to die of."""

    error: Exception | None = None

    def __enter__(self) -> _Caught:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Exception):
            self.error = error
        return self.error is not None


class Worker:
    """One thread and its connection, which is opened by the first piece of work and again after it broke."""

    def __init__(self, name: str, open: Callable[[], Driver], *, write: bool, duties: Duties | None = None) -> None:
        self._open = open
        self._write = write
        self._duties = duties
        self._queue: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._driver: Driver | None = None
        self._stopped = False
        self._rounds = 0
        self._done: _Job | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, work: Work[T], *, alone: bool = False) -> asyncio.Future[T]:
        """Have something done. `alone`: outside of any transaction; it begins and ends its own."""
        if self._stopped:
            raise StoreError("the store is closed")
        loop = asyncio.get_running_loop()
        future: Answer[T] = Answer(loop)
        self._queue.put(_Job(work, alone, _BELLS.of(loop), future))
        return future

    def post(self, work: Work[Any]) -> None:
        """Have something done that nobody waits for."""
        self._queue.put(_Job(work))

    def stop(self) -> asyncio.Future[None]:
        """End the thread and close the connection, when all that was given before is done."""
        if self._stopped:
            raise StoreError("the store is closed")
        self._stopped = True
        loop = asyncio.get_running_loop()
        future: Answer[None] = Answer(loop)
        self._queue.put(_Job(None, True, _BELLS.of(loop), future))
        return future

    def join(self) -> None:
        """Wait for the thread to be gone, once `stop` has answered."""
        self._thread.join()

    # --- in the thread ---

    def _run(self) -> None:
        while self._round():
            pass

    def _round(self) -> bool:
        """Do what there is to do; tell whether there may be more. In between, this thread holds on to nothing of it."""
        wait = None if self._duties is None else self._duties.wait()
        self._tell()
        if wait == 0:
            self._see_to_it()
        jobs = self._taken(wait)
        if len(jobs) == 1 and not jobs[0].alone:
            self._lone(jobs[0])
            self._done = jobs[0]
        else:
            self._apart(jobs)
        self._rounds += 1
        if not self._rounds % _SETTLE and self._write and self._driver is not None:
            self._tell()
            self._settle(self._driver)
        return not jobs or jobs[-1].work is not None

    def _tell(self) -> None:
        """Answer who gave a lone piece, just before this thread sleeps: who is woken needs the lock that it holds."""
        job, self._done = self._done, None
        if job is not None and job.bell is not None:
            job.bell.ring([job])

    def _lone(self, job: _Job) -> None:
        """Do one piece in a transaction of its own. It needs no mark: what goes wrong with it goes wrong with the whole."""
        assert job.work is not None
        at_it = False
        with _Caught() as caught:
            driver = self._driver or self._opened()
            driver.begin(write=self._write)
            at_it = True
            job.value = job.work(driver)
            at_it = False
            driver.commit()
        if caught.error is not None:
            job.value, job.error = None, caught.error
            with _Caught() as worse:
                if at_it:
                    driver.rollback()
            if not at_it or worse.error is not None:
                self._close()

    def _taken(self, wait: float | None) -> list[_Job]:
        """Wait for something to do, and take all there is; nothing if a duty comes first."""
        try:
            jobs = [self._queue.get(timeout=wait)]
        except queue.Empty:
            return []
        while not self._queue.empty() and len(jobs) < _MOST and jobs[-1].work is not None:
            jobs.append(self._queue.get())
        return jobs

    def _apart(self, jobs: list[_Job]) -> None:
        for alone, some in groupby(jobs, key=lambda job: job.alone):
            if alone:
                self._each(list(some))
            else:
                self._together(list(some))

    def _together(self, jobs: list[_Job]) -> None:
        error = self._transaction(jobs)
        if error is not None:
            for job in jobs:
                job.value, job.error = None, copy.copy(error)
                job.error.__cause__ = error
        _answer(jobs)

    def _transaction(self, jobs: list[_Job]) -> Exception | None:
        """Do all of it, or nothing: return what went wrong with the whole."""
        several = len(jobs) > 1
        with _Caught() as caught:
            driver = self._opened()
            driver.begin(write=self._write)
            for job in jobs:
                if several:
                    driver.save()
                _do(job, driver)
                if several and job.error is not None:
                    _undo(driver, job.error)
            if several or jobs[0].error is None:
                driver.commit()
            else:
                driver.rollback()
        if caught.error is not None:
            self._close()
        return caught.error

    def _each(self, jobs: list[_Job]) -> None:
        for job in jobs:
            if job.work is None:
                self._close()
            else:
                with _Caught() as caught:
                    _do(job, self._opened())
                job.error = job.error or caught.error
        _answer(jobs)

    def _see_to_it(self) -> None:
        """Duties have nobody who could be told of an error: they are due again, or somebody's next write says it."""
        work = self._duties.due() if self._duties is not None else None
        if work is not None:
            job = _Job(work)
            error = self._transaction([job]) or job.error
            if error is not None:
                log.warning("a store's own work failed, and will be due again: %s", error)

    def _settle(self, driver: Driver) -> None:
        with _Caught() as caught:
            driver.settle()
        if caught.error is not None:
            self._close()

    def _opened(self) -> Driver:
        if self._driver is None:
            self._driver = self._open()
        return self._driver

    def _close(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.rollback()
            driver.close()


def _do(job: _Job, driver: Driver) -> None:
    assert job.work is not None
    with _Caught() as caught:
        job.value = job.work(driver)
    job.error = caught.error


def _undo(driver: Driver, error: Exception) -> None:
    """Go back to the mark. If even that fails (a full disk may end the whole transaction), it is for the same reason."""
    with _Caught() as caught:
        driver.undo()
    if caught.error is not None:
        raise error


def _answer(jobs: list[_Job]) -> None:
    """Wake each event loop once, however many of its callers are answered."""
    bells: dict[Bell[list[_Job]] | None, list[_Job]] = {}
    for job in jobs:
        bells.setdefault(job.bell, []).append(job)
    for bell, mine in bells.items():
        if bell is not None:
            bell.ring(mine)


def _set(jobs: list[_Job]) -> None:
    for at, job in enumerate(jobs, 1):
        future = job.future
        assert future is not None
        try:
            if job.error is None:
                future.give(job.value)
            else:
                future.refuse(job.error)
        except BaseException:  # who was answered ends the program; the others are answered if the loop goes on
            future.get_loop().call_soon(_set, jobs[at:])
            raise


_BELLS: Bells[list[_Job]] = Bells(_set)
