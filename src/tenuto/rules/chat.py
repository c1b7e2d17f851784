"""Chat Completions: the view of a request, and the rules for its shape, messages, parameters and tools."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from tenuto.core import jsonio
from tenuto.core.provider import ChatSwitches
from tenuto.rules.body import CallInBody, Fields, RequestBody, Violation, objects, text
from tenuto.rules.book import UnverifiedText, section
from tenuto.rules.images import decode_head, read_head
from tenuto.rules.issued_tokens import IssuedItem, content_digest
from tenuto.rules.schemas import NOT_CLOSED, NOT_REQUIRED, open_objects
from tenuto.rules.shapes import (
    OPENAI_MISSING,
    OPENAI_WRONG_TYPE,
    openai_missing,
    openai_path,
    openai_type,
    openai_violation,
    shapes,
    wrong_values,
)

chat = section("openai-chat", type="invalid_request_error")

OPENAI_HOSTS = ("openai", "azure")
LOCAL_HOSTS = ("ollama", "lmstudio", "llamacpp", "vllm")
"""Servers on your own machine."""
PAIRED_HOSTS = (
    *OPENAI_HOSTS, "groq", "xai", "meta", "vertex", "together", "fireworks", "cerebras", "sambanova", "nvidia",
)  # fmt: skip
"""Providers that compare tool calls with tool messages and answer in the words of OpenAI."""
OWN_PAIR_HOSTS = ("deepseek", "alibaba", "cohere", "zai", "mistral", "openrouter")
"""Providers with a rule of their own for unanswered calls and stray results."""
openai = section("openai-chat", type="invalid_request_error", only=OPENAI_HOSTS)

REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_details")
_CONTENT_FIELDS = ("tool_calls", "function_call", "refusal", "audio", *REASONING_FIELDS)
"""Fields of an assistant message that stand for its content."""

SAMPLING = ("temperature", "top_p", "presence_penalty", "frequency_penalty")
_FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_RANGES: dict[str, tuple[float, float | None]] = {
    "temperature": (0, 2), "top_p": (0, 1), "presence_penalty": (-2, 2), "frequency_penalty": (-2, 2), "n": (1, 128),
    "max_tokens": (1, None), "max_completion_tokens": (1, None), "top_logprobs": (0, 20),
}  # fmt: skip
_INTEGERS = ("n", "max_tokens", "max_completion_tokens", "top_logprobs")
_MAX_LENGTHS = {"tools": 128, "stop": 4}
NINE = re.compile(r"[a-zA-Z0-9]{9}")
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_WEB_HOST = re.compile(r"https?://(?:[^/?#]*@)?(\[[^\]]*\]|[^/?#:]*)", re.IGNORECASE)
_UNREACHABLE = (".invalid", ".test", ".localhost")
_SHAPES = shapes({
    "Request": "messages!:Message* tools:Tool* stream:b model",
    "Message": "role! content:s|Part* tool_calls:Call*",
    "Part Call Tool": "",
    "Tool.function": "function!:o",
})  # fmt: skip


class ChatBody(RequestBody):
    dialect = "openai-chat"
    conversation = "messages"

    @property
    def switches(self) -> ChatSwitches:
        return self.context.row.chat

    @cached_property
    def _messages(self) -> tuple[tuple[str, Fields], ...]:
        return tuple(objects(self.body.get("messages"), "/messages"))

    def messages(self, *roles: str) -> Sequence[tuple[str, Fields]]:
        """Return the messages with their pointers; only those of some roles if any are given."""
        if not roles:
            return self.see(self._messages)
        return self.see([(pointer, message) for pointer, message in self._messages if text(message, "role") in roles])

    def current_turn(self) -> Sequence[tuple[str, Fields]]:
        """Return the assistant messages after the last user message."""
        users = [index for index, (_, message) in enumerate(self._messages) if message.get("role") == "user"]
        rest = self._messages[users[-1] + 1 if users else 0 :]
        return self.see([(pointer, message) for pointer, message in rest if message.get("role") == "assistant"])

    def parts(self, *types: str) -> Sequence[tuple[str, Fields, Fields]]:
        """Return the content parts with their pointers and messages; only those of some types if any are given."""
        parts = [
            (pointer, part, message)
            for place, message in self._messages
            if isinstance(message.get("content"), list)
            for pointer, part in objects(message["content"], f"{place}/content")
        ]
        return self.see([item for item in parts if not types or item[1].get("type") in types])

    def images(self) -> Iterator[tuple[str, str, Fields]]:
        """Yield the pointer of each image part, its URL and its message."""
        for pointer, part, message in self.parts("image_url"):
            value = part.get("image_url")
            yield pointer, text(value, "url") if isinstance(value, dict) else text(part, "image_url"), message

    @cached_property
    def _calls(self) -> tuple[tuple[str, Fields], ...]:
        return tuple(call for message in self._messages for call in calls_of(*message))

    def tool_calls(self) -> Sequence[tuple[str, Fields]]:
        return self.see(self._calls)

    def callers(self) -> Sequence[tuple[str, Fields]]:
        return self.see([(pointer, message) for pointer, message in self._messages if any(calls_of(pointer, message))])

    @cached_property
    def _pairs(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        unanswered: list[tuple[str, str]] = []
        stray: list[tuple[str, str]] = []
        caller, asked, pending = "", frozenset[str](), dict[str, None]()
        for pointer, message in (*self._messages, ("", {})):
            if message.get("role") == "tool":
                id = text(message, "tool_call_id")
                if id not in asked:
                    stray.append((pointer, id))
                pending.pop(id, None)
                continue
            if pending:
                unanswered.append((caller, ", ".join(pending)))
            pending = dict.fromkeys(text(call, "id") for _, call in calls_of(pointer, message))
            caller, asked = pointer, frozenset(pending)
        return unanswered, stray

    def unanswered_calls(self) -> Sequence[tuple[str, str]]:
        """Return the messages with calls that the tool messages directly after them do not answer, and the call ids."""
        self.see(self._calls)
        return self._pairs[0]

    def stray_results(self) -> Sequence[tuple[str, str]]:
        """Return the tool messages that answer no call of the assistant message before them, and their call ids."""
        self.messages("tool")
        return self._pairs[1]

    @cached_property
    def calls(self) -> Sequence[CallInBody]:
        calls = []
        for pointer, call in self._calls:
            function = call.get("function")
            function = function if isinstance(function, dict) else {}
            name, args = text(function, "name"), function.get("arguments")
            calls.append(CallInBody(f"{pointer}/id", text(call, "id"), name, args))
        return calls

    def accepts_call_id(self, id: str) -> bool:
        return bool(NINE.fullmatch(id)) if self.switches.call_id == "nine" else len(id) <= self.switches.call_id_max

    def results(self) -> Sequence[tuple[str, str]]:
        tools = self.messages("tool")
        return [(f"{pointer}/tool_call_id", text(message, "tool_call_id")) for pointer, message in tools]

    def tools(self) -> Sequence[tuple[str, Fields]]:
        return self.list("tools")

    def forces_tool(self) -> bool:
        choice = self.setting("tool_choice")
        if not isinstance(choice, dict):
            return choice in ("required", "any")
        allowed = choice.get("allowed_tools")
        return choice.get("type") != "allowed_tools" or (
            isinstance(allowed, dict) and allowed.get("mode") == "required"
        )

    @cached_property
    def requested_thinking(self) -> bool | None:
        """Whether the request turns thinking on or off, in the words of any provider; None: it does not say."""
        body = self.body
        thinking, template, reasoning = (
            value if isinstance(value := body.get(name), dict) else {}
            for name in ("thinking", "chat_template_kwargs", "reasoning")
        )
        if isinstance(thinking.get("type"), str):
            return bool(thinking["type"] != "disabled")
        flags = (body.get("enable_thinking"), template.get("enable_thinking"), template.get("thinking"))
        for flag in (*flags, reasoning.get("enabled")):
            if isinstance(flag, bool):
                return flag
        effort = body.get("reasoning_effort") or reasoning.get("effort")
        if isinstance(effort, str):
            return effort != "none"
        if isinstance(body.get("disable_reasoning"), bool):
            return not body["disable_reasoning"]
        return True if reasoning.get("max_tokens") or body.get("prompt_mode") == "reasoning" else None

    def thinks(self) -> bool:
        """Tell whether the model thinks: as the request says, else as the model does by default.

        A request without a model has the default model of a provider, which thinks if the provider wants reasoning back.
        """
        if self.requested_thinking is not None:
            return self.requested_thinking
        if not self.model:
            return self.switches.empty_reasoning
        return self.traits.thinking_default in ("yes", "always")

    @property
    def is_reasoning_model(self) -> bool:
        """Whether the model is known and can reason."""
        return bool(self.model) and not {"effort", "always"}.isdisjoint(self.traits.thinking)

    def effort(self) -> str:
        """Return the reasoning effort: as the request says, else the model's default."""
        return text(self.body, "reasoning_effort") or self.traits.effort_default

    def issued_reply(self, message: Fields) -> IssuedItem | None:
        """Return the reply that a message sends back: by its calls, else by its text; None if that is not known."""
        ids = [text(call, "id") for _, call in calls_of("", message)] or [content_digest(message_text(message))]
        return next(filter(None, map(self.tokens.item, ids)), None)

    def had_reasoning(self, message: Fields) -> bool:
        """Tell whether the reply that a message sends back had reasoning; if it is not known, whether the model thinks."""
        reply = self.issued_reply(message)
        return self.thinks() if reply is None else bool(reply.started_with_reasoning) and not reply.foreign


