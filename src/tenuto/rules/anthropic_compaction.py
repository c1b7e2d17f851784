"""Rules of compaction: requests for a summary, the setting that compacts by itself, and blocks that are sent back."""

from __future__ import annotations

from collections.abc import Iterator

from tenuto.rules.anthropic_body import (
    BodyBlock,
    MessagesBody,
    anthropic,
    is_server_result,
    tool_changes_digest,
    trigger_of,
)
from tenuto.rules.body import text
from tenuto.rules.book import UnverifiedText, Violation
from tenuto.rules.issued_tokens import IssuedToken, has_content, matches

_MIN_TRIGGER = 50_000


@anthropic("ANT-SRV-11", "Models before 4.6 do not summarize a conversation on request.",
    UnverifiedText("compaction: not supported by this model"),
    applies=lambda request: not request.traits.compaction, certain=False,
    remedy="Ask the model for a summary in an ordinary request.", source="Anthropic docs on compaction, in excerpts",
    confidence="documented", as_of="2026-11")  # fmt: skip
def summary_not_supported(request: MessagesBody) -> Iterator[Violation]:
    if request.is_summary_request:
        yield Violation("/compaction")


@anthropic("ANT-SRV-09", "A compaction request has content, ends with a complete turn, and has no context management.",
    UnverifiedText("messages: the conversation cannot be summarized"),
    UnverifiedText("compaction: cannot be combined with `context_management`"),
    code="{code}", remedy="Compact the messages of a request that was accepted, without `context_management`.",
    source="SDK types", confidence="documented", as_of="2026-11")  # fmt: skip
def summary_impossible(request: MessagesBody) -> Iterator[Violation]:
    if not request.is_summary_request or request.context.method == "count_tokens":  # which ignores the field
        return
    if request.body.get("context_management") is not None:
        yield Violation("/context_management", {"code": ""}, 1)
    last = request.turns[-1] if request.turns else None
    if last is None and request.summary is None:
        yield Violation("/messages", {"code": "compaction_nothing_to_summarize"})
    if last is not None and last.role == "assistant":
        answered = {block.raw.get("tool_use_id") for block in last.blocks if is_server_result(block.type)}
        calls = [block for block in last.blocks if block.type.endswith("tool_use")]
        for block in [block for block in calls if block.raw.get("id") not in answered][:1]:
            yield Violation(block.pointer, {"code": "compaction_incomplete_turn"})


@anthropic("ANT-SRV-10", "A compaction edit has its beta, and a trigger of at least 50,000 input tokens.",
    UnverifiedText("context_management.edits.{i}: Input tag 'compact_20260112' does not match any of the expected "
    "tags"),
    UnverifiedText("context_management.edits.{i}.trigger.value: Input should be greater than or equal to 50000"),
    remedy="Send the beta `compact-2026-01-12`; leave out the trigger for 150,000 tokens.", source="SDK types",
    confidence="documented", as_of="2026-11")  # fmt: skip
def compaction_edit_invalid(request: MessagesBody) -> Iterator[Violation]:
    if request.compaction_edit is None:
        return
    pointer, edit = request.compaction_edit
    if not request.has_beta("compact-2026-01-"):
        yield Violation(pointer, certain=request.context.headers_known)
    if trigger_of(edit) < _MIN_TRIGGER:
        yield Violation(f"{pointer}/trigger/value", message=1)


@anthropic("ANT-SRV-06", "A compaction block has its beta, is unchanged and, if signed, is the first and only one.",
    UnverifiedText("messages.{i}.content.{j}: Input tag 'compaction' does not match any of the expected tags"),
    UnverifiedText("{code}: messages.{i}.content.{j}"),
    code="{code}", remedy="Send it back unchanged, at the start, with the beta; null content is accepted.",
    source="SDK types", confidence="documented", as_of="2026-11")  # fmt: skip
def compaction_invalid(request: MessagesBody) -> Iterator[Violation]:
    blocks = request.blocks("compaction")
    several = sum(block.raw.get("content") is not None for block in blocks) > 1
    for block in blocks:
        if not request.has_beta("compact-"):
            yield Violation(block.pointer, {"code": ""}, certain=request.context.headers_known)
        if block.raw.get("content") is not None and (code := _broken_code(request, block, several)):
            certain = "signature" in block.raw or not block.raw.get("encrypted_content")
            yield Violation(block.pointer, {"code": code}, 1, certain)


def _broken_code(request: MessagesBody, block: BodyBlock, several: bool) -> str:
    """Return the error code for a block with content; empty if it is valid."""
    signature = text(block.raw, "signature")
    token = signature or text(block.raw, "encrypted_content")
    if not block.raw["content"]:
        return "compaction_content_mismatch"
    if token and request.tokens.is_known and (code := _token_code(request, block, request.tokens.find(token))):
        return code
    if signature or (request.has_beta("compact-2026-09-") and not request.has_beta("compact-2026-01-")):
        is_first = (block.i, block.j) == (0, 0) and request.messages[0].role != "system"
        return "compaction_block_ambiguous" if several else "" if is_first else "compaction_block_misplaced"
    return ""


def _token_code(request: MessagesBody, block: BodyBlock, issued: IssuedToken | None) -> str:
    if issued is None or issued.kind != "compaction":
        return "compaction_signature_invalid"
    origins = ((issued.provider, request.provider), (issued.platform, request.context.platform))
    if not all(matches(*pair) for pair in (*origins, (issued.account, request.account))):
        return "compaction_signature_invalid"
    if not has_content(issued, text(block.raw, "content")):
        return "compaction_content_mismatch"
    changes = issued.compacted.tool_changes if issued.compacted else ""
    is_changed = changes and changes != tool_changes_digest(block.raw.get("tool_changes"))
    return "compaction_tool_changes_mismatch" if is_changed else ""
