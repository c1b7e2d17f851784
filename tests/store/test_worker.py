"""The writer thread: one commit for all waiting jobs, an error only for the job that failed."""

from __future__ import annotations

import asyncio
import functools
import os
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from tenuto.errors import LeaseLost, StoreError
from tenuto.store.search import SearchIndex
from tenuto.store.sql_store import SqlStore
from tenuto.store.sqlite import SqliteDriver, SqliteEngine
from tenuto.testing.store_suite.helpers import answer, draft, outcome, question, same, write


class CountingCursor(sqlite3.Cursor):
    """A real cursor that records how transactions end, and fails at a commit on demand."""

    statements: list[str] = []
    fail = False

    def execute(self, sql, *args):
        if sql in ("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK", "ROLLBACK TO mark"):
            CountingCursor.statements.append(sql)
        if sql == "COMMIT" and CountingCursor.fail:
            CountingCursor.fail = False
            super().execute("ROLLBACK")
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
            raise error
        return super().execute(sql, *args)


class CountingConnection(sqlite3.Connection):
    """A real connection with such cursors."""

    def cursor(self):
        return super().cursor(CountingCursor)


@pytest.fixture
def engine(tmp_path):
    CountingCursor.statements.clear()
    CountingCursor.fail = False
    return SqliteEngine(tmp_path / "sessions.db", functools.partial(sqlite3.connect, factory=CountingConnection))


def with_engine(action):
    """Run a coroutine function on its own store as a test."""

    @functools.wraps(action)
    def test(engine):
        async def tell():
            async with SqlStore(engine) as store:
                await action(store)

        asyncio.run(tell())

    del test.__wrapped__  # otherwise pytest requests its arguments as fixtures
    return test


class BusyWriter:
    """Blocks the writer thread until the block ends, so all jobs wait."""

    def __init__(self, store):
        self.free = threading.Event()
        self.began = threading.Event()
        self.worker = store._state().writer

    def work(self, driver):
        self.began.set()
        assert self.free.wait(200)

    async def __aenter__(self):
        self.done = self.worker.submit(self.work, alone=True)
        assert await asyncio.to_thread(self.began.wait, 200)
        CountingCursor.statements.clear()

    async def __aexit__(self, *_):
        self.free.set()
        await self.done


async def start_all(*coroutines):
    """Start all coroutines, and run each until it waits."""
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


# --- group commit -----------------------------------------------------------------------------------------------------


@with_engine
async def test_waiting_jobs_share_a_commit(store):
    leases = [await store.lease(f"s{number}") for number in range(50)]
    drafts = [draft(question(lease.session)) for lease in leases]
    async with BusyWriter(store):
        tasks = await start_all(*(store.append(lease, [one]) for lease, one in zip(leases, drafts, strict=True)))
    done = await asyncio.gather(*tasks)

    assert CountingCursor.statements == ["BEGIN IMMEDIATE", "COMMIT"]
    assert [lease.head for lease in done] == [1] * 50
    for lease, one in zip(leases, drafts, strict=True):
        assert same(await store.read(lease.session), [one])
    assert await store.verify() == []


@with_engine
async def test_failed_job_is_undone_alone(store):
    """The jobs before and after it are written, but nothing of the failed one."""
    good = [await store.lease(f"good{number}") for number in range(4)]
    lost = await store.lease("lost")
    await store.lease("lost", takeover=True)
    first = draft(question())
    twice = await store.append(await store.lease("twice"), [first])
    await store.search("Oslo")  # a long transaction that starts no maintenance
    async with BusyWriter(store):
        appends = [
            (good[0], [draft(question())]),
            (lost, [draft(question())]),
            (good[1], [draft(question())]),
            (twice, [draft(answer()), first]),  # fails at its second entry, after the first one moved the head
            (good[2], [draft(question())]),
            (good[3], [draft(question())]),
        ]
        tasks = await start_all(*(store.append(lease, drafts) for lease, drafts in appends))
    done, failed = outcome(await asyncio.gather(*tasks, return_exceptions=True))

    assert CountingCursor.statements == ["BEGIN IMMEDIATE", "ROLLBACK TO mark", "ROLLBACK TO mark", "COMMIT"]
    assert (done, [type(error) for error in failed]) == (4, [LeaseLost, StoreError])
    for lease, drafts in appends:
        if lease in good:
            assert same(await store.read(lease.session), drafts)
    assert same(await store.read("twice"), [first])
    assert (await store.append(twice, [draft(answer())])).head == 2
    assert await store.verify() == []


@with_engine
async def test_two_appends_to_one_session_at_once(store):
    """The second one starts at the head after the first."""
    lease = await store.lease("s")
    mine, other = draft(question()), draft(answer())
    async with BusyWriter(store):
        tasks = await start_all(store.append(lease, [mine]), store.append(lease, [other]), store.append(lease, [mine]))
    done, failed = outcome(await asyncio.gather(*tasks, return_exceptions=True))

    assert (done, len(failed)) == (2, 1)
    assert same(await store.read("s"), [mine])


