"""Everything of a request but what was said: tools, thinking, limits, and the words for them."""

from __future__ import annotations

from typing import Any

from tenuto.core.request import JsonSchema, NamedTool, ServerTool, ToolDefinition
from tenuto.wire.anthropic.protocol import SERVER_TOOLS
from tenuto.wire.body_builder import BodyBuilder

__all__ = ["cache_mark", "write_options"]

DEFAULT_MAX_TOKENS = 4096
LEAST_BUDGET = 1024
RESERVE = 4096
"""What is left for the answer when a thinking budget would fill the whole limit."""
BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576, "max": 32768}
INTERLEAVED = "interleaved-thinking-2025-05-14"
_NO_WORD = (
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "verbosity",
    "modalities",
    "audio",
    "store",
)


def write_options(draft: BodyBuilder) -> None:
    """Write all parameters; what this dialect has no word for becomes a `Loss`."""
    request = draft.request
    if request.tools or request.tool_choice is not None:
        _tools(draft)
    _sampling(draft)
    limit = request.max_tokens
    draft.body["max_tokens"] = draft.target.traits.max_output or DEFAULT_MAX_TOKENS if limit is None else limit
    if request.thinking is not None or request.effort is not None:
        _thinking(draft)
    if request.response_format is not None or request.effort is not None:
        _output_config(draft)
    if request.user is not None:
        draft.body["metadata"] = {"user_id": request.user}
    if request.service_tier is not None:
        draft.body["service_tier"] = request.service_tier
    if request.cache is not None and request.cache != "off":
        draft.body |= cache_mark(request.cache)
    if request.stream:
        draft.body["stream"] = True
    draft.record_unsupported(*_NO_WORD)
    if request.n is not None and request.n != 1:
        draft.record_loss("unsupported-parameter", "n", str(request.n), "ask several times")


def cache_mark(cache: str) -> dict[str, Any]:
    """Write the mark that asks to cache the prompt up to a place; a word that is no time means the default."""
    ttl = {"ttl": cache} if cache in ("5m", "1h") else {}
    return {"cache_control": {"type": "ephemeral", **ttl}} if cache else {}


def _sampling(draft: BodyBuilder) -> None:
    request = draft.request
    if request.temperature is not None:
        clamped = min(max(request.temperature, 0), 1)
        if clamped != request.temperature:
            draft.record_loss("clamped", "temperature", f"{request.temperature} became {clamped}")
        draft.body["temperature"] = clamped
    if request.top_p is not None:
        draft.body["top_p"] = request.top_p
    if request.top_k is not None:
        draft.body["top_k"] = request.top_k
    if request.stop is not None:
        stops = [request.stop] if isinstance(request.stop, str) else list(request.stop)
        draft.set_if_given(stop_sequences=stops or None)


# --- tools ------------------------------------------------------------------------------------------------------------


def _tools(draft: BodyBuilder) -> None:
    request = draft.request
    if request.tools:
        draft.body["tools"] = [tool for t in request.tools if (tool := _tool(draft, t)) is not None]
    choice = request.tool_choice
    written: dict[str, Any] = {}
    if isinstance(choice, NamedTool):
        written = {"type": "tool", "name": choice.name}
    elif choice is not None:
        written = {"type": {"required": "any"}.get(choice, choice)}
    if request.parallel_tool_calls is False and request.tools and choice != "none":
        written = {"type": "auto", **written, "disable_parallel_tool_use": True}
    if written and draft.body.get("tools"):
        draft.body["tool_choice"] = written
    elif choice not in (None, "auto", "none"):
        draft.record_loss("unsupported-parameter", "tool_choice", repr(choice), "give the tools to choose from")


def _tool(draft: BodyBuilder, tool: ToolDefinition | ServerTool) -> dict[str, Any] | None:
    if isinstance(tool, ServerTool):
        if tool.type:
            known = SERVER_TOOLS.get(tool.kind)
            return {"type": tool.type, **({"name": known[1]} if known else {}), **tool.options}
        if tool.kind not in SERVER_TOOLS:
            draft.record_loss("unsupported-tool", "tools", tool.kind, "give its exact `type`")
            return None
        type, name = SERVER_TOOLS[tool.kind]
        return {"type": type, "name": name, **tool.options}
    if tool.kind == "custom":
        draft.record_loss("custom-tool", f"tools[{tool.name}]", "free text input became a string named `input`")
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {"input": {"type": "string"}},
            "required": ["input"],
        }
    else:
        schema = tool.parameters or {"type": "object", "properties": {}}
    written: dict[str, Any] = {"name": tool.name, "input_schema": schema}
    if tool.description:
        written["description"] = tool.description
    if tool.strict is not None:
        written["strict"] = tool.strict
    return {**written, **cache_mark(tool.cache), **tool.options}


