"""What a session's row tells, and when: an append writes its entry, and the row once in a while."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sqlite3

import pytest

from tenuto.core.journal import Configured, Said, Stopped, session_meta_of
from tenuto.core.messages import UserMessage
from tenuto.errors import StoreError
from tenuto.store import schema
from tenuto.store.driver import Unsure
from tenuto.store.locks import Guard
from tenuto.store.protocol import BLOB
from tenuto.store.sql import SqlStore
from tenuto.store.sqlite import SqliteEngine
from tenuto.store.sqlite_driver import SqliteDriver
from tenuto.store.summaries import TAIL
from tenuto.testing.chapters.stage import answer, draft, question, same, turn, write


def rows(engine, sql, args=()):
    """Ask the database itself; what is asked may change something."""
    with contextlib.closing(engine().open(write=True)) as driver:
        driver.begin(write=True)
        found = driver.rows(sql, args) if sql.startswith("SELECT") else driver.change(sql, args)
        driver.commit()
        return found


def told(engine):
    """How far the row of the session tells, and how many ids are kept of it."""
    [(upto, n)] = rows(engine, "SELECT told, n FROM sessions WHERE id = 's'")
    [(ids,)] = rows(engine, "SELECT count(*) FROM ids WHERE session = ?", (n,))
    assert upto == ids
    return upto


def played(engine, story, **how):
    async def play():
        async with SqlStore(engine(), **how) as store:
            return await story(store)

    return asyncio.run(play())


async def appended(store, lease, *acts):
    for act in acts:
        lease = await store.append(lease, [draft(act)])
    return lease


# --- when it is written -----------------------------------------------------------------------------------------------


def test_a_row_is_written_once_in_a_while(engine):
    """With the first entry, and when there would be more than a few of which it does not tell."""

    async def play(store):
        lease, seen = await store.lease("s"), []
        for _ in range(2 * TAIL + 3):
            lease = await appended(store, lease, question())
            seen.append(told(engine))
        return seen

    later = 1 + (TAIL + 1)
    assert played(engine, play) == [1] * (TAIL + 1) + [later] * (TAIL + 1) + [later + TAIL + 1]


@pytest.mark.parametrize("act", [Configured("m", agent="other"), Stopped("completed"), Said(UserMessage("x" * BLOB))])
def test_what_a_list_finds_by_and_what_is_large_is_told_at_once(engine, act):
    async def play(store):
        lease = await appended(store, await store.lease("s"), question(), question(), act)
        first = told(engine)
        await appended(store, lease, question())
        return first, told(engine)

    assert played(engine, play) == (3, 4 if isinstance(act, Stopped) else 3)


def test_who_lets_go_has_it_tell_all(engine):
    async def play(store):
        lease = await appended(store, await store.lease("s"), *turn())
        before = told(engine)
        await store.release(lease)
        return before, told(engine)

    assert played(engine, play) == (1, 7)


def test_who_closes_has_it_tell_all(engine):
    async def play(store):
        await appended(store, await store.lease("s"), *turn())
        return told(engine)

    assert played(engine, play) == 1
    assert told(engine) == 7


def test_who_renews_has_it_tell_all(engine):
    async def play(store):
        lease = await store.renew(await appended(store, await store.lease("s"), *turn()))
        assert lease.head == told(engine) == 7
        lease = await appended(store, lease, question())
        return lease.head, told(engine)

    assert played(engine, play) == (8, 7)


def test_who_indexes_has_it_tell_all(engine):
    async def play(store):
        await appended(store, await store.lease("s"), *turn())
        async with SqlStore(engine()) as other:
            assert await other.search("weather")
        return told(engine)

    assert played(engine, play) == 7


def test_who_takes_over_has_it_tell_all(engine):
    """The one before died, or lives and will be told."""

    async def play(store):
        await appended(store, await store.lease("s"), *turn())
        async with SqlStore(engine()) as other:
            lease = await other.lease("s", take=True)
            assert (lease.head, told(engine)) == (7, 7)
            entries = await other.read("s")
            assert (await other.session("s")).meta == session_meta_of("s", entries)
            await appended(other, lease, question())
            return await other.verify()

    assert played(engine, play) == []


# --- what it takes ----------------------------------------------------------------------------------------------------


def test_a_lone_append_is_one_statement(tmp_path):
    said = []

    def connect(*args, **options):
        db = sqlite3.connect(*args, **options)
        db.set_trace_callback(said.append)
        return db

    async def play(store):
        lease = await appended(store, await store.lease("s"), *(question() for _ in range(3)))
        counts = []
        for _ in range(TAIL):
            said.clear()
            lease = await appended(store, lease, question())
            counts.append(len([one for one in said if not one.startswith(("PRAGMA", "--"))]))
        return counts

    counts = played(lambda: SqliteEngine(tmp_path / "sessions.db", connect), play)
    assert counts.count(1) == TAIL - 1
    assert max(counts) < 12


def test_appends_at_one_moment_share_a_transaction(tmp_path):
    """A session that has a place of its own in it: one that fails is undone alone."""

    async def play(store):
        leases = [await appended(store, await store.lease(f"s{at}"), question()) for at in range(6)]
        first = (await store.read("s3"))[0]
        drafts = [draft(answer(), id=first.id if at == 3 else "") for at in range(6)]
        done = await asyncio.gather(
            *(store.append(lease, [one]) for lease, one in zip(leases, drafts, strict=True)), return_exceptions=True
        )
        assert [isinstance(one, StoreError) for one in done] == [False, False, False, True, False, False]
        assert "has an entry with the id of one of these already" in str(done[3])
        return [len(await store.read(f"s{at}")) for at in range(6)], await store.verify()

    assert played(lambda: SqliteEngine(tmp_path / "sessions.db"), play) == ([2, 2, 2, 1, 2, 2], [])


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("many", [1, 3])
def test_an_append_whose_end_is_not_known(tmp_path, monkeypatch, how, many):
    """Sent again, it is there once; what is believed of the session is put right."""
    broken = []

    def breaking(method):
        def run(self, *args):
            if not broken:
                return method(self, *args)
            kind = broken.pop()
            found = method(self, *args) if kind == "after" else None
            self.rollback()
            raise Unsure(f"the line broke {kind} it ended: {found}")

        return run

    async def play(store):
        monkeypatch.setattr(
            SqliteDriver,
            "add" if many == 1 else "commit",
            breaking(vars(SqliteDriver)["add" if many == 1 else "commit"]),
        )
        lease = await appended(store, await store.lease("s"), *turn())
        drafts = [draft(question(), id=f"again-{at}") for at in range(many)]
        broken.append(how)
        lease = await store.append(lease, drafts)
        assert not broken
        lease = await appended(store, lease, answer())
        entries = await store.read("s")
        assert [entry.id for entry in entries[7:-1]] == [one.id for one in drafts]
        assert (await store.session("s")).meta == session_meta_of("s", entries)
        await store.release(lease)
        assert (await store.session("s")).meta == session_meta_of("s", entries)
        return await store.verify()

    assert played(lambda: SqliteEngine(tmp_path / "sessions.db"), play) == []


def test_a_lock_that_cannot_be_had_is_told_in_our_words(tmp_path, monkeypatch):
    """As some network folders have it; what was written stays, and what comes after is written."""

    async def play(store):
        lease = await appended(store, await store.lease("s"), question(), question())
        with monkeypatch.context() as patch:
            patch.setattr(Guard, "share", refused)
            with pytest.raises(StoreError, match="No locks available"):
                await appended(store, lease, question())
        lease = await appended(store, lease, question())
        return lease.head, await store.verify()

    def refused(self):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    assert played(lambda: SqliteEngine(tmp_path / "sessions.db"), play) == (3, [])


def test_damage_is_found(engine):
    """Ids that are gone; entries that no list knows of; a summary that is not theirs; entries of nobody."""
    played(engine, lambda store: write(store, "s", *turn()))

    def found():
        return [(fault.session, fault.seq, fault.what) for fault in played(engine, lambda store: store.verify())]

    def spoilt(sql, back, *words):
        rows(engine, sql)
        faults = found()
        assert [word for word in words if not any(word in fault[2] for fault in faults)] == []
        rows(engine, back)
        assert found() == []

    spoilt(
        "UPDATE sessions SET told = 6",
        "UPDATE sessions SET told = 7",
        "of which no list knows",
        "the ids of 7",
        "summary",
    )
    spoilt("UPDATE ids SET session = session + 1", "UPDATE ids SET session = session - 1", "the ids of 0 entries")
    spoilt(
        "UPDATE entries SET session = 'other' WHERE seq = 3",
        "UPDATE entries SET session = 's' WHERE seq = 3",
        "stands outside of what is the session's own",
    )
    rows(engine, "DELETE FROM entries WHERE seq = 7")
    assert any("says that it has 7 entries, and has 6" in what for _, _, what in found())
    rows(engine, "DELETE FROM sessions")
    assert [what for _, _, what in found()] == ["is gone, and left 6 entries"]


def test_an_entry_behind_the_row_that_cannot_be_read_hides_nothing(engine):
    """Neither from a list nor from who takes the session over; `verify` tells of it."""

    async def play(store):
        await appended(store, await store.lease("s"), *turn())
        rows(engine, "UPDATE entries SET body = ? WHERE seq = 7", (b"[",))
        async with SqlStore(engine()) as other:
            [shown] = (await other.sessions()).sessions
            assert (shown.head, shown.meta.message_count) == (7, 3)
            await other.lease("s", take=True)
            return [(fault.seq, "digest" in fault.what) for fault in await other.verify()]

    assert played(engine, play) == [(7, True)]


# --- from the first version -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def first_version(monkeypatch):
    """As if this were the first version, as far as tables go."""
    with monkeypatch.context() as patch:
        patch.setattr(schema, "_STEPS", {name: steps[:1] for name, steps in schema._STEPS.items()})
        patch.setattr(schema, "VERSION", 1)
        yield


def moved(source, to):
    """Put everything of one store into another of the first version, as that would have written it."""
    columns = {
        "sessions": "n, id, told, fence, until, owner, pid, host, place, parent, forked_at, indexed, archived, created_at, "
        "updated_at, status, agent, name, meta",
        "entries": "place, session, seq, id, at, fence, version, kind, digest, body",
        "blobs": "digest, size, data",
    }
    line = sqlite3.connect(source)
    with contextlib.closing(line), contextlib.closing(to) as driver:
        driver.begin(write=True)
        for table, names in columns.items():
            marks = ", ".join("?" * len(names.split(", ")))
            kept = line.execute(f"SELECT {names} FROM {table}").fetchall()
            driver.insert(f"INSERT INTO {table} ({names.replace('told', 'head')}) VALUES ({marks})", kept)
        driver.commit()


def test_a_store_of_the_first_version_is_brought_up_to_date(engine, tmp_path, monkeypatch):
    async def fill(store):
        one = await write(store, "one", *turn(), Said(UserMessage("x" * BLOB)))
        await store.fork("one", at=3, id="two")
        two = await write(store, "two", answer(), answer())
        return one, two, [shown.meta for shown in (await store.sessions()).sessions]

    one, two, metas = played(lambda: SqliteEngine(tmp_path / "source.db"), fill)
    with first_version(monkeypatch):
        moved(tmp_path / "source.db", engine().open(write=True))

    async def look(store):
        assert await store.verify() == []
        assert same(await store.read("one"), one)
        assert same((await store.read("two"))[3:], two, first=4)
        assert [shown.meta for shown in (await store.sessions()).sessions] == metas
        lease = await store.lease("one")
        with pytest.raises(StoreError, match="the id of one of these already"):
            await store.append(lease, [draft(answer(), id=one[0].id)])
        await appended(store, lease, *turn())
        await store.reindex()
        assert {hit.session for hit in await store.search("rain")} == {"one", "two"}
        return await store.verify()

    assert played(engine, look) == []
    with first_version(monkeypatch), pytest.raises(StoreError, match="newer version of tenuto"):
        engine().open(write=True)
