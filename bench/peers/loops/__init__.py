"""The agent loop of each library: three prompts and a tool; the second prompt goes to the other provider.

    python -m bench.peers.loops.NAME anthropic|openai

The argument is the first and the last provider. URLs and keys are environment variables. The last line printed is
"losses: N" if the library reports losses on its reply, else "losses: not reported".
"""

from __future__ import annotations

PROMPTS = ("Weather in Oslo and Bergen?", "And in Paris?", "And in Rome?")
CLAUDE, GPT = "claude-sonnet-4-5", "gpt-5.2"


def provider_order(first: str) -> tuple[str, str, str]:
    """Return the providers of the three prompts."""
    other = "openai" if first == "anthropic" else "anthropic"
    return first, other, first
