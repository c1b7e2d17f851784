"""Build a `ChatRequest` from the arguments of a call: strings, dictionaries and values become messages and tools."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, get_args, get_origin

import msgspec

from tenuto.client.parameters import ChatParameters, MessageInput, Tools
from tenuto.core import jsonio
from tenuto.core.blocks import Text, ToolUse
from tenuto.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResult,
    ToolResults,
    UserMessage,
    check_parts,
)
from tenuto.core.request import ChatRequest, JsonSchema, NamedTool, ServerTool, ToolDefinition
from tenuto.core.transcript import Transcript
from tenuto.errors import TranscriptError
from tenuto.schema.from_types import is_pydantic_model

_NOT_PARAMETERS = ("model", "messages", "stream", "compaction", "omit_blocks")
PARAMETERS = ("system", *(name for name in ChatRequest.__struct_fields__ if name not in _NOT_PARAMETERS))
_FIELD_TYPES: dict[str, Any] = {field.name: field.type for field in msgspec.structs.fields(ChatRequest)}
_OTHER_NAMES = {
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "reasoning_effort": "effort",
    "stop_sequences": "stop",
    "instructions": "system",
    "functions": "tools",
    "function_call": "tool_choice",
    "headers": "extra_headers",
    "body": "extra_body",
}
"""Names of parameters in other APIs."""


def build_checked_request(
    model: str | ChatRequest | Mapping[str, Any],
    messages: MessageInput | None,
    parameters: Mapping[str, object],
    add_provider: Callable[[str], str],
    *,
    stream: bool,
) -> ChatRequest:
    """Return the request of a call: from a model, messages and parameters, or from a complete request.

    `add_provider` returns a model name with its provider. Raise `TypeError` for arguments of a wrong type, and
    `TranscriptError` if tool calls have no result.
    """
    if isinstance(model, ChatRequest | Mapping):
        if messages is not None or parameters:
            extra = ", ".join(parameters) or "messages"
            raise TypeError(f"the first argument is a complete request: put {extra} into it")
    elif not isinstance(model, str):
        if model is None or messages is not None:
            name = "None" if model is None else type(model).__name__
            raise TypeError(f"the model is {name}: expected a string, provider/model")
        raise TypeError(f"expected a model, a ChatRequest or a dictionary, got {type(model).__name__}")
    elif messages is None:
        raise TypeError("messages are missing: chat(model, messages)")
    if isinstance(model, ChatRequest):
        request = model
    else:
        fields: dict[str, Any] = {"model": model, "messages": messages, **parameters}
        if isinstance(model, Mapping):
            fields = dict(model)
        for name in ("model", "messages"):
            if fields.get(name) is None:
                raise TypeError(f"the request has no {name}; its fields: {', '.join(map(str, fields)) or 'none'}")
        wants_stream = fields.pop("stream", None)
        if wants_stream is not None and bool(wants_stream) is not stream:
            raise TypeError("stream=False: use chat()" if stream else "stream=True: use stream()")
        options = fields.pop("stream_options", None)
        if options not in (None, {}, {"include_usage": True}, {"include_usage": False}):
            raise ValueError(f"stream_options: only include_usage is supported (it is always on), got {options!r}")
        request = build_request(fields.pop("model"), fields.pop("messages"), fields)
    check_open_calls(request.transcript)
    check_newest(request.transcript)
    return msgspec.structs.replace(request, model=add_provider(request.model), stream=stream)


def build_request(model: str, messages: MessageInput, parameters: Mapping[str, object] | ChatParameters) -> ChatRequest:
    """Return a request; None means absent. Raise `TypeError` for an unknown name, `ValueError` for a wrong value."""
    if not isinstance(model, str):
        raise TypeError(f"model: expected provider/model, a string, got {type(model).__name__}")
    given = {name: value for name, value in parameters.items() if value is not None}
    for name in given:
        if name not in PARAMETERS:
            raise TypeError(f"unknown parameter {name!r}{_suggestion(name)}")
    items = to_messages(messages)
    system = given.pop("system", None)
    if system is not None:
        if not isinstance(system, str):
            raise TypeError(f"system: expected a string, got {type(system).__name__}")
        has_system = items and isinstance(items[0], SystemMessage)
        items = (SystemMessage(system), *(items[1:] if has_system else items))
    if not items:
        raise TranscriptError("messages: expected at least one message, got none")
    if isinstance(items[-1], UserMessage):
        check_parts(items[-1])
    values = {name: _convert(name, value) for name, value in given.items()}
    whole = msgspec.structs.replace(messages, messages=items) if isinstance(messages, Transcript) else items
    return msgspec.structs.replace(ChatRequest(model=model, messages=whole), **values)


def to_messages(messages: MessageInput) -> tuple[Message, ...]:
    """Return messages in any form, adjacent tool results as one. Raise `TranscriptError` or `TypeError`."""
    if isinstance(messages, str):
        return (UserMessage(messages),)
    if isinstance(messages, Transcript):
        return messages.messages
    if messages is None:
        raise TypeError("messages are missing: they are None")
    if isinstance(messages, Message | ToolResult | Mapping):
        messages = (messages,)
    is_value = isinstance(messages, bytes | bytearray | msgspec.Struct) or is_pydantic_model(type(messages))
    if is_value or not isinstance(messages, Iterable):
        raise TypeError(f"messages: {_wrong_type(messages)}")
    items: list[Any] = []
    calls: dict[str, ToolUse] = {}
    for index, given in enumerate(messages):
        item: object = given
        if isinstance(item, str):
            item = UserMessage(item)
        elif isinstance(item, Mapping):
            from tenuto.client.chat_dicts import parse_message  # most messages are strings

            item = parse_message(item, index, calls)
        if isinstance(item, AssistantMessage):
            calls = {id: call for id, call in calls.items() if not call.id_generated}
            calls |= {block.id: block for block in item.blocks if isinstance(block, ToolUse)}
        elif not isinstance(item, Message | ToolResult):
            raise TypeError(f"messages[{index}]: {_wrong_type(item)}")
        items.append(item)
    merged: list[Message] = []
    for is_result, group in groupby(items, lambda item: isinstance(item, ToolResult)):
        members = tuple(group)
        merged += [ToolResults(members)] if is_result else members
    return tuple(merged)


def _wrong_type(item: object) -> str:
    hint = ""
    if isinstance(item, msgspec.Struct):
        hint = "; use its `message` or `transcript`" if hasattr(item, "message") else "; wrap it in user(...)"
    elif is_pydantic_model(type(item)):
        hint = "; use its model_dump()"
    return f"expected a string, a message or a dictionary, got {type(item).__name__}{hint}"


def check_open_calls(messages: Iterable[Message]) -> None:
    """Raise `TranscriptError` if tool calls of a complete reply have no result, unless a later turn may answer them."""
    messages = tuple(messages)
    if not any(isinstance(message, AssistantMessage) for message in messages):
        return
    complete = tuple(m for m in messages if not (isinstance(m, AssistantMessage) and m.incomplete))
    calls = Transcript(complete).open_calls()
    if not calls:
        return
    blocks = [block for m in complete if isinstance(m, AssistantMessage) for block in m.blocks]
    uses = [block for block in blocks if isinstance(block, ToolUse) and block.extra]
    later = {use.id for use in uses if bytes(jsonio.members(use.extra).get("async", b"")) == b"true"}
    names = ", ".join(f"{call.name} ({call.id})" for call in calls if call.id not in later)
    if names:
        raise TranscriptError(
            f"tool calls without a result: {names}; add a result for each, as in transcript + call.answer(...)"
        )


def check_newest(transcript: Sequence[Message]) -> None:
    """Raise `TranscriptError` if the newest message is a user message without content."""
    newest = transcript[-1] if transcript else None
    if not isinstance(newest, UserMessage):
        return
    parts = [Text(newest.content)] if isinstance(newest.content, str) else newest.content
    if all(isinstance(part, Text) and not part.text.strip() for part in parts):
        raise TranscriptError("the newest message is empty: give a text, an image or another content")


def to_tools(tools: Tools | None) -> tuple[ToolDefinition | ServerTool, ...]:
    """Return tools in any form as definitions. Raise `TypeError`, or `ValueError` for an invalid or duplicate one."""
    if tools is None:
        return ()
    if isinstance(tools, str | bytes | Mapping) or not (isinstance(tools, Iterable) or hasattr(tools, "definitions")):
        raise TypeError(f"tools: expected a list of tools, got {type(tools).__name__}")
    items: Iterable[object] = [tools] if hasattr(tools, "definitions") else tools
    definitions = tuple(tool for index, item in enumerate(items) for tool in _definitions(item, f"tools[{index}]"))
    names = [tool.name for tool in definitions if isinstance(tool, ToolDefinition)]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise ValueError(f"tools: duplicate names: {', '.join(map(repr, duplicates))}")
    return definitions


def _definitions(item: Any, path: str) -> Sequence[ToolDefinition | ServerTool]:
    if isinstance(item, ToolDefinition | ServerTool):
        return (item,)
    if isinstance(item, Mapping):
        return (_parse_tool(item, path),)
    list_definitions = getattr(item, "definitions", None)
    tools = tuple(list_definitions()) if callable(list_definitions) else (getattr(item, "definition", None),)
    if not all(isinstance(tool, ToolDefinition | ServerTool) for tool in tools):
        hint = "; put @tool on it" if callable(item) else ""
        raise TypeError(f"{path}: expected a tool or its definition, got {type(item).__name__}{hint}")
    return tools


def _parse_tool(document: Mapping[str, Any], path: str) -> ToolDefinition:
    """Read a definition with its fields in an inner object, as in Chat Completions, or next to `type`, as in Responses."""
    outer = {name: value for name, value in document.items() if value is not None}
    kind = outer.pop("type", None)
    if kind not in ("function", "custom"):
        raise ValueError(
            f"{path}: expected {{'type': 'function', 'function': {{'name': ..., 'parameters': ...}}}}, got the type "
            f"{kind!r}; a tool that the provider runs is a ServerTool"
        )
    inner = outer.pop(kind, None)
    if inner is not None and not isinstance(inner, Mapping):
        raise ValueError(f"{path}.{kind}: expected an object, got {type(inner).__name__}")
    fields = outer if inner is None else {name: value for name, value in inner.items() if value is not None}
    known = {name: fields.pop(name) for name in ("name", "description", "parameters", "strict") if name in fields}
    options = fields if inner is None else {**outer, **({kind: fields} if fields else {})}
    hint = options.get("cache_control")
    if hint in ({"type": "ephemeral"}, {"type": "ephemeral", "ttl": "5m"}, {"type": "ephemeral", "ttl": "1h"}):
        known["cache"] = options.pop("cache_control").get("ttl", "5m")
    try:
        return msgspec.convert({**known, "kind": kind, "options": options}, ToolDefinition)
    except msgspec.ValidationError as exc:
        raise ValueError(f"{path}: {exc}") from None


def _suggestion(name: str) -> str:
    match = _OTHER_NAMES.get(name) or next(iter(difflib.get_close_matches(name, PARAMETERS, 1)), None)
    if match is not None:
        return f": did you mean {match!r}?"
    return f": provider-specific fields go into extra_body; the parameters are {', '.join(PARAMETERS)}"


def _literal_values(name: str) -> tuple[str, ...]:
    """Return the values of a parameter that takes only certain words; otherwise ()."""
    field_type = _FIELD_TYPES[name]
    members = [member for member in get_args(field_type) if member is not type(None)]
    literal = members[0] if len(members) == 1 else field_type
    return get_args(literal) if get_origin(literal) is Literal else ()


def _convert(name: str, value: Any) -> Any:
    """Return the value of a parameter as a request has it; raise `ValueError` if it does not fit."""
    converter = _CONVERTERS.get(name)
    if converter is not None:
        return converter(value)
    if isinstance(value, str | float):
        value = str.__str__(value) if isinstance(value, str) else float(value)  # a string enum, a number of NumPy
    elif name in ("stop", "modalities") and isinstance(value, Iterable):
        value = tuple(value)
    elif name == "logit_bias" and isinstance(value, Mapping):
        value = {str(token): bias for token, bias in value.items()}
    try:
        converted = msgspec.convert(value, _FIELD_TYPES[name])
    except msgspec.ValidationError as exc:
        words = _literal_values(name)
        if words:
            raise ValueError(f"{name}: expected {', '.join(map(repr, words))}, got {value!r}") from None
        raise ValueError(f"{name}: {exc}") from None
    return converted if isinstance(value, Mapping) and name != "logit_bias" else value


def _to_tool_choice(value: Any) -> object:
    if isinstance(value, Mapping):
        inner = value.get(value.get("type"), value) if value.get("type") in ("function", "custom") else {}
        name = inner.get("name") if isinstance(inner, Mapping) else None
        if isinstance(name, str):
            return NamedTool(name)
    elif isinstance(value, NamedTool) or value in ("auto", "required", "none"):
        return value
    raise ValueError(
        "tool_choice: expected 'auto', 'required', 'none', NamedTool(name) or "
        f"{{'type': 'function', 'function': {{'name': ...}}}}, got {value!r}"
    )


def _to_response_format(value: Any) -> object:
    kind = value.get("type") if isinstance(value, Mapping) else value
    if kind in ("text", "json_object") and (kind is value or value.keys() == {"type"}):
        return kind
    if isinstance(value, JsonSchema):
        return value
    inner = value.get("json_schema") if isinstance(value, Mapping) and kind == "json_schema" else None
    if not isinstance(inner, Mapping) or inner.keys() - {"name", "schema", "strict", "description"}:
        raise ValueError(
            "response_format: expected 'text', 'json_object', JsonSchema(schema) or "
            f"{{'type': 'json_schema', 'json_schema': {{'name': ..., 'schema': ...}}}}, got {value!r}"
        )
    try:
        return msgspec.convert({name: field for name, field in inner.items() if field is not None}, JsonSchema)
    except msgspec.ValidationError as exc:
        raise ValueError(f"response_format.json_schema: {exc}") from None


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "tools": to_tools,
    "tool_choice": _to_tool_choice,
    "response_format": _to_response_format,
}
