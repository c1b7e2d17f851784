"""A request in the Responses dialect.

Nothing is left on the server unless asked for (`store`), so the ciphertext of reasoning is always asked for. System
messages stay where they are, as items. A conversation without any message becomes an empty question, since an empty
`input` is refused.
"""

from __future__ import annotations

from typing import Any

from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, SystemMessage, UserMessage
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest, JsonSchema, NamedTool, ServerTool, ToolDefinition
from tenuto.wire.body_builder import BodyBuilder, set_parameters
from tenuto.wire.responses.input import output_item, system_item, user_item
from tenuto.wire.responses.items import groups, item_of
from tenuto.wire.responses.replay import ReplayedTurns

__all__ = ["encode", "verbatim"]

_ENCRYPTED = "reasoning.encrypted_content"
_LOGPROBS = "message.output_text.logprobs"
_WORDS = {
    "max_tokens": "max_output_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_logprobs": "top_logprobs",
    "user": "safety_identifier",
    "service_tier": "service_tier",
}
"""Parameters, and what this dialect calls them."""
_SERVER_TOOLS = {"code_execution": "code_interpreter"}
_FOREIGN_TOOLS = frozenset(
    {"web_fetch", "url_context", "google_search", "google_maps", "memory", "bash", "text_editor"}
)


def verbatim(message: AssistantMessage) -> list[dict[str, Any]]:
    """Return the items of a reply exactly as they were received. Speech belongs to none and is left out."""
    return [item for group in groups(message.blocks) if (item := item_of(group))]


def encode(request: ChatRequest, target: Target, losses: tuple[Loss, ...] = ()) -> WireRequest:
    """Write the request; what this dialect has no word for is a `Loss`."""
    draft = BodyBuilder(request, target, losses)
    switches = target.provider.responses
    stored = switches.store if request.store is None else request.store
    draft.body |= {"model": target.model, "input": _input(draft, stored=stored), "store": stored}
    if include := _include(draft):
        draft.body["include"] = include
    _tools(draft)
    if reasoning := _reasoning(draft):
        draft.body["reasoning"] = reasoning
    if text := _text(request):
        draft.body["text"] = text
    draft.body.update({_WORDS[name]: value for name, value in set_parameters(request, _WORDS)})
    if request.stream:
        draft.body["stream"] = True
    _refused(draft)
    for name in switches.strip:
        if draft.body.pop(name, None) is not None and name not in ("include", "store", "reasoning"):
            draft.record_loss("unsupported-parameter", name, "this endpoint refuses it")
    return draft.finish("/responses")


def _input(draft: BodyBuilder, *, stored: bool) -> list[dict[str, Any]]:
    turns = ReplayedTurns(draft, stored=stored)
    items: list[dict[str, Any]] = []
    for at, message in enumerate(draft.request.transcript):
        place = f"messages[{at}]"
        if isinstance(message, SystemMessage):
            items.append(system_item(draft, message, place))
        elif isinstance(message, UserMessage):
            items.append(user_item(draft, message, place))
        elif isinstance(message, AssistantMessage):
            items += turns.items(message, place)
        else:
            items += [
                output_item(draft, result, turns.kinds.get(result.tool_use_id, ""), f"{place}.results[{no}]")
                for no, result in enumerate(message.results)
            ]
    return items or [{"type": "message", "role": "user", "content": ""}]


def _include(draft: BodyBuilder) -> list[str]:
    """Ask for what is not sent unasked. A model that does not think refuses to be asked for its thoughts."""
    request = draft.request
    thoughts = [] if draft.target.traits.thinking == ("none",) else [_ENCRYPTED]
    return [*thoughts, *([_LOGPROBS] if request.logprobs or request.top_logprobs else [])]


def _reasoning(draft: BodyBuilder) -> dict[str, Any]:
    """Say how hard to think. A model that is known to think gets `medium` and a summary unless told otherwise."""
    request, traits = draft.request, draft.target.traits
    thinking = request.thinking
    thinks = bool(traits.thinking) and traits.thinking != ("none",)
    if not thinks and thinking is None and request.effort is None:
        return {}
    effort: str | None = request.effort
    if effort is None and thinking is not None and thinking.mode == "off":
        effort = "none"
    if effort is None and thinks and not _samples(draft):
        effort = "medium" if traits.efforts is None or "medium" in traits.efforts else traits.effort_default or None
    show = thinking.show if thinking is not None else None
    if show is None:
        show = thinks
    fields = {"effort": effort, "summary": "auto" if show and effort != "none" else None}
    return {name: value for name, value in fields.items() if value}


