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

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, get_args

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
    Document,
    DocumentCitation,
    GeminiMeta,
    Image,
    ProviderMeta,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
    Value,
    part_type,
)
from tenuto.core.jsonio import JsonError

V = TypeVar("V", bound=Value)
JsonObject = dict[str, Any]


def camel_case(name: str) -> str:
    """Return a name in camelCase: `start_index` is `startIndex`."""
    first, *others = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others)


UNKNOWN_FIELDS = camel_case("unknown_fields")
"""The key of the unknown fields of a value."""


class _Keys(NamedTuple):
    """How the fields of a block are written."""

    renamed: Mapping[str, str] = {}
    """Fields with a key that is not their name in camelCase."""
    always: tuple[str, ...] = ()
    """Fields that are written even if they have their default."""


_PLAIN = _Keys()
_KEYS: dict[type[Block], _Keys] = {
    Reasoning: _Keys({"text": "thinking"}),
    ToolUse: _Keys({"args": "arguments"}),
    Image: _Keys({"mime": "mimeType"}, ("mime", "data")),
    Audio: _Keys({"mime": "mimeType"}, ("mime", "data")),
    Document: _Keys({"mime": "mimeType"}),
    CodeExecution: _Keys({}, ("language",)),
    CodeResult: _Keys({}, ("output",)),
    ServerToolUse: _Keys({"args": "arguments"}, ("args",)),
    ServerToolResult: _Keys({"tool_use_id": "toolCallId"}, ("content",)),
}
_KINDS: dict[str, type[Block]] = {
    **{part_type(kind): kind for kind in get_args(Block) if kind is not Refusal},
    "redacted_thinking": Reasoning,
}


def to_part(block: Block) -> JsonObject:
    """Write a block as a part."""
    part = {"type": block.type, **_fields(block, _KEYS.get(type(block), _PLAIN))}
    adjust = _ON_WRITING.get(type(block))
    if adjust is not None:
        adjust(part)
    return part


def from_part(part: Mapping[str, Any]) -> Block:
    """Read a part; unknown keys go to `unknown_fields`. Raise `JsonError` for an unknown type."""
    fields = dict(part)
    type_name = fields.pop("type", None)
    kind = _KINDS.get(type_name) if isinstance(type_name, str) else None
    if kind is None:
        raise JsonError(f"unknown part type {type_name!r}")
    if kind is Text and fields.pop("refusal", False):
        kind = Refusal
    adjust = _ON_READING.get(str(type_name))
    if adjust is not None:
        adjust(fields)
    return from_document(kind, fields, _KEYS.get(kind, _PLAIN))


# --- any value --------------------------------------------------------------------------------------------------------


def to_document(value: Value) -> JsonObject:
    """Write a value as an object: its tag, then the fields that do not have their default, in camelCase."""
    config = value.__struct_config__
    tag = {config.tag_field: config.tag} if config.tag_field else {}
    document = {**tag, **_fields(value, _PLAIN)}
    if isinstance(value, DocumentCitation):
        _write_char_indices(document)
    return document


def from_document(kind: type[V], document: Mapping[str, Any], keys: _Keys = _PLAIN) -> V:
    """Read an object as a `kind`; unknown keys go to `unknown_fields`."""
    if kind is DocumentCitation and document.get("charIndexUnit") == "block":
        document = {key: value for key, value in document.items() if key not in ("charIndexUnit", *_CHAR_INDICES)}
    values: JsonObject = {}
    known: set[str] = {UNKNOWN_FIELDS, kind.__struct_config__.tag_field or UNKNOWN_FIELDS}
    for field in msgspec.structs.fields(kind):
        key = _key(field.name, keys)
        known.add(key)
        if key in document and field.name != "unknown_fields":
            values[field.name] = _read(document[key], field.type, key)
        elif field.required:
            raise JsonError(f"{kind.__name__} has no {key}")
    return kind(**values, unknown_fields=unknown_fields(document, known))


def unknown_fields(document: Mapping[str, Any], known: set[str]) -> str:
    """Return the members of `unknown_fields` and every other member that is not `known`, as the text of a JSON object."""
    text = document.get(UNKNOWN_FIELDS, "")
    if not isinstance(text, str):
        raise JsonError(f"{UNKNOWN_FIELDS}: not the text of an object")
    unknown = {name: Raw(jsonio.encode(value)) for name, value in document.items() if name not in known}
    return jsonio.object_text({**(jsonio.members(text) if text else {}), **unknown}) if unknown else text


def _fields(value: Value, keys: _Keys) -> JsonObject:
    written: JsonObject = {}
    for field in msgspec.structs.fields(value):
        content = getattr(value, field.name)
        if field.name in keys.always or content != field.default:
            written[_key(field.name, keys)] = _plain(content)
    return written


def _key(name: str, keys: _Keys) -> str:
    return keys.renamed.get(name) or camel_case(name)


