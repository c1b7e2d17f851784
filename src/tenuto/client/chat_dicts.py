"""Messages as dictionaries, in the shape of Chat Completions, and back.

Nothing is dropped in silence. An unknown field of a reply, of a tool result or of a part that is not text is kept in
`extra`. Any other unknown field, role or part is a `TranscriptError` that names it. Null means that nothing was given.
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

__all__ = ["parse_assistant", "parse_result", "parse_system", "parse_user", "role_of", "to_message"]

T = TypeVar("T")
Fields = Mapping[str, Any]

_EXPECTED = "messages here have the shape of Chat Completions"
_ELSEWHERE = {
    "Anthropic Messages": ("image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking"),
    "Responses": ("input_text", "input_image", "input_file", "output_text", "summary_text"),
}
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_SOUNDS = {"mp3": "audio/mpeg"}
_LIFETIMES = ("5m", "1h")
_TEXT_FIELDS = ("type", "text", "cache", "cache_control")
_WORDS: dict[type, str] = {str: "a string", dict: "an object", list: "a list", bool: "true or false"}


def refuse(place: str, what: str) -> NoReturn:
    """Say what is wrong, and where."""
    raise TranscriptError(f"{place}: {what}")


def field(document: Fields, name: str, kind: type[T], place: str) -> T | None:
    """Return a field; None where it is absent or null; raise `TranscriptError` if it is no `kind`."""
    value = document.get(name)
    if value is not None and not isinstance(value, kind):
        refuse(f"{place}.{name}", f"expected {_word(kind)}, got {_word(type(value))}")
    return value


def _string(document: Fields, name: str, place: str) -> str:
    value = field(document, name, str, place)
    return refuse(f"{place}.{name}", "a string must stand here") if value is None else value


def _needed(document: Fields, name: str, place: str) -> str:
    return _string(document, name, place) or refuse(f"{place}.{name}", "it is empty")


def _listed(document: Fields, name: str, place: str) -> list[Any]:
    value = document.get(name)
    if value is not None and not isinstance(value, list | tuple):
        refuse(f"{place}.{name}", f"expected a list, got {_word(type(value))}")
    return list(value or ())


def _object(document: Fields, name: str, place: str) -> Fields | None:
    value = document.get(name)
    if value is not None and not isinstance(value, Mapping):
        refuse(f"{place}.{name}", f"expected an object, got {_word(type(value))}")
    return value


def _word(kind: type) -> str:
    return _WORDS.get(kind, kind.__name__)


def _only(document: Fields, known: Collection[str], what: str, place: str) -> None:
    for name, value in document.items():
        if name not in known and value is not None:
            refuse(f"{place}.{name}", f"{what} has no such field; it has {', '.join(known)}")


def _written(value: object, place: str) -> Raw:
    try:
        return jsonio.check(jsonio.encode(value))
    except (TypeError, ValueError) as exc:
        refuse(place, f"it is no JSON: {exc}")


def _extra(rest: Fields, place: str) -> str:
    return jsonio.object_text({name: _written(value, f"{place}.{name}") for name, value in rest.items()})


def role_of(document: Fields, place: str) -> str:
    """Return the role; raise `TranscriptError` if there is none, or nobody knows it."""
    if "parts" in document and "content" not in document:
        refuse(f"{place}.parts", f"this is the shape of Gemini; {_EXPECTED}")
    role = field(document, "role", str, place)
    if role is None:
        kind = document.get("type")
        item = f"; a {kind!r} item is of the shape of Responses" if isinstance(kind, str) else ""
        refuse(f"{place}.role", f"a message has a role ({', '.join(_ROLES)}){item}")
    if role not in _ROLES:
        refuse(f"{place}.role", f"{role!r} is not known here; there are {', '.join(_ROLES)}")
    return role


# --- parts ------------------------------------------------------------------------------------------------------------


def _contents(document: Fields, place: str) -> str | tuple[Content, ...] | None:
    """Read the content: words, or parts."""
    content = document.get("content")
    if content is None or isinstance(content, str):
        return content
    parts = [content] if isinstance(content, Content) else _listed(document, "content", place)
    return tuple(_part(part, f"{place}.content[{at}]") for at, part in enumerate(parts))


def _part(part: object, place: str) -> Content:
    if isinstance(part, Content):
        return part
    rest, read = _typed(part, _PARTS, place)
    if read is None:
        block = load_block(_written(part, place))
        return (
            block if isinstance(block, Content) else refuse(place, f"a {type(block).__name__} is not said to a model")
        )
    try:
        block = read(rest, place)
    except ValueError as exc:
        refuse(place, str(exc))
    if not isinstance(block, Audio) and (lifetime := _lifetime(rest, place)):
        block = msgspec.structs.replace(block, cache=lifetime)
    if isinstance(block, Text):
        _only(rest, _TEXT_FIELDS, "a text part", place)
        return block
    return msgspec.structs.replace(block, extra=_extra(rest, place)) if rest else block


def _lifetime(rest: dict[str, Any], place: str) -> str:
    """Take the lifetime of the cache off a part: from `cache`, or from `cache_control` as Anthropic has it."""
    plain, hint = field(rest, "cache", str, place), _object(rest, "cache_control", place)
    for name in ("cache", "cache_control"):
        rest.pop(name, None)
    if plain is not None and plain not in _LIFETIMES:
        refuse(f"{place}.cache", f"{plain!r} is not known; there are {', '.join(_LIFETIMES)}")
    if hint is None:
        return plain or ""
    _only(hint, ("type", "ttl"), "a cache_control", f"{place}.cache_control")
    ttl = hint.get("ttl") or _LIFETIMES[0]
    if hint.get("type") != "ephemeral" or ttl not in _LIFETIMES:
        refuse(f"{place}.cache_control", f"the type is ephemeral, the ttl one of {', '.join(_LIFETIMES)}")
    return plain or str(ttl)


def _typed(part: object, known: Mapping[str, T], place: str) -> tuple[dict[str, Any], T | None]:
    """Return the fields of a part, and what reads its type; None for a block in its stored form."""
    if not isinstance(part, Mapping):
        refuse(place, f"expected a part, an object with a type; got {_word(type(part))}")
    rest = dict(part)
    kind = rest.pop("type", None)
    if kind is None and "block_type" in rest:
        return rest, None
    if isinstance(kind, str) and kind in known:
        return rest, known[kind]
    said = "a part has a type" if kind is None else f"{kind!r} is not known here"
    refuse(f"{place}.type", f"{_foreign(kind) or said}; {_EXPECTED}: {', '.join(known)}")


def _foreign(kind: object) -> str:
    return next((f"{kind!r} is of the shape of {api}" for api, kinds in _ELSEWHERE.items() if kind in kinds), "")


def _text(rest: dict[str, Any], place: str) -> Text:
    text = Text(_string(rest, "text", place))
    del rest["text"]
    return text


def _image(rest: dict[str, Any], place: str) -> Image:
    inner = rest.pop("image_url", None)
    inner, place = {"url": inner} if isinstance(inner, str) else inner, f"{place}.image_url"
    if not isinstance(inner, Mapping):
        refuse(place, "an object with a url must stand here")
    _only(inner, ("url", "detail"), "an image_url", place)
    url, detail = _needed(inner, "url", place), field(inner, "detail", str, place) or ""
    held = media_types.parse_data_url(url)
    image = Image(url=url) if held is None else Image.from_bytes(*held)
    return msgspec.structs.replace(image, detail=detail) if detail else image


def _sound(rest: dict[str, Any], place: str) -> Audio:
    inner, place = _object(rest, "input_audio", place) or {}, f"{place}.input_audio"
    rest.pop("input_audio", None)
    _only(inner, ("data", "format"), "an input_audio", place)
    kind = _needed(inner, "format", place)
    data = _needed(inner, "data", place)
    held = media_types.parse_data_url(data)
    return Audio(data, _SOUNDS.get(kind, f"audio/{kind}")) if held is None else Audio.from_bytes(*held)


def _file(rest: dict[str, Any], place: str) -> Document:
    inner, place = _object(rest, "file", place) or {}, f"{place}.file"
    rest.pop("file", None)
    _only(inner, ("file_data", "filename", "file_id"), "a file", place)
    told, title = field(inner, "file_data", str, place) or "", field(inner, "filename", str, place) or ""
    file_id = field(inner, "file_id", str, place) or ""
    if not (told or file_id):
        refuse(place, "file_data or file_id must stand here")
    held = media_types.parse_data_url(told)
    if held is None:
        return Document(told, media_types.type_from_name(title) if told else "", file_id=file_id, title=title)
    data, mime = held
    mime = mime or media_types.detect_type(data) or media_types.type_from_name(title)
    return Document(media_types.to_base64(data), mime, file_id=file_id, title=title)


_PARTS: dict[str, Callable[[dict[str, Any], str], Text | Image | Audio | Document]] = {
    "text": _text,
    "image_url": _image,
    "input_audio": _sound,
    "file": _file,
}


# --- what is said to a model ------------------------------------------------------------------------------------------


def parse_system(document: Fields, place: str) -> SystemMessage:
    """Read instructions."""
    _only(document, ("role", "content"), "a system message", place)
    content = _contents(document, place)
    if content is None:
        refuse(f"{place}.content", "a string or a list of parts must stand here")
    if isinstance(content, str):
        return SystemMessage(content)
    return SystemMessage(tuple(_words(part, f"{place}.content[{at}]") for at, part in enumerate(content)))


def _words(part: Content, place: str) -> Text:
    return part if isinstance(part, Text) else refuse(place, f"instructions are text; this is {type(part).__name__}")


def parse_user(document: Fields, place: str) -> UserMessage:
    """Read what a user says and shows."""
    _only(document, ("role", "content", "name"), "a user message", place)
    content = _contents(document, place)
    if content is None:
        refuse(f"{place}.content", "a string or a list of parts must stand here")
    return UserMessage(content, field(document, "name", str, place) or "")


def parse_result(document: Fields, names: Mapping[str, str], unnamed: list[ToolUse] | None, place: str) -> ToolResult:
    """Read a tool's answer. `names` are those of the calls before it, by id; that it names its call again is not kept.

    An answer of the older form names the function alone: it answers the first of the `unnamed` calls that fits.
    """
    if unnamed is None:
        id = field(document, "tool_call_id", str, place)
        if not id:
            refuse(f"{place}.tool_call_id", "a tool's answer names the call that it answers")
    else:
        id = _answered(document, unnamed, place)
    content = _contents(document, place)
    known = ("role", "content", "tool_call_id", "is_error")
    rest = {key: value for key, value in document.items() if key not in known and value is not None}
    if rest.get("name") == names.get(id, ""):
        rest.pop("name", None)
    failed = field(document, "is_error", bool, place) or False
    return ToolResult(id, "" if content is None else content, failed, _extra(rest, place))


def _answered(document: Fields, unnamed: list[ToolUse], place: str) -> str:
    name = field(document, "name", str, place)
    call = next((call for call in unnamed if call.name == name), None)
    if call is None:
        refuse(f"{place}.name", f"no function_call before it is of {name!r}")
    unnamed.remove(call)
    return call.id


# --- what a model said ------------------------------------------------------------------------------------------------


def parse_assistant(document: Fields, place: str, mint: Callable[[int], str]) -> AssistantMessage:
    """Read a reply. `mint` names the call of the older form, which has no id; its place in the list is given."""
    said = {name: value for name, value in document.items() if value is not None}
    if "blocks" in said or "stored" in said:
        return _stored(said, place)
    if said.keys() <= {"role", "content"} and isinstance(said.get("content"), str):
        return AssistantMessage((Text(said["content"]),) if said["content"] else ())
    try:
        return _AssistantReader(said, place, mint).message()
    except ValueError as exc:
        refuse(place, str(exc))


class _AssistantReader:
    """One reply being read: checked here, so that each fault has its place, and taken apart as a provider's reply is."""

    def __init__(self, said: dict[str, Any], place: str, mint: Callable[[int], str]) -> None:
        from tenuto.core.loss import Loss
        from tenuto.wire.chat.choice import ChoiceDecoder
        from tenuto.wire.choice_builder import ChoiceBuilder

        self._said = said
        self._place = place
        self._mint = mint
        self._losses: list[Loss] = []
        self._parts = ChoiceBuilder([], self._losses)
        self._state = ChoiceDecoder(self._parts, {}, mint)

    def message(self) -> AssistantMessage:
        said, place = self._said, self._place
        said.pop("role", None)
        for name in ("reasoning_content", "reasoning", "refusal"):
            field(said, name, str, place)
        self._take(said, "reasoning_content", "reasoning", "reasoning_details")
        self._content()
        calls = [
            self._call(call, at, f"{place}.tool_calls[{at}]")
            for at, call in enumerate(_listed(said, "tool_calls", place))
        ]
        said.pop("tool_calls", None)
        legacy = _object(said, "function_call", place)
        said.pop("function_call", None)
        if legacy is not None:
            function = self._function(legacy, "function", f"{place}.function_call")
            calls.append({"id": self._mint(len(calls)), "type": "function", "function": function})
        self._take({"tool_calls": calls} if calls else {}, "tool_calls")
        self._take(said, *said)
        self._state.close()
        self._refuse_losses()
        blocks = tuple(self._parts.assembler.finalize())
        if legacy is not None:
            blocks = tuple(_minted(block, calls[-1]["id"]) for block in blocks)
        return AssistantMessage(blocks, extra=self._rest())

    def _take(self, said: dict[str, Any], *names: str) -> None:
        fields = {name: _written(said.pop(name), f"{self._place}.{name}") for name in names if name in said}
        self._state.take({"role": Raw(b'"assistant"'), **fields}, whole=True)

    def _content(self) -> None:
        if isinstance(self._said.get("content"), str):
            self._take(self._said, "content", "annotations")
            return
        parts = _listed(self._said, "content", self._place)
        self._said.pop("content", None)
        for at, part in enumerate(parts):
            place = f"{self._place}.content[{at}]"
            if isinstance(part, Block):
                self._parts.add(part)
                continue
            rest, kind = _typed(part, {"text": "text", "refusal": "refusal", "thinking": "thinking"}, place)
            if kind is None:
                self._parts.add(load_block(_written(rest, place)))
            elif kind == "refusal":
                text = _needed(rest, "refusal", place)
                del rest["refusal"]
                self._parts.add(Refusal(text, extra=_extra(rest, place)))
            elif kind == "text":
                _string(rest, "text", place)
                self._take({"content": [part]}, "content")
            elif isinstance(rest.get("thinking"), str):
                refuse(f"{place}.type", f"{_foreign(kind)}; {_EXPECTED}")
            else:
                self._take({"content": [part]}, "content")

    def _call(self, call: object, at: int, place: str) -> dict[str, Any]:
        """Write a call the strict way: with an id, a type, and arguments that are a text."""
        if not isinstance(call, Mapping):
            refuse(place, f"expected a call, an object; got {_word(type(call))}")
        rest = {name: value for name, value in call.items() if value is not None}
        id, kind = _needed(rest, "id", place), field(rest, "type", str, place) or "function"
        if kind not in ("function", "custom"):
            refuse(f"{place}.type", f"{kind!r} is not known here; a call is of type function or custom")
        inner = _object(rest, kind, place)
        if inner is None:
            refuse(f"{place}.{kind}", "an object with the name and arguments of the call must stand here")
        if rest.get("index") == at:
            del rest["index"]
        return {**rest, "id": id, "type": kind, kind: self._function(inner, kind, f"{place}.{kind}")}

    def _function(self, inner: Fields, kind: str, place: str) -> dict[str, Any]:
        found = {name: value for name, value in inner.items() if value is not None}
        _needed(found, "name", place)
        word = "input" if kind == "custom" else "arguments"
        given = found.get(word, "")
        if isinstance(given, Mapping) and kind == "function":  # some hosts write the object itself
            found[word] = jsonio.as_text(_written(given, f"{place}.{word}"))
        elif not isinstance(given, str):
            refuse(f"{place}.{word}", f"expected a string, got {_word(type(given))}")
        return found

    def _refuse_losses(self) -> None:
        for loss in self._losses:
            if loss.kind != "broken-arguments":  # that one stands on the call itself
                refuse(self._place, f"{loss.kind}: {loss.detail}")

    def _rest(self) -> str:
        extra = self._state.extra()
        fields = jsonio.members(extra) if extra else {}
        fields.pop("content", None)  # only says that the content was empty, or a list
        return jsonio.object_text(fields)


