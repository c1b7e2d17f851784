"""Convert messages from and to dictionaries in the form of Chat Completions.

An unknown field of a reply, of a tool result or of a part other than text is stored in `extra`. Any other unknown field,
role or part raises `TranscriptError`. A field that is null counts as absent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn, TypeVar, cast

import msgspec
from msgspec import Raw

from tenuto.core import jsonio, media_types
from tenuto.core.blocks import Audio, Block, Document, Image, Refusal, Text, ToolUse
from tenuto.core.messages import AssistantMessage, Content, Message, SystemMessage, ToolResult, UserMessage
from tenuto.core.stored import dump_block, dump_message, load_block, load_message
from tenuto.errors import TranscriptError
from tenuto.wire.decoder import new_id

T = TypeVar("T")

_EXPECTED = "messages must have the form of Chat Completions"
_OTHER_FORMS = {
    "Anthropic Messages": ("image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking"),
    "Responses": ("input_text", "input_image", "input_file", "output_text", "summary_text"),
}
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_AUDIO_TYPES = {"mp3": "audio/mpeg"}
_CACHE_TIMES = ("5m", "1h")
_TEXT_FIELDS = ("type", "text", "cache", "cache_control")
_KINDS: dict[str, Any] = {"a string": str, "an object": Mapping, "a list": list | tuple, "true or false": bool}


def _fail(path: str, problem: str) -> NoReturn:
    raise TranscriptError(f"{path}: {problem}")


def _kind_of(value: object) -> str:
    return next((kind for kind, types in _KINDS.items() if isinstance(value, types)), type(value).__name__)


def _encode(value: object, path: str) -> Raw:
    try:
        return jsonio.check(jsonio.encode(value))
    except (TypeError, ValueError) as exc:
        _fail(path, f"cannot be written as JSON: {exc}")


class _Fields(dict[str, Any]):
    """The fields of an object that are not null, and the path of the object. `take` removes the field that it returns."""

    def __init__(self, document: Mapping[str, Any], path: str) -> None:
        super().__init__({name: value for name, value in document.items() if value is not None})
        self.path = path

    def fail(self, name: str, problem: str) -> NoReturn:
        _fail(f"{self.path}.{name}", problem)

    def read(self, name: str, kind: str = "a string") -> Any:
        """Return a field, or None if it is absent. Raise `TranscriptError` for a value of another kind."""
        value = self.get(name)
        if value is not None and not isinstance(value, _KINDS[kind]):
            self.fail(name, f"expected {kind}, got {_kind_of(value)}")
        return value

    def take(self, name: str, kind: str = "a string") -> Any:
        value = self.read(name, kind)
        self.pop(name, None)
        return value

    def take_text(self, name: str, *, empty: bool = False) -> str:
        """Return a string that must be there and, unless `empty`, must not be empty."""
        text: str | None = self.take(name)
        if text is None:
            self.fail(name, "a string is missing")
        return text if text or empty else self.fail(name, "must not be empty")

    def take_object(self, name: str, known: Collection[str]) -> _Fields:
        """Return the fields of an inner object, none if it is absent. Other fields than the known ones are refused."""
        inner = _Fields(self.take(name, "an object") or {}, f"{self.path}.{name}")
        inner.refuse_others(known, f"{'an' if name[0] in 'aeiou' else 'a'} {name}")
        return inner

    def refuse_others(self, known: Collection[str], what: str) -> None:
        for name in self:
            if name not in known:
                self.fail(name, f"unknown field of {what}; known fields: {', '.join(known)}")

    def extra(self) -> str:
        return jsonio.object_text({name: _encode(value, f"{self.path}.{name}") for name, value in self.items()})


def parse_message(document: Mapping[str, Any], index: int, calls: dict[str, ToolUse]) -> Message | ToolResult:
    """Read a message or a tool result. `calls` are the earlier calls by id; a result may need the name of its call."""
    fields = _Fields(document, f"messages[{index}]")
    if "parts" in fields and "content" not in fields:
        fields.fail("parts", f"a message in the form of Gemini; {_EXPECTED}")
    role = fields.take("role")
    if role is None:
        kind = fields.get("type")
        item = f"; an item {kind!r} has the form of Responses" if isinstance(kind, str) else ""
        fields.fail("role", f"the role is missing: use {', '.join(_ROLES)}{item}")
    if role not in _ROLES:
        fields.fail("role", f"unknown role {role!r}: use {', '.join(_ROLES)}")
    if role == "assistant":
        return _parse_assistant(fields, lambda call: new_id("messages", str(index), 0, call))
    if role in ("tool", "function"):
        return _parse_result(fields, calls, has_id=role == "tool")
    known = ("role", "content", "name") if role == "user" else ("role", "content")
    fields.refuse_others(known, "a user message" if role == "user" else "a system message")
    content = _take_content(fields)
    if content is None:
        fields.fail("content", "expected a string or a list of parts")
    if role == "user":
        return UserMessage(content, fields.take("name") or "")
    for number, part in enumerate(() if isinstance(content, str) else content):
        if not isinstance(part, Text):
            fields.fail(f"content[{number}]", f"a system message must be text, not {type(part).__name__}")
    return SystemMessage(cast("str | tuple[Text, ...]", content))


def _parse_result(fields: _Fields, calls: dict[str, ToolUse], *, has_id: bool) -> ToolResult:
    """Read a tool result. The role `function` has no id: it is for the first call of its name in the last reply."""
    id = fields.take("tool_call_id")
    if has_id:
        if not id:
            fields.fail("tool_call_id", "the id of the call is missing")
        call = calls.get(id)
    else:
        name = fields.read("name")
        call = next((call for call in calls.values() if call.id_generated and call.name == name), None)
        if call is None:
            fields.fail("name", f"no earlier function_call of {name!r}")
        id = call.id
        del calls[id]
    content, failed = _take_content(fields), fields.take("is_error", "true or false")
    if fields.get("name") == (call.name if call is not None else ""):
        fields.pop("name", None)
    return ToolResult(id, content or "", failed or False, fields.extra())


# --- parts ------------------------------------------------------------------------------------------------------------


def _take_content(fields: _Fields) -> str | tuple[Content, ...] | None:
    """Return the content: a string or parts; None if it is absent."""
    content = fields.get("content")
    if isinstance(content, Content):
        fields["content"] = [content]
    if content is None or isinstance(content, str):
        return cast("str | None", fields.take("content"))
    path, parts = f"{fields.path}.content", fields.take("content", "a list")
    return tuple(_parse_part(part, f"{path}[{index}]") for index, part in enumerate(parts))


def _parse_part(part: object, path: str) -> Content:
    if isinstance(part, Content):
        return part
    rest, parse = _split_type(part, _PARTS, path)
    if parse is None:
        stored = load_block(_encode(part, path))
        if not isinstance(stored, Content):
            _fail(path, f"a block {type(stored).__name__} is not allowed in this message")
        return stored
    try:
        block = parse(rest)
    except ValueError as exc:
        _fail(path, str(exc))
    if not isinstance(block, Audio) and (cache_time := _take_cache_time(rest)):
        block = msgspec.structs.replace(block, cache=cache_time)
    if isinstance(block, Text):
        rest.refuse_others(_TEXT_FIELDS, "a text part")
        return block
    return msgspec.structs.replace(block, extra=rest.extra()) if rest else block


def _take_cache_time(rest: _Fields) -> str:
    """Remove the cache time from a part: `cache`, or `cache_control` as in Anthropic's API."""
    cache = rest.take("cache")
    if cache is not None and cache not in _CACHE_TIMES:
        rest.fail("cache", f"unknown time {cache!r}: use {', '.join(_CACHE_TIMES)}")
    if "cache_control" not in rest:
        return cache or ""
    control = rest.take_object("cache_control", ("type", "ttl"))
    ttl = control.get("ttl") or _CACHE_TIMES[0]
    if control.get("type") != "ephemeral" or ttl not in _CACHE_TIMES:
        rest.fail("cache_control", f"the type must be ephemeral, the ttl {' or '.join(_CACHE_TIMES)}")
    return cache or str(ttl)


