"""Write a request in the Responses dialect.

The server stores nothing unless the request asks for it (`store`), so encrypted reasoning content is always requested.
System messages keep their position, as items. A conversation without messages becomes an empty user message, since the
API refuses an empty `input`.
"""

from __future__ import annotations

from typing import Any

from tenuto.core.loss import Location
from tenuto.core.messages import AssistantMessage, SystemMessage, UserMessage
from tenuto.core.provider import WireRequest
from tenuto.core.request import ChatRequest, JsonSchema, NamedTool, ServerTool, ToolDefinition
from tenuto.wire.body_builder import BodyBuilder, set_parameters, with_locations
from tenuto.wire.responses.input import write_message, write_result
from tenuto.wire.responses.items import group_by_item, write_item
from tenuto.wire.responses.replay import ReplayedTurns

_PARAMETERS = {
    "max_tokens": "max_output_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_logprobs": "top_logprobs",
    "user": "safety_identifier",
    "service_tier": "service_tier",
}
"""Parameters of a request, and their names in this dialect."""
_SERVER_TOOLS = {"code_execution": "code_interpreter"}
_UNSUPPORTED_TOOLS = frozenset(
    {"web_fetch", "url_context", "google_search", "google_maps", "memory", "bash", "text_editor"}
)


def verbatim(message: AssistantMessage) -> list[dict[str, Any]]:
    """Write the items of a reply as received, without speech (not an item)."""
    return [item for group in group_by_item(message.blocks) if (item := write_item(group))]


def encode(builder: BodyBuilder) -> WireRequest:
    """Write the request; parameters that this dialect cannot express become losses."""
    request, target = builder.request, builder.target
    switches = target.provider.responses
    is_stored = switches.store if request.store is None else request.store
    body = builder.body
    body |= {"model": target.model, "input": _write_input(builder, is_stored=is_stored), "store": is_stored}
    # A model that does not reason refuses to include its reasoning.
    include = [] if target.traits.thinking == ("none",) else ["reasoning.encrypted_content"]
    if request.logprobs or request.top_logprobs:
        include.append("message.output_text.logprobs")
    if include:
        body["include"] = include
    _set_tools(builder)
    if reasoning := _write_reasoning(builder):
        body["reasoning"] = reasoning
    if text := _write_text_options(request):
        body["text"] = text
    body.update({_PARAMETERS[name]: value for name, value in set_parameters(request, _PARAMETERS)})
    if request.stream:
        body["stream"] = True
    _record_unsupported(builder)
    for name in switches.strip:
        if body.pop(name, None) is not None and name not in ("include", "store", "reasoning"):
            builder.record_loss("unsupported-parameter", name, "this endpoint refuses it")
    return builder.finish("/responses")


def _write_input(builder: BodyBuilder, *, is_stored: bool) -> list[dict[str, Any]]:
    turns = ReplayedTurns(builder, is_stored=is_stored)
    items: list[dict[str, Any]] = []
    for i, message in enumerate(builder.request.transcript):
        place = Location(i)
        if isinstance(message, SystemMessage | UserMessage):
            items.append(write_message(builder, message, place))
        elif isinstance(message, AssistantMessage):
            items += turns.write_turn(message, place)
        else:
            results = with_locations(message.results, place)
            items += builder.write_all(results, lambda result, at: write_result(builder, result, turns.call_types, at))
    return items or [{"type": "message", "role": "user", "content": ""}]


def _write_reasoning(builder: BodyBuilder) -> dict[str, Any]:
    """Write effort and summary; a reasoning model gets `medium` and a summary."""
    request, traits = builder.request, builder.target.traits
    thinking = request.thinking
    is_thinker = bool(traits.thinking) and traits.thinking != ("none",)
    if not is_thinker and thinking is None and request.effort is None:
        return {}
    effort: str | None = request.effort
    if effort is None and thinking is not None and thinking.mode == "off":
        effort = "none"
    # Some models accept sampling parameters only without reasoning: set no default effort then.
    sampling = (request.temperature, request.top_p, request.top_logprobs)
    is_sampled = traits.sampling == "only_without_reasoning" and any(value is not None for value in sampling)
    if effort is None and is_thinker and not is_sampled:
        effort = "medium" if traits.efforts is None or "medium" in traits.efforts else traits.effort_default or None
    show = thinking.show if thinking is not None else None
    if show is None:
        show = is_thinker
    fields = {"effort": effort, "summary": "auto" if show and effort != "none" else None}
    return {name: value for name, value in fields.items() if value}


