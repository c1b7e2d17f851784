"""Rules of a Messages request as a whole: shape, keys, model, settings, caching, tools, compaction."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any

from tenuto.rules.anthropic_body import (
    SERVER_CALLS,
    BodyBlock,
    MessagesBody,
    anthropic,
    claude,
    count_characters,
    is_server_result,
    tool_changes_digest,
    trigger_of,
)
from tenuto.rules.body import Fields, Violation, objects, text
from tenuto.rules.book import UnverifiedText
from tenuto.rules.issued_tokens import IssuedToken, has_content
from tenuto.rules.schemas import LISTED, NAMED, subschemas, types_of, walk_schema
from tenuto.rules.shapes import shapes, wrong_values

_MIN_TRIGGER = 50_000
_MAX_BYTES = 32 * 1024 * 1024
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_SAMPLING = ("temperature", "top_p", "top_k")
_KEYS = frozenset((
    "model", "messages", "max_tokens", "system", "thinking", "output_config", "tools", "tool_choice", "cache_control",
    "metadata", "stop_sequences", "stream", "service_tier", "speed", "inference_geo", "container", "diagnostics",
    "temperature", "top_p", "top_k", "anthropic_version", "anthropic_beta",
))  # fmt: skip
_BETA_KEYS: dict[str, tuple[str, ...]] = {
    "billing_policy": ("user-profiles-",),
    "compaction": ("compact-2026-09-",),
    "context_management": ("context-management-", "compact-"),
    "fallback_credit_token": ("server-side-fallback-", "fallback-credit-"),
    "fallbacks": ("server-side-fallback-",),
    "mcp_servers": ("mcp-client-",),
    "output_format": ("structured-outputs-",),
    "thread": ("message-threads-",),
    "thinking/block_binding": ("thinking-binding-controls-",),
    "thinking/display/updates": ("thinking-display-updates-",),
    "output_config/task_budget": ("task-budget",),
}
"""Keys that exist with a beta, and the starts of its names; one of them is enough."""
_UNCERTAIN_KEYS = ("billing_policy", "output_config/task_budget")

_REQUIRED, _WRONG_TYPE, _WRONG_SHAPE, _NO_MESSAGES, _UNKNOWN_TAG, _WRONG_ROLE, _OTHER = range(7)
_TYPE_NAMES = {"s": "string", "i": "integer", "n": "number", "b": "boolean"}
_ROLES = ("user", "assistant", "system")
_HOMES = dict.fromkeys((*SERVER_CALLS, "tool_use", "thinking", "redacted_thinking"), "assistant") | {
    "tool_result": "user"
}
"""Block types that only one role may have."""
_TAGS = {
    "thinking": ("adaptive", "enabled", "disabled", "between_tools"),
    "tool_choice": ("auto", "any", "tool", "none"),
    "compaction": ("summarize",),
}
_SHAPES = shapes({
    "Request": (
        "model messages!:Message* system:s|System* tools:Tool* thinking:Thinking tool_choice:Choice "
        "output_config:OutputConfig compaction:Compaction thread:Thread metadata:o cache_control:o context_management:o "
        "stop_sequences:s* mcp_servers:a* max_tokens:i temperature:n top_p:n top_k:i stream:b"
    ),
    "Thinking": "type! block_binding:o",
    "Thinking.enabled": "budget_tokens!:i block_binding:o",
    "Choice Compaction Block": "type!",
    "Choice.tool": "name!",
    "OutputConfig": "effort",
    "Thread System": "",
    "Thread.continue": "previous_message_id!",
    "System.text Block.text": "text!",
    "Tool=custom": "type name",
    "Tool.custom": "name! input_schema!:o",
    "Message": "role! content!:s|Block*",
    "Block.image Block.document": "source!:o",
    "Block.tool_use Block.server_tool_use Block.mcp_tool_use": "id! name!",
    "Block.tool_result": "tool_use_id! content:s|Block*",
})  # fmt: skip


@anthropic("ANT-SHAPE", "The body has the fields and JSON types of a Messages request.",
    "{path}: Field required",
    "{path}: Input should be a valid {type}",
    "{path}: Input does not match the expected shape.",
    "messages: at least one message is required",
    "{path}: Input tag '{tag}' found using 'type' does not match any of the expected tags: {tags}",
    "messages.{i}: `{type}` blocks can only be in `{role}` messages",
    UnverifiedText("{message}"), final=True,
    remedy="Send the fields and types that the documentation of the Messages API names.", as_of="2026-11",
    documented="recorded: ddtrace__anthropic.anthropic_completion_error; documentation; SDK types")  # fmt: skip
def wrong_shape(request: MessagesBody) -> Iterator[Violation]:
    request.exercised.add("ANT-SHAPE")
    if "anthropic_version" not in request.body and request.body.get("model") is None:  # clouds have it in the path
        yield Violation("/model", {"path": "model"}, _REQUIRED)
    for wrong in wrong_values(request.body, "Request", _SHAPES):
        if wrong.is_missing:
            yield Violation(wrong.pointer, {"path": wrong.path}, _REQUIRED)
        else:
            kind = wrong.kinds[-1]
            type = "list" if kind[-1] == "*" else _TYPE_NAMES.get(kind, "dictionary")
            shape = _WRONG_SHAPE if kind == "Message" else _WRONG_TYPE
            yield Violation(wrong.pointer, {"path": wrong.path, "type": type}, shape)
    yield from _wrong_settings(request)
    if request.body.get("messages") == []:
        yield Violation("/messages", message=_NO_MESSAGES)
    results = set(filter(is_server_result, request.types()))
    homes = _HOMES | dict.fromkeys(results, "assistant")
    for message in request.messages:
        if message.role and message.role not in _ROLES:
            place = f"messages.{message.i}.role"
            yield _other(place, f"{place}: Input should be 'user', 'assistant' or 'system'")
        for block in message.blocks:
            home = homes.get(block.type)
            if home is not None and home != message.role:
                yield Violation(f"/messages/{message.i}", {"type": block.type, "role": home}, _WRONG_ROLE)
            if block.type in results and not isinstance(block.raw.get("tool_use_id"), str):
                path = f"messages.{block.i}.content.{block.j}.{block.type}.tool_use_id"
                yield Violation(f"{block.pointer}/tool_use_id", {"path": path}, _REQUIRED)


def _wrong_settings(request: MessagesBody) -> Iterator[Violation]:
    limit = request.body.get("max_tokens")
    if isinstance(limit, int) and limit < 0:
        yield _other("max_tokens", "max_tokens: Input should be greater than or equal to 0")
    for name, tags in _TAGS.items():
        tag = text(request.object(name), "type")
        if tag and tag not in tags:
            known = ", ".join(f"'{known}'" for known in tags)
            yield Violation(f"/{name}", {"path": name, "tag": tag, "tags": known}, _UNKNOWN_TAG)
    for pointer, block in objects(request.body.get("system"), "/system"):
        if block.get("type") != "text":
            place = f"{pointer[1:].replace('/', '.')}.type"
            yield _other(place, f"{place}: Input should be 'text'")
    if request.context.method == "count_tokens":
        for pointer, tool in request.tools():
            if text(tool, "type").startswith(("web_search", "web_fetch", "code_execution")):
                place = pointer[1:].replace("/", ".")
                yield _other(place, f"{place}: Server tools are not supported in the count_tokens endpoint.")
        if request.body.get("mcp_servers"):
            yield _other("mcp_servers", "mcp_servers: MCP servers are not supported in the count_tokens endpoint.")


def _other(path: str, message: str) -> Violation:
    return Violation(f"/{path.replace('.', '/')}", {"message": message}, _OTHER)


@anthropic("ANT-MSG-12", "A request body has at most 32 MB.",
    UnverifiedText("Request exceeds the maximum size"), status=413, type="request_too_large",
    remedy="Send media as files; count bytes as well as tokens when shortening a conversation.", as_of="2026",
    documented="docs.claude.com/en/api/errors")  # fmt: skip
def body_too_large(request: MessagesBody) -> Iterator[Violation]:
    length = request.headers.get("content-length", "")
    size = int(length) if length.isascii() and length.isdigit() and len(length) < 20 else request.context.size
    request.exercised.add(request.running)
    if (count_characters(request.body) if size is None else size) > _MAX_BYTES:
        yield Violation("/")


@claude("ANT-PARAM-13", "A field exists, and the beta that it needs is in the `anthropic-beta` header.",
    UnverifiedText("{path}: Extra inputs are not permitted"),
    remedy="Name the betas that the fields need, all in one header.", as_of="2026-11",
    inferred="SDK types; documentation of structured outputs")  # fmt: skip
def unknown_field(request: MessagesBody) -> Iterator[Violation]:
    for key in _paths(request):
        needed = _BETA_KEYS.get(key)
        if needed is None and "/" not in key and key not in _KEYS:
            yield Violation(f"/{key}", {"path": key})
        elif needed is not None and not request.has_beta(*needed):
            certain = request.context.headers_known and key not in _UNCERTAIN_KEYS
            yield Violation(f"/{key}", {"path": key.replace("/", ".")}, certain=certain)


def _paths(request: MessagesBody) -> Iterator[str]:
    request.exercised.add(request.running)
    for key, value in request.body.items():
        yield key
        if key in ("thinking", "output_config") and isinstance(value, dict):
            yield from (f"{key}/{inner}" for inner, setting in value.items() if setting is not None)
    if request.object("thinking").get("display") == "updates":
        yield "thinking/display/updates"


anthropic("ANT-PARAM-12", "`max_tokens` is required.",
    "max_tokens: Field required", at="/max_tokens",
    when=lambda request: request.context.method != "count_tokens" and request.setting("max_tokens") is None,
    remedy="Always send it; 0 only fills the cache.", as_of="2026-11",
    source="SDK types; error texts quoted by clients")  # fmt: skip

anthropic("ANT-PARAM-15", "The model name fits the provider's naming pattern.",
    "model: {model}", applies=lambda request: bool(request.context.row.model_names), status=404, type="not_found_error",
    at="/model", when=lambda request: request.is_well_named is False,
    remedy="Look up the name with the models endpoint.", as_of="2026",
    recorded="recorded: braintrust__anthropic_client_error")  # fmt: skip
anthropic("ANT-PARAM-19", "The catalog knows the model, and does not only guess what it accepts.",
    applies=lambda request: bool(request.context.row.model_names), severity="warned", at="/model",
    when=lambda request: request.is_well_named and (not request.traits.known or request.traits.confidence == "low"),
    remedy="Check the name with the models endpoint: a retired or future model is not in the catalog.", as_of="2026-11",
    inferred="catalog")  # fmt: skip
anthropic("ANT-PARAM-16", "Models that store data for 30 days refuse organizations with zero data retention.",
    unchecked="the agreement of an organization on data retention is not in a request", remedy="Use another model.",
    as_of="2026-09", documented="apidog/dev.to Fable 5.1 migration")  # fmt: skip

claude("ANT-PARAM-18", "`temperature` and `top_p` are between 0 and 1.",
    "{name}: range: 0..1", each=lambda request: request.settings("temperature", "top_p"),
    when=lambda item: not 0 <= item[1] <= 1, fields=lambda item: {"name": item[0][1:]},
    certain=lambda item: item[0] == "/temperature", remedy="Scale the temperature of other providers down to 1.",
    as_of="2026-10",
    source="error texts quoted by clients; anthropic-sdk-python#893; vercel/ai#10308; odysseus#1644")  # fmt: skip
claude("ANT-PARAM-01", "Some models refuse sampling parameters.",
    "`{name}` is deprecated for this model.", applies=lambda request: request.traits.sampling == "rejected",
    each=lambda request: request.settings(*_SAMPLING), fields=lambda item: {"name": item[0][1:]},
    remedy="Omit temperature, top_p and top_k for this model.", as_of="2026-09",
    source="pr-agent#2456; inspect_ai#3721; ccgate#113; accepted on 4.1-4.6 in 17 recorded requests")  # fmt: skip
claude("ANT-PARAM-02", "Some models refuse `temperature` and `top_p` together.",
    "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
    applies=lambda request: {"temperature", "top_p"} <= set(request.traits.exclusive), at="/top_p",
    when=lambda request: len(request.settings("temperature", "top_p")) == 2, remedy="Send the temperature alone.",
    as_of="2026-01", source="MCP-Universe#49; bedrock-chat#979")  # fmt: skip

_USE_ADAPTIVE = 'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'


def _is_adaptive(request: MessagesBody) -> bool:
    return "adaptive" in request.traits.thinking or "always" in request.traits.thinking


claude("ANT-PARAM-04", "Models since Opus 4.7 refuse a thinking budget.",
    f'"thinking.type.enabled" is not supported for this model. {_USE_ADAPTIVE}', applies=_is_adaptive,
    at="/thinking/type", when=lambda request: request.mode == "enabled" and "budget" not in request.traits.thinking,
    remedy="Request adaptive thinking and set the effort.", as_of="2026-09", documented="Operit#568")  # fmt: skip
claude("ANT-PARAM-05", "Some models always think.",
    f'"thinking.type.disabled" is not supported for this model. {_USE_ADAPTIVE}', applies=_is_adaptive,
    at="/thinking/type", when=lambda request: request.mode == "disabled" and "disabled" not in request.traits.thinking,
    remedy="Omit the setting; use between_tools on Sonnet 5.5, a lower effort on other models.", as_of="2026-09",
    documented="platform docs whats-new-opus-5-5")  # fmt: skip


@claude("ANT-PARAM-06", "With thinking turned off, some models refuse an effort above high.",
    UnverifiedText('"thinking.type.{mode}" with this effort is not supported for this model.'),
    applies=lambda request: request.traits.effort_when_off in _EFFORTS,
    remedy="Request at most the effort high, or do not turn thinking off.", as_of="2026-08",
    documented="openwebui pipe PR#45")  # fmt: skip
def effort_without_thinking(request: MessagesBody) -> Iterator[Violation]:
    mode, effort = request.mode, request.effort
    is_off = mode in ("disabled", "between_tools") and mode in request.traits.thinking
    if is_off and effort in _EFFORTS[_EFFORTS.index(request.traits.effort_when_off) + 1 :]:
        yield Violation("/thinking/type", {"mode": mode})


@claude("ANT-PARAM-07", "The model has the requested thinking mode.",
    "adaptive thinking is not supported on this model",
    UnverifiedText('"thinking.type.{mode}" is not supported for this model.'),
    applies=lambda request: bool(request.traits.thinking), remedy="Use a budget on models up to 4.5.", as_of="2026-09",
    source="capability tables and error texts quoted by clients")  # fmt: skip
def thinking_mode_unknown(request: MessagesBody) -> Iterator[Violation]:
    modes, mode = request.traits.thinking, request.mode
    missing = {
        "adaptive": not _is_adaptive(request),
        "between_tools": "between_tools" not in modes,
        "enabled": "none" in modes,
    }
    if missing.get(mode):
        yield Violation("/thinking/type", {"mode": mode}, int(mode != "adaptive"))


claude("ANT-PARAM-08", "A thinking budget has at least 1024 tokens.",
    "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024", at="/thinking/budget_tokens",
    when=lambda request: request.mode == "enabled" and request.object("thinking")["budget_tokens"] < 1024,
    remedy="Set it to 1024.", as_of="2026-08", documented="llm.js#30; documentation")  # fmt: skip


@claude("ANT-PARAM-09", "Without interleaved thinking, a budget is smaller than `max_tokens`.",
    "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at "
    "https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size",
    remedy="Set max_tokens larger than the budget.", as_of="2026-06",
    source="vercel/ai#4980; attune-ai#730")  # fmt: skip
def budget_exceeds_max_tokens(request: MessagesBody) -> Iterator[Violation]:
    limit = request.setting("max_tokens")
    if request.budget is None or limit is None or request.has_beta("interleaved-thinking-"):
        return
    if limit <= request.budget:
        yield Violation("/max_tokens", certain=request.context.headers_known or not request.traits.interleaved_beta)


claude("ANT-PARAM-03", "With a thinking budget, the temperature is 1.",
    "`temperature` may only be set to 1 when thinking is enabled. Please consult our documentation at "
    "https://docs.claude.com/en/docs/build-with-claude/extended-thinking#important-considerations-when-using-extended-thinking",
    at="/temperature",
    when=lambda request: request.budget is not None and request.setting("temperature") not in (None, 1),
    remedy="Omit the temperature.", as_of="2026-03", source="one-hub#529; chatwise#1348")  # fmt: skip
claude("ANT-PARAM-10", "With a thinking budget, a tool call cannot be forced.",
    "Thinking may not be enabled when tool_choice forces tool use.", at="/tool_choice",
    when=lambda request: request.budget is not None and request.choice in ("any", "tool"),
    remedy="Use tool_choice auto, or turn thinking off for this request.", as_of="2026-03",
    source="mastra#7507; langchain#35544; oh-my-pi#341")  # fmt: skip
claude("ANT-PARAM-11", "Some models refuse to be forced to call a tool.",
    'tool_choice: type "tool" and "any" are not supported for this model.',
    applies=lambda request: request.traits.forced_tool_choice == "rejected", at="/tool_choice/type",
    when=lambda request: request.choice in ("any", "tool"),
    remedy="Ask for the call in the prompt, or use structured output.", as_of="2026-09",
    source="claude-cookbooks#854; FACT#5; litellm#39151; celeste#393; langchain-aws#1141")  # fmt: skip
claude("ANT-PARAM-14", "The model has the requested effort.",
    "This model does not support effort level '{effort}'. Supported levels: {levels}.",
    "This model does not support the effort parameter.", applies=lambda request: request.traits.efforts is not None,
    at="/output_config/effort", when=lambda request: request.effort and request.effort not in request.traits.efforts,
    fields=lambda request: {"effort": request.effort, "levels": ", ".join(sorted(request.traits.efforts))},
    message=lambda request: not request.traits.efforts,
    remedy="Use an effort of the model's list; the models endpoint has it.", as_of="2026-08",
    source="error texts quoted by clients, live 2026-07 and 2026-08")  # fmt: skip
anthropic("ANT-PARAM-17", "The model has the fast speed.",
    UnverifiedText("speed: 'fast' is not supported for this model."),
    applies=lambda request: not request.traits.fast_speed, certain=False, at="/speed",
    when=lambda request: request.setting("speed") == "fast", remedy="Omit it.", as_of="2026-08",
    source="openwebui pipe PR#45")  # fmt: skip


@anthropic("ANT-SRV-07", "A thread has no cache_control, context management or fallbacks.",
    UnverifiedText("thread: cannot be used together with {name}"), code="thread_unsupported_request",
    remedy="Omit these settings in a thread; continue each response once.", as_of="2026-11",
    documented="SDK types")  # fmt: skip
def thread_with_other_settings(request: MessagesBody) -> Iterator[Violation]:
    if request.setting("thread") is None:
        return
    names = [name for name in ("cache_control", "context_management", "fallbacks") if request.setting(name) is not None]
    if not names and request.cache_marks():
        names = ["cache_control"]
    if names:
        details = {"error_code": "thread_unsupported_request", "unsupported": names}
        yield Violation("/thread", {"name": names[0], "details": details})


@anthropic("ANT-SRV-08", "A thread continues a response that the provider stored.",
    UnverifiedText("thread: no thread was found for `previous_message_id`; send the whole conversation to start a new "
    "one"), status=404, code="thread_not_found", remedy="Send the whole conversation.", as_of="2026-11",
    documented="SDK types")  # fmt: skip
def thread_not_found(request: MessagesBody) -> Iterator[Violation]:
    thread, stored = request.object("thread"), request.context.stored
    if thread.get("type") == "continue" and (stored is None or stored(thread["previous_message_id"]) is None):
        yield Violation("/thread/previous_message_id", certain=stored is not None)


claude("ANT-CACHE-01", "A request has at most four `cache_control` objects, the automatic one included.",
    "A maximum of 4 blocks with cache_control may be provided. Found {n}.", at="/",
    when=lambda request: len(request.cache_marks()) > 4, fields=lambda request: {"n": len(request.cache_marks())},
    remedy="Remove the first ones.", as_of="2026-01", source="sub2api#176; documentation")  # fmt: skip


@claude("ANT-CACHE-02", "A cache_control of one hour does not follow one of five minutes.",
    "{path}.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that blocks "
    "are processed in the following order: tools, system, messages.", remedy="Use one lifetime in a request.",
    as_of="2026-08", source="headroom#2939; vellum#22191")  # fmt: skip
def long_cache_after_short(request: MessagesBody) -> Iterator[Violation]:
    short = False
    for pointer, mark in request.cache_marks():
        if mark.get("ttl") != "1h":
            short = True
        elif short:
            yield Violation(f"{pointer}/ttl", {"path": pointer[1:].replace("/", ".")})


claude("ANT-CACHE-04", "A cache diagnosis compares with the id of an earlier message, or with null.",
    "diagnostics.previous_message_id: must be the `id` from a prior /v1/messages response (starts with `msg_`)",
    at="/previous_message_id", each=lambda request: [("/diagnostics", request.object("diagnostics"))],
    when=lambda item: not str(item[1].get("previous_message_id") or "msg_").startswith("msg_"),
    remedy="Send the id of the last reply of this API, or null.", as_of="2026-09",
    source="ccswitch, docs/troubleshooting; anthropic-auth#157")  # fmt: skip

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_COMBINED = ("oneOf", "allOf", "anyOf")
_SCHEMA_TYPES = frozenset(("object", "array", "string", "number", "integer", "boolean", "null"))
_NUMBER_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_LIMITS: dict[str, tuple[str, ...]] = {
    "array": ("maxItems", "uniqueItems", "contains", "minContains", "maxContains"),
    "string": ("minLength", "maxLength"), "object": ("minProperties", "maxProperties"),
    "number": _NUMBER_LIMITS, "integer": _NUMBER_LIMITS,
}  # fmt: skip
"""Keywords that a strict schema cannot have, by type."""
_MAX_STRICT_TOOLS, _MAX_OPTIONAL, _MAX_UNIONS = 20, 24, 16

anthropic("ANT-TOOL-07", "A tool name has 1 to 128 letters, digits, underscores and hyphens.",
    "tools.{i}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    "tools.{i}.custom.name: String should have at most 128 characters", each=lambda request: request.custom_tools(),
    at="/name", when=lambda item: not _TOOL_NAME.fullmatch(item[1]["name"]),
    message=lambda item: len(item[1]["name"]) > 128, remedy="Map tool names for this target, and back.",
    as_of="2026-09", source="claude-code#96152; documentation")  # fmt: skip


@anthropic("ANT-TOOL-08", "Tool names are unique.",
    "tools: Tool names must be unique.", remedy="Define each tool once.", as_of="2025-06",
    source="forgecode#892; documentation")  # fmt: skip
def tool_name_repeated(request: MessagesBody) -> Iterator[Violation]:
    names: set[str] = set()
    for pointer, tool in request.tools():
        name = text(tool, "name")
        if name and name in names:
            yield Violation(f"{pointer}/name")
        names.add(name)


anthropic("ANT-TOOL-09", "A tool schema has no oneOf, allOf or anyOf at the top level.",
    "tools.{i}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
    each=lambda request: request.custom_tools(), at="/input_schema",
    when=lambda item: not item[1]["input_schema"].keys().isdisjoint(_COMBINED),
    remedy="Use one object with optional properties.", as_of="2026-08",
    source="claude-code#40075; cantinarr#497; mempalace#1711")  # fmt: skip


@anthropic("ANT-TOOL-10", "A tool schema is a valid JSON Schema of an object.",
    "tools.{i}.custom.input_schema.type: Field required",
    "tools.{i}.custom.input_schema.type: Input should be 'object'",
    UnverifiedText("tools.{i}.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"),
    remedy="Set the type to object and correct the schema.", as_of="2026-11",
    source="SDK types; error texts quoted by clients")  # fmt: skip
def schema_invalid(request: MessagesBody) -> Iterator[Violation]:
    for pointer, tool in request.custom_tools():
        schema = tool["input_schema"]
        if "type" not in schema:
            if not any(keyword in schema for keyword in _COMBINED):
                yield Violation(f"{pointer}/input_schema")
        elif schema["type"] != "object":
            yield Violation(f"{pointer}/input_schema", message=1)
        elif not _is_sound(schema):
            yield Violation(f"{pointer}/input_schema", message=2)
        elif not all(_is_sound(part) for _, part in walk_schema(schema, "")):
            yield Violation(f"{pointer}/input_schema", message=2, certain=False)


def _is_sound(schema: Fields) -> bool:
    """Tell whether the keywords of one schema have the right types."""
    types, required = schema.get("type", []), schema.get("required", [])
    return (
        len(types_of(schema)) == (len(types) if isinstance(types, list) else 1)
        and _SCHEMA_TYPES.issuperset(types_of(schema))
        and isinstance(required, list)
        and all(isinstance(name, str) for name in required)
        and all(isinstance(schema.get(name, {}), dict) for name in NAMED)
        and all(isinstance(schema.get(name, []), list) for name in (*LISTED, "enum"))
        and all(isinstance(part, dict | bool) for _, part in subschemas(schema, ""))
        and isinstance(schema.get("description", ""), str)
    )


@claude("ANT-TOOL-11", "Strict schemas have no limits on lengths, numbers or items that cannot be enforced.",
    "{path}: For '{type}' type, property '{keyword}' is not supported",
    "{path}: For '{type}' type, properties {keyword} are not supported", remedy="Remove the limit, or `strict`.",
    as_of="2026-09",
    source="experiential#804 (live 2026-09-05); vercel/ai#17268; GoModel#963; documentation")  # fmt: skip
def strict_schema_limit(request: MessagesBody) -> Iterator[Violation]:
    for pointer, path, schema in request.strict_schemas():
        for _, part in walk_schema(schema, pointer):
            for type in types_of(part):
                limits = [keyword for keyword in _LIMITS.get(type, ()) if keyword in part]
                if type == "array" and part.get("minItems", 0) not in (0, 1):
                    limits.append("minItems")
                if limits:
                    fields: dict[str, object] = {"path": path, "type": type, "keyword": ", ".join(sorted(limits))}
                    yield Violation(pointer, fields, int(len(limits) > 1), certain=type != "object")


@claude("ANT-TOOL-19", "Every object of a strict schema has `additionalProperties: false`.",
    "{path}: For 'object' type, 'additionalProperties' must be explicitly set to false",
    "{path}: For 'object' type, 'additionalProperties: {value}' is not supported. Please set 'additionalProperties' to "
    "false", remedy="Set additionalProperties to false in every object of the schema.", as_of="2026-09",
    source="vercel/ai#20681; veryfront-code#3918; litellm#35808; ax#458; documentation")  # fmt: skip
def strict_schema_open(request: MessagesBody) -> Iterator[Violation]:
    for pointer, path, schema in request.strict_schemas():
        for place, part in walk_schema(schema, pointer):
            value = part.get("additionalProperties")
            if "object" in types_of(part) and value is not False:
                written = "object" if isinstance(value, dict) else str(value).lower()
                yield Violation(place, {"path": path, "value": written}, int(value is not None))


@claude("ANT-TOOL-20", "The strict schemas of a request have at most 20 tools, 24 optional and 16 union parameters.",
    "Too many strict tools ({n}). The maximum number of strict tools supported is 20",
    "Schemas contains too many optional parameters ({n}), which would make grammar compilation inefficient. Reduce the "
    "number of optional parameters in your tool schemas (limit: 24).",
    "Schemas contains too many parameters with union types ({n} parameters with type arrays or anyOf). This causes "
    "exponential compilation cost. Reduce the number of nullable or union-typed parameters (limit: 16 parameters with "
    "unions).", remedy="Remove `strict` from some tools, or make parameters required.", as_of="2026-09",
    source="camel#4171; datarobot-genai#547; inbox-zero#2662; eliza#16499; vercel/ai#17268")  # fmt: skip
def strict_schemas_too_complex(request: MessagesBody) -> Iterator[Violation]:
    strict = request.strict_schemas()
    tools = sum(pointer.startswith("/tools/") for pointer, _, _ in strict)
    parts = [part for pointer, _, schema in strict for _, part in walk_schema(schema, pointer)]
    optional = sum(len(part["properties"].keys() - _strings(part.get("required"))) for part in _objects(parts))
    values = [value for part in _objects(parts) for value in part["properties"].values() if isinstance(value, dict)]
    unions = sum(isinstance(value.get("type"), list) or "anyOf" in value for value in values)
    for index, (count, limit) in enumerate(
        ((tools, _MAX_STRICT_TOOLS), (optional, _MAX_OPTIONAL), (unions, _MAX_UNIONS))
    ):
        if count > limit:
            yield Violation("/tools" if tools else strict[0][0], {"n": count}, index)


def _objects(parts: Iterable[Fields]) -> Iterator[Fields]:
    return (part for part in parts if isinstance(part.get("properties"), dict))


def _strings(value: Any) -> set[str]:
    return {item for item in value if isinstance(item, str)} if isinstance(value, list) else set()


@claude("ANT-TOOL-21", "Strict schemas are neither recursive nor boolean.",
    "Circular reference detected in schema definitions: {names}. Self-referencing or mutually-referencing definitions "
    "are not supported.",
    UnverifiedText("{path}: Boolean schemas are not supported"),
    remedy="Remove `strict`, or unfold the recursion to a fixed depth.", as_of="2026-07",
    source="agency-lang#487 (live 2026-07-09); GoModel#963; langchain4j#5097; documentation")  # fmt: skip
def strict_schema_recursive(request: MessagesBody) -> Iterator[Violation]:
    for pointer, path, schema in request.strict_schemas():
        cycle = _find_cycle(schema)
        if cycle:
            yield Violation(pointer, {"names": " -> ".join(cycle)})
        for place, part in walk_schema(schema, pointer):
            for below, value in subschemas(part, place):
                if isinstance(value, bool) and not below.endswith("/additionalProperties"):
                    yield Violation(below, {"path": path}, 1)


def _find_cycle(schema: Fields) -> list[str]:
    """Return the names of definitions that refer to each other in a circle; empty without one."""
    references = TopologicalSorter[str]()
    references.add("#", *({text(part, "$ref") for _, part in walk_schema(schema, "")} & {"#"}))
    for keyword in ("$defs", "definitions"):
        group = schema.get(keyword)
        for name, value in group.items() if isinstance(group, dict) else ():
            references.add(f"#/{keyword}/{name}", *{text(part, "$ref") for _, part in walk_schema(value, "")} - {""})
    try:
        references.prepare()
    except CycleError as error:
        return [name.rpartition("/")[2] for name in reversed(error.args[1])]
    return []


@anthropic("ANT-TOOL-15", "A forced or referenced tool is defined.",
    "Tool '{name}' not found in provided tools", remedy="Check names before sending.", as_of="2026-11",
    source="error texts quoted by clients")  # fmt: skip
def tool_not_defined(request: MessagesBody) -> Iterator[Violation]:
    additions = [(block, block.raw.get("tool")) for block in request.blocks("tool_addition")]
    tools = [tool for _, tool in request.tools()]
    tools += [tool for _, tool in additions if isinstance(tool, dict) and tool.get("type") != "tool_reference"]
    if any("toolset" in text(tool, "type") for tool in tools) or request.body.get("mcp_servers"):
        return  # there are more tools than are named here
    names = {text(tool, key) for tool in tools for key in ("name", "tool_name")} - {""}
    if request.choice == "tool" and request.object("tool_choice")["name"] not in names:
        yield Violation("/tool_choice/name", {"name": request.object("tool_choice")["name"]})
    for block, tool in additions:
        if not isinstance(tool, dict) or (tool.get("type") == "tool_reference" and _tool_name(tool) not in names):
            yield Violation(block.pointer, {"name": _tool_name(tool)})
    for block in request.blocks("tool_search_tool_result", "tool_result"):
        content = block.raw.get("content")
        references = content.get("tool_references") if isinstance(content, dict) else content
        for _, reference in objects(references, ""):
            if reference.get("type") == "tool_reference" and _tool_name(reference) not in names:
                yield Violation(block.pointer, {"name": _tool_name(reference)})
                break


def _tool_name(reference: Any) -> str:
    return text(reference, "tool_name") or text(reference, "name") if isinstance(reference, dict) else ""


anthropic("ANT-TOOL-16", "A tool that is loaded later has no cache_control.",
    UnverifiedText("tools.{i}: cache_control cannot be set on a tool with defer_loading"),
    each=lambda request: request.tools(), at="/cache_control",
    when=lambda item: item[1].get("defer_loading") is True and item[1].get("cache_control") is not None,
    remedy="Move the cache_control to another tool.", as_of="2026-06", source="reports of clients")  # fmt: skip
anthropic("ANT-TOOL-17", "The model has the type of a server tool.",
    UnverifiedText("tools.{i}.type: '{type}' is not supported for this model."), only=("anthropic", "vertex"),
    applies=lambda request: bool(request.traits.refused_tools),
    each=lambda request: [tool for tool in request.tools() if tool[1].get("type") in request.traits.refused_tools],
    at="/type", fields=lambda item: {"type": item[1]["type"]},
    remedy="Use the toolset of August 2026 instead of the computer tool of November 2025.", as_of="2026-09",
    documented="platform docs whats-new-opus-5-5")  # fmt: skip
claude("ANT-TOOL-14", "A conversation with calls or results defines tools.",
    "Requests which include `tool_use` or `tool_result` blocks must define tools", severity="warned", at="/tools",
    when=lambda request: request.blocks("tool_use", "tool_result") and not request.body.get("tools"),
    remedy="Define the tools and use tool_choice none. Without tools the request is accepted, with worse answers.",
    as_of="2026-07", source="vercel/ai#16991 (live sonnet-4-6: 200); pi#149")  # fmt: skip

anthropic("ANT-SRV-11", "Models before 4.6 do not summarize a conversation on request.",
    UnverifiedText("compaction: not supported by this model"), applies=lambda request: not request.traits.compaction,
    certain=False, at="/compaction", when=lambda request: request.is_summary_request,
    remedy="Ask the model for a summary in an ordinary request.", as_of="2026-11",
    documented="Anthropic docs on compaction, in excerpts")  # fmt: skip


@anthropic("ANT-SRV-09", "A compaction request has content, ends with a complete turn, and has no context management.",
    UnverifiedText("messages: the conversation cannot be summarized"),
    UnverifiedText("compaction: cannot be combined with `context_management`"), code="{code}",
    remedy="Compact the messages of a request that was accepted, without `context_management`.", as_of="2026-11",
    documented="SDK types")  # fmt: skip
def summary_impossible(request: MessagesBody) -> Iterator[Violation]:
    if not request.is_summary_request or request.context.method == "count_tokens":  # which ignores the field
        return
    if request.body.get("context_management") is not None:
        yield Violation("/context_management", {"code": ""}, 1)
    last = request.turns[-1] if request.turns else None
    if last is None and request.summary is None:
        yield Violation("/messages", {"code": "compaction_nothing_to_summarize"})
    if last is not None and last.role == "assistant":
        answered = {block.raw.get("tool_use_id") for block in last.blocks if is_server_result(block.type)}
        calls = [block for block in last.blocks if block.type.endswith("tool_use")]
        for block in [block for block in calls if block.raw.get("id") not in answered][:1]:
            yield Violation(block.pointer, {"code": "compaction_incomplete_turn"})


@anthropic("ANT-SRV-10", "A compaction edit has its beta, and a trigger of at least 50,000 input tokens.",
    UnverifiedText("context_management.edits.{i}: Input tag 'compact_20260112' does not match any of the expected "
    "tags"),
    UnverifiedText("context_management.edits.{i}.trigger.value: Input should be greater than or equal to 50000"),
    remedy="Send the beta `compact-2026-01-12`; leave out the trigger for 150,000 tokens.", as_of="2026-11",
    documented="SDK types")  # fmt: skip
def compaction_edit_invalid(request: MessagesBody) -> Iterator[Violation]:
    if request.compaction_edit is None:
        return
    pointer, edit = request.compaction_edit
    if not request.has_beta("compact-2026-01-"):
        yield Violation(pointer, certain=request.context.headers_known)
    if trigger_of(edit) < _MIN_TRIGGER:
        yield Violation(f"{pointer}/trigger/value", message=1)


@anthropic("ANT-SRV-06", "A compaction block has its beta, is unchanged and, if signed, is the first and only one.",
    UnverifiedText("messages.{i}.content.{j}: Input tag 'compaction' does not match any of the expected tags"),
    UnverifiedText("{code}: messages.{i}.content.{j}"), code="{code}",
    remedy="Send it back unchanged, at the start, with the beta; null content is accepted.", as_of="2026-11",
    documented="SDK types")  # fmt: skip
def compaction_invalid(request: MessagesBody) -> Iterator[Violation]:
    blocks = request.blocks("compaction")
    several = sum(block.raw.get("content") is not None for block in blocks) > 1
    for block in blocks:
        if not request.has_beta("compact-"):
            yield Violation(block.pointer, {"code": ""}, certain=request.context.headers_known)
        if block.raw.get("content") is not None and (code := _broken_code(request, block, several)):
            certain = "signature" in block.raw or not block.raw.get("encrypted_content")
            yield Violation(block.pointer, {"code": code}, 1, certain)


def _broken_code(request: MessagesBody, block: BodyBlock, several: bool) -> str:
    """Return the error code for a block with content; empty if it is valid."""
    signature = text(block.raw, "signature")
    token = signature or text(block.raw, "encrypted_content")
    if not block.raw["content"]:
        return "compaction_content_mismatch"
    if token and request.tokens.is_known and (code := _token_code(request, block, request.tokens.find(token))):
        return code
    if signature or (request.has_beta("compact-2026-09-") and not request.has_beta("compact-2026-01-")):
        is_first = (block.i, block.j) == (0, 0) and request.messages[0].role != "system"
        return "compaction_block_ambiguous" if several else "" if is_first else "compaction_block_misplaced"
    return ""


def _token_code(request: MessagesBody, block: BodyBlock, issued: IssuedToken | None) -> str:
    if issued is None or issued.kind != "compaction" or not issued.is_from_target(request):
        return "compaction_signature_invalid"
    if not has_content(issued, text(block.raw, "content")):
        return "compaction_content_mismatch"
    changes = issued.compacted.tool_changes if issued.compacted else ""
    is_changed = changes and changes != tool_changes_digest(block.raw.get("tool_changes"))
    return "compaction_tool_changes_mismatch" if is_changed else ""
