"""Audit a conversation for a target: nothing is sent and nothing is changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import msgspec

from tenuto.audit.journal import compare_requests, find_cache_misses
from tenuto.audit.report import BlockOutcome, Finding, OutcomeKind, Report
from tenuto.audit.tokens import ChatTokens, GeminiTokens, MessagesTokens, ResponsesTokens, TranscriptTokens, parse_value
from tenuto.catalog import resolve
from tenuto.catalog.providers import provider_or_default
from tenuto.core import jsonio
from tenuto.core.blocks import Block
from tenuto.core.journal import Compacted, Entry, unknown_payloads_in
from tenuto.core.loss import Location, Loss, Placement
from tenuto.core.messages import AssistantMessage, Message, ToolResult, UserMessage
from tenuto.core.next_request import ConfigurationError, NextRequest, Tools
from tenuto.core.provider import Dialect, Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.core.transcript import Transcript
from tenuto.errors import StoreError, TranscriptError
from tenuto.rules.body import RequestContext
from tenuto.rules.book import RuleFinding, findings, open_body
from tenuto.rules.issued_tokens import IssuedTokens, token_of
from tenuto.wire.token_scope import foreign_replies, issuer_check
from tenuto.wire.translate import LOSS_EFFECTS
from tenuto.wire.write import blocks_of, write_request

Auditable: TypeAlias = Transcript | ChatRequest | Sequence[Message] | Sequence[Entry]
"""A conversation, a request, or the journal of a session."""

_TOKENS: dict[Dialect, type[TranscriptTokens]] = {
    "anthropic-messages": MessagesTokens, "openai-responses": ResponsesTokens, "openai-chat": ChatTokens,
    "gemini": GeminiTokens,
}  # fmt: skip


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
    compared = compare_requests(entries, find)
    changed = [finding for finding in compared if finding is not None]
    return msgspec.structs.replace(
        report,
        findings=(*report.findings, *changed),
        compared=len(compared),
        cache_misses=tuple(find_cache_misses(entries)),
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
    request = msgspec.structs.replace(request, messages=(*messages, UserMessage("Continue.")))
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
    found = _findings(parse_value(wire.body), target, wire.headers, replies, len(wire.body))
    if found:
        index = PointerIndex(outcomes)
        found = tuple(msgspec.structs.replace(finding, location=index.find(finding.pointer)) for finding in found)
    return Report(
        target=f"{target.provider.name}/{target.model}", dialect=target.dialect, blocks=_mark_refused(outcomes, found),
        findings=found,
    )  # fmt: skip


def outcomes_of(request: ChatRequest, target: Target) -> tuple[BlockOutcome, ...]:
    return block_outcomes(request.transcript, write_request(request, target, trace=True).placements)


def _findings(
    body: dict[str, Any],
    target: Target,
    headers: Mapping[str, str] | None,
    replies: tuple[AssistantMessage, ...],
    size: int | None,
) -> tuple[Finding, ...]:
    imitated = target.provider.plays[0] if target.provider.plays else ""
    foreign = foreign_replies(replies, target)
    context = RequestContext(
        row=provider_or_default(imitated, target.dialect) if imitated else target.provider,
        model=target.model.partition("/")[2] if imitated else target.model, traits=target.traits,
        headers={name.lower(): value for name, value in (headers or {}).items()}, headers_known=headers is not None,
        account=target.account, platform=target.platform,
        tokens=_TOKENS[target.dialect](replies, target, foreign) if replies else IssuedTokens(), replies=replies,
        foreign=foreign, size=size,
    )  # fmt: skip
    return tuple(_to_finding(finding) for finding in findings(open_body(target.dialect, body, context)))


def _to_finding(finding: RuleFinding) -> Finding:
    """Return the audit's finding of a broken rule: an uncertain refusal is a warning."""
    rule = finding.rule
    return Finding(
        rule=rule.id, severity="warned" if rule.severity == "refused" and not finding.certain else rule.severity,
        pointer=finding.pointer, says=finding.message, remedy=rule.remedy, source=rule.source, certain=finding.certain,
        verbatim=finding.verbatim,
    )  # fmt: skip


def _mark_refused(outcomes: tuple[BlockOutcome, ...], found: tuple[Finding, ...]) -> tuple[BlockOutcome, ...]:
    refused = {finding.location: finding for finding in reversed(found) if finding.severity == "refused"}
    if not refused:
        return outcomes
    marked = list(outcomes)
    for index, block in enumerate(outcomes):
        if finding := refused.get(block.location):
            marked[index] = msgspec.structs.replace(
                block, outcome="refused", rule=finding.rule, reason=finding.says, remedy=finding.remedy,
                source=finding.source,
            )  # fmt: skip
    return tuple(marked)


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


