"""Write a request in the Responses dialect.

The server stores nothing unless the request asks for it (`store`), so encrypted reasoning content is always requested.
System messages keep their position, as items. A conversation without messages becomes an empty user message, since the
API refuses an empty `input`.
"""

import functools
import hashlib
from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Audio, Block, Document, Image, Opaque, OpenAiMeta, Reasoning, Refusal, Text, ToolUse
from tenuto.core.jsonio import NULL, raw_list, raw_object, splice_json, text_or_empty
from tenuto.core.loss import Location
from tenuto.core.media_types import data_url, extension_for, to_base64
from tenuto.core.messages import AssistantMessage, Content, SystemMessage, ToolResult, UserMessage
from tenuto.core.provider import WireRequest
from tenuto.core.request import (
    AUTO_CACHE,
    ChatRequest,
    JsonSchema,
    NamedTool,
    NativeCompaction,
    ServerTool,
    ToolDefinition,
)
from tenuto.wire.body_builder import BodyBuilder, error_text, extra_fields, set_parameters, with_locations
from tenuto.wire.responses.items import DIALECT, group_by_item, item_type_for, write_item
from tenuto.wire.responses.protocol import CLIENT_CALLS, RESPONSE_ONLY

_Item = dict[str, Any]
_PARAMETERS = ("max_tokens", "temperature", "top_p", "top_logprobs", "user", "service_tier")
_RENAMED = {"max_tokens": "max_output_tokens", "user": "safety_identifier"}
# The fields that the endpoint for compactions accepts.
_ENDPOINT_FIELDS = frozenset(
    {"model", "input", "instructions", "prompt_cache_key", "prompt_cache_options", "service_tier", "image"}
)
_SERVER_TOOLS = {"code_execution": "code_interpreter"}
_CACHE_OPTIONS = {"5m": {"ttl": "30m"}, "1h": {"ttl": "12h"}, "off": {"mode": "explicit"}}
"""The fields of `prompt_cache_options` for values of `cache`: the shortest lifetime that is long enough, or no breakpoint."""
_UNSUPPORTED_TOOLS = ("web_fetch", "url_context", "google_search", "google_maps", "memory", "bash", "text_editor")


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
    if request.response_format is not None or request.verbosity is not None:
        body["text"] = _write_text_options(builder)
    body.update({_RENAMED.get(name, name): value for name, value in set_parameters(request, _PARAMETERS)})
    if request.stream:
        body["stream"] = True
    if request.compaction is not None:
        _write_compaction(builder, request.compaction)
    _record_unsupported(builder)
    # The key changes with the tools: a diagnosis would report the key instead of them.
    if request.cache in AUTO_CACHE and switches.cache_key and not request.cache_diagnosis:
        static = [[item for item in body["input"] if item.get("role") == "system"][:1], body.get("tools")]
        body["prompt_cache_key"] = hashlib.sha256(jsonio.encode(static)).hexdigest()[:32]
    if request.cache is not None or request.cache_diagnosis:
        _write_cache_options(builder)
    for name in switches.strip:
        if body.pop(name, None) is not None and name not in ("include", "store", "reasoning"):
            builder.record_loss("unsupported-parameter", name, "this endpoint refuses it")
    if request.compaction is not None and request.compaction.endpoint:
        for name in body.keys() - _ENDPOINT_FIELDS:
            del body[name]
        return builder.finish("/responses/compact")
    return builder.finish("/responses")


def _takes_breakpoints(builder: BodyBuilder) -> bool:
    target = builder.target
    return target.provider.responses.cache_options and target.traits.cache_breakpoints


def _breakpoint(cache: str) -> dict[str, Any]:
    """Write the mark of a content part."""
    ttl = _CACHE_OPTIONS["1h"] if cache == "1h" else {}
    return {"prompt_cache_breakpoint": {"mode": "explicit", **ttl}}


