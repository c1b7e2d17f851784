"""A store over Postgres when lines are cut, backends are killed and the server goes: nothing is lost, nothing comes twice."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import re
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from cut_line import CutLine
from tenuto.core.journal import MessageAdded
from tenuto.core.messages import UserMessage
from tenuto.core.stored import make_draft
from tenuto.errors import LeaseLost, StoreError
from tenuto.store.postgres import PostgresEngine
from tenuto.store.sql_store import SqlStore

PATIENCE = 50.0
"""How many seconds a server may be gone that is about to come back: it takes one, unless the machine has other work."""


def draft(id, text="hello"):
    return make_draft(MessageAdded(UserMessage(text)), id=id, time_ms=1)


@pytest.fixture
def line(postgres):
    with tempfile.TemporaryDirectory(prefix="cut-", dir="/tmp") as folder:
        line = CutLine(Path(folder), postgres.folder)
        yield line
        line.close()


@pytest.fixture
def cut_url(line, postgres_url):
    """The same place, by way of a line that can be cut."""
    return re.sub("host=[^&]*", f"host={line.folder}", postgres_url)


async def ids_in(store, session):
    assert await store.verify() == []
    return [entry.id for entry in await store.read(session)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_line_that_is_cut_during_the_commit_of_an_append(line, cut_url, when):
    """The store looks whether its entries are there, and sends them again if not: the caller hears nothing of it."""

    async def play():
        async with SqlStore(PostgresEngine(cut_url)) as store:
            lease = await store.append(await store.lease("s"), [draft("1")])
            line.cut = when
            lease = await store.append(lease, [draft("2"), draft("3")])
            assert (lease.head, line.cuts) == (3, 1)
            lease = await store.append(lease, [draft("4")])
            assert await ids_in(store, "s") == ["1", "2", "3", "4"]

    asyncio.run(play())


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_line_that_is_cut_under_many_appends(line, cut_url, when):
    """Those that shared the commit share its fate, and each finds out for itself."""

    async def write(store, session):
        lease = await store.lease(session)
        for number in range(5):
            if session == "s3" and number in (1, 3):
                line.cut = when
            lease = await store.append(lease, [draft(str(number))])

    async def play():
        async with SqlStore(PostgresEngine(cut_url)) as store:
            await asyncio.gather(*(write(store, f"s{number}") for number in range(8)))
            for number in range(8):
                assert await ids_in(store, f"s{number}") == list("01234")

    asyncio.run(play())
    assert line.cuts == 2


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_line_that_is_cut_when_a_lease_is_taken_or_given_back(line, cut_url, when):
    async def play():
        async with SqlStore(PostgresEngine(cut_url)) as store:
            await store.stats()
            line.cut = when
            lease = await store.append(await store.lease("s"), [draft("1")])
            line.cut = when
            await store.release(lease)
            assert line.cuts == 2
            again = await store.lease("s")
            assert again.fence > lease.fence
            with pytest.raises(LeaseLost):
                await store.append(lease, [draft("2")])
            assert await ids_in(store, "s") == ["1"]

    asyncio.run(play())


def test_backends_that_are_ended_while_many_write_and_read(postgres, postgres_url):
    """`pg_terminate_backend`, wherever they are just then."""

    async def write(store, session):
        lease = await store.lease(session)
        for number in range(12):
            lease = await store.append(lease, [draft(str(number))])
            await store.read(session, after=number)

    async def play():
        ended = 0
        async with SqlStore(PostgresEngine(f"{postgres_url}&application_name=doomed")) as store:
            await store.stats()
            writing = [asyncio.create_task(write(store, f"s{number}")) for number in range(4)]
            with psycopg.connect(postgres.url(), autocommit=True) as admin:
                for times in itertools.count(1):
                    ended += len((await asyncio.to_thread(admin.execute, ENDED)).fetchall())
                    await store.stats()
                    if times >= 6 and ended > 6:
                        break
            await asyncio.gather(*writing)
            for number in range(4):
                assert await ids_in(store, f"s{number}") == [str(n) for n in range(12)]

    asyncio.run(play())


ENDED = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'doomed'"


def test_the_server_is_killed_and_started_while_many_write(own_postgres, own_postgres_url):
    """Kill -9 of a backend makes the server start anew, twice; then it is stopped and started. What was acknowledged is
    there, once, in its order; and nobody was told of a failure.
    """
    acknowledged = {f"s{number}": [] for number in range(3)}

    async def write(store, session, done):
        lease = await store.lease(session)
        while not done.is_set():
            id = f"{len(acknowledged[session])}"
            lease = await store.append(lease, [draft(id)])
            acknowledged[session].append(id)

    async def progress():
        before = sum(map(len, acknowledged.values()))
        while sum(map(len, acknowledged.values())) < before + 20:
            await asyncio.sleep(0)

    async def play():
        done = asyncio.Event()
        async with SqlStore(PostgresEngine(own_postgres_url, patience=PATIENCE)) as store:
            writing = [asyncio.create_task(write(store, session, done)) for session in acknowledged]
            for _ in range(2):
                await progress()
                os.kill(await asyncio.to_thread(backend_of, own_postgres), signal.SIGKILL)
            await progress()
            await asyncio.to_thread(own_postgres.stop)
            await asyncio.to_thread(own_postgres.start)
            await progress()
            done.set()
            await asyncio.gather(*writing)
            for session, ids in acknowledged.items():
                assert await ids_in(store, session) == ids

    asyncio.run(play())


def backend_of(server):
    while True:
        with suppress(psycopg.OperationalError), psycopg.connect(server.url(), autocommit=True) as admin:
            if found := admin.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'tenuto'").fetchone():
                return found[0]


def test_a_server_that_stays_away(own_postgres, own_postgres_url):
    """The caller is told in the end; when the server is back, the same store and the same lease go on."""

    async def play():
        async with SqlStore(PostgresEngine(own_postgres_url, patience=0.1)) as store:
            lease = await store.append(await store.lease("s"), [draft("1")])
            own_postgres.stop()
            try:
                with pytest.raises(StoreError, match="cannot open postgresql://"):
                    await store.append(lease, [draft("2")])
                with pytest.raises(StoreError, match="cannot open postgresql://"):
                    await store.read("s")
            finally:
                own_postgres.start()
            await store.append(lease, [draft("2")])
            assert await ids_in(store, "s") == ["1", "2"]

    asyncio.run(play())


def _lives(url, told):
    async def play():
        store = SqlStore(PostgresEngine(url))
        lease = await store.append(await store.lease("s"), [draft("1")])
        told.send(lease.fence)
        signal.pause()

    asyncio.run(play())


def test_a_holder_that_was_killed_is_replaced_at_once(postgres_url):
    context = multiprocessing.get_context("fork")
    ready, told = context.Pipe(duplex=False)
    child = context.Process(target=_lives, args=(postgres_url, told))
    child.start()
    fence = ready.recv()
    child.kill()
    child.join()

    async def play():
        async with SqlStore(PostgresEngine(postgres_url)) as store:
            lease = await store.lease("s")
            assert (lease.fence, lease.head) == (fence + 1, 1)

    asyncio.run(play())


REFUSED = 5
"""How many writes have to be refused before it is enough."""


def _race(url, name, start, refused):
    """Take the session from whoever has it, again and again, and write three entries unless somebody else took it."""

    async def play():
        async with SqlStore(PostgresEngine(url), ttl_ms=60, pid=os.getpid()) as store:
            await store.stats()
            start.wait()
            for turn in itertools.count():
                if turn >= 8 and refused.value >= REFUSED:
                    return
                lease = await store.lease("s", takeover=True)
                for number in range(3):
                    try:
                        lease = await store.append(lease, [draft(f"{name}.{turn}.{number}")])
                    except LeaseLost:
                        with refused:
                            refused.value += 1
                        break

    asyncio.run(play())


def test_four_processes_race_for_a_session(postgres_url):
    """Whoever lost the session writes nothing more; the numbers have no gap, and the fences only grow."""
    context = multiprocessing.get_context("fork")
    start, refused = context.Barrier(4), context.Value("i", 0)
    children = [context.Process(target=_race, args=(postgres_url, name, start, refused)) for name in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0, 0, 0]

    async def play():
        async with SqlStore(PostgresEngine(postgres_url)) as store:
            assert await store.verify() == []
            entries = await store.read("s")
            assert [entry.seq for entry in entries] == [*range(1, len(entries) + 1)]
            fences = [entry.fence for entry in entries]
            assert fences == sorted(fences)
            assert len({entry.id for entry in entries}) == len(entries)
            held = {entry.fence: entry.id.rpartition(".")[0] for entry in entries}
            assert all(entry.id.startswith(f"{held[entry.fence]}.") for entry in entries)

    asyncio.run(play())
