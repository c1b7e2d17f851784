"""Rules of reasoning that a Messages request sends back: form, token, place, and the prefix that it is bound to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tenuto.rules.anthropic_body import (
    REASONING,
    BodyBlock,
    MessagesBody,
    MessagesTurn,
    SentReasoning,
    anthropic,
    block_form,
    claude,
    forms_of,
)
from tenuto.rules.body import Violation, text
from tenuto.rules.book import UnverifiedText
from tenuto.rules.issued_tokens import IssuedToken, content_digest, has_content, matches

_INVALID_SIGNATURE = "messages.{i}.content.{j}: Invalid `signature` in `thinking` block"
_BOUND = f"{_INVALID_SIGNATURE}. The block is bound to a different conversation."
_DOCS = "https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
_THINKING_TAGS = ("<thinking>", "<think>")


def _broken_rules(request: MessagesBody) -> Sequence[tuple[SentReasoning, str]]:
    """Return the reasoning blocks, each with the first rule that it breaks, or an empty string."""
    if request.reasoning_rules is None:
        request.reasoning_rules = [(item, _broken_rule(request, item)) for item in request.reasoning]
    return request.see(request.reasoning_rules)


def _broken_rule(request: MessagesBody, item: SentReasoning) -> str:
    """Return the first rule that a reasoning block breaks: by its form, token, issuer, model, text, place or prefix."""
    block, issued = item.block, item.issued
    invalid = "ANT-THINK-14" if block.type == "redacted_thinking" else "ANT-THINK-02"
    if block.token is None:
        return "ANT-THINK-14" if block.type == "redacted_thinking" else "ANT-THINK-01"
    if not request.tokens.is_known:
        return "" if block.token else invalid
    if issued is None or issued.kind != block.type:
        return invalid
    if not matches(issued.provider, request.provider) or not matches(issued.platform, request.context.platform):
        return "ANT-THINK-13"
    if not matches(issued.account, request.account):
        return "ANT-THINK-11" if request.traits.prefix_bound else invalid
    unreadable = request.traits.unreadable_thinking
    if unreadable and issued.model and re.fullmatch(unreadable, issued.model):
        return "ANT-THINK-10"
    value = block.raw.get("thinking") if block.type == "thinking" else None
    if isinstance(value, str) and not has_content(issued, value):
        return "ANT-THINK-04" if item.is_latest else _text_rule(request.turns[item.turn], item)
    return _place_rule(request, item, issued)


def _text_rule(turn: MessagesTurn, item: SentReasoning) -> str:
    """Tell a text that was joined with another, or split in two, from one that was changed."""
    issued, value = item.issued, text(item.block.raw, "thinking")
    assert issued is not None
    size = issued.length
    candidates = [value[:size], value[-size:]] if size and len(value) > size else []
    for start in (item.position - 1, item.position):
        pair = turn.blocks[max(start, 0) : start + 2]
        candidates.append("".join(text(block.raw, "thinking") for block in pair))
    return "ANT-THINK-16" if any(has_content(issued, candidate) for candidate in candidates) else "ANT-THINK-02"


def _place_rule(request: MessagesBody, item: SentReasoning, issued: IssuedToken) -> str:
    turn = request.turns[item.turn]
    is_bound = request.traits.prefix_bound and bool(issued.prefix)
    if not _is_in_place(request, turn, item.position, issued):
        before = turn.blocks[max(issued.offset, 0) : item.position]
        if is_bound and sum(block.type in REASONING for block in before) < issued.reasoning_before:
            return "ANT-THINK-12" if request.drops_unbound else "ANT-THINK-09"
        if item.is_latest:
            return "ANT-THINK-04"
        if is_bound:
            return "ANT-THINK-12" if request.drops_unbound else "ANT-THINK-08"
    elif is_bound and not request.tokens.has_prefix(issued, request, item.turn):
        return "ANT-THINK-12" if request.drops_unbound else "ANT-THINK-08"
    return ""


def _is_in_place(request: MessagesBody, turn: MessagesTurn, index: int, issued: IssuedToken) -> bool:
    """Tell whether the blocks before a reasoning block are those of its reply. Blank texts do not count."""
    if not issued.before:
        return True
    if index < issued.offset:
        return False
    before = [block for block in turn.blocks[max(issued.offset, 0) : index] if block_form(block.raw)]
    others: list[BodyBlock] = []
    if issued.offset < 0:  # the blocks before the reply are unknown
        start = len(before) - issued.index
        if start < 0:
            return False
        others, before = before[:start], before[start:]
    return content_digest(*forms_of([block.raw for block in before])) == issued.before and _may_precede(
        request, others, issued.reply
    )


def _may_precede(request: MessagesBody, blocks: Sequence[BodyBlock], reply: str) -> bool:
    """Tell whether blocks may stand before a reply in its turn: a prefill, or another reply."""
    issued = [request.tokens.find(block.token or "") for block in blocks]
    calls = [request.tokens.item(text(block.raw, "id")) for block in blocks]
    replies = {entry.reply for entry in (*issued, *calls) if entry is not None}
    if reply in replies:
        return False
    return not blocks or bool(replies) or request.traits.prefill != "rejected"


def _refused_reasoning(request: MessagesBody) -> Iterator[BodyBlock]:
    """Yield the blocks that break the running rule."""
    return (item.block for item, rule in _broken_rules(request) if rule == request.running)


# --- form -------------------------------------------------------------------------------------------------------------
claude("ANT-THINK-18", "A reasoning block has no cache_control.",
    "messages.{i}.content.{j}.{type}.cache_control: Extra inputs are not permitted",
    each=lambda request: request.blocks(*REASONING), at="/cache_control",
    when=lambda block: "cache_control" in block.raw, fields=lambda block: {"type": block.type},
    remedy="Put the cache_control on the next block that may have one.", as_of="2026-09",
    source="litellm#39815; error texts quoted by clients")  # fmt: skip

claude("ANT-THINK-01", "A thinking block has its signature.",
    "messages.{i}.content.{j}.thinking.signature: Field required",
    "messages.{i}.content.{j}.thinking.signature: Input should be a valid string",
    each=lambda request: request.blocks("thinking"), at="/signature",
    when=lambda block: not isinstance(block.raw.get("signature"), str),
    message=lambda block: block.raw.get("signature") is not None,
    remedy="Omit this block and record the loss; a signature cannot be made up.", as_of="2026-09",
    source="clawcodex#862; bifrost#6942")  # fmt: skip

claude("ANT-THINK-03", "A thinking block has its `thinking` field, even if the text is empty.",
    "messages.{i}.content.{j}.thinking.thinking: Field required", each=lambda request: request.blocks("thinking"),
    at="/thinking", when=lambda block: not isinstance(block.raw.get("thinking"), str), remedy="Always write the field.",
    as_of="2026-06", source="reports of clients")  # fmt: skip

claude("ANT-THINK-14", "A redacted thinking block has its data, unchanged.",
    "messages.{i}.content.{j}.redacted_thinking.data: Field required",
    UnverifiedText("messages.{i}.content.{j}: Invalid `data` in `redacted_thinking` block"), each=_refused_reasoning,
    at="/data", message=lambda block: "data" in block.raw, remedy="Send it back unchanged and in its place.",
    as_of="2026-07", inferred="bifrost#5094; error texts quoted by clients")  # fmt: skip


# --- place ------------------------------------------------------------------------------------------------------------
@claude("ANT-THINK-05", "With a thinking budget, a turn whose calls are being answered starts with reasoning.",
    "messages.{i}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{type}`. When `thinking` is "
    "enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` "
    "and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid this "
    f"requirement, disable `thinking`. Please consult our documentation at {_DOCS}",
    remedy="Send the reasoning back; if it is lost, turn thinking off for this request.", as_of="2025-12",
    source="pydantic-ai#2075; haystack#2146; n8n#22550; claude-code#11978")  # fmt: skip
def call_turn_without_reasoning(request: MessagesBody) -> Iterator[Violation]:
    first = _first_call_turn(request.turns) if request.budget is not None else None
    if first is None or first.blocks[0].type in REASONING:
        return
    if any(item.started_with_reasoning is False for item in request.issued_items(first)):
        return  # the provider sent it in this form
    yield Violation(f"/messages/{first.blocks[0].i}/content/{first.blocks[0].j}", {"type": first.blocks[0].type})


def _first_call_turn(turns: list[MessagesTurn]) -> MessagesTurn | None:
    """Return the turn that starts the calls and results at the end; None if the end is something else."""
    first = None
    for index in range(len(turns) - 1, 0, -2):
        answer, call = turns[index], turns[index - 1]
        results = answer.results
        if not results or not call.blocks:
            break
        if first is not None and len(results) < len(answer.blocks):  # the user wrote something: a new turn
            break
        first = call
    return first


@claude("ANT-THINK-06", "Without thinking, a last assistant message has no reasoning.",
    "messages.{i}.content.{j}: When thinking is disabled, an `assistant` message in the final position cannot contain "
    "`thinking`. To use thinking blocks, enable `thinking` in your request.",
    remedy="Turn thinking on, or omit the reasoning of the last message.", as_of="2025-11",
    source="forgecode#1195,#1853")  # fmt: skip
def reasoning_in_prefill(request: MessagesBody) -> Iterator[Violation]:
    off = request.mode == "disabled" or (not request.mode and request.traits.thinking_default == "no")
    if off and request.open_turn is not None:
        for block in request.open_turn.of(*REASONING)[:1]:
            yield Violation(block.pointer)


claude("ANT-THINK-07", "An assistant turn does not end with a thinking block.",
    "messages.{i}: The final block in an assistant message cannot be `thinking`.",
    each=lambda request: [turn.blocks[-1] for turn in request.assistant_turns() if turn.blocks],
    when=lambda block: block.type == "thinking",
    remedy="Do not send a turn that is only reasoning; store it and record the loss.", as_of="2026-04",
    source="forgecode#2107,PR#3073; hermes PR#13010")  # fmt: skip

# --- token ------------------------------------------------------------------------------------------------------------
claude("ANT-THINK-02", "A signature is one that this account received for the same text.",
    _INVALID_SIGNATURE, each=_refused_reasoning, at="/signature",
    remedy="Store signatures byte for byte; omit blocks of another issuer; retry once without the reasoning of the "
    "message.", as_of="2026-08", source="claudish#182; UncommonRoute#20; anthropic-sdk-python#1598")  # fmt: skip

claude("ANT-THINK-13", "Reasoning goes back to the platform that signed it: Anthropic, Bedrock, Vertex or Foundry.",
    _INVALID_SIGNATURE, each=_refused_reasoning,
    remedy="Treat the platform as part of the scope of a token; omit the token on another platform.", as_of="2026-07",
    source="openclaw#110079")  # fmt: skip

claude("ANT-THINK-16", "Thinking blocks are not joined under one signature, nor split.",
    _INVALID_SIGNATURE, each=_refused_reasoning, remedy="Store one token per block.", as_of="2026-07",
    source="any-llm#1312; litellm#13834")  # fmt: skip

claude("ANT-THINK-04", "In the latest assistant turn, reasoning has its text, its place and the blocks before it.",
    "messages.{i}.content.{j}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
    "modified. These blocks must remain as they were in the original response.", each=_refused_reasoning,
    remedy="Send that message unchanged; as a last resort, omit all of its reasoning once.", as_of="2026-09",
    source="claude-code#63203,#63284; pi-anthropic-auth#66; anthropic-auth#49")  # fmt: skip

# --- prefix -----------------------------------------------------------------------------------------------------------
claude("ANT-THINK-09", "Bound reasoning follows the reasoning that preceded it in its turn.",
    f"{_BOUND} The `thinking` block that preceded this one when it was created is missing from this request.",
    applies=lambda request: request.traits.prefix_bound, each=_refused_reasoning,
    remedy="Send all reasoning of a turn, or none.", as_of="2026-09", source="KiroCrew PR#11513")  # fmt: skip

claude("ANT-THINK-08", "Bound reasoning follows the same system prompt, tools and messages as before.",
    f"{_BOUND} Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".",
    applies=lambda request: request.traits.prefix_bound, each=_refused_reasoning,
    remedy="Only append to a conversation; keep tools and system prompt; send changes as system messages.",
    as_of="2026-09", documented="KiroCrew#11485; opencode#46653; goose PR#11836")  # fmt: skip

claude("ANT-THINK-10", "Reasoning of a model that this one cannot read is dropped silently.", severity="lost",
    each=_refused_reasoning, remedy="Omit it before sending and record the loss.", as_of="2026-09",
    documented="Anthropic docs on preserved thinking; SDK types")  # fmt: skip

claude("ANT-THINK-11", "Bound reasoning of another account is dropped silently.", severity="lost",
    applies=lambda request: request.traits.prefix_bound, each=_refused_reasoning,
    remedy="Store the account with every token.", as_of="2026-09",
    documented="Anthropic docs on preserved thinking; SDK types")  # fmt: skip

claude("ANT-THINK-12", "With drop_block, bound reasoning after a changed prefix is dropped on every request.",
    severity="lost", applies=lambda request: request.traits.prefix_bound, each=_refused_reasoning,
    remedy="After shortening a conversation, remove the stale reasoning once.", as_of="2026-09",
    documented="pi#9391")  # fmt: skip


# --- missing reasoning ------------------------------------------------------------------------------------------------
@claude("ANT-THINK-15", "A turn without its reasoning is accepted, with worse answers.", severity="warned",
    remedy="Of all ways to degrade, this is the safe one; count how often it happens.", as_of="2026-07",
    source="live test on Sonnet 4.5")  # fmt: skip
def reasoning_omitted(request: MessagesBody) -> Iterator[Violation]:
    for turn in request.assistant_turns() if request.tokens.is_known else ():
        if turn.blocks and not turn.of(*REASONING):
            items = request.issued_items(turn)
            if any(item.has_reasoning and not item.foreign for item in items):
                yield Violation(f"/messages/{turn.blocks[0].i}")


claude("ANT-THINK-17", "Reasoning as plain text in thinking tags is accepted, and then imitated.", severity="warned",
    each=lambda request: [block for turn in request.assistant_turns() for block in turn.of("text")],
    when=lambda block: block.text.lstrip().startswith(_THINKING_TAGS),
    remedy="Omit it, or mention it in a note of the user or the system.", as_of="2026-06",
    source="pydantic-ai#5869")  # fmt: skip


@anthropic("ANT-THINK-19", "If DeepSeek thinks, every assistant turn has its reasoning.",
    "The `content[].thinking` in the thinking mode must be passed back to the API.", only=("deepseek",),
    code="invalid_request_error",
    remedy="For this target, keep blocks without a signature, and send an empty one with other turns.", as_of="2026-08",
    source="9router#2397; DeepSeek-Reasonix#8902; cursor-byok#276")  # fmt: skip
def deepseek_reasoning_missing(request: MessagesBody) -> Iterator[Violation]:
    if request.mode == "disabled" or request.traits.thinking_default == "no":
        return
    for turn in request.assistant_turns():
        if turn.blocks and not turn.of(*REASONING):
            yield Violation(f"/messages/{turn.blocks[0].i}/content")