@with_engine
async def test_failed_commit_fails_all_its_jobs(store):
    """No job is acknowledged. The connection is replaced, and sending the entries again works."""
    leases = [await store.lease(f"s{number}") for number in range(3)]
    drafts = [draft(question()) for _ in leases]
    async with BusyWriter(store):
        tasks = await start_all(*(store.append(lease, [one]) for lease, one in zip(leases, drafts, strict=True)))
        CountingCursor.fail = True
    _, failed = outcome(await asyncio.gather(*tasks, return_exceptions=True))

    assert [type(error) for error in failed] == [StoreError] * 3
    assert len({*failed}) == 3  # each has its own error
    assert "disk reports an error" in str(failed[0])
    again = [await store.append(lease, [one]) for lease, one in zip(leases, drafts, strict=True)]
    assert [lease.head for lease in again] == [1, 1, 1]
    assert await store.verify() == []


@with_engine
async def test_any_error_is_raised_for_the_caller(store):
    def wrong(driver):
        return {}["nothing"]

    worker = store._state().writer
    async with BusyWriter(store):
        tasks = await start_all(worker.submit(wrong), worker.submit(lambda driver: 1), worker.submit(wrong, alone=True))
    done = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(each) for each in done] == [KeyError, int, KeyError]
    assert len(await write(store, "s")) > 0


# --- cancelled callers -----------------------------------------------------------------------------------------------


@with_engine
async def test_cancelled_append_is_complete(store):
    """It was submitted before, so it is executed; the caller's next append continues after it."""
    lease = await store.lease("s")
    drafts = [draft(question()), draft(answer())]
    async with BusyWriter(store):
        [task] = await start_all(store.append(lease, drafts))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    again = await store.append(lease, drafts)

    assert again.head == 2
    assert same(await store.read("s"), drafts)
    assert [hit.seq for hit in await store.search("Oslo")] == [1]


