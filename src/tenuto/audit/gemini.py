"""What can be seen in a request of Gemini's dialect before it is sent."""

from __future__ import annotations

from tenuto.audit import gemini_fields, gemini_parameters, gemini_schemas, gemini_signatures, gemini_turns
from tenuto.audit.looking import Checks

__all__ = ["CHECKS", "UNSEEN"]

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
