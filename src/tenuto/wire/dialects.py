"""The four dialects by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from tenuto.core import jsonio
from tenuto.core.messages import AssistantMessage
from tenuto.core.request import ChatRequest
from tenuto.core.target import Dialect, Loss, Target, WireRequest
from tenuto.errors import TranscriptError
from tenuto.wire.codec import Decoder
from tenuto.wire.fit import fit
from tenuto.wire.handoff import adapt

__all__ = ["DECODERS", "ENCODERS", "ENCODING", "VERBATIM", "write"]

ENCODING = 1
"""The version of what `write` makes: it grows when the same request would come out as other bytes. A journal keeps it."""

T = TypeVar("T")
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
        if dialect not in self._held:
            folder, decoder = _FOLDERS[dialect]
            module = importlib.import_module(f"{folder}.{self._module}")
            self._held[dialect] = getattr(module, self._name or decoder)
        return self._held[dialect]

    def __iter__(self) -> Iterator[Dialect]:
        return iter(_FOLDERS)

    def __len__(self) -> int:
        return len(_FOLDERS)

    def __contains__(self, dialect: object) -> bool:
        return dialect in _FOLDERS


DECODERS: Mapping[Dialect, type[Decoder]] = _Loaded("decode")
ENCODERS: Mapping[Dialect, Callable[[ChatRequest, Target, tuple[Loss, ...]], WireRequest]] = _Loaded("encode", "encode")
VERBATIM: Mapping[Dialect, Callable[[AssistantMessage], list[Any]]] = _Loaded("encode", "verbatim")


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
