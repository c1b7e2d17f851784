"""A session of sixty turns that switches to another provider at every turn, killed and resumed (`crash.switching`)."""

from __future__ import annotations

import random

from crash.programs import run_sweep


def test_session_that_switches_providers_survives_kills():
    seed = random.SystemRandom().randrange(1 << 32)
    done = run_sweep("--part", "switching", "--seed", f"{seed}")

    [(killed, _, violations)] = done.parts.values()
    assert (done.code, violations) == (0, 0), done.output
    assert killed >= 4
