"""The checks of the chat dialect, in the order in which they are tried, and the rules that cannot be checked."""

from __future__ import annotations

from tenuto.sim.chat import parameters, thoughts, turns
from tenuto.sim.judging import Checks

__all__ = ["CHECKS", "UNCHECKED"]

CHECKS = Checks(
    {id: check for table in (parameters.CHECKS, turns.CHECKS, thoughts.CHECKS) for id, check in table.items()}
)
UNCHECKED = {
    "OAC-GROQ-03": "is about the answer, not the request: a stream whose call does not fit its schema ends in this error",
    "OAC-OR-05": "nobody has a balance here",
}
"""Rules that no check holds, and why."""
