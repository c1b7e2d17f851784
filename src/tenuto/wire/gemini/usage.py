"""What a reply used: Gemini counts into buckets that do not overlap.

`promptTokenCount` includes what came from a cache and excludes what built-in tools brought in; `candidatesTokenCount`
excludes thoughts.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tenuto.core import jsonio
from tenuto.core.loss import Loss
from tenuto.core.messages import Usage
from tenuto.wire.gemini.protocol import MODALITIES, USAGE, camel
from tenuto.wire.usage import Count, count, less, plain, within

__all__ = ["normalised"]


class _Share(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    modality: str
    token_count: Count = 0


class _Counts(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Every count that is read; the last three fields are not."""

    prompt_token_count: Count | None = None
    cached_content_token_count: Count | None = None
    candidates_token_count: Count | None = None
    tool_use_prompt_token_count: Count | None = None
    thoughts_token_count: Count | None = None
    total_token_count: Count | None = None
    prompt_tokens_details: list[_Share] = []
    candidates_tokens_details: list[_Share] = []
    cache_tokens_details: list[_Share] = []
    tool_use_prompt_tokens_details: list[_Share] = []
    traffic_type: str = ""


_NOTHING = Usage()


def normalised(raw: bytes) -> tuple[Usage | None, list[Loss]]:
    """Return the counts of a usage object, None if it counts nothing. Counts that contradict each other are clamped."""
    losses: list[Loss] = []
    try:
        found = jsonio.decoder(_Counts).decode(raw)
    except (msgspec.DecodeError, UnicodeError):
        found = _loose(raw)
    prompt, brought = found.prompt_token_count, found.tool_use_prompt_token_count
    cached = within("cache_read_tokens", found.cached_content_token_count, prompt, losses)
    fresh = less(prompt, cached)
    given, made = _by_modality(found.prompt_tokens_details), _by_modality(found.candidates_tokens_details)
    usage = Usage(
        input_tokens=fresh if brought is None else (fresh or 0) + brought,
        cache_read_tokens=cached,
        output_tokens=found.candidates_token_count,
        reasoning_tokens=found.thoughts_token_count,
        reported_total=found.total_token_count,
        audio_input_tokens=given.get("AUDIO") if given else None,
        audio_output_tokens=made.get("AUDIO") if made else None,
        input_by_modality=given,
        output_by_modality=made,
    )
    return usage if usage != _NOTHING else None, losses


def _loose(raw: bytes) -> _Counts:
    """Read each count by itself: one that is none leaves the others as they are."""
    fields = camel(jsonio.members(raw), USAGE)
    counts = {name: plain(value) for name, value in fields.items()}
    return _Counts(
        _count(counts, "promptTokenCount"),
        _count(counts, "cachedContentTokenCount"),
        _count(counts, "candidatesTokenCount"),
        _count(counts, "toolUsePromptTokenCount"),
        _count(counts, "thoughtsTokenCount"),
        _count(counts, "totalTokenCount"),
        _shares(counts.get("promptTokensDetails")),
        _shares(counts.get("candidatesTokensDetails")),
    )


def _count(counts: dict[str, Any], name: str) -> int | None:
    found = counts.get(name)
    if isinstance(found, str) and found.isdecimal() and len(found) < 19:
        return int(found)  # JSON of 64-bit counts is text
    return count(found)


def _shares(listed: Any) -> list[_Share]:
    return [
        _Share(_modality(item.get("modality")), _count(item, "tokenCount") or _count(item, "token_count") or 0)
        for item in (listed if isinstance(listed, list) else ())
        if isinstance(item, dict)
    ]


def _by_modality(shares: list[_Share]) -> dict[str, int] | None:
    found: dict[str, int] = {}
    for share in shares:
        found[share.modality] = found.get(share.modality, 0) + share.token_count
    return found or None


def _modality(word: Any) -> str:
    if isinstance(word, int) and 0 <= word < len(MODALITIES):
        return MODALITIES[word]
    return word if isinstance(word, str) else str(word)