def _minted(block: Any, id: str) -> Any:
    own = isinstance(block, ToolUse) and block.id == id
    return msgspec.structs.replace(block, id_generated=True) if own else block


# --- there and back ---------------------------------------------------------------------------------------------------


def to_message(message: AssistantMessage) -> dict[str, Any]:
    """Write a reply as a dictionary in the shape of Chat Completions, for code that keeps such dictionaries.

    `content`, `refusal` and `tool_calls` show what that shape can say. `blocks`, and the other fields of the stored form,
    hold everything; given back to the client, they make the same message. `stored` is there only where plain values
    cannot say it exactly, and holds the text of the stored form.
    """
    stored = dump_message(message)
    found = {**jsonio.parse(stored), **_view(message)}
    return found if _read_back(found) == message else {**found, "stored": jsonio.as_text(stored)}


def _read_back(document: Fields) -> AssistantMessage | None:
    try:
        return parse_assistant(document, "", str)
    except (TranscriptError, ValueError):
        return None


def _view(message: AssistantMessage) -> dict[str, Any]:
    refusals = [block.text for block in message.blocks if isinstance(block, Refusal)]
    calls = [_shown(block) for block in message.blocks if isinstance(block, ToolUse)]
    spoken = any(isinstance(block, Text) for block in message.blocks)
    view: dict[str, Any] = {"role": "assistant", "content": str(message) if spoken else None}
    if refusals:
        view["refusal"] = "".join(refusals)
    return {**view, "tool_calls": calls} if calls else view


