"""Blocks as parts of the unified response document, and back.

A part has the keys of the specification (`tool_call`, `thinking`, `mimeType`, ...) and says all that its block says: any
other field of the block has its own name in camelCase, unless it has its default; `document`, `marker` and `opaque` parts
are types that the specification does not list.

If the specification requires a value that is less exact than the block's, the part has both: `arguments` and
`argumentsText` of a server tool call, `content` and `contentText` of its result, `outcome` and `rawOutcome`, `language`
and `rawLanguage`. A citation of content blocks has their indices twice, as `startBlockIndex` and, as specified, as
`startCharIndex`; then `charIndexUnit` is `block`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    Audio,
    Block,
    Citation,
    CodeExecution,
    CodeResult,
    DocumentCitation,
    GeminiMeta,
    Image,
    ProviderMeta,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    Value,
    part_type,
)
from tenuto.core.jsonio import JsonError
from tenuto.core.loss import Location

V = TypeVar("V", bound=Value)
JsonObject = dict[str, Any]


def camel_case(name: str) -> str:
    """Return a name in camelCase: `start_index` is `startIndex`."""
    first, *others = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others)


_RENAMED = {"args": "arguments", "mime": "mimeType", "tool_use_id": "toolCallId"}
"""Fields with a key that is not their name in camelCase; the `text` of reasoning is another one."""
_ALWAYS: dict[type[Value], tuple[str, ...]] = {
    Image: ("mime", "data"),
    Audio: ("mime", "data"),
    CodeExecution: ("language",),
    CodeResult: ("output",),
    ServerToolUse: ("args",),
    ServerToolResult: ("content",),
}
"""Fields that are written even if they have their default."""
_BLOCKS: dict[str, type[Block]] = {
    **{part_type(kind): kind for kind in get_args(Block) if kind is not Refusal},
    "redacted_thinking": Reasoning,
}
_METAS = {kind.__struct_config__.tag: kind for kind in get_args(ProviderMeta)}
_CITATIONS = {kind.__struct_config__.tag: kind for kind in get_args(Citation)}
_SIGNED = AnthropicMeta.__struct_config__.tag
_REDACTED = AnthropicRedactedMeta.__struct_config__.tag
_SIGNATURES = {_SIGNED: "signature", GeminiMeta.__struct_config__.tag: "thoughtSignature"}
_OUTCOMES = {
    **dict.fromkeys(("OUTCOME_OK", "ok", "completed", "success"), "ok"),
    **dict.fromkeys(("OUTCOME_DEADLINE_EXCEEDED", "timeout"), "timeout"),
}  # any other outcome is an error
_CHAR_INDICES = ("startCharIndex", "endCharIndex")


def to_part(block: Block) -> JsonObject:
    part = {"type": block.type, **_fields(block)}
    match block:
        case Refusal():
            part["refusal"] = True
        case Reasoning():
            _write_token(part)
        case CodeExecution(language=language):
            _write_both(part, "language", language.lower(), "rawLanguage")
        case CodeResult(outcome=outcome):
            _write_both(part, "outcome", _OUTCOMES.get(outcome, "error"), "rawOutcome")
        case ServerToolUse():
            _write_json(part, "arguments", dict)
        case ServerToolResult():
            _write_json(part, "content", object)
    return part


def from_part(part: Mapping[str, Any]) -> Block:
    """Read a part; unknown keys go to `unknown_fields`. Raise `JsonError` for an unknown type."""
    fields = {**part}
    type_name = fields.pop("type", None)
    kind = _BLOCKS.get(type_name) if isinstance(type_name, str) else None
    if kind is None:
        raise JsonError(f"unknown part type {type_name!r}")
    if kind is Text and fields.pop("refusal", False):
        kind = Refusal
    match type_name:
        case "thinking" if "signature" in fields:
            meta = fields.get("meta") or {}
            issuer = meta.get("provider", _SIGNED)
            fields["meta"] = {**meta, "provider": issuer, _SIGNATURES.get(issuer, "signature"): fields.pop("signature")}
        case "redacted_thinking":
            fields["meta"] = {"provider": _REDACTED, **(fields.get("meta") or {}), "data": fields.pop("data", None)}
        case "code_execution" if "rawLanguage" in fields:
            fields["language"] = fields.pop("rawLanguage")
        case "code_result" if "rawOutcome" in fields:
            fields["outcome"] = fields.pop("rawOutcome")
        case "server_tool_call":
            _read_json(fields, "arguments")
        case "server_tool_result":
            _read_json(fields, "content")
    return from_document(kind, fields)


def _write_token(part: JsonObject) -> None:
    """Move the token of reasoning from `meta` to the specified key; `meta` keeps the rest."""
    meta = part.pop("meta", {})
    token = _SIGNATURES.get(meta.get("provider"))
    implied: JsonObject = {}
    if part["type"] == "redacted_thinking":
        part["data"] = meta.pop("data")
        implied = {"provider": _REDACTED}
        if not part["thinking"]:
            del part["thinking"]
    elif token is not None:
        part["signature"] = meta.pop(token)
        implied = {"provider": _SIGNED}
    if meta != implied:
        part["meta"] = meta


def _write_both(part: JsonObject, key: str, value: str, exact_key: str) -> None:
    """Write the specified value, and the exact one if it differs."""
    if value != part[key]:
        part[exact_key] = part[key]
    part[key] = value


def _write_json(part: JsonObject, key: str, kind: type) -> None:
    """Write JSON text as a value of a kind, and as text if the value does not give the same text."""
    text: str = part[key]
    try:
        value = jsonio.parse(text)
        exact = isinstance(value, kind) and jsonio.as_text(jsonio.encode(value)) == text
    except JsonError:
        value, exact = None, False
    part[key] = value if isinstance(value, kind) else {}
    if not exact:
        part[f"{key}Text"] = text


def _read_json(part: JsonObject, key: str) -> None:
    exact_key = f"{key}Text"
    text = jsonio.as_text(jsonio.encode(part[key])) if key in part and exact_key not in part else ""
    part[key] = part.pop(exact_key, text)


# --- any value --------------------------------------------------------------------------------------------------------


def to_document(value: Value) -> JsonObject:
    """Write a value as an object: its tag, then the fields that do not have their default, in camelCase."""
    config = value.__struct_config__
    document = {**({config.tag_field: config.tag} if config.tag_field else {}), **_fields(value)}
    if isinstance(value, DocumentCitation) and not any(key in document for key in _CHAR_INDICES):
        indices = {key: document.get(key.replace("Char", "Block")) for key in _CHAR_INDICES}
        indices = {key: index for key, index in indices.items() if index is not None}
        if indices:
            document.update(indices, charIndexUnit="block")
    return document


def from_document(kind: type[V], document: Mapping[str, Any]) -> V:
    """Read an object as a `kind`; unknown keys go to `unknown_fields`."""
    ignored = {kind.__struct_config__.tag_field}
    if kind is DocumentCitation and document.get("charIndexUnit") == "block":
        ignored |= {"charIndexUnit", *_CHAR_INDICES}
    others = {key: value for key, value in document.items() if key not in ignored}
    values: JsonObject = {}
    for field in msgspec.structs.fields(kind):
        key = _key(kind, field.name)
        if field.name == "unknown_fields":
            continue
        if key in others:
            values[field.name] = _read(field, others.pop(key), key)
        elif field.required:
            raise JsonError(f"{kind.__name__} has no {key}")
    return kind(**values, unknown_fields=unknown_fields(others))


def unknown_fields(others: Mapping[str, Any]) -> str:
    """Return the members of `unknownFields` and all other members as the text of a JSON object."""
    text = others.get("unknownFields", "")
    if not isinstance(text, str):
        raise JsonError("unknownFields: not the text of an object")
    unknown = {name: Raw(jsonio.encode(value)) for name, value in others.items() if name != "unknownFields"}
    return jsonio.object_text({**(jsonio.members(text) if text else {}), **unknown}) if unknown else text


def _fields(value: Value) -> JsonObject:
    kind = type(value)
    fields: JsonObject = {}
    for field in msgspec.structs.fields(value):
        content = getattr(value, field.name)
        if content != field.default or field.name in _ALWAYS.get(kind, ()):
            fields[_key(kind, field.name)] = _plain(content)
    return fields


def _key(kind: type[Value], name: str) -> str:
    if kind is Reasoning and name == "text":
        return "thinking"
    return _RENAMED.get(name) or camel_case(name)


def _plain(content: Any) -> Any:
    if isinstance(content, tuple):
        return [_plain(item) for item in content]
    return to_document(content) if isinstance(content, Value) else content


def _read(field: msgspec.structs.FieldInfo, content: Any, key: str) -> Any:
    try:
        if field.type == ProviderMeta | None and content is not None:
            return from_document(_METAS[content["provider"]], content)
        if field.type == tuple[Citation, ...]:
            return tuple(from_document(_CITATIONS[citation["type"]], citation) for citation in content)
        if field.type is Location:
            return from_document(Location, content)
        return msgspec.convert(content, field.type)
    except (msgspec.ValidationError, UnicodeEncodeError, TypeError, KeyError, AttributeError) as exc:
        raise JsonError(f"{key}: {exc}") from None