def message_text(message: Fields) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "".join(text(part, "text") for _, part in objects(content, ""))


def is_empty(message: Fields) -> bool:
    """Tell whether a message has no text, no other part, no call and no reasoning."""
    if message_text(message) or any(part.get("type") != "text" for _, part in objects(message.get("content"), "")):
        return False
    return not message.get("tool_calls") and not message.get("reasoning_content")


def calls_of(pointer: str, message: Fields) -> Iterator[tuple[str, Fields]]:
    """Yield the tool calls of an assistant message with their pointers."""
    if message.get("role") == "assistant":
        yield from objects(message.get("tool_calls"), f"{pointer}/tool_calls")


@chat("OAC-SHAPE", "The body has the JSON types of the dialect, and at least one message.",
    OPENAI_MISSING,
    OPENAI_WRONG_TYPE,
    UnverifiedText("Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array "
    "instead."), param="{field}", code="{code}", final=True, remedy="Send the types of the API reference.",
    as_of="2026-11", documented="openai-openapi ChatCompletionRequest")  # fmt: skip
def wrong_types(request: ChatBody) -> Iterator[Violation]:
    if request.body.get("messages") == []:
        yield Violation("/messages", {"field": "messages", "code": "empty_array"}, 2)
    yield from map(openai_violation, wrong_values(request.body, "Request", _SHAPES))


