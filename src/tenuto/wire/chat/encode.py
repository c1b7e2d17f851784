"""Chat Completions, to the wire: one request in, bytes out, with whatever could not be said as losses."""

from __future__ import annotations

from typing import Any

from tenuto.core.loss import Loss
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest, ServerTool, ToolDefinition
from tenuto.wire.body_builder import BodyBuilder, set_parameters
from tenuto.wire.chat import switches as switch
from tenuto.wire.chat.assistant import verbatim
from tenuto.wire.chat.messages import MessageListBuilder

__all__ = ["encode", "verbatim"]

PATH = "/chat/completions"
_SAME_WORD = (
    "temperature",
    "top_p",
    "top_k",
    "n",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "user",
    "verbosity",
    "service_tier",
    "modalities",
    "audio",
    "store",
)
"""Parameters that this dialect calls what we call them."""
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def encode(request: ChatRequest, target: Target, losses: tuple[Loss, ...] = ()) -> WireRequest:
    """Write a request that is already adapted to its target and fitted to its model."""
    draft = BodyBuilder(request, target, losses)
    switches = target.provider.chat
    draft.body["model"] = target.model
    draft.body["messages"] = switch.alternate(MessageListBuilder(draft).messages(), switches)
    if tools := [written for tool in request.tools if (written := _tool(draft, tool)) is not None]:
        draft.body["tools"] = tools
    switch.tool_choice(draft, switches)
    switch.response_format(draft, switches)
    switch.think(draft, switches)
    switch.limit(draft, switches)
    switch.stop_sequences(draft, switches)
    switch.log_probabilities(draft, switches)
    draft.body.update(set_parameters(request, _SAME_WORD))
    if request.container is not None:
        draft.record_unsupported("container")
    if request.cache is not None and request.cache != "off":
        draft.body.update(_hint(draft, request.cache, "cache"))
    switch.usage_of_stream(draft, switches)
    switch.strip(draft, switches.strip)
    switch.rename(draft, switches.rename)
    switch.clamp(draft, switches.clamp)
    switch.defaults(draft, switches.defaults)
    return draft.finish(PATH)


def _hint(draft: BodyBuilder, cache: str, place: str) -> dict[str, Any]:
    if draft.target.provider.chat.cache_control:
        return {"cache_control": switch.cache_control(cache)}
    draft.record_loss("cache-hint", place, cache, "this provider caches by itself")
    return {}


def _tool(draft: BodyBuilder, tool: ToolDefinition | ServerTool) -> dict[str, Any] | None:
    if isinstance(tool, ServerTool):
        if tool.type:
            return {"type": tool.type, **tool.options}
        draft.record_loss(
            "unsupported-tool", "tools", tool.kind, "give `type` and `options` as this provider spells them"
        )
        return None
    inner: dict[str, Any] = {"name": tool.name}
    if tool.description:
        inner["description"] = tool.description
    if tool.kind == "function":
        inner["parameters"] = tool.parameters if tool.parameters is not None else _NO_PARAMETERS
        if tool.strict is not None and draft.target.provider.chat.strict_tools:
            inner["strict"] = tool.strict
        elif tool.strict is not None:
            draft.record_loss("unsupported-parameter", f"tools.{tool.name}.strict", str(tool.strict))
    options = {**(_hint(draft, tool.cache, f"tools.{tool.name}") if tool.cache else {}), **tool.options}
    nested = options.pop(tool.kind, None)
    return {"type": tool.kind, tool.kind: {**inner, **(nested if isinstance(nested, dict) else {})}, **options}
