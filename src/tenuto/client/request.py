"""What is asked, however it was written: strings, dictionaries and values become messages, tools and one request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
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

__all__ = [
    "PARAMETERS",
    "MessageInput",
    "build_checked_request",
    "build_request",
    "check_newest",
    "open_calls",
    "request_of_dict",
    "to_message",
    "to_messages",
    "to_tools",
    "with_system",
]


def _is_model(value: object) -> bool:
    from tenuto.schema.from_types import is_pydantic_model

    return is_pydantic_model(type(value))


def to_messages(messages: MessageInput) -> tuple[Message, ...]:
    """Return messages, whichever way they were given. Neighbouring results of tools make one message.

    Raise `TranscriptError` for a dictionary that cannot be read, with its place, and `TypeError` for what is neither a
    string, a message nor a dictionary.
    """
    if isinstance(messages, str):
        return (UserMessage(messages),)
    if isinstance(messages, Transcript):
        return messages.messages
    if messages is None:
        raise TypeError("messages are missing: they are None")
    if isinstance(messages, Message | ToolResult | Mapping):
        messages = (messages,)
    if not isinstance(messages, list | tuple) and (
        isinstance(messages, bytes | bytearray | msgspec.Struct)
        or _is_model(messages)
        or not isinstance(messages, Iterable)
    ):
        raise TypeError(f"messages: {_no_message(messages)}")
    reading = _Reading()
    for at, item in enumerate(messages):
        reading.take(item, at)
    return reading.messages()


class _Reading:
    """Messages on their way in, with what later ones must know of earlier ones."""

    def __init__(self) -> None:
        self._found: list[Message] = []
        self._results: list[ToolResult] = []
        self._names: dict[str, str] = {}
        self._unnamed: list[ToolUse] = []

    def messages(self) -> tuple[Message, ...]:
        self._settle()
        return tuple(self._found)

    def take(self, item: object, at: int) -> None:
        place = f"messages[{at}]"
        if isinstance(item, ToolResult):
            self._results.append(item)
            return
        if isinstance(item, Mapping):
            found = self._read(item, at, place)
            if isinstance(found, ToolResult):
                self._results.append(found)
                return
            item = found
        elif isinstance(item, str):
            item = UserMessage(item)
        if not isinstance(item, Message):
            raise TypeError(f"{place}: {_no_message(item)}")
        self._settle()
        self._found.append(item)
        if isinstance(item, AssistantMessage):
            self._names |= {call.id: call.name for call in item.tool_calls()}
            self._unnamed = [block for block in item.blocks if isinstance(block, ToolUse) and block.id_generated]

    def _settle(self) -> None:
        if self._results:
            self._found.append(ToolResults(tuple(self._results)))
            self._results = []

    def _read(self, document: Mapping[str, Any], at: int, place: str) -> Message | ToolResult:
        from tenuto.client import chat_dicts  # most questions are strings, and need none of it

        role = chat_dicts.role_of(document, place)
        if role in ("system", "developer"):
            return chat_dicts.parse_system(document, place)
        if role == "user":
            return chat_dicts.parse_user(document, place)
        if role == "assistant":
            return chat_dicts.parse_assistant(document, place, lambda ordinal: _minted(at, ordinal))
        unnamed = self._unnamed if role == "function" else None
        return chat_dicts.parse_result(document, self._names, unnamed, place)


def _minted(at: int, ordinal: int) -> str:
    from tenuto.wire.decoder import new_id

    return new_id("messages", str(at), 0, ordinal)


def _no_message(item: object) -> str:
    hint = ""
    if isinstance(item, msgspec.Struct):
        hint = "; its `message` or `transcript` is one" if hasattr(item, "message") else "; wrap it in user(...)"
    elif _is_model(item):
        hint = "; its model_dump() is a dictionary"
    return f"expected a string, a message or a dictionary, got {type(item).__name__}{hint}"


def to_message(message: AssistantMessage) -> dict[str, Any]:
    """Write a reply as a dictionary in the shape of Chat Completions, for code that keeps such dictionaries.

    `content`, `refusal` and `tool_calls` show what that shape can say; `blocks` and what stands beside them hold
    everything, so that `to_messages` makes the same message of it.
    """
    from tenuto.client import chat_dicts

    return chat_dicts.to_message(message)


def with_system(messages: tuple[Message, ...], system: str | None) -> tuple[Message, ...]:
    """Put instructions first, in place of those that the messages begin with; None leaves them as they are."""
    if system is None:
        return messages
    rest = messages[1:] if messages and isinstance(messages[0], SystemMessage) else messages
    return (SystemMessage(system), *rest)


def open_calls(messages: Iterable[Message]) -> None:
    """Raise `TranscriptError` if calls are left unanswered; it names them.

    Those of a reply that was cut off do not count, for nobody could run them, nor do those whose provider takes the
    answer in a later turn.
    """
    whole = tuple(m for m in messages if not (isinstance(m, AssistantMessage) and m.incomplete))
    left = Transcript(whole).open_calls()
    if left:
        later = {id for m in whole if isinstance(m, AssistantMessage) for id in _answered_later(m)}
        left = tuple(call for call in left if call.id not in later)
    if left:
        named = ", ".join(f"{call.name} ({call.id})" for call in left)
        raise TranscriptError(
            f"calls left unanswered: {named}; add a result for each, as in transcript + call.answer(...)"
        )


def _answered_later(message: AssistantMessage) -> list[str]:
    held = [
        (block.id, jsonio.members(block.extra))
        for block in message.blocks
        if isinstance(block, ToolUse) and block.extra
    ]
    return [id for id, fields in held if bytes(fields.get("async", b"")) == b"true"]


# --- tools ------------------------------------------------------------------------------------------------------------


def to_tools(tools: Tools | None) -> tuple[ToolDefinition | ServerTool, ...]:
    """Return definitions, whichever way the tools were given.

    Raise `TypeError` for what is no tool, and `ValueError` for a dictionary that cannot be read or a name given twice.
    """
    if tools is None:
        return ()
    if isinstance(tools, str | bytes | Mapping) or not (isinstance(tools, Iterable) or hasattr(tools, "definitions")):
        raise TypeError(f"tools: expected a list of tools, got {type(tools).__name__}")
    items: Iterable[object] = [tools] if hasattr(tools, "definitions") else tools
    found = tuple(tool for at, item in enumerate(items) for tool in _tools(item, f"tools[{at}]"))
    names = [tool.name for tool in found if isinstance(tool, ToolDefinition)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"tools: two are called {', '.join(map(repr, twice))}")
    return found


def _tools(item: Any, place: str) -> Sequence[ToolDefinition | ServerTool]:
    if isinstance(item, ToolDefinition | ServerTool):
        return (item,)
    if isinstance(item, Mapping):
        return (_tool(item, place),)
    several = getattr(item, "definitions", None)
    found = tuple(several()) if callable(several) else (getattr(item, "definition", None),)
    if not all(isinstance(tool, ToolDefinition | ServerTool) for tool in found):
        hint = "; put @tool on it" if callable(item) else ""
        raise TypeError(f"{place}: expected a tool or its definition, got {type(item).__name__}{hint}")
    return found


def _tool(document: Mapping[str, Any], place: str) -> ToolDefinition:
    """Read a definition: its fields in an object of their own, as in Chat Completions, or beside, as in Responses."""
    outer = {name: value for name, value in document.items() if value is not None}
    kind = outer.pop("type", None)
    if kind not in ("function", "custom"):
        raise ValueError(
            f"{place}: expected {{'type': 'function', 'function': {{'name': ..., 'parameters': ...}}}}, got the type "
            f"{kind!r}; a tool that the provider runs is a ServerTool"
        )
    inner = outer.pop(kind, None)
    if inner is not None and not isinstance(inner, Mapping):
        raise ValueError(f"{place}.{kind}: expected an object, got {type(inner).__name__}")
    fields = outer if inner is None else {name: value for name, value in inner.items() if value is not None}
    known = {name: fields.pop(name) for name in ("name", "description", "parameters", "strict") if name in fields}
    options = fields if inner is None else {**outer, **({kind: fields} if fields else {})}
    hint = options.get("cache_control")
    if hint in ({"type": "ephemeral"}, {"type": "ephemeral", "ttl": "5m"}, {"type": "ephemeral", "ttl": "1h"}):
        known["cache"] = options.pop("cache_control").get("ttl", "5m")
    try:
        return msgspec.convert({**known, "kind": kind, "options": options}, ToolDefinition)
    except msgspec.ValidationError as exc:
        raise ValueError(f"{place}: {exc}") from None


# --- the request ------------------------------------------------------------------------------------------------------

_NO_PARAMETERS = ("model", "messages", "stream", "omit_blocks")
PARAMETERS = ("system", *(name for name in ChatRequest.__struct_fields__ if name not in _NO_PARAMETERS))
_ELSEWHERE = {
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
"""What others call our parameters."""


def build_request(model: str, messages: MessageInput, parameters: Mapping[str, object] | ChatParameters) -> ChatRequest:
    """Make a request. Parameters that are None count as not given.

    Raise `TypeError` for a parameter that nobody knows, with the name that was probably meant, and `ValueError` for a
    value that does not fit.
    """
    if not isinstance(model, str):
        raise TypeError(f"model: expected provider/model, a string, got {type(model).__name__}")
    given = {name: value for name, value in parameters.items() if value is not None}
    for name in given:
        if name not in PARAMETERS:
            raise TypeError(f"no parameter is called {name!r}{_near(name)}")
    system = given.pop("system", None)
    if system is not None and not isinstance(system, str):
        raise TypeError(f"system: expected a string, got {type(system).__name__}")
    said = with_system(to_messages(messages), system)
    if not said:
        raise TranscriptError("messages: there is nothing to ask")
    if isinstance(said[-1], UserMessage):
        check_parts(said[-1])
    values = {name: _value(name, value) for name, value in given.items()}
    whole = msgspec.structs.replace(messages, messages=said) if isinstance(messages, Transcript) else said
    return msgspec.structs.replace(ChatRequest(model=model, messages=whole), **values)


def request_of_dict(document: Mapping[str, Any]) -> ChatRequest:
    """Make a request of one dictionary, which holds its model and messages beside the parameters."""
    given = dict(document)
    options = given.pop("stream_options", None)
    if options not in (None, {}, {"include_usage": True}, {"include_usage": False}):
        raise ValueError(f"stream_options: usage is always asked for, and there is nothing else to ask: {options!r}")
    for name in ("model", "messages"):
        if given.get(name) is None:
            raise TypeError(f"a request has a {name}; this one has {', '.join(map(str, document)) or 'nothing'}")
    stream = bool(given.pop("stream", None))
    request = build_request(given.pop("model"), given.pop("messages"), given)
    return msgspec.structs.replace(request, stream=stream)


def build_checked_request(
    asked: str | ChatRequest | Mapping[str, Any],
    messages: MessageInput | None,
    parameters: Mapping[str, object],
    qualified: Callable[[str], str],
    *,
    stream: bool,
) -> ChatRequest:
    """Make the request of a call: a model, messages and parameters, or a request that is one already.

    `qualified` puts the provider before the model. Raise `TypeError` for what is neither, and `TranscriptError` if calls
    are left unanswered.
    """
    if isinstance(asked, str):
        if messages is None:
            raise TypeError("messages are missing: chat(model, messages)")
        _check_stream(parameters, stream=stream)
        request = build_request(
            asked, messages, {name: given for name, given in parameters.items() if name != "stream"}
        )
    else:
        if asked is None or (messages is not None and not isinstance(asked, ChatRequest | Mapping)):
            raise TypeError(f"the model is {_type(asked)}: expected a string, provider/model")
        if messages is not None or parameters:
            extra = ", ".join(parameters) or "messages"
            raise TypeError(f"a whole request was given: {extra} cannot stand beside it")
        request = asked if isinstance(asked, ChatRequest) else _dictionary(asked, stream=stream)
    open_calls(request.transcript)
    check_newest(request.transcript)
    return msgspec.structs.replace(request, model=qualified(request.model), stream=stream)


def check_newest(transcript: Sequence[Message]) -> None:
    """Raise `TranscriptError` if the newest message is a user message without content."""
    newest = transcript[-1] if transcript else None
    if not isinstance(newest, UserMessage):
        return
    content = newest.content
    if isinstance(content, str):
        empty = not content.strip()
    else:
        empty = all(isinstance(part, Text) and not part.text.strip() for part in content)
    if empty:
        raise TranscriptError("the newest message is empty: give a text, an image or another content")


def _type(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _dictionary(asked: object, *, stream: bool) -> ChatRequest:
    if not isinstance(asked, Mapping):
        raise TypeError(f"expected a model, a ChatRequest or a dictionary, got {type(asked).__name__}")
    _check_stream(asked, stream=stream)
    return request_of_dict(asked)


def _check_stream(given: Mapping[str, Any], *, stream: bool) -> None:
    """Raise `TypeError` if the field `stream` asks for something else than the method does."""
    if given.get("stream") is not None and bool(given["stream"]) is not stream:
        raise TypeError("stream=False: use chat()" if stream else "stream=True: use stream()")


def _near(name: str) -> str:
    import difflib

    near = _ELSEWHERE.get(name) or next(iter(difflib.get_close_matches(name, PARAMETERS, 1)), "")
    remedy = "did you mean" if near else "what only one provider knows goes into extra_body; there are"
    return f"; {remedy} {repr(near) + '?' if near else ', '.join(PARAMETERS)}"


@cache
def _types() -> dict[str, Any]:
    return {found.name: found.type for found in msgspec.structs.fields(ChatRequest)}


def _words(name: str) -> tuple[str, ...]:
    """Return the words that a parameter accepts, if it accepts nothing else."""
    members = [one for one in get_args(_types()[name]) if one is not type(None)]
    literal = members[0] if len(members) == 1 else _types()[name]
    return get_args(literal) if get_origin(literal) is Literal else ()


def _value(name: str, value: Any) -> Any:
    read = _READ.get(name)
    if read is not None:
        return read(value)
    if isinstance(value, str | float):
        value = str.__str__(value) if isinstance(value, str) else float(value)  # of an enumeration, of NumPy
    elif name in ("stop", "modalities") and isinstance(value, Iterable):
        value = tuple(value)
    elif name == "logit_bias" and isinstance(value, Mapping):
        value = {str(token): bias for token, bias in value.items()}
    try:
        fitting = msgspec.convert(value, _types()[name])
    except msgspec.ValidationError as exc:
        words = _words(name)
        if words:
            raise ValueError(f"{name}: expected {', '.join(map(repr, words))}, got {value!r}") from None
        raise ValueError(f"{name}: {exc}") from None
    return fitting if isinstance(value, Mapping) and name != "logit_bias" else value


def _tool_choice(value: Any) -> object:
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


def _response_format(value: Any) -> object:
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
        return msgspec.convert({name: held for name, held in inner.items() if held is not None}, JsonSchema)
    except msgspec.ValidationError as exc:
        raise ValueError(f"response_format.json_schema: {exc}") from None


_READ: dict[str, Callable[[Any], Any]] = {
    "tools": to_tools,
    "tool_choice": _tool_choice,
    "response_format": _response_format,
}
