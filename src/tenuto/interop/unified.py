"""The unified response document of the universal-client specification, and back.

Its keys are those of the specification: `content` is a list of parts, `arguments` of a call is text, `finishReason` is one
of five words, `promptTokens` counts the whole input and `completionTokens` the whole output. `providerMetadata` has the
provider's other fields in camelCase, without technical ones.

What the specification has no key for is in further keys, so that `from_unified(to_unified(response)) == response`:
`rawFinishReason`, `origin`, `extra`, `rawUsage`, `losses`, ... Unknown is null, never 0.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec

from tenuto.core import jsonio
from tenuto.core.jsonio import JsonError
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, Origin, StopReason, Usage
from tenuto.core.response import ChatResponse, Choice
from tenuto.interop.unified_parts import (
    JsonObject,
    camel_case,
    from_document,
    from_part,
    to_document,
    to_part,
    unknown_fields,
)


def to_unified(response: ChatResponse) -> JsonObject:
    """Write a response as the unified document, of plain values that any JSON writer accepts."""
    document: JsonObject = {
        "id": response.id,
        "provider": response.provider,
        "model": response.model,
        "choices": [_choice_document(choice) for choice in response.choices],
        "usage": None if response.usage is None else usage_document(response.usage),
    }
    metadata = _metadata(response)
    losses = [to_document(loss) for loss in response.losses]
    _set_if_given(document, providerMetadata=metadata, rawUsage=response.raw_usage)
    _set_if_given(document, losses=losses, unknownFields=response.unknown_fields)
    if metadata or response.extra:
        document["extra"] = response.extra
    return document


def from_unified(document: Mapping[str, Any]) -> ChatResponse:
    """Read a unified document; unknown keys go to `unknown_fields`. Raise `JsonError` for any other document."""
    try:
        others = {**document}
        metadata = others.pop("providerMetadata", None)
        usage = others.pop("usage", None)
        return ChatResponse(
            _take(others, "id", str),
            _take(others, "provider", str),
            _take(others, "model", str),
            tuple(map(_choice, others.pop("choices"))),
            None if usage is None else _usage(usage),
            _take(others, "rawUsage", str, ""),
            _take(others, "extra", str, jsonio.as_text(jsonio.encode(metadata)) if metadata else ""),
            tuple(from_document(Loss, loss) for loss in others.pop("losses", ())),
            unknown_fields=unknown_fields(others),
        )
    except (LookupError, TypeError, AttributeError, UnicodeEncodeError, msgspec.ValidationError) as exc:
        raise JsonError(f"not a unified response: {exc!r}") from exc


def _set_if_given(document: JsonObject, **fields: Any) -> None:
    document.update((name, value) for name, value in fields.items() if value)


def _take(others: JsonObject, key: str, kind: Any, *default: Any) -> Any:
    """Remove a member and return it as a value of a kind."""
    return msgspec.convert(others.pop(key, *default), kind)


# --- choices ----------------------------------------------------------------------------------------------------------


def _choice_document(choice: Choice) -> JsonObject:
    message = choice.message
    document: JsonObject = {
        "index": choice.index,
        "content": [to_part(block) for block in message.blocks],
        "finishReason": message.stop_reason,
    }
    if message.raw_stop_reason is not None:
        document["rawFinishReason"] = message.raw_stop_reason
    if message.origin is not None:
        document["origin"] = to_document(message.origin)
    _set_if_given(document, incomplete=message.incomplete, extra=choice.extra, unknownFields=choice.unknown_fields)
    _set_if_given(document, messageExtra=message.extra, messageUnknownFields=message.unknown_fields)
    return document


def _choice(document: Mapping[str, Any]) -> Choice:
    others = {**document}
    origin = others.pop("origin", None)
    message = AssistantMessage(
        tuple(map(from_part, others.pop("content"))),
        _take(others, "finishReason", StopReason | None, None),
        _take(others, "rawFinishReason", str | None, None),
        None if origin is None else from_document(Origin, origin),
        _take(others, "messageExtra", str, ""),
        _take(others, "incomplete", bool, False),
        unknown_fields=_take(others, "messageUnknownFields", str, ""),
    )
    index, extra = _take(others, "index", int, 0), _take(others, "extra", str, "")
    return Choice(message, index, extra, unknown_fields=unknown_fields(others))


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
    _set_if_given(document, details=details, unknownFields=usage.unknown_fields)
    if _usage(document) != usage:  # the sums do not say which count is unknown
        buckets = {key: getattr(usage, name) for name, key in _BUCKETS.items()}
        document["buckets"] = {key: value for key, value in buckets.items() if value is not None}
    return document


def _usage(document: Mapping[str, Any]) -> Usage:
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
