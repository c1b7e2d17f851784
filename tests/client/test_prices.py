from __future__ import annotations

import socket
import sys
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import usages
from tenuto import catalog
from tenuto.client.reply import FIRST_TIER, cost
from tenuto.core.messages import Usage

TODAY = date(2026, 11, 15)
USAGE = Usage(input_tokens=1000, output_tokens=100)


@pytest.fixture
def table(monkeypatch):
    """Use the price table only, as if the extra were not installed."""
    monkeypatch.setitem(sys.modules, "genai_prices", None)


def cost_of(usage, provider="anthropic", model="claude-opus-4-6", on=TODAY):
    return cost(usage, provider, model, on)


# --- the table --------------------------------------------------------------------------------------------------------


def test_kinds_of_tokens_have_separate_prices(table):
    """Per million: 5 for input, 25 for output, 0.5 from the cache, 6.25 into it; reasoning is output."""
    usage = Usage(
        input_tokens=1000,
        cache_read_tokens=2000,
        cache_write_tokens=400,
        output_tokens=100,
        reasoning_tokens=300,
    )

    assert cost_of(usage) == Decimal("0.005") + Decimal("0.001") + Decimal("0.0025") + Decimal("0.01")


def test_price_depends_on_the_day(table):
    before, after = (cost_of(USAGE, "google", "gemini-4-carbon", date(2026, *day)) for day in ((11, 30), (12, 1)))

    assert (before, after) == (Decimal("0.003"), Decimal("0.006"))


@pytest.mark.parametrize(
    "provider, model", [("anthropic", "claude-unheard-of"), ("mine", "claude-opus-4-6"), ("nobody", "x")]
)
def test_unknown_price_is_none(table, provider, model):
    assert cost_of(USAGE, provider, model) is None


@pytest.mark.parametrize("usage", [Usage(), Usage(input_tokens=5), Usage(output_tokens=5)])
def test_unknown_usage_has_no_cost(table, usage):
    assert cost_of(usage) is None


def test_unpriced_kind_of_tokens_makes_the_cost_unknown(table):
    """Moonshot v1 has no price for cached tokens."""
    assert cost_of(USAGE, "moonshot", "moonshot-v1-8k") == Decimal("0.0004")
    for bucket in ("cache_read_tokens", "cache_write_tokens"):
        assert cost_of(Usage(input_tokens=1, output_tokens=1, **{bucket: 1}), "moonshot", "moonshot-v1-8k") is None
        assert cost_of(Usage(input_tokens=1, output_tokens=1, **{bucket: 0}), "moonshot", "moonshot-v1-8k") is not None


def test_long_prompt_above_the_first_tier_has_no_cost(table):
    """The table has the price of the lowest tier. Cached tokens count towards the tier."""
    for usage in (
        Usage(input_tokens=FIRST_TIER, output_tokens=1),
        Usage(input_tokens=1, cache_read_tokens=FIRST_TIER - 1, output_tokens=1),
    ):
        assert cost_of(usage, model="claude-sonnet-4-5") is None
        assert cost_of(usage, model="claude-opus-4-6") is not None
    assert cost_of(Usage(input_tokens=FIRST_TIER - 1, output_tokens=1), model="claude-sonnet-4-5") is not None


@pytest.mark.parametrize(
    "share",
    [
        {"audio_input_tokens": 5},
        {"audio_output_tokens": 5},
        {"output_by_modality": {"TEXT": 5, "IMAGE": 5}},
    ],
)
def test_audio_tokens_make_the_cost_unknown(table, share):
    assert cost_of(Usage(input_tokens=10, output_tokens=10, **share)) is None


def test_text_and_image_input_have_the_input_price(table):
    shares = {"input_by_modality": {"TEXT": 500, "IMAGE": 500}, "output_by_modality": {"TEXT": 100}}

    assert cost_of(Usage(input_tokens=1000, output_tokens=100, audio_input_tokens=0, **shares)) == cost_of(USAGE)


def test_local_server_costs_nothing(table):
    """The cost is 0 and not None for any model, with or without a cache."""
    usage = Usage(input_tokens=10, cache_read_tokens=5, output_tokens=10)

    assert cost_of(usage, "ollama", "whatever") == 0


