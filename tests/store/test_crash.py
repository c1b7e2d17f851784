"""kill -9 before and after every commit, and at some lines: nothing acknowledged is lost. `make crash` takes every line."""

from __future__ import annotations

import random

from crash.asking import swept

SOME = 20
"""Lines for each database, of which it dies at one; which ones is printed as a seed."""


def _swept(kind, *given):
    seed = random.SystemRandom().randrange(1 << 32)
    done = swept("--part", "store", "--only", kind, "--some", f"{SOME}", "--seed", f"{seed}", "--hands", "1", *given)
    [(killed, missed, violations)] = done.parts.values()
    assert (done.code, violations) == (0, 0), done.said
    assert killed > 40 + SOME
    assert missed < 5  # threads take turns as they like: a last time may not come again


def test_sqlite():
    _swept("sqlite")


def test_postgres(postgres):
    _swept("postgres", "--server", str(postgres.folder))


def test_a_loss_is_seen():
    """A store that acknowledges an append before it is done loses some, and is found out."""
    done = swept("--part", "store", "--hurry", "--some", "0", "--hands", "1", "--only", "sqlite")

    assert done.code == 1
    assert "entries were acknowledged" in done.said or "head" in done.said
    assert all(violations > 0 for _, _, violations in done.parts.values())
