"""Encode a request as Anthropic Messages."""

from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Block, Document, Image, Marker, Opaque, Reasoning, Refusal, Text, ToolUse
from tenuto.core.jsonio import object_or_empty, raw_object
from tenuto.core.loss import Location
from tenuto.core.media_types import split_data_url
from tenuto.core.messages import AssistantMessage, Content, Message, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.provider import WireRequest
from tenuto.core.request import (
    AUTO_CACHE,
    JsonSchema,
    NamedTool,
    NativeCompaction,
    ServerTool,
    Thinking,
    ToolDefinition,
)
from tenuto.wire.anthropic.blocks import write_block
from tenuto.wire.anthropic.protocol import DIALECT, SERVER_CALLS, SERVER_TOOLS, TOKENS
from tenuto.wire.body_builder import BodyBuilder, TurnList, extra_fields, model_path, set_parameters, with_locations

DEFAULT_MAX_TOKENS = 4096
MIN_BUDGET = 1024
ANSWER_RESERVE = 4096  # tokens left for the answer if a thinking budget would use the whole output limit
BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576, "max": 32768}
"""The thinking budget for each effort, for models that take no effort."""
INTERLEAVED_BETA = "interleaved-thinking-2025-05-14"
_MAX_MARKS = 4
"""The number of cache marks in a request."""
COMPACTION_BETA = "compact-2026-09-04"
"""Summaries on request. They are signed."""
COMPACTION_EDIT_BETA = "compact-2026-01-12"
"""Summaries at the start of a reply."""
MIN_COMPACTION_TRIGGER = 50_000
CACHE_DIAGNOSIS_BETA = "cache-diagnosis-2026-04-07"
_UNSUPPORTED = (
    *("seed", "frequency_penalty", "presence_penalty", "logprobs", "top_logprobs", "logit_bias"),
    *("verbosity", "modalities", "audio", "store"),
)
_WireBlock: TypeAlias = dict[str, Any] | Raw | str
"""A block in the body. A block that a caller made by hand may be any JSON value."""


def encode(builder: BodyBuilder) -> WireRequest:
    request, target, body = builder.request, builder.target, builder.body
    body["model"] = target.model
    writer = _MessageWriter(builder)
    for index, message in enumerate(request.transcript):
        writer.add(message, Location(index))
    if writer.turns.empty_turn is not None:
        writer.turns.fill_empty_turn(writer.turns.empty_turn)
    system = writer.system("Respond with valid JSON only." if request.response_format == "json_object" else "")
    write_options(builder)
    if system is not None:
        body["system"] = system
    body["messages"] = _drop_unfinished_blocks(writer.turns, builder)
    if request.cache is not None and request.cache != "off":
        _mark_end(builder, writer.marks)
    if request.cache_diagnosis:
        _write_cache_diagnosis(builder, request.cache_diagnosis)
    if "thinking" in body:
        _disable_thinking_inside_tool_loop(body["messages"], builder)
    if request.container is not None:
        body["container"] = request.container
    elif writer.last_extra:
        container = object_or_empty(extra_fields(writer.last_extra).get("container"))
        if container and any("type" in tool or "allowed_callers" in tool for tool in body.get("tools", ())):
            # Server tools continue in the container of the last turn.
            builder.set_if_given(container=jsonio.text_of(container.get("id")) or None)
    if version := target.provider.anthropic.raw_predict:
        del body["model"]
        body["anthropic_version"] = version
        verb = "streamRawPredict" if request.stream else "rawPredict"
        return builder.finish(f"{model_path(target.model)}:{verb}")
    if "anthropic-version" not in target.provider.headers:
        builder.headers["anthropic-version"] = "2023-06-01"
    return builder.finish("/messages")


def verbatim(message: AssistantMessage) -> list[Any]:
    """Write the content blocks of a received message as they were received."""
    return [write_block(block) for block in message.blocks]


