"""Kill before and after every commit, and at some lines: no acknowledged data is lost. `make crash` uses every line."""

from __future__ import annotations

import asyncio

import pytest

from crash.experiments import Experiment
from crash.programs import SAMPLE_SIZE, run_sample, run_sweep
from crash.store_work import StoreWork
from crash.work import create_tables


@pytest.mark.parametrize("scenario", StoreWork.scenarios)
def test_scenario_ends_without_a_kill(scenario, tmp_path):
    """The sample kills in the first scenario only."""
    empty = Experiment("sqlite", tmp_path, None, "making", "")
    asyncio.run(create_tables(empty))
    created = "" if scenario == "making" else str(empty.directory / "home" / "sessions.db")

    StoreWork().play(Experiment("sqlite", tmp_path, None, scenario, created))


def test_sqlite_store_survives_kills():
    assert run_sample("store", "sqlite") > 40 + SAMPLE_SIZE


def test_postgres_store_survives_kills(postgres):
    assert run_sample("store", "postgres", "--server", str(postgres.folder)) > 40 + SAMPLE_SIZE


def test_sweep_finds_early_acknowledgements():
    done = run_sweep(
        "--part",
        "store",
        "--break",
        "early-acknowledgement",
        "--sample",
        "0",
        "--processes",
        "1",
        "--database",
        "sqlite",
    )

    assert done.code == 1
    assert "were acknowledged" in done.output
    assert all(violations > 0 for _, _, violations in done.parts.values())
