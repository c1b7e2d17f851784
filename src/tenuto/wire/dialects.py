"""The four dialects by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tenuto.core import jsonio
from tenuto.core.messages import AssistantMessage
from tenuto.core.request import ChatRequest
from tenuto.core.target import Dialect, Loss, Target, WireRequest
from tenuto.errors import TranscriptError
from tenuto.wire.anthropic import decode as anthropic_decode
from tenuto.wire.anthropic import encode as anthropic_encode
from tenuto.wire.chat import decode as chat_decode
from tenuto.wire.chat import encode as chat_encode
from tenuto.wire.codec import Decoder
from tenuto.wire.fit import fit
from tenuto.wire.gemini import decode as gemini_decode
from tenuto.wire.gemini import encode as gemini_encode
from tenuto.wire.handoff import adapt
from tenuto.wire.responses import decode as responses_decode
from tenuto.wire.responses import encode as responses_encode

__all__ = ["DECODERS", "ENCODERS", "VERBATIM", "write"]

DECODERS: dict[Dialect, type[Decoder]] = {
    "anthropic-messages": anthropic_decode.AnthropicDecoder,
    "openai-responses": responses_decode.ResponsesDecoder,
    "openai-chat": chat_decode.ChatDecoder,
    "gemini": gemini_decode.GeminiDecoder,
}
ENCODERS: dict[Dialect, Callable[[ChatRequest, Target, tuple[Loss, ...]], WireRequest]] = {
    "anthropic-messages": anthropic_encode.encode,
    "openai-responses": responses_encode.encode,
    "openai-chat": chat_encode.encode,
    "gemini": gemini_encode.encode,
}
VERBATIM: dict[Dialect, Callable[[AssistantMessage], list[Any]]] = {
    "anthropic-messages": anthropic_encode.verbatim,
    "openai-responses": responses_encode.verbatim,
    "openai-chat": chat_encode.verbatim,
    "gemini": gemini_encode.verbatim,
}


def write(request: ChatRequest, target: Target) -> WireRequest:
    """Write a request for a target: adapt the transcript, fit the rest to the model, encode. Pure.

    Raise `TranscriptError` for what no JSON can say: a number that is none, nesting without end, an `extra` that was
    made by hand and is no object.
    """
    try:
        adapted = adapt(request.transcript, target, keep_reasoning=request.foreign_reasoning == "inline")
        if adapted.messages is not request.transcript:
            request = msgspec.structs.replace(request, messages=adapted.messages)
        fitted, losses = fit(request, target)
        return ENCODERS[target.dialect](fitted, target, (*adapted.losses, *losses))
    except jsonio.JsonError as exc:
        raise TranscriptError(f"the request cannot be written as JSON: {exc}") from exc
