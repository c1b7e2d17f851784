"""Entries that are not indexed yet: found by a search, indexed when the store is closed, and limited in memory."""

from __future__ import annotations

import asyncio
import functools
import sqlite3

import pytest

from tenuto.store import search
from tenuto.store.sql_store import SqlStore
from tenuto.store.sqlite import SqliteEngine
from tenuto.testing.store_suite.helpers import draft, question, write

MANY = 7
MOST = 3


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Few sessions are remembered as unindexed, and the idle time for indexing is never reached."""
    monkeypatch.setattr(search, "_KNOWN", MOST)
    monkeypatch.setattr(search, "_QUIET", 1e9)


def with_file(action):
    """Run a coroutine function on its own file as a test."""

    @functools.wraps(action)
    def test(tmp_path):
        asyncio.run(action(tmp_path / "sessions.db"))

    del test.__wrapped__  # otherwise pytest requests its arguments as fixtures
    return test


async def fill(store):
    for at in range(MANY):
        await write(store, f"s{at}", question(f"heron {at}"))


def count_unindexed(path):
    """Return the number of sessions with unindexed entries in the file."""
    db = sqlite3.connect(path)
    [[count]] = db.execute("SELECT count(*) FROM sessions WHERE indexed < head")
    db.close()
    return count


@with_file
async def test_number_of_remembered_sessions_is_limited(path):
    async with SqlStore(SqliteEngine(path)) as store:
        await fill(store)
        assert len(store._state().index.pending) == MOST
        assert count_unindexed(path) == MANY


@with_file
async def test_forgotten_sessions_are_found_by_a_search(path):
    async with SqlStore(SqliteEngine(path)) as store:
        await fill(store)
        assert {hit.session for hit in await store.search("heron")} == {f"s{at}" for at in range(MANY)}
        assert not store._state().index.pending


@with_file
async def test_forgotten_sessions_are_indexed_at_close(path):
    async with SqlStore(SqliteEngine(path)) as store:
        await fill(store)
    assert count_unindexed(path) == 0


@with_file
async def test_deleted_session_is_forgotten(path):
    async with SqlStore(SqliteEngine(path)) as store:
        lease = await store.lease("s0")
        lease = await store.append(lease, [draft(question("heron"))])
        await store.release(lease)
        assert list(store._state().index.pending) == ["s0"]
        await store.delete("s0")
        assert not store._state().index.pending


def test_closing_store_indexes_many_parts_in_one_transaction(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "_PIECE", 1)
    monkeypatch.setattr(search, "_KNOWN", MANY)
    statements = []

    def connect(*args, **options):
        db = sqlite3.connect(*args, **options)
        db.set_trace_callback(statements.append)
        return db

    async def action():
        async with SqlStore(SqliteEngine(tmp_path / "sessions.db", connect)) as store:
            await fill(store)
            statements.clear()

    asyncio.run(action())
    assert statements.count("BEGIN IMMEDIATE") == 1
    assert count_unindexed(tmp_path / "sessions.db") == 0
