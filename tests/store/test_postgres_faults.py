"""A Postgres store when connections are cut, backends are killed and the server stops: nothing is lost or duplicated."""

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

from postgres_proxy import CommitProxy
from tenuto.core.journal import MessageAdded
from tenuto.core.messages import UserMessage
from tenuto.core.stored import make_draft
from tenuto.errors import LeaseLost, StoreError
from tenuto.store.postgres import PostgresEngine
from tenuto.store.sql_store import SqlStore

PATIENCE = 50.0
"""Seconds for a restart of the server: it takes one on an idle machine."""


def draft(id, text="hello"):
    return make_draft(MessageAdded(UserMessage(text)), id=id, time_ms=1)


@pytest.fixture
def proxy(postgres):
    with tempfile.TemporaryDirectory(prefix="cut-", dir="/tmp") as folder:
        proxy = CommitProxy(Path(folder), postgres.folder)
        yield proxy
        proxy.close()


@pytest.fixture
def cut_url(proxy, postgres_url):
    """Return the same database, through a proxy that can cut connections."""
    return re.sub("host=[^&]*", f"host={proxy.folder}", postgres_url)


async def ids_in(store, session):
    assert await store.verify() == []
    return [entry.id for entry in await store.read(session)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_connection_cut_at_the_commit_of_an_append(proxy, cut_url, when):
    """The store checks whether its entries exist and sends them again if not; the caller gets no error."""

    async def play():
        async with SqlStore(PostgresEngine(cut_url)) as store:
            lease = await store.append(await store.lease("s"), [draft("1")])
            proxy.cut = when
            lease = await store.append(lease, [draft("2"), draft("3")])
            assert (lease.head, proxy.cuts) == (3, 1)
            lease = await store.append(lease, [draft("4")])
            assert await ids_in(store, "s") == ["1", "2", "3", "4"]

    asyncio.run(play())


@pytest.mark.parametrize("when", ["before", "after"])
def test_connection_cut_at_a_shared_commit(proxy, cut_url, when):
    """Each of the appends that shared the commit checks for its own entries."""

    async def write(store, session):
        lease = await store.lease(session)
        for number in range(5):
            if session == "s3" and number in (1, 3):
                proxy.cut = when
            lease = await store.append(lease, [draft(str(number))])

    async def play():
        async with SqlStore(PostgresEngine(cut_url)) as store:
            await asyncio.gather(*(write(store, f"s{number}") for number in range(8)))
            for number in range(8):
                assert await ids_in(store, f"s{number}") == list("01234")

    asyncio.run(play())
    assert proxy.cuts == 2


@pytest.mark.parametrize("when", ["before", "after"])
def test_connection_cut_at_lease_and_release(proxy, cut_url, when):
    async def play():
        async with SqlStore(PostgresEngine(cut_url)) as store:
            await store.stats()
            proxy.cut = when
            lease = await store.append(await store.lease("s"), [draft("1")])
            proxy.cut = when
            await store.release(lease)
            assert proxy.cuts == 2
            again = await store.lease("s")
            assert again.fence > lease.fence
            with pytest.raises(LeaseLost):
                await store.append(lease, [draft("2")])
            assert await ids_in(store, "s") == ["1"]

    asyncio.run(play())


def test_backends_terminated_during_reads_and_writes(postgres, postgres_url):
    """`pg_terminate_backend`, at any moment."""

    async def write(store, session):
        lease = await store.lease(session)
        for number in range(12):
            lease = await store.append(lease, [draft(str(number))])
            await store.read(session, after=number)

    async def play():
        ended = 0
        async with SqlStore(PostgresEngine(f"{postgres_url}&application_name=terminated")) as store:
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


ENDED = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'terminated'"


def test_server_killed_and_restarted_during_writes(own_postgres, own_postgres_url):
    """A backend is killed twice, so the server restarts; then it is stopped and started. Acknowledged entries are
    stored once and in order; no caller gets an error.
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


def test_server_that_stays_away_is_an_error(own_postgres, own_postgres_url):
    """After its return, the same store and lease continue."""

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


def _hold_until_killed(url, connection):
    async def play():
        store = SqlStore(PostgresEngine(url))
        lease = await store.append(await store.lease("s"), [draft("1")])
        connection.send(lease.fence)
        signal.pause()

    asyncio.run(play())


def test_killed_holder_is_replaced_at_once(postgres_url):
    context = multiprocessing.get_context("fork")
    ready, sender = context.Pipe(duplex=False)
    child = context.Process(target=_hold_until_killed, args=(postgres_url, sender))
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
"""The number of refused writes after which the race ends."""


def _race(url, name, start, refused):
    """Take the session over again and again, and write three entries under each lease."""

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
    """A process that lost the session writes nothing; the numbers have no gaps, and the fences only grow."""
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
            owners = {entry.fence: entry.id.rpartition(".")[0] for entry in entries}
            assert all(entry.id.startswith(f"{owners[entry.fence]}.") for entry in entries)

    asyncio.run(play())
