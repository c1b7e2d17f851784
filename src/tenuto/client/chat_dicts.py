"""Convert messages from and to dictionaries in the form of Chat Completions.

An unknown field of a reply, of a tool result or of a part other than text is stored in `extra`. Any other unknown field,
role or part raises `TranscriptError`. A field that is null counts as absent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn, TypeVar

import msgspec
from msgspec import Raw

from tenuto.core import jsonio, media_types
from tenuto.core.blocks import Audio, Block, Document, Image, Refusal, Text, ToolUse
from tenuto.core.messages import AssistantMessage, Content, SystemMessage, ToolResult, UserMessage
from tenuto.core.stored import dump_block, dump_message, load_block, load_message
from tenuto.errors import TranscriptError

T = TypeVar("T")
Fields = Mapping[str, Any]

_EXPECTED = "messages must have the form of Chat Completions"
_OTHER_FORMS = {
    "Anthropic Messages": ("image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking"),
    "Responses": ("input_text", "input_image", "input_file", "output_text", "summary_text"),
}
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_AUDIO_TYPES = {"mp3": "audio/mpeg"}
_CACHE_TIMES = ("5m", "1h")
_TEXT_FIELDS = ("type", "text", "cache", "cache_control")
_TYPE_NAMES: dict[type, str] = {str: "a string", dict: "an object", list: "a list", bool: "true or false"}


def _fail(path: str, problem: str) -> NoReturn:
    raise TranscriptError(f"{path}: {problem}")


def _get(document: Fields, name: str, kind: type[T], path: str) -> T | None:
    """Return a field, or None if it is absent or null. Raise `TranscriptError` for a value of another type."""
    value = document.get(name)
    if value is not None and not isinstance(value, kind):
        _fail(f"{path}.{name}", f"expected {_type_name(kind)}, got {_type_name(type(value))}")
    return value


def _get_string(document: Fields, name: str, path: str) -> str:
    value = _get(document, name, str, path)
    return _fail(f"{path}.{name}", "a string is missing") if value is None else value


def _get_text(document: Fields, name: str, path: str) -> str:
    return _get_string(document, name, path) or _fail(f"{path}.{name}", "must not be empty")


def _get_list(document: Fields, name: str, path: str) -> list[Any]:
    value = document.get(name)
    if value is not None and not isinstance(value, list | tuple):
        _fail(f"{path}.{name}", f"expected a list, got {_type_name(type(value))}")
    return list(value or ())


def _get_object(document: Fields, name: str, path: str) -> Fields | None:
    value = document.get(name)
    if value is not None and not isinstance(value, Mapping):
        _fail(f"{path}.{name}", f"expected an object, got {_type_name(type(value))}")
    return value


def _type_name(kind: type) -> str:
    return _TYPE_NAMES.get(kind, kind.__name__)


def _check_fields(document: Fields, known: Collection[str], what: str, path: str) -> None:
    for name, value in document.items():
        if name not in known and value is not None:
            _fail(f"{path}.{name}", f"unknown field of {what}; known fields: {', '.join(known)}")


def _encode(value: object, path: str) -> Raw:
    try:
        return jsonio.check(jsonio.encode(value))
    except (TypeError, ValueError) as exc:
        _fail(path, f"cannot be written as JSON: {exc}")


def _extra(rest: Fields, path: str) -> str:
    return jsonio.object_text({name: _encode(value, f"{path}.{name}") for name, value in rest.items()})


def parse_role(document: Fields, path: str) -> str:
    """Return the role. Raise `TranscriptError` if it is missing or unknown."""
    if "parts" in document and "content" not in document:
        _fail(f"{path}.parts", f"a message in the form of Gemini; {_EXPECTED}")
    role = _get(document, "role", str, path)
    if role is None:
        kind = document.get("type")
        item = f"; an item {kind!r} has the form of Responses" if isinstance(kind, str) else ""
        _fail(f"{path}.role", f"the role is missing: use {', '.join(_ROLES)}{item}")
    if role not in _ROLES:
        _fail(f"{path}.role", f"unknown role {role!r}: use {', '.join(_ROLES)}")
    return role


# --- parts ------------------------------------------------------------------------------------------------------------


def _parse_content(document: Fields, path: str) -> str | tuple[Content, ...] | None:
    """Return the content: a string or parts; None if it is absent."""
    content = document.get("content")
    if content is None or isinstance(content, str):
        return content
    parts = [content] if isinstance(content, Content) else _get_list(document, "content", path)
    return tuple(_parse_part(part, f"{path}.content[{index}]") for index, part in enumerate(parts))


def _parse_part(part: object, path: str) -> Content:
    if isinstance(part, Content):
        return part
    rest, parse = _split_type(part, _PARTS, path)
    if parse is None:
        block = load_block(_encode(part, path))
        return (
            block
            if isinstance(block, Content)
            else _fail(path, f"a block {type(block).__name__} is not allowed in this message")
        )
    try:
        block = parse(rest, path)
    except ValueError as exc:
        _fail(path, str(exc))
    if not isinstance(block, Audio) and (cache_time := _take_cache_time(rest, path)):
        block = msgspec.structs.replace(block, cache=cache_time)
    if isinstance(block, Text):
        _check_fields(rest, _TEXT_FIELDS, "a text part", path)
        return block
    return msgspec.structs.replace(block, extra=_extra(rest, path)) if rest else block


def _take_cache_time(rest: dict[str, Any], path: str) -> str:
    """Remove the cache time from a part: `cache`, or `cache_control` as in Anthropic's API."""
    cache, control = _get(rest, "cache", str, path), _get_object(rest, "cache_control", path)
    for name in ("cache", "cache_control"):
        rest.pop(name, None)
    if cache is not None and cache not in _CACHE_TIMES:
        _fail(f"{path}.cache", f"unknown time {cache!r}: use {', '.join(_CACHE_TIMES)}")
    if control is None:
        return cache or ""
    _check_fields(control, ("type", "ttl"), "a cache_control", f"{path}.cache_control")
    ttl = control.get("ttl") or _CACHE_TIMES[0]
    if control.get("type") != "ephemeral" or ttl not in _CACHE_TIMES:
        _fail(f"{path}.cache_control", f"the type must be ephemeral, the ttl {' or '.join(_CACHE_TIMES)}")
    return cache or str(ttl)


