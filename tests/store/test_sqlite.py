"""The SQLite file and what can be wrong with it: whatever it is, it is told, and left as it was."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import os
import random
import shutil
import sqlite3
import stat
import tempfile
import threading
import warnings
from pathlib import Path

import pytest

from tenuto.errors import StoreCorrupt, StoreError
from tenuto.store.open import open_store
from tenuto.store.schema import APPLICATION, VERSION
from tenuto.store.sql_store import SqlStore
from tenuto.store.sqlite import SqliteEngine
from tenuto.testing.store_suite.helpers import draft, question, same, turn, write

NOBODY = 65534


@pytest.fixture
def path(tmp_path):
    return tmp_path / "kept" / "sessions.db"


def run(path, story, **how):
    """Tell a story on the store at a place; return what it returns."""

    async def told():
        async with SqlStore(SqliteEngine(path, **how)) as store:
            return await story(store)

    return asyncio.run(told())


def made(path, *acts):
    """Make a store with one session in it; return its drafts."""
    return run(path, lambda store: write(store, "s", *(acts or turn())))


async def reading(store):
    return await store.read("s")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


# --- the file ---------------------------------------------------------------------------------------------------------


def test_what_is_made_is_its_owners(path):
    """0600 in a 0700 folder, whatever lies beside the file included; and nothing is left of the making."""

    async def look(store):
        await store.append(await store.lease("s"), [draft(question())])
        return {file.name: mode(file) for file in sorted(path.parent.rglob("*"))}

    before = os.umask(0)
    try:
        found = run(path, look)
    finally:
        os.umask(before)

    assert mode(path.parent) == 0o700
    assert found.pop("sessions.db.locks") == 0o700
    assert {*found} >= {"sessions.db", "sessions.db-wal", "sessions.db-shm", "sessions.db.lock", "place"}
    assert {*found.values()} == {0o600}
    assert not [name for name in found if "new" in name]


def test_what_holds_for_every_connection(path):
    driver = SqliteEngine(path).open(write=True)
    try:
        said = {
            name: driver.rows(f"PRAGMA {name}")[0][0]
            for name in ("journal_mode", "synchronous", "wal_autocheckpoint", "application_id", "user_version")
        }
    finally:
        driver.close()

    assert said == {
        "journal_mode": "wal", "synchronous": 2, "wal_autocheckpoint": 0, "application_id": APPLICATION,
        "user_version": VERSION,
    }  # fmt: skip


def test_two_who_make_it_at_once_make_one(path):
    async def both():
        async with SqlStore(SqliteEngine(path)) as one, SqlStore(SqliteEngine(path)) as other:
            await asyncio.gather(write(one, "a"), write(other, "b"), one.sessions(), other.sessions())
            return await one.sessions()

    assert {shown.id for shown in asyncio.run(both()).sessions} == {"a", "b"}


def test_a_making_that_was_killed_is_begun_anew(path):
    """What it left is never taken for a store."""
    path.parent.mkdir()
    for ending in (".new", ".new-wal", ".new-journal"):
        path.with_name(path.name + ending).write_bytes(b"half a store")
    drafts = made(path)

    assert same(run(path, reading), drafts)
    assert not list(path.parent.glob("*.new*"))


@pytest.mark.parametrize("where", ["{}", "sqlite:///{}"])
def test_a_store_is_opened_by_its_place(path, where):
    async def tell():
        async with open_store(where.format(path)) as store:
            await write(store, "s")
        async with open_store(store) as same_store, open_store(None) as nowhere:
            return same_store is store, await nowhere.sessions()

    assert asyncio.run(tell())[0]
    assert path.exists()
    for bad in ("mysql://somewhere", "sqlite://", "sqlite:///", "", "a\0b"):
        with pytest.raises(ValueError, match="store"):
            open_store(bad)


# --- what is not ours -------------------------------------------------------------------------------------------------


def foreign(path):
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE meta (key TEXT, value TEXT)")
        db.commit()


def foreign_in_wal(path):
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE sessions (id TEXT)")
        db.commit()


def later(path):
    made(path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version={VERSION + 1}")


def unmarked(path):
    made(path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE meta SET value = 'another' WHERE key = 'store'")
        db.commit()


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda path: path.touch(), "is empty"),
        (lambda path: path.write_text("Dear diary, " * 1000), "not a SQLite database"),
        (lambda path: path.write_bytes(b"\0" * 8192), "not a SQLite database"),
        (lambda path: path.mkdir(), "is a directory"),
        (foreign, "of another program"),
        (foreign_in_wal, "of another program"),
        (later, f"later version of tenuto .format {VERSION + 1}"),
        (unmarked, "has other content"),
    ],
    ids=["empty", "text", "zeros", "folder", "foreign", "foreign-wal", "later", "unmarked"],
)
def test_what_is_not_ours_is_left_alone(path, make, says):
    """Reading and writing are refused, by an error that says what the file is; not a byte of it changes."""
    path.parent.mkdir()
    make(path)
    shutil.rmtree(path.with_name(path.name + ".locks"), ignore_errors=True)
    before = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
    for story in (lambda store: store.lease("s"), lambda store: store.sessions(), reading):
        with pytest.raises(StoreError, match=says):
            run(path, story)
    after = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}

    assert after == before


# --- damage -----------------------------------------------------------------------------------------------------------


async def _everything(store):
    entries = await store.read("s")
    return entries, await store.verify()


def test_a_truncated_file_is_never_taken_for_a_whole_one(path):
    """At every length an error says so, or `verify` does; and the file is not made longer, or anew."""
    drafts = made(path, *(question(f"{number} " + "word " * 700) for number in range(12)))
    whole = path.read_bytes()
    for length in (100, 1000, 4096, 5000, 8192, len(whole) // 2, len(whole) - 4096, len(whole) - 1):
        path.write_bytes(whole[:length])
        try:
            entries, faults = run(path, _everything)
        except StoreCorrupt:
            pass
        else:
            assert faults or same(entries, drafts), length
        with contextlib.suppress(StoreError):
            run(path, lambda store: store.lease("t"))
        assert path.read_bytes()[:100] == whole[:100]
        assert path.stat().st_size <= len(whole) + 4096, length


def test_a_flipped_bit_is_told_or_does_no_harm(path):
    """Whichever bit it is: reading fails, or `verify` finds it, or all entries are what they were."""
    drafts = made(path, *(question(f"{number} " + "word " * 700) for number in range(60)))
    whole = bytearray(path.read_bytes())
    told = 0
    for bit in random.Random(5).sample(range(len(whole) * 8), 60):
        whole[bit // 8] ^= 1 << bit % 8
        path.write_bytes(whole)
        whole[bit // 8] ^= 1 << bit % 8
        try:
            entries, faults = run(path, _everything)
        except StoreError:
            told += 1
        else:
            told += bool(faults)
            assert faults or same(entries, drafts), bit

    assert told > 10


def test_a_log_of_garbage_is_passed_over(path):
    drafts = made(path)
    path.with_name(path.name + "-wal").write_bytes(random.Random(5).randbytes(50_000))
    more = run(path, lambda store: write(store, "s", question("And then?")))

    assert same(run(path, reading), [*drafts, *more])
    assert run(path, lambda store: store.verify()) == []


# --- where nothing can be written -------------------------------------------------------------------------------------


@pytest.fixture
def open_folder():
    """A folder that others may enter."""
    folder = Path(tempfile.mkdtemp(prefix="tenuto-"))
    folder.chmod(0o755)
    yield folder
    for each in (folder, *folder.rglob("*")):
        each.chmod(0o755)
    shutil.rmtree(folder)


def as_another(story):
    """Do something in a child that is not root, whom permissions do not hold; return what it says."""
    here, there = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a child of a process with threads does only this
        child = os.fork()
    if not child:
        said = "something else went wrong"
        if not os.getuid():
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        try:
            said = str(story())
        except StoreError as error:
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(there, said.encode())
            os._exit(0)
    os.close(there)
    said = b"".join(iter(lambda: os.read(here, 4096), b"")).decode()
    os.close(here)
    os.waitpid(child, 0)
    return said


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_read_only_place_can_be_read(open_folder, what):
    path = open_folder / "in" / "sessions.db"
    drafts = made(path)
    path.chmod(0o444)
    path.parent.chmod(0o555)
    if what == "file":  # others may write in the folder, and not the file
        path.parent.chmod(0o777)

    assert as_another(lambda: same(run(path, reading), drafts)) == "True"
    assert as_another(lambda: len(run(path, lambda store: store.search("Oslo")))) != "0"
    refused = as_another(lambda: run(path, lambda store: store.lease("s")))
    assert refused.startswith("StoreError"), refused
    assert "permissions" in refused or "Permission" in refused


def test_a_read_only_place_with_a_log_says_what_to_do(open_folder):
    """The newest entries are in the log, and SQLite cannot use it there: they are not silently left out."""
    path = open_folder / "in" / "sessions.db"
    made(path)
    line = sqlite3.connect(path)
    line.execute("PRAGMA wal_autocheckpoint=0")
    line.execute("UPDATE sessions SET archived = 1")
    line.commit()
    copy = open_folder / "copy"
    copy.mkdir()
    for name in ("sessions.db", "sessions.db-wal"):
        shutil.copy(path.with_name(name), copy)
        (copy / name).chmod(0o444)
    line.close()
    copy.chmod(0o555)

    said = as_another(lambda: run(copy / "sessions.db", reading))
    assert "newest entries are in" in said


def test_a_place_that_cannot_be_made_says_so(tmp_path):
    (tmp_path / "file").touch()
    for bad in (tmp_path / "file" / "sessions.db", Path("/dev/null/sessions.db"), tmp_path / ("x" * 300)):
        with pytest.raises(StoreError, match="cannot be used"):
            run(bad, lambda store: store.lease("s"))


def test_a_full_disk(path):
    """Said so; nothing is half written; and when there is room, it goes on."""
    most = [200]

    def connect(*args, **how):
        line = sqlite3.connect(*args, **how)
        line.execute(f"PRAGMA max_page_count={most[0]}").fetchall()
        return line

    async def fill(store):
        lease = await store.lease("s")
        kept = []
        with pytest.raises(StoreError, match="disk is full"):
            for number in range(400):
                one = draft(question(f"{number} " + "word " * 1000))
                lease = await store.append(lease, [one])
                kept.append(one)
        assert same(await store.read("s"), kept)
        await store.append(lease, [])  # what needs no room is written
        most[0] = 10_000
        return kept

    kept = run(path, fill, connect=connect)
    more = run(path, lambda store: write(store, "s", question("Is there room?")))

    assert len(kept) > 20
    assert same(run(path, reading), [*kept, *more])
    assert run(path, lambda store: store.verify()) == []


# --- the log ----------------------------------------------------------------------------------------------------------


def log_of(path):
    return path.with_name(path.name + "-wal")


def fill_log(driver, rounds=40, first=0):
    for number in range(first, first + rounds):
        driver.begin(write=True)
        driver.change("INSERT INTO blobs (digest, size, data) VALUES (?, 0, ?)", (str(number), os.urandom(200_000)))
        driver.commit()
        driver.checkpoint()


def test_a_long_log_is_copied_into_the_file(path):
    driver = SqliteEngine(path).open(write=True)
    fill_log(driver, 60)

    assert log_of(path).stat().st_size < 6_000_000 < path.stat().st_size
    driver.close()
    assert not log_of(path).exists()


def test_log_is_empty_after_a_checkpoint(path):
    driver = SqliteEngine(path).open(write=True)
    fill_log(driver, 21)

    assert log_of(path).stat().st_size < 500_000
    assert path.stat().st_size > 4_000_000
    assert driver.rows("SELECT count(*) FROM blobs") == [(21,)]
    driver.close()
    assert not log_of(path).exists()


def test_the_log_is_not_copied_while_anybody_writes(path):
    """Another writer has the lock with everybody else; so nobody can have it alone."""
    driver = SqliteEngine(path).open(write=True)
    with path.with_name(path.name + ".lock").open("rb+") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        fill_log(driver)
        assert log_of(path).stat().st_size > 8_000_000
        fcntl.flock(other, fcntl.LOCK_UN)
        fill_log(driver, 17) if driver.change("DELETE FROM blobs") else None
        assert log_of(path).stat().st_size < 6_000_000
    driver.close()


def test_nobody_writes_while_the_log_is_copied(path):
    driver = SqliteEngine(path).open(write=True)
    with path.with_name(path.name + ".lock").open("rb+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        began = threading.Event()

        def write_it():
            driver.begin(write=True)
            began.set()
            driver.commit()

        thread = threading.Thread(target=write_it)
        thread.start()
        assert not began.wait(0.2)
        fcntl.flock(other, fcntl.LOCK_UN)
        thread.join()
    driver.close()

    assert began.is_set()


def test_a_reader_holds_up_neither_writers_nor_the_log_for_long(path):
    engine = SqliteEngine(path)
    driver, reader = engine.open(write=True), engine.open(write=False)
    reader.begin(write=False)
    assert reader.rows("SELECT count(*) FROM blobs") == [(0,)]
    fill_log(driver)
    assert reader.rows("SELECT count(*) FROM blobs") == [(0,)]
    reader.commit()
    driver.change("DELETE FROM blobs")
    fill_log(driver)

    assert log_of(path).stat().st_size < 6_000_000
    reader.close()
    driver.close()


# --- copies and versions ----------------------------------------------------------------------------------------------


def test_a_backup_is_a_store(path, tmp_path):
    async def copy(store):
        lease = await store.lease("s")
        drafts = [draft(act) for act in turn()]
        lease = await store.append(lease, drafts)
        await store.backup(str(tmp_path / "copy.db"))
        await store.append(lease, [draft(question("After that"))])
        for there in (tmp_path / "copy.db", path):
            with pytest.raises(StoreError, match="not overwritten"):
                await store.backup(str(there))
        return drafts

    drafts = run(path, copy)

    assert mode(tmp_path / "copy.db") == 0o600
    assert same(run(tmp_path / "copy.db", reading), drafts)
    assert run(tmp_path / "copy.db", lambda store: store.verify()) == []


def test_arguments_that_sqlite_does_not_take_are_told(path):
    async def tell(store):
        lease = await store.lease("s")
        for odd in (draft(question(), id="\ud800"), functools.partial(draft, question())(version=2**70)):
            with pytest.raises(StoreError):
                await store.append(lease, [odd])
        return await store.append(lease, [draft(question())])

    assert run(path, tell).head == 1
