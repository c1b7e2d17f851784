"""Write the parameters of a request: tools, thinking, sampling, limits."""

from __future__ import annotations

from typing import Any

from tenuto.core.request import JsonSchema, NamedTool, ServerTool, Thinking, ToolDefinition
from tenuto.wire.anthropic.protocol import SERVER_TOOLS
from tenuto.wire.body_builder import BodyBuilder

DEFAULT_MAX_TOKENS = 4096
MIN_BUDGET = 1024
ANSWER_RESERVE = 4096
"""Tokens left for the answer if a thinking budget would use the whole output limit."""
BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576, "max": 32768}
"""The thinking budget for each effort, for models that take no effort."""
INTERLEAVED_BETA = "interleaved-thinking-2025-05-14"
_UNSUPPORTED = (
    *("seed", "frequency_penalty", "presence_penalty", "logprobs", "top_logprobs", "logit_bias"),
    *("verbosity", "modalities", "audio", "store"),
)


def write_options(builder: BodyBuilder) -> None:
    """Write all parameters. A parameter that this dialect does not have is a `Loss`."""
    request, traits, body = builder.request, builder.target.traits, builder.body
    if request.tools or request.tool_choice is not None:
        _write_tools(builder)
    if request.temperature is not None:
        body["temperature"] = temperature = min(max(request.temperature, 0), 1)
        if temperature != request.temperature:
            builder.record_loss("clamped", "temperature", f"{request.temperature} became {temperature}")
    stops = [request.stop] if isinstance(request.stop, str) else request.stop
    builder.set_if_given(top_p=request.top_p, top_k=request.top_k, stop_sequences=stops or None)
    limit = request.max_tokens
    body["max_tokens"] = traits.max_output or DEFAULT_MAX_TOKENS if limit is None else limit
    if request.thinking is not None or request.effort is not None:
        _write_thinking(builder)
    if request.effort is not None or request.response_format is not None:
        config: dict[str, Any] = {}
        if request.effort not in (None, "none") and (traits.efforts is None or request.effort in traits.efforts):
            config["effort"] = request.effort
        if isinstance(request.response_format, JsonSchema) and traits.structured_output == "native":
            config["format"] = {"type": "json_schema", "schema": request.response_format.schema}
        builder.set_if_given(output_config=config or None)
    if request.user is not None:
        body["metadata"] = {"user_id": request.user}
    builder.set_if_given(service_tier=request.service_tier)
    if request.cache is not None and request.cache != "off":
        body |= cache_control(request.cache)
    if request.stream:
        body["stream"] = True
    builder.record_unsupported(*_UNSUPPORTED)
    if request.n is not None and request.n != 1:
        builder.record_loss("unsupported-parameter", "n", str(request.n), "send several requests")


def cache_control(cache: str) -> dict[str, Any]:
    """Write the `cache_control` field; none for an empty text. A text that is not a TTL means the default TTL."""
    if not cache:
        return {}
    ttl = {"ttl": cache} if cache in ("5m", "1h") else {}
    return {"cache_control": {"type": "ephemeral", **ttl}}


def _write_tools(builder: BodyBuilder) -> None:
    request, choice = builder.request, builder.request.tool_choice
    if request.tools:
        tools = [_write_tool(builder, tool) for tool in request.tools]
        builder.body["tools"] = [tool for tool in tools if tool is not None]
    fields: dict[str, Any] = {}
    if isinstance(choice, NamedTool):
        fields = {"type": "tool", "name": choice.name}
    elif choice is not None:
        fields = {"type": "any" if choice == "required" else choice}
    if request.parallel_tool_calls is False and request.tools and choice != "none":
        fields = {"type": "auto", **fields, "disable_parallel_tool_use": True}
    if fields and builder.body.get("tools"):
        builder.body["tool_choice"] = fields
    elif choice not in (None, "auto", "none"):
        builder.record_loss("unsupported-parameter", "tool_choice", repr(choice), "give the tools to choose from")


