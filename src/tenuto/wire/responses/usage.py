"""What a reply used: the provider's counters made into buckets that do not overlap.

`input_tokens` counts cached tokens in, and `output_tokens` counts reasoning in, so both are taken apart here.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.messages import Usage
from tenuto.wire.usage import Count, count, plain

__all__ = ["usage_of"]


class _Shares(msgspec.Struct, forbid_unknown_fields=True):
    """What a sum is made of."""

    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    text_tokens: Count | None = None
    image_tokens: Count | None = None
    audio_tokens: Count | None = None
    video_tokens: Count | None = None


class _Counts(msgspec.Struct, forbid_unknown_fields=True):
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    total_tokens: Count | None = None
    input_tokens_details: _Shares | None = None
    output_tokens_details: _Shares | None = None


_NO_SHARES = _Shares()


def usage_of(raw: Raw) -> tuple[Usage, list[str]]:
    """Return the usage, and what contradicts itself in it: a share larger than its whole leaves nothing beside it."""
    try:
        found = jsonio.decoder(_Counts).decode(raw)
    except (msgspec.DecodeError, UnicodeError):
        found = _loose(jsonio.members(raw))
    given, gave = found.input_tokens_details or _NO_SHARES, found.output_tokens_details or _NO_SHARES
    cached, written, thought = given.cached_tokens, given.cache_write_tokens, gave.reasoning_tokens
    faults: list[str] = []
    usage = Usage(
        input_tokens=_rest("input_tokens", found.input_tokens, (cached or 0) + (written or 0), faults),
        cache_read_tokens=cached,
        cache_write_tokens=written,
        output_tokens=_rest("output_tokens", found.output_tokens, thought or 0, faults),
        reasoning_tokens=thought,
        reported_total=found.total_tokens,
        audio_input_tokens=given.audio_tokens,
        audio_output_tokens=gave.audio_tokens,
        input_by_modality=_by_kind(given),
        output_by_modality=_by_kind(gave),
    )
    return usage, faults


def _loose(fields: dict[str, Raw]) -> _Counts:
    """Read each count by itself: one that is none leaves the others as they are."""
    return _Counts(
        _count(fields.get("input_tokens")),
        _count(fields.get("output_tokens")),
        _count(fields.get("total_tokens")),
        _shares(fields.get("input_tokens_details")),
        _shares(fields.get("output_tokens_details")),
    )


def _shares(value: Raw | None) -> _Shares:
    held = jsonio.members(value) if value is not None and bytes(value)[:1] == b"{" else {}
    return _Shares(*(_count(held.get(name)) for name in _Shares.__struct_fields__))


def _count(value: Raw | None) -> int | None:
    return count(plain(value))


def _rest(name: str, whole: int | None, share: int, faults: list[str]) -> int | None:
    if whole is None or share <= whole:
        return None if whole is None else whole - share
    faults.append(f"{name} is {whole}, but {share} of them are counted elsewhere")
    return 0


def _by_kind(shares: _Shares) -> dict[str, int] | None:
    counts = {
        "text": shares.text_tokens,
        "image": shares.image_tokens,
        "audio": shares.audio_tokens,
        "video": shares.video_tokens,
    }
    return {kind: found for kind, found in counts.items() if found is not None} or None