class _MessageWriter:
    """Write the messages. Adjacent messages of one role share one message, in which tool results come first."""

    def __init__(self, builder: BodyBuilder) -> None:
        self._builder = builder
        self._system: list[tuple[Location, Text]] = []
        self.turns = TurnList(builder, "content", lambda text: {"type": "text", "text": text})
        tools = (tool for tool in builder.request.tools if isinstance(tool, ToolDefinition))
        self.marks = [
            tool.cache for tool in tools if tool.cache
        ]  # the times of the cache marks that the caller has set
        self.last_extra = ""  # the extra fields of the last assistant message

    def add(self, message: Message, location: Location) -> None:
        match message:
            case UserMessage():
                if message.name:
                    place = location.field("name")
                    self._builder.record_loss("unsupported-field", place, message.name, "say it in the text")
                self.turns.append("user", self._write_parts(message.parts, location), location)
            case ToolResults():
                results = self._builder.write_all(with_locations(message.results, location), self._write_result)
                self.turns.append("user", results, location)
            case AssistantMessage():
                self.last_extra = message.extra
                blocks = self._builder.write_all(with_locations(message.blocks, location), self._write_block)
                if not blocks:
                    self._builder.leave_out_if_empty(message, location)
                self.turns.append("assistant", blocks, location)
            case SystemMessage():
                self._add_system(message, location)

    def system(self, instruction: str) -> str | list[_WireBlock] | None:
        """Write the system prompt: a string, or blocks if a part has `cache_control` or extra fields."""
        parts = [*self._system, *([(Location(), Text(instruction))] if instruction else ())]
        cache, first = self._builder.request.cache, [part.text for place, part in self._system if place.message == 0]
        if cache in AUTO_CACHE and any(first) and not self.marks and not any(part.cache for _, part in parts):
            last = max(index for index, text in enumerate(first) if text)
            place, part = parts[last]
            parts[last] = place, msgspec.structs.replace(part, cache=cache)
        if not any(part.cache or part.extra for _, part in parts):
            for location, part in parts:
                if part.text:
                    self._builder.place(location, self._builder.body, "system")
            return "\n\n".join(part.text for _, part in parts if part.text) or None
        return self._builder.write_all(parts, self._write_part) or None

    def _add_system(self, message: SystemMessage, location: Location) -> None:
        messages = self.turns.messages
        if messages:
            if not str(message).strip():
                return  # the provider refuses blank text
            if self._builder.target.traits.system_mid == "native" and messages[-1]["role"] == "user":
                messages.append({"role": "system", "content": str(message)})
                self.turns.locations.append(location)
                self._builder.place_texts(location, message.parts, messages[-1], "content")
                return
            self._builder.record_loss("system-hoisted", location, "instructions in mid-conversation moved to the top")
        self._system += with_locations(message.parts, location)

    def _write_parts(self, parts: tuple[Content, ...], location: Location) -> list[_WireBlock]:
        """Write the parts of a user message or of a tool result."""
        return self._builder.write_all(self._builder.accepted_parts(parts, location), self._write_part)

    def _write_part(self, part: Content, place: Location) -> _WireBlock | None:
        """Write a part; None if it is empty, and with a loss if the dialect does not accept it."""
        block: dict[str, Any]
        match part:
            case Text():
                if not part.text:
                    return None
                block = {"type": "text", "text": part.text}
            case Image() if (source := _source(part, "image/png")) is not None:
                if part.detail:
                    self._builder.record_loss("unsupported-field", place.field("detail"), part.detail)
                block = {"type": "image", "source": source}
            case Document():
                plain_text = {"type": "text", "media_type": "text/plain", "data": part.text}
                block = {"type": "document", "source": _source(part, "application/pdf") or plain_text}
                block |= {name: value for name in ("title", "context") if (value := getattr(part, name))}
                if part.citations:
                    block["citations"] = {"enabled": True}
            case Opaque() if part.dialect == DIALECT:
                return write_block(part)
            case _:
                kind = type(part).__name__.lower()
                self._builder.record_loss("unsupported-content", place, kind, "send it in another form")
                return None
        if part.cache:
            self.marks.append(part.cache)
            block |= _cache_control(part.cache)
        return block | extra_fields(part.extra) if part.extra else block

    def _write_result(self, result: ToolResult, location: Location) -> dict[str, Any]:
        content = result.content if isinstance(result.content, str) else self._write_parts(result.content, location)
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.tool_use_id}
        if content:
            block["content"] = content
        block["is_error"] = result.is_error
        return block | extra_fields(result.extra) if result.extra else block

    def _write_block(self, block: Block, place: Location) -> _WireBlock | None:
        """Write a block of an assistant message; None, with a loss, if the dialect does not accept it."""
        match block:
            case Text():
                if not block.text:
                    return None
                if block.cache:
                    self.marks.append(block.cache)
                    content = write_block(block)
                    assert isinstance(content, dict)
                    return content | _cache_control(block.cache)
            case ToolUse():
                args: Raw | dict[str, str] | None = raw_object(block.args or "{}")
                if args is None:
                    detail = block.args_error or "wrapped for replay"
                    self._builder.record_loss("arguments-not-an-object", place, detail)
                    args = {"INVALID_JSON": block.args}
                call = {"type": "tool_use", "id": block.id, "name": block.name, "input": args}
                return call | extra_fields(block.extra) if block.extra else call
            case Reasoning():
                if not isinstance(block.meta, TOKENS):
                    self._builder.record_loss("unsigned-reasoning", place, "reasoning without a signature is left out")
                    return None
            case Refusal():
                return {"type": "text", "text": block.text} if block.text else None
            case Opaque() if block.dialect != DIALECT:
                self._builder.record_loss("unreadable-block", place, "a block of another dialect or a later version")
                return None
            case Marker(kind="compaction"):
                self._builder.join_header("anthropic-beta", COMPACTION_BETA if block.meta else COMPACTION_EDIT_BETA)
        try:
            return write_block(block)
        except KeyError:
            self._builder.record_loss("unsupported-content", place, f"{type(block).__name__} in an assistant message")
            return None


