"""What can be seen in a request of the Messages dialect before it is sent.

Neighbours of one role are joined before calls, results and thoughts are looked at, as the provider does. What holds only
for Claude is asked only where the dialect is the model's own; what models differ in, their traits tell.
"""

from __future__ import annotations

import re

from tenuto.audit import (
    anthropic_messages,
    anthropic_pictures,
    anthropic_served,
    anthropic_settings,
    anthropic_thoughts,
    anthropic_tools,
)
from tenuto.audit.cross_reading import anthropic_answers, anthropic_calls
from tenuto.audit.dialects import AuditDialect
from tenuto.audit.fates_slots import anthropic_slot, anthropic_slots
from tenuto.audit.looking import Checks

CHECKS = Checks()
for _part in (
    anthropic_settings,
    anthropic_tools,
    anthropic_messages,
    anthropic_pictures,
    anthropic_served,
    anthropic_thoughts,
):
    CHECKS.update(_part.CHECKS)

UNSEEN: dict[str, str] = {
    "ANT-PARAM-16": "what an organisation has agreed on about keeping data stands in no request",
}
"""Rules that no request shows to be broken, each with the reason."""

DIALECT = AuditDialect(
    checks=CHECKS,
    conversation="messages",
    calls=anthropic_calls,
    answers=anthropic_answers,
    slots=anthropic_slots,
    slot=anthropic_slot,
    accepts_call_id=lambda provider, id: re.fullmatch(r"[a-zA-Z0-9_-]+", id) is not None,
)