def _plain(content: Any) -> Any:
    if isinstance(content, tuple):
        return [_plain(item) for item in content]
    return to_document(content) if isinstance(content, Value) else content


def _read(content: Any, kind: Any, key: str) -> Any:
    reader = _NESTED.get(kind)
    try:
        return reader(content) if reader is not None else msgspec.convert(content, kind)
    except (msgspec.ValidationError, UnicodeEncodeError, TypeError, KeyError, AttributeError) as exc:
        raise JsonError(f"{key}: {exc}") from None


def _tagged_reader(union: Any, tag_field: str) -> Callable[[Any], Any]:
    kinds = {kind.__struct_config__.tag: kind for kind in get_args(union)}
    return lambda document: from_document(kinds[document[tag_field]], document)


_read_meta = _tagged_reader(ProviderMeta, "provider")
_read_citation = _tagged_reader(Citation, "type")
_NESTED: dict[Any, Callable[[Any], Any]] = {
    ProviderMeta | None: lambda content: None if content is None else _read_meta(content),
    tuple[Citation, ...]: lambda content: tuple(map(_read_citation, content)),
}


# --- where the specification differs ----------------------------------------------------------------------------------

_CHAR_INDICES = ("startCharIndex", "endCharIndex")
_SIGNED = AnthropicMeta.__struct_config__.tag
_REDACTED = AnthropicRedactedMeta.__struct_config__.tag
_SIGNATURES = {_SIGNED: "signature", GeminiMeta.__struct_config__.tag: "thoughtSignature"}
_OUTCOMES = {
    "OUTCOME_OK": "ok",
    "ok": "ok",
    "completed": "ok",
    "success": "ok",
    "OUTCOME_DEADLINE_EXCEEDED": "timeout",
    "timeout": "timeout",
}  # any other outcome is an error


def _write_char_indices(document: JsonObject) -> None:
    """Write the indices of content blocks as character indices, too, unless there are any."""
    blocks = {key: document.get(key.replace("Char", "Block")) for key in _CHAR_INDICES}
    indices = {key: index for key, index in blocks.items() if index is not None}
    if indices and not any(key in document for key in _CHAR_INDICES):
        document.update(indices, charIndexUnit="block")


def _write_reasoning(part: JsonObject) -> None:
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


def _read_thinking(part: JsonObject) -> None:
    if "signature" in part:
        meta = part.get("meta") or {}
        issuer = meta.get("provider", _SIGNED)
        part["meta"] = {**meta, "provider": issuer, _SIGNATURES.get(issuer, "signature"): part.pop("signature")}


def _read_redacted(part: JsonObject) -> None:
    part["meta"] = {"provider": _REDACTED, **(part.get("meta") or {}), "data": part.pop("data", None)}


def _write_outcome(part: JsonObject) -> None:
    _write_both(part, "outcome", _OUTCOMES.get(part["outcome"], "error"), "rawOutcome")


def _write_language(part: JsonObject) -> None:
    _write_both(part, "language", part["language"].lower(), "rawLanguage")


def _write_both(part: JsonObject, key: str, value: str, exact_key: str) -> None:
    if value != part[key]:
        part[exact_key] = part[key]
    part[key] = value


def _read_exact(part: JsonObject, key: str, exact_key: str) -> None:
    if exact_key in part:
        part[key] = part.pop(exact_key)


def _write_json(part: JsonObject, key: str, *, only: type = object) -> None:
    text: str = part[key]
    try:
        value = jsonio.parse(text)
        exact = isinstance(value, only) and jsonio.as_text(jsonio.encode(value)) == text
    except JsonError:
        value, exact = None, False
    part[key] = value if isinstance(value, only) else {}
    if not exact:
        part[f"{key}Text"] = text


def _read_json(part: JsonObject, key: str) -> None:
    exact_key = f"{key}Text"
    text = jsonio.as_text(jsonio.encode(part[key])) if key in part and exact_key not in part else ""
    part[key] = part.pop(exact_key, text)


_ON_WRITING: dict[type[Block], Callable[[JsonObject], None]] = {
    Refusal: lambda part: part.update(refusal=True),
    Reasoning: _write_reasoning,
    CodeExecution: _write_language,
    CodeResult: _write_outcome,
    ServerToolUse: functools.partial(_write_json, key="arguments", only=dict),
    ServerToolResult: functools.partial(_write_json, key="content"),
}
_ON_READING: dict[str, Callable[[JsonObject], None]] = {
    "thinking": _read_thinking,
    "redacted_thinking": _read_redacted,
    "code_execution": functools.partial(_read_exact, key="language", exact_key="rawLanguage"),
    "code_result": functools.partial(_read_exact, key="outcome", exact_key="rawOutcome"),
    "server_tool_call": functools.partial(_read_json, key="arguments"),
    "server_tool_result": functools.partial(_read_json, key="content"),
}
