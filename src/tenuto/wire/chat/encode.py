"""Encode a Chat Completions request: a request in, bytes and losses out."""

from __future__ import annotations

from typing import Any

from tenuto.core.provider import WireRequest
from tenuto.core.request import ServerTool, ToolDefinition
from tenuto.wire.body_builder import BodyBuilder, set_parameters
from tenuto.wire.chat import switches as switch
from tenuto.wire.chat.messages import MessageListBuilder

_SAME_NAME = (
    *("temperature", "top_p", "top_k", "n", "seed", "frequency_penalty", "presence_penalty", "logit_bias"),
    *("user", "verbosity", "service_tier", "modalities", "audio", "store"),
)
"""Parameters that have the same name in `ChatRequest` and in the body."""
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def encode(builder: BodyBuilder) -> WireRequest:
    request, switches = builder.request, builder.target.provider.chat
    builder.body["model"] = builder.target.model
    builder.body["messages"] = MessageListBuilder(builder).messages()
    if tools := [fields for tool in request.tools if (fields := _write_tool(builder, tool)) is not None]:
        builder.body["tools"] = tools
    switch.set_tool_choice(builder, switches)
    switch.set_response_format(builder, switches)
    switch.set_thinking(builder, switches)
    if request.max_tokens is not None:
        field = builder.target.traits.max_tokens_field
        is_chat_field = field in ("max_tokens", "max_completion_tokens")
        builder.body[field if is_chat_field else switches.max_tokens_field] = request.max_tokens
    switch.set_stop(builder, switches)
    switch.set_logprobs(builder, switches)
    builder.body.update(set_parameters(request, _SAME_NAME))
    if request.container is not None:
        builder.record_unsupported("container")
    if request.cache is not None and request.cache != "off":
        builder.body.update(_cache_fields(builder, request.cache, "cache"))
    builder.body["stream"] = request.stream
    if request.stream and switches.stream_options:
        builder.body["stream_options"] = {"include_usage": True}
    switch.strip(builder, switches.strip)
    switch.rename(builder, switches.rename)
    switch.clamp(builder, switches.clamp)
    switch.defaults(builder, switches.defaults)
    return builder.finish("/chat/completions")


def _cache_fields(builder: BodyBuilder, cache: str, place: str) -> dict[str, Any]:
    if builder.target.provider.chat.cache_control:
        return {"cache_control": switch.make_cache_control(cache)}
    builder.record_loss("cache-hint", place, cache, "this provider caches by itself")
    return {}


def _write_tool(builder: BodyBuilder, tool: ToolDefinition | ServerTool) -> dict[str, Any] | None:
    if isinstance(tool, ServerTool):
        if tool.type:
            return {"type": tool.type, **tool.options}
        remedy = "set `type` and `options` to this provider's own names"
        builder.record_loss("unsupported-tool", "tools", tool.kind, remedy)
        return None
    fields: dict[str, Any] = {"name": tool.name}
    if tool.description:
        fields["description"] = tool.description
    if tool.kind == "function":
        fields["parameters"] = tool.parameters if tool.parameters is not None else _NO_PARAMETERS
        if tool.strict is not None and builder.target.provider.chat.strict_tools:
            fields["strict"] = tool.strict
        elif tool.strict is not None:
            builder.record_loss("unsupported-parameter", f"tools.{tool.name}.strict", str(tool.strict))
    cache = _cache_fields(builder, tool.cache, f"tools.{tool.name}") if tool.cache else {}
    options = {**cache, **tool.options}
    nested = options.pop(tool.kind, None)
    return {"type": tool.kind, tool.kind: {**fields, **(nested if isinstance(nested, dict) else {})}, **options}
