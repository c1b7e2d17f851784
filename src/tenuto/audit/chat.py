"""What can be seen in a request of the chat dialect before it is sent."""

from __future__ import annotations

import re

from tenuto.audit.chat_parameters import PARAMETERS
from tenuto.audit.chat_thoughts import THOUGHTS
from tenuto.audit.chat_turns import TURNS
from tenuto.audit.cross_reading import chat_answers, chat_calls
from tenuto.audit.dialects import AuditDialect
from tenuto.audit.fates_slots import chat_slot, chat_slots
from tenuto.audit.looking import Checks
from tenuto.core.provider import Provider

CHECKS = Checks({**PARAMETERS, **TURNS, **THOUGHTS})
UNSEEN: dict[str, str] = {
    "OAC-OAI-15": "which models there are is the server's to say: a name that nobody knows here may be a new one",
    "OAC-AZ-01": "what the content filter finds in a prompt is known when it has looked",
    "OAC-GROQ-03": "it is about the call that the model then makes, or does not make",
    "OAC-OR-05": "what the credits cover is known to the account only",
}
"""Rules that no request shows to be broken, each with the reason."""


def _accepts_call_id(provider: Provider, id: str) -> bool:
    if provider.chat.call_id == "nine":
        return re.fullmatch(r"[a-zA-Z0-9]{9}", id) is not None
    return len(id) <= provider.chat.call_id_max


DIALECT = AuditDialect(
    checks=CHECKS,
    conversation="messages",
    calls=chat_calls,
    answers=chat_answers,
    slots=chat_slots,
    slot=chat_slot,
    accepts_call_id=_accepts_call_id,
    has_reasoning_field=True,
)
