"""Audit a conversation for a target: nothing is sent and nothing is changed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from tenuto.audit.journal import compare_requests
from tenuto.audit.placement import PointerIndex, block_outcomes
from tenuto.audit.report import BlockOutcome, Finding, Report
from tenuto.catalog import resolve
from tenuto.catalog.providers import provider_or_default
from tenuto.core import jsonio
from tenuto.core.journal import Compacted, Entry, unknown_payloads_in
from tenuto.core.messages import AssistantMessage, Message, UserMessage
from tenuto.core.next_request import ConfigurationError, NextRequest, Tools
from tenuto.core.provider import Dialect, Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.core.transcript import Transcript
from tenuto.errors import StoreError, TranscriptError
from tenuto.rules.body import RequestContext
from tenuto.rules.book import RuleFinding, findings, open_body
from tenuto.rules.issued_tokens import IssuedTokens, NoTokens
from tenuto.wire.token_scope import foreign_replies, issuer_check
from tenuto.wire.write import write_request

Auditable: TypeAlias = Transcript | ChatRequest | Sequence[Message] | Sequence[Entry]
"""A conversation, a request, or the journal of a session."""

_PLACEHOLDER_USER_TEXT = "Continue."
"""The next user message of a conversation that ends with a reply."""
_TOKENS: dict[Dialect, tuple[str, str]] = {
    "anthropic-messages": ("anthropic_tokens", "MessagesTokens"),
    "openai-responses": ("responses_tokens", "ResponsesTokens"),
    "openai-chat": ("chat_tokens", "ChatTokens"),
    "gemini": ("gemini_tokens", "GeminiTokens"),
}
"""The module and the class with the tokens of a transcript."""


def audit(
    conversation: Auditable,
    target: Target | str | None = None,
    *,
    tools: Tools | None = None,
    find: Callable[[str], Target] = resolve,
) -> Report:
    """Report what happens to a conversation that is sent to a target now, without sending it.

    The past requests of a journal are written again and compared with the bytes that were sent. `target` may be omitted
    if the request or the journal names a model. `tools` are those of the next request; default: those of the journal.
    `find` resolves `provider/model`. A conversation or journal that ends with a reply is audited with one more user
    message; a `ChatRequest` as it is.

    Raise `UnknownProvider` for an unknown target, `TranscriptError` for content that cannot be written, `StoreError` for a
    journal of a later version, `ValueError` without a target.
    """
    request, resolved, entries = _to_request(conversation, target, tools, find)
    report = _audit_request(request, resolved, is_final=isinstance(conversation, ChatRequest))
    if not entries:
        return report
    compared = compare_requests(entries, find)
    changed = [finding for finding in compared if finding is not None]
    return msgspec.structs.replace(
        report,
        findings=(*report.findings, *changed),
        compared=len(compared),
        compactions=tuple(
            describe_compaction(entry.seq, entry.payload) for entry in entries if isinstance(entry.payload, Compacted)
        ),
    )


def describe_compaction(seq: int, payload: Compacted) -> str:
    """Return a compaction of the journal as a line."""
    if payload.is_undo:
        return f"entry {seq}: the compaction was undone ({payload.reason})"
    cleared = f", {len(payload.cleared)} tool results cleared" if payload.cleared else ""
    forms = ", ".join(
        [*(["native"] if payload.native or payload.inline else []), *(["summary"] if payload.summary else [])]
    )
    return (
        f"entry {seq}: compacted up to entry {payload.up_to_seq} ({payload.reason}: {forms or 'no summary'}{cleared})"
    )


def _audit_request(request: ChatRequest, target: Target, *, is_final: bool) -> Report:
    messages = request.transcript
    last = messages[-1] if messages else None
    if is_final or not isinstance(last, AssistantMessage) or last.paused or last.has_tool_calls():
        return report_of(request, target, write_request(request, target, trace=True))
    request = msgspec.structs.replace(request, messages=(*messages, UserMessage(_PLACEHOLDER_USER_TEXT)))
    report = report_of(request, target, write_request(request, target, trace=True))
    blocks = tuple(block for block in report.blocks if block.location.message != len(messages))
    return msgspec.structs.replace(report, blocks=blocks)


def audit_body(
    body: bytes | Mapping[str, Any],
    target: Target,
    *,
    headers: Mapping[str, str] | None = None,
    replies: tuple[AssistantMessage, ...] = (),
) -> tuple[Finding, ...]:
    """Apply the rules to the body of any request.

    `headers` are all headers of the request, None if they are not known. `replies` are the provider's replies that the
    body sends back, as they were received, if they are known: tokens are compared with them. Raise `TranscriptError` for a
    body that is not a JSON object.
    """
    try:
        parsed = jsonio.parse(body) if isinstance(body, bytes) else dict(body)
    except jsonio.JsonError as exc:
        raise TranscriptError(f"the body of a request is not JSON: {exc}") from exc
    if not isinstance(parsed, dict):
        raise TranscriptError("the body of a request is not a JSON object")
    return _findings(parsed, target, headers, replies, len(body) if isinstance(body, bytes) else None)


def report_of(request: ChatRequest, target: Target, wire: WireRequest) -> Report:
    """Audit a request that was written for a target."""
    if not wire.placements:
        wire = write_request(request, target, trace=True)
    outcomes = block_outcomes(request.transcript, wire.placements)
    replies = tuple(message for message in request.transcript if isinstance(message, AssistantMessage))
    found = _findings(_parse(wire.body), target, wire.headers, replies, len(wire.body))
    if found:
        index = PointerIndex(outcomes)
        found = tuple(msgspec.structs.replace(finding, location=index.find(finding.pointer)) for finding in found)
    return Report(
        target=f"{target.provider.name}/{target.model}",
        dialect=target.dialect,
        blocks=_mark_refused(outcomes, found),
        findings=found,
    )


def outcomes_of(request: ChatRequest, target: Target) -> tuple[BlockOutcome, ...]:
    """Return the outcome of each block of a request for a target."""
    return block_outcomes(request.transcript, write_request(request, target, trace=True).placements)


def _findings(
    body: dict[str, Any],
    target: Target,
    headers: Mapping[str, str] | None,
    replies: tuple[AssistantMessage, ...],
    size: int | None,
) -> tuple[Finding, ...]:
    imitated = target.provider.plays[0] if target.provider.plays else ""
    context = RequestContext(
        row=provider_or_default(imitated, target.dialect) if imitated else target.provider,
        model=target.model.partition("/")[2] if imitated else target.model,
        traits=target.traits,
        headers={name.lower(): value for name, value in (headers or {}).items()},
        headers_known=headers is not None,
        account=target.account,
        platform=target.platform,
        tokens=_issued_tokens(replies, target),
        replies=replies,
        foreign=foreign_replies(replies, target),
        size=size,
    )
    return tuple(_to_finding(finding) for finding in findings(open_body(target.dialect, body, context)))


def _issued_tokens(replies: tuple[AssistantMessage, ...], target: Target) -> IssuedTokens:
    if not replies:
        return NoTokens()
    module, name = _TOKENS[target.dialect]
    tokens: IssuedTokens = getattr(importlib.import_module(f"tenuto.audit.{module}"), name)(replies, target)
    return tokens


def _to_finding(finding: RuleFinding) -> Finding:
    """Return the audit's finding of a broken rule: an uncertain refusal is a warning."""
    rule = finding.rule
    return Finding(
        rule=rule.id,
        severity="warned" if rule.severity == "refused" and not finding.certain else rule.severity,
        pointer=finding.pointer,
        says=finding.message,
        remedy=rule.remedy,
        source=rule.source,
        certain=finding.certain,
        verbatim=finding.verbatim,
    )


