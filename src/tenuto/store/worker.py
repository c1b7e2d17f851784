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
import time
from collections.abc import Callable
from itertools import groupby
from types import TracebackType
from typing import Any, Protocol, TypeAlias, TypeVar

from tenuto.errors import StoreError
from tenuto.store.bells import Bell, bell_of
from tenuto.store.driver import Driver
from tenuto.store.jobs import Job

__all__ = ["Duties", "Work", "Worker"]

T = TypeVar("T")
log = logging.getLogger("tenuto")
Work: TypeAlias = Callable[[Driver], T]
_MOST = 256
"""How many pieces share a transaction at most: a wait for the disk is small against as many, and an answer is not late."""
_LOOK = 64
"""After as many rounds, or after a nap's time, it is asked what is due, however busy it is."""


class Duties(Protocol):
    """What is to be done from time to time, without anybody asking."""

    nap: float
    """How many seconds may pass after a piece of work before it is asked what is due. It is not asked after each: that would
    cost every append.
    """

    def wait(self) -> float | None:
        """Return in how many seconds something will be due, if nothing is asked before; None if nothing will."""

    def due(self) -> Work[Any] | None:
        """Return what is due now."""


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
        self._queue: queue.SimpleQueue[Job[Any]] = queue.SimpleQueue()
        self._bell: Bell | None = None
        self._driver: Driver | None = None
        self._stopped = False
        self._rounds = 0
        self._lone: Job[Any] | None = None
        self._undone = False
        self._nap = None if duties is None else duties.nap
        self._wait: float | None = None
        self._late = float("inf") if duties is None else 0.0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, work: Work[T] | None, *, alone: bool = False) -> Job[T]:
        """Have something done; await what this returns. `alone`: outside of any transaction; it begins and ends its own."""
        if self._stopped:
            raise StoreError("the store is closed")
        loop = asyncio.get_running_loop()
        bell = self._bell
        if bell is None or bell.loop() is not loop:
            bell = self._bell = bell_of(loop)
        job = Job(work, bell, bell.loop, alone)
        self._queue.put(job)
        return job

    def post(self, work: Work[Any]) -> None:
        """Have something done that nobody waits for."""
        self._queue.put(Job(work))

    def stop(self) -> Job[None]:
        """End the thread and close the connection, when all that was given before is done."""
        last: Job[None] = self.put(None, alone=True)
        self._stopped = True
        return last

    def join(self) -> None:
        """Wait for the thread to be gone, once `stop` has answered."""
        self._thread.join()

    # --- in the thread ---

    def _run(self) -> None:
        going = True
        while going:
            with _Caught() as caught:
                while self._round():
                    pass
                going = False
            if caught.error is not None:
                self._failed(caught.error)

    def _round(self) -> bool:
        """Do what there is to do; tell whether there may be more. In between, this thread holds on to nothing of it."""
        if self._lone is not None:
            self._tell()
        job = self._next()
        if job is None:
            self._see_to_it()
            return True
        self._wait = self._nap
        more = True
        if job.alone or not self._queue.empty():
            more = self._several(job)
        else:
            self._do(job)
        self._rounds += 1
        if not self._rounds % _LOOK or time.monotonic() > self._late:
            self._look()
        return more

    def _next(self) -> Job[Any] | None:
        """Wait for something to do; None if it is time to see to what is due."""
        try:
            return self._queue.get(timeout=self._wait)
        except queue.Empty:
            return None

    def _tell(self) -> None:
        """Answer who gave a lone piece, just before this thread sleeps: who is woken needs the lock that it holds."""
        job, self._lone = self._lone, None
        if job is not None and job.bell is not None:
            job.bell.ring(job)

    def _do(self, job: Job[Any]) -> None:
        """Do a lone piece in a transaction of its own. It needs no mark: what goes wrong with it goes wrong with the whole.

        An error ends the round (`_failed`): this is asked for every append, and a block around it for its errors has its
        price.
        """
        assert job.work is not None
        self._lone = job
        driver = self._driver or self._opened()
        driver.begin(write=self._write)
        try:
            job.value = job.work(driver)
        except BaseException:
            self._undone = True
            driver.rollback()
            raise
        driver.commit()

    def _failed(self, error: Exception) -> None:
        """See to it that the next round can begin, after a lone piece failed. It is its giver's error."""
        job, undone, self._undone = self._lone, self._undone, False
        if job is None:
            raise error
        job.value, job.error = None, error
        if not undone:
            self._close()

    def _several(self, first: Job[Any]) -> bool:
        """Do all there is, up to as many as may share a transaction; tell whether there may be more."""
        jobs = [first]
        while not self._queue.empty() and len(jobs) < _MOST and jobs[-1].work is not None:
            jobs.append(self._queue.get())
        for alone, some in groupby(jobs, key=lambda job: job.alone):
            if alone:
                self._each(list(some))
            else:
                self._together(list(some))
        return jobs[-1].work is not None

    def _together(self, jobs: list[Job[Any]]) -> None:
        error = self._transaction(jobs)
        if error is not None:
            for job in jobs:
                job.value, job.error = None, copy.copy(error)
                job.error.__cause__ = error
        _answer(jobs)

    def _transaction(self, jobs: list[Job[Any]]) -> Exception | None:
        """Do all of it, or nothing: return what went wrong with the whole."""
        several = len(jobs) > 1
        with _Caught() as caught:
            driver = self._opened()
            driver.begin(write=self._write)
            for job in jobs:
                if several:
                    driver.save()
                _done(job, driver)
                if several and job.error is not None:
                    _undo(driver, job.error)
            if several or jobs[0].error is None:
                driver.commit()
            else:
                driver.rollback()
        if caught.error is not None:
            self._close()
        return caught.error

    def _each(self, jobs: list[Job[Any]]) -> None:
        for job in jobs:
            if job.work is None:
                self._close()
            else:
                with _Caught() as caught:
                    _done(job, self._opened())
                job.error = job.error or caught.error
        _answer(jobs)

    def _see_to_it(self) -> None:
        """Do what is due, and find out for how long nothing will be.

        Duties have nobody who could be told of an error: they are due again, or somebody's next write says it.
        """
        duties = self._duties
        if duties is None:
            return
        work = duties.due() if duties.wait() == 0 else None
        if work is not None:
            job = Job(work)
            error = self._transaction([job]) or job.error
            if error is not None:
                log.warning("a store's own work failed, and will be due again: %s", error)
        self._late = time.monotonic() + duties.nap
        self._wait = duties.wait()

    def _look(self) -> None:
        """See to what is due from time to time, and would never be if this thread had always something to do."""
        self._tell()
        self._see_to_it()
        if not self._write or self._driver is None:
            return
        with _Caught() as caught:
            self._driver.settle()
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


def _done(job: Job[Any], driver: Driver) -> None:
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


def _answer(jobs: list[Job[Any]]) -> None:
    """Wake each event loop once, however many of its callers are answered."""
    bells: dict[Bell | None, list[Job[Any]]] = {}
    for job in jobs:
        bells.setdefault(job.bell, []).append(job)
    for bell, mine in bells.items():
        if bell is not None:
            bell.ring(*mine)