def _split_type(part: object, known: Mapping[str, T], path: str) -> tuple[dict[str, Any], T | None]:
    """Return the fields of a part, and the entry of `known` for its type; None for a block in its stored form."""
    if not isinstance(part, Mapping):
        _fail(path, f"expected a part, an object with a type; got {_type_name(type(part))}")
    rest = dict(part)
    kind = rest.pop("type", None)
    if kind is None and "block_type" in rest:
        return rest, None
    if isinstance(kind, str) and kind in known:
        return rest, known[kind]
    problem = "the type is missing" if kind is None else f"unknown type {kind!r}"
    _fail(f"{path}.type", f"{_other_form(kind) or problem}; {_EXPECTED}: {', '.join(known)}")


def _other_form(kind: object) -> str:
    return next((f"{kind!r} has the form of {api}" for api, kinds in _OTHER_FORMS.items() if kind in kinds), "")


def _parse_text(rest: dict[str, Any], path: str) -> Text:
    text = Text(_get_string(rest, "text", path))
    del rest["text"]
    return text


def _parse_image(rest: dict[str, Any], path: str) -> Image:
    inner = rest.pop("image_url", None)
    inner, path = {"url": inner} if isinstance(inner, str) else inner, f"{path}.image_url"
    if not isinstance(inner, Mapping):
        _fail(path, "expected an object with a url")
    _check_fields(inner, ("url", "detail"), "an image_url", path)
    url, detail = _get_text(inner, "url", path), _get(inner, "detail", str, path) or ""
    content = media_types.parse_data_url(url)
    image = Image(url=url) if content is None else Image.from_bytes(*content)
    return msgspec.structs.replace(image, detail=detail) if detail else image


