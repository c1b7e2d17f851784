"""Counting tokens before a question is asked: the ordinary request, cut down to what the counting endpoints take.

So what is counted is what would go out: the same instructions, tools, schema and transcript, adapted to the model. A
field that no endpoint of the kind takes (limits, sampling) is left out: it is not read by the model.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tenuto.core import jsonio
from tenuto.core.provider import Dialect, Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.errors import UnsupportedModel
from tenuto.wire.json_reply import protocol_errors, reply_fields
from tenuto.wire.registry import write_request
from tenuto.wire.urls import model_resource
from tenuto.wire.usage import count, plain

__all__ = ["decode", "encode"]

_KEPT: dict[Dialect, tuple[str, ...]] = {
    "anthropic-messages": (
        *("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control", "speed"),
        *("context_management", "compaction", "mcp_servers", "user_profile_id"),
    ),
    "openai-responses": (
        *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text"),
        *("conversation", "previous_response_id", "personality", "truncation"),
    ),
    "gemini": ("contents", "systemInstruction", "tools", "generationConfig"),
}
"""What the endpoints take, as the official SDKs have it; the Gemini API itself takes the whole question."""
_TOTALS: dict[Dialect, str] = {
    "anthropic-messages": "input_tokens",
    "openai-responses": "input_tokens",
    "gemini": "totalTokens",
}


def encode(request: ChatRequest, target: Target) -> WireRequest:
    """Write the request that asks how many tokens a question would have.

    Raise `UnsupportedModel` for a dialect that has no such request, and what `wire.registry.write_request` raises.
    """
    target = _counting(target)
    written = write_request(request, target)
    fields = jsonio.members(written.body)
    body: dict[str, Any] = {name: raw for name, raw in fields.items() if name in _KEPT[target.dialect]}
    if target.dialect == "anthropic-messages" and target.provider.anthropic.raw_predict:
        body |= {"model": target.model, "anthropic_version": target.provider.anthropic.raw_predict}
        path = "/models/count-tokens:rawPredict"
    elif target.dialect == "anthropic-messages":
        path = f"{written.path}/count_tokens"
    elif target.dialect == "openai-responses":
        path = f"{written.path}/input_tokens"
    else:
        path = f"{written.path.rpartition(':')[0]}:countTokens"
        if not target.provider.gemini.vertex:  # counts instructions and tools only so
            body = {"generateContentRequest": {"model": model_resource(target.model), **fields}}
    return msgspec.structs.replace(written, path=path, body=jsonio.encode(body))


def decode(body: bytes, target: Target) -> int:
    """Read the count. Raise the provider's error if the answer holds one, `ProtocolError` if it holds no count."""
    name = _TOTALS[_counting(target).dialect]
    with protocol_errors("the count", body, target.provider.name):
        total = count(plain(reply_fields(body, target.provider.name).get(name)))
        if total is None:
            raise ValueError(f"there is no {name} in it")
        return total


def _counting(target: Target) -> Target:
    """Return the target in a dialect that counts: its own, or its row's where the model is only asked in another."""
    for dialect in (target.dialect, target.provider.dialect):
        if dialect in _TOTALS:
            return msgspec.structs.replace(target, dialect=dialect)
    name = f"{target.provider.name}/{target.model}"
    raise UnsupportedModel(name, "the chat dialect cannot count tokens; the usage of a reply tells them afterwards")
