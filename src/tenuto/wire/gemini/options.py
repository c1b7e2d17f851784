"""Everything of a request but what was said: tools, thinking, limits, and the words for them."""

from __future__ import annotations

from typing import Any

from tenuto.core.request import ChatRequest, JsonSchema, NamedTool, ServerTool, ToolDefinition
from tenuto.schema.openapi import to_openapi
from tenuto.wire.body_builder import BodyBuilder, set_parameters
from tenuto.wire.gemini.protocol import SERVER_TOOLS

__all__ = ["write_options"]

Wire = dict[str, Any]
BUDGETS = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}
"""Thinking tokens for models that take a budget instead of a level."""
LEVELS = ("minimal", "low", "medium", "high")
LEAST_BUDGET = 128
"""The smallest budget of models that cannot stop thinking."""
_WORDS = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "max_tokens": "maxOutputTokens",
    "stop": "stopSequences",
    "n": "candidateCount",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
    "seed": "seed",
}
"""Parameters, and what this dialect calls them."""
_MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
_FREE_TEXT: Wire = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
_SPEECH = ("voiceConfig", "multiSpeakerVoiceConfig", "languageCode")
_BESIDE_FUNCTIONS = ("computerUse", "mcpServers")
"""Tools that nobody saw refused beside functions: the caller runs the first, and of the other nothing is told."""
_NO_WORD = ("logit_bias", "user", "verbosity", "container")


def write_options(draft: BodyBuilder) -> None:
    """Write all parameters; what this dialect has no word for becomes a `Loss`."""
    request = draft.request
    if request.tools or request.tool_choice is not None:
        _tools(draft)
    config = {**_sampling(request), **_format(draft), **_speech(draft)}
    if thinking := _thinking(draft):
        config["thinkingConfig"] = thinking
    if config:
        draft.body["generationConfig"] = config
    if request.service_tier is not None or request.store is not None:
        if draft.target.provider.gemini.vertex:
            draft.record_unsupported("service_tier", "store")
        else:
            draft.set_if_given(serviceTier=request.service_tier, store=request.store)
    draft.record_unsupported(*_NO_WORD)
    if request.cache is not None:
        draft.record_unsupported(
            "cache", remedy="name a `cachedContent` in `extra_body`; prefixes are cached without asking"
        )
    if request.parallel_tool_calls is False:
        draft.record_loss("unsupported-parameter", "parallel_tool_calls", "False", "answer the first call, ask again")


def _sampling(request: ChatRequest) -> Wire:
    config = {_WORDS[name]: value for name, value in set_parameters(request, _WORDS)}
    if isinstance(request.stop, str):
        config["stopSequences"] = [request.stop]
    elif request.stop is not None and not request.stop:
        del config["stopSequences"]
    if request.logprobs is not None or request.top_logprobs:
        config["responseLogprobs"] = request.logprobs is None or request.logprobs
    if request.top_logprobs is not None:
        config["logprobs"] = request.top_logprobs
    if request.modalities:
        config["responseModalities"] = [word.upper() for word in request.modalities]
    return config


def _format(draft: BodyBuilder) -> Wire:
    wanted = draft.request.response_format
    if wanted is None:
        return {}
    if wanted == "json_object":
        return {"responseMimeType": "application/json"}
    if not isinstance(wanted, JsonSchema):
        return {}
    schema = wanted.schema
    if wanted.description and "description" not in schema:
        schema = {**schema, "description": wanted.description}
    if draft.target.provider.gemini.json_schema:
        return {"responseMimeType": "application/json", "responseJsonSchema": schema}
    lowered, losses = to_openapi(schema, path="response_format")
    draft.losses.extend(losses)
    return {"responseMimeType": "application/json", "responseSchema": lowered}


def _speech(draft: BodyBuilder) -> Wire:
    """Write how to speak: this dialect's own fields as they are, a plain voice by its name."""
    given = draft.request.audio
    if given is None:
        return {}
    speech: Wire = {name: given[name] for name in _SPEECH if name in given}
    if "voice" in given and "voiceConfig" not in speech:
        speech["voiceConfig"] = {"prebuiltVoiceConfig": {"voiceName": given["voice"]}}
    for name in given:
        if name not in _SPEECH and name != "voice":
            draft.record_loss("unsupported-parameter", f"audio.{name}", repr(given[name])[:200])
    return {"speechConfig": speech} if speech else {}


# --- tools ------------------------------------------------------------------------------------------------------------


