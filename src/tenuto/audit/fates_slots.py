"""The places of a request's body where something of the transcript may stand, in the order of the body.

A slot has a pointer and the keys under which it can be found: a call's id, a token, a text, the payload of a picture.
Whatever has another shape than we write is passed over: a caller may put anything into a body.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from tenuto.audit.dialects import dialect_for
from tenuto.core import jsonio
from tenuto.core.provider import Dialect

Stream: TypeAlias = str
"""Who speaks: `said` (the model), `asked` (the user), `system`, or `result` (a tool)."""
Key: TypeAlias = tuple[str, ...]
"""A stream, a sort, and what is to be found."""
_Read: TypeAlias = "tuple[str, tuple[Key, ...], tuple[str, str]]"

_STREAMS = {"assistant": "said", "model": "said", "system": "system", "developer": "system"}
_CONTENT = "content"
_CALL = frozenset(("functionCall", "thoughtSignature"))
_FUNCTION_CALL = frozenset(("type", "id", "call_id", "name", "arguments", "status"))
"""The keys of what only calls, as most do that are no text: half of the time goes into what others may have."""


class Slot(msgspec.Struct, frozen=True):
    """One place of the body. `text` is what can be read there, in the channel (`text`, `thought`) that `channel` names.

    `id` is the id of a call or of what answers one.
    """

    pointer: str
    keys: tuple[Key, ...]
    channel: tuple[str, str] = ("", "")
    text: str = ""
    id: str = ""


def sent(text: str) -> str:
    """Return a text as it stands in a body: half characters cannot be sent."""
    if text.isascii() or not jsonio.lone_surrogates(text):
        return text
    joined = jsonio.join_surrogates(text)
    return "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in joined)


def media(value: str) -> str:
    """Return what is the same in all spellings of a picture's bytes or address."""
    return value.partition(",")[2] if value.startswith("data:") else value


def raw_key(stream: Stream, value: object) -> Key:
    """Return the key of a value as a whole, however it is spelt."""
    return (stream, "raw", sent(json.dumps(value, sort_keys=True, ensure_ascii=False)))


def slots_of(body: dict[str, Any], dialect: Dialect, *, whole: bool = False) -> list[Slot]:
    """Read a body. `whole` gives each slot the key of its whole value as well."""
    return list(dialect_for(dialect).slots(body, whole))


def read_raw(value: object, stream: Stream, dialect: Dialect) -> tuple[Key, ...]:
    """Return the keys of one element (a block, an item, a part) that stands, or would stand, in a body."""
    read = dialect_for(dialect).slot("", value, stream, False)
    return (*read.keys, raw_key(stream, value))


# --- what all have in common ------------------------------------------------------------------------------------------


def _listed(value: object) -> Iterator[tuple[int, dict[str, Any]]]:
    for at, element in enumerate(value if isinstance(value, list) else ()):
        if isinstance(element, dict):
            yield at, element


def _parts(pointer: str, content: object) -> Iterator[tuple[str, object]]:
    """Yield the parts of a content: a text is one part, at the place of the whole."""
    if isinstance(content, list) and content:
        for at, part in enumerate(content):
            yield f"{pointer}/{at}", part
    elif content is not None:
        yield pointer, {"type": "text", "text": content if isinstance(content, str) else ""}