def _shown(block: ToolUse) -> dict[str, Any]:
    if block.kind == "custom":
        return {"id": block.id, "type": "custom", "custom": {"name": block.name, "input": block.args}}
    return {"id": block.id, "type": "function", "function": {"name": block.name, "arguments": block.args}}


def _stored(said: dict[str, Any], place: str) -> AssistantMessage:
    """Read a reply by its blocks. What stands beside them must say the same."""
    views = {name: said.pop(name) for name in ("content", "refusal", "tool_calls") if name in said}
    exact = field(said, "stored", str, place)
    try:
        message = load_message(_stored_text(said, place) if exact is None else exact)
        beside = said if exact is None else jsonio.parse(exact)
    except ValueError as exc:
        refuse(place, f"its stored form cannot be read: {exc}")
    if not isinstance(message, AssistantMessage):
        refuse(f"{place}.stored", f"this is a {type(message).__name__}, not a reply")
    told = {**beside, "stored": exact, **_view(message)}
    for name, value in (said | views).items():
        if told.get(name) != value and value not in ("", []):
            refuse(f"{place}.{name}", "it differs from the stored form beside it: change that, or leave it out")
    return message


def _stored_text(said: dict[str, Any], place: str) -> Raw:
    blocks = [_block(block, f"{place}.blocks[{at}]") for at, block in enumerate(_listed(said, "blocks", place))]
    return _written({**said, "role": "assistant", "blocks": blocks}, place)


def _block(block: object, place: str) -> Raw:
    if isinstance(block, Block):
        return Raw(dump_block(block))
    if not isinstance(block, Mapping) or not isinstance(block.get("block_type"), str):
        refuse(place, "expected a block in its stored form, an object with a block_type")
    return _written(block, place)