def _source(part: Image | Document, default: str) -> dict[str, Any] | None:
    """Write where the bytes of a part come from. `default` is the media type if the part names none."""
    if part.data:
        return {"type": "base64", "media_type": part.mime or default, "data": part.data}
    if url := split_data_url(part.url):
        return {"type": "base64", "media_type": url[0] or default, "data": url[1]}
    if part.url:
        return {"type": "url", "url": part.url}
    if part.file_id:
        return {"type": "file", "file_id": part.file_id}
    return None


def write_options(builder: BodyBuilder) -> None:
    """Write all parameters. A parameter that this dialect does not have is a `Loss`."""
    request, traits, body = builder.request, builder.target.traits, builder.body
    if request.tools or request.tool_choice is not None:
        _write_tools(builder)
    if request.temperature is not None:
        body["temperature"] = temperature = min(max(request.temperature, 0), 1)
        if temperature != request.temperature:
            builder.record_loss("clamped", "temperature", f"{request.temperature} became {temperature}")
    stops = [request.stop] if isinstance(request.stop, str) else request.stop
    body |= set_parameters(request, ("top_p", "top_k"))
    if stops:
        body["stop_sequences"] = stops
    limit = request.max_tokens
    body["max_tokens"] = traits.max_output or DEFAULT_MAX_TOKENS if limit is None else limit
    if request.thinking is not None or request.effort is not None:
        _write_thinking(builder)
    if request.effort is not None or request.response_format is not None:
        config: dict[str, Any] = {}
        if request.effort not in (None, "none") and (traits.efforts is None or request.effort in traits.efforts):
            config["effort"] = request.effort
        if isinstance(request.response_format, JsonSchema):
            config["format"] = {"type": "json_schema", "schema": request.response_format.schema}
        builder.set_if_given(output_config=config or None)
    if request.user is not None:
        body["metadata"] = {"user_id": request.user}
    body |= set_parameters(request, ("service_tier",))
    if request.stream:
        body["stream"] = True
    if request.compaction is not None:
        _write_compaction(builder, request.compaction)
    builder.record_unsupported(*_UNSUPPORTED)
    if request.n is not None and request.n != 1:
        builder.record_loss("unsupported-parameter", "n", str(request.n), "send several requests")


