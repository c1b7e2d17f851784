"""The databases that the store's tests run on."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

import pytest

from real_postgres import CannotStart, using

NET = 240
"""Seconds after which a test here is stuck. They start processes and servers and wait for disks, which takes a machine that
has other work many times as long as one that has none: up to 45 s for what takes 11.
"""


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(NET))


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """The Postgres that all workers of this run share. Nobody may stop it, or kill a part of it."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    yield from _served(shared / "postgres")


@pytest.fixture(scope="session")
def own_postgres(tmp_path_factory):
    """A Postgres that only this worker uses, to be killed, stopped and started again. Leave it running."""
    yield from _served(tmp_path_factory.getbasetemp() / "own-postgres")


@pytest.fixture
def postgres_url(postgres):
    """The address of an empty place in the shared Postgres: a schema that goes when the test ends."""
    yield from _fresh(postgres)


@pytest.fixture
def own_postgres_url(own_postgres):
    """The same in this worker's own."""
    yield from _fresh(own_postgres)


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request, tmp_path):
    """Makes an engine at one place, as often as it is called; each process has its own."""
    if request.param == "sqlite":
        from tenuto.store.sqlite import SqliteEngine

        return lambda: SqliteEngine(tmp_path / "sessions.db")
    from tenuto.store.postgres import PostgresEngine

    url = request.getfixturevalue("postgres_url")
    return lambda: PostgresEngine(url)


def _served(place):
    try:
        with using(place) as server:
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
        except psycopg.OperationalError:  # the test killed a part of it, and it is about to start anew
            if time.monotonic() > until:
                raise
