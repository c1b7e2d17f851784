"""What a reply used, from the many spellings of the chat dialect to buckets that do not overlap."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.messages import Usage
from tenuto.core.target import Loss
from tenuto.wire.counts import count, less, plain, within

__all__ = ["usage_of"]

_INPUT = ("prompt_tokens_details", "prompt_token_details", "input_tokens_details")
_OUTPUT = ("completion_tokens_details", "completion_token_details", "output_tokens_details")
_MODALITIES = ("text", "image", "audio", "video")


def usage_of(raw: Raw, *, output_excludes_reasoning: bool = False) -> tuple[Usage | None, list[Loss]]:
    """Normalise a usage object. Buckets that contradict their sum are cut down to it, each with a `Loss`."""
    fields = plain(raw)
    if not isinstance(fields, dict):
        return None, [Loss("unreadable-usage", "usage", jsonio.as_text(raw)[:200])]
    losses: list[Loss] = []
    given, made = _details(fields, _INPUT), _details(fields, _OUTPUT)
    prompt = count(fields.get("prompt_tokens"))
    completion = count(fields.get("completion_tokens"))
    read = _first(given.get("cached_tokens"), *map(fields.get, _CACHED))
    write = _first(given.get("cache_write_tokens"), given.get("cache_creation_tokens"))
    thought = _first(made.get("reasoning_tokens"), fields.get("reasoning_tokens"))
    read = within("cache_read_tokens", read, prompt, losses)
    write = within("cache_write_tokens", write, less(prompt, read), losses)
    if not output_excludes_reasoning:
        thought = within("reasoning_tokens", thought, completion, losses)
    usage = Usage(
        input_tokens=less(prompt, read, write),
        cache_read_tokens=read,
        cache_write_tokens=write,
        output_tokens=completion if output_excludes_reasoning else less(completion, thought),
        reasoning_tokens=thought,
        total_tokens=count(fields.get("total_tokens")),
        audio_input_tokens=_first(given.get("audio_tokens"), fields.get("audio_prompt_tokens")),
        audio_output_tokens=count(made.get("audio_tokens")),
        input_by_modality=_by_modality(given),
        output_by_modality=_by_modality(made),
    )
    return usage, losses


_CACHED = ("prompt_cache_hit_tokens", "num_cached_tokens", "cached_tokens")


def _details(fields: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return next((held for name in names if isinstance(held := fields.get(name), dict)), {})


def _first(*values: object) -> int | None:
    return next((found for value in values if (found := count(value)) is not None), None)


def _by_modality(details: dict[str, Any]) -> dict[str, int] | None:
    counts = {name: count(details.get(f"{name}_tokens")) for name in _MODALITIES}
    return {name: found for name, found in counts.items() if found is not None} or None
