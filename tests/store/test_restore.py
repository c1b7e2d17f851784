"""Backups: restored in one step at any moment, also while other processes have the store open."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap

import pytest

from tenuto.errors import LeaseLost, StoreCorrupt, StoreError
from tenuto.store.open import open_store, restore
from tenuto.store.sqlite import SqliteEngine
from tenuto.testing.store_suite.helpers import draft, question, same, write

WRITER = """
    import asyncio, itertools, sys
    from tenuto.store.open import open_store
    from tenuto.testing.store_suite.helpers import draft, question

    async def main():
        async with open_store(sys.argv[1]) as store:
            lease = await store.lease(sys.argv[2])
            for number in itertools.count():
                lease = await store.append(lease, [draft(question("x" * 3000), id=f"{sys.argv[2]}-{number}")])
                if number % 20 == 0:
                    print(lease.head, flush=True)

    asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sessions.db"


@pytest.fixture
def writer(path):
    """Yield a function that starts processes which append without a pause."""
    started = []

    def start(session):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), str(path), session],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        started.append(process)
        assert process.stdout.readline()
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def run(path, action):
    async def play():
        async with open_store(path) as store:
            return await action(store)

    return asyncio.run(play())


def test_restore_after_a_writer_was_killed(path, tmp_path, writer):
    """The -wal file of the killed writer is next to the database each time."""
    for number in range(4):
        backup = tmp_path / f"copy{number}.db"
        processes = [writer(f"w{number}{name}") for name in "ab"]
        run(path, lambda store, backup=backup: store.backup(str(backup)))
        for process in processes:
            process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert path.with_name("sessions.db-wal").exists()
        restore(backup, path)

        async def check(store, number=number):
            assert await store.verify() == []
            sessions = (await store.sessions()).sessions
            assert {f"w{number}a", f"w{number}b"} <= {shown.id for shown in sessions}
            await store.append(await store.lease(f"w{number}a"), [draft(question())])  # no process holds it
            return {shown.id: shown.head for shown in sessions}

        heads = run(path, check)
        copied = run(backup, lambda store: store.sessions())
        assert heads == {shown.id: shown.head for shown in copied.sessions}


def test_restore_replaces_a_store_that_is_open(path, tmp_path, writer):
    """A process that has the store open loses its leases and continues with the restored sessions."""
    backup = tmp_path / "copy.db"

    async def play():
        async with open_store(path) as store:
            drafts = [draft(question()) for _ in range(3)]
            lease = await store.append(await store.lease("s"), drafts)
            await store.backup(str(backup))
            lease = await store.append(lease, [draft(question())])
            await asyncio.to_thread(restore, backup, path)
            assert same(await store.read("s"), drafts)
            with pytest.raises(LeaseLost):
                await store.append(lease, [draft(question())])
            more = [draft(question()) for _ in range(30)]
            lease = await store.lease("s")
            for one in more:
                lease = await store.append(lease, [one])
            return [*drafts, *more]

    written = asyncio.run(play())

    assert same(run(path, lambda store: store.read("s")), written)
    assert run(path, lambda store: store.verify()) == []


def test_store_of_a_replaced_file_leaves_the_new_log_alone(path, tmp_path):
    """SQLite deletes the -wal file by its name when the last connection closes; it must not if the database was
    replaced.
    """
    backup = tmp_path / "copy.db"

    run(path, lambda store: write(store, "s", question()))
    run(path, lambda store: store.backup(str(backup)))
    old = SqliteEngine(path).open(write=True)
    old.begin(write=True)
    old.change("UPDATE sessions SET name = 'old'")
    old.commit()
    restore(backup, path)

    async def play():
        async with open_store(path) as store:
            drafts = await write(store, "t", question("only in the log"))
            old.close()
            files = {name: path.with_name(name).read_bytes() for name in ("sessions.db", "sessions.db-wal")}
            return drafts, files

    drafts, files = asyncio.run(play())
    assert files["sessions.db-wal"]
    (tmp_path / "as-after-a-kill").mkdir()
    for name, data in files.items():
        (tmp_path / "as-after-a-kill" / name).write_bytes(data)
    for there in (path, tmp_path / "as-after-a-kill" / "sessions.db"):
        assert same(run(there, lambda store: store.read("t")), drafts)
        assert run(there, lambda store: store.verify()) == []


def test_restore_waits_for_writers_and_keeps_others_out(path, tmp_path, writer):
    """While others write, every restore gives a complete store."""
    backup = tmp_path / "copy.db"
    run(path, lambda store: write(store, "s", question()))
    run(path, lambda store: store.backup(str(backup)))
    writer("busy")
    for _ in range(5):
        restore(backup, path)
        assert "s" in [shown.id for shown in run(path, lambda store: store.sessions()).sessions]

    assert run(path, lambda store: store.verify()) == []


def test_restore_creates_a_store_that_does_not_exist(path, tmp_path):
    drafts = run(path, lambda store: write(store, "s", question()))
    run(path, lambda store: store.backup(str(tmp_path / "copy.db")))
    restore(tmp_path / "copy.db", f"sqlite:///{tmp_path / 'new' / 'sessions.db'}")

    assert same(run(tmp_path / "new" / "sessions.db", lambda store: store.read("s")), drafts)
    assert (tmp_path / "new" / "sessions.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", ["empty", "zeros", "garbage"])
def test_restore_replaces_a_damaged_store(path, tmp_path, kind):
    drafts = run(path, lambda store: write(store, "s", question()))
    run(path, lambda store: store.backup(str(tmp_path / "copy.db")))
    data = {"empty": b"", "zeros": bytes(8192), "garbage": os.urandom(8192)}[kind]
    path.write_bytes(data)
    restore(tmp_path / "copy.db", path)

    assert same(run(path, lambda store: store.read("s")), drafts)


def test_restore_changes_nothing_when_the_backup_is_bad(path, tmp_path):
    drafts = run(path, lambda store: write(store, "s", question("rain " * 3000)))
    run(path, lambda store: store.backup(str(tmp_path / "copy.db")))
    (tmp_path / "damaged.db").write_bytes((tmp_path / "copy.db").read_bytes()[:20_000])
    (tmp_path / "empty.db").touch()
    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE t (a)")
    db.close()
    for name in ("damaged.db", "empty.db", "other.db", "missing.db", "sessions.db"):
        with pytest.raises(StoreError):
            restore(tmp_path / name, path)
    for url in ("postgresql://host/db", "memory://x"):
        with pytest.raises(StoreError, match="SQLite store"):
            restore(tmp_path / "copy.db", url)

    assert same(run(path, lambda store: store.read("s")), drafts)
    assert not path.with_name("sessions.db.restore").exists()


def test_damaged_file_names_the_log_and_the_command(path, tmp_path):
    """A backup was copied by hand over a file whose -wal file was left."""
    run(path, lambda store: write(store, "s", *[question("x" * 5000) for _ in range(50)]))
    data = bytearray(path.read_bytes())
    data[4096 * 3 :] = os.urandom(len(data) - 4096 * 3)
    path.write_bytes(data)
    with pytest.raises(StoreCorrupt, match=r"-wal.*tenuto store restore"):
        run(path, lambda store: store.read("s"))


def test_new_store_ignores_the_log_of_a_deleted_one(path, writer):
    process = writer("s")
    process.kill()
    process.wait()
    path.unlink()
    assert path.with_name("sessions.db-wal").exists()
    run(path, lambda store: write(store, "t", question()))

    assert run(path, lambda store: store.verify()) == []
    assert [shown.id for shown in run(path, lambda store: store.sessions()).sessions] == ["t"]