@chat("OAC-OAI-17",
    "Roles are known; calls have an id and a function with a name; tool messages have the id of a call.",
    OPENAI_MISSING,
    "Invalid value: '{value}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and "
    "'developer'.", refused_by=OPENAI_HOSTS, accepted_by=LOCAL_HOSTS, param="{field}", code="{code}",
    remedy="Send the fields of the API reference.", as_of="2026-11",
    documented="openai-openapi ChatCompletionRequest")  # fmt: skip
def missing_role_or_id(request: ChatBody) -> Iterator[Violation]:
    for pointer, message in request.messages():
        if message["role"] not in _ROLES:
            fields = {"field": f"{openai_path(pointer)}.role", "code": "invalid_value", "value": message["role"]}
            yield Violation(f"{pointer}/role", fields, 1)
        elif message["role"] == "tool" and not isinstance(message.get("tool_call_id"), str):
            yield openai_missing(f"{pointer}/tool_call_id")
    for pointer, call in request.tool_calls():
        function = call.get("function") or call.get("custom")
        if not isinstance(call.get("id"), str):
            yield openai_missing(f"{pointer}/id")
        elif not isinstance(function, dict) or not isinstance(function.get("name"), str):
            yield openai_missing(f"{pointer}/function")
    for pointer, tool in request.tools():
        if tool.get("type") == "function" and not isinstance(tool["function"].get("name"), str):
            yield openai_missing(f"{pointer}/function/name")


