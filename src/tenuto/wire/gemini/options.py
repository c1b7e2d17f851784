"""Write the parameters of a request: tools, sampling, output format, speech, thinking."""

from __future__ import annotations

from typing import Any

from tenuto.core.request import ChatRequest, JsonSchema, NamedTool, ServerTool, Thinking, ToolDefinition
from tenuto.schema.openapi import to_openapi
from tenuto.wire.body_builder import BodyBuilder, set_parameters
from tenuto.wire.gemini.protocol import SERVER_TOOLS

Wire = dict[str, Any]
BUDGETS = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}
"""Thinking tokens for each effort, for models that take a budget instead of a level."""
LEVELS = ("minimal", "low", "medium", "high")
MIN_BUDGET = 128
"""The smallest budget of models that cannot stop thinking."""
_CONFIG_NAMES = {
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
"""Field in `generationConfig` of each parameter."""
_MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
_FREE_TEXT: Wire = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
_SPEECH_FIELDS = ("voiceConfig", "multiSpeakerVoiceConfig", "languageCode")
_MIXABLE_TOOLS = ("computerUse", "mcpServers")
"""Server tools that every model accepts together with functions, as far as known."""
_UNSUPPORTED = ("logit_bias", "user", "verbosity", "container")


def write_options(builder: BodyBuilder) -> None:
    """Write all parameters; one that Gemini does not have becomes a `Loss`."""
    request = builder.request
    if request.tools or request.tool_choice is not None:
        _write_tools(builder)
    config = {**_sampling(request), **_output_format(builder), **_speech(builder)}
    if thinking := _thinking(builder):
        config["thinkingConfig"] = thinking
    if config:
        builder.body["generationConfig"] = config
    if builder.target.provider.gemini.vertex:
        builder.record_unsupported("service_tier", "store")
    else:
        builder.set_if_given(serviceTier=request.service_tier, store=request.store)
    builder.record_unsupported(*_UNSUPPORTED)
    if request.cache is not None:
        remedy = "name a `cachedContent` in `extra_body`; Gemini caches prefixes by itself"
        builder.record_unsupported("cache", remedy=remedy)
    if request.parallel_tool_calls is False:
        remedy = "answer the first call and send the request again"
        builder.record_unsupported("parallel_tool_calls", remedy=remedy)


def _sampling(request: ChatRequest) -> Wire:
    config = {_CONFIG_NAMES[name]: value for name, value in set_parameters(request, _CONFIG_NAMES)}
    if isinstance(request.stop, str):
        config["stopSequences"] = [request.stop]
    elif request.stop is not None and not request.stop:
        del config["stopSequences"]
    if request.logprobs is not None or request.top_logprobs:
        config["responseLogprobs"] = request.logprobs is None or request.logprobs
    if request.top_logprobs is not None:
        config["logprobs"] = request.top_logprobs
    if request.modalities:
        config["responseModalities"] = [modality.upper() for modality in request.modalities]
    return config


def _output_format(builder: BodyBuilder) -> Wire:
    output = builder.request.response_format
    if output == "json_object":
        return {"responseMimeType": "application/json"}
    if not isinstance(output, JsonSchema):
        return {}
    schema = output.schema
    if output.description and "description" not in schema:
        schema = {**schema, "description": output.description}
    if builder.target.provider.gemini.json_schema:
        return {"responseMimeType": "application/json", "responseJsonSchema": schema}
    openapi, losses = to_openapi(schema, path="response_format")
    builder.losses.extend(losses)
    return {"responseMimeType": "application/json", "responseSchema": openapi}


def _speech(builder: BodyBuilder) -> Wire:
    audio = builder.request.audio
    if audio is None:
        return {}
    speech: Wire = {name: audio[name] for name in _SPEECH_FIELDS if name in audio}
    if "voice" in audio and "voiceConfig" not in speech:
        speech["voiceConfig"] = {"prebuiltVoiceConfig": {"voiceName": audio["voice"]}}
    for name in audio:
        if name not in _SPEECH_FIELDS and name != "voice":
            builder.record_loss("unsupported-parameter", f"audio.{name}", repr(audio[name])[:200])
    return {"speechConfig": speech} if speech else {}


def _write_tools(builder: BodyBuilder) -> None:
    request, traits = builder.request, builder.target.traits
    functions = [_function(builder, tool) for tool in request.tools if isinstance(tool, ToolDefinition)]
    # Functions and server tools together: from Gemini 3 on, and never on Vertex.
    can_mix = not builder.target.provider.gemini.vertex and (not traits.known or "level" in traits.thinking)
    server_tools: list[Wire] = []
    for tool in request.tools:
        if not isinstance(tool, ServerTool):
            continue
        field = tool.type or SERVER_TOOLS.get(tool.kind)
        if field is None:
            builder.record_loss("unsupported-tool", "tools", tool.kind, "give its exact field as `type`")
            continue
        if functions and not can_mix and field not in _MIXABLE_TOOLS:
            # The functions stay: the transcript may have calls of them.
            detail = f"{field} cannot be combined with functions here"
            builder.record_loss("unsupported-tool", "tools", detail, "use it in a request without functions")
            continue
        server_tools.append({field: [tool.options] if field == "mcpServers" else tool.options})
    if functions or server_tools:
        declarations: list[Wire] = [{"functionDeclarations": functions}] if functions else []
        builder.body["tools"] = [*declarations, *server_tools]
    config: Wire = {}
    choice = request.tool_choice
    if functions and isinstance(choice, NamedTool):
        config["functionCallingConfig"] = {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    elif functions and isinstance(choice, str):
        config["functionCallingConfig"] = {"mode": _MODES[choice]}
    elif choice not in (None, "auto", "none"):
        builder.record_loss("unsupported-parameter", "tool_choice", repr(choice), "pass the functions to choose from")
    if functions and can_mix and any("computerUse" not in tool for tool in server_tools):
        config["includeServerSideToolInvocations"] = True
    builder.set_if_given(toolConfig=config or None)


def _function(builder: BodyBuilder, tool: ToolDefinition) -> Wire:
    place = f"tools[{tool.name}]"
    function: Wire = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    schema = tool.parameters
    if tool.kind == "custom":
        builder.record_loss("custom-tool", place, "free text input became a string named `input`")
        schema = _FREE_TEXT
    if schema is not None and builder.target.provider.gemini.json_schema:
        function["parametersJsonSchema"] = schema
    elif schema is not None:
        openapi, losses = to_openapi(schema, path=f"{place}.parameters")
        builder.losses.extend(losses)
        if openapi.get("type") != "OBJECT" or openapi.get("properties"):  # an object without properties is refused
            function["parameters"] = openapi
    if tool.strict:
        remedy = "choose the mode VALIDATED"
        builder.record_loss("unsupported-parameter", f"{place}.strict", "no schema is enforced", remedy)
    if tool.cache:
        builder.record_loss("unsupported-parameter", f"{place}.cache", tool.cache)
    return {**function, **tool.options}


def _thinking(builder: BodyBuilder) -> Wire:
    effort = builder.request.effort
    if builder.request.thinking is None and effort is None:
        return {}
    thinking = builder.request.thinking or Thinking()
    mode, budget, show = thinking.mode, thinking.budget, thinking.show
    if mode == "off" or (mode is None and budget is None and effort == "none"):
        return _thinking_off(builder)
    if builder.target.traits.thinking == ("none",):
        builder.record_loss("no-such-thinking", "thinking", "this model does not think")
        return {}
    config = _thinking_depth(builder, effort if effort != "none" else None, budget)
    if show is None and budget != 0 and (config or mode is not None):
        show = True
    return config if show is None else {**config, "includeThoughts": show}


def _thinking_depth(builder: BodyBuilder, effort: str | None, budget: int | None) -> Wire:
    """Write a level or a budget, never both. An unknown model counts as a recent one."""
    modes = builder.target.traits.thinking
    if budget is not None and ("budget" in modes or effort is None):
        return {"thinkingBudget": budget}
    if budget is not None:
        builder.record_loss("no-thinking-budget", "thinking.budget", "the effort is sent: both together are refused")
    if effort is None:
        return {}
    if "budget" in modes:
        return {"thinkingBudget": BUDGETS[effort]}
    if modes and "level" not in modes:
        builder.record_loss("no-such-thinking", "effort", f"{effort}: this model takes no level")
        return {}
    if effort not in LEVELS:
        builder.record_loss("effort-mapped", "effort", f"{effort} became high")
        effort = "high"
    return {"thinkingLevel": effort.upper()}


def _thinking_off(builder: BodyBuilder) -> Wire:
    """Turn thinking off, or down to the minimum of the model."""
    traits = builder.target.traits
    modes = traits.thinking
    if not modes or ("budget" in modes and "always" not in modes):
        return {"thinkingBudget": 0}
    if "level" in modes:
        level = next((level for level in LEVELS if traits.efforts is None or level in traits.efforts), "low")
        builder.record_loss("thinking-stays-on", "thinking", f"the minimum of this model is {level}")
        return {"thinkingLevel": level.upper()}
    if "budget" in modes:
        builder.record_loss("thinking-stays-on", "thinking", f"the minimum of this model is a budget of {MIN_BUDGET}")
        return {"thinkingBudget": MIN_BUDGET}
    if traits.thinking_default != "no":
        builder.record_loss("thinking-stays-on", "thinking", "this model cannot think less")
    return {}
