"""Where the sessions of a test are kept."""

from __future__ import annotations

import pytest

from tenuto.store.memory import Memory, MemoryStore
from tenuto.store.sql_store import SqlStore
from tenuto.store.sqlite import SqliteEngine


@pytest.fixture(params=["memory", "sqlite"])
def stores(request, tmp_path):
    """Makes stores over one place: to each other they are like those of different processes."""
    if request.param == "memory":
        memory = Memory()
        return lambda: MemoryStore(memory)
    return lambda: SqlStore(SqliteEngine(tmp_path / "sessions.db"))
