"""Encode a Chat Completions request: a request in, bytes and losses out.

The switches of a provider (`ChatSwitches`) decide how; a parameter that is not sent as requested is a `Loss`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Audio, Block, ChatMeta, Document, Image, Opaque, Reasoning, Refusal, Text, ToolUse
from tenuto.core.jsonio import is_null, object_or_empty, raw_list, raw_object, text_or_empty, to_raw
from tenuto.core.loss import Location
from tenuto.core.media_types import data_url
from tenuto.core.messages import AssistantMessage, Content, Message, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.provider import ChatSwitches, Target, WireRequest
from tenuto.core.request import AUTO_CACHE, JsonSchema, NamedTool, ResponseFormat, ServerTool, ToolDefinition
from tenuto.wire.body_builder import BodyBuilder, error_text, extra_fields, set_parameters, with_locations
from tenuto.wire.chat.content_parts import restore_tags, write_image, write_thinking
from tenuto.wire.codec import CallIdRule, TurnOrder

_SAME_NAME = (
    *("temperature", "top_p", "top_k", "n", "seed", "frequency_penalty", "presence_penalty", "logit_bias"),
    *("user", "verbosity", "service_tier", "modalities", "audio", "store"),
)
"""Parameters that have the same name in `ChatRequest` and in the body."""
_AUDIO_FORMATS = {"audio/mpeg": "mp3", "audio/x-wav": "wav", "audio/wave": "wav"}
"""Formats that differ from the media type's second half."""
_SYSTEM_FIRST = ("rejected", "top_only", "ignored")
"""Values of `ModelTraits.system_mid` for models that take instructions only before all other messages."""
Fields = dict[str, Any]
Parts = list[tuple[Location, Content]]
_NO_PARAMETERS: Fields = {"type": "object", "properties": {}}


def encode(builder: BodyBuilder) -> WireRequest:
    request, switches = builder.request, builder.target.provider.chat
    builder.body["model"] = builder.target.model
    builder.body["messages"] = messages = _MessageListBuilder(builder).messages()
    if tools := [fields for tool in request.tools if (fields := _write_tool(builder, tool)) is not None]:
        builder.body["tools"] = tools
    set_tool_choice(builder, switches)
    if request.response_format is not None:
        set_response_format(builder, request.response_format, switches)
    if request.thinking is not None or request.effort is not None:
        set_thinking(builder, switches)
    if request.max_tokens is not None:
        field = builder.target.traits.max_tokens_field
        is_chat_field = field in ("max_tokens", "max_completion_tokens")
        builder.body[field if is_chat_field else switches.max_tokens_field] = request.max_tokens
    if request.stop is not None:
        set_stop(builder, request.stop, switches)
    if request.logprobs is not None or request.top_logprobs is not None:
        set_logprobs(builder, switches)
    builder.body.update(set_parameters(request, _SAME_NAME))
    if request.container is not None:
        builder.record_unsupported("container")
    if request.cache is not None and request.cache != "off":
        builder.body.update(_cache_fields(builder, request.cache, "cache"))
    builder.record_unsupported("compaction", *(["cache_diagnosis"] if request.cache_diagnosis else ()))
    builder.body["stream"] = request.stream
    if request.stream and switches.stream_options:
        builder.body["stream_options"] = {"include_usage": True}
    adjust_body(builder, switches)
    return builder.finish("/chat/completions", without_numbers=messages)


# --- parameters, by the switches of the provider -----------------------------------------------------------------------


def adjust_body(builder: BodyBuilder, switches: ChatSwitches) -> None:
    """Strip the fields that the provider refuses, rename fields, limit numbers to their bounds, and set defaults."""
    for name in switches.strip:
        if name in builder.body:
            value = builder.body.pop(name)
            if value is not None and name != "stream_options":  # not requested by the caller
                builder.record_loss("stripped-parameter", name, repr(value)[:200], "this provider does not take it")
    if not switches.rename.keys().isdisjoint(builder.body):
        builder.body = {switches.rename.get(name, name): value for name, value in builder.body.items()}
    for name, bound in switches.clamp.items():
        value = builder.body.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        new_value = bound if isinstance(bound, int | float) else min(max(value, bound[0]), bound[1])
        if new_value != value:
            builder.body[name] = new_value
            builder.record_loss("clamped-parameter", name, f"{value} became {new_value}")
    if switches.defaults:
        set_defaults(builder, switches.defaults)


