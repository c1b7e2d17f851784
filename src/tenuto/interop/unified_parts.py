"""Blocks as parts of the unified response document, and back.

The document's own words come first (`tool_call`, `thinking`, `mimeType`, ...). What it has no word for stands beside
them: every other field of a block under its own name in camelCase, where it is not at its default, and kinds of part
that the document does not list (`document`, `marker`, `opaque`). So a part says all that its block says.

Where the document wants a value that is less exact than ours, both are there: `arguments` and `argumentsText` of a
server's call, `content` and `contentText` of its result, `outcome` and `rawOutcome`, `language` and `rawLanguage`.
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
    GeminiMeta,
    Image,
    Marker,
    Opaque,
    ProviderMeta,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
    Value,
)
from tenuto.core.jsonio import JsonError

__all__ = ["camel_case", "from_document", "from_part", "to_document", "to_part", "unknown_fields"]

V = TypeVar("V", bound=Value)
Doc = dict[str, Any]


class _Shape(NamedTuple):
    """How a block looks as a part: its type, fields under another name, fields that are there even when empty."""

    type: str
    renamed: Mapping[str, str] = {}
    always: tuple[str, ...] = ()


_PLAIN = _Shape("")
_SHAPES: dict[type[Block], _Shape] = {
    Text: _Shape("text"),
    Refusal: _Shape("text"),
    Reasoning: _Shape("thinking", {"text": "thinking"}),
    ToolUse: _Shape("tool_call", {"args": "arguments"}),
    Image: _Shape("image", {"mime": "mimeType"}, ("mime", "data")),
    Audio: _Shape("audio", {"mime": "mimeType"}, ("mime", "data")),
    Document: _Shape("document", {"mime": "mimeType"}),
    CodeExecution: _Shape("code_execution", {}, ("language",)),
    CodeResult: _Shape("code_result", {}, ("output",)),
    ServerToolUse: _Shape("server_tool_call", {"args": "arguments"}, ("args",)),
    ServerToolResult: _Shape("server_tool_result", {"tool_use_id": "toolCallId"}, ("content",)),
    Marker: _Shape("marker"),
    Opaque: _Shape("opaque"),
}
_KINDS: dict[str, type[Block]] = {
    **{shape.type: kind for kind, shape in _SHAPES.items() if kind is not Refusal},
    "redacted_thinking": Reasoning,
}


def to_part(block: Block) -> Doc:
    """Write a block as a part."""
    shape = _SHAPES[type(block)]
    part = {"type": shape.type, **_fields(block, shape)}
    adjust = _ON_WRITING.get(type(block))
    if adjust is not None:
        adjust(part)
    return part


def from_part(part: Mapping[str, Any]) -> Block:
    """Read a part; fields it is not known to have are kept in `unread`. Raise `JsonError` for an unknown type."""
    fields = dict(part)
    word = fields.pop("type", None)
    kind = _KINDS.get(word) if isinstance(word, str) else None
    if kind is None:
        raise JsonError(f"no part has the type {word!r}")
    if kind is Text and fields.pop("refusal", False):
        kind = Refusal
    adjust = _ON_READING.get(str(word))
    if adjust is not None:
        adjust(fields)
    return from_document(kind, fields, _SHAPES[kind])


# --- any value --------------------------------------------------------------------------------------------------------


def to_document(value: Value) -> Doc:
    """Write a value as an object: its tag, then what is not at its default, in camelCase."""
    config = value.__struct_config__
    tag = {config.tag_field: config.tag} if config.tag_field else {}
    return {**tag, **_fields(value, _PLAIN)}


def _fields(value: Value, shape: _Shape) -> Doc:
    written: Doc = {}
    for field in msgspec.structs.fields(value):
        held = getattr(value, field.name)
        if field.name in shape.always or held != field.default:
            written[_key(field.name, shape)] = _plain(held)
    return written


def _key(name: str, shape: _Shape) -> str:
    return shape.renamed.get(name) or camel_case(name)


def camel_case(name: str) -> str:
    """Spell a name as the document does: `start_index` is `startIndex`."""
    first, *others = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others)


def _plain(held: Any) -> Any:
    if isinstance(held, tuple):
        return [_plain(item) for item in held]
    return to_document(held) if isinstance(held, Value) else held


def from_document(kind: type[V], document: Mapping[str, Any], shape: _Shape = _PLAIN) -> V:
    """Read an object as a `kind`; what it is not known to have is kept in `unread`."""
    values: dict[str, Any] = {}
    known: set[str] = {"unread", kind.__struct_config__.tag_field or "unread"}
    for field in msgspec.structs.fields(kind):
        key = _key(field.name, shape)
        known.add(key)
        if key in document and field.name != "unread":
            values[field.name] = _read(document[key], field.type, key)
        elif field.required:
            raise JsonError(f"{kind.__name__} has no {key}")
    return kind(**values, unread=unknown_fields(document, known))


def _read(held: Any, kind: Any, key: str) -> Any:
    reader = _NESTED.get(kind)
    try:
        return reader(held) if reader is not None else msgspec.convert(held, kind)
    except (msgspec.ValidationError, UnicodeEncodeError, TypeError, KeyError, AttributeError) as exc:
        raise JsonError(f"{key}: {exc}") from None


def unknown_fields(document: Mapping[str, Any], known: set[str]) -> str:
    """Return what stands in `unread`, and every member of an object that nobody knows, as the text of an object."""
    text = document.get("unread", "")
    if not isinstance(text, str):
        raise JsonError("unread: not the text of an object")
    strange = {name: Raw(jsonio.encode(held)) for name, held in document.items() if name not in known}
    return jsonio.object_text({**(jsonio.members(text) if text else {}), **strange}) if strange else text


def _tagged(union: Any, tag_field: str) -> Callable[[Any], Any]:
    kinds = {kind.__struct_config__.tag: kind for kind in get_args(union)}
    return lambda document: from_document(kinds[document[tag_field]], document)


_meta_of = _tagged(ProviderMeta, "provider")
_citation_of = _tagged(Citation, "type")
_NESTED: dict[Any, Callable[[Any], Any]] = {
    ProviderMeta | None: lambda held: None if held is None else _meta_of(held),
    tuple[Citation, ...]: lambda held: tuple(map(_citation_of, held)),
}


# --- what the document says differently -------------------------------------------------------------------------------

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
}  # any other word means that the code failed


def _write_reasoning(part: Doc) -> None:
    meta = part.pop("meta", {})
    token = _SIGNATURES.get(meta.get("provider"))
    implied: Any = {}
    if meta.get("provider") == _REDACTED:
        part["type"] = "redacted_thinking"
        part["data"] = meta.pop("data")
        implied = {"provider": _REDACTED}
        if not part["thinking"]:
            del part["thinking"]
    elif token is not None:
        part["signature"] = meta.pop(token)
        implied = {"provider": _SIGNED}
    if meta != implied:
        part["meta"] = meta


def _read_thinking(part: Doc) -> None:
    if "signature" in part:
        meta = part.get("meta") or {}
        issuer = meta.get("provider", _SIGNED)
        part["meta"] = {**meta, "provider": issuer, _SIGNATURES.get(issuer, "signature"): part.pop("signature")}


def _read_redacted(part: Doc) -> None:
    part["meta"] = {"provider": _REDACTED, **(part.get("meta") or {}), "data": part.pop("data", None)}


def _write_outcome(part: Doc) -> None:
    _add(part, "outcome", _OUTCOMES.get(part["outcome"], "error"), "rawOutcome")


def _write_language(part: Doc) -> None:
    _add(part, "language", part["language"].lower(), "rawLanguage")


def _add(part: Doc, key: str, shown: str, exact: str) -> None:
    if shown != part[key]:
        part[exact] = part[key]
    part[key] = shown


def _take(part: Doc, key: str, exact: str) -> None:
    if exact in part:
        part[key] = part.pop(exact)


def _write_json(part: Doc, key: str, *, only: type = object) -> None:
    text: str = part[key]
    try:
        shown = jsonio.parse(text)
        exact = isinstance(shown, only) and jsonio.as_text(jsonio.encode(shown)) == text
    except JsonError:
        shown, exact = None, False
    part[key] = shown if isinstance(shown, only) else {}
    if not exact:
        part[f"{key}Text"] = text


def _read_json(part: Doc, key: str) -> None:
    exact = f"{key}Text"
    text = jsonio.as_text(jsonio.encode(part[key])) if key in part and exact not in part else ""
    part[key] = part.pop(exact, text)


_ON_WRITING: dict[type[Block], Callable[[Doc], None]] = {
    Refusal: lambda part: part.update(refusal=True),
    Reasoning: _write_reasoning,
    CodeExecution: _write_language,
    CodeResult: _write_outcome,
    ServerToolUse: functools.partial(_write_json, key="arguments", only=dict),
    ServerToolResult: functools.partial(_write_json, key="content"),
}
_ON_READING: dict[str, Callable[[Doc], None]] = {
    "thinking": _read_thinking,
    "redacted_thinking": _read_redacted,
    "code_execution": functools.partial(_take, key="language", exact="rawLanguage"),
    "code_result": functools.partial(_take, key="outcome", exact="rawOutcome"),
    "server_tool_call": functools.partial(_read_json, key="arguments"),
    "server_tool_result": functools.partial(_read_json, key="content"),
}
