"""Write a request for a target: adapt the transcript, apply the model's traits, encode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tenuto.core import jsonio
from tenuto.core.blocks import Block, ChatMeta, Reasoning, Refusal, Text, ToolUse
from tenuto.core.loss import Location, Loss, Placement
from tenuto.core.messages import (
    AssistantMessage,
    Message,
    Origin,
    SystemMessage,
    ToolResult,
    ToolResults,
    summary_block,
)
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.errors import TranscriptError
from tenuto.wire.body_builder import BodyBuilder, WrittenMessages
from tenuto.wire.capabilities import apply_traits
from tenuto.wire.codec import codec_for
from tenuto.wire.prefix_binding import stale_thoughts
from tenuto.wire.token_scope import issued_by

if TYPE_CHECKING:
    from tenuto.wire.adapt import Adapted

ENCODER_VERSION = 5
"""Grows when `write_request` gives other bytes for the same request. A journal stores it with each request."""
UNACCOUNTED = "unaccounted"
"""The kind of the loss of a block that is neither in the body nor in the losses: a bug of the encoder."""


def write_request(
    request: ChatRequest, target: Target, *, trace: bool = False, written: WrittenMessages | None = None
) -> WireRequest:
    """Write a request for a target. Pure: the same request gives the same bytes.

    Thinking that is bound to an earlier prefix that has changed is dropped, each time with a `Loss`. With `trace`, the
    result has a `Placement` for each block of the transcript. `written` are the messages of the last request of this
    conversation: it saves writing them again, and becomes those of this request.

    Raise `TranscriptError` for values that JSON cannot express: a number that is not finite, nesting without end, an
    `extra` that a caller wrote and that is not an object.
    """
    try:
        wire = _write_once(request, target, trace=trace, written=written)
        if target.traits.prefix_bound:
            wire = _drop_stale_thinking(wire, request, target, trace=trace)
    except jsonio.JsonError as exc:
        raise TranscriptError(f"the request cannot be written as JSON: {exc}") from exc
    return replace(wire, placements=_place_all(request, wire)) if trace else wire


def _drop_stale_thinking(wire: WireRequest, request: ChatRequest, target: Target, *, trace: bool) -> WireRequest:
    """Drop thinking until none is stale: a dropped block can change how its message is written."""
    dropped: dict[tuple[int, int], None] = {}
    omitted = dict.fromkeys(request.omit_blocks)
    while more := stale_thoughts(request.transcript, wire.body, target, omitted | dropped):
        dropped |= dict.fromkeys(more)
        wire = _write_once(replace(request, omit_blocks=(*(omitted | dropped),)), target, trace=trace)
    if not dropped:
        return wire
    stale = {Location(message, block) for message, block in dropped}
    remedy = "the messages before it have changed: it cannot be sent back"
    losses = list(wire.losses)
    for index, loss in enumerate(losses):
        if loss.kind == "left-out" and loss.location in stale:
            losses[index] = replace(loss, kind="stale-prefix", remedy=remedy)
    return replace(wire, losses=tuple(losses))


def _write_once(
    request: ChatRequest, target: Target, *, trace: bool, written: WrittenMessages | None = None
) -> WireRequest:
    adapted: Adapted | None = None
    if request.omit_blocks or not is_fit(request.transcript, target):
        from tenuto.wire.adapt import adapt  # a tenth of the import time, and most requests do not need it

        notes, inline = (request.foreign_reasoning == way for way in ("note", "inline"))
        adapted = adapt(request.transcript, target, notes=notes, inline=inline, without=frozenset(request.omit_blocks))
        if adapted.messages is not request.transcript:
            request = replace(request, messages=adapted.messages)
    fitted, losses = apply_traits(request, target) if target.traits.known else (request, ())
    wire = codec_for(target.dialect).encode(BodyBuilder(fitted, target, losses, trace=trace, written=written))
    inserted = len(fitted.transcript) - len(request.transcript)
    if adapted is None and not inserted:
        return wire
    if adapted is None:
        from tenuto.wire.adapt import Adapted  # only a loss needs it here

        adapted = Adapted(request.transcript)
    moved = (replace(loss, location=adapted.original(loss.location, inserted)) for loss in wire.losses)
    placements = tuple(replace(one, location=adapted.original(one.location, inserted)) for one in wire.placements)
    return replace(wire, losses=(*adapted.losses, *moved), placements=placements)


def _place_all(request: ChatRequest, wire: WireRequest) -> tuple[Placement, ...]:
    """Return what became of each block: its first pointer, its losses, and those that dropped its whole message."""
    first: dict[tuple[int | None, int | None], Placement] = {}
    for placement in wire.placements:
        first.setdefault((placement.location.message, placement.location.block), placement)
    losses: dict[Location, list[Loss]] = {}
    for loss in wire.losses:
        losses.setdefault(replace(loss.location, path=""), []).append(loss)
    placements: list[Placement] = []
    for at, message in enumerate(request.transcript):
        for index, block in enumerate(blocks_of(message)):
            placed = first.get((at, index))
            if placed is not None and not losses:
                placements.append(placed)
                continue
            location = Location(at, index)
            reasons = losses.get(location, [])
            if placed is None and not reasons:
                reasons = losses.get(Location(at), [])
            if placed is None and not reasons and not _is_empty(block):
                reasons = [Loss(UNACCOUNTED, location, type(block).__name__, "report this as a bug of tenuto")]
            placements.append(Placement(location, placed.pointer if placed else "", tuple(reasons)))
    return tuple(placements)


def blocks_of(message: Message) -> tuple[Block | ToolResult, ...]:
    """Return the blocks, content parts or tool results of a message."""
    if isinstance(message, AssistantMessage):
        return message.blocks
    return message.results if isinstance(message, ToolResults) else message.parts


def _is_empty(block: Block | ToolResult) -> bool:
    """Return whether a block has nothing that a reader or a provider could miss."""
    if isinstance(block, Reasoning):
        meta = block.meta
        has_token = meta.signature or meta.details if isinstance(meta, ChatMeta) else meta is not None
        return not block.text and not has_token
    return isinstance(block, Text | Refusal) and not block.text.strip()


def is_fit(messages: tuple[Message, ...], target: Target) -> bool:
    """Return whether `adapt`, five times as slow, would change nothing: own replies, results after their calls."""
    provider, dialect, model = target.provider.name, target.dialect, target.model
    own = issuer = Origin(provider, dialect, model, target.account, target.platform)
    has_reply = False
    open_ids: list[str] = []
    all_ids: set[str] = set()
    for message in messages:
        if isinstance(message, ToolResults):
            if not open_ids or len(message.results) != len(open_ids):
                return False
            for result, id in zip(message.results, open_ids, strict=True):
                if result.tool_use_id != id:
                    return False
                if not isinstance(result.content, str) and any(part.meta for part in result.content):
                    return False
            open_ids = []
        elif open_ids:
            return False
        elif isinstance(message, AssistantMessage):
            origin = message.origin
            if origin is None or message.incomplete:
                return False
            if origin != own and origin != issuer and not issued_by(origin, target):
                return False
            issuer, has_reply = origin, True
            for block in message.blocks:
                if isinstance(block, ToolUse):
                    if not block.id or block.id in all_ids:
                        return False
                    open_ids.append(block.id)
                    all_ids.add(block.id)
        elif not isinstance(message.content, str) and any(part.meta for part in message.content):
            return False
    if open_ids or not has_reply:
        return not open_ids
    first, last = (next(m for m in turns if not isinstance(m, SystemMessage)) for turns in (messages, messages[::-1]))
    if isinstance(last, AssistantMessage) or (isinstance(first, AssistantMessage) and not summary_block(first)):
        return False
    return not codec_for(target.dialect).replay_rules.turn_order(target).alternates
