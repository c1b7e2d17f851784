"""Read Anthropic's usage: cached input has its own counts, and thinking is a part of the output."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.loss import Loss
from tenuto.core.messages import Usage
from tenuto.wire.usage import Count, count, less, plain, within

__all__ = ["usage_of"]

_NOT_IN_TOTALS = ("compaction", "advisor_message")
"""Types of `iterations` whose tokens are billed, but not in the totals. The totals hold the `message` entries."""


class _Details(msgspec.Struct, forbid_unknown_fields=True):
    thinking_tokens: Count | None = None


class _Counts(msgspec.Struct):
    input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    output_tokens: Count | None = None
    output_tokens_details: _Details | None = None


def usage_of(fields: dict[str, Raw]) -> tuple[Usage | None, list[Loss]]:
    """Normalise the merged usage object; None if none came."""
    if not fields:
        return None, []
    losses: list[Loss] = []
    usage = _usage(fields, losses)
    for entry in _objects(fields.get("iterations")):
        if plain(entry.get("type")) in _NOT_IN_TOTALS:
            usage += _usage(entry, losses)
    return usage, losses


def _usage(fields: dict[str, Raw], losses: list[Loss]) -> Usage:
    """Read the counts of a usage object or of one of its iterations."""
    try:
        found = jsonio.decoder(_Counts).decode(msgspec.json.encode(fields))
    except (msgspec.DecodeError, UnicodeError):
        found = _loose(fields)
    details, output = found.output_tokens_details, found.output_tokens
    thought = within("reasoning_tokens", details.thinking_tokens, output, losses) if details is not None else None
    return Usage(
        input_tokens=found.input_tokens,
        cache_read_tokens=found.cache_read_input_tokens,
        cache_write_tokens=found.cache_creation_input_tokens,
        output_tokens=less(output, thought),
        reasoning_tokens=thought,
    )


def _loose(fields: dict[str, Raw]) -> _Counts:
    """Read each count by itself: one that is none leaves the others as they are."""
    details = fields.get("output_tokens_details")
    inner = jsonio.members(details) if details is not None and bytes(details)[:1] == b"{" else {}
    return _Counts(
        count(plain(fields.get("input_tokens"))),
        count(plain(fields.get("cache_read_input_tokens"))),
        count(plain(fields.get("cache_creation_input_tokens"))),
        count(plain(fields.get("output_tokens"))),
        _Details(count(plain(inner.get("thinking_tokens")))),
    )


def _objects(listed: Raw | None) -> list[dict[str, Raw]]:
    """Return the objects of a list; a value that is no list has none."""
    if listed is None or bytes(listed)[:1] != b"[":
        return []
    return [jsonio.members(entry) for entry in jsonio.elements(listed) if bytes(entry)[:1] == b"{"]
