"""Chat Completions: rules of single vendors and hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from tenuto.core import jsonio
from tenuto.rules.body import Fields, Violation, escape, objects, text
from tenuto.rules.book import UnverifiedText, rule, section
from tenuto.rules.chat import (
    LOCAL_HOSTS,
    NINE,
    REASONING_FIELDS,
    SAMPLING,
    ChatBody,
    calls_of,
    chat,
    is_empty,
    message_text,
)
from tenuto.rules.issued_tokens import has_content, matches

deepseek = section("openai-chat", type="invalid_request_error", only=("deepseek",), code="invalid_request_error")
moonshot = section("openai-chat", type="invalid_request_error", only=("moonshot",))
mistral = section("openai-chat", type="invalid_request_error", only=("mistral",))
groq = section("openai-chat", type="invalid_request_error", only=("groq",))
xai = section("openai-chat", only=("xai",), code="invalid-argument")
openrouter = section("openai-chat", only=("openrouter",))
alibaba = section("openai-chat", type="invalid_request_error", only=("alibaba",), code="invalid_parameter_error")

_CHARACTERS_PER_TOKEN = 4
_MAX_CHARACTERS_PER_TOKEN = 8
"""No common text has more: a text that is longer than this for each token of the window does not fit."""


def excess_tokens(request: ChatBody) -> tuple[int, bool]:
    """Return by how many tokens the messages exceed the window, and whether that is certain; 0 if they may fit."""
    window = request.traits.context_window
    if not window or not request.may_exceed(window * _CHARACTERS_PER_TOKEN):
        return 0, False
    length = sum(len(message_text(message)) for _, message in request.messages())
    certain = length > window * _MAX_CHARACTERS_PER_TOKEN
    return max(0, length // _CHARACTERS_PER_TOKEN - window), certain


@deepseek("OAC-DS-05", "Content parts have a type that the model accepts.",
    "Failed to deserialize the JSON body into the target type: messages[{i}]: unknown variant `{type}`, expected "
    "`text`", remedy="Send text, and images only to models that accept them.", as_of="2026-08",
    source="clawcodex#862; rikkahub#1433; MoviePilot#5863")  # fmt: skip
def unknown_part_type(request: ChatBody) -> Iterator[Violation]:
    traits = request.traits
    accepted = {"text": True, "image_url": traits.images_in, "input_audio": traits.audio_in}
    accepted |= {"file": traits.documents_in, "video_url": traits.audio_in}
    for pointer, part, _ in request.parts():
        type = text(part, "type")
        if not accepted.get(type, False):
            yield Violation(f"{pointer}/type", {"type": type}, certain=type != "refusal")


@deepseek("OAC-DS-02", "A model that thinks cannot be forced to call a tool.",
    "Thinking mode does not support this tool_choice", remedy="Leave tool_choice at auto, or turn thinking off.",
    as_of="2026-09", source="DeepSeek-V3#1376; litellm#37470; any-llm#1384")  # fmt: skip
def forced_tool_while_thinking(request: ChatBody) -> Iterator[Violation]:
    is_forced = bool(request.tools()) and request.forces_tool()
    if is_forced and request.thinks() and request.traits.forced_tool_choice in ("rejected", "not_with_thinking"):
        yield Violation("/tool_choice")


deepseek("OAC-DS-03", "The tool messages directly after an assistant message answer each of its calls.",
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "(insufficient tool messages following tool_calls message)", each=lambda request: request.unanswered_calls(),
    at="/tool_calls", fields=lambda item: {"ids": item[1]},
    remedy="Put the results directly after the call, and nothing between them.", as_of="2026-08",
    source="gptme#3421; CodexPlusPlus#308")  # fmt: skip

deepseek("OAC-DS-04", "A tool message answers a call of the assistant message before it.",
    "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
    each=lambda request: request.stray_results(), at="/tool_call_id",
    remedy="Cut a history only where no call is open.", as_of="2026-09",
    source="Newelle#425; agentscope-go#7")  # fmt: skip


@deepseek("OAC-DS-01", "While the model thinks, an assistant message with tool calls has reasoning_content.",
    "The `reasoning_content` in the thinking mode must be passed back to the API.",
    remedy="Send the stored text, or an empty string; or turn thinking off.", as_of="2026-08",
    source="pi#3636; Empryo#62; oai-compatible-copilot#215; protocols C.4")  # fmt: skip
def required_reasoning_missing(request: ChatBody) -> Iterator[Violation]:
    callers = request.callers()
    if request.thinks() and (request.traits.reasoning_required or not request.model):
        for pointer, message in callers:
            if not isinstance(message.get("reasoning_content"), str):
                # An explicit null was not tried.
                certain = "reasoning_content" not in message
                yield Violation(f"{pointer}/reasoning_content", certain=certain)


deepseek("OAC-DS-06", "Sampling parameters have no effect while the model thinks.",
    applies=lambda request: request.traits.sampling in ("ignored", "only_without_reasoning"), severity="warned",
    each=lambda request: request.settings(*SAMPLING) if request.thinks() else (), remedy="Omit them.", as_of="2026-11",
    documented="protocols C.2")  # fmt: skip

moonshot("OAC-KIMI-03", "The temperature of models that reason is 1.",
    "invalid temperature: only 1 is allowed for this model",
    applies=lambda request: request.traits.sampling == "rejected", at="/temperature",
    when=lambda request: request.setting("temperature") not in (None, 1), remedy="Omit temperature.", as_of="2026-06",
    source="litellm#29687 (live)")  # fmt: skip

moonshot("OAC-KIMI-04", "A request has either thinking or reasoning_effort.",
    "cannot specify both 'thinking' and 'reasoning_effort'",
    applies=lambda request: request.switches.one_thinking_field and "effort" in request.traits.thinking, certain=False,
    at="/reasoning_effort", when=lambda request: len(request.settings("thinking", "reasoning_effort")) == 2,
    remedy="Send one of them.", as_of="2026-07", source="protocols C.5")  # fmt: skip

moonshot("OAC-KIMI-02", "A model that thinks cannot be forced to call a tool.",
    "tool_choice specified is incompatible with thinking enabled",
    remedy="Turn thinking off, or leave tool_choice at auto.", as_of="2026-05",
    source="oh-my-pi#1077; Kimi documentation")(forced_tool_while_thinking)  # fmt: skip


@moonshot("OAC-KIMI-05",
    "Results answer a call, assistant messages are not empty, and images are sent as bytes or ms:// files.",
    UnverifiedText("tool_call_id  is not found"),
    UnverifiedText("message at position {i} must not be empty"),
    UnverifiedText("unsupported image url: {url}"), certain=False,
    remedy="Close pairs, omit empty messages, send the bytes of images.", as_of="2026",
    inferred="protocols C.2")  # fmt: skip
def kimi_messages(request: ChatBody) -> Iterator[Violation]:
    for pointer, _ in request.stray_results():
        yield Violation(pointer)
    for pointer, message in request.messages("assistant"):
        if is_empty(message):
            yield Violation(pointer, message=1)
    for pointer, url, _ in request.images():
        if not url.lower().startswith(("data:", "ms://")):
            yield Violation(pointer.partition("/content")[0], {"url": url}, 2)


moonshot("OAC-KIMI-01", "While the model thinks, an assistant message with tool calls has reasoning_content.",
    "thinking is enabled but reasoning_content is missing in assistant tool call message at index {i}",
    remedy="Send it, or an empty string for messages of another model.", as_of="2026-05",
    source="n8n#29142; deer-flow#3043; continue#11711; obsidian-yolo#243")(required_reasoning_missing)  # fmt: skip

_MISTRAL_KEYS = {
    "system": ("role", "content"),
    "user": ("role", "content"),
    "assistant": ("role", "content", "tool_calls", "prefix"),
    "tool": ("role", "content", "tool_call_id", "name"),
}


@mistral("OAC-MIS-05", "A message has only the keys of its role, and a list of tools is not empty.",
    "Extra inputs are not permitted",
    UnverifiedText("List should have at least 1 item after validation, not 0"), status=422, code="{code}",
    remedy="Send reasoning as a part of the content with its signature; omit empty tools.", as_of="2026-06",
    source="php-mistral#76; mistral-go#2; litellm#30835")  # fmt: skip
def mistral_unknown_keys(request: ChatBody) -> Iterator[Violation]:
    if request.setting("tools") == []:
        yield Violation("/tools", {"code": "too_short", "loc": ["body", "tools"]}, 1)
    for pointer, message in request.messages():
        role = text(message, "role")
        known = _MISTRAL_KEYS.get(role, _MISTRAL_KEYS["user"])
        for key in message:
            if key not in known:
                loc = ["body", "messages", int(pointer.rpartition("/")[2]), role, key]
                fields = {"code": "", "loc": loc, "input": message[key]}
                yield Violation(f"{pointer}/{escape(key)}", fields, certain=role in _MISTRAL_KEYS)


mistral("OAC-MIS-07", "The body has no parameters that the provider does not know.",
    "Extra inputs are not permitted", status=422,
    each=lambda request: request.settings("logprobs", "top_logprobs", *request.switches.strip),
    fields=lambda item: {"loc": ["body", item[0][1:]], "input": item[1]},
    certain=lambda item: item[0].endswith("logprobs"), remedy="Omit them.", as_of="2026",
    recorded="mistralai/platform-docs-public#7")  # fmt: skip

mistral("OAC-MIS-02", "The last message is the user's or a tool's, or it has prefix: true.",
    "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
    type="invalid_request_message_order", code="3230",
    each=lambda request: [last for last in request.messages()[-1:]
    if last[1].get(request.switches.prefix_flag) is not True],
    when=lambda item: item[1].get("role") == "assistant", remedy="End with a user or tool message, or set prefix.",
    as_of="2025-12", source="rig#1130; protocols C.9")  # fmt: skip

mistral("OAC-MIS-03", "Some hosts of Mistral models refuse a user message after a tool message.",
    "Unexpected role 'user' after role 'tool'", severity="warned", type="invalid_request_message_order", code="3230",
    each=lambda request: [after for before, after in pairwise(request.messages()) if before[1].get("role") == "tool"],
    at="/role", when=lambda item: item[1].get("role") == "user",
    remedy="Put an assistant message between them only where it is refused; mistral-small-latest accepted it twice.",
    as_of="2026-08", source="datapizza#98; hermes#20154")  # fmt: skip

chat("OAC-MIS-01", "Call ids have exactly nine letters and digits.",
    "Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.",
    applies=lambda request: request.switches.call_id == "nine", type="invalid_function_call", code="3280",
    each=lambda request: [*((call.pointer, call.id) for call in request.calls), *request.results()], when=lambda item: not NINE.fullmatch(item[1]),
    fields=lambda item: {"id": item[1]}, remedy="Map every id to nine characters, the same way in call and result.",
    as_of="2026-06", source="protocols C.9")  # fmt: skip


@mistral("OAC-MIS-04", "An assistant message is followed by one tool message for each of its calls, and no other.",
    "Unexpected role 'tool' after role '{role}'",
    "Not the same number of function calls and responses", type="invalid_request_message_order", code="3230",
    remedy="Answer every call, and send no other results.", as_of="2025-07",
    source="crush#279; mistralai/client-ts#106")  # fmt: skip
def mistral_result_count(request: ChatBody) -> Iterator[Violation]:
    caller, missing, before = "", 0, "system"
    for pointer, message in (*request.messages(), ("", {})):
        role = text(message, "role")
        if role == "tool" and before in ("assistant", "tool"):
            missing -= 1
        elif role == "tool":
            yield Violation(pointer, {"role": before})
            caller = ""
        else:
            if caller and missing:
                # Open calls in the last message break OAC-MIS-02, too.
                yield Violation(caller, message=1, certain=bool(pointer) or before == "tool")
            caller = pointer if role == "assistant" else ""
            missing = sum(1 for _ in calls_of(pointer, message))
        before = role


@mistral("OAC-MIS-06", "The thinking parts of a reply are sent back unchanged.", severity="lost",
    remedy="Send the list of parts as it was received.", as_of="2026-11", documented="protocols C.2")  # fmt: skip
def mistral_thinking_changed(request: ChatBody) -> Iterator[Violation]:
    messages = request.messages("assistant")
    for pointer, message in messages if request.tokens.is_known else ():
        parts = [part for _, part in objects(message.get("content"), "") if part.get("type") == "thinking"]
        if _is_changed(request, parts) if parts else request.had_reasoning(message):
            yield Violation(f"{pointer}/content")


def _thinking_text(part: Fields) -> str:
    return text(part, "thinking") or "".join(text(piece, "text") for _, piece in objects(part.get("thinking"), ""))


def _is_changed(request: ChatBody, parts: Sequence[Fields]) -> bool:
    content = [_thinking_text(part) for part in parts]
    signatures = [text(part, "signature") for part in parts]
    for index, token in enumerate(signatures if any(signatures) else ()):
        issued = request.tokens.find(token)
        if issued is None or issued.index not in (-1, index) or not has_content(issued, *content):
            return True
    return False


@groq("OAC-GROQ-04", "Some parameters of OpenAI are not supported.",
    UnverifiedText("property '{p}' is unsupported"), remedy="Omit it.", as_of="2026-11",
    documented="protocols C.2")  # fmt: skip
def groq_unsupported(request: ChatBody) -> Iterator[Violation]:
    choices = request.setting("n")
    if isinstance(choices, int) and choices > 1:
        yield Violation("/n", {"p": "n"})
    for name in ("logprobs", "top_logprobs", "logit_bias"):
        value = request.setting(name)
        if value is not None and value is not False:
            yield Violation(f"/{name}", {"p": name}, certain=value != 0)
    for pointer, message in request.messages("system", "developer", "user", "assistant"):
        if message.get("name") is not None:
            yield Violation(f"{pointer}/name", {"p": "name"})


groq("OAC-GROQ-01", "An assistant message has no reasoning_content.",
    "'messages.{i}' : for 'role:assistant' the following must be satisfied[('messages.{i}' : property "
    "'reasoning_content' is unsupported)]", each=lambda request: request.messages("assistant"), at="/reasoning_content",
    when=lambda item: "reasoning_content" in item[1], remedy="Omit it; models that reason have the field reasoning.",
    as_of="2026-09", source="jan#8136; hermes#11089; freellmapi#1070; vellum#42635")  # fmt: skip


groq("OAC-GROQ-02", "Models that do not reason accept no reasoning.",
    "messages[{i}].reasoning: reasoning is not supported with this model",
    "property 'reasoning' is unsupported", applies=lambda request: "none" in request.traits.thinking,
    each=lambda request: [("", request.body), *request.messages("assistant")], at="/reasoning",
    when=lambda item: "reasoning" in item[1], message=lambda item: not item[0],
    certain=lambda item: item[1]["reasoning"] is not None, remedy="Omit it for these models.", as_of="2026-02",
    source="vercel/ai#8057; gptel#774")  # fmt: skip


groq("OAC-GROQ-03", "The call that the model writes fits its schema, and a forced call is made.",
    "Tool call validation failed: tool call validation failed: parameters for tool {name} did not match schema: "
    "errors: [{errors}]",
    "Tool choice is required, but model did not call a tool", code="tool_use_failed",
    unchecked="it depends on the call that the model writes",
    remedy="Treat it as a bad generation: show failed_generation, and let the agent try again.", as_of="2026",
    recorded="corpus pydantic-ai__groq.tool_use_failed_error-01, _with_text-01, _streaming-01")  # fmt: skip

_GROK_NAMES = {"presence_penalty": "presencePenalty", "frequency_penalty": "frequencyPenalty", "stop": "stop"}
xai("OAC-XAI-01", "Models that reason refuse penalties, even 0, and stop sequences.",
    "Model {model} does not support parameter {p}.",
    each=lambda request: [item for item in request.settings(*_GROK_NAMES) if item[0][1:] in request.traits.refuses],
    fields=lambda item: {"p": _GROK_NAMES[item[0][1:]]}, remedy="Omit it, even if it is 0.", as_of="2026-09",
    source="NativeTavern#83; lobehub#13332; open-webui#21266; modelparams#330")  # fmt: skip

xai("OAC-XAI-02", "The reasoning effort is one that the model has.",
    "Model {model} does not support parameter reasoningEffort.", at="/reasoning_effort",
    when=lambda request: request.traits.efforts is not None
    and request.setting("reasoning_effort") not in (None, *request.traits.efforts),
    remedy="Send an effort that the model has, or none at all.", as_of="2026-08",
    source="grok2api#814; hermes#23088; LinguaGacha#771,#926; cc-switch#7584")  # fmt: skip

CLAUDE_FORMAT, OPENAI_FORMAT, GEMINI_FORMAT = "anthropic-claude-v1", "openai-responses-v1", "google-gemini-v1"
_SIGNED_FORMATS = (CLAUDE_FORMAT, OPENAI_FORMAT, GEMINI_FORMAT)


@openrouter("OAC-OR-01", "A host of the model accepts tools, the tool choice and images.",
    "No endpoints found that support tool use. To learn more about provider routing, visit: "
    "https://openrouter.ai/docs/guides/routing/provider-selection",
    "No endpoints found that support the provided 'tool_choice' value.",
    "No endpoints found that support image input", status=404,
    remedy="Choose another model; this 404 does not say that the model is unknown.", as_of="2026-04",
    source="bobrchat#60; zed#36094; kilocode#9006")  # fmt: skip
def no_endpoint(request: ChatBody) -> Iterator[Violation]:
    tools, traits = request.tools(), request.traits
    if tools and not traits.tools:
        yield Violation("/tools")
    elif tools and traits.forced_tool_choice == "rejected" and request.forces_tool():
        yield Violation("/tool_choice", message=1)
    if not traits.images_in and any(request.images()):
        yield Violation("/messages", message=2)


@openrouter("OAC-OR-02", "The host of the model accepts the messages.",
    "Provider returned error", remedy="Read metadata.raw, and follow the host's rule.", as_of="2026",
    recorded="corpus pydantic-ai__openrouter.openrouter_errors_raised-01; crush#279")  # fmt: skip
def refused_by_host(request: ChatBody) -> Iterator[Violation]:
    is_claude = request.traits.reasoning_format == CLAUDE_FORMAT
    rules = ("ANT-TOOL-01", "ANT-TOOL-02") if is_claude else ("OAC-OAI-01", "OAC-OAI-02")
    for id, broken in zip(rules, (request.unanswered_calls(), request.stray_results()), strict=True):
        for pointer, ids in broken:
            raw = rule(id).messages[0].format(i=pointer.rpartition("/")[2], j=0, id=ids, ids=ids)
            yield Violation(pointer, {"raw": raw})
    callers = request.callers()
    if request.traits.reasoning_required and request.thinks():
        for pointer, message in callers:
            if not any(field in message for field in REASONING_FIELDS):
                raw = rule("OAC-KIMI-01").messages[0].format(i=pointer.rpartition("/")[2])
                yield Violation(pointer, {"raw": raw}, certain=False)  # several hosts serve these models


openrouter("OAC-OR-03", "A forced tool turns the reasoning of Claude off.",
    applies=lambda request: request.traits.reasoning_format == CLAUDE_FORMAT, severity="lost", at="/reasoning",
    when=lambda request: request.tools() and request.forces_tool() and request.setting("reasoning")
    and request.requested_thinking,
    remedy="Do not force tools on these models.", as_of="2026-07", source="pydantic-ai#6957")  # fmt: skip


@openrouter("OAC-OR-04", "Signed reasoning details are sent back as they were received.",
    "Provider returned error",
    remedy="Join the pieces of a stream by index and type, send the list unchanged, and omit details of other models.",
    as_of="2026-07", source="agno#8802; ai-sdk-provider#254; protocols E")  # fmt: skip
def reasoning_details_changed(request: ChatBody) -> Iterator[Violation]:
    current = {pointer for pointer, _ in request.current_turn()}
    seen: set[str] = set()
    for pointer, message in request.messages("assistant"):
        details = [detail for _, detail in objects(message.get("reasoning_details"), "")]
        reason = next(_detail_problems(request, details, pointer, message), "")
        ids = [text(detail, "id") for detail in details if text(detail, "data")]
        if not reason and request.traits.reasoning_format == OPENAI_FORMAT and not seen.isdisjoint(ids):
            reason = (
                f"Duplicate item found with id {next(id for id in ids if id in seen)}. Remove duplicate items from "
            )
            reason += "your input and try again."
        seen.update(filter(None, ids))
        unsigned = request.traits.signed_calls == "required" and not any(detail_token(detail) for detail in details)
        if not reason and unsigned and pointer in current and any(calls_of(pointer, message)):
            reason = "Function call is missing a thought_signature in functionCall parts."
        if reason:
            yield Violation(f"{pointer}/reasoning_details", {"raw": reason})


def _detail_problems(request: ChatBody, details: Sequence[Fields], pointer: str, message: Fields) -> Iterator[str]:
    """Yield what the host says of details of a signed format; others are not checked."""
    own, content, number = request.traits.reasoning_format, detail_content(details), pointer.rpartition("/")[2]
    reply = request.issued_reply(message) if details and request.tokens.is_known else None
    for index, detail in enumerate(details):
        format, token = text(detail, "format"), detail_token(detail)
        if format not in _SIGNED_FORMATS:
            continue
        if own and format != own:
            yield f"messages.{number}.reasoning_details.{index}: {format} is not a format of this model."
        elif not token:
            if format == CLAUDE_FORMAT and detail.get("type") == "reasoning.text":
                yield f"messages.{number}.content.{index}.thinking.signature: Field required"
        elif request.tokens.is_known:
            issued = request.tokens.find(token)
            moved = (
                issued is None or issued.index not in (-1, index) or (reply and not matches(issued.reply, reply.reply))
            )
            if issued is None or moved or not has_content(issued, *content):
                yield _INVALID_TOKEN[format].format(message=number, index=index, id=text(detail, "id"))


_INVALID_TOKEN = {
    CLAUDE_FORMAT: "messages.{message}.content.{index}: Invalid `signature` in `thinking` block",
    GEMINI_FORMAT: "Corrupted thought signature.",
    OPENAI_FORMAT: "The encrypted content for item {id} could not be verified.",
}


def detail_token(detail: Fields) -> str:
    """Return the signature or encrypted data of a reasoning detail; empty if it has none."""
    return text(detail, "data") if detail.get("type") == "reasoning.encrypted" else text(detail, "signature")


def detail_content(details: Sequence[Fields]) -> list[str]:
    """Return the parts of a list of details that its tokens are issued for: types, texts and ids, in their order."""
    keys = ("type", "text", "summary", "id")
    return [text(detail, key) for detail in details for key in keys]


openrouter("OAC-OR-05", "The credits cover max_tokens.",
    "This request requires more credits, or fewer max_tokens. You requested up to {n} tokens, but can only afford {m}.",
    status=402, unchecked="only the account knows its credits", remedy="Request fewer tokens; a retry does not help.",
    as_of="2026-06", source="gpt_mobile#284")  # fmt: skip

_FIREWORKS_FIELDS = frozenset((
    "model", "messages", "tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "max_tokens",
    "max_completion_tokens", "n", "stop", "stream", "stream_options", "user", "metadata", "seed", "temperature",
    "top_p", "top_k", "min_p", "typical_p", "frequency_penalty", "presence_penalty", "repetition_penalty",
    "mirostat_lr", "mirostat_target", "logit_bias", "logprobs", "top_logprobs", "echo", "echo_last", "ignore_eos",
    "response_format", "reasoning_effort", "reasoning_history", "thinking", "context_length_exceeded_behavior",
    "prompt_truncate_len", "prompt_cache_key", "prompt_cache_isolation_key", "prompt_cache_max_len", "service_tier",
    "speculation", "prediction", "perf_metrics_in_response", "raw_output", "return_token_ids", "safe_tokenization",
    "sampling_mask", "chat_template_kwargs",
))  # fmt: skip
_FIREWORKS_MESSAGE = ("role", "content", "name", "tool_calls", "tool_call_id", "function_call", "reasoning_content")


@chat("OAC-FW-01", "The body and its messages have only known fields.",
    "Extra inputs are not permitted, field: '{path}', value: {v}.", only=("fireworks",),
    remedy="Send known fields only.", as_of="2025-10", source="midscene#1322; Flowise#2866")  # fmt: skip
def unknown_field(request: ChatBody) -> Iterator[Violation]:
    fields = [
        (f"/{escape(name)}", name, value) for name, value in request.body.items() if name not in _FIREWORKS_FIELDS
    ]
    for pointer, message in request.messages():
        index = pointer.rpartition("/")[2]
        for name, value in message.items():
            if name not in _FIREWORKS_MESSAGE:
                fields.append((f"{pointer}/{escape(name)}", f"messages[{index}].{name}", value))
    for pointer, path, value in fields:
        shown = repr(value) if isinstance(value, str) else jsonio.encode(value).decode()
        yield Violation(pointer, {"path": path, "v": shown[:200]})


_TOGETHER_TYPES = {"logprobs": bool, "stop": str} | dict.fromkeys(
    ("max_completion_tokens", "stream_options", "parallel_tool_calls"), object
)
"""Fields with other names, and those with another type."""
chat("OAC-TOG-01", "Some parameters have other names and types.", only=("together",), severity="warned",
    each=lambda request: request.settings(*_TOGETHER_TYPES),
    when=lambda item: isinstance(item[1], _TOGETHER_TYPES[item[0][1:]]),
    remedy="Use the provider's names and types, and omit the others.", as_of="2026-11",
    inferred="protocols C.2")  # fmt: skip


@chat("OAC-PPLX-01", "After the system messages, user (or tool) and assistant messages alternate.",
    "After the (optional) system message(s), user and assistant roles should be alternating.",
    applies=lambda request: request.switches.alternate, type="invalid_message",
    remedy="Join adjacent messages of one role; put system messages first.", as_of="2025-04",
    source="perplexity api-discussion#265; OpenManus#580; smart-composer#305")  # fmt: skip
def roles_do_not_alternate(request: ChatBody) -> Iterator[Violation]:
    after = {"system": ("system", "user"), "assistant": ("user", "tool"), "tool": ("assistant", "tool")}
    before = "system"
    for pointer, message in request.messages():
        role = "system" if message.get("role") == "developer" else text(message, "role")
        if role not in after.get(before, ("assistant",)):
            yield Violation(f"{pointer}/role")
        before = role


@chat("OAC-PPLX-02", "The last message is the user's, and all messages fit into the window.",
    UnverifiedText("Last message must have role `user`."),
    "The total length of all messages is too long.", only=("perplexity",), type="invalid_message",
    remedy="End with a user message; shorten.", as_of="2026",
    recorded="corpus "
    "ruby-llm__chat_real_error_scenarios_perplexity_sonar_handles_context_length_exceeded_errors")  # fmt: skip
def perplexity_end_or_length(request: ChatBody) -> Iterator[Violation]:
    for pointer, message in request.messages()[-1:]:
        if message.get("role") not in ("user", "tool"):
            yield Violation(pointer)
    excess, certain = excess_tokens(request)
    if excess:
        yield Violation("/messages", {"type": "too_many_prompt_tokens"}, 1, certain=certain)


@chat("OAC-COH-01", "All messages fit into the window, and calls have results.",
    "too many tokens: size limit exceeded by {n} tokens. Try using shorter or fewer inputs. The limit for this model "
    "is {max} tokens.",
    UnverifiedText("tool call id not found in the previous messages, or a tool call has no result: {id}"),
    only=("cohere",), type="", remedy="Shorten; answer every call.", as_of="2026",
    recorded="corpus "
    "ruby-llm__chat_real_error_scenarios_cohere_command-a-03-2025_handles_context_length_exceeded_errors; "
    "langchain-oracle#9")  # fmt: skip
def cohere_length_or_pairs(request: ChatBody) -> Iterator[Violation]:
    excess, certain = excess_tokens(request)
    if excess:
        window = request.traits.context_window
        yield Violation("/messages", {"n": excess, "max": window, "code": "TOO_MANY_TOKENS"}, certain=certain)
    for _, ids in request.unanswered_calls():
        yield Violation("/messages", {"id": ids}, 1)
    for _, id in request.stray_results():
        yield Violation("/messages", {"id": id}, 1)


chat("OAC-OLL-01", "tool_choice has no effect.", only=("ollama",), severity="warned", at="/tool_choice",
    when=lambda request: request.tools() and request.setting("tool_choice") not in (None, "auto"),
    remedy="Omit it; to prevent calls, omit the tools.", as_of="2026-08", source="ollama#17921")  # fmt: skip

chat("OAC-OLL-02",
    "Fields of other servers are accepted and have no effect, such as reasoning next to reasoning_content.",
    only=LOCAL_HOSTS, severity="warned", each=lambda request: request.messages("assistant"),
    when=lambda item: {"reasoning", "reasoning_content"} <= item[1].keys(),
    remedy="None is needed: no such server refuses it.", as_of="2026",
    recorded="corpus ruby-llm__* (ollama, ollama-cloud)")  # fmt: skip


@chat("OAC-ZAI-01", "There is a user message; no message is empty; calls have results and different ids.",
    "The messages parameter is illegal. Please check the documentation.", only=("zai",), type="", code="1214",
    remedy="Have a user message and answered calls; the text names no place.", as_of="2026-09",
    source="continue#13260; opencode#2557; lobehub#11408")  # fmt: skip
def zai_illegal_messages(request: ChatBody) -> Iterator[Violation]:
    messages = [message for _, message in request.messages()]
    ids = [text(call, "id") for _, call in request.tool_calls()]
    empty = {text(message, "role") for message in messages if is_empty(message)}
    unpaired = request.unanswered_calls() or request.stray_results()
    has_user = any(message.get("role") == "user" for message in messages)
    if not has_user or unpaired or len(ids) != len(set(ids)) or empty & {"user", "assistant"}:
        yield Violation("/messages")
    elif "system" in empty:
        yield Violation("/messages", certain=False)


@chat("OAC-ZAI-02", "Reasoning is sent back within a tool loop, and with clear_thinking off in every turn.",
    only=("zai",), severity="lost", remedy="Send it back.", as_of="2026",
    recorded="protocols C.5; corpus pydantic-ai__zai.zai_preserved_thinking_round_trip-02")  # fmt: skip
def zai_reasoning_missing(request: ChatBody) -> Iterator[Violation]:
    thinking = request.setting("thinking")
    keeps = isinstance(thinking, dict) and thinking.get("clear_thinking") is False
    messages = request.messages("assistant") if keeps else request.current_turn()
    if not request.tokens.is_known or request.requested_thinking is False:
        return
    for pointer, message in messages:
        wanted = keeps or any(calls_of(pointer, message))
        if wanted and not message.get("reasoning_content") and request.had_reasoning(message):
            yield Violation(f"{pointer}/reasoning_content")


alibaba("OAC-ALI-01", "Open Qwen models think in streamed replies only.",
    "parameter.enable_thinking must be set to false for non-streaming calls",
    applies=lambda request: request.traits.streamed_thinking_only, at="/stream",
    when=lambda request: request.setting("stream") is not True and request.thinks(),
    remedy="Stream, or set enable_thinking to false.", as_of="2026-02",
    source="langchain4j#3974; ragflow#8972; claude-code-router#948")  # fmt: skip

alibaba("OAC-ALI-02", "A model that thinks cannot be forced to call a tool.",
    "<400> InternalError.Algo.InvalidParameter: The tool_choice parameter does not support being set to required or "
    "object in thinking mode", remedy="Omit tool_choice.", as_of="2026-07",
    source="eino#994; qwen-code#7659")(forced_tool_while_thinking)  # fmt: skip

alibaba("OAC-ALI-03", "Calls and results match.",
    '<400> InternalError.Algo.InvalidParameter: An assistant message with "tool_calls" must be followed by tool '
    'messages responding to each "tool_call_id". The following tool_call_ids did not have response messages: {ids}',
    '<400> InternalError.Algo.InvalidParameter: messages with role "tool" must be a response to a preceeding message '
    'with "tool_calls".',
    each=lambda request: [*request.unanswered_calls(), *((pointer, "") for pointer, _ in request.stray_results())],
    fields=lambda item: {"ids": item[1]}, message=lambda item: not item[1], remedy="Answer every call.",
    as_of="2026-03", source="qwen-code#606,#2360")  # fmt: skip


chat("OAC-MM-01", "The reasoning of a message with tool calls is sent back, as tags or reasoning_details.",
    only=("minimax",), severity="lost",
    each=lambda request: [(pointer, message) for pointer, message in request.callers() if request.tokens.is_known
    and not any(map(message.get, REASONING_FIELDS)) and request.had_reasoning(message)],
    at="/content", when=lambda item: "<think>" not in message_text(item[1]),
    remedy="Send the message back as it was received, with the parts that are not shown.", as_of="2026-07",
    source="protocols C.5; hermes#85251; kimchi#132")  # fmt: skip
