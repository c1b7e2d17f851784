"""Leases and locks: a living holder keeps its session, a dead one is replaced at once, a loser gets an error."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from store.helpers import run
from tenuto.errors import LeaseLost, SessionInUse
from tenuto.store.locks import Locks
from tenuto.store.sessions import ListQuery, list_lines
from tenuto.store.sql_store import SqlStore
from tenuto.store.sqlite import SqliteEngine
from tenuto.testing.store_suite.helpers import draft, question

HOLDER = """
    import asyncio, os, signal, sys, threading
    from tenuto.errors import StoreError
    from tenuto.store.sql_store import SqlStore
    from tenuto.store.sqlite import SqliteEngine
    from tenuto.testing.store_suite.helpers import draft, question

    async def hold():
        store = SqlStore(SqliteEngine(sys.argv[1]), ttl_ms=int(sys.argv[2]))
        lease = await store.lease("s")
        lease = await store.append(lease, [draft(question(), id="first")])
        print(lease.fence, flush=True)
        for line in iter(sys.stdin.readline, ""):  # the whole process waits, but for the thread that renews
            if line == "fork\\n":
                alive, told = os.pipe()
                child = os.fork()
                os.write(told, b'x') if not child else os.read(alive, 1)  # it is on its way, not about to be
                if not child:
                    os.read(0, 1)  # until the test ends
                    os._exit(0)
                print(child, flush=True)
            elif line == "stop\\n":
                def stop(driver):  # between two transactions: inside of one, it would hold up all others, too
                    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
                await store._state().writer.submit(stop, alone=True)
                print("continues", flush=True)
            else:
                try:
                    lease = await store.append(lease, [draft(question(), id=line.strip())])
                    print(lease.head, flush=True)
                except StoreError as error:
                    print(type(error).__name__, flush=True)

    asyncio.run(hold())
"""


class Holder:
    """Another process that holds the session `s` and executes commands."""

    def __init__(self, path, ttl=60_000):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(HOLDER), str(path), str(ttl)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        self.pid = self.process.pid
        self.fence = int(self.process.stdout.readline())

    def send(self, command):
        print(command, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def stop(self):
        """Let it stop itself, and wait until it has stopped."""
        print("stop", file=self.process.stdin, flush=True)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def continue_(self):
        os.kill(self.pid, signal.SIGCONT)
        assert self.process.stdout.readline() == "continues\n"

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sessions.db"


@pytest.fixture
def holders(path):
    with contextlib.ExitStack() as stack:

        def begin(**how):
            holder = Holder(path, **how)
            stack.enter_context(holder.process)  # closes its pipes
            stack.callback(holder.kill)
            return holder

        yield begin


def test_living_holder_refuses_others_and_is_named(path, holders):
    holder = holders()

    async def ask(store):
        with pytest.raises(SessionInUse) as caught:
            await store.lease("s")
        with pytest.raises(SessionInUse):
            await store.delete("s")
        return caught.value, (await store.session("s")).holder

    error, summary = run(path, ask)

    assert (error.session, error.pid, error.host) == ("s", holder.pid, socket.gethostname())
    assert str(holder.pid) in str(error)
    assert socket.gethostname() in str(error)
    assert "takeover=True" in str(error)
    assert summary == f"{holder.pid}@{socket.gethostname()}"
    assert holder.send("second") == "2"


def test_killed_holder_is_replaced_at_once(path, holders):
    """Its lease ends in a minute: only the lock shows that it is dead."""
    holder = holders()
    holder.kill()

    async def replace(store):
        lease = await store.lease("s")
        assert lease.until > 0
        return lease, await store.append(lease, [draft(question())])

    lease, after = run(path, replace)

    assert (lease.fence, lease.head, after.head) == (holder.fence + 1, 1, 2)


def test_lease_time_counts_if_the_lock_is_not_visible(path, holders):
    """A holder with another lock directory, as on another machine, cannot be checked."""
    holders().kill()
    marker = path.with_name(path.name + ".locks") / "place"
    marker.write_text("another machine")

    with pytest.raises(SessionInUse):
        run(path, lambda store: store.lease("s"))


def test_child_process_does_not_keep_the_lock_of_a_holder(path, holders):
    """A forked tool has the lock file open, too, but must not keep the lock of its dead parent."""
    holder = holders()
    child = int(holder.send("fork"))
    holder.process.kill()
    holder.process.wait()
    try:
        os.kill(child, 0)
        assert run(path, lambda store: store.lease("s")).fence == holder.fence + 1
    finally:
        os.kill(child, signal.SIGKILL)


def test_takeover_ends_the_lease_of_the_loser(path, holders):
    holder = holders()

    async def take(store):
        lease = await store.lease("s", takeover=True)
        assert holder.send("zombie") == "LeaseLost"
        assert holder.send("zombie") == "LeaseLost"
        return await store.append(lease, [draft(question(), id="mine")])

    run(path, take)

    assert [entry.id for entry in run(path, lambda store: store.read("s"))] == ["first", "mine"]


def test_killed_holder_is_listed_as_interrupted_at_once(path, holders):
    holder = holders()
    query = ListQuery(None, None, archived=None, order="updated", limit=10, after="")

    async def statuses(store):
        shown = (await store.session("s"), *(await store.sessions()).sessions, *list_lines(path, query))
        found = {(session.status, bool(session.holder)) for session in shown}
        for status in ("running", "interrupted"):
            ids = [session.id for session in (await store.sessions(status=status)).sessions]
            assert ids == (["s"] if (status, status == "running") in found else [])
        return found

    assert run(path, statuses) == {("running", True)}
    holder.process.kill()
    holder.process.wait()

    assert run(path, statuses) == {("interrupted", False)}


def test_holder_after_takeover_is_not_considered_dead(path, holders):
    """The loser releases its lock when it gets the error: a free lock does not mean that the new holder is dead."""
    holder = holders()

    async def take(store):
        async with SqlStore(SqliteEngine(path)) as third:
            lease = await store.lease("s", takeover=True)
            with pytest.raises(SessionInUse):
                await third.lease("s")
            assert holder.send("zombie") == "LeaseLost"
            with pytest.raises(SessionInUse) as caught:
                await third.lease("s")
            assert caught.value.pid == os.getpid()
            lease = await store.renew(lease)  # acquires the lock, which is free now
            with pytest.raises(SessionInUse):
                await third.lease("s")
            [[lock_dir]] = await store._read(
                lambda driver: driver.rows("SELECT lock_dir_id FROM sessions WHERE id = 's'")
            )
            return lease, lock_dir

    _, lock_dir = run(path, take)

    assert lock_dir == SqliteEngine(path).locks.directory_id() != ""


def test_stopped_holder_keeps_its_session_until_it_is_taken(path, holders):
    """Its lock is held, so it is alive, even if its lease ended long ago."""
    holder = holders(ttl=20)
    holder.stop()

    async def take(store):
        end = (await store._read(lambda driver: driver.rows("SELECT until FROM sessions")))[0][0]
        while time.time_ns() // 1_000_000 < end + 100:
            with pytest.raises(SessionInUse):
                await store.lease("s")
        return await store.append(await store.lease("s", takeover=True), [draft(question(), id="mine")])

    try:
        after = run(path, take, ttl_ms=20)
    finally:
        holder.continue_()

    assert after.fence > holder.fence
    assert holder.send("zombie") == "LeaseLost"
    assert [entry.id for entry in run(path, lambda store: store.read("s"))] == ["first", "mine"]


RACER = """
    import asyncio, os, random, sys
    from tenuto.errors import LeaseLost, SessionInUse, StoreError
    from tenuto.store.sql_store import SqlStore
    from tenuto.store.sqlite import SqliteEngine
    from tenuto.testing.store_suite.helpers import draft, question

    async def race(name, chance):
        acknowledged, lost = [], 0
        async with SqlStore(SqliteEngine(sys.argv[1]), ttl_ms=40) as store:
            await store.sessions()
            print("ready", flush=True)
            sys.stdin.readline()
            while len(acknowledged) < 24:
                try:
                    lease = await store.lease("s", takeover=chance.random() < 0.3)
                    for _ in range(3):
                        one = draft(question(), id=f"{name}-{len(acknowledged)}")
                        await asyncio.sleep(chance.random() / 100)
                        lease = await store.append(lease, [one])
                        acknowledged.append(f"{lease.head} {one.id}")
                    await store.release(lease)
                except SessionInUse:
                    await asyncio.sleep(chance.random() / 200)
                except LeaseLost:
                    lost += 1
        print(lost, *acknowledged, sep="\\n")

    asyncio.run(race(sys.argv[2], random.Random(sys.argv[2])))