def _split_type(part: object, known: Mapping[str, T], path: str) -> tuple[_Fields, T | None]:
    """Return the fields of a part, and the entry of `known` for its type; None for a block in its stored form."""
    if not isinstance(part, Mapping):
        _fail(path, f"expected a part, an object with a type; got {_kind_of(part)}")
    rest = _Fields(part, path)
    kind = rest.pop("type", None)
    if kind is None and "block_type" in rest:
        return rest, None
    if isinstance(kind, str) and kind in known:
        return rest, known[kind]
    problem = "the type is missing" if kind is None else f"unknown type {kind!r}"
    _fail(f"{path}.type", f"{_other_form(kind) or problem}; {_EXPECTED}: {', '.join(known)}")


def _other_form(kind: object) -> str:
    return next((f"{kind!r} has the form of {api}" for api, kinds in _OTHER_FORMS.items() if kind in kinds), "")


def _parse_image(rest: _Fields) -> Image:
    if isinstance(rest.get("image_url"), str):
        rest["image_url"] = {"url": rest["image_url"]}
    inner = rest.take_object("image_url", ("url", "detail"))
    url, detail = inner.take_text("url"), inner.take("detail")
    content = media_types.parse_data_url(url)
    image = Image(url=url) if content is None else Image.from_bytes(*content)
    return msgspec.structs.replace(image, detail=detail) if detail else image