@given(usages, st.sampled_from([("anthropic", "claude-opus-4-6"), ("openai", "gpt-5.4"), ("nobody", "x")]))
def test_cost_is_known_or_none(usage, whom):
    """Tokens without a known price are never free."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "genai_prices", None)
        found = cost(usage, *whom, TODAY)

    assert found is None or found > 0 or not (usage.prompt_tokens or usage.completion_tokens)


# --- the extra --------------------------------------------------------------------------------------------------------


@pytest.fixture
def dear():
    """A price list with prices that are 1,000 times higher; one model has no cache price, another one no price."""
    from genai_prices import types
    from genai_prices.data_snapshot import DataSnapshot, set_custom_snapshot

    match = types.ClauseEquals("claude-opus-4-6")
    price = types.ModelPrice(input_mtok=Decimal(5000), output_mtok=Decimal(25000))
    cached = types.ModelPrice(input_mtok=Decimal(5000), output_mtok=Decimal(25000), cache_read_mtok=Decimal(500))
    empty = types.ModelPrice()
    listed = [
        types.ModelInfo("claude-opus-4-5", types.ClauseEquals("claude-opus-4-5"), prices=cached),
        types.ModelInfo("claude-opus-4-6", match, prices=price),
        types.ModelInfo("claude-haiku-4-5", types.ClauseEquals("claude-haiku-4-5"), prices=empty),
    ]
    rows = [types.Provider("anthropic", "A", "https://api", provider_match=types.ClauseContains("ant"), models=listed)]
    set_custom_snapshot(DataSnapshot(rows, from_auto_update=False))
    yield
    set_custom_snapshot(None)


def test_extra_overrides_the_table(dear):
    assert cost_of(USAGE) == Decimal("7.5")
    assert cost_of(USAGE, model="claude-opus-4-1") == Decimal("0.0225")


def test_extra_receives_total_counts(dear):
    """It counts cached tokens as a part of the input, and reasoning as a part of the output."""
    usage = Usage(input_tokens=1000, cache_read_tokens=2000, output_tokens=100, reasoning_tokens=300)

    assert cost_of(usage, model="claude-opus-4-5") == 5 + 1 + 10


def test_table_is_used_where_the_extra_has_no_price(dear):
    """The extra would bill cached tokens as input, and a model without prices as free."""
    assert cost_of(Usage(input_tokens=1000, cache_read_tokens=1000, output_tokens=0)) == Decimal("0.0055")
    assert cost_of(Usage(input_tokens=1000, cache_write_tokens=1000, output_tokens=0)) == Decimal("0.01125")
    assert cost_of(USAGE, model="claude-haiku-4-5") == Decimal("0.0015")


def test_extra_is_used_only_for_provider_rows(dear):
    """It matches similar names, but a custom server does not have the vendor's prices."""
    assert cost_of(USAGE, "my-anthropic-proxy") is None


def test_extra_knows_tiers():
    low = cost_of(USAGE, model="claude-sonnet-4-5")
    high = cost_of(Usage(input_tokens=300_000, output_tokens=0), model="claude-sonnet-4-5")

    assert low == Decimal("0.0045")
    assert high == Decimal("1.8")


def test_extra_opens_no_connection(monkeypatch):
    def refuse(*args):
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)

    assert cost_of(USAGE) == Decimal("0.0075")


def test_first_tier_of_the_extra_is_not_below_the_table():
    """`FIRST_TIER` must not be above a tier that the extra has."""
    from genai_prices.data_snapshot import get_snapshot
    from genai_prices.types import TieredPrices

    noon, starts = datetime(2026, 11, 15, 12, tzinfo=UTC), []
    for vendor in ("openai", "anthropic", "google", "xai", "minimax"):
        for info in get_snapshot().find_provider(None, vendor, None).models:
            price, listed = catalog.price_on(vendor, info.id, TODAY), info.get_prices(noon).input_mtok
            if price is not None and price.tiered and isinstance(listed, TieredPrices):
                starts += [tier.start for tier in listed.tiers]

    assert starts
    assert min(starts) >= FIRST_TIER


def test_embeddings_need_no_output_price():
    pytest.importorskip("genai_prices")
    embedding, chat = Usage(input_tokens=1_000_000, output_tokens=0), Usage(input_tokens=1_000_000, output_tokens=1)

    assert cost(embedding, "openai", "text-embedding-3-small", TODAY) == Decimal("0.02")
    assert cost(chat, "openai", "text-embedding-3-small", TODAY) is None