openai("OAC-OAI-19", "The first small reasoning models accept no system or developer message.",
    "Unsupported value: 'messages[{i}].role' does not support '{role}' with this model.",
    applies=lambda request: not request.traits.system_role, param="messages[{i}].role", code="unsupported_value",
    each=lambda request: request.messages("system", "developer"), at="/role",
    fields=lambda item: {"role": item[1]["role"]}, remedy="Put the instructions into the first user message.",
    as_of="2025-10", source="BetterChatGPT-PLUS#90; agent-framework#1077; new-api#847")  # fmt: skip
chat("OAC-AZ-02", "Models of other vendors do not know the role developer.",
    "The request is invalid: developer is not one of ['system', 'assistant', 'user', 'tool', 'function']",
    applies=lambda request: request.switches.refuses_developer or not request.traits.developer_role,
    only=("azure", "vllm"), certain=False, each=lambda request: request.messages("developer"), at="/role",
    remedy="Use the role system unless the model is OpenAI's.", as_of="2026-09", source="experiential#804")  # fmt: skip
openai("OAC-OAI-08",
    "Older models accept images in user messages only; newer ones accept them elsewhere and do not see them.",
    "Invalid 'messages[{i}]'. Image URLs are only allowed for messages with role 'user', but this message with role "
    "'{role}' contains an image URL.", applies=lambda request: request.traits.user_images_only,
    each=lambda request: request.images(), when=lambda item: item[2].get("role") != "user",
    fields=lambda item: {"role": text(item[2], "role")},
    certain=lambda item: item[2].get("role") in ("tool", "assistant"),
    remedy="Put the image into a user message after the results.", as_of="2026-02",
    source="openai-node#1030; OpenHands#7700; openai-openapi#523")  # fmt: skip


@openai("OAC-OAI-14", "An image is PNG, JPEG, GIF or WebP, and its URL can be fetched.",
    "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', "
    "'gif', 'webp'].",
    "Error while downloading {url}.", code="{code}", remedy="Check the first bytes; send the bytes instead of a URL.",
    as_of="2026", recorded="corpus openllmetry__openai.vision.vision_base64-02, vision-03")  # fmt: skip
def unreadable_image(request: ChatBody) -> Iterator[Violation]:
    for pointer, url, _ in request.images():
        place = f"{pointer}/image_url"
        if url[:5].lower() == "data:":
            if not _is_image(url):
                yield Violation(place, {"code": "invalid_image_format"})
        elif _is_out_of_reach(url):
            certain = _WEB_HOST.match(url) is None  # a private host may be reachable through a proxy
            yield Violation(place, {"url": url, "code": "invalid_image_url"}, 1, certain=certain)


def _is_image(url: str) -> bool:
    head, _, data = url.partition(",")
    return head.lower().endswith(";base64") and bool(read_head(decode_head(data)).media_type)


def _is_out_of_reach(url: str) -> bool:
    """Tell whether a URL is not a web URL, or names a private or reserved host."""
    match = _WEB_HOST.match(url)
    if match is None:
        return True
    host = match[1].lower().strip("[]").rstrip(".")
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return not host or host == "localhost" or host.endswith(_UNREACHABLE)