def _parse_audio(rest: _Fields) -> Audio:
    inner = rest.take_object("input_audio", ("data", "format"))
    kind, data = inner.take_text("format"), inner.take_text("data")
    content = media_types.parse_data_url(data)
    return Audio(data, _AUDIO_TYPES.get(kind, f"audio/{kind}")) if content is None else Audio.from_bytes(*content)


def _parse_file(rest: _Fields) -> Document:
    names = ("file_data", "filename", "file_id")
    inner = rest.take_object("file", names)
    data, title, file_id = (inner.take(name) or "" for name in names)
    if not (data or file_id):
        rest.fail("file", "file_data or file_id is missing")
    mime = ""
    content = media_types.parse_data_url(data)
    if content is not None:
        mime, data = content[1] or media_types.detect_type(content[0]) or "", media_types.to_base64(content[0])
    return Document(data, mime or (media_types.type_from_name(title) if data else ""), file_id=file_id, title=title)


_PARTS: dict[str, Callable[[_Fields], Text | Image | Audio | Document]] = {
    "text": lambda rest: Text(rest.take_text("text", empty=True)),
    "image_url": _parse_image,
    "input_audio": _parse_audio,
    "file": _parse_file,
}


# --- replies ----------------------------------------------------------------------------------------------------------


def _parse_assistant(fields: _Fields, new_id: Callable[[int], str]) -> AssistantMessage:
    """Read a reply. `new_id` makes the id of a `function_call`, which has none, from the index of the call."""
    fields.pop("role", None)
    if "blocks" in fields or "stored" in fields:
        return _parse_stored(fields)
    if fields.keys() <= {"content"} and isinstance(fields.get("content"), str):
        return AssistantMessage((Text(fields["content"]),) if fields["content"] else ())
    try:
        return _AssistantReader(fields, new_id).message()
    except ValueError as exc:
        _fail(fields.path, str(exc))


