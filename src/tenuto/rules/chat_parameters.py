"""Chat Completions: the model, parameters and tools of a request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tenuto.core import jsonio
from tenuto.rules.body import text
from tenuto.rules.book import UnverifiedText, Violation
from tenuto.rules.chat import OPENAI_HOSTS, ChatBody, chat, message_text
from tenuto.rules.schemas import open_objects

PENALTIES = ("presence_penalty", "frequency_penalty")
_FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_RANGES: dict[str, tuple[float, float | None]] = {
    "temperature": (0, 2), "top_p": (0, 1), "presence_penalty": (-2, 2), "frequency_penalty": (-2, 2), "n": (1, 128),
    "max_tokens": (1, None), "max_completion_tokens": (1, None), "top_logprobs": (0, 20),
}  # fmt: skip
_INTEGERS = ("n", "max_tokens", "max_completion_tokens", "top_logprobs")
_MAX_LENGTHS = {"tools": 128, "stop": 4}


# --- models -----------------------------------------------------------------------------------------------------------


def unknown_model(request: ChatBody) -> Iterator[Violation]:
    """A model whose name does not fit the names of the provider's models."""
    names = request.context.row.model_names
    if names and request.model:
        request.setting("model")
        if not re.fullmatch(names, request.model):
            yield Violation("/model", {"model": request.model})


_NO_MODEL = "The model `{model}` does not exist or you do not have access to it."
_UNKNOWN_MODEL_HOSTS = (
    ("OAC-OAI-15", ("openai", "groq"), _NO_MODEL,
        {"status": 404, "code": "model_not_found", "confidence": "recorded",
        "source": "corpus pydantic-ai__model_name_suggestions.model_name_suggestion_openai-chat"}),
    ("OAC-DS-07", ("deepseek",), "Model Not Exist", {"code": "invalid_request_error"}),
    ("OAC-MIS-08", ("mistral",), "Invalid model: {model}", {"code": "1500", "type": "invalid_model"}),
    ("OAC-KIMI-06", ("moonshot",), "Not found the model {model} or Permission denied",
        {"status": 404, "type": "resource_not_found_error"}),
    ("OAC-ZAI-03", ("zai",), "Unknown Model, please check the model code.", {"code": "1211"}),
    ("OAC-PPLX-03", ("perplexity",),
        "Invalid model '{model}'. Permitted models can be found in the documentation.", {"type": "invalid_model"}),
    ("OAC-COH-02", ("cohere",),
        "model '{model}' not found, make sure the correct model ID was used and that you have access to the model.",
        {"status": 404}),
    ("OAC-MODEL-01", ("xai", "alibaba", "minimax", "meta"), UnverifiedText(_NO_MODEL), {"status": 404}),
)  # fmt: skip
for _id, _providers, _message, _fields in _UNKNOWN_MODEL_HOSTS:
    chat(
        _id,
        "The name of the model fits the names of the provider's models.",
        _message,
        **{"only": _providers, "certain": False, "source": "protocols C", "as_of": "2026", **_fields},
        remedy="Look up the id; a new model may have another form.",
    )(unknown_model)


@chat("OAC-MODEL-02", "The catalog has the model.",
    applies=lambda request: bool(request.context.row.model_names) and not request.traits.known, severity="warned",
    remedy="Look up the id: nothing is known of the model, so no other rule for models is checked.",
    source="tenuto.catalog", confidence="documented", as_of="2026-11")  # fmt: skip
def model_not_in_catalog(request: ChatBody) -> Iterator[Violation]:
    if request.model and re.fullmatch(request.context.row.model_names, request.model):
        yield Violation("/model")


# --- numbers and sampling ---------------------------------------------------------------------------------------------


@chat("OAC-OAI-18", "Numbers are in their range.",
    "Invalid '{p}': {type} below minimum value. Expected a value >= {bound}, but got {v} instead.",
    "Invalid '{p}': {type} above maximum value. Expected a value <= {bound}, but got {v} instead.",
    UnverifiedText("Invalid type for '{p}': expected {wanted}, but got {v} instead."),
    refused_by=OPENAI_HOSTS, accepted_by=("ollama", "lmstudio", "llamacpp"), param="{p}", code="{code}",
    remedy="Send a value in the range of the API reference.",
    source="corpus pydantic-ai__openai_responses.openai_responses_model_http_error; auto_job__find__chatgpt__rpa#40",
    confidence="recorded", as_of="2026")  # fmt: skip
