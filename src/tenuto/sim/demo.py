"""What the simulator plays in `make demo` and in the first run of the command without a key."""

from __future__ import annotations

from pathlib import Path

SCRIPT = Path(__file__).with_name("demo.json")
"""The script of `make demo`: parallel calls, and replies on two providers."""
GREETING = """\
**This is tenuto's simulator, not a model**, because no API key is set. It calls each tool once and repeats what it reads. \
Everything else is real: the session is stored, and you can resume it, audit it and hand it to another provider.

For replies of a model, run `tenuto keys set anthropic` or set `ANTHROPIC_API_KEY`; `tenuto providers` lists the others. \
The simulator read:"""
"""The first text of a session without a key; what the default reply repeats follows it."""