def set_defaults(builder: BodyBuilder, values: Fields) -> None:
    """Set the fields that are absent or null."""
    for name, value in values.items():
        if builder.body.get(name) is None:
            builder.body[name] = value


def set_thinking(builder: BodyBuilder, switches: ChatSwitches) -> None:
    """Set effort, thinking on or off, budget, and readable reasoning, in this provider's fields."""
    request, traits, body = builder.request, builder.target.traits, builder.body
    thinking, effort = request.thinking, request.effort
    mode = thinking.mode if thinking is not None else None
    is_on = None if mode is None else mode != "off"
    effort_field = switches.effort_field if not traits.thinking or "effort" in traits.thinking else ""
    toggle = switches.thinking_toggle if not traits.thinking or "toggle" in traits.thinking else ""
    has_none = traits.efforts is None or "none" in traits.efforts

    # the toggle replaces an effort that the model does not know, and the effort `none` a missing toggle
    if effort == "none" and toggle and "none" not in (traits.efforts or ()):
        is_on, effort = False, None
    elif effort not in (None, "none") and not effort_field and toggle:
        builder.record_loss("effort-degree", "effort", f"{effort} became on: this model has no degrees of effort")
        is_on, effort = True, None
    elif is_on is False and effort is None and not toggle and effort_field and has_none:
        is_on, effort = None, "none"

    sends_effort = effort is not None and effort_field != ""
    if effort is not None and sends_effort:
        _set_path(body, effort_field, switches.effort_words.get(effort, effort))
    elif effort is not None:
        builder.record_unsupported("effort")
    if is_on is not None:
        if toggle and not (sends_effort and switches.one_thinking_field):
            _set_toggle(body, toggle, is_on=is_on)
        elif not (is_on and sends_effort):
            remedy = "set `effort` if the model has it"
            builder.record_loss("unsupported-parameter", "thinking.mode", mode or "", remedy)

    if thinking is not None:
        if mode == "between_tools":
            builder.record_loss("unsupported-parameter", "thinking.mode", "between_tools became on")
        if thinking.budget is not None and switches.budget_field:
            _set_path(body, switches.budget_field, thinking.budget)
        elif thinking.budget is not None:
            detail, remedy = str(thinking.budget), "set `effort` if the model has it"
            builder.record_loss("unsupported-parameter", "thinking.budget", detail, remedy)
        if thinking.show is not None and switches.show_field:
            is_negated = switches.show_field.endswith("exclude")
            _set_path(body, switches.show_field, not thinking.show if is_negated else thinking.show)
        elif thinking.show is not None:
            builder.record_loss("unsupported-parameter", "thinking.show", str(thinking.show))
    if (is_on or effort not in (None, "none")) and is_on is not False:
        set_defaults(builder, switches.with_thinking)


def _set_toggle(body: Fields, toggle: str, *, is_on: bool) -> None:
    if toggle == "thinking.type":
        _set_path(body, toggle, "enabled" if is_on else "disabled")
    elif toggle == "template":
        _set_path(body, "chat_template_kwargs.enable_thinking", is_on)
    else:
        _set_path(body, toggle, not is_on if toggle == "disable_reasoning" else is_on)


def _set_path(body: Fields, path: str, value: Any) -> None:
    """Set a field, or a field of an object (`reasoning.effort`); other fields of the object stay."""
    name, _, inner = path.partition(".")
    body[name] = {**body.get(name, {}), inner: value} if inner else value


def set_stop(builder: BodyBuilder, stop: str | tuple[str, ...], switches: ChatSwitches) -> None:
    if isinstance(stop, str):
        builder.body["stop"] = [stop] if switches.stop_as_list else stop
        return
    limit = switches.stop_max or len(stop)
    for at, word in enumerate(stop[limit:], limit):
        builder.record_loss("too-many-stops", f"stop[{at}]", repr(word), f"this provider takes {limit}")
    builder.body["stop"] = list(stop[:limit])


def set_logprobs(builder: BodyBuilder, switches: ChatSwitches) -> None:
    """Request log probabilities: a flag and a number, or one number for both."""
    request = builder.request
    if not switches.logprobs_as_number:
        builder.set_if_given(logprobs=request.logprobs, top_logprobs=request.top_logprobs)
    elif request.logprobs:
        builder.body["logprobs"] = request.top_logprobs if request.top_logprobs is not None else 1
    else:
        builder.record_unsupported("top_logprobs", remedy="set `logprobs` too")