def _tools(draft: BodyBuilder) -> None:
    request = draft.request
    functions = [_declared(draft, tool) for tool in request.tools if isinstance(tool, ToolDefinition)]
    served = [_served(draft, tool) for tool in request.tools if isinstance(tool, ServerTool)]
    built_in = [tool for tool in served if tool is not None]
    tools: list[Wire] = [{"functionDeclarations": functions}] if functions else []
    if functions and not _can_mix(draft):
        built_in = _beside_functions(draft, built_in)
    if tools or built_in:
        draft.body["tools"] = [*tools, *built_in]
    config: Wire = {}
    choice = request.tool_choice
    if functions and isinstance(choice, NamedTool):
        config["functionCallingConfig"] = {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    elif functions and isinstance(choice, str):
        config["functionCallingConfig"] = {"mode": _MODES[choice]}
    elif choice not in (None, "auto", "none"):
        draft.record_loss("unsupported-parameter", "tool_choice", repr(choice), "give the functions to choose from")
    if functions and _can_mix(draft) and any("computerUse" not in tool for tool in built_in):
        config["includeServerSideToolInvocations"] = True
    draft.set_if_given(toolConfig=config or None)


def _can_mix(draft: BodyBuilder) -> bool:
    """Tell whether functions go together with the provider's own tools: from Gemini 3 on, and never on Vertex."""
    traits = draft.target.traits
    return not draft.target.provider.gemini.vertex and (not traits.known or "level" in traits.thinking)


def _beside_functions(draft: BodyBuilder, built_in: list[Wire]) -> list[Wire]:
    """Leave out what is refused beside functions. Those stay: calls of theirs may stand in what was said already."""
    kept = []
    for tool in built_in:
        if any(name in _BESIDE_FUNCTIONS for name in tool):
            kept.append(tool)
        else:
            what = f"{', '.join(tool)} does not go together with functions here"
            draft.record_loss("unsupported-tool", "tools", what, "ask for it in a request without functions")
    return kept


def _served(draft: BodyBuilder, tool: ServerTool) -> Wire | None:
    field = tool.type or SERVER_TOOLS.get(tool.kind)
    if field is None:
        draft.record_loss("unsupported-tool", "tools", tool.kind, "give its exact field as `type`")
        return None
    return {field: [tool.options] if field == "mcpServers" else tool.options}


def _declared(draft: BodyBuilder, tool: ToolDefinition) -> Wire:
    place = f"tools[{tool.name}]"
    declared: Wire = {"name": tool.name}
    if tool.description:
        declared["description"] = tool.description
    schema = tool.parameters
    if tool.kind == "custom":
        draft.record_loss("custom-tool", place, "free text input became a string named `input`")
        schema = _FREE_TEXT
    if schema is not None:
        declared |= _parameters(draft, schema, place)
    if tool.strict:
        draft.record_loss(
            "unsupported-parameter", f"{place}.strict", "no schema is enforced", "choose the mode VALIDATED"
        )
    if tool.cache:
        draft.record_loss("unsupported-parameter", f"{place}.cache", tool.cache)
    return {**declared, **tool.options}


def _parameters(draft: BodyBuilder, schema: Wire, place: str) -> Wire:
    if draft.target.provider.gemini.json_schema:
        return {"parametersJsonSchema": schema}
    lowered, losses = to_openapi(schema, path=f"{place}.parameters")
    draft.losses.extend(losses)
    empty = lowered.get("type") == "OBJECT" and not lowered.get("properties")  # refused there; none at all is not
    return {} if empty else {"parameters": lowered}


# --- thinking ---------------------------------------------------------------------------------------------------------


def _thinking(draft: BodyBuilder) -> Wire:
    request = draft.request
    wanted, effort = request.thinking, request.effort
    if wanted is None and effort is None:
        return {}
    mode = wanted.mode if wanted is not None else None
    budget = wanted.budget if wanted is not None else None
    if mode == "off" or (mode is None and budget is None and effort == "none"):
        return _off(draft)
    if draft.target.traits.thinking == ("none",):
        draft.record_loss("no-such-thinking", "thinking", "this model does not think")
        return {}
    config = _depth(draft, effort if effort != "none" else None, budget)
    show = wanted.show if wanted is not None else None
    if show is None and budget != 0:
        show = True if config or mode is not None else None
    return config if show is None else {**config, "includeThoughts": show}


def _depth(draft: BodyBuilder, effort: str | None, budget: int | None) -> Wire:
    """Write how much to think: a level or a budget, never both. A model that nobody knows is taken for a recent one."""
    modes = draft.target.traits.thinking
    if budget is not None and ("budget" in modes or effort is None):
        return {"thinkingBudget": budget}
    if budget is not None:
        draft.record_loss("no-thinking-budget", "thinking.budget", "the effort counts: both together are refused")
    if effort is None:
        return {}
    if "budget" in modes:
        return {"thinkingBudget": BUDGETS[effort]}
    if modes and "level" not in modes:
        draft.record_loss("no-such-thinking", "effort", f"{effort}: this model takes no level")
        return {}
    if effort not in LEVELS:
        draft.record_loss("effort-mapped", "effort", f"{effort} became high")
        effort = "high"
    return {"thinkingLevel": effort.upper()}


def _off(draft: BodyBuilder) -> Wire:
    traits = draft.target.traits
    modes = traits.thinking
    if not modes or ("budget" in modes and "always" not in modes):
        return {"thinkingBudget": 0}
    if "level" in modes:
        least = next((level for level in LEVELS if traits.efforts is None or level in traits.efforts), "low")
        draft.record_loss("thinking-stays-on", "thinking", f"the least of this model is {least}")
        return {"thinkingLevel": least.upper()}
    if "budget" in modes:
        draft.record_loss("thinking-stays-on", "thinking", f"the least of this model is a budget of {LEAST_BUDGET}")
        return {"thinkingBudget": LEAST_BUDGET}
    if traits.thinking_default != "no":
        draft.record_loss("thinking-stays-on", "thinking", "this model cannot be told to think less")
    return {}