def _word(fields: dict[str, Any], name: str) -> str:
    """Return a field that is text; empty if it is none."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _within(fields: dict[str, Any], name: str, inner: str) -> str:
    """Return a text of an object in a field; empty if there is none."""
    value = fields.get(name)
    return _word(value, inner) if isinstance(value, dict) else ""


def _joined(parts: object) -> str:
    if isinstance(parts, str):
        return parts
    return "\n".join(_word(part, "text") for _, part in _listed(parts))


def _keys(stream: Stream, *found: tuple[str, str]) -> tuple[Key, ...]:
    return tuple([(stream, sort, value) for sort, value in found if value])


def _speech(pointer: str, stream: Stream, channel: str, text: str, *tokens: tuple[str, str]) -> Slot:
    """Make the slot of a text or thought; with a token, it can be found by both together, too."""
    plain = (stream, channel, text)
    both = [(*plain, token) for _, token in tokens if token]
    return Slot(pointer, (*both, plain, *_keys(stream, *tokens)), (stream, channel), text)


def _with_whole(slot: Slot, stream: Stream, value: object) -> Slot:
    return msgspec.structs.replace(slot, keys=(*slot.keys, raw_key(stream, value)))


# --- Messages ---------------------------------------------------------------------------------------------------------


def anthropic_slots(body: dict[str, Any], whole: bool) -> Iterator[Slot]:
    for pointer, part in _parts("/system", body.get("system")):
        yield anthropic_slot(pointer, part, "system", whole)
    for at, message in _listed(body.get("messages")):
        stream = _STREAMS.get(_word(message, "role"), "asked")
        for pointer, part in _parts(f"/messages/{at}/content", message.get(_CONTENT)):
            yield anthropic_slot(pointer, part, stream, whole)


def anthropic_slot(pointer: str, part: object, stream: Stream, whole: bool) -> Slot:
    if not isinstance(part, dict):
        return Slot(pointer, (raw_key(stream, part),))
    kind = _word(part, "type")
    if kind == "text":
        slot = _speech(pointer, stream, "text", _word(part, "text"))
    elif kind == "thinking":
        slot = _speech(pointer, stream, "thought", _word(part, "thinking"), ("token", _word(part, "signature")))
    elif kind == "tool_result":
        id = _word(part, "tool_use_id")
        slot = Slot(pointer, (("result", "id", id),), id=id)
    elif kind == "tool_use":
        id = _word(part, "id")
        slot = Slot(pointer, _keys(stream, ("call", id), ("named", _word(part, "name"))), id=id)
    else:
        slot = Slot(pointer, _anthropic_keys(kind, part, stream), id=_word(part, "id"))
    return _with_whole(slot, stream, part) if whole else slot


def _anthropic_keys(kind: str, part: dict[str, Any], stream: Stream) -> tuple[Key, ...]:
    shown = next((held for name in ("data", "url", "file_id") if (held := _within(part, "source", name))), "")
    return _keys(
        stream,
        ("token", _word(part, "data") or _word(part, "signature")),
        (kind, shown),
        ("server", _word(part, "id")),
        ("served", _word(part, "tool_use_id")),
        ("mark", kind),
    )


# --- Responses --------------------------------------------------------------------------------------------------------


def responses_slots(body: dict[str, Any], whole: bool) -> Iterator[Slot]:
    for at, item in _listed(body.get("input")):
        pointer = f"/input/{at}"
        if _word(item, "type") != "message" and "role" not in item:
            yield responses_slot(pointer, item, "said", whole)
            continue
        stream = _STREAMS.get(_word(item, "role"), "asked")
        parts = list(_parts(f"{pointer}/content", item.get(_CONTENT)))
        for place, part in parts:
            yield responses_slot(place, part, stream, whole)
        if whole or not parts:
            yield Slot(pointer, ((stream, "message", ""), raw_key(stream, item)))


def responses_slot(pointer: str, item: object, stream: Stream, whole: bool) -> Slot:
    if not isinstance(item, dict):
        return Slot(pointer, (raw_key(stream, item),))
    kind, id = _word(item, "type"), _word(item, "id")
    call = _word(item, "call_id") or _word(item, "approval_request_id")
    if kind == "reasoning":
        text = _joined(item.get("summary")) or _joined(item.get(_CONTENT))
        tokens = (("token", _word(item, "encrypted_content")), ("item", id))
        slot = _speech(pointer, stream, "thought", text, *tokens)
    elif "text" in item or "refusal" in item:
        slot = _speech(pointer, stream, "text", _word(item, "text") or _word(item, "refusal"), ("mark", kind))
    elif kind.endswith("_output") or kind == "mcp_approval_response":
        served = (("served", call), ("item", id), ("mark", kind))
        slot = Slot(pointer, (("result", "id", call), *_keys(stream, *served)), id=call)
    else:
        slot = Slot(pointer, _item_keys(kind, item, stream), id=call or id)
    return _with_whole(slot, stream, item) if whole else slot


def _item_keys(kind: str, item: dict[str, Any], stream: Stream) -> tuple[Key, ...]:
    call, id = _word(item, "call_id"), _word(item, "id")
    if kind == "function_call" and item.keys() <= _FUNCTION_CALL:
        named = ("named", _word(item, "name") or "function")
        return _keys(stream, ("call", call or id), named, ("item", id), ("server", call or id), ("mark", kind))
    names = ("image_url", "file_data", "file_url", "file_id", "result")
    shown = next((held for name in names if (held := _word(item, name))), "")
    return _keys(
        stream,
        ("call", call or id),
        ("named", _word(item, "name") or kind.removesuffix("_call")),
        ("token", _word(item, "encrypted_content")),
        ("document" if kind == "input_file" else "image", media(shown)),
        ("item", id),
        ("server", call or id),
        ("served", "" if kind else call),
        ("mark", kind),
    )


# --- Chat Completions -------------------------------------------------------------------------------------------------


def chat_slots(body: dict[str, Any], whole: bool) -> Iterator[Slot]:
    for at, message in _listed(body.get("messages")):
        pointer, role = f"/messages/{at}", _word(message, "role")
        if role in ("tool", "function"):
            id = _word(message, "tool_call_id")
            keys = (("result", "id", id), ("result", "name", _word(message, "name")))
            yield Slot(pointer, keys, id=id)
            continue
        stream = _STREAMS.get(role, "asked")
        for place, part in _parts(f"{pointer}/content", message.get(_CONTENT)):
            yield chat_slot(place, part, stream, whole)
        if stream == "said":
            yield from _chat_fields(pointer, message, whole)


def _chat_fields(pointer: str, message: dict[str, Any], whole: bool) -> Iterator[Slot]:
    """Read what stands beside an assistant's content."""
    for name, value in message.items():
        if isinstance(value, str) and name not in ("role", "name", _CONTENT):
            yield _speech(f"{pointer}/{name}", "said", "text" if name == "refusal" else "thought", value)
    details = message.get("reasoning_details")
    for at, detail in enumerate(details if isinstance(details, list) else ()):
        yield Slot(f"{pointer}/reasoning_details/{at}", (("said", "detail", raw_key("", detail)[2]),))
    calls = message.get("tool_calls")
    for at, call in enumerate(calls if isinstance(calls, list) else ()):
        yield chat_slot(f"{pointer}/tool_calls/{at}", call, "said", whole)
    if isinstance(message.get("function_call"), dict):
        keys = _keys("said", ("named", _within(message, "function_call", "name")))
        yield Slot(f"{pointer}/function_call", keys)
    if isinstance(message.get("audio"), dict):
        yield Slot(f"{pointer}/audio", _keys("said", ("speech", _within(message, "audio", "id"))))


