"""The SQLite file and its faults: each one is reported, and the file stays unchanged."""

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
from pathlib import Path

import pytest

from store.helpers import run, run_in_child
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


def create_store(path, *acts):
    """Create a store with one session; return its drafts."""
    return run(path, lambda store: write(store, "s", *(acts or turn())))


async def reading(store):
    return await store.read("s")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


# --- the file ---------------------------------------------------------------------------------------------------------


def test_created_files_are_private(path):
    """The file has mode 0600 in a directory with 0700, and so have all files next to it; no temporary files are left."""

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


def test_settings_of_every_connection(path):
    driver = SqliteEngine(path).open(write=True)
    try:
        settings = {
            name: driver.rows(f"PRAGMA {name}")[0][0]
            for name in ("journal_mode", "synchronous", "wal_autocheckpoint", "application_id", "user_version")
        }
    finally:
        driver.close()

    assert settings == {
        "journal_mode": "wal", "synchronous": 2, "wal_autocheckpoint": 0, "application_id": APPLICATION,
        "user_version": VERSION,
    }  # fmt: skip


def test_concurrent_creation_creates_one_store(path):
    async def both():
        async with SqlStore(SqliteEngine(path)) as one, SqlStore(SqliteEngine(path)) as other:
            await asyncio.gather(write(one, "a"), write(other, "b"), one.sessions(), other.sessions())
            return await one.sessions()

    assert {shown.id for shown in asyncio.run(both()).sessions} == {"a", "b"}


def test_interrupted_creation_is_repeated(path):
    """The rest of it is never used as a store."""
    path.parent.mkdir()
    for ending in (".new", ".new-wal", ".new-journal"):
        path.with_name(path.name + ending).write_bytes(b"half a store")
    drafts = create_store(path)

    assert same(run(path, reading), drafts)
    assert not list(path.parent.glob("*.new*"))


@pytest.mark.parametrize("where", ["{}", "sqlite:///{}"])
def test_store_is_opened_by_url(path, where):
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


# --- other files -----------------------------------------------------------------------------------------------------


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
    create_store(path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version={VERSION + 1}")


def unmarked(path):
    create_store(path)
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
def test_other_files_stay_unchanged(path, make, says):
    """Reading and writing raise an error that says what the file is; no byte of it changes."""
    path.parent.mkdir()
    make(path)
    shutil.rmtree(path.with_name(path.name + ".locks"), ignore_errors=True)
    before = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
    for action in (lambda store: store.lease("s"), lambda store: store.sessions(), reading):
        with pytest.raises(StoreError, match=says):
            run(path, action)
    after = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}

    assert after == before


# --- damage -----------------------------------------------------------------------------------------------------------


async def _everything(store):
    entries = await store.read("s")
    return entries, await store.verify()


