"""What a reply costs, in USD: from the dated table of `tenuto.catalog`, or from `genai-prices` where that is installed.

An unknown cost is None, never 0. These are list prices on the standard tier: neither a discount, nor a premium for speed,
nor the price of a provider's own tools (a search, a container) is in them, and what is written to a cache costs as much
as the shortest keeping of it.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal

from tenuto import catalog
from tenuto.catalog import is_known_provider
from tenuto.core.messages import Usage

__all__ = ["FIRST_TIER", "cost", "price_of"]

FIRST_TIER = 100_000
"""Tokens of prompt below which no tiered price of the table rises. The table has only the lowest tier of each."""
_MILLION = 1_000_000


def cost(usage: Usage, provider: str, model: str, on: date) -> Decimal | None:
    """Return what this usage costs at `provider` (a row's own name) on a day; None if that is not known.

    It is not known where the input or the output is not counted, where anything that was used has no price, and, from
    the table, where a long prompt may cost more, or where sound or pictures are billed at a price of their own. Reasoning
    is billed as output. With the extra `prices`, its prices stand before those of the table; it is never asked to load
    new ones, and the price is that of noon (UTC).
    """
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    listed = _from_library(usage, provider, model, on)
    return listed if listed is not None else _from_table(usage, catalog.price_on(provider, model, on))


def price_of(provider: str, model: str, on: date) -> bool:
    """Tell whether a plain reply of this model has a known cost."""
    return cost(Usage(input_tokens=1, output_tokens=1), provider, model, on) is not None


def _from_table(usage: Usage, price: catalog.Price | None) -> Decimal | None:
    if price is None or price.input is None or price.output is None:
        return None
    if price.input == price.output == 0:
        return Decimal(0)  # what is free is free from a cache, too
    if _billed_apart(usage) or (price.tiered and (usage.prompt_tokens or 0) >= FIRST_TIER):
        return None
    total = Decimal(0)
    for count, each in (
        (usage.input_tokens, price.input),
        (usage.cache_read_tokens, price.cache_read),
        (usage.cache_write_tokens, price.cache_write),
        (usage.completion_tokens, price.output),
    ):
        if count:
            if each is None:
                return None
            total += count * each
    return total / _MILLION


def _billed_apart(usage: Usage) -> bool:
    """Tell whether a part of this is no text and has, as a rule, a price of its own that the table does not hold."""
    made = usage.output_by_modality or {}
    return bool(
        usage.audio_input_tokens
        or usage.audio_output_tokens
        or any(count for kind, count in made.items() if kind.lower() != "text")
    )


def _from_library(usage: Usage, provider: str, model: str, on: date) -> Decimal | None:
    if not is_known_provider(provider):
        return None  # the library looks for names that look alike, and a server of one's own has its own prices
    try:
        from genai_prices import Usage as Counts
        from genai_prices import calc_price
    except ImportError:
        return None
    noon = datetime.combine(on, time(12), tzinfo=UTC)
    counts = {
        "input_tokens": usage.prompt_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "output_tokens": usage.completion_tokens,
        "input_audio_tokens": usage.audio_input_tokens,
        "output_audio_tokens": usage.audio_output_tokens,
    }
    try:
        found = calc_price(
            Counts(**{name: count for name, count in counts.items() if count}),
            model,
            provider_id=provider,
            genai_request_timestamp=noon,
        )
    except (LookupError, ValueError):  # it does not know the model, or the counts do not tell it enough
        return None
    price = found.model_price
    if price.input_mtok is None or price.output_mtok is None:
        return None
    if usage.cache_read_tokens and price.cache_read_mtok is None:
        return None
    if usage.cache_write_tokens and price.cache_write_mtok is None:
        return None
    return found.total_price
