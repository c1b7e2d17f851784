"""kill -9 before and after every commit of a run with tools, and at some lines and events: it goes on to the same end.

`make crash` takes every line of `agent/`, `tools/` and the transport; `crash.agent_judge` says what is looked at.
"""

from __future__ import annotations

import os

import pytest

from crash.asking import SOME, sampled, swept
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


def test_sqlite():
    assert sampled("agent", "sqlite") > 20 + SOME


def test_postgres(server):
    assert sampled("agent", "postgres", "--server", str(server.folder)) > 20 + SOME


SPOILS = {
    "unstarted": "had not been written down",
    "twice": "took effect 2 times",
    "unordered": "results [",
    "forgetful": "an interrupted call is told as",
}


def test_a_fault_is_seen():
    """An agent that forgets to write what it begins, runs a tool twice, mixes results up or forgets them is found out."""
    spoilt = [word for name in SPOILS for word in ("--spoil", name)]
    done = swept("--part", "agent", "--some", "0", "--hands", "1", "--only", "sqlite", *spoilt)

    assert done.code == 1
    assert {name.rpartition(", ")[2] for name in done.parts} == SPOILS.keys()
    assert all(violations > 0 for _, _, violations in done.parts.values())
    for words in SPOILS.values():
        assert words in done.said