def _parse_audio(rest: dict[str, Any], path: str) -> Audio:
    inner, path = _get_object(rest, "input_audio", path) or {}, f"{path}.input_audio"
    rest.pop("input_audio", None)
    _check_fields(inner, ("data", "format"), "an input_audio", path)
    kind = _get_text(inner, "format", path)
    data = _get_text(inner, "data", path)
    content = media_types.parse_data_url(data)
    return Audio(data, _AUDIO_TYPES.get(kind, f"audio/{kind}")) if content is None else Audio.from_bytes(*content)


def _parse_file(rest: dict[str, Any], path: str) -> Document:
    inner, path = _get_object(rest, "file", path) or {}, f"{path}.file"
    rest.pop("file", None)
    _check_fields(inner, ("file_data", "filename", "file_id"), "a file", path)
    file_data, title = _get(inner, "file_data", str, path) or "", _get(inner, "filename", str, path) or ""
    file_id = _get(inner, "file_id", str, path) or ""
    if not (file_data or file_id):
        _fail(path, "file_data or file_id is missing")
    content = media_types.parse_data_url(file_data)
    if content is None:
        mime = media_types.type_from_name(title) if file_data else ""
        return Document(file_data, mime, file_id=file_id, title=title)
    data, mime = content
    mime = mime or media_types.detect_type(data) or media_types.type_from_name(title)
    return Document(media_types.to_base64(data), mime, file_id=file_id, title=title)


_PARTS: dict[str, Callable[[dict[str, Any], str], Text | Image | Audio | Document]] = {
    "text": _parse_text,
    "image_url": _parse_image,
    "input_audio": _parse_audio,
    "file": _parse_file,
}


# --- input messages ---------------------------------------------------------------------------------------------------


def parse_system(document: Fields, path: str) -> SystemMessage:
    _check_fields(document, ("role", "content"), "a system message", path)
    content = _parse_content(document, path)
    if content is None:
        _fail(f"{path}.content", "expected a string or a list of parts")
    if isinstance(content, str):
        return SystemMessage(content)
    for index, part in enumerate(content):
        if not isinstance(part, Text):
            _fail(f"{path}.content[{index}]", f"a system message must be text, not {type(part).__name__}")
    return SystemMessage(tuple(part for part in content if isinstance(part, Text)))


def parse_user(document: Fields, path: str) -> UserMessage:
    _check_fields(document, ("role", "content", "name"), "a user message", path)
    content = _parse_content(document, path)
    if content is None:
        _fail(f"{path}.content", "expected a string or a list of parts")
    return UserMessage(content, _get(document, "name", str, path) or "")


def parse_result(
    document: Fields, names: Mapping[str, str], calls_without_id: list[ToolUse] | None, path: str
) -> ToolResult:
    """Read a tool result.

    `names`: the names of the earlier calls by id; a `name` that repeats one is dropped. `calls_without_id`: for a result of
    the role `function`, which has no id and belongs to the first of these calls with its name.
    """
    if calls_without_id is None:
        id = _get(document, "tool_call_id", str, path)
        if not id:
            _fail(f"{path}.tool_call_id", "the id of the call is missing")
    else:
        id = _find_call(document, calls_without_id, path)
    content = _parse_content(document, path)
    known = ("role", "content", "tool_call_id", "is_error")
    rest = {key: value for key, value in document.items() if key not in known and value is not None}
    if rest.get("name") == names.get(id, ""):
        rest.pop("name", None)
    failed = _get(document, "is_error", bool, path) or False
    return ToolResult(id, "" if content is None else content, failed, _extra(rest, path))


def _find_call(document: Fields, calls: list[ToolUse], path: str) -> str:
    name = _get(document, "name", str, path)
    call = next((call for call in calls if call.name == name), None)
    if call is None:
        _fail(f"{path}.name", f"no earlier function_call of {name!r}")
    calls.remove(call)
    return call.id


# --- replies ----------------------------------------------------------------------------------------------------------


def parse_assistant(document: Fields, path: str, new_id: Callable[[int], str]) -> AssistantMessage:
    """Read a reply. `new_id` makes the id of a `function_call`, which has none, from the index of the call."""
    fields = {name: value for name, value in document.items() if value is not None}
    if "blocks" in fields or "stored" in fields:
        return _parse_stored(fields, path)
    if fields.keys() <= {"role", "content"} and isinstance(fields.get("content"), str):
        return AssistantMessage((Text(fields["content"]),) if fields["content"] else ())
    try:
        return _AssistantReader(fields, path, new_id).message()
    except ValueError as exc:
        _fail(path, str(exc))