def _write_compaction(builder: BodyBuilder, compaction: NativeCompaction) -> None:
    instructions = {"instructions": compaction.instructions} if compaction.instructions else {}
    if compaction.threshold is None:
        builder.join_header("anthropic-beta", COMPACTION_BETA)
        builder.body["compaction"] = {"type": "summarize", **instructions}
        return
    value = max(compaction.threshold, MIN_COMPACTION_TRIGGER)
    if value != compaction.threshold:
        builder.record_loss("clamped", "compaction.threshold", f"{compaction.threshold} became {value}")
    builder.join_header("anthropic-beta", COMPACTION_EDIT_BETA)
    edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": value}, **instructions}
    builder.body["context_management"] = {"edits": [edit]}


def _cache_control(cache: str) -> dict[str, Any]:
    """Write the `cache_control` field; none for an empty text. A text that is not a TTL means the default TTL."""
    if not cache:
        return {}
    ttl = {"ttl": cache.removeprefix("auto-")} if cache in ("5m", "1h", "auto-1h") else {}
    return {"cache_control": {"type": "ephemeral", **ttl}}


def _mark_end(builder: BodyBuilder, marks: list[str]) -> None:
    """Mark the end of the prompt: the provider moves the mark of the body to the last block that it can cache.

    `auto` respects the other marks: four are accepted, and none of an hour after one of five minutes.
    """
    cache, body = builder.request.cache or "", builder.body
    if cache in AUTO_CACHE and len(marks) >= _MAX_MARKS:
        return
    if cache == "auto-1h" and any(not mark.endswith("1h") for mark in marks):
        cache = "auto"
    if not builder.target.provider.anthropic.raw_predict:
        body |= _cache_control(cache)
        return
    content = body["messages"][-1]["content"] if body["messages"] else None
    if isinstance(content, list) and content and isinstance(content[-1], dict):  # this host has no mark of the body
        content[-1] |= _cache_control(cache)


def _write_cache_diagnosis(builder: BodyBuilder, previous: bool | str) -> None:
    """Ask for the cause of a cache miss. The provider compares only requests that asked for it, also without an id."""
    if not builder.target.provider.anthropic.cache_diagnosis:
        builder.record_unsupported("cache_diagnosis")
        return
    builder.join_header("anthropic-beta", CACHE_DIAGNOSIS_BETA)
    # The id of a reply from another provider would be refused.
    is_own_id = isinstance(previous, str) and previous.startswith("msg_")
    builder.body["diagnostics"] = {"previous_message_id": previous if is_own_id else None}


def _write_tools(builder: BodyBuilder) -> None:
    request, choice = builder.request, builder.request.tool_choice
    if request.tools:
        tools = [_write_tool(builder, tool) for tool in request.tools]
        builder.body["tools"] = [tool for tool in tools if tool is not None]
    fields: dict[str, Any] = {}
    if isinstance(choice, NamedTool):
        fields = {"type": "tool", "name": choice.name}
    elif choice is not None:
        fields = {"type": "any" if choice == "required" else choice}
    if request.parallel_tool_calls is False and request.tools and choice != "none":
        fields = {"type": "auto", **fields, "disable_parallel_tool_use": True}
    if fields and builder.body.get("tools"):
        builder.body["tool_choice"] = fields
    elif choice not in (None, "auto", "none"):
        builder.record_loss("unsupported-parameter", "tool_choice", repr(choice), "give the tools to choose from")


