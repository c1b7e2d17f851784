"""Sessions of two and of fifty turns with every simulated provider, killed at random and continued in new processes.

`crash.dialects` describes the checks. `python tests/crash --part dialects` (`make crash`) has fifty turns for every
provider; this test has one such session and fewer kills.
"""

from __future__ import annotations

import random
import re

from crash.programs import run_sweep


def test_sessions_of_all_providers_survive_kills():
    seed = random.SystemRandom().randrange(1 << 32)
    done = run_sweep("--part", "dialects", "--sample", "0", "--seed", f"{seed}", "--processes", "1")

    [(killed, _, violations)] = done.parts.values()
    assert (done.code, violations) == (0, 0), done.output
    assert killed > 25
    for dialect in ("anthropic-messages", "openai-responses", "openai-chat", "gemini"):
        [rules] = re.findall(rf"(?m)^    {dialect}: (\d+): ", done.output)
        assert int(rules) > 15
    assert done.output.count("a changed token is refused") == 4