class _AssistantReader:
    """Reads one reply: checks it, so that each error has its path, and decodes it like the reply of a provider."""

    def __init__(self, fields: _Fields, new_id: Callable[[int], str]) -> None:
        from tenuto.core.loss import Loss
        from tenuto.wire.assembler import ChoiceBuilder
        from tenuto.wire.chat.choice import ChoiceDecoder

        self._fields = fields
        self._new_id = new_id
        self._losses: list[Loss] = []
        self._parts = ChoiceBuilder([], self._losses)
        self._state = ChoiceDecoder(self._parts, {}, new_id)

    def message(self) -> AssistantMessage:
        fields = self._fields
        for name in ("reasoning_content", "reasoning", "refusal"):
            fields.read(name)
        self._decode(fields, "reasoning_content", "reasoning", "reasoning_details")
        self._content()
        given = fields.take("tool_calls", "a list") or ()
        calls = [self._call(call, index) for index, call in enumerate(given)]
        legacy = fields.take("function_call", "an object")
        if legacy is not None:
            function = self._function(_Fields(legacy, f"{fields.path}.function_call"), "function")
            calls.append({"id": self._new_id(len(calls)), "type": "function", "function": function})
        self._decode({"tool_calls": calls} if calls else {}, "tool_calls")
        self._decode(fields, *fields)
        self._state.close()
        for loss in self._losses:
            if loss.kind != "broken-arguments":  # the call itself has this error
                _fail(fields.path, f"{loss.kind}: {loss.detail}")
        blocks: list[Block] = list(self._parts.assembler.finalize())
        for index, block in enumerate(blocks):
            if legacy is not None and isinstance(block, ToolUse) and block.id == calls[-1]["id"]:
                blocks[index] = msgspec.structs.replace(block, id_generated=True)
        extra = self._state.extra()
        unknown = jsonio.members(extra) if extra else {}
        unknown.pop("content", None)  # present only because the content was empty or a list
        return AssistantMessage(tuple(blocks), extra=jsonio.object_text(unknown))

    def _decode(self, fields: dict[str, Any], *names: str) -> None:
        path = self._fields.path
        encoded = {name: _encode(fields.pop(name), f"{path}.{name}") for name in names if name in fields}
        self._state.take({"role": Raw(b'"assistant"'), **encoded}, whole=True)

    def _content(self) -> None:
        if isinstance(self._fields.get("content"), str):
            self._decode(self._fields, "content", "annotations")
            return
        for index, part in enumerate(self._fields.take("content", "a list") or ()):
            path = f"{self._fields.path}.content[{index}]"
            if isinstance(part, Block):
                self._parts.add(part)
                continue
            rest, kind = _split_type(part, {"text": "text", "refusal": "refusal", "thinking": "thinking"}, path)
            if kind is None:
                self._parts.add(load_block(_encode(part, path)))
            elif kind == "refusal":
                self._parts.add(Refusal(rest.take_text("refusal"), extra=rest.extra()))
            elif kind == "thinking" and isinstance(rest.get("thinking"), str):
                rest.fail("type", f"{_other_form(kind)}; {_EXPECTED}")
            else:
                if kind == "text":
                    rest.take_text("text", empty=True)
                self._decode({"content": [part]}, "content")

    def _call(self, call: object, index: int) -> dict[str, Any]:
        """Return a call in its strict form: with an id, a type, and arguments as text."""
        path = f"{self._fields.path}.tool_calls[{index}]"
        if not isinstance(call, Mapping):
            _fail(path, f"expected a call, an object; got {_kind_of(call)}")
        rest = _Fields(call, path)
        id, kind = rest.take_text("id"), rest.take("type") or "function"
        if kind not in ("function", "custom"):
            rest.fail("type", f"unknown type {kind!r}: use function or custom")
        inner = rest.take(kind, "an object")
        if inner is None:
            rest.fail(kind, "expected an object with the name and arguments of the call")
        if rest.get("index") == index:
            del rest["index"]
        return {**rest, "id": id, "type": kind, kind: self._function(_Fields(inner, f"{path}.{kind}"), kind)}

    def _function(self, fields: _Fields, kind: str) -> dict[str, Any]:
        name = fields.take_text("name")
        field = "input" if kind == "custom" else "arguments"
        args = fields.get(field, "")
        if isinstance(args, Mapping) and kind == "function":  # some hosts write the object itself
            fields[field] = jsonio.as_text(_encode(args, f"{fields.path}.{field}"))
        fields.read(field)
        return {"name": name, **fields}


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
        is_exact = _parse_assistant(_Fields(document, ""), str) == message
    except (TranscriptError, ValueError):
        is_exact = False
    return document if is_exact else {**document, "stored": jsonio.as_text(stored)}


def _chat_fields(message: AssistantMessage) -> dict[str, Any]:
    has_text = any(isinstance(block, Text) for block in message.blocks)
    fields: dict[str, Any] = {"role": "assistant", "content": str(message) if has_text else None}
    refusals = [block.text for block in message.blocks if isinstance(block, Refusal)]
    if refusals:
        fields["refusal"] = "".join(refusals)
    calls = []
    for block in message.blocks:
        if isinstance(block, ToolUse):
            function = {"name": block.name, "input" if block.kind == "custom" else "arguments": block.args}
            calls.append({"id": block.id, "type": block.kind, block.kind: function})
    return {**fields, "tool_calls": calls} if calls else fields


def _parse_stored(fields: _Fields) -> AssistantMessage:
    """Read a reply from its blocks. The other fields must agree with them."""
    chat_fields = {name: fields.pop(name) for name in ("content", "refusal", "tool_calls") if name in fields}
    stored = fields.read("stored")
    try:
        message = load_message(_stored_text(fields) if stored is None else stored)
        stored_fields = fields if stored is None else jsonio.parse(stored)
    except ValueError as exc:
        _fail(fields.path, f"invalid stored form: {exc}")
    if not isinstance(message, AssistantMessage):
        fields.fail("stored", f"expected a reply, got a {type(message).__name__}")
    expected = {**stored_fields, "stored": stored, **_chat_fields(message)}
    for name, value in (fields | chat_fields).items():
        if expected.get(name) != value and value not in ("", []):
            fields.fail(name, "differs from the stored form next to it: change that, or omit it")
    return message


def _stored_text(fields: _Fields) -> Raw:
    blocks = []
    for index, block in enumerate(fields.read("blocks", "a list") or ()):
        if isinstance(block, Block):
            blocks.append(Raw(dump_block(block)))
        elif isinstance(block, Mapping) and isinstance(block.get("block_type"), str):
            blocks.append(_encode(block, f"{fields.path}.blocks[{index}]"))
        else:
            fields.fail(f"blocks[{index}]", "expected a block in its stored form: an object with a block_type")
    return _encode({**fields, "role": "assistant", "blocks": blocks}, fields.path)