def chat_slot(pointer: str, part: object, stream: Stream, whole: bool) -> Slot:
    if not isinstance(part, dict):
        return Slot(pointer, (raw_key(stream, part),))
    kind, id = _word(part, "type"), _word(part, "id")
    if kind == "text":
        slot = _speech(pointer, stream, "text", _word(part, "text"))
    elif kind == "thinking":
        thought = part.get("thinking")
        text = thought if isinstance(thought, str) else "".join(_word(piece, "text") for _, piece in _listed(thought))
        slot = _speech(pointer, stream, "thought", text, ("token", _word(part, "signature")))
    else:
        inner = _within(part, "function", "name") or _within(part, "custom", "name")
        filed = _within(part, "file", "file_data") or _within(part, "file", "file_id")
        shown = (
            ("image", media(_within(part, "image_url", "url"))),
            ("audio", media(_within(part, "input_audio", "data"))),
            ("document", media(filed)),
        )
        slot = Slot(pointer, _keys(stream, ("call", id), ("named", inner), *shown, ("mark", kind)), id=id)
    return _with_whole(slot, stream, part) if whole else slot


# --- Gemini -----------------------------------------------------------------------------------------------------------


def gemini_slots(body: dict[str, Any], whole: bool) -> Iterator[Slot]:
    system = body.get("systemInstruction")
    for at, part in _listed(system.get("parts") if isinstance(system, dict) else None):
        yield gemini_slot(f"/systemInstruction/parts/{at}", part, "system", whole)
    for at, content in _listed(body.get("contents")):
        stream = _STREAMS.get(_word(content, "role"), "asked")
        parts = content.get("parts")
        for no, part in enumerate(parts if isinstance(parts, list) else ()):
            yield gemini_slot(f"/contents/{at}/parts/{no}", part, stream, whole)


def gemini_slot(pointer: str, part: object, stream: Stream, whole: bool) -> Slot:
    if not isinstance(part, dict):
        return Slot(pointer, (raw_key(stream, part),))
    token = ("token", _word(part, "thoughtSignature"))
    answered = part.get("functionResponse")
    if "text" in part:
        channel = "thought" if part.get("thought") is True else "text"
        slot = _speech(pointer, stream, channel, _word(part, "text"), token)
    elif isinstance(answered, dict):
        id = _word(answered, "id")
        slot = Slot(pointer, (("result", "id", id), ("result", "name", _word(answered, "name"))), id=id)
    else:
        slot = Slot(pointer, _gemini_keys(part, stream, token), id=_within(part, "functionCall", "id"))
    return _with_whole(slot, stream, part) if whole else slot


def _gemini_keys(part: dict[str, Any], stream: Stream, token: tuple[str, str]) -> tuple[Key, ...]:
    called = (("call", _within(part, "functionCall", "id")), ("named", _within(part, "functionCall", "name")))
    if part.keys() <= _CALL:
        return _with_token(_keys(stream, *called, token), token[1])
    ran = part.get("codeExecutionResult")
    output = f"\n{_within(part, 'codeExecutionResult', 'output')}"
    shown = _within(part, "inlineData", "data") or _within(part, "fileData", "fileUri")
    found = (
        *called,
        *((sort, shown) for sort in ("image", "audio", "document")),
        ("server", _within(part, "toolCall", "id")),
        ("served", _within(part, "toolResponse", "id")),
        ("code", f"{_within(part, 'executableCode', 'code')}\n" if "executableCode" in part else ""),
        *(
            ("output", f"{outcome}{output}")
            for outcome in ((_word(ran, "outcome"), "") if isinstance(ran, dict) else ())
        ),
        *(("mark", name) for name in ("executableCode", "toolCall", "toolResponse") if name in part),
        token,
    )
    return _with_token(_keys(stream, *found), token[1])


def _with_token(plain: tuple[Key, ...], token: str) -> tuple[Key, ...]:
    return (*((*key, token) for key in plain if token and key[1] != "token"), *plain)
