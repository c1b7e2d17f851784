"""Encode a Chat Completions request: a request in, bytes and losses out."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from tenuto.core.blocks import Audio, Document, Image, Opaque, Text
from tenuto.core.loss import Location
from tenuto.core.media_types import data_url
from tenuto.core.messages import AssistantMessage, Content, Message, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.provider import WireRequest
from tenuto.core.request import ServerTool, ToolDefinition
from tenuto.wire.body_builder import BodyBuilder, error_text, extra_fields, set_parameters, with_locations
from tenuto.wire.chat import switches as switch
from tenuto.wire.chat.assistant import AssistantWriter
from tenuto.wire.chat.switches import make_cache_control
from tenuto.wire.rawjson import to_raw

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
    switch.set_tool_choice(builder, switches)
    if request.response_format is not None:
        switch.set_response_format(builder, request.response_format, switches)
    if request.thinking is not None or request.effort is not None:
        switch.set_thinking(builder, switches)
    if request.max_tokens is not None:
        field = builder.target.traits.max_tokens_field
        is_chat_field = field in ("max_tokens", "max_completion_tokens")
        builder.body[field if is_chat_field else switches.max_tokens_field] = request.max_tokens
    if request.stop is not None:
        switch.set_stop(builder, request.stop, switches)
    if request.logprobs is not None or request.top_logprobs is not None:
        switch.set_logprobs(builder, switches)
    builder.body.update(set_parameters(request, _SAME_NAME))
    if request.container is not None:
        builder.record_unsupported("container")
    if request.cache is not None and request.cache != "off":
        builder.body.update(_cache_fields(builder, request.cache, "cache"))
    builder.record_unsupported("compaction")
    builder.body["stream"] = request.stream
    if request.stream and switches.stream_options:
        builder.body["stream_options"] = {"include_usage": True}
    switch.strip(builder, switches.strip)
    switch.rename(builder, switches.rename)
    switch.clamp(builder, switches.clamp)
    switch.defaults(builder, switches.defaults)
    return builder.finish("/chat/completions", without_numbers=messages)


def _cache_fields(builder: BodyBuilder, cache: str, place: str) -> dict[str, Any]:
    if builder.target.provider.chat.cache_control:
        return {"cache_control": switch.make_cache_control(cache)}
    builder.record_loss("cache-hint", place, cache, "this provider caches by itself")
    return {}


def _write_tool(builder: BodyBuilder, tool: ToolDefinition | ServerTool) -> dict[str, Any] | None:
    if isinstance(tool, ServerTool):
        if tool.type:
            return {"type": tool.type, **tool.options}
        remedy = "set `type` and `options` to this provider's own names"
        builder.record_loss("unsupported-tool", "tools", tool.kind, remedy)
        return None
    fields: dict[str, Any] = {"name": tool.name}
    if tool.description:
        fields["description"] = tool.description
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
        self._changes_results = switches.one_system or switches.alternate or switches.name_on_tool_message

    def messages(self) -> list[Any]:
        transcript = self._builder.request.transcript
        written: list[Any] = []
        order: Sequence[int] = range(len(transcript))
        if self._traits.system_mid in _SYSTEM_FIRST or self._switches.alternate:
            order = self._instructions_first(transcript)
        for at in order:
            message, place = transcript[at], Location(at)
            if isinstance(message, UserMessage):
                written.append(self._user(message, place))
            elif isinstance(message, AssistantMessage):
                if (fields := self._assistant.write(message, place)) is not None:
                    written.append(fields)
            elif isinstance(message, ToolResults):
                written += [self._result(result, place, index) for index, result in enumerate(message.results)]
            elif str(message):
                written.append(self._system(message, place))
            else:
                self._builder.record_loss("empty-message", place, "a system message without content is left out")
        if self._switches.one_system:
            written = self._join_leading_system(written)
        if self._switches.alternate:
            written = self._join_same_role(written)
        last = written[-1] if written else {}
        flag = self._traits.prefill.partition("flag:")[2] or self._switches.prefix_flag
        if flag and isinstance(last, dict) and last.get("role") == "assistant" and not last.get("tool_calls"):
            last[flag] = True
        return written

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
            if len(parts) == 1 and isinstance(parts[0], dict) and parts[0].keys() == {"type", "text"}:
                text = parts[0]["text"]
                if isinstance(text, str):  # not one that the caller set in the extra fields
                    content = text
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
        is_changed = self._changes_results or result.is_error or id in self._assistant.function_calls
        if isinstance(result.content, str) and not (is_changed or result.extra or self._builder.trace):
            return _ToolMessage("tool", id, result.content)
        fields: Fields = {"role": "tool", "tool_call_id": id}
        if id in self._assistant.function_calls:
            fields = {"role": "function", "name": names[id]}
        content: str | list[Any]
        if isinstance(result.content, str):
            content = result.content
        else:
            content = self._result_content(result.content, place.within(index), is_error=result.is_error)
        fields["content"] = error_text(content) if result.is_error and isinstance(content, str) else content
        if self._switches.name_on_tool_message and id in names:
            fields.setdefault("name", names[id])
        if result.extra:
            fields |= extra_fields(result.extra)
        if self._builder.trace:
            self._builder.place(place.within(index), fields)
        return fields

    def _result_content(self, content: tuple[Content, ...], place: Location, *, is_error: bool) -> str | list[Any]:
        """Write the parts of a tool result: a text, or parts if the provider takes images there."""
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
                remedy = "describe it in a text"
                self._builder.record_loss("unsupported-content", where, _describe(part), remedy)
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

    # --- parts --------------------------------------------------------------------------------------------------------

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
