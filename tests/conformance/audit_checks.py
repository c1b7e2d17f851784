"""Audit recorded requests: accepted ones must have no violation, refused ones must have the recorded one."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from conformance.checks import Judged
from conformance.corpus import DIALECTS, Exchange
from conformance.jsontext import load
from conformance.subject import target_for
from tenuto.audit import audit_body
from tenuto.core import jsonio
from tenuto.core.messages import AssistantMessage
from tenuto.errors import AuthenticationFailed, ContextTooLong, LLMError, NotFound, QuotaExceeded, RateLimited
from tenuto.wire.provider_errors import classify_error

__all__ = ["Refusal", "audited", "follows", "refusals"]

NO_REQUEST = "the source has no request"
_ABOUT: tuple[tuple[type[LLMError], str], ...] = (
    (AuthenticationFailed, "the key"),
    (QuotaExceeded, "the account"),
    (RateLimited, "the rate"),
    (ContextTooLong, "the length, which the recording cut"),
    (NotFound, "a model that does not exist"),
)
_BY_CODE = {
    "model_not_found": "a model that does not exist",
    "tool_use_failed": "what the model wrote",
    "invalid_image_url": "what a web address answered",
}
_OTHER_PARENT = {"mastra__core.core-src-tools-provider-tools-ordering.e2e-03"}
"""Recordings whose parent is not the reply that the request sends back: their tokens are not compared."""


def follows(exchange: Exchange) -> bool:
    """Return whether a request contains an earlier reply."""
    return "parent_step" in exchange.about or _answers(load(exchange.request.decode()) if exchange.request else None)


def _answers(body: Any) -> bool:
    messages = (body.get("messages") or body.get("contents") or body.get("input")) if isinstance(body, dict) else None
    turns = [turn for turn in messages if isinstance(turn, dict)] if isinstance(messages, list) else []
    return any(turn.get("role") in ("assistant", "model") or turn.get("type") == "function_call" for turn in turns)


def audited(exchange: Exchange, given: Sequence[AssistantMessage]) -> Judged:
    """Audit a request that the provider accepted; each predicted refusal is a false alarm and fails it."""
    replies = () if exchange.name.rpartition("/")[2] in _OTHER_PARENT else tuple(given)
    findings = audit_body(exchange.request or b"{}", target_for(exchange), replies=replies)
    return Judged(faults=[f"{f.rule} at {f.pointer}: {f.says}" for f in findings if f.severity == "refused"])


@dataclasses.dataclass
class Refusal:
    """A recorded 4xx response.

    `rules` has the first rule that the audit reports, if its text is the recorded one. `about` is the subject of the
    refusal if that is not the request.
    """

    name: str
    status: int
    text: str
    rules: list[str]
    about: str


def refusals(found: Iterable[Exchange]) -> Iterator[Refusal]:
    """Yield the recorded refusals of the four dialects."""
    for exchange in found:
        if exchange.dialect in DIALECTS and 400 <= int(exchange.about.get("status") or 0) < 500:
            yield _refusal(exchange)


def _refusal(exchange: Exchange) -> Refusal:
    status = int(exchange.about["status"])
    error = classify_error(
        exchange.body.decode("utf-8", "replace"), provider=exchange.provider, status=status, headers={}
    )
    rules: list[str] = []
    if exchange.request is not None:
        found = audit_body(exchange.request, target_for(exchange))
        predicted = [finding for finding in found if finding.severity == "refused" or not finding.certain]
        rules = [finding.rule for finding in predicted[:1] if _masked(finding.says) in _masked(exchange.body.decode())]
    about = "" if rules else _about(exchange, error)
    return Refusal(exchange.name, status, " ".join(error.message.split())[:100], rules, about)


def _masked(text: str) -> str:
    """Return a text without numbers, names of projects and escapes: a recording has others than a prediction."""
    return re.sub(r"projects/[^/]+|\d+|\\", "", text)


def _about(exchange: Exchange, error: LLMError) -> str:
    """Return what a refusal is about, if it is not the request; empty if it is."""
    if exchange.request is None:
        return NO_REQUEST
    code = _code(exchange)
    return _BY_CODE.get(code) or next((about for kind, about in _ABOUT if isinstance(error, kind)), "")


def _code(exchange: Exchange) -> str:
    try:
        error_body = jsonio.parse(exchange.body)
    except jsonio.JsonError:
        return ""
    error = error_body.get("error") if isinstance(error_body, dict) else None
    return str(error.get("code")) if isinstance(error, dict) else ""