def set_tool_choice(builder: BodyBuilder, switches: ChatSwitches) -> None:
    """Set which tool to call. Providers refuse the field in a request without tools."""
    request = builder.request
    choice = request.tool_choice
    if "tools" not in builder.body:
        if choice not in (None, "auto", "none"):
            builder.record_loss("unsupported-parameter", "tool_choice", repr(choice), "the request has no tools")
        return
    if choice == "none" and switches.none_drops_tools:
        del builder.body["tools"]
        builder.record_loss("dropped-tools", "tools", "the provider ignores tool_choice none, so the tools are omitted")
        return
    if isinstance(choice, NamedTool):
        kinds = {getattr(tool, "name", ""): getattr(tool, "kind", "") for tool in request.tools}
        kind = "custom" if kinds.get(choice.name) == "custom" else "function"
        builder.body["tool_choice"] = {"type": kind, kind: {"name": choice.name}}
    elif choice is not None:
        builder.body["tool_choice"] = switches.required_word if choice == "required" else choice
    if request.parallel_tool_calls is not None:
        builder.body["parallel_tool_calls"] = request.parallel_tool_calls


def set_response_format(builder: BodyBuilder, output: ResponseFormat, switches: ChatSwitches) -> None:
    """Request text, JSON, or JSON with a schema; JSON without it if the provider takes no schemas."""
    support = builder.target.traits.structured_output
    if not isinstance(output, JsonSchema):
        builder.body["response_format"] = {"type": output}
    elif support == "none":
        builder.record_loss("unsupported-parameter", "response_format", output.name, "request JSON in the prompt")
    elif not switches.json_schema or support != "native":
        builder.body["response_format"] = {"type": "json_object"}
        builder.record_loss("dropped-schema", "response_format", output.name, "describe the JSON in the prompt")
    else:
        builder.body["response_format"] = {"type": "json_schema", "json_schema": builder.schema_fields(output)}


def make_cache_control(cache: str) -> dict[str, str]:
    """Make a `cache_control` value. Without a `ttl`, providers cache for five minutes."""
    ttl = cache.removeprefix("auto-")
    return {"type": "ephemeral", **({"ttl": ttl} if ttl not in ("5m", "auto") else {})}


def call_ids(target: Target) -> CallIdRule:
    switches = target.provider.chat
    if switches.call_id == "nine":
        return CallIdRule("[0-9A-Za-z]{9}", 9)
    return CallIdRule(max_length=switches.call_id_max)


def turn_order(target: Target) -> TurnOrder:
    alternates = target.provider.chat.alternate
    return TurnOrder(user_first=alternates, user_last=alternates, alternates=alternates)


def _cache_fields(builder: BodyBuilder, cache: str, place: str) -> dict[str, Any]:
    if builder.target.provider.chat.cache_control:
        return {"cache_control": make_cache_control(cache)}
    if cache in AUTO_CACHE:
        return {}
    builder.record_loss("cache-hint", place, cache, "this provider caches by itself")
    return {}


def _write_tool(builder: BodyBuilder, tool: ToolDefinition | ServerTool) -> dict[str, Any] | None:
    if isinstance(tool, ServerTool):
        if tool.type:
            return {"type": tool.type, **tool.options}
        remedy = "set `type` and `options` to this provider's own names"
        builder.record_loss("unsupported-tool", "tools", tool.kind, remedy)
        return None
    fields = builder.tool_fields(tool)
    if tool.kind == "function":
        fields["parameters"] = tool.parameters if tool.parameters is not None else _NO_PARAMETERS
        if tool.strict is not None and builder.target.provider.chat.strict_tools:
            fields["strict"] = tool.strict
        elif tool.strict is not None:
            builder.record_loss("unsupported-parameter", f"tools.{tool.name}.strict", str(tool.strict))
    cache = _cache_fields(builder, tool.cache, f"tools.{tool.name}") if tool.cache else {}
    options = {**cache, **tool.options}
    nested = options.pop(tool.kind, None)
    return {"type": tool.kind, tool.kind: {**fields, **(nested if isinstance(nested, dict) else {})}, **options}


# --- messages ----------------------------------------------------------------------------------------------------------


class _ToolMessage(msgspec.Struct, gc=False):
    """A tool result without extra fields: see `_FunctionCall`."""

    role: str
    tool_call_id: str
    content: str