def _write_tool(builder: BodyBuilder, tool: ToolDefinition | ServerTool) -> dict[str, Any] | None:
    if isinstance(tool, ServerTool):
        default_type, name = SERVER_TOOLS.get(tool.kind, ("", ""))
        if not (tool.type or default_type):
            builder.record_loss("unsupported-tool", "tools", tool.kind, "give its exact `type`")
            return None
        return {"type": tool.type or default_type, **({"name": name} if name else {}), **tool.options}
    schema = builder.schema_of(tool) or {"type": "object", "properties": {}}
    fields: dict[str, Any] = {"name": tool.name, "input_schema": schema}
    if tool.description:
        fields["description"] = tool.description
    if tool.strict is not None:
        fields["strict"] = tool.strict
    return {**fields, **_cache_control(tool.cache), **tool.options}


def _write_thinking(builder: BodyBuilder) -> None:
    """Write the mode that the request names, or the one that the model has for an effort."""
    request, modes = builder.request, builder.target.traits.thinking
    thinking = request.thinking or Thinking()
    display = {} if thinking.show is None else {"display": "summarized" if thinking.show else "omitted"}
    takes_budget = not modes or "budget" in modes
    if thinking.mode == "off" or (thinking.mode is None and request.effort == "none"):
        _disable_thinking(builder)
    elif thinking.mode == "between_tools":
        _write_thinking_mode(builder, thinking.mode, {})
    elif (thinking.budget is not None and takes_budget) or ("budget" in modes and "adaptive" not in modes):
        _write_budget(builder, display)
    elif request.thinking is not None or not modes or "adaptive" in modes:
        _write_thinking_mode(builder, "adaptive", display)


def _disable_thinking(builder: BodyBuilder) -> None:
    traits = builder.target.traits
    if not traits.thinking or "disabled" in traits.thinking:
        builder.body["thinking"] = {"type": "disabled"}
    elif "between_tools" in traits.thinking:
        builder.body["thinking"] = {"type": "between_tools"}
        builder.record_loss("thinking-stays-on", "thinking", "this model still thinks between tool calls")
    elif traits.thinking_default != "no":
        builder.record_loss("thinking-stays-on", "thinking", "this model always thinks", "ask for a lower effort")


def _write_thinking_mode(builder: BodyBuilder, mode: str, display: dict[str, Any]) -> None:
    """Write a mode without a budget."""
    thinking, modes = builder.request.thinking, builder.target.traits.thinking
    if thinking is not None and thinking.budget is not None:
        builder.record_loss("no-thinking-budget", "thinking.budget", "this model takes an effort instead of a budget")
    if not modes or mode in modes or (mode == "adaptive" and "always" in modes):
        builder.body["thinking"] = {"type": mode, **display}
    else:
        builder.record_loss("no-such-thinking", "thinking", f"{mode} is not one of {', '.join(modes)}")


def _write_budget(builder: BodyBuilder, display: dict[str, Any]) -> None:
    """Write a thinking budget, raise `max_tokens` above it, and remove sampling parameters that it excludes."""
    request, traits, body = builder.request, builder.target.traits, builder.body
    budget = request.thinking.budget if request.thinking is not None else None
    if budget is None:
        budget = BUDGETS.get(request.effort or "medium", BUDGETS["medium"])
    if budget < MIN_BUDGET:
        builder.record_loss("clamped", "thinking.budget", f"{budget} became {MIN_BUDGET}")
        budget = MIN_BUDGET
    if budget >= body["max_tokens"]:
        limit = budget + ANSWER_RESERVE
        if traits.max_output is not None and limit > traits.max_output:
            limit, budget = traits.max_output, max(traits.max_output - ANSWER_RESERVE, MIN_BUDGET)
        body["max_tokens"] = limit
        detail = f"became {limit}: it must be larger than the thinking budget of {budget}"
        builder.record_loss("max-tokens-raised", "max_tokens", detail)
    body["thinking"] = {"type": "enabled", "budget_tokens": budget, **display}
    for name in ("temperature", "top_k"):
        if body.get(name, 1) != 1:
            detail = f"{body.pop(name)!r} is refused together with a thinking budget"
            builder.record_loss("sampling-refused", name, detail, "leave it out")
    if traits.interleaved_beta:
        builder.join_header("anthropic-beta", INTERLEAVED_BETA)


