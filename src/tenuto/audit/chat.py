"""What can be seen in a request of the chat dialect before it is sent."""

from __future__ import annotations

from tenuto.audit.chat_parameters import PARAMETERS
from tenuto.audit.chat_thoughts import THOUGHTS
from tenuto.audit.chat_turns import TURNS
from tenuto.audit.looking import Checks

__all__ = ["CHECKS", "UNSEEN"]

CHECKS = Checks({**PARAMETERS, **TURNS, **THOUGHTS})
UNSEEN: dict[str, str] = {
    "OAC-OAI-15": "which models there are is the server's to say: a name that nobody knows here may be a new one",
    "OAC-AZ-01": "what the content filter finds in a prompt is known when it has looked",
    "OAC-GROQ-03": "it is about the call that the model then makes, or does not make",
    "OAC-OR-05": "what the credits cover is known to the account only",
}
"""Rules that no request shows to be broken, each with the reason."""