class _MessageListBuilder:
    """Writes instructions, user messages, assistant messages and tool results."""

    def __init__(self, builder: BodyBuilder) -> None:
        self._builder = builder
        self._traits = builder.target.traits
        self._switches = builder.target.provider.chat
        self._assistant = AssistantWriter(builder)
        switches = self._switches
        self._changes_messages = switches.one_system or switches.alternate or switches.name_on_tool_message

    def messages(self) -> list[Any]:
        transcript, losses = self._builder.request.transcript, self._builder.losses
        written: list[Any] = []
        order: Sequence[int] = range(len(transcript))
        if self._traits.system_mid in _SYSTEM_FIRST or self._switches.alternate:
            order = self._instructions_first(transcript)
        earlier = None if self._changes_messages or self._builder.trace else self._builder.written
        known = earlier.texts if earlier is not None and earlier.target == self._builder.target else {}
        texts: dict[int, tuple[Message, list[Raw]]] = {}
        last_at = order[-1] if order else -1  # it may get a flag
        for at in order:
            message = transcript[at]
            if at != last_at and (text := known.get(id(message))) is not None:
                written += text[1]
                texts[id(message)] = text
                continue
            count = len(losses)
            fields = self._message(message, Location(at))
            written += fields
            if earlier is not None and len(losses) == count and not self._assistant.function_calls:
                texts[id(message)] = message, [Raw(jsonio.encode(one)) for one in fields]
        if earlier is not None:
            earlier.target, earlier.texts = self._builder.target, texts
        if self._switches.one_system:
            written = self._join_leading_system(written)
        if self._switches.alternate:
            written = self._join_same_role(written)
        last = written[-1] if written else {}
        flag = self._traits.prefill.partition("flag:")[2] or self._switches.prefix_flag
        if flag and isinstance(last, dict) and last.get("role") == "assistant" and not last.get("tool_calls"):
            last[flag] = True
        return written

    def _message(self, message: Message, place: Location) -> list[Any]:
        if isinstance(message, ToolResults):
            return [self._result(result, place, index) for index, result in enumerate(message.results)]
        if isinstance(message, AssistantMessage):
            fields = self._assistant.write(message, place)
            return [] if fields is None else [fields]
        if isinstance(message, UserMessage):
            return [self._user(message, place)]
        if str(message):
            return [self._system(message, place)]
        self._builder.record_loss("empty-message", place, "a system message without content is left out")
        return []

    def _instructions_first(self, transcript: tuple[Message, ...]) -> list[int]:
        """Return the order of the messages for a model that takes instructions only before all others."""
        indexes = range(len(transcript))
        first = next((at for at in indexes if not isinstance(transcript[at], SystemMessage)), len(transcript))
        late = [at for at in indexes[first:] if isinstance(transcript[at], SystemMessage)]
        for at in late:
            detail = "moved to the start: the model takes instructions only there"
            self._builder.record_loss("moved-instructions", Location(at), detail)
        return [*indexes[:first], *late, *(at for at in indexes[first:] if at not in late)]

    def _system(self, message: SystemMessage, place: Location) -> Fields:
        modes = self._traits.thinking
        is_reasoning_model = bool(modes) and "none" not in modes
        role = "developer" if self._switches.developer_role and is_reasoning_model else "system"
        fields: Fields = {"role": role}
        if self._switches.cache_control and any(part.cache for part in message.parts):
            fields["content"] = self._write_parts(list(self._builder.accepted_parts(message.parts, place)))
        else:
            self._record_unsent_fields(with_locations(message.parts, place))
            fields["content"] = str(message)
            self._builder.place_texts(place, message.parts, fields, "content")
        return fields

    def _user(self, message: UserMessage, place: Location) -> Fields:
        fields: Fields = {"role": "user"}
        content: str | list[Any]
        if isinstance(message.content, str):
            content = message.content
        else:
            content = parts = self._write_parts(list(self._builder.accepted_parts(message.content, place)))
            only = parts[0] if len(parts) == 1 and isinstance(parts[0], dict) else {}
            if only.keys() == {"type", "text"} and isinstance(only["text"], str):  # else a caller's own extra field
                content = only["text"]
        if isinstance(content, str):
            is_empty = not content
            if self._builder.trace:
                self._builder.place_texts(place, message.parts, fields, "content")
        else:
            texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
            is_empty = len(texts) == len(content) and not any(texts)
        fields["content"] = self._builder.placeholder(place) if is_empty else content
        if message.name and self._switches.names:
            fields["name"] = message.name
        elif message.name:
            self._builder.record_loss("unsupported-parameter", place.field("name"), message.name)
        return fields

    def _result(self, result: ToolResult, place: Location, index: int) -> Fields | _ToolMessage:
        id, names = result.tool_use_id, self._assistant.call_names
        is_changed = self._changes_messages or result.is_error or id in self._assistant.function_calls
        if isinstance(result.content, str) and not (is_changed or result.extra):
            message = _ToolMessage("tool", id, result.content)
            if self._builder.trace:
                self._builder.place(Location(place.message, index), message)
            return message
        fields: Fields = {"role": "tool", "tool_call_id": id}
        if id in self._assistant.function_calls:
            fields = {"role": "function", "name": names[id]}
        content = self._result_content(result.content, Location(place.message, index), is_error=result.is_error)
        fields["content"] = error_text(content) if result.is_error and isinstance(content, str) else content
        if self._switches.name_on_tool_message and id in names:
            fields.setdefault("name", names[id])
        if result.extra:
            fields |= extra_fields(result.extra)
        if self._builder.trace:
            self._builder.place(Location(place.message, index), fields)
        return fields

    def _result_content(
        self, content: str | tuple[Content, ...], place: Location, *, is_error: bool
    ) -> str | list[Any]:
        """Write the content of a tool result: a text, or parts if the provider takes images there."""
        if isinstance(content, str):
            return content
        parts = list(self._builder.accepted_parts(content, place))
        if self._switches.images_in_results and any(isinstance(part, Image) for _, part in parts):
            if is_error:
                detail, remedy = "parts of a failed call", "describe the error in a text"
                self._builder.record_loss("unsupported-field", place.field("is_error"), detail, remedy)
            return self._write_parts(parts)
        self._record_unsent_fields(parts, sends_hints=False)
        texts = []
        for where, part in parts:
            if isinstance(part, Text | Document) and part.text:
                texts.append(part.text)
            elif not isinstance(part, Text):
                self._builder.record_loss("unsupported-content", where, _describe(part), "describe it in a text")
        return "\n".join(texts)

    def _join_leading_system(self, messages: list[Fields]) -> list[Fields]:
        roles = ("system", "developer")
        count = next((at for at, message in enumerate(messages) if message["role"] not in roles), len(messages))
        texts = [message["content"] for message in messages[:count]]
        if count < 2 or not all(isinstance(text, str) for text in texts):
            return messages
        for message in messages[1:count]:
            self._builder.replace_node(message, messages[0])
        messages[0]["content"] = "\n\n".join(texts)
        return [messages[0], *messages[count:]]

    def _join_same_role(self, messages: list[Fields]) -> list[Fields]:
        """Join neighboring messages of one role: the provider requires alternating roles."""
        result: list[Fields] = []
        for message in messages:
            before = result[-1] if result else {}
            if before.get("role") != message["role"] or message["role"] not in ("user", "assistant"):
                result.append(message)
                continue
            contents = (before["content"], message["content"])
            if all(isinstance(content, str) for content in contents):
                joined: Any = "\n\n".join(contents)
            else:
                lists = ([{"type": "text", "text": one}] if isinstance(one, str) else one or [] for one in contents)
                joined = [part for parts in lists for part in parts]
            before |= {**message, "content": joined}
            self._builder.replace_node(message, before)
        return result

    def _record_unsent_fields(self, parts: Iterable[tuple[Location, Content]], *, sends_hints: bool = True) -> None:
        """Record the cache hints and the fields of documents that the request cannot contain."""
        sends_hints = sends_hints and self._switches.cache_control
        for where, part in parts:
            is_document = isinstance(part, Document)
            if isinstance(part, Text | Image | Document) and part.cache and (not sends_hints or is_document):
                self._builder.record_loss("cache-hint", where, part.cache, "this provider caches by itself")
            if isinstance(part, Document):
                has_filename = part.data and not (part.text or part.file_id)  # the title becomes the file name
                for name in ("context", "citations") if has_filename else ("title", "context", "citations"):
                    if value := getattr(part, name):
                        self._builder.record_loss("unsupported-field", where.field(name), repr(value)[:200])

    def _write_parts(self, parts: Parts) -> list[Any]:
        self._record_unsent_fields(parts)
        return self._builder.write_all(parts, self._write_part)

    def _write_part(self, part: Content, place: Location) -> Fields | Raw | None:
        """Write a part; None, with a loss, if the provider cannot take it in this form."""
        if isinstance(part, Opaque):
            if part.dialect == "openai-chat":
                return to_raw(part.raw)
            self._builder.record_loss("foreign-block", place, f"a block of {part.dialect or 'a later version'}")
            return None
        fields = self._write_content(part)
        if fields is None:
            self._builder.record_loss("unsupported-content", place, _describe(part), "send its bytes instead")
            return None
        if isinstance(part, Text | Image) and part.cache and self._switches.cache_control:
            fields["cache_control"] = make_cache_control(part.cache)
        return fields | extra_fields(part.extra)

    def _write_content(self, part: Text | Image | Audio | Document) -> Fields | None:
        if isinstance(part, Image):
            url = _data_uri(part) or (part.url if self._switches.image_urls else "")
            detail = {"detail": part.detail} if part.detail else {}
            return {"type": "image_url", "image_url": {"url": url, **detail}} if url else None
        if isinstance(part, Audio):
            data = _data_uri(part) if self._switches.audio_as_uri else part.data
            audio_format = _AUDIO_FORMATS.get(part.mime, part.mime.partition("/")[2])
            return {"type": "input_audio", "input_audio": {"data": data, "format": audio_format}} if data else None
        if isinstance(part, Text) or part.text:
            return {"type": "text", "text": part.text}
        if not self._switches.file_parts:
            return None
        if part.file_id:
            return {"type": "file", "file": {"file_id": part.file_id}}
        if not part.data:
            return None
        filename = {"filename": part.title} if part.title else {}
        return {"type": "file", "file": {"file_data": _data_uri(part), **filename}}