def test_truncated_file_is_detected(path):
    """For each length there is an error or a problem in `verify`; the file is neither extended nor created again."""
    drafts = create_store(path, *(question(f"{number} " + "word " * 700) for number in range(12)))
    data = path.read_bytes()
    for length in (100, 1000, 4096, 5000, 8192, len(data) // 2, len(data) - 4096, len(data) - 1):
        path.write_bytes(data[:length])
        try:
            entries, faults = run(path, _everything)
        except StoreCorrupt:
            pass
        else:
            assert faults or same(entries, drafts), length
        with contextlib.suppress(StoreError):
            run(path, lambda store: store.lease("t"))
        assert path.read_bytes()[:100] == data[:100]
        assert path.stat().st_size <= len(data) + 4096, length


def test_flipped_bit_is_detected_or_harmless(path):
    """For each bit, reading fails, or `verify` finds it, or all entries are equal."""
    drafts = create_store(path, *(question(f"{number} " + "word " * 700) for number in range(60)))
    data = bytearray(path.read_bytes())
    detected = 0
    for bit in random.Random(5).sample(range(len(data) * 8), 60):
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        data[bit // 8] ^= 1 << bit % 8
        try:
            entries, faults = run(path, _everything)
        except StoreError:
            detected += 1
        else:
            detected += bool(faults)
            assert faults or same(entries, drafts), bit

    assert detected > 10


def test_invalid_log_is_ignored(path):
    drafts = create_store(path)
    path.with_name(path.name + "-wal").write_bytes(random.Random(5).randbytes(50_000))
    more = run(path, lambda store: write(store, "s", question("And then?")))

    assert same(run(path, reading), [*drafts, *more])
    assert run(path, lambda store: store.verify()) == []


# --- read-only files and directories ---------------------------------------------------------------------------------


@pytest.fixture
def open_folder():
    """Return a directory that other users may enter."""
    folder = Path(tempfile.mkdtemp(prefix="tenuto-"))
    folder.chmod(0o755)
    yield folder
    for each in (folder, *folder.rglob("*")):
        each.chmod(0o755)
    shutil.rmtree(folder)


def as_another_user(action):
    """Run a function in a child that is not root, to which permissions apply; return its result as text."""
    return run_in_child(action, None if os.getuid() else NOBODY)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_read_only_store_can_be_read(open_folder, what):
    path = open_folder / "in" / "sessions.db"
    drafts = create_store(path)
    path.chmod(0o444)
    path.parent.chmod(0o555)
    if what == "file":  # others may write to the directory, but not to the file
        path.parent.chmod(0o777)

    assert as_another_user(lambda: same(run(path, reading), drafts)) == "True"
    assert as_another_user(lambda: len(run(path, lambda store: store.search("Oslo")))) != "0"
    refused = as_another_user(lambda: run(path, lambda store: store.lease("s")))
    assert refused.startswith("StoreError"), refused
    assert "permissions" in refused or "Permission" in refused


def test_read_only_store_with_a_log_is_an_error(open_folder):
    """The newest entries are in the -wal file, which SQLite cannot read there; they must not be omitted silently."""
    path = open_folder / "in" / "sessions.db"
    create_store(path)
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

    output = as_another_user(lambda: run(copy / "sessions.db", reading))
    assert "newest entries are in" in output


def test_store_that_cannot_be_created_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    for bad in (tmp_path / "file" / "sessions.db", Path("/dev/null/sessions.db"), tmp_path / ("x" * 300)):
        with pytest.raises(StoreError, match="cannot be used"):
            run(bad, lambda store: store.lease("s"))


def test_full_disk_writes_nothing(path):
    """After the error nothing is written in part, and the store works when there is room."""
    most = [200]

    def connect(*args, **how):
        line = sqlite3.connect(*args, **how)
        line.execute(f"PRAGMA max_page_count={most[0]}").fetchall()
        return line

    async def fill(store):
        lease = await store.lease("s")
        stored = []
        with pytest.raises(StoreError, match="disk is full"):
            for number in range(400):
                one = draft(question(f"{number} " + "word " * 1000))
                lease = await store.append(lease, [one])
                stored.append(one)
        assert same(await store.read("s"), stored)
        await store.append(lease, [])  # writes that need no room
        most[0] = 10_000
        return stored

    stored = run(path, fill, engine=SqliteEngine(path, connect))
    more = run(path, lambda store: write(store, "s", question("Is there room?")))

    assert len(stored) > 20
    assert same(run(path, reading), [*stored, *more])
    assert run(path, lambda store: store.verify()) == []


# --- the WAL file ----------------------------------------------------------------------------------------------------


def log_of(path):
    return path.with_name(path.name + "-wal")


def fill_log(driver, rounds=40, first=0):
    for number in range(first, first + rounds):
        driver.begin(write=True)
        driver.change("INSERT INTO blobs (digest, size, data) VALUES (?, 0, ?)", (str(number), os.urandom(200_000)))
        driver.commit()
        driver.checkpoint()


def test_long_log_is_copied_into_the_file(path):
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


def test_log_is_not_copied_during_writes(path):
    """Another writer shares the lock, so it cannot be held exclusively."""
    driver = SqliteEngine(path).open(write=True)
    with path.with_name(path.name + ".lock").open("rb+") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        fill_log(driver)
        assert log_of(path).stat().st_size > 8_000_000
        fcntl.flock(other, fcntl.LOCK_UN)
        fill_log(driver, 17) if driver.change("DELETE FROM blobs") else None
        assert log_of(path).stat().st_size < 6_000_000
    driver.close()


def test_writes_wait_while_the_log_is_copied(path):
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


def test_reader_does_not_block_writers_and_log(path):
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


# --- backups and versions --------------------------------------------------------------------------------------------


def test_backup_is_a_store(path, tmp_path):
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


def test_values_that_sqlite_does_not_accept_are_an_error(path):
    async def tell(store):
        lease = await store.lease("s")
        for odd in (draft(question(), id="\ud800"), functools.partial(draft, question())(version=2**70)):
            with pytest.raises(StoreError):
                await store.append(lease, [odd])
        return await store.append(lease, [draft(question())])

    assert run(path, tell).head == 1
