"""Power failures, disk errors and kills at any write: acknowledged entries exist.

The store writes once to a disk that logs its operations (`faulty_disk`); then the files after a crash at each chosen
moment are restored and opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import tempfile
from functools import partial
from pathlib import Path

import apsw
import pytest

from store.faulty_disk import HOWS, Disk, error_of
from tenuto.errors import SessionInUse, SessionNotFound, StoreCorrupt, StoreError
from tenuto.store import sqlite
from tenuto.store.protocol import VerifyProblem
from tenuto.store.sql_store import SqlStore
from tenuto.store.sqlite import SqliteEngine
from tenuto.testing.store_suite.helpers import draft, question, same, write

SEED = 5
POINTS = 104
NAME = "sessions.db"
SESSIONS = ("a", "b", "c")


@pytest.fixture
def folder():
    """Return a directory in memory if possible: the log of the faulty disk determines which data is safe."""
    quick = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="tenuto-", dir=quick if quick.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture
def disk(folder, monkeypatch):
    """Return a faulty disk with a store that copies its WAL file often."""
    monkeypatch.setattr(sqlite, "_LOG_BYTES", 100_000)
    asyncio.run(_create_store(folder / "before"))
    with contextlib.closing(_Closing(Disk(folder / "before"))) as closing:
        yield closing.disk


class _Closing:
    def __init__(self, disk):
        self.disk = disk

    def close(self):
        self.disk.unregister()


async def _create_store(folder):
    async with SqlStore(SqliteEngine(folder / NAME)) as store:
        await write(store, "a", question("Before"))
        await store.delete("a")


class Writer:
    """Writes entries, and records the requested and the acknowledged ones with the length of the disk log."""

    def __init__(self, disk, chance):
        self.disk = disk
        self.chance = chance
        self.requested: dict[str, list] = {}
        self.acknowledged: list[tuple[int, str, int]] = []
        self.refused: list[str] = []

    def store(self):
        return SqlStore(SqliteEngine(self.disk.folder / NAME, self.disk.connect))

    async def work(self, times=8):
        """Write in two rounds, each with its own store: three sessions at once, large bodies, a fork."""
        for round in range(2):
            async with self.store() as store:
                await asyncio.gather(*(self.append(store, session, times) for session in SESSIONS))
                await self.fork(store, "a", f"fork-{round}")
                await self.append(store, f"fork-{round}", 2)

    async def append(self, store, session, times):
        lease = await self.retry(lambda: store.lease(session))
        requested = self.requested.setdefault(session, [])
        for _ in range(times):
            drafts = self.drafts()
            requested += drafts
            lease = await self.retry(partial(store.append, lease, drafts))
            self.acknowledged.append((len(self.disk.log), session, lease.head))
        await self.retry(lambda: store.release(lease))

    def drafts(self):
        size = self.chance.choice((10, 500, 500, 3000, 3000, 9000, 70_000))
        return [
            draft(question(f"{number} " + "word " * (size // 5))) for number in range(self.chance.choice((1, 1, 3)))
        ]

    async def fork(self, store, parent, id):
        self.requested[id] = list(self.requested[parent])
        try:
            await store.fork(parent, id=id)
        except StoreError as error:
            self.refused.append(str(error))
            with contextlib.suppress(StoreError):  # it exists if only the answer failed
                await store.fork(parent, id=id)
        self.acknowledged.append((len(self.disk.log), id, len(self.requested[id])))

    async def retry(self, action):
        """Repeat an operation until the disk does not fail."""
        while True:
            try:
                return await action()
            except SessionInUse:
                raise
            except StoreError as error:
                self.refused.append(str(error))

    def acknowledged_at(self, moment):
        """Return the number of acknowledged entries per session at a moment."""
        return {session: head for when, session, head in self.acknowledged if when <= moment}


async def problems_after(writer, files, moment, folder):
    """Open the files after a crash; return what is wrong with them, and append."""
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    heads, wrong = writer.acknowledged_at(moment), []
    async with SqlStore(SqliteEngine(folder / NAME)) as store:
        wrong += await store.verify()
        for session, requested_drafts in writer.requested.items():
            try:
                entries = await store.read(session)
            except SessionNotFound:
                entries = []
            if not same(entries, requested_drafts[: len(entries)]):
                wrong.append(f"{session} is not what was written")
            if len(entries) < heads.get(session, 0):
                wrong.append(f"{session} has {len(entries)} entries, and {heads[session]} were acknowledged")
        lease = await store.lease("b", takeover=True)
        more = [draft(question("And then?"))]
        await store.append(lease, more)
        if not same((await store.read("b"))[lease.head :], more, first=lease.head + 1):
            wrong.append("it cannot be continued")
    return wrong


def violations(writer, folder, points):
    """Crash at many moments in all ways; return the lost entries, and the kinds of crash."""
    chance = random.Random(SEED)
    moments = sorted(chance.choices(range(len(writer.disk.log) + 1), k=points))
    found, hows = [], []

    async def all_of_them():
        for number, (moment, how, files) in enumerate(writer.disk.crashes(moments, chance)):
            hows.append(how)
            try:
                wrong = await problems_after(writer, files, moment, folder / str(number))
            except StoreError as damage:
                wrong = [damage]
            found.extend((moment, how, what) for what in wrong)

    asyncio.run(all_of_them())
    return found, hows


def run_writer(disk, **how):
    writer = Writer(disk, random.Random(SEED))
    asyncio.run(writer.work(**how))
    assert all(re.search("disk reports an error|disk is full", told) for told in writer.refused), writer.refused
    return writer


def test_power_failure_at_any_moment_loses_nothing(disk, folder):
    """And a kill during a write."""
    writer = run_writer(disk)
    found, hows = violations(writer, folder, POINTS)

    assert found == []
    assert {*hows} == {*HOWS}
    assert len(hows) == POINTS >= 100
    whats = [op.what for op in disk.log if op.file == NAME]
    assert whats.count("sync") > 3  # the WAL file was copied into the database meanwhile
    assert len(writer.acknowledged) == 2 * (3 * 8 + 1 + 2)


def test_power_failure_without_full_sync_loses_entries(disk, folder):
    """This proves that the simulation finds losses. With `NORMAL`, SQLite promises that nothing is damaged."""
    disk.sync = "NORMAL"
    found, _ = violations(run_writer(disk), folder, 24)

    assert [what for _, how, what in found if how != "kill"]
    assert all("acknowledged" in str(what) for _, _, what in found)


def test_power_failure_without_sync_damages_the_file(disk, folder):
    disk.sync = "OFF"
    found, _ = violations(run_writer(disk), folder, 24)

    assert [what for _, _, what in found if isinstance(what, StoreCorrupt | VerifyProblem)]


# --- disk errors -----------------------------------------------------------------------------------------------------

FAULTS = {
    "sync": ("sync", f"{NAME}-wal", apsw.SQLITE_IOERR_FSYNC, 1, 12),
    "write": ("write", "", apsw.SQLITE_IOERR_WRITE, 1, 100),
    "full": ("write", "", apsw.SQLITE_FULL, 5, 100),
    "copying": ("sync", NAME, apsw.SQLITE_IOERR_FSYNC, 1, 2),
}
"""The operation, the file (empty: any), the error, how often, and after how many successes at most."""


class FailingOperations:
    """Fails some operations after a number of successes; then the disk works again."""

    def __init__(self, what, file, code, times, after):
        self.what, self.file, self.code = what, file, code
        self.times, self.after = times, after

    def __call__(self, op):
        if op.what != self.what or (self.file and op.file != self.file):
            return
        self.after -= 1
        if self.after < 0 and self.times:
            self.times -= 1
            raise error_of(self.code)


@pytest.mark.parametrize("kind", FAULTS)
def test_disk_errors_at_any_moment_lose_nothing(disk, folder, kind):
    """The caller gets an error and sends the entries again, they are stored once, and the power may fail after that.

    Data of a failed sync never reaches the disk, even if a later sync succeeds: operating systems behave in this way.
    """
    *fault, most = FAULTS[kind]
    first, chance, failures = dict(disk.first), random.Random(SEED), 0
    for number in range(4):
        for name in disk.contents():
            (disk.folder / name).unlink()
        for name, data in first.items():
            (disk.folder / name).write_bytes(data)
        disk.log.clear()
        disk.fault = FailingOperations(*fault, chance.randrange(most))
        writer = run_writer(disk, times=3)
        assert disk.fault.times == 0
        disk.fault = None
        failures += len(writer.refused)
        found, _ = violations(writer, folder / str(number), 5)
        assert found == []

    assert failures or kind == "copying"  # no caller waits for a checkpoint


# --- a new store ------------------------------------------------------------------------------------------------------


def test_power_failure_during_creation_leaves_a_store_or_none(folder):
    path = folder / "new"
    path.mkdir()
    with contextlib.closing(_Closing(Disk(path))) as closing:
        disk = closing.disk
        SqliteEngine(path / NAME, disk.connect).open(write=True).close()
    named = max(number for number, op in enumerate(disk.log) if op.file.startswith(f"{NAME}.new")) + 1
    chance = random.Random(SEED)
    writer = Writer(disk, chance)

    async def look(moments, name):
        for moment, how, files in disk.crashes(moments, chance):
            found = {name if file == f"{NAME}.new" else file: data for file, data in files.items()}
            assert await problems_after(writer, found, moment, folder / f"{name}-{moment}-{how}") == [], (moment, how)

    asyncio.run(look(sorted(chance.sample(range(named), 12)), f"{NAME}.new"))
    asyncio.run(look([named] * 4, NAME))  # the file gets its name now, so all of it must be synced