@with_engine
async def test_cancelled_lease_is_released(store):
    async with BusyWriter(store):
        [task] = await start_all(store.lease("s"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert (await store.lease("s")).head == 0


def test_store_works_on_several_event_loops(engine):
    store = SqlStore(engine)
    lease = asyncio.run(store.lease("s"))
    lease = asyncio.run(store.append(lease, [draft(question())]))

    async def leave():
        store._state().writer.submit(lambda driver: None)  # the loop ends before the answer

    asyncio.run(leave())
    assert asyncio.run(store.append(lease, [draft(answer())])).head == 2
    asyncio.run(store.close())


def test_closing_ends_thread_and_connections(engine):
    async def tell():
        store = SqlStore(engine)
        await write(store, "s")
        named = {thread.name for thread in threading.enumerate()}
        await asyncio.gather(store.close(), store.close())
        for action in (store.sessions(), store.lease("s"), store.search("Oslo")):
            with pytest.raises(StoreError, match="closed"):
                await action
        return named

    assert asyncio.run(tell()) >= {"tenuto-writer", "tenuto-reader"}
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tenuto-") and thread.is_alive()]


# --- maintenance -----------------------------------------------------------------------------------------------------


def test_lease_is_extended_while_its_holder_lives(engine):
    async def tell():
        async with SqlStore(engine, ttl_ms=90) as store:
            lease = await store.lease("s")
            times = {lease.until}
            while len(times) < 4:
                [[until]] = await store._read(lambda driver: driver.rows("SELECT until FROM sessions"))
                times.add(until)
            return await store.append(lease, [draft(question())])

    assert asyncio.run(tell()).head == 1


def test_lease_is_extended_while_others_are_written(engine):
    """Also if the writer thread is never idle."""

    async def tell():
        async with SqlStore(engine, ttl_ms=1200) as store:
            idle, busy = await store.lease("idle"), await store.lease("busy")
            times = set()
            while len(times) < 3:
                busy = await store.append(busy, [draft(question())])
                [[until]] = await store._read(
                    lambda driver: driver.rows("SELECT until FROM sessions WHERE id = 'idle'")
                )
                times.add(until)
            return await store.append(idle, [draft(question())])

    assert asyncio.run(tell()).head == 1


def test_lease_is_extended_during_slow_jobs(engine):
    """After a few slow jobs: the time decides, not the number of jobs."""

    async def tell():
        async with SqlStore(engine, ttl_ms=600) as store:
            lease = await store.lease("s")
            times = set()
            for _ in range(32):
                await store._write(lambda driver: time.sleep(0.05))
                [[until]] = await store._read(lambda driver: driver.rows("SELECT until FROM sessions"))
                times.add(until)
            assert len(times) > 2
            return await store.append(lease, [draft(question())])

    assert asyncio.run(tell()).head == 1


def test_log_stays_short_during_many_writes(tmp_path):
    path = tmp_path / "sessions.db"

    async def tell():
        async with SqlStore(SqliteEngine(path)) as store:
            lease, longest = await store.lease("s"), 0
            drafts = [draft(question("x" * 60_000)) for _ in range(300)]
            for one in drafts:
                lease = await store.append(lease, [one])
                longest = max(longest, path.with_name("sessions.db-wal").stat().st_size)
            return longest

    assert asyncio.run(tell()) < 8_000_000 < path.stat().st_size


def test_written_entries_are_indexed_when_idle(engine):
    """Read-only searches find them, too."""

    async def tell():
        async with SqlStore(engine) as store:
            await write(store, "s", question("umbrella"))
            while not await store._read(lambda driver: driver.search(["umbrella"], 1)):
                await asyncio.sleep(0.01)

    asyncio.run(tell())


# --- fork -------------------------------------------------------------------------------------------------------------

FORK = """
    import asyncio, os, sys, warnings
    from tenuto.errors import SessionInUse
    from tenuto.store.sql_store import SqlStore
    from tenuto.store.sqlite import SqliteEngine
    from tenuto.testing.store_suite.helpers import draft, question

    warnings.simplefilter("ignore", DeprecationWarning)
    store = SqlStore(SqliteEngine(sys.argv[1]))
    lease = asyncio.run(store.append(asyncio.run(store.lease("parents")), [draft(question())]))

    async def childs():
        assert len(await store.read("parents")) == 1
        try:
            await store.lease("parents")
            raise AssertionError("a child is not its parent")
        except SessionInUse as error:
            assert error.pid == os.getppid()
        mine = await store.append(await store.lease("childs"), [draft(question())])
        assert mine.head == 1
        await store.close()

    child = os.fork()
    if not child:
        asyncio.run(childs())
        sys.exit(0)  # as an interpreter ends, with everything that it inherited
    assert os.waitpid(child, 0)[1] == 0

    async def parents():
        assert (await store.append(lease, [draft(question())])).head == 2
        assert {shown.id for shown in (await store.sessions()).sessions} == {"parents", "childs"}
        assert await store.verify() == []
        await store.close()

    asyncio.run(parents())
    print("whole")
"""


def test_forked_process_opens_its_own_connections(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FORK), str(tmp_path / "sessions.db")],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert (done.stdout, done.stderr) == ("whole\n", "")


# --- failures ---------------------------------------------------------------------------------------------------------


def test_innocent_job_gets_the_error_of_the_rollback(engine, monkeypatch):
    """The failed job keeps its own error; the jobs that share its transaction keep their leases."""
    undo, failures = SqliteDriver.rollback_to, [StoreError("disk full: ROLLBACK TO failed")]

    def failing(self):
        if failures:
            raise failures.pop()
        undo(self)

    async def play():
        async with SqlStore(engine) as store, SqlStore(engine) as other:
            lost = await store.append(await store.lease("lost"), [draft(question())])
            held = await store.append(await store.lease("held"), [draft(question())])
            await other.lease("lost", takeover=True)
            monkeypatch.setattr(SqliteDriver, "rollback_to", failing)
            async with BusyWriter(store):
                tasks = await start_all(
                    store.append(lost, [draft(question())]),
                    store.append(held, [draft(question())]),
                    store.rename("held", "name"),
                )
            done = await asyncio.gather(*tasks, return_exceptions=True)
            again = await store.append(held, [draft(question())])
            return [(type(error), str(error)) for error in done], again.head

    (first, second, third), head = asyncio.run(play())

    assert first[0] is LeaseLost
    assert second == third == (StoreError, "disk full: ROLLBACK TO failed")
    assert head == 2


def test_every_job_fails_when_the_thread_failed(engine, monkeypatch):
    """Neither current nor later jobs wait forever."""

    def wrong(self):
        raise ZeroDivisionError("a mistake in background work")

    async def play():
        store = SqlStore(engine)
        lease = await store.lease("s")
        monkeypatch.setattr(SearchIndex, "next_at", property(wrong, lambda *_: None), raising=False)
        errors = []
        async with asyncio.timeout(60):
            while len(errors) < 3:
                try:
                    lease = await store.append(lease, [draft(question())])
                except StoreError as error:
                    errors.append(str(error))
            await store.close()
        return errors

    errors = asyncio.run(play())

    assert all("must be opened again" in error and "a mistake" in error for error in errors)
    assert not [thread for thread in threading.enumerate() if thread.name == "tenuto-writer"]


def test_one_loop_is_woken_once_for_a_batch(engine):
    async def play():
        async with SqlStore(engine) as store:
            loop = asyncio.get_running_loop()
            calls, wake = [], loop.call_soon_threadsafe
            loop.call_soon_threadsafe = lambda *args, **options: (calls.append(args), wake(*args, **options))[1]
            worker = store._state().writer
            async with BusyWriter(store):
                jobs = [worker.submit(lambda driver, n=n: n) for n in range(20)]
                calls.clear()
            del loop.call_soon_threadsafe
            return await asyncio.gather(*jobs), len(calls)

    values, wakes = asyncio.run(play())

    assert values == list(range(20))
    assert wakes <= 2  # for the job that blocked the thread, and for the batch
