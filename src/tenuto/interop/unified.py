"""The unified response document: one reply in the words of the universal-client specification, and back.

Its own keys say what they say there: `content` is always a list of parts, `arguments` of a call is text, `finishReason`
is one of five words, `promptTokens` are all that went in and `completionTokens` all that came out. `providerMetadata`
is a view: what the provider said beside the answer, in camelCase, without what only describes its machinery.

What the specification has no word for stands in further keys, so that reading a document gives the very reply it was
written from: `rawFinishReason`, `origin`, `extra`, `rawUsage`, `losses`, and so on. Unknown is null, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tenuto.core import jsonio
from tenuto.core.jsonio import JsonError
from tenuto.core.messages import AssistantMessage, Origin, StopReason, Usage
from tenuto.core.response import ChatResponse, Choice
from tenuto.core.target import Loss
from tenuto.interop.unified_parts import camel_case, from_document, from_part, to_document, to_part, unknown_fields

__all__ = ["from_unified", "to_unified"]

Doc = dict[str, Any]


def to_unified(response: ChatResponse) -> Doc:
    """Write a reply as the unified document, of plain values that any JSON writer takes."""
    document: Doc = {
        "id": response.id,
        "provider": response.provider,
        "model": response.model,
        "choices": [_choice_document(choice) for choice in response.choices],
        "usage": None if response.usage is None else _usage_document(response.usage),
    }
    metadata = _metadata(response)
    _put(document, providerMetadata=metadata, rawUsage=response.raw_usage, unread=response.unread)
    _put(document, losses=[to_document(loss) for loss in response.losses])
    if metadata or response.extra:
        document["extra"] = response.extra
    return document


def from_unified(document: Mapping[str, Any]) -> ChatResponse:
    """Read a unified document, ours or another's; raise `JsonError` if it is none.

    Keys that nobody knows are kept in `unread` of the value they stood on.
    """
    try:
        metadata = document.get("providerMetadata")
        usage = document.get("usage")
        return ChatResponse(
            _held(document, "id", str),
            _held(document, "provider", str),
            _held(document, "model", str),
            tuple(map(_choice, document["choices"])),
            None if usage is None else _usage(usage),
            _held(document, "rawUsage", str, ""),
            _held(document, "extra", str, jsonio.as_text(jsonio.encode(metadata)) if metadata else ""),
            tuple(from_document(Loss, loss) for loss in document.get("losses", ())),
            unread=unknown_fields(document, _RESPONSE),
        )
    except (LookupError, TypeError, AttributeError, UnicodeEncodeError, msgspec.ValidationError) as exc:
        raise JsonError(f"no unified response: {exc!r}") from exc


_RESPONSE = {
    "id",
    "provider",
    "model",
    "choices",
    "usage",
    "providerMetadata",
    "rawUsage",
    "extra",
    "losses",
    "unread",
}


def _put(document: Doc, **fields: Any) -> None:
    document.update((name, held) for name, held in fields.items() if held)


def _held(document: Mapping[str, Any], key: str, kind: Any, *default: Any) -> Any:
    return msgspec.convert(document.get(key, *default) if default else document[key], kind)


# --- choices ----------------------------------------------------------------------------------------------------------


def _choice_document(choice: Choice) -> Doc:
    message = choice.message
    document: Doc = {
        "index": choice.index,
        "content": [to_part(block) for block in message.blocks],
        "finishReason": message.stop_reason,
    }
    if message.raw_stop is not None:
        document["rawFinishReason"] = message.raw_stop
    if message.origin is not None:
        document["origin"] = to_document(message.origin)
    _put(document, incomplete=message.incomplete, extra=choice.extra, unread=choice.unread)
    _put(document, messageExtra=message.extra, messageUnread=message.unread)
    return document


def _choice(document: Mapping[str, Any]) -> Choice:
    origin = document.get("origin")
    message = AssistantMessage(
        tuple(map(from_part, document["content"])),
        _held(document, "finishReason", StopReason | None, None),
        _held(document, "rawFinishReason", str | None, None),
        None if origin is None else from_document(Origin, origin),
        _held(document, "messageExtra", str, ""),
        _held(document, "incomplete", bool, False),
        unread=_held(document, "messageUnread", str, ""),
    )
    index, extra = _held(document, "index", int, 0), _held(document, "extra", str, "")
    return Choice(message, index, extra, unread=unknown_fields(document, _CHOICE))


_CHOICE = {
    "index",
    "content",
    "finishReason",
    "rawFinishReason",
    "origin",
    "incomplete",
    "extra",
    "unread",
    "messageExtra",
    "messageUnread",
}


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
_BUCKETS = {"input_tokens": "inputTokens", "output_tokens": "outputTokens", "reported_total": "totalTokens"}
_USAGE = {"promptTokens", "completionTokens", "totalTokens", "details", "buckets", "unread"}


def _usage_document(usage: Usage) -> Doc:
    document: Doc = {
        "promptTokens": usage.prompt_tokens,
        "completionTokens": usage.completion_tokens,
        "totalTokens": usage.total_tokens,
    }
    details = {key: held for name, key in _DETAILS.items() if (held := getattr(usage, name)) is not None}
    _put(document, details=details, unread=usage.unread)
    if _usage(document) != usage:  # the sums do not tell what was unknown
        document["buckets"] = {
            key: held for name, key in _BUCKETS.items() if (held := getattr(usage, name)) is not None
        }
    return document


def _usage(document: Mapping[str, Any]) -> Usage:
    details = document.get("details") or {}
    held = {name: details[key] for name, key in _DETAILS.items() if key in details}
    if "buckets" in document:
        buckets = {name: document["buckets"].get(key) for name, key in _BUCKETS.items()}
    else:
        cached = (held.get("cache_read_tokens") or 0) + (held.get("cache_write_tokens") or 0)
        buckets = {
            "input_tokens": _without(document.get("promptTokens"), cached),
            "output_tokens": _without(document.get("completionTokens"), held.get("reasoning_tokens") or 0),
            "reported_total": document.get("totalTokens"),
        }
    total = buckets.pop("reported_total")
    usage = msgspec.convert({**held, **buckets, "total_tokens": total}, Usage)
    return msgspec.structs.replace(usage, unread=_strange_usage(document, details))


def _strange_usage(document: Mapping[str, Any], details: Mapping[str, Any]) -> str:
    strange = {name: held for name, held in details.items() if name not in _DETAILS.values()}
    return unknown_fields({**document, "details": strange}, _USAGE - {"details"} if strange else _USAGE)


def _without(whole: int | None, share: int) -> int | None:
    """Take a share off a sum; what is smaller than its share was never a sum."""
    return whole if whole is None or share > whole else whole - share


# --- what the provider said beside the answer -------------------------------------------------------------------------

_MACHINERY = {
    "object",
    "created",
    "warnings",
    "seed",
    "usage_breakdown",
    "perf_metrics",
    "raw_output",
    "token_ids",
    "prompt_token_ids",
    "prompt_audio_seconds",
    "x_groq",
}
_COUNTED = {
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "prompt_cache_hit_tokens",
    "prompt_cache_miss_tokens",
    "promptTokenCount",
    "candidatesTokenCount",
    "totalTokenCount",
    "thoughtsTokenCount",
    "cachedContentTokenCount",
}


def _metadata(response: ChatResponse) -> Doc:
    found: Doc = {}
    first = response.choices[:1]
    sources = [response.extra, *(choice.extra for choice in first), *(choice.message.extra for choice in first)]
    for text in sources:
        for name, held in _view(text).items():
            if name not in _MACHINERY and not _names_only_the_provider(name, held, response.provider):
                found.setdefault(camel_case(name), held)
    for name, held in _view(response.raw_usage).items():
        if name not in _MACHINERY | _COUNTED and not isinstance(held, dict | list):
            found.setdefault(camel_case(name), held)
    return found


def _names_only_the_provider(name: str, held: Any, provider: str) -> bool:
    """A fingerprint that says no more than who answered tells nothing about the system behind."""
    return name == "system_fingerprint" and held == f"fp_{provider}"


def _view(text: str) -> Doc:
    """Read an object for show: without nulls, and without what Python cannot hold. The text itself stays exact."""
    found: Doc = {}
    try:
        members = jsonio.members(text) if text else {}
    except JsonError:
        return found
    for name, raw in members.items():
        try:
            found[name] = jsonio.parse(raw)
        except JsonError:
            continue
    return {name: held for name, held in found.items() if held is not None}