# --- thinking ---------------------------------------------------------------------------------------------------------


def _thinking(draft: BodyBuilder) -> None:
    request, modes = draft.request, draft.target.traits.thinking
    wanted = request.thinking
    mode = wanted.mode if wanted is not None else None
    if mode == "off" or (mode is None and request.effort == "none"):
        _think_not(draft)
    elif mode == "between_tools":
        _think_as(draft, "between_tools", {"type": "between_tools"})
    elif _by_budget(draft):
        _think_by_budget(draft)
    elif wanted is not None or (request.effort is not None and (not modes or "adaptive" in modes)):
        _think_as(draft, "adaptive", {"type": "adaptive", **_display(draft)})


def _by_budget(draft: BodyBuilder) -> bool:
    """Tell whether thinking has to be asked for as a number of tokens."""
    request, modes = draft.request, draft.target.traits.thinking
    asked = request.thinking is not None or request.effort is not None
    given = request.thinking is not None and request.thinking.budget is not None
    if "budget" in modes:
        return given or (asked and "adaptive" not in modes)
    return given and not modes


def _think_not(draft: BodyBuilder) -> None:
    modes = draft.target.traits.thinking
    if not modes or "disabled" in modes:
        draft.body["thinking"] = {"type": "disabled"}
    elif "between_tools" in modes:
        draft.body["thinking"] = {"type": "between_tools"}
        draft.record_loss("thinking-stays-on", "thinking", "this model thinks between tools even so")
    elif draft.target.traits.thinking_default != "no":
        draft.record_loss("thinking-stays-on", "thinking", "this model always thinks", "ask for a lower effort")


def _think_as(draft: BodyBuilder, mode: str, written: dict[str, Any]) -> None:
    modes = draft.target.traits.thinking
    if draft.request.thinking is not None and draft.request.thinking.budget is not None:
        draft.record_loss("no-thinking-budget", "thinking.budget", "this model takes an effort instead of a budget")
    if not modes or mode in modes or (mode == "adaptive" and "always" in modes):
        draft.body["thinking"] = written
    else:
        draft.record_loss("no-such-thinking", "thinking", f"{mode} is not among {', '.join(modes)}")


def _display(draft: BodyBuilder) -> dict[str, Any]:
    show = draft.request.thinking.show if draft.request.thinking is not None else None
    return {} if show is None else {"display": "summarized" if show else "omitted"}


def _think_by_budget(draft: BodyBuilder) -> None:
    request, traits = draft.request, draft.target.traits
    budget = request.thinking.budget if request.thinking is not None else None
    if budget is None:
        budget = BUDGETS.get(request.effort or "medium", BUDGETS["medium"])
    if budget < LEAST_BUDGET:
        draft.record_loss("clamped", "thinking.budget", f"{budget} became {LEAST_BUDGET}")
        budget = LEAST_BUDGET
    limit = draft.body["max_tokens"]
    if budget >= limit:
        limit = budget + RESERVE
        if traits.max_output is not None and limit > traits.max_output:
            limit, budget = traits.max_output, max(traits.max_output - RESERVE, 1024)
        draft.record_loss(
            "max-tokens-raised", "max_tokens", f"became {limit}: it has to hold a thinking budget of {budget}"
        )
        draft.body["max_tokens"] = limit
    draft.body["thinking"] = {"type": "enabled", "budget_tokens": budget, **_display(draft)}
    for name in ("temperature", "top_k"):
        if draft.body.get(name, 1) != 1:
            value = draft.body.pop(name)
            draft.record_loss(
                "sampling-refused", name, f"{value!r} is refused beside a thinking budget", "leave it out"
            )
    if traits.interleaved_beta:
        draft.join_header("anthropic-beta", INTERLEAVED)


def _output_config(draft: BodyBuilder) -> None:
    request, traits = draft.request, draft.target.traits
    config: dict[str, Any] = {}
    if request.effort not in (None, "none") and (traits.efforts is None or request.effort in traits.efforts):
        config["effort"] = request.effort
    wanted = request.response_format
    if isinstance(wanted, JsonSchema) and traits.structured_output == "native":
        config["format"] = {"type": "json_schema", "schema": wanted.schema}
    draft.set_if_given(output_config=config or None)
