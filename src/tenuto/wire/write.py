"""Write a request for a target: adapt the transcript, apply the model's traits, encode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tenuto.core import jsonio
from tenuto.core.loss import Loss
from tenuto.core.messages import SystemMessage, UserMessage
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.errors import TranscriptError
from tenuto.wire.capabilities import apply_traits
from tenuto.wire.prefix_binding import stale_thoughts
from tenuto.wire.registry import codec_for

if TYPE_CHECKING:
    from tenuto.wire.adapt import Adapted

ENCODER_VERSION = 3
"""Grows when `write_request` gives other bytes for the same request. A journal stores it with each request."""


def write_request(request: ChatRequest, target: Target) -> WireRequest:
    """Write a request for a target. Pure: the same request gives the same bytes.

    Thinking that is bound to an earlier prefix that has changed is dropped, each time with a `Loss`.

    Raise `TranscriptError` for values that JSON cannot express: a number that is not finite, nesting without end, an
    `extra` that a caller wrote and that is not an object.
    """
    try:
        wire = _write_once(request, target)
        return _drop_stale_thinking(wire, request, target) if target.traits.prefix_bound else wire
    except jsonio.JsonError as exc:
        raise TranscriptError(f"the request cannot be written as JSON: {exc}") from exc


def _drop_stale_thinking(wire: WireRequest, request: ChatRequest, target: Target) -> WireRequest:
    """Drop thinking until none is stale: a dropped block can change how its message is written."""
    dropped: dict[tuple[int, int], None] = {}
    omitted = dict.fromkeys(request.omit_blocks)
    while more := stale_thoughts(request.transcript, wire.body, target, omitted | dropped):
        dropped |= dict.fromkeys(more)
        wire = _write_once(msgspec.structs.replace(request, omit_blocks=(*(omitted | dropped),)), target)
    if not dropped:
        return wire
    places = {f"messages[{message}].blocks[{block}]" for message, block in dropped}
    return msgspec.structs.replace(wire, losses=tuple(_name_stale(loss, places) for loss in wire.losses))


def _name_stale(loss: Loss, places: set[str]) -> Loss:
    if loss.kind != "left-out" or loss.place not in places:
        return loss
    return Loss("stale-prefix", loss.place, loss.detail, "the messages before it have changed: it cannot be sent back")


def _write_once(request: ChatRequest, target: Target) -> WireRequest:
    adapted = _adapt(request, target)
    if adapted is not None and adapted.messages is not request.transcript:
        request = msgspec.structs.replace(request, messages=adapted.messages)
    fitted, losses = apply_traits(request, target)
    wire = codec_for(target.dialect).encode(fitted, target, losses)
    if not wire.losses:
        return msgspec.structs.replace(wire, losses=adapted.losses) if adapted is not None and adapted.losses else wire
    if adapted is None:
        from tenuto.wire.adapt import Adapted  # only a loss needs it here

        adapted = Adapted(request.transcript)
    before = len(fitted.transcript) - len(adapted.messages)
    placed = (
        msgspec.structs.replace(loss, place=adapted.given(loss.place, before if at >= len(losses) else 0))
        for at, loss in enumerate(wire.losses)
    )
    return msgspec.structs.replace(wire, losses=(*adapted.losses, *placed))


def _adapt(request: ChatRequest, target: Target) -> Adapted | None:
    """Adapt the transcript; None if it has only instructions and user texts, where there is nothing to adapt."""
    messages = request.transcript
    for message in messages:  # `any(...)` would make a plain request a third slower here
        if not isinstance(message, SystemMessage | UserMessage) or not isinstance(message.content, str):
            break
    else:
        return None
    from tenuto.wire.adapt import adapt  # a tenth of the import time, and a plain request does not need it

    notes, inline = (request.foreign_reasoning == way for way in ("note", "inline"))
    return adapt(messages, target, notes=notes, inline=inline, without=frozenset(request.omit_blocks))
