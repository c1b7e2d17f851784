"""The unified response document of the universal-client specification, and back.

Its keys are those of the specification. What it has no key for is in further keys, so that
`from_unified(to_unified(response)) == response`: any other field has its own name in camelCase, unless it has its
default; `document`, `marker` and `opaque` parts are further types. Unknown is null, never 0. If the specification
requires a less exact value, the part has both: `arguments` and `argumentsText`, `content` and `contentText`, `outcome`
and `rawOutcome`, `language` and `rawLanguage`. A citation of content blocks has its indices also as `startCharIndex`;
then `charIndexUnit` is `block`.
"""

import contextlib
from collections.abc import Callable, Mapping
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
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, Origin, Usage
from tenuto.core.response import ChatResponse, Choice

V = TypeVar("V", bound=Value)
JsonObject = dict[str, Any]


def to_unified(response: ChatResponse) -> JsonObject:
    """Write a response as the unified document, of plain values that any JSON writer accepts."""
    metadata = _metadata(response)
    document = _fields(response) | _non_empty(providerMetadata=metadata)
    if metadata:
        document.setdefault("extra", "")
    return document


def from_unified(document: Mapping[str, Any]) -> ChatResponse:
    """Read a unified document; unknown keys go to `unknown_fields`. Raise `JsonError` for any other document."""
    try:
        fields = {**document}
        if metadata := fields.pop("providerMetadata", None):
            fields.setdefault("extra", jsonio.as_text(jsonio.encode(metadata)))
        return from_document(ChatResponse, fields)
    except (LookupError, TypeError, AttributeError, UnicodeEncodeError, msgspec.ValidationError) as exc:
        raise JsonError(f"not a unified response: {exc!r}") from exc


def _choice_document(choice: Choice) -> JsonObject:
    """Write a choice and its message as one object."""
    document = _fields(choice)
    message: JsonObject = document.pop("message")
    return document | message


def _read_choice(document: Mapping[str, Any]) -> Choice:
    keys = {_key(AssistantMessage, name) for name in AssistantMessage.__struct_fields__}
    fields = {key: value for key, value in document.items() if key in keys}
    fields["unknownFields"] = fields.pop("messageUnknownFields", "")
    message = from_document(AssistantMessage, fields)
    others = {key: value for key, value in document.items() if key not in keys}
    return from_document(Choice, {**others, "message": message})


def _non_empty(**fields: Any) -> JsonObject:
    return {key: value for key, value in fields.items() if value}


def camel_case(name: str) -> str:
    """Return a name in camelCase: `start_index` is `startIndex`."""
    first, *others = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others)