def _data_uri(part: Image | Audio | Document) -> str:
    return data_url(part.mime, part.data) if part.data else ""


def _describe(part: Content) -> str:
    source = next((name for name in ("url", "file_id", "data") if getattr(part, name, "")), "")
    return f"{type(part).__name__} by {source}" if source else type(part).__name__


# --- assistant messages, exactly as received (`verbatim`) or to be sent back ------------------------------------------

_DIALECT = "openai-chat"
_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_details")


def _details(block: Reasoning) -> list[Raw]:
    """Return the elements of `reasoning_details`; none if the stored text is not a list."""
    return raw_list(block.meta.details) or [] if isinstance(block.meta, ChatMeta) else []


def _field_of(block: Reasoning) -> str:
    """Return the field in which reasoning was received; empty if it is unknown."""
    return block.meta.field if isinstance(block.meta, ChatMeta) else ""


def _list_of(block: Opaque) -> str:
    """Return the field of the message whose list contained an unknown element."""
    name = text_or_empty(extra_fields(block.extra).get("in"))
    return name if name in ("tool_calls", "images") else "content"


def verbatim(message: AssistantMessage) -> list[Any]:
    """Return the message exactly as received, with every block and every field."""
    fields: Fields = dict(extra_fields(message.extra))
    written: Fields = {"role": "assistant"}
    if (role := fields.pop("role", None)) is not None:
        written = {} if is_null(role) else {"role": role}
    form = bytes(fields.get("content", b""))
    parts: list[Any] = []
    calls: list[Any] = []
    for block in message.blocks:
        if isinstance(block, ToolUse):
            _write_call(block, written, calls, exact=True)
        elif isinstance(block, Opaque) and _list_of(block) == "tool_calls":
            calls.append(to_raw(block.raw))
        elif (part := _write_part(block, form)) is not None:
            parts.append(part)
    if parts:
        fields["content"] = _join_parts(parts, form)
    if calls:
        written["tool_calls"] = calls
    for block in message.blocks:
        if isinstance(block, Reasoning):
            field = _field_of(block)
            if field in ("reasoning_content", "reasoning") and block.text:
                written[field] = written.get(field, "") + block.text
            if details := _details(block):
                written.setdefault("reasoning_details", []).extend(details)
        elif isinstance(block, Audio):
            audio: Fields = {"id": block.id or None, "data": block.data or None}
            audio |= {"transcript": block.transcript, "expires_at": block.expires_at}
            typed = {name: value for name, value in audio.items() if value is not None}
            written["audio"] = {**typed, **extra_fields(block.extra)}
        elif isinstance(block, Refusal):
            written["refusal"] = written.get("refusal", "") + block.text
        elif isinstance(block, Image):
            written.setdefault("images", []).append(write_image(block))
        elif isinstance(block, Opaque) and _list_of(block) == "images":
            written.setdefault("images", []).append(to_raw(block.raw))
    return [{**written, **fields}]