"""


def test_four_processes_race_for_one_session(path):
    """Every acknowledged entry is at its acknowledged position, and the numbers have no gaps."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", textwrap.dedent(RACER), str(path)]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    racers = [subprocess.Popen([*command, name], **pipes) for name in "abcd"]
    for racer in racers:
        racer.stdout.readline()
    for racer in racers:
        print(file=racer.stdin, flush=True)
    outputs = [racer.communicate(timeout=200)[0].split("\n") for racer in racers]
    entries = run(path, lambda store: store.read("s"))

    assert [racer.returncode for racer in racers] == [0] * 4
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert sorted(line for lines in outputs for line in lines[1:-1]) == sorted(f"{e.seq} {e.id}" for e in entries)
    assert [entry.fence for entry in entries] == sorted(entry.fence for entry in entries)
    assert run(path, lambda store: store.verify()) == []
    assert sum(int(lines[0]) for lines in outputs) > 0  # some lost their lease


# --- lock files ------------------------------------------------------------------------------------------------------


def test_lock_files(tmp_path):
    """The name is a digest of any id; the file is private, names the holder and is removed at the release."""
    folder = tmp_path / "locks"
    locks = Locks(folder)
    lock = locks.acquire("../../etc/passwd\0")
    [file] = folder.iterdir()

    assert len(file.name) == 64
    assert file.read_text() == f"{os.getpid()}@{socket.gethostname()}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert locks.acquire("../../etc/passwd\0") is None
    other = locks.acquire("another")
    lock.remove()
    lock.remove()
    other.remove()
    assert list(folder.iterdir()) == []
    assert Locks(folder).directory_id(create=True) == locks.directory_id() != ""
    assert Locks(tmp_path / "others").directory_id(create=True) != locks.directory_id()


def test_released_lease_leaves_no_files(path):
    async def send(store):
        lease = await store.lease("s")
        during = {file.name for file in path.with_name(path.name + ".locks").iterdir()}
        await store.release(lease)
        await store.lease("t")
        with contextlib.suppress(LeaseLost):
            await store.append(lease, [draft(question())])
        return during

    assert len(run(path, send)) == 2
    assert {file.name for file in path.with_name(path.name + ".locks").iterdir()} == {"place"}


def test_lock_is_exclusive_for_many_threads(tmp_path):
    """Also if its file is removed and created again while another thread has it open."""
    locks, inside, wrong = Locks(tmp_path), [], []

    def ask():
        for _ in range(400):
            lock = locks.acquire("s")
            if lock is not None:
                inside.append(1)
                time.sleep(0.0001)  # lets other threads run
                wrong.extend(inside[1:])
                inside.pop()
                lock.remove()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