chat("OAC-OAI-10", "An assistant message without content has tool calls.",
    UnverifiedText("Invalid value for 'content': expected a string, got null."), refused_by=OPENAI_HOSTS,
    accepted_by=LOCAL_HOSTS, certain=False, param="messages.[{i}].content",
    each=lambda request: request.messages("assistant"), at="/content",
    when=lambda item: item[1].get("content") is None and not any(map(item[1].get, _CONTENT_FIELDS)),
    remedy="Leave out an empty message; an empty string is accepted.", as_of="2025",
    inferred="text from memory")  # fmt: skip


@chat("OAC-OAI-04", "The arguments of a function call are a string of JSON.",
    UnverifiedText("Invalid type for 'messages[{i}].tool_calls[{j}].function.arguments': expected a string, but got "
    "{kind} instead."),
    UnverifiedText("Missing required parameter: 'messages[{i}].tool_calls[{j}].function.arguments'."),
    refused_by=OPENAI_HOSTS, accepted_by=LOCAL_HOSTS, code="{code}",
    param="messages[{i}].tool_calls[{j}].function.arguments", remedy="Send the string that was received.",
    as_of="2026-05", documented="openai-openapi ChatCompletionMessageToolCall")  # fmt: skip
def arguments_not_text(request: ChatBody) -> Iterator[Violation]:
    for pointer, call in request.tool_calls():
        function = call.get("function")
        if isinstance(function, dict) and not isinstance(function.get("arguments"), str):
            place = f"{pointer}/function/arguments"
            if "arguments" in function:
                yield Violation(place, {"kind": openai_type(function["arguments"]), "code": "invalid_type"})
            else:
                yield Violation(place, {"code": "missing_required_parameter"}, 1)


chat("OAC-OAI-01", "The tool messages directly after an assistant message answer each of its calls.",
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The "
    "following tool_call_ids did not have response messages: {ids}", refused_by=(*PAIRED_HOSTS, "moonshot"),
    accepted_by=(*LOCAL_HOSTS, *OWN_PAIR_HOSTS), param="messages.[{i}].role",
    each=lambda request: request.unanswered_calls(), at="/tool_calls", fields=lambda item: {"ids": item[1]},
    remedy="Answer every call, and put nothing between a call and its results.", as_of="2026-09",
    source="cai#111; genkit#225; spring-ai-session#44")  # fmt: skip
chat("OAC-OAI-02", "A tool message answers a call of the assistant message before it.",
    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
    refused_by=PAIRED_HOSTS, accepted_by=(*LOCAL_HOSTS, *OWN_PAIR_HOSTS, "moonshot"), param="messages.[{i}].role",
    each=lambda request: request.stray_results(), at="/tool_call_id",
    remedy="Cut a history only where no call is open.", as_of="2025-09",
    source="promptflow#3130; GhidrAssist#45")  # fmt: skip
chat("OAC-OAI-03", "Call ids of more than 40 characters were refused until January 2026.",
    "Invalid 'messages[{i}].tool_calls[{j}].id': string too long. Expected a string with maximum length 40, but got a "
    "string with length {n} instead.", only=("openai",), severity="warned", code="string_above_max_length",
    each=lambda request: [call for call in request.tool_calls()
    if len(text(call[1], "id")) > request.switches.call_id_max],
    at="/id", fields=lambda item: {"n": len(item[1]["id"])}, remedy="Use ids of at most 40 characters.",
    as_of="2026-01", source="protocols C.1; vercel/ai#5171")  # fmt: skip
