"""What a reply used, from the many spellings of the chat dialect to buckets that do not overlap."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.loss import Loss
from tenuto.core.messages import Usage
from tenuto.wire.usage import Count, count, less, plain, within

__all__ = ["usage_of"]


class _Shares(msgspec.Struct, forbid_unknown_fields=True):
    """What a sum is made of. The two predictions are not read: most hosts count them."""

    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    cache_creation_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    text_tokens: Count | None = None
    image_tokens: Count | None = None
    audio_tokens: Count | None = None
    video_tokens: Count | None = None
    accepted_prediction_tokens: Count | None = None
    rejected_prediction_tokens: Count | None = None


class _Counts(msgspec.Struct, forbid_unknown_fields=True):
    """Every count that is read, in all spellings; of several the first that is there counts."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    total_tokens: Count | None = None
    prompt_tokens_details: _Shares | None = None
    prompt_token_details: _Shares | None = None
    input_tokens_details: _Shares | None = None
    completion_tokens_details: _Shares | None = None
    completion_token_details: _Shares | None = None
    output_tokens_details: _Shares | None = None
    prompt_cache_hit_tokens: Count | None = None
    prompt_cache_miss_tokens: Count | None = None  # not read: the rest of the prompt
    num_cached_tokens: Count | None = None
    cached_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    audio_prompt_tokens: Count | None = None


_NO_SHARES = _Shares()
_DETAILS = [name for name in _Counts.__struct_fields__ if name.endswith("_details")]


def usage_of(raw: Raw, *, output_excludes_reasoning: bool = False) -> tuple[Usage | None, list[Loss]]:
    """Normalise a usage object. Buckets that contradict their sum are cut down to it, each with a `Loss`."""
    losses: list[Loss] = []
    try:
        found = jsonio.decoder(_Counts).decode(raw)
    except (msgspec.DecodeError, UnicodeError):
        fields = plain(raw)
        if not isinstance(fields, dict):
            return None, [Loss("unreadable-usage", "usage", jsonio.as_text(raw)[:200])]
        found = _loose(fields)
    given = found.prompt_tokens_details or found.prompt_token_details or found.input_tokens_details or _NO_SHARES
    made = (
        found.completion_tokens_details or found.completion_token_details or found.output_tokens_details or _NO_SHARES
    )
    prompt, completion = found.prompt_tokens, found.completion_tokens
    read = _first(given.cached_tokens, found.prompt_cache_hit_tokens, found.num_cached_tokens, found.cached_tokens)
    write = _first(given.cache_write_tokens, given.cache_creation_tokens)
    thought = _first(made.reasoning_tokens, found.reasoning_tokens)
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
        reported_total=found.total_tokens,
        audio_input_tokens=_first(given.audio_tokens, found.audio_prompt_tokens),
        audio_output_tokens=made.audio_tokens,
        input_by_modality=_by_modality(given),
        output_by_modality=_by_modality(made),
    )
    return usage, losses


def _loose(fields: dict[str, object]) -> _Counts:
    """Read each count by itself: one that is none leaves the others as they are."""
    counts = {name: count(fields.get(name)) for name in _Counts.__struct_fields__ if name not in _DETAILS}
    shares = {
        name: {share: count(held.get(share)) for share in _Shares.__struct_fields__}
        for name in _DETAILS
        if isinstance(held := fields.get(name), dict)
    }
    return msgspec.convert({**counts, **shares}, _Counts)


def _first(*counts: int | None) -> int | None:
    for found in counts:
        if found is not None:
            return found
    return None


def _by_modality(shares: _Shares) -> dict[str, int] | None:
    if shares is _NO_SHARES:
        return None
    counts = {
        "text": shares.text_tokens,
        "image": shares.image_tokens,
        "audio": shares.audio_tokens,
        "video": shares.video_tokens,
    }
    return {name: found for name, found in counts.items() if found is not None} or None
