"""kill -9 before and after every commit, and at some lines: nothing acknowledged is lost. `make crash` takes every line."""

from __future__ import annotations

from crash.asking import SOME, sampled, swept


def test_sqlite():
    assert sampled("store", "sqlite") > 40 + SOME


def test_postgres(postgres):
    assert sampled("store", "postgres", "--server", str(postgres.folder)) > 40 + SOME


def test_a_loss_is_seen():
    """A store that acknowledges an append before it is done loses some, and is found out."""
    done = swept("--part", "store", "--hurry", "--some", "0", "--hands", "1", "--only", "sqlite")

    assert done.code == 1
    assert "were acknowledged" in done.said
    assert all(violations > 0 for _, _, violations in done.parts.values())
