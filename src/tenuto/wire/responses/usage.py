"""What a reply used: the provider's counters made into buckets that do not overlap.

`input_tokens` counts cached tokens in, and `output_tokens` counts reasoning in, so both are taken apart here.
"""

from __future__ import annotations

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.messages import Usage
from tenuto.wire.counts import count, plain

__all__ = ["usage_of"]

_KINDS = ("text", "image", "audio", "video")


def usage_of(raw: Raw) -> tuple[Usage, list[str]]:
    """Return the usage, and what contradicts itself in it: a share larger than its whole leaves nothing beside it."""
    fields = jsonio.members(raw)
    given, gave = _details(fields.get("input_tokens_details")), _details(fields.get("output_tokens_details"))
    cached, written = _count(given.get("cached_tokens")), _count(given.get("cache_write_tokens"))
    thought = _count(gave.get("reasoning_tokens"))
    came, went = _count(fields.get("input_tokens")), _count(fields.get("output_tokens"))
    faults: list[str] = []
    usage = Usage(
        input_tokens=_rest("input_tokens", came, (cached or 0) + (written or 0), faults),
        cache_read_tokens=cached,
        cache_write_tokens=written,
        output_tokens=_rest("output_tokens", went, thought or 0, faults),
        reasoning_tokens=thought,
        total_tokens=_count(fields.get("total_tokens")),
        audio_input_tokens=_count(given.get("audio_tokens")),
        audio_output_tokens=_count(gave.get("audio_tokens")),
        input_by_modality=_by_kind(given),
        output_by_modality=_by_kind(gave),
    )
    return usage, faults


def _details(value: Raw | None) -> dict[str, Raw]:
    return jsonio.members(value) if value is not None and bytes(value)[:1] == b"{" else {}


def _count(value: Raw | None) -> int | None:
    return count(plain(value))


def _rest(name: str, whole: int | None, share: int, faults: list[str]) -> int | None:
    if whole is None or share <= whole:
        return None if whole is None else whole - share
    faults.append(f"{name} is {whole}, but {share} of them are counted elsewhere")
    return 0


def _by_kind(details: dict[str, Raw]) -> dict[str, int] | None:
    counts = {kind: _count(details.get(f"{kind}_tokens")) for kind in _KINDS}
    return {kind: found for kind, found in counts.items() if found is not None} or None
