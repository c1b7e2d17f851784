"""What a reply used: Anthropic counts cached input apart already, and thinking as a part of the output."""

from __future__ import annotations

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.messages import Usage
from tenuto.core.target import Loss
from tenuto.wire.counts import count, less, plain, within

__all__ = ["usage_of"]


def usage_of(fields: dict[str, Raw]) -> tuple[Usage | None, list[Loss]]:
    """Normalise the merged usage object; None if none came."""
    if not fields:
        return None, []
    losses: list[Loss] = []
    details = fields.get("output_tokens_details")
    inner = jsonio.members(details) if details is not None and bytes(details)[:1] == b"{" else {}
    output = count(plain(fields.get("output_tokens")))
    thought = within("reasoning_tokens", count(plain(inner.get("thinking_tokens"))), output, losses)
    usage = Usage(
        input_tokens=count(plain(fields.get("input_tokens"))),
        cache_read_tokens=count(plain(fields.get("cache_read_input_tokens"))),
        cache_write_tokens=count(plain(fields.get("cache_creation_input_tokens"))),
        output_tokens=less(output, thought),
        reasoning_tokens=thought,
    )
    return usage, losses
