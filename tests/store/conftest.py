"""The databases of the store tests."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

import pytest

from real_postgres import CannotStart, using

NET = 240
"""The timeout of a test in seconds. These tests start processes and servers and wait for disks: 11 s on an idle
machine, up to 45 s on a busy one.
"""


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(NET))


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """Yield the Postgres that all workers of this run share. Tests must not stop it or kill its processes."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    yield from _file_of(shared / "postgres")


@pytest.fixture(scope="session")
def own_postgres(tmp_path_factory):
    """Yield a Postgres that only this worker uses. Tests may kill and stop it, and must start it again."""
    yield from _file_of(tmp_path_factory.getbasetemp() / "own-postgres")


@pytest.fixture
def postgres_url(postgres):
    """Return the URL of an empty schema in the shared Postgres; it is dropped when the test ends."""
    yield from _fresh(postgres)


@pytest.fixture
def own_postgres_url(own_postgres):
    """Return the URL of an empty schema in the Postgres of this worker."""
    yield from _fresh(own_postgres)


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request, tmp_path):
    """Return a function that makes engines for one database; each process needs its own."""
    if request.param == "sqlite":
        from tenuto.store.sqlite import SqliteEngine

        return lambda: SqliteEngine(tmp_path / "sessions.db")
    from tenuto.store.postgres import PostgresEngine

    url = request.getfixturevalue("postgres_url")
    return lambda: PostgresEngine(url)


def _file_of(file):
    try:
        with using(file) as server:
            yield server
    except CannotStart as exc:
        pytest.fail(str(exc), pytrace=False)


def _fresh(server):
    import psycopg

    schema = f"test_{uuid.uuid4().hex}"
    yield server.url(schema)
    until = time.monotonic() + 60
    while True:
        try:
            with psycopg.connect(server.url(), autocommit=True) as line:
                line.execute("SET client_min_messages = error")
                line.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
                return
        except psycopg.OperationalError:  # the test killed a process of it, and the server is about to restart
            if time.monotonic() > until:
                raise
