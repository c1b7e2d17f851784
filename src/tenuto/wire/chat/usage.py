"""What a reply used, from the many spellings of the chat dialect to buckets that do not overlap."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.messages import Usage
from tenuto.core.target import Loss

__all__ = ["usage_of"]

_INPUT = ("prompt_tokens_details", "prompt_token_details", "input_tokens_details")
_OUTPUT = ("completion_tokens_details", "completion_token_details", "output_tokens_details")
_MODALITIES = ("text", "image", "audio", "video")


def usage_of(raw: Raw, *, output_excludes_reasoning: bool = False) -> tuple[Usage | None, list[Loss]]:
    """Normalise a usage object. Buckets that contradict their sum are cut down to it, each with a `Loss`."""
    fields = jsonio.parse(raw)
    if not isinstance(fields, dict):
        return None, [Loss("unreadable-usage", "usage", jsonio.as_text(raw)[:200])]
    losses: list[Loss] = []
    given, made = _details(fields, _INPUT), _details(fields, _OUTPUT)
    prompt = _count(fields.get("prompt_tokens"))
    completion = _count(fields.get("completion_tokens"))
    read = _first(given.get("cached_tokens"), *map(fields.get, _CACHED))
    write = _first(given.get("cache_write_tokens"), given.get("cache_creation_tokens"))
    thought = _first(made.get("reasoning_tokens"), fields.get("reasoning_tokens"))
    read = _within("cache_read_tokens", read, prompt, losses)
    write = _within("cache_write_tokens", write, _less(prompt, read), losses)
    if not output_excludes_reasoning:
        thought = _within("reasoning_tokens", thought, completion, losses)
    usage = Usage(
        input_tokens=_less(prompt, read, write),
        cache_read_tokens=read,
        cache_write_tokens=write,
        output_tokens=completion if output_excludes_reasoning else _less(completion, thought),
        reasoning_tokens=thought,
        total_tokens=_count(fields.get("total_tokens")),
        audio_input_tokens=_first(given.get("audio_tokens"), fields.get("audio_prompt_tokens")),
        audio_output_tokens=_count(made.get("audio_tokens")),
        input_by_modality=_by_modality(given),
        output_by_modality=_by_modality(made),
    )
    return usage, losses


_CACHED = ("prompt_cache_hit_tokens", "num_cached_tokens", "cached_tokens")


def _details(fields: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return next((held for name in names if isinstance(held := fields.get(name), dict)), {})


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    return int(value) if math.isfinite(value) else None


def _first(*values: object) -> int | None:
    return next((count for value in values if (count := _count(value)) is not None), None)


def _less(total: int | None, *parts: int | None) -> int | None:
    return None if total is None else total - sum(part or 0 for part in parts)


def _within(name: str, part: int | None, total: int | None, losses: list[Loss]) -> int | None:
    if part is None or total is None or part <= total:
        return part
    losses.append(Loss("contradicting-usage", f"usage.{name}", f"{part} is more than the {total} it is a part of"))
    return total


def _by_modality(details: dict[str, Any]) -> dict[str, int] | None:
    found = {name: count for name in _MODALITIES if (count := _count(details.get(f"{name}_tokens"))) is not None}
    return found or None