class _AssistantReader:
    """Reads one reply: checks it, so that each error has its path, and decodes it like the reply of a provider."""

    def __init__(self, fields: dict[str, Any], path: str, new_id: Callable[[int], str]) -> None:
        from tenuto.core.loss import Loss
        from tenuto.wire.assembler import ChoiceBuilder
        from tenuto.wire.chat.choice import ChoiceDecoder

        self._fields = fields
        self._path = path
        self._new_id = new_id
        self._losses: list[Loss] = []
        self._parts = ChoiceBuilder([], self._losses)
        self._state = ChoiceDecoder(self._parts, {}, new_id)

    def message(self) -> AssistantMessage:
        fields, path = self._fields, self._path
        fields.pop("role", None)
        for name in ("reasoning_content", "reasoning", "refusal"):
            _get(fields, name, str, path)
        self._take(fields, "reasoning_content", "reasoning", "reasoning_details")
        self._content()
        calls = [
            self._call(call, index, f"{path}.tool_calls[{index}]")
            for index, call in enumerate(_get_list(fields, "tool_calls", path))
        ]
        fields.pop("tool_calls", None)
        legacy = _get_object(fields, "function_call", path)
        fields.pop("function_call", None)
        if legacy is not None:
            function = self._function(legacy, "function", f"{path}.function_call")
            calls.append({"id": self._new_id(len(calls)), "type": "function", "function": function})
        self._take({"tool_calls": calls} if calls else {}, "tool_calls")
        self._take(fields, *fields)
        self._state.close()
        for loss in self._losses:
            if loss.kind != "broken-arguments":  # the call itself has this error
                _fail(path, f"{loss.kind}: {loss.detail}")
        blocks: list[Block] = list(self._parts.assembler.finalize())
        for index, block in enumerate(blocks):
            if legacy is not None and isinstance(block, ToolUse) and block.id == calls[-1]["id"]:
                blocks[index] = msgspec.structs.replace(block, id_generated=True)
        extra = self._state.extra()
        unknown = jsonio.members(extra) if extra else {}
        unknown.pop("content", None)  # present only because the content was empty or a list
        return AssistantMessage(tuple(blocks), extra=jsonio.object_text(unknown))

    def _take(self, fields: dict[str, Any], *names: str) -> None:
        encoded = {name: _encode(fields.pop(name), f"{self._path}.{name}") for name in names if name in fields}
        self._state.take({"role": Raw(b'"assistant"'), **encoded}, whole=True)

    def _content(self) -> None:
        if isinstance(self._fields.get("content"), str):
            self._take(self._fields, "content", "annotations")
            return
        parts = _get_list(self._fields, "content", self._path)
        self._fields.pop("content", None)
        for index, part in enumerate(parts):
            path = f"{self._path}.content[{index}]"
            if isinstance(part, Block):
                self._parts.add(part)
                continue
            rest, kind = _split_type(part, {"text": "text", "refusal": "refusal", "thinking": "thinking"}, path)
            if kind is None:
                self._parts.add(load_block(_encode(rest, path)))
            elif kind == "refusal":
                text = _get_text(rest, "refusal", path)
                del rest["refusal"]
                self._parts.add(Refusal(text, extra=_extra(rest, path)))
            elif kind == "text":
                _get_string(rest, "text", path)
                self._take({"content": [part]}, "content")
            elif isinstance(rest.get("thinking"), str):
                _fail(f"{path}.type", f"{_other_form(kind)}; {_EXPECTED}")
            else:
                self._take({"content": [part]}, "content")

    def _call(self, call: object, index: int, path: str) -> dict[str, Any]:
        """Return a call in its strict form: with an id, a type, and arguments as text."""
        if not isinstance(call, Mapping):
            _fail(path, f"expected a call, an object; got {_type_name(type(call))}")
        rest = {name: value for name, value in call.items() if value is not None}
        id, kind = _get_text(rest, "id", path), _get(rest, "type", str, path) or "function"
        if kind not in ("function", "custom"):
            _fail(f"{path}.type", f"unknown type {kind!r}: use function or custom")
        inner = _get_object(rest, kind, path)
        if inner is None:
            _fail(f"{path}.{kind}", "expected an object with the name and arguments of the call")
        if rest.get("index") == index:
            del rest["index"]
        return {**rest, "id": id, "type": kind, kind: self._function(inner, kind, f"{path}.{kind}")}

    def _function(self, inner: Fields, kind: str, path: str) -> dict[str, Any]:
        fields = {name: value for name, value in inner.items() if value is not None}
        _get_text(fields, "name", path)
        field = "input" if kind == "custom" else "arguments"
        args = fields.get(field, "")
        if isinstance(args, Mapping) and kind == "function":  # some hosts write the object itself
            fields[field] = jsonio.as_text(_encode(args, f"{path}.{field}"))
        elif not isinstance(args, str):
            _fail(f"{path}.{field}", f"expected a string, got {_type_name(type(args))}")
        return fields