def number_out_of_range(request: ChatBody) -> Iterator[Violation]:
    for name, (least, most) in _RANGES.items():
        value = request.setting(name)
        if value is None:
            continue
        type = "integer" if name in _INTEGERS else "decimal"
        fields = {"p": name, "type": type, "v": jsonio.encode(value).decode()}
        if isinstance(value, bool) or not isinstance(value, int | float):
            wanted = "an integer" if name in _INTEGERS else "a decimal"
            yield Violation(f"/{name}", {**fields, "wanted": wanted, "code": "invalid_type"}, 2)
        elif value < least:
            yield Violation(f"/{name}", {**fields, "bound": least, "code": f"{type}_below_min_value"})
        elif most is not None and value > most:
            yield Violation(f"/{name}", {**fields, "bound": most, "code": f"{type}_above_max_value"}, 1)


@chat("OAC-OAI-05", "Reasoning models have max_completion_tokens instead of max_tokens.",
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    applies=lambda request: request.is_reasoning_model, only=OPENAI_HOSTS, param="max_tokens",
    code="unsupported_parameter", remedy="Send max_completion_tokens to these models.",
    source="corpus vercel-ai__reasoning-model-legacy-parameter-error", as_of="2026")  # fmt: skip
def max_tokens_refused(request: ChatBody) -> Iterator[Violation]:
    request.setting("max_completion_tokens")
    if request.setting("max_tokens") is not None:
        yield Violation("/max_tokens")


@chat("OAC-OAI-06", "A model that reasons accepts no sampling parameters.",
    UnverifiedText("Unsupported value: '{p}' does not support {v} with this model. Only the default (1) value is "
    "supported."),
    "Unsupported parameter: '{p}' is not supported with this model.",
    applies=lambda request: request.traits.sampling in ("rejected", "only_without_reasoning"), only=OPENAI_HOSTS,
    param="{p}", code="{code}", remedy="Omit sampling parameters for models that reason.",
    source="ccgate#113; cvdp#29; OpenHands#4131; corpus "
    "mirascope__input.call_with_params.openai_gpt_5_mini_completions-01", as_of="2026-07")  # fmt: skip
def sampling_refused(request: ChatBody) -> Iterator[Violation]:
    names = ("temperature", "top_p", *PENALTIES, "logprobs", "top_logprobs", "logit_bias", "stop")
    given = {name: value for name in names if (value := request.setting(name)) is not None}
    if request.traits.sampling == "only_without_reasoning" and request.effort() == "none":
        return
    for name, value in given.items():
        if name in ("temperature", "top_p"):
            if value != 1:
                shown = jsonio.encode(value).decode()
                yield Violation(f"/{name}", {"p": name, "v": shown, "code": "unsupported_value"})
        elif value and (name != "stop" or request.traits.sampling != "rejected" or "stop" in request.traits.refuses):
            certain = name != "stop" or "stop" in request.traits.refuses
            yield Violation(f"/{name}", {"p": name, "code": "unsupported_parameter"}, 1, certain=certain)


# --- tools ------------------------------------------------------------------------------------------------------------


@chat("OAC-OAI-09",
    "Function names have at most 64 letters, digits, _ and -; there are at most 128 tools and 4 stop sequences.",
    UnverifiedText("Invalid 'tools[{i}].function.name': string does not match pattern. Expected a string that matches "
    "the pattern '^[a-zA-Z0-9_-]+$'."),
    UnverifiedText("Invalid '{p}': array too long. Expected an array with maximum length {max}, but got an array with "
    "length {n} instead."),
    only=OPENAI_HOSTS, code="{code}", remedy="Map names to allowed ones; send fewer.",
    source="protocols C.1; Tools4AI#16", confidence="documented", as_of="2026")  # fmt: skip
def bad_name_or_too_many(request: ChatBody) -> Iterator[Violation]:
    for name, most in _MAX_LENGTHS.items():
        value = request.setting(name)
        if isinstance(value, list) and len(value) > most:
            fields = {"p": name, "max": most, "n": len(value), "code": "array_above_max_length"}
            yield Violation(f"/{name}", fields, 1)
    for pointer, tool in request.tools():
        function = tool.get("function")
        if isinstance(function, dict) and not _FUNCTION_NAME.fullmatch(text(function, "name") or "_"):
            yield Violation(f"{pointer}/function/name", {"code": "invalid_value"})


@chat("OAC-OAI-12", "A list of tools is not empty; without tools nothing chooses among them.",
    UnverifiedText("Invalid value for '{p}': '{p}' is only allowed when 'tools' are specified."),
    UnverifiedText("Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array "
    "instead."),
    only=OPENAI_HOSTS, certain=False, param="{p}", remedy="Omit tools, tool_choice and parallel_tool_calls together.",
    source="text from memory", confidence="inferred", as_of="2026")  # fmt: skip
def choice_without_tools(request: ChatBody) -> Iterator[Violation]:
    if request.body.get("tools") == []:
        yield Violation("/tools", {"p": "tools"}, 1)
        return
    for name in ("tool_choice", "parallel_tool_calls"):
        if request.setting(name) is not None and not request.body.get("tools") and not request.body.get("functions"):
            yield Violation(f"/{name}", {"p": name})