def _write_text_options(request: ChatRequest) -> dict[str, Any]:
    format = request.response_format
    fields: dict[str, Any] = {}
    if isinstance(format, JsonSchema):
        fields["format"] = {"type": "json_schema", "name": format.name, "schema": format.schema}
        if format.strict is not None:
            fields["format"]["strict"] = format.strict
        if format.description:
            fields["format"]["description"] = format.description
    elif format is not None:
        fields["format"] = {"type": format}
    if request.verbosity is not None:
        fields["verbosity"] = request.verbosity
    return fields


def _set_tools(builder: BodyBuilder) -> None:
    request = builder.request
    tools: list[dict[str, Any]] = []
    for i, tool in enumerate(request.tools):
        if isinstance(tool, ToolDefinition):
            tools.append(_write_tool(tool))
        elif fields := _write_server_tool(builder, tool, f"tools[{i}]"):
            tools.append(fields)
    if tools:
        builder.body["tools"] = tools
        choice = _write_tool_choice(request, tools)
        builder.set_if_given(tool_choice=choice, parallel_tool_calls=request.parallel_tool_calls)
    elif request.tool_choice is not None or request.parallel_tool_calls is not None:
        builder.record_unsupported("tool_choice", "parallel_tool_calls", remedy="add a tool to the request")
    if request.container is not None and not any(tool["type"] == "code_interpreter" for tool in tools):
        builder.record_unsupported("container", remedy="add the tool code_execution")


def _write_tool(tool: ToolDefinition) -> dict[str, Any]:
    fields: dict[str, Any] = {"type": tool.kind, "name": tool.name}
    if tool.description:
        fields["description"] = tool.description
    if tool.kind == "function":
        fields["parameters"] = {"type": "object", "properties": {}} if tool.parameters is None else tool.parameters
        fields["strict"] = bool(tool.strict)  # the server's default is true
    return fields | tool.options


def _write_server_tool(builder: BodyBuilder, tool: ServerTool, place: str) -> dict[str, Any] | None:
    type = tool.type or _SERVER_TOOLS.get(tool.kind, tool.kind)
    if not tool.type and type in _UNSUPPORTED_TOOLS:
        builder.record_loss("unsupported-tool", place, tool.kind, "set `type` to send it unchanged")
        return None
    fields: dict[str, Any] = {"type": type}
    if type == "code_interpreter":
        fields["container"] = builder.request.container or {"type": "auto"}
    return fields | tool.options


def _write_tool_choice(request: ChatRequest, tools: list[dict[str, Any]]) -> Any:
    choice = request.tool_choice
    if not isinstance(choice, NamedTool):
        return choice
    type = _SERVER_TOOLS.get(choice.name, choice.name)
    for tool in tools:
        if tool.get("name") == choice.name:
            return {"type": tool["type"], "name": choice.name}
        if tool["type"] == type:
            return {"type": type}
    return {"type": "function", "name": choice.name}


def _record_unsupported(builder: BodyBuilder) -> None:
    request = builder.request
    builder.record_unsupported("stop", "seed", "frequency_penalty", "presence_penalty", "logit_bias", "top_k", "audio")
    if request.n not in (None, 1):
        builder.record_unsupported("n")
    if request.modalities not in (None, ("text",)):
        builder.record_unsupported("modalities")
    if request.cache is not None:
        builder.record_loss("implicit-cache", "cache", request.cache, "this dialect caches by itself")
    thinking = request.thinking
    if thinking is not None and thinking.budget is not None:
        builder.record_loss("unsupported-parameter", "thinking.budget", str(thinking.budget), "use effort")
    if thinking is not None and thinking.mode == "between_tools":
        builder.record_loss("unsupported-parameter", "thinking.mode", thinking.mode, "use effort")
    for i, tool in enumerate(request.tools):
        if isinstance(tool, ToolDefinition) and tool.cache:
            builder.record_loss("implicit-cache", f"tools[{i}]", tool.cache, "this dialect caches by itself")