_RENAMED = {"args": "arguments", "mime": "mimeType", "tool_use_id": "toolCallId"}
"""Fields with a key that is not their name in camelCase."""
_RENAMED_IN: dict[tuple[type[Value], str], str] = {
    (Reasoning, "text"): "thinking",
    (AssistantMessage, "blocks"): "content",
    (AssistantMessage, "stop_reason"): "finishReason",
    (AssistantMessage, "raw_stop_reason"): "rawFinishReason",
    (AssistantMessage, "extra"): "messageExtra",
    (AssistantMessage, "unknown_fields"): "messageUnknownFields",
}
"""The same for fields of one class."""
_ALWAYS: dict[type[Value], tuple[str, ...]] = {
    Image: ("mime", "data"),
    Audio: ("mime", "data"),
    CodeExecution: ("language",),
    CodeResult: ("output",),
    ServerToolUse: ("args",),
    ServerToolResult: ("content",),
    Choice: ("index",),
    AssistantMessage: ("stop_reason",),
    ChatResponse: ("usage",),
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


# --- usage ------------------------------------------------------------------------------------------------------------

_DETAILS = {
    "reasoning_tokens": "reasoningTokens",
    "cache_read_tokens": "cachedTokens",
    "cache_write_tokens": "cacheWriteTokens",
    "audio_input_tokens": "audioPromptTokens",
    "audio_output_tokens": "audioCompletionTokens",
    "input_by_modality": "promptTokensByModality",
    "output_by_modality": "completionTokensByModality",
}
_SHARES = {"input_by_modality": "promptTokenShares", "output_by_modality": "completionTokenShares"}
"""For modality maps that are not Gemini's, whose names are upper case: other providers count some modalities only."""
_BUCKETS = {"input_tokens": "inputTokens", "output_tokens": "outputTokens", "reported_total": "totalTokens"}


def usage_document(usage: Usage) -> JsonObject:
    document: JsonObject = {
        "promptTokens": usage.prompt_tokens,
        "completionTokens": usage.completion_tokens,
        "totalTokens": usage.total_tokens,
    }
    details: JsonObject = {}
    for name, key in _DETAILS.items():
        value = getattr(usage, name)
        if isinstance(value, dict) and any(modality != modality.upper() for modality in value):
            document[_SHARES[name]] = value
        elif value is not None:
            details[key] = value
    document |= _non_empty(details=details, unknownFields=usage.unknown_fields)
    if _read_usage(document) != usage:  # the sums do not say which count is unknown
        buckets = {key: getattr(usage, name) for name, key in _BUCKETS.items()}
        document["buckets"] = {key: value for key, value in buckets.items() if value is not None}
    return document


def _read_usage(document: Mapping[str, Any]) -> Usage:
    others = {**document}
    details = {**(others.pop("details", None) or {})}
    values = {name: details.pop(key) for name, key in _DETAILS.items() if key in details}
    values |= {name: others.pop(key) for name, key in _SHARES.items() if key in others}
    prompt, completion, total = (others.pop(key, None) for key in ("promptTokens", "completionTokens", "totalTokens"))
    if "buckets" in others:
        buckets = others.pop("buckets")
        input, output, total = (buckets.get(key) for key in _BUCKETS.values())
    else:
        cached = (values.get("cache_read_tokens") or 0) + (values.get("cache_write_tokens") or 0)
        input, output = _subtract(prompt, cached), _subtract(completion, values.get("reasoning_tokens") or 0)
    usage = msgspec.convert({**values, "input_tokens": input, "output_tokens": output, "total_tokens": total}, Usage)
    unknown = unknown_fields({**others, "details": details} if details else others)
    return msgspec.structs.replace(usage, unknown_fields=unknown)


def _subtract(total: int | None, share: int) -> int | None:
    """Subtract a share from a total; a total that is smaller than its share did not include it."""
    return total if total is None or share > total else total - share


# --- provider metadata ------------------------------------------------------------------------------------------------

_TECHNICAL = {
    *("object", "created", "warnings", "seed", "usage_breakdown", "perf_metrics", "raw_output", "token_ids"),
    *("prompt_token_ids", "prompt_audio_seconds", "x_groq"),
}
"""Fields that the specification strips."""
_COUNTED = {
    *("prompt_tokens", "completion_tokens", "total_tokens", "input_tokens", "output_tokens", "cached_tokens"),
    *("cache_read_input_tokens", "cache_creation_input_tokens"),
    *("prompt_cache_hit_tokens", "prompt_cache_miss_tokens"),
    *("promptTokenCount", "candidatesTokenCount", "totalTokenCount", "thoughtsTokenCount", "cachedContentTokenCount"),
}
"""Fields of a provider's usage that `usage` has."""


def _metadata(response: ChatResponse) -> JsonObject:
    metadata: JsonObject = {}
    first = response.choices[:1]
    sources = [response.extra, *(choice.extra for choice in first), *(choice.message.extra for choice in first)]
    for text in sources:
        fields = _readable_fields(text)
        if isinstance(annotations := fields.get("annotations"), list):  # URL citations are in the text part
            others = [item for item in annotations if not (isinstance(item, dict) and "url_citation" in item)]
            fields["annotations"] = others or None
        if fields.get("system_fingerprint") == f"fp_{response.provider}":
            del fields["system_fingerprint"]  # Ollama: it only names the provider
        for name, value in fields.items():
            if name not in _TECHNICAL and value is not None:
                metadata.setdefault(camel_case(name), value)
    for name, value in _readable_fields(response.raw_usage).items():
        if name not in _TECHNICAL | _COUNTED and not isinstance(value, dict | list):
            metadata.setdefault(camel_case(name), value)
    return metadata


def _readable_fields(text: str) -> JsonObject:
    """Parse an object without nulls and without numbers that Python cannot represent; `extra` keeps the exact text."""
    fields: JsonObject = {}
    with contextlib.suppress(JsonError):
        for name, raw in jsonio.members(text).items():
            with contextlib.suppress(JsonError):
                fields[name] = jsonio.parse(raw)
    return {name: value for name, value in fields.items() if value is not None}


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
    return _RENAMED_IN.get((kind, name)) or _RENAMED.get(name) or camel_case(name)


def _plain(content: Any) -> Any:
    if isinstance(content, tuple):
        return [_plain(item) for item in content]
    match content:
        case Choice():
            return _choice_document(content)
        case AssistantMessage():
            return _fields(content)
        case Usage():
            return usage_document(content)
        case _ if isinstance(content, Block):
            return to_part(content)
    return to_document(content) if isinstance(content, Value) else content


_READERS: dict[Any, Callable[[Any], Any]] = {
    ProviderMeta | None: lambda meta: from_document(_METAS[meta["provider"]], meta),
    tuple[Citation, ...]: lambda citations: tuple(from_document(_CITATIONS[one["type"]], one) for one in citations),
    Location: lambda location: from_document(Location, location),
    Origin | None: lambda origin: from_document(Origin, origin),
    Usage | None: _read_usage,
    tuple[Loss, ...]: lambda losses: tuple(from_document(Loss, loss) for loss in losses),
    tuple[Block, ...]: lambda parts: tuple(map(from_part, parts)),
    tuple[Choice, ...]: lambda choices: tuple(map(_read_choice, choices)),
    AssistantMessage: lambda message: message,
}
"""How to read the values of fields that are not plain, by the type of the field. Null stays null."""


def _read(field: msgspec.structs.FieldInfo, content: Any, key: str) -> Any:
    try:
        if content is not None and (read := _READERS.get(field.type)):
            return read(content)
        return msgspec.convert(content, field.type)
    except (msgspec.ValidationError, UnicodeEncodeError, TypeError, KeyError, AttributeError) as exc:
        raise JsonError(f"{key}: {exc}") from None