def _samples(draft: BodyBuilder) -> bool:
    """Tell whether the request samples where that goes only without reasoning: then no effort is put in its way."""
    request = draft.request
    sampled = (request.temperature, request.top_p, request.top_logprobs)
    return draft.target.traits.sampling == "only_without_reasoning" and any(value is not None for value in sampled)


def _text(request: ChatRequest) -> dict[str, Any]:
    asked = request.response_format
    fields: dict[str, Any] = {}
    if isinstance(asked, JsonSchema):
        schema: dict[str, Any] = {"type": "json_schema", "name": asked.name, "schema": asked.schema}
        given = {"strict": asked.strict, "description": asked.description or None}
        fields["format"] = schema | {name: value for name, value in given.items() if value is not None}
    elif asked is not None:
        fields["format"] = {"type": asked}
    if request.verbosity is not None:
        fields["verbosity"] = request.verbosity
    return fields


def _tools(draft: BodyBuilder) -> None:
    request = draft.request
    tools: list[dict[str, Any]] = []
    for at, tool in enumerate(request.tools):
        written = _defined(tool) if isinstance(tool, ToolDefinition) else _hosted(draft, tool, f"tools[{at}]")
        if written is not None:
            tools.append(written)
    if tools:
        draft.body["tools"] = tools
        draft.set_if_given(tool_choice=_choice(draft, tools), parallel_tool_calls=request.parallel_tool_calls)
    elif request.tool_choice is not None or request.parallel_tool_calls is not None:
        draft.record_unsupported("tool_choice", "parallel_tool_calls", remedy="give the request a tool")
    if request.container is not None and not any(tool["type"] == "code_interpreter" for tool in tools):
        draft.record_unsupported("container", remedy="ask for code_execution")


def _defined(tool: ToolDefinition) -> dict[str, Any]:
    """Write a tool that the caller runs. Strictness is the server's default here, so it is always said."""
    fields: dict[str, Any] = {"type": tool.kind, "name": tool.name}
    if tool.description:
        fields["description"] = tool.description
    if tool.kind == "function":
        empty = {"type": "object", "properties": {}}
        fields |= {"parameters": empty if tool.parameters is None else tool.parameters, "strict": bool(tool.strict)}
    return fields | tool.options


def _hosted(draft: BodyBuilder, tool: ServerTool, place: str) -> dict[str, Any] | None:
    type = tool.type or _SERVER_TOOLS.get(tool.kind, tool.kind)
    if not tool.type and type in _FOREIGN_TOOLS:
        draft.record_loss("unsupported-tool", place, tool.kind, "give `type` to send it as it is")
        return None
    fields: dict[str, Any] = {"type": type}
    if type == "code_interpreter":
        fields["container"] = draft.request.container or {"type": "auto"}
    return fields | tool.options


def _choice(draft: BodyBuilder, tools: list[dict[str, Any]]) -> Any:
    choice = draft.request.tool_choice
    if not isinstance(choice, NamedTool):
        return choice
    type = _SERVER_TOOLS.get(choice.name, choice.name)
    for tool in tools:
        if tool.get("name") == choice.name:
            return {"type": tool["type"], "name": choice.name}
        if tool["type"] == type:
            return {"type": type}
    return {"type": "function", "name": choice.name}


def _refused(draft: BodyBuilder) -> None:
    """Record what was asked for and has no word here."""
    request = draft.request
    draft.record_unsupported("stop", "seed", "frequency_penalty", "presence_penalty", "logit_bias", "top_k", "audio")
    if request.n not in (None, 1):
        draft.record_unsupported("n")
    if request.modalities not in (None, ("text",)):
        draft.record_unsupported("modalities")
    if request.cache is not None:
        draft.record_loss("implicit-cache", "cache", request.cache, "this dialect caches by itself")
    thinking = request.thinking
    if thinking is not None and thinking.budget is not None:
        draft.record_loss("unsupported-parameter", "thinking.budget", str(thinking.budget), "use effort")
    if thinking is not None and thinking.mode == "between_tools":
        draft.record_loss("unsupported-parameter", "thinking.mode", thinking.mode, "use effort")
    for at, tool in enumerate(request.tools):
        if isinstance(tool, ToolDefinition) and tool.cache:
            draft.record_loss("implicit-cache", f"tools[{at}]", tool.cache, "this dialect caches by itself")