@chat("OAC-OAI-20", "In a strict schema every object is closed and requires all of its properties.",
    "Invalid schema for {use} '{name}': In context=({path}), 'additionalProperties' is required to be supplied and to "
    "be false.",
    "Invalid schema for {use} '{name}': In context=({path}), 'required' is required to be supplied and to be an array "
    "including every key in properties. Missing '{missing}'.",
    only=OPENAI_HOSTS, param="{field}", code="{code}", remedy="Rewrite the schema, or send strict false.",
    source="corpus mirascope-ts__input.strict-tool.openai_completions.handles-optional-properties-in-strict-mode; "
    "openai-agents#1023; opencode#13737", confidence="recorded", as_of="2026-08")  # fmt: skip
def strict_schema_is_open(request: ChatBody) -> Iterator[Violation]:
    for pointer, tool in request.tools():
        function = tool.get("function")
        if isinstance(function, dict) and function.get("strict") is True:
            field = f"tools[{pointer.rpartition('/')[2]}].function.parameters"
            fields = {"use": "function", "name": function.get("name"), "field": field}
            fields["code"] = "invalid_function_parameters"
            yield from _open_objects(function.get("parameters"), f"{pointer}/function/parameters", fields)
    format = request.setting("response_format")
    schema = format.get("json_schema") if isinstance(format, dict) else None
    if isinstance(schema, dict) and schema.get("strict") is True:
        fields = {"use": "response_format", "name": schema.get("name"), "field": "response_format", "code": ""}
        yield from _open_objects(schema.get("schema"), "/response_format/json_schema/schema", fields)


def _open_objects(schema: Any, pointer: str, fields: dict[str, Any]) -> Iterator[Violation]:
    for place, path, missing in open_objects(schema, pointer):
        yield Violation(place, {**fields, "path": path, "missing": missing}, 1 if missing else 0)


@chat("OAC-OAI-07", "Function tools exclude reasoning on newer models.",
    "Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. To use function "
    "tools, use /v1/responses or set reasoning_effort to 'none'.",
    applies=lambda request: request.traits.chat_tools != "ok", only=("openai",), param="reasoning_effort",
    remedy="Use Responses, or set the effort to none; on Azure Foundry omit the field.",
    source="webmcp-tools#417; joplin#16451; openai-openapi#541; agentgateway#2894", as_of="2026-09")  # fmt: skip
def tools_with_reasoning(request: ChatBody) -> Iterator[Violation]:
    tools, traits = request.tools(), request.traits
    unset = request.body.get("reasoning_effort") is None
    if not tools or (traits.chat_tools == "effort_unset" and unset):
        return
    if traits.chat_tools == "rejected" or request.effort() not in ("none", ""):
        is_function = any(tool.get("type") == "function" for _, tool in tools)
        yield Violation("/reasoning_effort", {"model": request.model}, certain=is_function)


# --- output -----------------------------------------------------------------------------------------------------------


@chat("OAC-OAI-11", "JSON mode needs the word json in a message.",
    UnverifiedText("'messages' must contain the word 'json' in some form, to use 'response_format' of type "
    "'json_object'."),
    only=(*OPENAI_HOSTS, "deepseek", "groq"), param="messages", remedy="Use a schema, or write json in a message.",
    source="protocols B.1, C.4", as_of="2026")  # fmt: skip
def json_mode_without_word(request: ChatBody) -> Iterator[Violation]:
    format = request.setting("response_format")
    if not isinstance(format, dict) or format.get("type") != "json_object":
        return
    if not any("json" in message_text(message).lower() for _, message in request.messages()):
        yield Violation("/response_format")


@chat("OAC-OAI-13", "Only search models accept web_search_options.",
    "Web search options not supported with this model.",
    applies=lambda request: request.model and request.traits.known and not request.traits.chat_search, only=("openai",),
    param="web_search_options", remedy="Use a search model.",
    source="corpus pydantic-ai__openai.openai_web_search_tool_model_not_supported", confidence="recorded",
    as_of="2026")  # fmt: skip
def search_refused(request: ChatBody) -> Iterator[Violation]:
    if request.setting("web_search_options") is not None:
        yield Violation("/web_search_options")


chat("OAC-AZ-01", "The content filter accepts the prompt.",
    "The response was filtered due to the prompt triggering Azure Content management policy. Please modify your prompt "
    "and retry. To learn more about our content filtering policies please read our documentation: "
    "https://go.microsoft.com/fwlink/?linkid=21298766",
    only=("azure",), type="", param="prompt", code="content_filter",
    unchecked="only the filter knows; a script of the simulator can deny a request like this",
    remedy="Look for an error before the choices, at any status.",
    source="corpus openllmetry__openai.azure.prompt_content_filtering-01", confidence="recorded",
    as_of="2026")  # fmt: skip
