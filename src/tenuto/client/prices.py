"""The cost of a reply in USD, from the dated prices of `tenuto.catalog`, or from `genai-prices` if it is installed.

An unknown cost is None, never 0. These are list prices of the standard tier, without discounts, premiums for speed and the
prices of server tools (a search, a container). A cache write has the price of the shortest cache time.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal

from tenuto import catalog
from tenuto.core.messages import Usage

FIRST_TIER = 100_000
"""The number of prompt tokens from which a tiered price may be higher. The catalog has only the lowest tier."""


def cost(usage: Usage, provider: str, model: str, on: date) -> Decimal | None:
    """Return the cost of a usage on a day at `provider` (its name in the catalog); None if it is unknown.

    It is unknown if input or output tokens are unknown, or if a used kind of token has no price; with the catalog's prices
    also if a long prompt may cost more, or for audio and images, which have other prices. Reasoning is billed as output.
    Prices of the extra `prices` win; they are not updated, and those of noon (UTC) are used.
    """
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    listed = _from_library(usage, provider, model, on)
    return listed if listed is not None else _from_table(usage, catalog.price_on(provider, model, on))


def _from_table(usage: Usage, price: catalog.Price | None) -> Decimal | None:
    if price is None or price.input is None:
        return None
    if price.input == price.output == 0:
        return Decimal(0)  # cached tokens are free, too
    output = usage.output_by_modality or {}
    has_media = any(count for kind, count in output.items() if kind.lower() != "text")
    if usage.audio_input_tokens or usage.audio_output_tokens or has_media:
        return None  # the catalog has only the prices of text
    if price.tiered and (usage.prompt_tokens or 0) >= FIRST_TIER:
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
    return total / 1_000_000


def _from_library(usage: Usage, provider: str, model: str, on: date) -> Decimal | None:
    if not catalog.is_known_provider(provider):
        return None  # the library matches similar names, but a custom server has its own prices
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
        result = calc_price(
            Counts(**{name: count for name, count in counts.items() if count}),
            model,
            provider_id=provider,
            genai_request_timestamp=noon,
        )
    except (LookupError, ValueError):  # unknown model, or not enough counts
        return None
    price = result.model_price
    needed = (
        (True, price.input_mtok),
        (usage.completion_tokens, price.output_mtok),
        (usage.cache_read_tokens, price.cache_read_mtok),
        (usage.cache_write_tokens, price.cache_write_mtok),
    )
    return None if any(count and each is None for count, each in needed) else result.total_price