openai("OAC-OAI-16", "Chat Completions neither returns nor accepts the reasoning of a tool loop.",
    applies=lambda request: request.is_reasoning_model, severity="lost",
    each=lambda request: request.current_turn() if request.effort() != "none" else (),
    when=lambda item: any(calls_of(*item)), remedy="Use Responses for tool loops, which carries it.", as_of="2026-11",
    documented="protocols C.1")  # fmt: skip

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
    chat(_id, "The name of the model fits the names of the provider's models.", _message,
        **{"only": _providers, "certain": False, "source": "protocols C", "as_of": "2026", **_fields}, at="/model",
        when=lambda request: request.is_well_named is False,
        remedy="Look up the id; a new model may have another form.")  # fmt: skip

chat("OAC-MODEL-02", "The catalog has the model.",
    applies=lambda request: bool(request.context.row.model_names) and not request.traits.known, severity="warned",
    at="/model", when=lambda request: request.is_well_named,
    remedy="Look up the id: nothing is known of the model, so no other rule for models is checked.", as_of="2026-11",
    documented="tenuto.catalog")  # fmt: skip


@chat("OAC-OAI-18", "Numbers are in their range.",
    "Invalid '{p}': {type} below minimum value. Expected a value >= {bound}, but got {v} instead.",
    "Invalid '{p}': {type} above maximum value. Expected a value <= {bound}, but got {v} instead.",
    UnverifiedText("Invalid type for '{p}': expected {wanted}, but got {v} instead."), refused_by=OPENAI_HOSTS,
    accepted_by=("ollama", "lmstudio", "llamacpp"), param="{p}", code="{code}",
    remedy="Send a value in the range of the API reference.", as_of="2026",
    recorded="corpus pydantic-ai__openai_responses.openai_responses_model_http_error; "
    "auto_job__find__chatgpt__rpa#40")  # fmt: skip
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


openai("OAC-OAI-05", "Reasoning models have max_completion_tokens instead of max_tokens.",
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    applies=lambda request: request.is_reasoning_model, param="max_tokens", code="unsupported_parameter",
    each=lambda request: request.settings("max_tokens", "max_completion_tokens"),
    when=lambda item: item[0] == "/max_tokens", remedy="Send max_completion_tokens to these models.", as_of="2026",
    source="corpus vercel-ai__reasoning-model-legacy-parameter-error")  # fmt: skip


@openai("OAC-OAI-06", "A model that reasons accepts no sampling parameters.",
    UnverifiedText("Unsupported value: '{p}' does not support {v} with this model. Only the default (1) value is "
    "supported."),
    "Unsupported parameter: '{p}' is not supported with this model.",
    applies=lambda request: request.traits.sampling in ("rejected", "only_without_reasoning"), param="{p}",
    code="{code}", remedy="Omit sampling parameters for models that reason.", as_of="2026-07",
    source="ccgate#113; cvdp#29; OpenHands#4131; corpus "
    "mirascope__input.call_with_params.openai_gpt_5_mini_completions-01")  # fmt: skip
def sampling_refused(request: ChatBody) -> Iterator[Violation]:
    names = (*SAMPLING, "logprobs", "top_logprobs", "logit_bias", "stop")
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


@openai("OAC-OAI-09",
    "Function names have at most 64 letters, digits, _ and -; there are at most 128 tools and 4 stop sequences.",
    UnverifiedText("Invalid 'tools[{i}].function.name': string does not match pattern. Expected a string that matches "
    "the pattern '^[a-zA-Z0-9_-]+$'."),
    UnverifiedText("Invalid '{p}': array too long. Expected an array with maximum length {max}, but got an array with "
    "length {n} instead."), code="{code}", remedy="Map names to allowed ones; send fewer.", as_of="2026",
    documented="protocols C.1; Tools4AI#16")  # fmt: skip
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


@openai("OAC-OAI-12", "A list of tools is not empty; without tools nothing chooses among them.",
    UnverifiedText("Invalid value for '{p}': '{p}' is only allowed when 'tools' are specified."),
    UnverifiedText("Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array "
    "instead."), certain=False, param="{p}", remedy="Omit tools, tool_choice and parallel_tool_calls together.",
    as_of="2026", inferred="text from memory")  # fmt: skip
