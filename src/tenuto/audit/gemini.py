"""What can be seen in a request of Gemini's dialect before it is sent."""

from __future__ import annotations

from tenuto.audit import gemini_fields, gemini_parameters, gemini_schemas, gemini_signatures, gemini_turns
from tenuto.audit.cross_reading import gemini_answers, gemini_calls
from tenuto.audit.dialects import AuditDialect
from tenuto.audit.fates_slots import gemini_slot, gemini_slots
from tenuto.audit.looking import Checks

CHECKS = Checks(
    {
        **gemini_fields.CHECKS,
        **gemini_parameters.CHECKS,
        **gemini_schemas.CHECKS,
        **gemini_turns.CHECKS,
        **gemini_signatures.CHECKS,
    }
)
UNSEEN: dict[str, str] = {
    "GEM-PARAM-12": "whether a key is valid is known to who gave it out",
    "GEM-RESP-01": "what a filter blocks is known to whoever runs it; the answer is a 200",
    "GEM-INT-01": "the Interactions API has another body, which is not written here",
}
"""Rules that no request shows to be broken, each with the reason."""

DIALECT = AuditDialect(
    checks=CHECKS,
    conversation="contents",
    calls=gemini_calls,
    answers=gemini_answers,
    slots=gemini_slots,
    slot=gemini_slot,
    signs_calls=True,
)
