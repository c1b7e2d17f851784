"""A session of sixty turns that goes on with another provider at every turn, killed and resumed (`crash.changing`)."""

from __future__ import annotations

import random

from crash.asking import swept


def test_sixty_turns_with_another_provider_each():
    """Strict on both sides: nothing is refused, nobody is asked twice, every token is back in its place."""
    seed = random.SystemRandom().randrange(1 << 32)
    done = swept("--part", "changing", "--seed", f"{seed}")

    [(killed, _, violations)] = done.parts.values()
    assert (done.code, violations) == (0, 0), done.said
    assert killed >= 4
