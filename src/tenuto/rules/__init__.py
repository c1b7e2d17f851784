"""The rule book: the conditions under which providers refuse a request or drop a part of it.

One decorated function or row per rule. The simulator refuses with it, the audit predicts with it. No table is read here:
model traits and provider rows are passed in.
"""

from tenuto.rules.body import RequestBody, RequestContext, Violation
from tenuto.rules.book import (
    Judgement,
    Rule,
    all_rules,
    findings,
    judge,
    open_body,
    refusal,
    rule,
)

__all__ = [
    "Judgement", "RequestBody", "RequestContext", "Rule", "Violation", "all_rules", "findings", "judge", "open_body",
    "refusal", "rule",
]  # fmt: skip
