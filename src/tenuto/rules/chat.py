"""Chat Completions: the view of a request, its shape, its messages and tool calls."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from tenuto.core.provider import ChatSwitches
from tenuto.rules.body import CallInBody, Fields, RequestBody, objects, text
from tenuto.rules.book import UnverifiedText, Violation, body_of, section
from tenuto.rules.images import decode_head, read_head
from tenuto.rules.issued_tokens import IssuedItem, content_digest
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
REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_details")

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_WEB_HOST = re.compile(r"https?://(?:[^/?#]*@)?(\[[^\]]*\]|[^/?#:]*)", re.IGNORECASE)
_UNREACHABLE = (".invalid", ".test", ".localhost")
_SHAPES = shapes({
    "Request": "messages!:Message* tools:Tool* stream:b model",
    "Message": "role! content:s|Part* tool_calls:Call*",
    "Part": "",
    "Call": "",
    "Tool": "",
    "Tool.function": "function!:o",
})  # fmt: skip


@body_of("openai-chat")
class ChatBody(RequestBody):
    """The body of a Chat Completions request."""

    dialect = "openai-chat"

    @property
    def switches(self) -> ChatSwitches:
        return self.context.row.chat

    # --- messages -----------------------------------------------------------------------------------------------------

    @cached_property
    def _messages(self) -> tuple[tuple[str, Fields], ...]:
        return tuple(objects(self.body.get("messages"), "/messages"))

    def messages(self, *roles: str) -> Sequence[tuple[str, Fields]]:
        """Return the messages with their pointers; only those of some roles if any are given."""
        if not roles:
            return self.see(self._messages)
        return self.see([(pointer, message) for pointer, message in self._messages if text(message, "role") in roles])

    def last_message(self) -> tuple[str, Fields]:
        """Return the last message with its pointer; an empty one without messages."""
        messages = self.messages()
        return messages[-1] if messages else ("", {})

    def current_turn(self) -> Sequence[tuple[str, Fields]]:
        """Return the assistant messages after the last user message."""
        users = [index for index, (_, message) in enumerate(self._messages) if message.get("role") == "user"]
        rest = self._messages[users[-1] + 1 if users else 0 :]
        return self.see([(pointer, message) for pointer, message in rest if message.get("role") == "assistant"])

    def parts(self, *types: str) -> Sequence[tuple[str, Fields, Fields]]:
        """Return the content parts with their pointers and messages; only those of some types if any are given."""
        return self.see(
            [
                (pointer, part, message)
                for place, message in self._messages
                for pointer, part in objects(message.get("content"), f"{place}/content")
                if not types or part.get("type") in types
            ]
        )

    def images(self) -> Iterator[tuple[str, str, Fields]]:
        """Yield the pointer of each image part, its URL and its message."""
        for pointer, part, message in self.parts("image_url"):
            value = part.get("image_url")
            yield pointer, text(value, "url") if isinstance(value, dict) else text(part, "image_url"), message

    # --- tool calls and results ---------------------------------------------------------------------------------------

    @cached_property
    def _calls(self) -> tuple[tuple[str, Fields], ...]:
        return tuple(call for message in self._messages for call in calls_of(*message))

    def tool_calls(self) -> Sequence[tuple[str, Fields]]:
        """Return the tool calls of all assistant messages with their pointers."""
        return self.see(self._calls)

    def callers(self) -> Sequence[tuple[str, Fields]]:
        """Return the assistant messages with tool calls."""
        return self.see([(pointer, message) for pointer, message in self._messages if any(calls_of(pointer, message))])

    @cached_property
    def _pairs(self) -> tuple[list[tuple[str, tuple[str, ...]]], list[tuple[str, str]]]:
        unanswered: list[tuple[str, tuple[str, ...]]] = []
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
                unanswered.append((caller, tuple(pending)))
            pending = dict.fromkeys(text(call, "id") for _, call in calls_of(pointer, message))
            caller, asked = pointer, frozenset(pending)
        return unanswered, stray

    def unanswered_calls(self) -> Sequence[tuple[str, tuple[str, ...]]]:
        """Return the messages with calls that the tool messages directly after them do not answer, and the call ids."""
        self.see(self._calls)
        return self._pairs[0]

    def stray_results(self) -> Sequence[tuple[str, str]]:
        """Return the tool messages that answer no call of the assistant message before them, and their call ids."""
        self.messages("tool")
        return self._pairs[1]

    def calls(self) -> Sequence[CallInBody]:
        calls = []
        for pointer, call in self._calls:
            function = call.get("function")
            function = function if isinstance(function, dict) else {}
            name, args = text(function, "name"), function.get("arguments")
            calls.append(CallInBody(f"{pointer}/id", text(call, "id"), name, args))
        return calls

    def results(self) -> Sequence[tuple[str, str]]:
        tools = self.messages("tool")
        return [(f"{pointer}/tool_call_id", text(message, "tool_call_id")) for pointer, message in tools]

    def tools(self) -> Sequence[tuple[str, Fields]]:
        return self.list("tools")

    def forces_tool(self) -> bool:
        """Tell whether the model must call a tool."""
        choice = self.setting("tool_choice")
        if not isinstance(choice, dict):
            return choice in ("required", "any")
        allowed = choice.get("allowed_tools")
        return choice.get("type") != "allowed_tools" or (
            isinstance(allowed, dict) and allowed.get("mode") == "required"
        )

    # --- thinking -----------------------------------------------------------------------------------------------------

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

    # --- earlier replies ----------------------------------------------------------------------------------------------

    def issued_reply(self, message: Fields) -> IssuedItem | None:
        """Return the reply that a message sends back: by its calls, else by its text; None if that is not known."""
        ids = [text(call, "id") for _, call in calls_of("", message)] or [content_digest(message_text(message))]
        return next(filter(None, map(self.tokens.item, ids)), None)

    def had_reasoning(self, message: Fields) -> bool:
        """Tell whether the reply that a message sends back had reasoning; if it is not known, whether the model thinks."""
        reply = self.issued_reply(message)
        return self.thinks() if reply is None else bool(reply.started_with_reasoning) and not reply.foreign


def message_text(message: Fields) -> str:
    """Return the text of a message, its parts joined."""
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


# --- shape ------------------------------------------------------------------------------------------------------------


@chat("OAC-SHAPE", "The body has the JSON types of the dialect, and at least one message.",
    UnverifiedText(OPENAI_MISSING),
    UnverifiedText(OPENAI_WRONG_TYPE),
    UnverifiedText("Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array "
    "instead."),
    param="{field}", code="{code}", final=True, remedy="Send the types of the API reference.",
    source="openai-openapi ChatCompletionRequest", confidence="documented", as_of="2026-11")  # fmt: skip
def wrong_types(request: ChatBody) -> Iterator[Violation]:
    if request.body.get("messages") == []:
        yield Violation("/messages", {"field": "messages", "code": "empty_array"}, 2)
    yield from map(openai_violation, wrong_values(request.body, "Request", _SHAPES))


@chat("OAC-OAI-17",
    "Roles are known; calls have an id and a function with a name; tool messages have the id of a call.",
    UnverifiedText(OPENAI_MISSING),
    "Invalid value: '{value}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and "
    "'developer'.",
    refused_by=OPENAI_HOSTS, accepted_by=LOCAL_HOSTS, param="{field}", code="{code}",
    remedy="Send the fields of the API reference.", source="openai-openapi ChatCompletionRequest",
    confidence="documented", as_of="2026-11")  # fmt: skip
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


# --- roles and content ------------------------------------------------------------------------------------------------


@chat("OAC-OAI-19", "The first small reasoning models accept no system or developer message.",
    "Unsupported value: 'messages[{i}].role' does not support '{role}' with this model.",
    applies=lambda request: not request.traits.system_role, only=OPENAI_HOSTS, param="messages[{i}].role",
    code="unsupported_value", remedy="Put the instructions into the first user message.",
    source="BetterChatGPT-PLUS#90; agent-framework#1077; new-api#847", as_of="2025-10")  # fmt: skip
def system_role_refused(request: ChatBody) -> Iterator[Violation]:
    for pointer, message in request.messages("system", "developer"):
        yield Violation(f"{pointer}/role", {"role": message["role"]})


@chat("OAC-AZ-02", "Models of other vendors do not know the role developer.",
    "The request is invalid: developer is not one of ['system', 'assistant', 'user', 'tool', 'function']",
    applies=lambda request: request.switches.refuses_developer or not request.traits.developer_role,
    only=("azure", "vllm"), certain=False, remedy="Use the role system unless the model is OpenAI's.",
    source="experiential#804", as_of="2026-09")  # fmt: skip
def developer_role_refused(request: ChatBody) -> Iterator[Violation]:
    for pointer, _ in request.messages("developer"):
        yield Violation(f"{pointer}/role")


@chat("OAC-OAI-08",
    "Older models accept images in user messages only; newer ones accept them elsewhere and do not see them.",
    "Invalid 'messages[{i}]'. Image URLs are only allowed for messages with role 'user', but this message with role "
    "'{role}' contains an image URL.",
    applies=lambda request: request.traits.user_images_only, only=OPENAI_HOSTS,
    remedy="Put the image into a user message after the results.",
    source="openai-node#1030; OpenHands#7700; openai-openapi#523", as_of="2026-02")  # fmt: skip
def image_outside_user_message(request: ChatBody) -> Iterator[Violation]:
    for pointer, _, message in request.images():
        role = text(message, "role")
        if role != "user":
            yield Violation(pointer, {"role": role}, certain=role in ("tool", "assistant"))


@chat("OAC-OAI-14", "An image is PNG, JPEG, GIF or WebP, and its URL can be fetched.",
    "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', "
    "'gif', 'webp'].",
    "Error while downloading {url}.",
    only=OPENAI_HOSTS, code="{code}", remedy="Check the first bytes; send the bytes instead of a URL.",
    source="corpus openllmetry__openai.vision.vision_base64-02, vision-03", confidence="recorded",
    as_of="2026")  # fmt: skip
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


@chat("OAC-OAI-10", "An assistant message without content has tool calls.",
    UnverifiedText("Invalid value for 'content': expected a string, got null."),
    refused_by=OPENAI_HOSTS, accepted_by=LOCAL_HOSTS, certain=False, param="messages.[{i}].content",
    remedy="Leave out an empty message; an empty string is accepted.", source="text from memory", confidence="inferred",
    as_of="2025")  # fmt: skip
def assistant_without_content(request: ChatBody) -> Iterator[Violation]:
    for pointer, message in request.messages("assistant"):
        others = ("content", "tool_calls", "function_call", "refusal", "audio", *REASONING_FIELDS)
        if message.get("content") is None and not any(message.get(name) for name in others):
            yield Violation(f"{pointer}/content")


# --- tool calls and results -------------------------------------------------------------------------------------------

UNANSWERED_CALL = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The "
    "following tool_call_ids did not have response messages: {ids}"
)
STRAY_RESULT = (
    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
)


@chat("OAC-OAI-04", "The arguments of a function call are a string of JSON.",
    UnverifiedText("Invalid type for 'messages[{i}].tool_calls[{j}].function.arguments': expected a string, but got "
    "{kind} instead."),
    UnverifiedText("Missing required parameter: 'messages[{i}].tool_calls[{j}].function.arguments'."),
    refused_by=OPENAI_HOSTS, accepted_by=LOCAL_HOSTS, code="{code}",
    param="messages[{i}].tool_calls[{j}].function.arguments", remedy="Send the string that was received.",
    source="openai-openapi ChatCompletionMessageToolCall", confidence="documented", as_of="2026-05")  # fmt: skip
def arguments_not_text(request: ChatBody) -> Iterator[Violation]:
    for pointer, call in request.tool_calls():
        function = call.get("function")
        if isinstance(function, dict) and not isinstance(function.get("arguments"), str):
            place = f"{pointer}/function/arguments"
            if "arguments" in function:
                yield Violation(place, {"kind": openai_type(function["arguments"]), "code": "invalid_type"})
            else:
                yield Violation(place, {"code": "missing_required_parameter"}, 1)


@chat("OAC-OAI-01", "The tool messages directly after an assistant message answer each of its calls.",
    UNANSWERED_CALL,
    refused_by=(*PAIRED_HOSTS, "moonshot"), accepted_by=(*LOCAL_HOSTS, *OWN_PAIR_HOSTS), param="messages.[{i}].role",
    remedy="Answer every call, and put nothing between a call and its results.",
    source="cai#111; genkit#225; spring-ai-session#44", as_of="2026-09")  # fmt: skip
def call_without_result(request: ChatBody) -> Iterator[Violation]:
    for pointer, ids in request.unanswered_calls():
        yield Violation(f"{pointer}/tool_calls", {"ids": ", ".join(ids)})


@chat("OAC-OAI-02", "A tool message answers a call of the assistant message before it.",
    STRAY_RESULT,
    refused_by=PAIRED_HOSTS, accepted_by=(*LOCAL_HOSTS, *OWN_PAIR_HOSTS, "moonshot"), param="messages.[{i}].role",
    remedy="Cut a history only where no call is open.", source="promptflow#3130; GhidrAssist#45",
    as_of="2025-09")  # fmt: skip
def result_without_call(request: ChatBody) -> Iterator[Violation]:
    for pointer, _ in request.stray_results():
        yield Violation(f"{pointer}/tool_call_id")


@chat("OAC-OAI-03", "Call ids of more than 40 characters were refused until January 2026.",
    "Invalid 'messages[{i}].tool_calls[{j}].id': string too long. Expected a string with maximum length 40, but got a "
    "string with length {n} instead.",
    only=("openai",), severity="warned", code="string_above_max_length", remedy="Use ids of at most 40 characters.",
    source="protocols C.1; vercel/ai#5171", as_of="2026-01")  # fmt: skip
def long_call_id(request: ChatBody) -> Iterator[Violation]:
    for pointer, call in request.tool_calls():
        if len(text(call, "id")) > request.switches.call_id_max:
            yield Violation(f"{pointer}/id", {"n": len(text(call, "id"))})


@chat("OAC-OAI-16", "Chat Completions neither returns nor accepts the reasoning of a tool loop.",
    applies=lambda request: request.is_reasoning_model, only=OPENAI_HOSTS, severity="lost",
    remedy="Use Responses for tool loops, which carries it.", source="protocols C.1", confidence="documented",
    as_of="2026-11")  # fmt: skip
def reasoning_not_carried(request: ChatBody) -> Iterator[Violation]:
    if request.effort() != "none":
        for pointer, message in request.current_turn():
            if any(calls_of(pointer, message)):
                yield Violation(pointer)
