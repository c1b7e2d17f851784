"""The rules of the dialect, in the order in which the provider tries them."""

from __future__ import annotations

from tenuto.sim.anthropic import media_rules, message_rules, request_rules, server_rules, thinking_rules, tool_rules
from tenuto.sim.judging import Checks

__all__ = ["CHECKS", "UNCHECKED"]

CHECKS = Checks()
for _part in (
    request_rules.CHECKS,
    tool_rules.DECLARING,
    message_rules.CHECKS,
    media_rules.CHECKS,
    tool_rules.PAIRING,
    server_rules.CHECKS,
    thinking_rules.CHECKS,
    message_rules.LENGTH,
):
    CHECKS.update(_part)

UNCHECKED = {"ANT-PARAM-16": "what an organisation agreed on about its data is not in a request"}
