"""Kill a run with tools before and after every commit, and at some lines and events: it continues to the same end.

`make crash` uses every line of `agent/`, `tools/` and the transport; `crash.agent_check` describes the conditions.
"""

from __future__ import annotations

import os

import pytest

from crash.programs import SAMPLE_SIZE, run_sample, run_sweep
from real_postgres import CannotStart, using


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The Postgres that all workers of this run share."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    try:
        with using(shared / "postgres") as found:
            yield found
    except CannotStart as exc:
        pytest.fail(str(exc), pytrace=False)


def test_agent_on_sqlite_survives_kills():
    assert run_sample("agent", "sqlite") > 20 + SAMPLE_SIZE


def test_agent_on_postgres_survives_kills(server):
    assert run_sample("agent", "postgres", "--server", str(server.folder)) > 20 + SAMPLE_SIZE


def test_compacted_session_survives_kills():
    """Before and after every commit, and at some lines of a compaction; `make crash` uses every line."""
    assert run_sample("agent", "sqlite", "--scenario", "long", "--lines", "agent/compaction") > 40 + SAMPLE_SIZE


BREAKAGES = {
    "missing-start": "had not been written down",
    "repeated-call": "took effect 2 times",
    "reversed-results": "results [",
    "empty-results": "the result of an interrupted call is",
}


def test_sweep_finds_broken_agents():
    options = [option for name in BREAKAGES for option in ("--break", name)]
    done = run_sweep("--part", "agent", "--sample", "0", "--processes", "1", "--database", "sqlite", *options)

    assert done.code == 1
    assert {name.rpartition(", ")[2] for name in done.parts} == BREAKAGES.keys()
    assert all(violations > 0 for _, _, violations in done.parts.values())
    for names in BREAKAGES.values():
        assert names in done.output
