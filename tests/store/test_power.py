"""The power goes, the disk fails, the process is killed at a write: what was acknowledged is there.

The store writes through a disk that remembers (`lossy`), once; then every chosen moment of that is brought back as a crash
would have left it, and opened as anybody opens it.
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

from store.lossy import HOWS, Disk, failing
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
    """A folder that need not wait for a disk, if there is one: what is safe when is told by the log of the lossy one."""
    quick = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="tenuto-", dir=quick if quick.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture
def disk(folder, monkeypatch):
    """A disk with a store on it that copies its log often."""
    monkeypatch.setattr(sqlite, "_LOG_BYTES", 100_000)
    asyncio.run(_made(folder / "before"))
    with contextlib.closing(_Closing(Disk(folder / "before"))) as closing:
        yield closing.disk


class _Closing:
    def __init__(self, disk):
        self.disk = disk

    def close(self):
        self.disk.unregister()


async def _made(folder):
    async with SqlStore(SqliteEngine(folder / NAME)) as store:
        await write(store, "a", question("Before"))
        await store.delete("a")


class Writer:
    """Writes, and remembers what was asked and what was acknowledged when: at which length of the disk's log."""

    def __init__(self, disk, chance):
        self.disk = disk
        self.chance = chance
        self.asked: dict[str, list] = {}
        self.acknowledged: list[tuple[int, str, int]] = []
        self.refused: list[str] = []

    def store(self):
        return SqlStore(SqliteEngine(self.disk.folder / NAME, self.disk.connect))

    async def work(self, times=8):
        """Two rounds, each with a store of its own: three sessions at once, large bodies, a fork."""
        for round in range(2):
            async with self.store() as store:
                await asyncio.gather(*(self.tell(store, session, times) for session in SESSIONS))
                await self.fork(store, "a", f"fork-{round}")
                await self.tell(store, f"fork-{round}", 2)

    async def tell(self, store, session, times):
        lease = await self.again(lambda: store.lease(session))
        asked = self.asked.setdefault(session, [])
        for _ in range(times):
            drafts = self.drafts()
            asked += drafts
            lease = await self.again(partial(store.append, lease, drafts))
            self.acknowledged.append((len(self.disk.log), session, lease.head))
        await self.again(lambda: store.release(lease))

    def drafts(self):
        size = self.chance.choice((10, 500, 500, 3000, 3000, 9000, 70_000))
        return [
            draft(question(f"{number} " + "word " * (size // 5))) for number in range(self.chance.choice((1, 1, 3)))
        ]

    async def fork(self, store, parent, id):
        self.asked[id] = list(self.asked[parent])
        try:
            await store.fork(parent, id=id)
        except StoreError as error:
            self.refused.append(str(error))
            with contextlib.suppress(StoreError):  # it is there, if only the answer failed
                await store.fork(parent, id=id)
        self.acknowledged.append((len(self.disk.log), id, len(self.asked[id])))

    async def again(self, story):
        """A disk that fails is told of; then the same is asked again."""
        while True:
            try:
                return await story()
            except SessionInUse:
                raise
            except StoreError as error:
                self.refused.append(str(error))

    def known(self, moment):
        """Return how many entries of each session were acknowledged by then."""
        return {session: head for when, session, head in self.acknowledged if when <= moment}


async def looked_at(writer, files, moment, folder):
    """Open what a crash left; return what is wrong with it, and go on writing."""
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    known, wrong = writer.known(moment), []
    async with SqlStore(SqliteEngine(folder / NAME)) as store:
        wrong += await store.verify()
        for session, asked in writer.asked.items():
            try:
                entries = await store.read(session)
            except SessionNotFound:
                entries = []
            if not same(entries, asked[: len(entries)]):
                wrong.append(f"{session} is not what was written")
            if len(entries) < known.get(session, 0):
                wrong.append(f"{session} has {len(entries)} entries, and {known[session]} were acknowledged")
        lease = await store.lease("b", takeover=True)
        more = [draft(question("And then?"))]
        await store.append(lease, more)
        if not same((await store.read("b"))[lease.head :], more, first=lease.head + 1):
            wrong.append("it does not go on")
    return wrong


def violations(writer, folder, points):
    """Crash at many moments, in every way; return what was lost where, and in which ways."""
    chance = random.Random(SEED)
    moments = sorted(chance.choices(range(len(writer.disk.log) + 1), k=points))
    found, hows = [], []

    async def all_of_them():
        for number, (moment, how, files) in enumerate(writer.disk.left(moments, chance)):
            hows.append(how)
            try:
                wrong = await looked_at(writer, files, moment, folder / str(number))
            except StoreError as damage:
                wrong = [damage]
            found.extend((moment, how, what) for what in wrong)

    asyncio.run(all_of_them())
    return found, hows


def written(disk, **how):
    writer = Writer(disk, random.Random(SEED))
    asyncio.run(writer.work(**how))
    assert all(re.search("disk reports an error|disk is full", told) for told in writer.refused), writer.refused
    return writer


def test_power_that_goes_at_any_moment(disk, folder):
    """And a kill in the middle of a write."""
    writer = written(disk)
    found, hows = violations(writer, folder, POINTS)

    assert found == []
    assert {*hows} == {*HOWS}
    assert len(hows) == POINTS >= 100
    whats = [op.what for op in disk.log if op.file == NAME]
    assert whats.count("sync") > 3  # the log was copied into the file meanwhile
    assert len(writer.acknowledged) == 2 * (3 * 8 + 1 + 2)


def test_with_less_than_full_something_would_be_lost(disk, folder):
    """So the simulation can tell. That nothing is damaged by it is what SQLite promises, of `NORMAL`."""
    disk.sync = "NORMAL"
    found, _ = violations(written(disk), folder, 24)

    assert [what for _, how, what in found if how != "kill"]
    assert all("acknowledged" in str(what) for _, _, what in found)


def test_without_sync_something_would_be_damaged(disk, folder):
    disk.sync = "OFF"
    found, _ = violations(written(disk), folder, 24)

    assert [what for _, _, what in found if isinstance(what, StoreCorrupt | VerifyProblem)]


# --- a disk that fails ------------------------------------------------------------------------------------------------

FAULTS = {
    "sync": ("sync", f"{NAME}-wal", apsw.SQLITE_IOERR_FSYNC, 1, 12),
    "write": ("write", "", apsw.SQLITE_IOERR_WRITE, 1, 100),
    "full": ("write", "", apsw.SQLITE_FULL, 5, 100),
    "copying": ("sync", NAME, apsw.SQLITE_IOERR_FSYNC, 1, 2),
}
"""What fails, of which file (of any), how, how often, and after how many that went well at most."""


class Failing:
    """Fails some operations, once some went well; then the disk is good again."""

    def __init__(self, what, file, code, times, after):
        self.what, self.file, self.code = what, file, code
        self.times, self.after = times, after

    def __call__(self, op):
        if op.what != self.what or (self.file and op.file != self.file):
            return
        self.after -= 1
        if self.after < 0 and self.times:
            self.times -= 1
            raise failing(self.code)


@pytest.mark.parametrize("kind", FAULTS)
def test_a_disk_that_fails_at_any_moment(disk, folder, kind):
    """Whoever waits is told, and sends it again; nothing comes twice; and the power may go after that.

    What a sync failed for never reaches the disk by itself, though later syncs go well: so systems do it.
    """
    *fault, most = FAULTS[kind]
    first, chance, told = dict(disk.first), random.Random(SEED), 0
    for number in range(4):
        for name in disk.contents():
            (disk.folder / name).unlink()
        for name, data in first.items():
            (disk.folder / name).write_bytes(data)
        disk.log.clear()
        disk.fault = Failing(*fault, chance.randrange(most))
        writer = written(disk, times=3)
        assert disk.fault.times == 0
        disk.fault = None
        told += len(writer.refused)
        found, _ = violations(writer, folder / str(number), 5)
        assert found == []

    assert told or kind == "copying"  # no caller waits for a checkpoint


# --- a new store ------------------------------------------------------------------------------------------------------


def test_power_that_goes_while_a_store_is_made(folder):
    """What is found is never half a store: none, or one that works."""
    place = folder / "new"
    place.mkdir()
    with contextlib.closing(_Closing(Disk(place))) as closing:
        disk = closing.disk
        SqliteEngine(place / NAME, disk.connect).open(write=True).close()
    named = max(number for number, op in enumerate(disk.log) if op.file.startswith(f"{NAME}.new")) + 1
    chance = random.Random(SEED)
    writer = Writer(disk, chance)

    async def look(moments, name):
        for moment, how, files in disk.left(moments, chance):
            found = {name if file == f"{NAME}.new" else file: data for file, data in files.items()}
            assert await looked_at(writer, found, moment, folder / f"{name}-{moment}-{how}") == [], (moment, how)

    asyncio.run(look(sorted(chance.sample(range(named), 12)), f"{NAME}.new"))
    asyncio.run(look([named] * 4, NAME))  # it is given its name now: all of it has to be on the disk