def _write_cache_options(builder: BodyBuilder) -> None:
    """Write the lifetime, the response to compare with, and a mark at the end of the system prompt.

    The provider marks the end of the prompt itself. Without the other mark, a new conversation with the same system prompt
    would read nothing.
    """
    request = builder.request
    previous = request.cache_diagnosis
    if not _takes_breakpoints(builder):
        if previous:
            builder.record_unsupported("cache_diagnosis")
        return
    options: dict[str, Any] = {**_CACHE_OPTIONS.get(request.cache or "", {})}
    if isinstance(previous, str) and previous.startswith("resp_"):  # not the id of a reply from another provider
        options["comparison_response_id"] = previous
    if options and not (request.compaction is not None and request.compaction.endpoint):
        builder.body["prompt_cache_options"] = options
    first = builder.body["input"][0]
    if request.cache not in AUTO_CACHE or first.get("role") != "system" or not first["content"]:
        return
    content = first["content"]
    if isinstance(content, str):
        content = [{"type": "input_text", "text": content}]
        builder.replace_node(first, content[0], "text")
        first["content"] = content
    if isinstance(content[-1], dict):
        content[-1].setdefault(*_breakpoint("").popitem())


def _write_compaction(builder: BodyBuilder, compaction: NativeCompaction) -> None:
    if compaction.threshold is not None:
        setting = {"type": "compaction", "compact_threshold": compaction.threshold}
        builder.body["context_management"] = [setting]
    elif not compaction.endpoint:
        builder.body["input"] = [*builder.body["input"], {"type": "compaction_trigger"}]
    if compaction.instructions and not compaction.endpoint:
        builder.record_loss("unsupported-parameter", "compaction.instructions", compaction.instructions[:200])
    elif compaction.instructions:
        builder.body["instructions"] = compaction.instructions


def _write_input(builder: BodyBuilder, *, is_stored: bool) -> list[dict[str, Any]]:
    turns = ReplayedTurns(builder, is_stored=is_stored)
    items: list[dict[str, Any]] = []
    for i, message in enumerate(builder.request.transcript):
        place = Location(i)
        if isinstance(message, SystemMessage | UserMessage):
            items.append(_write_message(builder, message, place))
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


def _write_text_options(builder: BodyBuilder) -> dict[str, Any]:
    request, format = builder.request, builder.request.response_format
    fields: dict[str, Any] = {}
    if isinstance(format, JsonSchema):
        fields["format"] = {"type": "json_schema", **builder.schema_fields(format)}
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
            tools.append(_write_tool(builder, tool))
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


def _write_tool(builder: BodyBuilder, tool: ToolDefinition) -> dict[str, Any]:
    fields = {"type": tool.kind, **builder.tool_fields(tool)}
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
    if request.cache is not None and request.cache not in AUTO_CACHE and not _takes_breakpoints(builder):
        builder.record_loss("implicit-cache", "cache", request.cache, "this dialect caches by itself")
    thinking = request.thinking
    if thinking is not None and thinking.budget is not None:
        builder.record_loss("unsupported-parameter", "thinking.budget", str(thinking.budget), "use effort")
    if thinking is not None and thinking.mode == "between_tools":
        builder.record_loss("unsupported-parameter", "thinking.mode", thinking.mode, "use effort")
    for i, tool in enumerate(request.tools):
        if isinstance(tool, ToolDefinition) and tool.cache:
            builder.record_loss("implicit-cache", f"tools[{i}]", tool.cache, "this dialect caches by itself")


def _write_message(builder: BodyBuilder, message: SystemMessage | UserMessage, place: Location) -> dict[str, Any]:
    """Write a system or user message; system messages keep their position."""
    if isinstance(message, UserMessage) and message.name:
        builder.record_loss("unsupported-field", place.field("name"), message.name, "put the name into the text")
    role = "system" if isinstance(message, SystemMessage) else "user"
    item = {"type": "message", "role": role, "content": _write_content(builder, message.content, place)}
    if builder.trace and isinstance(message.content, str):
        builder.place_texts(place, message.parts, item, "content")
    return item


def _write_content(builder: BodyBuilder, content: str | tuple[Content, ...], place: Location) -> str | list[Any]:
    if isinstance(content, str):
        return content
    parts = builder.accepted_parts(content, place)
    return builder.write_all(parts, lambda part, part_place: _write_part(builder, part, part_place)) or ""


