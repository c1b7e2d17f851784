"""Sessions of two and of fifty turns in the style of every provider, killed at random and gone on with in new processes.

The strict simulator refuses nothing, is asked once for each turn but for those that were cut, and gets every block and
token back in its place; a token that is changed in the journal is refused (`crash.dialects` says how it is looked at).
`python tests/crash --part dialects` (`make crash`) has fifty turns for every style; here it is one, and fewer kills.
"""

from __future__ import annotations

import random
import re

from crash.asking import swept


def test_every_style():
    seed = random.SystemRandom().randrange(1 << 32)
    done = swept("--part", "dialects", "--some", "0", "--seed", f"{seed}", "--hands", "1")

    [(killed, _, violations)] = done.parts.values()
    assert (done.code, violations) == (0, 0), done.said
    assert killed > 25
    for dialect in ("anthropic-messages", "openai-responses", "openai-chat", "gemini"):
        [rules] = re.findall(rf"(?m)^    {dialect}: (\d+): ", done.said)
        assert int(rules) > 15
    assert done.said.count("a changed token is refused") == 4