def _write_part(block: Block, form: bytes) -> str | Fields | Raw | None:
    """Write a block of the content (received in the form `[]`, `{}` or text); None for a block of another field."""
    if isinstance(block, Text):
        if not block.extra and form != b"[]":
            return block.text
        return {"type": "text", "text": block.text, **extra_fields(block.extra)}
    if isinstance(block, Reasoning):
        field = _field_of(block)
        if field == "think":
            return restore_tags(block.text, block.extra)
        return write_thinking(block) if field == "content" else None
    return to_raw(block.raw) if isinstance(block, Opaque) and _list_of(block) == "content" else None


def _join_parts(parts: list[Any], form: bytes) -> str | Raw | list[Any]:
    """Join the parts of the content: a list if a text cannot hold them, an object if it was one, otherwise a text."""
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) < len(parts):
        return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    if form == b"{}" and len(texts) == 1 and (raw := raw_object(texts[0])) is not None:
        return raw
    return "".join(texts)


class _Function(msgspec.Struct, gc=False):
    name: str
    arguments: str


class _FunctionCall(msgspec.Struct, gc=False):
    """A call without extra fields: as a struct it takes a fifth of the memory, which counts in a long conversation."""

    id: str
    type: str
    function: _Function


def _write_call(block: ToolUse, written: Fields, calls: list[Any], *, exact: bool) -> None:
    """Add a call to `calls`, the older form to `written`: `exact` as received, else with id and text arguments."""
    if not block.extra and not exact and block.kind == "function":  # most calls
        function = _Function(block.name, "{}" if block.args_missing else block.args)
        calls.append(_FunctionCall(block.id, "function", function))
        return
    extra = extra_fields(block.extra)
    if "function_call" in extra:
        written["function_call"] = _write_payload(block, "function_call", extra["function_call"], exact=exact)
        return
    payload = "custom" if block.kind == "custom" else "function"
    inner = _write_payload(block, payload, extra.pop(payload, None), exact=exact)
    kind = extra.pop("type", None)  # null if the host omitted it
    call: Fields = {} if exact and block.id_generated else {"id": block.id}
    if kind is None:
        call["type"] = block.kind
    elif exact and not is_null(kind):
        call["type"] = kind
    if not exact:
        extra.pop("id", None)
        extra.pop("index", None)
    call[payload] = inner
    calls.append(call | extra if extra else call)


