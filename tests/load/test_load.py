"""A small part of `make load`."""

from __future__ import annotations

import pytest

import real_postgres
from load import service, waves
from load.waves import Leaks


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path, tmp_path_factory):
    if request.param == "sqlite":
        yield str(tmp_path / "load.db")
        return
    with real_postgres.using(tmp_path_factory.getbasetemp() / "load-postgres") as server:
        yield server.url(f"load_{tmp_path.name}"[:40])


def test_waves_of_async_runs_leak_nothing(store):
    assert waves.async_waves(store, 150) == Leaks(0, 0, 0, 0)


def test_waves_of_runs_from_threads_leak_nothing(store):
    assert waves.sync_waves(store, 100) == Leaks(0, 0, 0, 0)


def test_service_with_two_workers_keeps_every_turn(store):
    served = service.run(store, 12)

    assert served.errors == []
    assert served.wrong == []
    assert served.requests == 48
