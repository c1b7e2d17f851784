"""The files of a store and the processes that share them: links, locks, forks of the process, damage."""

from __future__ import annotations

import asyncio
import collections
import errno
import os
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from tenuto import Agent
from tenuto.errors import SessionInUse, StoreError
from tenuto.store import locks, sqlite
from tenuto.store.open import open_store
from tenuto.store.sql_store import SqlStore
from tenuto.testing.store_suite.helpers import draft, question, turn, write


def open_files():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def run(path, action):
    async def play():
        async with open_store(path) as store:
            return await action(store)

    return asyncio.run(play())


# --- fork of the process ----------------------------------------------------------------------------------------

FORK = """
    import asyncio, os, sys, warnings
    from tenuto.errors import LeaseLost, SessionInUse
    from tenuto.store.open import open_store
    from tenuto.testing.store_suite.helpers import draft, question

    warnings.simplefilter("ignore", DeprecationWarning)
    store = open_store(sys.argv[1])
    lease = asyncio.run(store.append(asyncio.run(store.lease("s")), [draft(question())]))

    async def child():
        for action in (store.append(lease, [draft(question())]), store.renew(lease)):
            try:
                await action
                raise AssertionError("parent and child write under one lease")
            except LeaseLost:
                pass
        await store.release(lease)  # no error, and the parent still holds it
        try:
            await store.lease("s")
            raise AssertionError("the child took the session of its parent")
        except SessionInUse:
            pass

    pid = os.fork()
    if not pid:
        asyncio.run(child())
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    lease = asyncio.run(store.append(lease, [draft(question())]))
    assert (lease.head, asyncio.run(store.verify())) == (2, [])
    asyncio.run(store.close())
    print("done")
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_child_process_cannot_use_the_lease_of_its_parent(kind, tmp_path, request):
    url = str(tmp_path / "s.db") if kind == "sqlite" else request.getfixturevalue("postgres_url")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FORK), url],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert (done.stdout, done.stderr) == ("done\n", "")


# --- threads ----------------------------------------------------------------------------------------------------


def test_agent_opens_one_store_for_all_threads(tmp_path):
    agent = Agent("sim/anthropic", store=tmp_path / "s.db")
    barrier, sessions = threading.Barrier(16), []

    def work():
        barrier.wait()
        sessions.append(agent.session())

    threads = [threading.Thread(target=work) for _ in range(16)]
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch)
    for session in sessions[:4]:
        session.send("hi")
    names = collections.Counter(thread.name for thread in threading.enumerate())
    agent.close()

    assert (names["tenuto-writer"], names["tenuto-reader"]) == (1, 1)
    assert not [thread for thread in threading.enumerate() if thread.name in ("tenuto-writer", "tenuto-reader")]


# --- links ------------------------------------------------------------------------------------------------------


def test_store_at_a_symbolic_link_has_one_set_of_files(tmp_path):
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "target.db", tmp_path / "link.db"
    link.symlink_to(real)  # to a file that does not exist yet

    async def play():
        async with open_store(link) as one, open_store(real) as other:
            lease = await one.append(await one.lease("s"), [draft(question())])
            with pytest.raises(SessionInUse):
                await other.lease("s")
            for _ in range(60):
                lease = await one.append(lease, [draft(question(os.urandom(30_000).hex()))])
                lease = await one.append(lease, [draft(question(os.urandom(30_000).hex()))])
            return (tmp_path / "real" / "target.db-wal").stat().st_size

    assert asyncio.run(play()) < 8_000_000
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link.db", "real"]
    assert {each.name for each in real.parent.iterdir()} == {"target.db", "target.db.lock", "target.db.locks"}


# --- creation ---------------------------------------------------------------------------------------------------


def test_process_continues_when_another_created_the_file(tmp_path, monkeypatch):
    """Other processes share the lock all the time, so it is never exclusive."""
    path = tmp_path / "s.db"
    guard = locks.FileLock(path.with_name("s.db.lock"))
    made = tmp_path / "made.db"
    run(made, lambda store: write(store, "s", question()))
    assert guard.lock(exclusive=False)
    monkeypatch.setattr("tenuto.store.sqlite.PATIENCE", 2.0)
    missing = sqlite.SqliteEngine._exists

    def created_meanwhile(self):
        found = missing(self)
        if not found:
            os.link(made, path)
        return found

    monkeypatch.setattr(sqlite.SqliteEngine, "_exists", created_meanwhile)
    try:
        assert len(run(path, lambda store: store.read("s"))) == 1
    finally:
        guard.close()


# --- a lock file that cannot be written -------------------------------------------------------------------------


def test_lock_is_freed_when_its_file_cannot_be_written(tmp_path, monkeypatch):
    file_locks = locks.Locks(tmp_path / "locks")
    file_locks.acquire("first").remove()
    before = open_files()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(locks.os, "write", full)
        for _ in range(5):
            with pytest.raises(StoreError, match="No space left"):
                file_locks.acquire("s")
    assert open_files() == before
    assert list((tmp_path / "locks").iterdir()) == []
    lock = file_locks.acquire("s")
    assert lock is not None
    lock.remove()


# --- special files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fifo", "device", "socket"])
def test_special_file_is_not_a_store(tmp_path, kind):
    path = tmp_path / "special"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path = "/dev/null"
    else:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(path))
    with pytest.raises(StoreError, match="is not a regular file"):
        run(path, lambda store: store.sessions())


# --- the search copy --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE words SET text = 'snow' WHERE seq = 1",
        "DELETE FROM words WHERE seq = 1",
        "UPDATE words SET seq = 99 WHERE seq = 1",
    ],
)
def test_verify_finds_damage_in_the_search_index(engine, damage):
    async def play():
        async with SqlStore(engine()) as store:
            await write(store, "s", *turn())
            await store.fork("s", at=3, id="fork")
            await write(store, "fork", question("And then?"))
            await store.search("oslo")
            assert await store.verify() == []
            await store._write(lambda driver: driver.change(damage + " AND session = 's'"))
            faults = await store.verify()
            assert {fault.seq for fault in faults} <= {1, 99}
            assert faults
            assert all(fault.session == "s" and "reindex" in fault.what for fault in faults)
            await store.reindex()
            return await store.verify()

    assert asyncio.run(play()) == []