# --- turns that were interrupted: Anthropic refuses some blocks at the end of a turn, and calls without a result ------


def _drop_unfinished_blocks(turns: TurnList, builder: BodyBuilder) -> list[dict[str, Any]]:
    """Drop unanswered server calls, final thinking and blank turns; put results first; merge user messages."""
    messages = turns.messages
    result: list[dict[str, Any]] = []
    for message, place in zip(messages, turns.locations, strict=True):
        role, content = message["role"], message["content"]
        if role == "assistant":
            content = _finish_turn(content, place, builder, is_last=message is messages[-1])
            if not content:
                continue
        elif role == "user":
            if len(content) > 1:
                content.sort(key=lambda part: _block_type(part) != "tool_result")
            if _is_blank(content):
                content = [{"type": "text", "text": builder.placeholder(place)}]
            if result and result[-1]["role"] == "user":
                content = [*result.pop()["content"], *content]
        message["content"] = content
        result.append(message)
    return result


def _finish_turn(content: list[Any], place: Location, builder: BodyBuilder, *, is_last: bool) -> list[Any]:
    """Return the content of an assistant message that the provider accepts; empty if nothing is left."""
    # The last turn may be paused: the provider continues it. Code that calls client tools waits for their results,
    # which are in the next message.
    if not is_last:
        content = _drop_open_server_calls(content, place, builder)
    while content and _block_type(content[-1]) == "thinking":
        location = builder.location_of(content[-1], place)
        builder.record_loss("reasoning-unfinished", location, "reasoning at the end of a turn is left out")
        content = content[:-1]
    if content and _is_blank(content):
        for block in content:
            location = builder.location_of(block, place)
            builder.record_loss("blank-turn", location, "a turn with only blank text is left out")
        return []
    if not is_last:
        return content
    while content and _block_type(last := content[-1]) == "text" and last["text"] != (text := last["text"].rstrip()):
        location = builder.location_of(last, place)
        builder.record_loss("trimmed-prefill", location, "trailing space of a turn to continue is removed")
        trimmed = {**last, "text": text}
        builder.replace_node(last, trimmed)
        content = [*content[:-1], *([trimmed] if text else [])]
    return content


def _drop_open_server_calls(content: list[Any], place: Location, builder: BodyBuilder) -> list[Any]:
    if any(_block_type(block) == "tool_use" for block in content):
        return content
    result_ids = [block.get("tool_use_id") for block in content if isinstance(block, dict)]
    blocks: list[Any] = []
    for block in content:
        if _block_type(block) in SERVER_CALLS and block.get("id") not in result_ids:
            detail = f"{block.get('name')}: the provider sent no result"
            builder.record_loss("unfinished-call", builder.location_of(block, place), detail)
        else:
            blocks.append(block)
    return blocks


def _disable_thinking_inside_tool_loop(messages: list[dict[str, Any]], builder: BodyBuilder) -> None:
    """Remove a thinking budget if the current run of tool calls did not begin with thinking."""
    if builder.body["thinking"].get("type") != "enabled":
        return
    first: Any = ""
    for message in reversed(messages):
        types = [_block_type(block) for block in message["content"]]
        if message["role"] == "assistant":
            if "tool_use" not in types:
                break
            first = types[0]
        elif "tool_result" not in types:
            break
    if first and isinstance(first, str) and first not in ("thinking", "redacted_thinking"):
        del builder.body["thinking"]
        detail = "the current tool calls did not begin with thinking"
        builder.record_loss("thinking-off", "thinking", detail, "it can begin with the next user message")


def _is_blank(content: list[Any]) -> bool:
    return all(_block_type(block) == "text" and not str(block["text"]).strip() for block in content)


def _block_type(block: Any) -> Any:
    """Return the type of a block; any JSON value, if a caller made the block by hand."""
    return block.get("type", "") if isinstance(block, dict) else ""
