"""What can be seen in a request of Responses before it is sent."""

from __future__ import annotations

from tenuto.audit import responses_items, responses_parameters, responses_reasoning, responses_tools
from tenuto.audit.cross_reading import responses_answers, responses_calls
from tenuto.audit.dialects import AuditDialect
from tenuto.audit.fates_slots import responses_slot, responses_slots
from tenuto.audit.looking import Checks
from tenuto.core.provider import Provider

CHECKS = Checks(
    responses_parameters.CHECKS | responses_tools.CHECKS | responses_items.CHECKS | responses_reasoning.CHECKS
)
UNSEEN: dict[str, str] = {
    "OAR-REAS-10": "no reply keeps the ciphertext of the event that opened an item; one that nobody gave is told as "
    "OAR-REAS-05",
    "OAR-PARAM-07": "whether an organisation keeps data is its account's affair",
    "OAR-PARAM-11": "a reply does not say what instructions the request before it had",
}
"""Rules that no request shows to be broken, each with the reason."""


def _accepts_call_id(provider: Provider, id: str) -> bool:
    longest = provider.responses.call_id_max
    return not longest or len(id) <= longest


DIALECT = AuditDialect(
    checks=CHECKS,
    conversation="input",
    calls=responses_calls,
    answers=responses_answers,
    slots=responses_slots,
    slot=responses_slot,
    accepts_call_id=_accepts_call_id,
)