def _write_payload(block: ToolUse, payload: str, extra: Raw | None, *, exact: bool) -> Fields:
    """Write the inner object of a call. In `extra`, arguments that are null were null, any other were an object."""
    rest: Fields = dict(object_or_empty(extra)) if extra is not None else {}
    args_field = "input" if payload == "custom" else "arguments"
    args_form = rest.pop(args_field, None)
    fields: Fields = {"name": block.name}
    if not exact:
        fields[args_field] = "{}" if block.args_missing and payload != "custom" else block.args
        rest.pop("name", None)
    elif args_form is not None:
        fields[args_field] = args_form if is_null(args_form) else to_raw(block.args)
    elif not block.args_missing:
        fields[args_field] = block.args
    return fields | rest if rest else fields


# --- sending back -----------------------------------------------------------------------------------------------------


class AssistantWriter:
    """Write the assistant messages of one request: all tokens, readable reasoning if the model's rule wants it, calls
    in the form that every host accepts, and of the fields outside the blocks those that the provider row lists.
    """

    def __init__(self, builder: BodyBuilder) -> None:
        self.call_names: dict[str, str] = {}
        """The name of the tool by the id of the call, for the calls whose results need it."""
        self.function_calls: set[str] = set()  # the ids of the calls that are sent as `function_call`
        self._builder = builder
        self._switches = switches = builder.target.provider.chat
        self._policy = builder.target.traits.passback or switches.passback
        field = switches.reasoning_field
        self._reasoning_field = "reasoning" if field == "reasoning_details" else field

    def write(self, message: AssistantMessage, place: Location) -> Fields | None:
        """Write a message to be sent back; None if nothing of it can be sent."""
        sends_reasoning = self._policy == "always" or (self._policy == "tool_turns" and message.has_tool_calls())
        extra = extra_fields(message.extra)
        form = bytes(extra["content"]) if "content" in extra else b""
        written: Fields = {"role": "assistant", "content": None}
        parts: list[Any] = []
        calls: list[Any] = []
        function_call: Fields = {}
        others: Fields = {}
        placed: list[tuple[int, object, str]] = []  # the index of each block, and the object or field that has it
        in_content: list[int] = []
        withheld_count = 0
        for index, block in enumerate(message.blocks):
            if isinstance(block, ToolUse):
                if self._switches.name_on_tool_message or block.extra:
                    self.call_names[block.id] = block.name
                if block.extra and "function_call" in extra_fields(block.extra):
                    self.function_calls.add(block.id)
                count = len(calls)
                _write_call(block, function_call, calls, exact=False)
                placed.append((index, calls[-1], "") if len(calls) > count else (index, written, "function_call"))
                continue
            other = self._sent_form(block, Location(place.message, index), sends_reasoning=sends_reasoning)
            if other is None:
                withheld_count += isinstance(block, Reasoning) and bool(block.text)
                continue
            if isinstance(other, Opaque) and _list_of(other) == "tool_calls":
                calls.append(to_raw(other.raw))
                placed.append((index, calls[-1], ""))
            elif isinstance(other, Refusal):
                others["refusal"] = others.get("refusal", "") + other.text
                placed.append((index, written, "refusal"))
            elif isinstance(other, Audio):
                placed.append((index, written, "audio"))
                if "audio" in others:
                    detail, remedy = f"audio {other.id}", "a message can refer to one audio reply"
                    self._builder.record_loss("unsupported-content", place, detail, remedy)
                others.setdefault("audio", {"id": other.id})
            elif (part := _write_part(other, form)) is not None:
                parts.append(part)
                in_content.append(index)
            if isinstance(other, Reasoning):  # with details, its text is a copy, and is not sent
                field = _field_of(other)
                if details := _details(other):
                    written.setdefault("reasoning_details", []).extend(details)
                    placed.append((index, details[0], ""))
                elif field not in ("think", "content") and sends_reasoning:
                    written[field] = written.get(field, "") + other.text
                    placed.append((index, written, field))
        if withheld_count:
            detail, remedy = f"{withheld_count} blocks", "the model does not take reasoning in this turn"
            self._builder.record_loss("reasoning-withheld", place, detail, remedy)
        content = _join_parts(parts, form) if parts else None
        written["content"] = content or (None if self._switches.null_content else "")
        needs_field = self._switches.empty_reasoning and self._reasoning_field != "content" and sends_reasoning
        if needs_field and message.has_tool_calls() and written.keys().isdisjoint(_REASONING_FIELDS):
            written[self._reasoning_field] = ""
        written |= {**function_call, **({"tool_calls": calls} if calls else {}), **others}
        if len(written) == 2 and not content:
            self._builder.record_loss("empty-message", place, "an assistant message with nothing to send")
            return None
        for name in self._switches.replayed_fields if extra else ():
            if name in extra:
                written.setdefault(name, extra[name])
        if self._builder.trace:
            nodes = content if isinstance(content, list) else [written] * len(parts)
            field = "" if isinstance(content, list) else "content"
            placed += ((index, node, field) for index, node in zip(in_content, nodes, strict=True))
            for index, node, field in placed:
                self._builder.place(Location(place.message, index), node, field)
        return written

    def _sent_form(self, block: Block, place: Location, *, sends_reasoning: bool) -> Block | None:
        """Return the form in which a block other than a call is sent; None, with a loss, if it is not sent."""
        if isinstance(block, Text | Refusal):
            if isinstance(block, Refusal) and not self._switches.refusals:
                block = Text(block.text)
            return block if block.text else None
        if isinstance(block, Reasoning):
            meta = block.meta if isinstance(block.meta, ChatMeta) else ChatMeta(field=self._reasoning_field)
            reasoning = block if block.meta is meta else Reasoning(block.text, meta=meta)
            details = _details(reasoning)
            is_signed = meta.signature and meta.field == "content"
            if (meta.details and not details) or (meta.signature and not is_signed):
                self._builder.record_loss("unreadable-token", place, "a token that this dialect cannot have issued")
            is_sent = details or is_signed or (sends_reasoning and (block.text or meta.field == "think"))
            return reasoning if is_sent else None
        if isinstance(block, Audio) and block.id:
            return block
        if isinstance(block, Opaque) and block.dialect == _DIALECT and _list_of(block) != "images":
            return block
        remedy = "this dialect cannot send such a block back"
        self._builder.record_loss("unsupported-block", place, type(block).__name__, remedy)
        return None