def choice_without_tools(request: ChatBody) -> Iterator[Violation]:
    if request.body.get("tools") == []:
        yield Violation("/tools", {"p": "tools"}, 1)
        return
    for name in ("tool_choice", "parallel_tool_calls"):
        if request.setting(name) is not None and not request.body.get("tools") and not request.body.get("functions"):
            yield Violation(f"/{name}", {"p": name})


@openai("OAC-OAI-20", "In a strict schema every object is closed and requires all of its properties.",
    f"Invalid schema for {{use}} '{{name}}': {NOT_CLOSED}",
    f"Invalid schema for {{use}} '{{name}}': {NOT_REQUIRED}", param="{field}", code="{code}",
    remedy="Rewrite the schema, or send strict false.", as_of="2026-08",
    recorded="corpus mirascope-ts__input.strict-tool.openai_completions.handles-optional-properties-in-strict-mode; "
    "openai-agents#1023; opencode#13737")  # fmt: skip
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
        yield Violation(place, {**fields, "path": path, "key": missing}, 1 if missing else 0)


@chat("OAC-OAI-07", "Function tools exclude reasoning on newer models.",
    "Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. To use function "
    "tools, use /v1/responses or set reasoning_effort to 'none'.",
    applies=lambda request: request.traits.chat_tools != "ok", only=("openai",), param="reasoning_effort",
    remedy="Use Responses, or set the effort to none; on Azure Foundry omit the field.", as_of="2026-09",
    source="webmcp-tools#417; joplin#16451; openai-openapi#541; agentgateway#2894")  # fmt: skip
def tools_with_reasoning(request: ChatBody) -> Iterator[Violation]:
    tools, traits = request.tools(), request.traits
    unset = request.body.get("reasoning_effort") is None
    if not tools or (traits.chat_tools == "effort_unset" and unset):
        return
    if traits.chat_tools == "rejected" or request.effort() not in ("none", ""):
        is_function = any(tool.get("type") == "function" for _, tool in tools)
        yield Violation("/reasoning_effort", certain=is_function)


@chat("OAC-OAI-11", "JSON mode needs the word json in a message.",
    UnverifiedText("'messages' must contain the word 'json' in some form, to use 'response_format' of type "
    "'json_object'."), only=(*OPENAI_HOSTS, "deepseek", "groq"), param="messages",
    remedy="Use a schema, or write json in a message.", as_of="2026", source="protocols B.1, C.4")  # fmt: skip
def json_mode_without_word(request: ChatBody) -> Iterator[Violation]:
    format = request.setting("response_format")
    if not isinstance(format, dict) or format.get("type") != "json_object":
        return
    if not any("json" in message_text(message).lower() for _, message in request.messages()):
        yield Violation("/response_format")


chat("OAC-OAI-13", "Only search models accept web_search_options.",
    "Web search options not supported with this model.",
    applies=lambda request: request.model and request.traits.known and not request.traits.chat_search, only=("openai",),
    param="web_search_options", each=lambda request: request.settings("web_search_options"),
    remedy="Use a search model.", as_of="2026",
    recorded="corpus pydantic-ai__openai.openai_web_search_tool_model_not_supported")  # fmt: skip
chat("OAC-AZ-01", "The content filter accepts the prompt.",
    "The response was filtered due to the prompt triggering Azure Content management policy. Please modify your prompt "
    "and retry. To learn more about our content filtering policies please read our documentation: "
    "https://go.microsoft.com/fwlink/?linkid=21298766", only=("azure",), type="", param="prompt", code="content_filter",
    unchecked="only the filter knows; a script of the simulator can deny a request like this",
    remedy="Look for an error before the choices, at any status.", as_of="2026",
    recorded="corpus openllmetry__openai.azure.prompt_content_filtering-01")  # fmt: skip