def _parse(body: bytes) -> dict[str, Any]:
    """Parse a body that an encoder wrote, without the check of its depth (nine tenths of the time, measured)."""
    try:
        parsed: dict[str, Any] = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        parsed = jsonio.parse(body)
    return parsed


def _mark_refused(outcomes: tuple[BlockOutcome, ...], found: tuple[Finding, ...]) -> tuple[BlockOutcome, ...]:
    refused = {finding.location: finding for finding in reversed(found) if finding.severity == "refused"}
    return tuple(
        msgspec.structs.replace(
            block,
            outcome="refused",
            rule=finding.rule,
            reason=finding.says,
            remedy=finding.remedy,
            source=finding.source,
        )
        if (finding := refused.get(block.location)) is not None
        else block
        for block in outcomes
    )


def _to_request(
    conversation: Auditable, target: Target | str | None, tools: Tools | None, find: Callable[[str], Target]
) -> tuple[ChatRequest, Target, tuple[Entry, ...]]:
    """Return the request to audit, its target, and the entries if the conversation is a journal."""
    if isinstance(conversation, ChatRequest):
        request = conversation if tools is None else msgspec.structs.replace(conversation, tools=tools)
        return request, target if isinstance(target, Target) else find(target or request.model), ()
    items = conversation.messages if isinstance(conversation, Transcript) else tuple(conversation)
    entries = tuple(item for item in items if isinstance(item, Entry))
    if entries:
        return *_next_request(entries, target, tools, find), entries
    if target is None:
        raise ValueError("no target: name one, as in audit(transcript, 'provider/model')")
    messages = tuple(item for item in items if not isinstance(item, Entry))
    model = target if isinstance(target, str) else target.model
    request = ChatRequest(model=model, messages=messages, tools=tools or ())
    return request, target if isinstance(target, Target) else find(target), ()


def _next_request(
    entries: tuple[Entry, ...], target: Target | str | None, tools: Tools | None, find: Callable[[str], Target]
) -> tuple[ChatRequest, Target]:
    unknown = next(unknown_payloads_in(entries), None)
    if unknown is not None:
        raise StoreError(
            f"the journal cannot be audited: entry {unknown.seq} ({unknown.kind}) was written by a later version of "
            "tenuto; audit it with that version"
        )
    state = NextRequest()
    for entry in entries:
        state.apply(entry)
    try:
        if not isinstance(target, Target):
            target = find(target or state.request().model)
        return state.request(tools, in_scope=issuer_check(target)), target
    except ConfigurationError as exc:
        raise StoreError(str(exc)) from None