def _write_tool(builder: BodyBuilder, tool: ToolDefinition | ServerTool) -> dict[str, Any] | None:
    if isinstance(tool, ServerTool):
        default_type, name = SERVER_TOOLS.get(tool.kind, ("", ""))
        if not (tool.type or default_type):
            builder.record_loss("unsupported-tool", "tools", tool.kind, "give its exact `type`")
            return None
        return {"type": tool.type or default_type, **({"name": name} if name else {}), **tool.options}
    schema = tool.parameters or {"type": "object", "properties": {}}
    if tool.kind == "custom":
        builder.record_loss("custom-tool", f"tools[{tool.name}]", "free text input became a string named `input`")
        schema = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    fields: dict[str, Any] = {"name": tool.name, "input_schema": schema}
    if tool.description:
        fields["description"] = tool.description
    if tool.strict is not None:
        fields["strict"] = tool.strict
    return {**fields, **cache_control(tool.cache), **tool.options}


def _write_thinking(builder: BodyBuilder) -> None:
    """Write the mode that the request names, or the one that the model has for an effort."""
    request, modes = builder.request, builder.target.traits.thinking
    thinking = request.thinking or Thinking()
    display = {} if thinking.show is None else {"display": "summarized" if thinking.show else "omitted"}
    takes_budget = not modes or "budget" in modes
    if thinking.mode == "off" or (thinking.mode is None and request.effort == "none"):
        _disable_thinking(builder)
    elif thinking.mode == "between_tools":
        _write_thinking_mode(builder, thinking.mode, {})
    elif (thinking.budget is not None and takes_budget) or ("budget" in modes and "adaptive" not in modes):
        _write_budget(builder, display)
    elif request.thinking is not None or not modes or "adaptive" in modes:
        _write_thinking_mode(builder, "adaptive", display)


def _disable_thinking(builder: BodyBuilder) -> None:
    traits = builder.target.traits
    if not traits.thinking or "disabled" in traits.thinking:
        builder.body["thinking"] = {"type": "disabled"}
    elif "between_tools" in traits.thinking:
        builder.body["thinking"] = {"type": "between_tools"}
        builder.record_loss("thinking-stays-on", "thinking", "this model still thinks between tool calls")
    elif traits.thinking_default != "no":
        builder.record_loss("thinking-stays-on", "thinking", "this model always thinks", "ask for a lower effort")


def _write_thinking_mode(builder: BodyBuilder, mode: str, display: dict[str, Any]) -> None:
    """Write a mode without a budget."""
    thinking, modes = builder.request.thinking, builder.target.traits.thinking
    if thinking is not None and thinking.budget is not None:
        builder.record_loss("no-thinking-budget", "thinking.budget", "this model takes an effort instead of a budget")
    if not modes or mode in modes or (mode == "adaptive" and "always" in modes):
        builder.body["thinking"] = {"type": mode, **display}
    else:
        builder.record_loss("no-such-thinking", "thinking", f"{mode} is not one of {', '.join(modes)}")


def _write_budget(builder: BodyBuilder, display: dict[str, Any]) -> None:
    """Write a thinking budget, raise `max_tokens` above it, and remove sampling parameters that it excludes."""
    request, traits, body = builder.request, builder.target.traits, builder.body
    budget = request.thinking.budget if request.thinking is not None else None
    if budget is None:
        budget = BUDGETS.get(request.effort or "medium", BUDGETS["medium"])
    if budget < MIN_BUDGET:
        builder.record_loss("clamped", "thinking.budget", f"{budget} became {MIN_BUDGET}")
        budget = MIN_BUDGET
    if budget >= body["max_tokens"]:
        limit = budget + ANSWER_RESERVE
        if traits.max_output is not None and limit > traits.max_output:
            limit, budget = traits.max_output, max(traits.max_output - ANSWER_RESERVE, MIN_BUDGET)
        body["max_tokens"] = limit
        detail = f"became {limit}: it must be larger than the thinking budget of {budget}"
        builder.record_loss("max-tokens-raised", "max_tokens", detail)
    body["thinking"] = {"type": "enabled", "budget_tokens": budget, **display}
    for name in ("temperature", "top_k"):
        if body.get(name, 1) != 1:
            detail = f"{body.pop(name)!r} is refused together with a thinking budget"
            builder.record_loss("sampling-refused", name, detail, "leave it out")
    if traits.interleaved_beta:
        builder.join_header("anthropic-beta", INTERLEAVED_BETA)