def _write_part(builder: BodyBuilder, part: Content, place: Location) -> Any:
    if isinstance(part, Opaque):
        raw = raw_object(part.raw) if part.dialect == DIALECT else None
        if raw is None:
            builder.record_loss("unreadable-block", place, "a part of another dialect or a later version")
        return raw
    if isinstance(part, Audio):
        builder.record_loss("unsupported-content", place, f"audio {part.mime}".rstrip(), "send a transcript")
        return None
    extra = extra_fields(part.extra) if part.meta is None else {}  # the extra fields of a reply are not input fields
    if part.cache and _takes_breakpoints(builder):
        extra = {**_breakpoint(part.cache), **extra}
    elif part.cache:
        builder.record_loss("implicit-cache", place, part.cache, "this dialect caches by itself")
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text, **extra}
    if isinstance(part, Image):
        return {"type": "input_image", "detail": part.detail or "auto", **_image_source(part), **extra}
    return {**_write_file(builder, part, place), **extra}


def _image_source(image: Image) -> dict[str, str]:
    if image.file_id:
        return {"file_id": image.file_id}
    return {"image_url": image.url or data_url(image.mime or "image/png", image.data)}


def _write_file(builder: BodyBuilder, file: Document, place: Location) -> dict[str, Any]:
    for name in ("context", "citations"):
        if getattr(file, name):
            builder.record_loss("unsupported-field", place.field(name), repr(getattr(file, name))[:200])
    if file.title and (file.file_id or file.url):
        builder.record_loss(
            "unsupported-field", place.field("title"), file.title[:200], "send the file's bytes instead"
        )
    if file.file_id:
        return {"type": "input_file", "file_id": file.file_id}
    if file.url:
        return {"type": "input_file", "file_url": file.url}
    mime = file.mime or ("application/pdf" if file.data else "text/plain")
    data = file.data or to_base64(file.text.encode("utf-8", "replace"))
    name = file.title or f"document.{extension_for(mime) or 'bin'}"
    return {"type": "input_file", "filename": name, "file_data": data_url(mime, data)}


def write_result(
    builder: BodyBuilder, result: ToolResult, call_types: Mapping[str, str], place: Location
) -> dict[str, Any]:
    """Write a result as the output of its call's item type; an unknown call is a function.

    The output of a function has no error flag: the text of a failed call begins with "Error:". Outputs that can express a
    failure (the status of a patch, the exit code of a shell, an approval) receive `is_error`.
    """
    call_type = call_types.get(result.tool_use_id, "function_call")
    if call_type == "mcp_approval_request":
        item: dict[str, Any] = {"type": "mcp_approval_response", "approve": not result.is_error}
        if reason := _text_only(builder, result, place):
            item["reason"] = reason
        return {**item, **extra_fields(result.extra), "approval_request_id": result.tool_use_id}
    item = {"type": f"{call_type}_output"}
    if call_type == "computer_call":
        item["output"] = _write_screenshot(builder, result, place)
    elif call_type in ("function_call", "custom_tool_call"):
        content = result.content
        if result.is_error:
            content = error_text(content) if isinstance(content, str) else (Text("Error:"), *content)
        item["output"] = _write_content(builder, content, place)
    else:
        text = _text_only(builder, result, place)
        if call_type == "apply_patch_call":
            item["status"] = "failed" if result.is_error else "completed"
        item["output"] = text
        if call_type == "shell_call":
            outcome = {"type": "exit", "exit_code": int(result.is_error)}
            item["output"] = raw_list(text) or [{"stdout": text, "stderr": "", "outcome": outcome}]
        elif call_type == "tool_search_call":
            tools = raw_list(text)
            if tools is None:
                detail = "the result of a tool search must be a list of tools"
                builder.record_loss("unsupported-content", place, detail, "return a JSON array")
            item = {"type": "tool_search_output", "execution": "client", "status": "completed", "tools": tools or []}
    item |= {**extra_fields(result.extra), "call_id": result.tool_use_id}
    if call_type == "local_shell_call":
        item["id"] = result.tool_use_id
    return item


def _write_screenshot(builder: BodyBuilder, result: ToolResult, place: Location) -> dict[str, Any]:
    content = [Text(result.content)] if isinstance(result.content, str) else result.content
    parts = [part for _, part in builder.accepted_parts(content, place)]
    images = [part for part in parts if isinstance(part, Image)]
    if len(images) != len(parts):
        detail = "the result of a computer call must be one image"
        builder.record_loss("unsupported-content", place, detail, "send a screenshot")
    return {"type": "computer_screenshot", **(_image_source(images[0]) if images else {})}


