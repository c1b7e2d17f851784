"""Each library's own loop: three questions, a tool, the second question to the other provider.

    python -m bench.peers.loops.NAME anthropic|openai

The word says who is asked first and last. Addresses and keys are in the environment. The last line that is printed is
"losses: N" where the library says on its reply what could not go along, and "losses: not told" where it does not.
"""

from __future__ import annotations

QUESTIONS = ("Weather in Oslo and Bergen?", "And in Paris?", "And in Rome?")
CLAUDE, GPT = "claude-sonnet-4-5", "gpt-5.2"


def order(first: str) -> tuple[str, str, str]:
    """Who is asked: there, and back."""
    other = "openai" if first == "anthropic" else "anthropic"
    return first, other, first
