"""kill -9 before and after every commit, and at some lines: nothing acknowledged is lost. `make crash` takes every line."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

CRASH = Path(__file__).resolve().parent.parent / "crash"
SOME = 20
"""Lines for each database, of which it dies at one; which ones is printed as a seed."""


def _crashed(*given):
    """Run it in a process of its own, which has no thread when it forks; return how it ended, and what it said."""
    done = subprocess.run([sys.executable, str(CRASH), *given], capture_output=True, text=True, timeout=55, check=False)
    print(done.stdout, done.stderr)
    return done.returncode, done.stdout


def _killed(said):
    [[killed, missed, violations]] = re.findall(r"killed (\d+), not reached (\d+), violations (\d+)\n\Z", said)
    return int(killed), int(missed), int(violations)


def _swept(*given):
    seed = random.SystemRandom().randrange(1 << 32)
    code, said = _crashed("--some", f"{SOME}", "--seed", f"{seed}", "--hands", "1", *given)
    killed, missed, violations = _killed(said)
    assert (code, violations) == (0, 0), said
    assert killed > 40 + SOME
    assert missed < 5  # threads take turns as they like: a last time may not come again


def test_sqlite():
    _swept("--only", "sqlite")


def test_postgres(postgres):
    _swept("--only", "postgres", "--server", str(postgres.folder))


def test_a_loss_is_seen():
    """A store that acknowledges an append before it is done loses some, and is found out."""
    code, said = _crashed("--hurry", "--some", "0", "--hands", "1", "--only", "sqlite")

    assert code == 1
    assert "entries were acknowledged" in said or "head" in said
    assert _killed(said)[2] > 0