def _text_only(builder: BodyBuilder, result: ToolResult, place: Location) -> str:
    """Return the text of a result; other content is a `Loss`."""
    if isinstance(result.content, str):
        return result.content
    texts: list[str] = []
    for part_place, part in builder.accepted_parts(result.content, place):
        if isinstance(part, Text):
            texts.append(part.text)
        else:
            detail = f"{type(part).__name__.lower()} in a tool result that can contain only text"
            builder.record_loss("unsupported-content", part_place, detail)
    return "".join(texts)


class ReplayedTurns:
    """Writes the assistant's turns as input items.

    The server pairs items by id: a reasoning item must be followed by the item that followed it, and a call or message
    with an id must be preceded by its reasoning. So a turn keeps all its ids if each of its reasoning items has encrypted
    content and a follower, and otherwise none. Items without ids are not looked up and not paired.
    """

    def __init__(self, builder: BodyBuilder, *, is_stored: bool) -> None:
        self.call_types: dict[str, str] = {}  # the item type of each call, by call id
        self._builder = builder
        self._is_stored = is_stored  # the server stores the conversation, so that an id suffices for reasoning
        self._switches = builder.target.provider.responses
        self._ids: set[str] = set()  # the ids of the turns so far

    def write_turn(self, message: AssistantMessage, place: Location) -> list[_Item]:
        """Write the items of a turn; a block that cannot be replayed is a `Loss`."""
        placed_items: list[tuple[Location, _Item]] = []
        sizes: dict[Location, int] = {}
        index = reasoning_count = 0
        for group in group_by_item(message.blocks):
            item_place = Location(place.message, index)
            item = self._write_item(group, item_place)
            if item is not None:
                placed_items.append((item_place, item))
                sizes[item_place] = len(group)
            index += len(group)
            reasoning_count += isinstance(group[0], Reasoning)
        if not placed_items:
            self._builder.leave_out_if_empty(message, place)
        placed_items = self._drop_unpaired(placed_items, reasoning_count)
        for item_place, item in placed_items:
            self._place_blocks(item_place, sizes[item_place], item)
        items = [item for _, item in placed_items]
        if self._switches.calls_last:
            calls = [item for item in items if _text(item, "type") in CLIENT_CALLS]
            ordered = sorted(items, key=lambda item: _text(item, "type") in CLIENT_CALLS)
            if ordered != items:
                self._builder.record_loss("calls-last", place, f"{len(calls)} calls moved to the end of their turn")
            return ordered
        return items

    def _place_blocks(self, first: Location, size: int, item: _Item) -> None:
        """Note where the blocks of an item are: the parts of a message, or the item itself."""
        parts = item.get("content") if _text(item, "type") == "message" else None
        nodes = parts if isinstance(parts, list) and len(parts) == size else [item] * size
        for at, node in enumerate(nodes, first.block or 0):
            self._builder.place(Location(first.message, at), node)

    def _write_item(self, group: list[Block], place: Location) -> _Item | None:
        first = group[0]
        if isinstance(first, ToolUse):
            return self._write_call(first)
        if isinstance(first, Text | Refusal) and first.meta is None and not first.extra:
            return _write_plain(first)
        if isinstance(first, Opaque) and first.meta is None:
            is_own = first.dialect == DIALECT and raw_object(first.raw) is not None
        else:
            is_own = isinstance(first.meta, OpenAiMeta) or (isinstance(first, Text | Refusal) and first.meta is None)
        item = self._to_input(write_item(group)) if is_own else {}
        if item:
            return item
        if isinstance(first, Reasoning):
            self._builder.record_loss("unsigned-reasoning", place, "reasoning without a token is omitted")
        else:
            detail = f"{type(first).__name__} in an assistant message: this dialect cannot express it"
            self._builder.record_loss("unsupported-content", place, detail)
        return None

    def _to_input(self, item: _Item) -> _Item:
        """Remove fields of replies; reasoning gets a summary and loses null fields."""
        type = _text(item, "type")
        response_only = _response_only(type)
        fields = item
        if not response_only.isdisjoint(item):
            fields = {name: value for name, value in item.items() if name not in response_only}
        if type == "message":
            if not _text(item, "id"):  # only messages with an id have a status
                fields.pop("status", None)
            return {"type": type, "role": "assistant", **fields}
        if type != "reasoning":
            return fields
        if self._switches.reasoning_status and "status" in item:
            fields["status"] = item["status"]
        return {"summary": [], **{name: value for name, value in fields.items() if value != NULL}}

    def _write_call(self, call: ToolUse) -> _Item:
        item = self._to_input(write_item([call]))
        type = self.call_types[call.id] = item_type_for(call)
        if type == "mcp_approval_request":
            return {**item, "id": call.id}
        item["call_id"] = call.id
        if type == "function_call":
            item |= {"name": call.name, "arguments": "{}" if call.args_missing else call.args}
        elif type == "custom_tool_call":
            item |= {"name": call.name, "input": call.args}
        return item

    def _drop_unpaired(
        self, placed_items: list[tuple[Location, _Item]], reasoning_count: int
    ) -> list[tuple[Location, _Item]]:
        """Omit reasoning that the server would refuse; if any of `reasoning_count` is missing, omit all ids."""
        reasoning = {i for i, (_, item) in enumerate(placed_items) if _text(item, "type") == "reasoning"}
        last = max(set(range(len(placed_items))) - reasoning, default=-1)
        sendable: list[tuple[Location, _Item]] = []
        remaining = len(reasoning)
        for i, (place, item) in enumerate(placed_items):
            reason = self._refusal_reason(item, is_followed=i < last) if i in reasoning else ""
            if reason:
                remedy = "the turn is sent without it and without ids"
                self._builder.record_loss("reasoning-left-out", place, reason, remedy)
                remaining -= 1
            else:
                sendable.append((place, item))
        ids = [_text(item, "id") for _, item in sendable]
        limit = self._switches.call_id_max
        keeps_ids = (
            remaining == reasoning_count
            and not (limit and max(map(len, ids), default=0) > limit)
            and self._ids.isdisjoint(filter(None, ids))  # the same turn a second time
            and (not remaining or all(ids))
        )
        if not keeps_ids:
            sendable = [(place, bare) for place, item in sendable if (bare := self._without_id(item, place))]
            ids = [_text(item, "id") for _, item in sendable]
        self._ids.update(filter(None, ids))
        return sendable

    def _refusal_reason(self, item: _Item, *, is_followed: bool) -> str:
        """Say why the server would refuse a reasoning item; empty if it would not."""
        if not is_followed:
            return "nothing follows it in its turn"
        if item.get("encrypted_content") or self._switches.plain_reasoning:
            return ""
        if self._is_stored and _text(item, "id"):
            return ""
        return "it has no encrypted content, and the server stores nothing"

    def _without_id(self, item: _Item, place: Location) -> _Item | None:
        """Remove the id of an item; None if the item is useless without it."""
        type, id = _text(item, "type"), _text(item, "id")
        if type == "mcp_approval_request" or not id:  # the answer to an approval request names its id
            return item
        self._builder.record_loss("id-left-out", place, id)
        omitted = ("id", "status") if type == "message" else ("id",)  # only messages with an id have a status
        bare = {name: value for name, value in item.items() if name not in omitted}
        if type == "reasoning" and not bare.get("encrypted_content") and not bare.get("content"):
            return None  # only the server has its content
        return None if type == "item_reference" else bare


def _write_plain(block: Text | Refusal) -> _Item | None:
    """Write a block that did not come from this dialect; None if it is empty."""
    if not block.text:
        return None
    content: Any = block.text
    if isinstance(block, Refusal):
        content = [{"type": "refusal", "refusal": block.text}]
    elif annotations := [splice_json(citation.raw) for citation in block.citations if citation.raw]:
        content = [{"type": "output_text", "text": block.text, "annotations": annotations}]
    return {"type": "message", "role": "assistant", "content": content}


@functools.lru_cache(maxsize=64)
def _response_only(type: str) -> frozenset[str]:
    prefix = f"{type}."
    return frozenset(
        (*RESPONSE_ONLY, *(name.removeprefix(prefix) for name in RESPONSE_ONLY if name.startswith(prefix)))
    )


def _text(item: _Item, name: str) -> str:
    """Return a text field of an item; empty for any other JSON value."""
    value = item.get(name)
    if isinstance(value, Raw):
        return text_or_empty(value)
    return value if isinstance(value, str) else ""
