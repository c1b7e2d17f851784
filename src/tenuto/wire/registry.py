"""The four dialects by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tenuto.core import jsonio
from tenuto.core.messages import AssistantMessage, SystemMessage, UserMessage
from tenuto.core.provider import Dialect, Loss, Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.errors import TranscriptError
from tenuto.wire.capabilities import apply_traits
from tenuto.wire.decoder import Decoder
from tenuto.wire.prefix_binding import stale_thoughts

if TYPE_CHECKING:  # a plain question needs nothing of it
    from tenuto.wire.adapt import Adapted

__all__ = ["DECODERS", "ENCODERS", "ENCODING", "VERBATIM", "write_request"]

ENCODING = 2
"""The version of what `write_request` makes: it grows when the same request would come out as other bytes. A journal keeps it."""

T = TypeVar("T")
_WORDS = (SystemMessage, UserMessage)
_FOLDERS: dict[Dialect, tuple[str, str]] = {
    "anthropic-messages": ("tenuto.wire.anthropic", "AnthropicDecoder"),
    "openai-responses": ("tenuto.wire.responses", "ResponsesDecoder"),
    "openai-chat": ("tenuto.wire.chat", "ChatDecoder"),
    "gemini": ("tenuto.wire.gemini", "GeminiDecoder"),
}


class _Loaded(Mapping[Dialect, T]):
    """What each dialect has under one name. A dialect is loaded when it is first asked for."""

    def __init__(self, module: str, name: str = "") -> None:
        self._module = module
        self._name = name
        self._held: dict[str, T] = {}

    def __getitem__(self, dialect: Dialect) -> T:
        held = self._held.get(dialect)
        if held is None:
            folder, decoder = _FOLDERS[dialect]
            module = importlib.import_module(f"{folder}.{self._module}")
            held = self._held[dialect] = getattr(module, self._name or decoder)
        return held

    def __iter__(self) -> Iterator[Dialect]:
        return iter(_FOLDERS)

    def __len__(self) -> int:
        return len(_FOLDERS)

    def __contains__(self, dialect: object) -> bool:
        return dialect in _FOLDERS


DECODERS: Mapping[Dialect, type[Decoder]] = _Loaded("decode")
ENCODERS: Mapping[Dialect, Callable[[ChatRequest, Target, tuple[Loss, ...]], WireRequest]] = _Loaded("encode", "encode")
VERBATIM: Mapping[Dialect, Callable[[AssistantMessage], list[Any]]] = _Loaded("encode", "verbatim")


def write_request(request: ChatRequest, target: Target) -> WireRequest:
    """Write a request for a target: adapt the transcript, fit the rest to the model, encode. Pure.

    Thoughts that are bound to other words than those that now stand before them are left out, each with a `Loss`.

    Raise `TranscriptError` for what no JSON can say: a number that is none, nesting without end, an `extra` that was made
    by hand and is no object.
    """
    try:
        wire = _write_once(request, target)
        return _drop_stale_thinking(wire, request, target) if target.traits.prefix_bound else wire
    except jsonio.JsonError as exc:
        raise TranscriptError(f"the request cannot be written as JSON: {exc}") from exc


def _drop_stale_thinking(wire: WireRequest, request: ChatRequest, target: Target) -> WireRequest:
    """Leave thoughts out until none is stale: without one, its turn may come out otherwise than was foreseen."""
    gone: dict[tuple[int, int], None] = {}
    without = dict.fromkeys(request.omit_blocks)
    while more := stale_thoughts(request.transcript, wire.body, target, without | gone):
        gone |= dict.fromkeys(more)
        wire = _write_once(msgspec.structs.replace(request, omit_blocks=(*(without | gone),)), target)
    places = {f"messages[{at}].blocks[{place}]" for at, place in gone}
    return msgspec.structs.replace(wire, losses=tuple(_named(loss, places) for loss in wire.losses)) if gone else wire


def _write_once(request: ChatRequest, target: Target) -> WireRequest:
    adapted = _adapt(request, target)
    if adapted is not None and adapted.messages is not request.transcript:
        request = msgspec.structs.replace(request, messages=adapted.messages)
    fitted, losses = apply_traits(request, target)
    wire = ENCODERS[target.dialect](fitted, target, losses)
    if not wire.losses:
        return msgspec.structs.replace(wire, losses=adapted.losses) if adapted is not None and adapted.losses else wire
    if adapted is None:
        from tenuto.wire.adapt import Adapted  # what was lost is to be placed

        adapted = Adapted(request.transcript)
    before = len(fitted.transcript) - len(adapted.messages)
    placed = (
        msgspec.structs.replace(loss, place=adapted.given(loss.place, before if at >= len(losses) else 0))
        for at, loss in enumerate(wire.losses)
    )
    return msgspec.structs.replace(wire, losses=(*adapted.losses, *placed))


def _adapt(request: ChatRequest, target: Target) -> Adapted | None:
    """Adapt the transcript; None for a plain question: nothing of a model's is in it, and nothing could be foreign."""
    said = request.transcript
    for message in said:  # no `any(...)`: a plain question comes no further, and pays a third less so
        if not isinstance(message, _WORDS) or not isinstance(message.content, str):
            break
    else:
        return None
    import tenuto.wire.adapt as handing  # not before there is something to adapt: it is a tenth of what is loaded

    notes, inline = (request.foreign_reasoning == way for way in ("note", "inline"))
    return handing.adapt(said, target, notes=notes, inline=inline, without=frozenset(request.omit_blocks))


def _named(loss: Loss, places: set[str]) -> Loss:
    """Say why a thought is left out, if it stood at one of these places."""
    if loss.kind != "left-out" or loss.place not in places:
        return loss
    return Loss(
        "stale-prefix", loss.place, loss.detail, "what stood before it has changed: it cannot be taken back here"
    )
