"""What is not indexed yet: found by whoever searches, made up for by whoever closes, and remembered within bounds."""

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
    """Few sessions are remembered, and nothing rests long enough to be indexed meanwhile."""
    monkeypatch.setattr(search, "_KNOWN", MOST)
    monkeypatch.setattr(search, "_QUIET", 1e9)


def told(story):
    """A test that is a story on a file of its own."""

    @functools.wraps(story)
    def test(tmp_path):
        asyncio.run(story(tmp_path / "sessions.db"))

    del test.__wrapped__  # else pytest asks for the story's arguments
    return test


async def filled(store):
    for at in range(MANY):
        await write(store, f"s{at}", question(f"heron {at}"))


def left(path):
    """How many sessions are behind, by the file itself."""
    db = sqlite3.connect(path)
    [[count]] = db.execute("SELECT count(*) FROM sessions WHERE indexed < head")
    db.close()
    return count


@told
async def test_only_so_many_sessions_are_remembered_as_being_behind(path):
    async with SqlStore(SqliteEngine(path)) as store:
        await filled(store)
        assert len(store._state().index.pending) == MOST
        assert left(path) == MANY


@told
async def test_those_that_are_not_remembered_are_found_by_a_search(path):
    async with SqlStore(SqliteEngine(path)) as store:
        await filled(store)
        assert {hit.session for hit in await store.search("heron")} == {f"s{at}" for at in range(MANY)}
        assert not store._state().index.pending


@told
async def test_those_that_are_not_remembered_are_indexed_when_the_store_is_closed(path):
    async with SqlStore(SqliteEngine(path)) as store:
        await filled(store)
    assert left(path) == 0


@told
async def test_a_session_that_is_deleted_is_not_remembered(path):
    async with SqlStore(SqliteEngine(path)) as store:
        lease = await store.lease("s0")
        lease = await store.append(lease, [draft(question("heron"))])
        await store.release(lease)
        assert list(store._state().index.pending) == ["s0"]
        await store.delete("s0")
        assert not store._state().index.pending


def test_a_store_that_is_closed_indexes_many_pieces_in_one_transaction(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "_PIECE", 1)
    monkeypatch.setattr(search, "_KNOWN", MANY)
    said = []

    def connect(*args, **options):
        db = sqlite3.connect(*args, **options)
        db.set_trace_callback(said.append)
        return db

    async def story():
        async with SqlStore(SqliteEngine(tmp_path / "sessions.db", connect)) as store:
            await filled(store)
            said.clear()

    asyncio.run(story())
    assert said.count("BEGIN IMMEDIATE") == 1
    assert left(tmp_path / "sessions.db") == 0
