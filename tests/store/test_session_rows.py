"""The session row: written with each entry, in one transaction, and checked by `verify`."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os

import pytest

from tenuto.core.journal import Configured, RunEnded, session_meta_of
from tenuto.errors import StoreError
from tenuto.store.driver import CommitUnknown
from tenuto.store.locks import FileLock
from tenuto.store.schema import VERSION
from tenuto.store.sql_store import SqlStore
from tenuto.store.sqlite import SqliteDriver, SqliteEngine
from tenuto.testing.store_suite.helpers import answer, draft, question, turn, write


def rows(engine, sql, args=()):
    """Run one statement on the database itself."""
    with contextlib.closing(engine().open(write=True)) as driver:
        driver.begin(write=True)
        result = driver.rows(sql, args) if sql.startswith("SELECT") else driver.change(sql, args)
        driver.commit()
        return result


def played(engine, action, **options):
    async def play():
        async with SqlStore(engine(), **options) as store:
            return await action(store)

    return asyncio.run(play())


async def append_each(store, lease, *acts):
    for act in acts:
        lease = await store.append(lease, [draft(act)])
    return lease


def test_session_row_is_written_with_each_entry(engine):
    async def play(store):
        lease = await store.lease("s")
        for act in (*turn(), Configured("m", agent="other"), RunEnded("completed"), question()):
            lease = await store.append(lease, [draft(act)])
            [(head, until, status, agent)] = rows(engine, "SELECT head, until, status, agent FROM sessions")
            meta = session_meta_of("s", await store.read("s"))
            assert (head, until, status, agent) == (lease.head, lease.until, meta.status, meta.agent)
            assert (await store.session("s")).meta == meta

    played(engine, play)


def test_append_fails_alone_in_a_shared_transaction(engine):
    async def play(store):
        leases = [await append_each(store, await store.lease(f"s{at}"), question()) for at in range(6)]
        first = (await store.read("s3"))[0]
        drafts = [draft(answer(), id=first.id if at == 3 else "") for at in range(6)]
        done = await asyncio.gather(
            *(store.append(lease, [one]) for lease, one in zip(leases, drafts, strict=True)), return_exceptions=True
        )
        assert [isinstance(one, StoreError) for one in done] == [False, False, False, True, False, False]
        assert "already has an entry with the id of one of these" in str(done[3])
        assert (await store.append(leases[3], [draft(answer())])).head == 2
        return [len(await store.read(f"s{at}")) for at in range(6)], await store.verify()

    assert played(engine, play) == ([2] * 6, [])


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("many", [1, 3])
@pytest.mark.parametrize("release", [False, True])
def test_append_is_stored_once_when_its_commit_is_unknown(tmp_path, monkeypatch, how, many, release):
    broken = []
    commit = SqliteDriver.commit

    def breaking(self):
        if not broken:
            return commit(self)
        kind = broken.pop()
        if kind == "after":
            commit(self)
        self.rollback()
        raise CommitUnknown(f"the connection broke {kind} the commit")

    async def play(store):
        monkeypatch.setattr(SqliteDriver, "commit", breaking)
        lease = await append_each(store, await store.lease("s"), *turn())
        drafts = [draft(question(), id=f"again-{at}") for at in range(many)]
        broken.append(how)
        lease = await store.append(lease, drafts, release=release)
        assert not broken
        if release:
            assert (await store.session("s")).holder == ""
            lease = await store.lease("s")
        lease = await append_each(store, lease, answer())
        entries = await store.read("s")
        assert [entry.id for entry in entries[7:-1]] == [one.id for one in drafts]
        assert (await store.session("s")).meta == session_meta_of("s", entries)
        return await store.verify()

    assert played(lambda: SqliteEngine(tmp_path / "sessions.db"), play) == []


def test_append_reports_a_lock_that_cannot_be_taken(tmp_path, monkeypatch):
    async def play(store):
        lease = await append_each(store, await store.lease("s"), question(), question())
        with monkeypatch.context() as patch:
            patch.setattr(FileLock, "lock", refuse)
            with pytest.raises(StoreError, match="No locks available"):
                await append_each(store, lease, question())
        lease = await append_each(store, lease, question())
        return lease.head, await store.verify()

    def refuse(self, *, exclusive):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    assert played(lambda: SqliteEngine(tmp_path / "sessions.db"), play) == (3, [])


def test_verify_finds_damage_in_rows(engine):
    played(engine, lambda store: write(store, "s", *turn()))

    def problems():
        return [(fault.session, fault.seq, fault.what) for fault in played(engine, lambda store: store.verify())]

    def damage(sql, repair, *words):
        rows(engine, sql)
        faults = problems()
        assert [word for word in words if not any(word in fault[2] for fault in faults)] == []
        rows(engine, repair)
        assert problems() == []

    damage("UPDATE sessions SET head = 6", "UPDATE sessions SET head = 7", "is not one of the session's own", "summary")
    damage(
        "UPDATE entries SET session = 'other' WHERE seq = 3",
        "UPDATE entries SET session = 's' WHERE seq = 3",
        "is not one of the session's own entries",
    )
    rows(engine, "DELETE FROM entries WHERE seq = 7")
    assert any("should have 7 entries, but has 6" in what for _, _, what in problems())
    rows(engine, "DELETE FROM sessions")
    assert [what for _, _, what in problems()] == ["does not exist, but 6 entries do"]


@pytest.mark.parametrize("version", [1, VERSION - 1, VERSION + 1])
@pytest.mark.parametrize("write", [True, False])
def test_store_of_another_version_is_refused(engine, tmp_path, version, write):
    played(engine, write_one)
    rows(engine, "UPDATE meta SET value = ? WHERE key = 'schema'", (str(version),))
    if engine().name.startswith("SQLite"):
        import sqlite3

        with contextlib.closing(sqlite3.connect(tmp_path / "sessions.db")) as db:
            db.execute(f"PRAGMA user_version={version}")
    with pytest.raises(StoreError) as error:
        engine().open(write=write).begin(write=write)
    text = str(error.value)

    assert f"(format {version}; this version reads {VERSION})" in text
    assert ("upgrade tenuto" if version > VERSION else "use that version to show or export it") in text
    assert "sessions.db" in text or "postgresql://" in text


async def write_one(store):
    await write(store, "s", question())