# --- the outcome of each block, from the placements of the encoder ----------------------------------------------------
_STEP = re.compile(r"[^./\[\]]+")
_RANK: tuple[OutcomeKind, ...] = ("kept", "translated", "stripped", "dropped")
_EFFECTS: dict[str, OutcomeKind] = {
    **LOSS_EFFECTS,
    "open-call": "kept",  # the call is sent unchanged: only its result is a placeholder
    **dict.fromkeys(
        ("arguments-not-an-object", "media-moved", "missing-signature", "moved-instructions", "system-hoisted",
         "trimmed-prefill"), "translated"
    ),
    **dict.fromkeys(
        ("cache-hint", "foreign-citations", "id-left-out", "implicit-cache", "unreadable-token", "unsupported-field",
         "unsupported-parameter"), "stripped"
    ),
    **dict.fromkeys(
        ("blank-turn", "content-refused", "empty", "empty-message", "reasoning-left-out", "reasoning-unfinished",
         "reasoning-withheld", "stale-prefix", "unaccounted", "unfinished-call", "unreadable-block",
         "unsigned-reasoning", "unsupported-block", "unsupported-content"), "dropped"
    ),
}  # fmt: skip
"""The effect of each kind of loss on the block at its location. Other kinds concern parameters."""
_RULES = {
    "call-id-mapped": "XP-01", "foreign-reasoning": "XP-02", "foreign-token": "XP-02", "missing-signature": "XP-04",
    "stale-prefix": "ANT-THINK-08",
}  # fmt: skip
"""The rule that a loss avoids to break."""


def block_outcomes(messages: Sequence[Message], placements: Iterable[Placement]) -> tuple[BlockOutcome, ...]:
    """Return the outcome of each block, in the order of the transcript."""
    blocks = [block for message in messages for block in blocks_of(message)]
    return tuple([_outcome(placement, block) for placement, block in zip(placements, blocks, strict=True)])


def _outcome(placement: Placement, block: Block | ToolResult) -> BlockOutcome:
    location, pointer, losses = placement.location, placement.pointer, placement.losses
    kind = _kind(type(block))
    loss = max(losses, key=lambda loss: _RANK.index(_effect(loss))) if losses else None
    outcome = _effect(loss) if loss is not None else "kept"
    if outcome == "kept" and pointer:
        has_token = not isinstance(block, ToolResult) and block.meta is not None and bool(token_of(block.meta))
        return BlockOutcome(location=location, kind=kind, outcome="kept", pointer=pointer, token=has_token)
    if not pointer:
        outcome = "translated" if outcome == "translated" else "dropped"
        loss = loss or Loss("empty", location, "the block is empty")
    elif outcome == "dropped":  # the block was sent: only a part of it can have been dropped
        outcome = "stripped" if kind == "tool_result" or (loss and loss.kind == "left-out") else "translated"
    assert loss is not None
    return BlockOutcome(
        location=location, kind=kind, outcome=outcome, pointer=pointer, loss=loss.kind, rule=_RULES.get(loss.kind, ""),
        reason=loss.detail, remedy=loss.remedy,
    )  # fmt: skip


@cache
def _kind(type: type[Block | ToolResult]) -> str:
    return "tool_result" if issubclass(type, ToolResult) else str(type.__struct_config__.tag)


def _effect(loss: Loss) -> OutcomeKind:
    return _EFFECTS.get(loss.kind, "kept")


class PointerIndex:
    """Find the location in the transcript of a JSON pointer into the body."""

    def __init__(self, outcomes: Iterable[BlockOutcome]) -> None:
        self._exact: dict[str, Location] = {}
        self._above: dict[str, Location] = {}
        for outcome in outcomes:
            if outcome.pointer:
                self._exact.setdefault(outcome.pointer, outcome.location)
                for pointer in _parents(outcome.pointer):
                    self._above.setdefault(pointer, outcome.location)

    def find(self, pointer: str) -> Location | None:
        """Return the location of the block at or around a pointer, else of the first block below it.

        A path as providers write it is accepted, too: `messages.3.content.0`, `input[3].id`.
        """
        if not pointer.startswith("/"):
            pointer = "".join(f"/{step}" for step in _STEP.findall(pointer))
        for above in (pointer, *_parents(pointer)):
            if above in self._exact:
                return self._exact[above]
        return self._above.get(pointer)


def _parents(pointer: str) -> Iterator[str]:
    while "/" in pointer[1:]:
        pointer = pointer.rpartition("/")[0]
        yield pointer
