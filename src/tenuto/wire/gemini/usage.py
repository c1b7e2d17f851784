"""What a reply used: Gemini counts into buckets that do not overlap.

`promptTokenCount` includes what came from a cache and excludes what built-in tools brought in; `candidatesTokenCount`
excludes thoughts.
"""

from __future__ import annotations

from typing import Any

from tenuto.core import jsonio
from tenuto.core.messages import Usage
from tenuto.core.target import Loss
from tenuto.wire.counts import count, less, plain, within
from tenuto.wire.gemini.shapes import MODALITIES, USAGE, camel

__all__ = ["normalised"]


def normalised(raw: bytes, losses: list[Loss]) -> Usage | None:
    """Return the counts of a usage object, None if it counts nothing. Counts that contradict each other are clamped."""
    fields = camel(jsonio.members(raw), USAGE)
    counts = {name: plain(value) for name, value in fields.items()}
    prompt, cached = _count(counts, "promptTokenCount"), _count(counts, "cachedContentTokenCount")
    cached = within("cache_read_tokens", cached, prompt, losses)
    fresh = less(prompt, cached)
    brought = _count(counts, "toolUsePromptTokenCount")
    given = _by_modality(counts, "promptTokensDetails")
    made = _by_modality(counts, "candidatesTokensDetails")
    usage = Usage(
        input_tokens=fresh if brought is None else (fresh or 0) + brought,
        cache_read_tokens=cached,
        output_tokens=_count(counts, "candidatesTokenCount"),
        reasoning_tokens=_count(counts, "thoughtsTokenCount"),
        total_tokens=_count(counts, "totalTokenCount"),
        audio_input_tokens=given.get("AUDIO") if given else None,
        audio_output_tokens=made.get("AUDIO") if made else None,
        input_by_modality=given,
        output_by_modality=made,
    )
    return usage if usage != Usage() else None


def _count(counts: dict[str, Any], name: str) -> int | None:
    found = counts.get(name)
    if isinstance(found, str) and found.isdecimal() and len(found) < 19:
        return int(found)  # JSON of 64-bit counts is text
    return count(found)


def _by_modality(counts: dict[str, Any], name: str) -> dict[str, int] | None:
    listed = counts.get(name)
    found: dict[str, int] = {}
    for item in listed if isinstance(listed, list) else ():
        if isinstance(item, dict):
            word = _modality(item.get("modality"))
            found[word] = found.get(word, 0) + (_count(item, "tokenCount") or _count(item, "token_count") or 0)
    return found or None


def _modality(word: Any) -> str:
    if isinstance(word, int) and 0 <= word < len(MODALITIES):
        return MODALITIES[word]
    return word if isinstance(word, str) else str(word)
