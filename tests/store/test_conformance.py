"""The public store suite, with memory, SQLite and Postgres."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import uuid
from pathlib import Path

import pytest

from store.histories import RandomHistoryTests
from tenuto.store.locks import Locks
from tenuto.store.memory import Memory, MemoryStore
from tenuto.testing import StoreConformance

DAMAGED = b'{"entry":"run_ended","reason":"damaged"}'
_DAMAGE = (
    "UPDATE entries SET body = ? WHERE session = ? AND seq = ? AND body IS NOT NULL",
    "UPDATE blobs SET data = ? WHERE digest IN (SELECT digest FROM entries WHERE session = ? AND seq = ? AND body IS NULL)",
)


class TestMemory(StoreConformance, RandomHistoryTests):
    timed = True

    @pytest.fixture(autouse=True)
    def _prepare(self):
        self.memory = Memory()

    async def open(self):
        return MemoryStore(self.memory, now=self.clock, ttl_ms=self.ttl_ms)

    async def open_elsewhere(self):
        return MemoryStore(self.memory, now=self.clock, ttl_ms=self.ttl_ms, host="elsewhere")

    async def damage(self, session, seq):
        for change in _DAMAGE:
            self.memory.db.execute(change, (DAMAGED, session, seq))


class TestSqlite(StoreConformance, RandomHistoryTests):
    timed = True

    @pytest.fixture(autouse=True)
    def _prepare(self):
        with tempfile.TemporaryDirectory(prefix="tenuto-", dir=_fast_directory()) as folder:
            self.path = Path(folder, "sessions.db")
            yield

    async def open(self):
        from tenuto.store.sql_store import SqlStore
        from tenuto.store.sqlite import SqliteEngine

        return SqlStore(SqliteEngine(self.path), now=self.clock, ttl_ms=self.ttl_ms)

    async def open_elsewhere(self):
        store = await self.open()
        store._engine.locks = Locks(self.path.with_name("elsewhere"))
        return store

    async def damage(self, session, seq):
        import sqlite3

        with contextlib.closing(sqlite3.connect(self.path)) as line, line:
            for change in _DAMAGE:
                line.execute(change, (DAMAGED, session, seq))


def _fast_directory():
    """Return a directory in memory if there is room: these tests do not check power failures."""
    quick = Path("/dev/shm")
    return quick if quick.is_dir() and os.access(quick, os.W_OK) and shutil.disk_usage(quick).free > 2**30 else None


class TestPostgres(StoreConformance, RandomHistoryTests):
    timed = True  # without a clock argument, it uses the server's clock, which a test cannot move

    @pytest.fixture(autouse=True)
    def _prepare(self, emptied, tmp_path):
        self.url = emptied()
        self.elsewhere = tmp_path / "elsewhere"

    async def open(self):
        from tenuto.store.postgres import PostgresEngine
        from tenuto.store.sql_store import SqlStore

        return SqlStore(PostgresEngine(self.url), now=self.clock, ttl_ms=self.ttl_ms)

    async def open_elsewhere(self):
        store = await self.open()
        store._engine.locks = Locks(self.elsewhere)
        return store

    async def damage(self, session, seq):
        from tenuto.store.postgres import PostgresEngine

        with contextlib.closing(PostgresEngine(self.url).open(write=True)) as driver:
            driver.begin(write=True)
            for change in _DAMAGE:
                driver.change(change, (DAMAGED, session, seq))
            driver.commit()


@pytest.fixture(scope="module")
def emptied(postgres):
    """Yield a schema with tables that are emptied for each test: creating them takes longer than most tests."""
    from tenuto.store.postgres import PostgresEngine

    url = postgres.url(f"suite_{uuid.uuid4().hex}")
    with contextlib.closing(PostgresEngine(url).open(write=True)) as driver:

        def empty():
            driver.begin(write=True)
            for table in ("sessions", "entries", "inbox", "blobs", "words"):
                driver.change(f"DELETE FROM {table}")
            driver.commit()
            return url

        yield empty


def test_suite_tests_custom_stores(run_pytest):
    """A custom store is tested by a class of a few lines, with pytest only, and its violations are shown."""
    done = run_pytest(
        """
from tenuto.store.memory import Memory, MemoryStore
from tenuto.testing import StoreConformance
import pytest

class Forgetful(MemoryStore):
    async def append(self, lease, drafts, **how):
        return await super().append(lease, drafts[:1], **how)

class TestGood(StoreConformance):
    shared, large = False, 1000000
    async def open(self):
        return MemoryStore()

class TestBad(StoreConformance):
    shared, large = False, 1000000
    async def open(self):
        return Forgetful()
"""
    )
    failed = {line.split("::", 1)[1].split(" ")[0] for line in done.splitlines() if line.startswith("FAILED")}

    assert failed >= {"TestBad::test_append_numbers_the_entries", "TestBad::test_values_are_stored_byte_for_byte"}
    assert not any(name.startswith("TestGood") for name in failed)
    assert "the store can be opened only once" in done


@pytest.fixture
def run_pytest(tmp_path):
    """Run a file of tests in its own process; return the output of pytest."""
    import subprocess
    import sys

    def run(text):
        (tmp_path / "test_mine.py").write_text(text)
        options = ["-q", "-ra", "-p", "no:cacheprovider", "--tb=no", "-k", "not histories"]
        command = [sys.executable, "-m", "pytest", *options, "test_mine.py"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout

    return run