# --- stored form ------------------------------------------------------------------------------------------------------


def to_message(message: AssistantMessage) -> dict[str, Any]:
    """Return a reply as a dictionary in the form of Chat Completions, for code that stores such dictionaries.

    `content`, `refusal` and `tool_calls` are the fields of that form. `blocks` and the other fields of the stored form have
    everything: passed to the client again, they give the same message. If plain values cannot express it exactly,
    `stored` has the text of the stored form.
    """
    stored = dump_message(message)
    document = {**jsonio.parse(stored), **_chat_fields(message)}
    try:
        is_exact = parse_assistant(document, "", str) == message
    except (TranscriptError, ValueError):
        is_exact = False
    return document if is_exact else {**document, "stored": jsonio.as_text(stored)}


def _chat_fields(message: AssistantMessage) -> dict[str, Any]:
    has_text = any(isinstance(block, Text) for block in message.blocks)
    fields: dict[str, Any] = {"role": "assistant", "content": str(message) if has_text else None}
    refusals = [block.text for block in message.blocks if isinstance(block, Refusal)]
    if refusals:
        fields["refusal"] = "".join(refusals)
    calls = [_call_fields(block) for block in message.blocks if isinstance(block, ToolUse)]
    return {**fields, "tool_calls": calls} if calls else fields


def _call_fields(block: ToolUse) -> dict[str, Any]:
    args = "input" if block.kind == "custom" else "arguments"
    return {"id": block.id, "type": block.kind, block.kind: {"name": block.name, args: block.args}}


def _parse_stored(fields: dict[str, Any], path: str) -> AssistantMessage:
    """Read a reply from its blocks. The other fields must agree with them."""
    chat_fields = {name: fields.pop(name) for name in ("content", "refusal", "tool_calls") if name in fields}
    stored = _get(fields, "stored", str, path)
    try:
        message = load_message(_stored_text(fields, path) if stored is None else stored)
        stored_fields = fields if stored is None else jsonio.parse(stored)
    except ValueError as exc:
        _fail(path, f"invalid stored form: {exc}")
    if not isinstance(message, AssistantMessage):
        _fail(f"{path}.stored", f"expected a reply, got a {type(message).__name__}")
    expected = {**stored_fields, "stored": stored, **_chat_fields(message)}
    for name, value in (fields | chat_fields).items():
        if expected.get(name) != value and value not in ("", []):
            _fail(f"{path}.{name}", "differs from the stored form next to it: change that, or omit it")
    return message


def _stored_text(fields: dict[str, Any], path: str) -> Raw:
    blocks = [
        _block_text(block, f"{path}.blocks[{index}]") for index, block in enumerate(_get_list(fields, "blocks", path))
    ]
    return _encode({**fields, "role": "assistant", "blocks": blocks}, path)


def _block_text(block: object, path: str) -> Raw:
    if isinstance(block, Block):
        return Raw(dump_block(block))
    if not isinstance(block, Mapping) or not isinstance(block.get("block_type"), str):
        _fail(path, "expected a block in its stored form: an object with a block_type")
    return _encode(block, path)
