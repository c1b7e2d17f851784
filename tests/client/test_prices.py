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
    """Only the table: as if the extra were not installed."""
    monkeypatch.setitem(sys.modules, "genai_prices", None)


def asked(usage, provider="anthropic", model="claude-opus-4-6", on=TODAY):
    return cost(usage, provider, model, on)


# --- the table --------------------------------------------------------------------------------------------------------


def test_buckets_have_their_own_prices(table):
    """5 in, 25 out, 0.5 from the cache, 6.25 into it, per million; reasoning is output."""
    usage = Usage(
        input_tokens=1000,
        cache_read_tokens=2000,
        cache_write_tokens=400,
        output_tokens=100,
        reasoning_tokens=300,
    )

    assert asked(usage) == Decimal("0.005") + Decimal("0.001") + Decimal("0.0025") + Decimal("0.01")


def test_the_day_decides(table):
    before, after = (asked(USAGE, "google", "gemini-4-carbon", date(2026, *day)) for day in ((11, 30), (12, 1)))

    assert (before, after) == (Decimal("0.003"), Decimal("0.006"))


@pytest.mark.parametrize(
    "provider, model", [("anthropic", "claude-unheard-of"), ("mine", "claude-opus-4-6"), ("nobody", "x")]
)
def test_an_unknown_price_is_no_price(table, provider, model):
    assert asked(USAGE, provider, model) is None


@pytest.mark.parametrize("usage", [Usage(), Usage(input_tokens=5), Usage(output_tokens=5)])
def test_unknown_usage_has_no_cost(table, usage):
    assert asked(usage) is None


def test_a_bucket_without_a_price_leaves_the_cost_open(table):
    """Moonshot v1 has no word for a cache."""
    assert asked(USAGE, "moonshot", "moonshot-v1-8k") == Decimal("0.0004")
    for bucket in ("cache_read_tokens", "cache_write_tokens"):
        assert asked(Usage(input_tokens=1, output_tokens=1, **{bucket: 1}), "moonshot", "moonshot-v1-8k") is None
        assert asked(Usage(input_tokens=1, output_tokens=1, **{bucket: 0}), "moonshot", "moonshot-v1-8k") is not None


def test_long_prompts_may_cost_more_than_the_table_knows(table):
    """The table holds the lowest tier. Cached tokens count towards the tier."""
    for usage in (
        Usage(input_tokens=FIRST_TIER, output_tokens=1),
        Usage(input_tokens=1, cache_read_tokens=FIRST_TIER - 1, output_tokens=1),
    ):
        assert asked(usage, model="claude-sonnet-4-5") is None
        assert asked(usage, model="claude-opus-4-6") is not None
    assert asked(Usage(input_tokens=FIRST_TIER - 1, output_tokens=1), model="claude-sonnet-4-5") is not None


@pytest.mark.parametrize(
    "share",
    [
        {"audio_input_tokens": 5},
        {"audio_output_tokens": 5},
        {"output_by_modality": {"TEXT": 5, "IMAGE": 5}},
    ],
)
def test_what_is_no_text_is_billed_apart(table, share):
    assert asked(Usage(input_tokens=10, output_tokens=10, **share)) is None


def test_text_and_pictures_that_go_in_are_billed_as_input(table):
    shares = {"input_by_modality": {"TEXT": 500, "IMAGE": 500}, "output_by_modality": {"TEXT": 100}}

    assert asked(Usage(input_tokens=1000, output_tokens=100, audio_input_tokens=0, **shares)) == asked(USAGE)


def test_ones_own_machine_costs_nothing(table):
    """A cache, too, and whatever the model is called: that is known, so it is 0 and not None."""
    usage = Usage(input_tokens=10, cache_read_tokens=5, output_tokens=10)

    assert asked(usage, "ollama", "whatever") == 0


@given(usages, st.sampled_from([("anthropic", "claude-opus-4-6"), ("openai", "gpt-5.4"), ("nobody", "x")]))
def test_a_cost_is_known_or_none(usage, whom):
    """Nothing that was used is ever free by not being known."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "genai_prices", None)
        found = cost(usage, *whom, TODAY)

    assert found is None or found > 0 or not (usage.prompt_tokens or usage.completion_tokens)


# --- the extra --------------------------------------------------------------------------------------------------------


@pytest.fixture
def dear():
    """A price list in which models cost a thousand times what they do; one has no price for a cache, one none at all."""
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


def test_the_extra_overrides_the_table_where_it_knows_the_model(dear):
    assert asked(USAGE) == Decimal("7.5")
    assert asked(USAGE, model="claude-opus-4-1") == Decimal("0.0225")


def test_the_extra_is_told_whole_sums(dear):
    """It counts what came from a cache as a part of the input, and reasoning as a part of the output."""
    usage = Usage(input_tokens=1000, cache_read_tokens=2000, output_tokens=100, reasoning_tokens=300)

    assert asked(usage, model="claude-opus-4-5") == 5 + 1 + 10


def test_what_the_extra_has_no_price_for_is_left_to_the_table(dear):
    """It would bill cached tokens as input, and a model without prices as free."""
    assert asked(Usage(input_tokens=1000, cache_read_tokens=1000, output_tokens=0)) == Decimal("0.0055")
    assert asked(Usage(input_tokens=1000, cache_write_tokens=1000, output_tokens=0)) == Decimal("0.01125")
    assert asked(USAGE, model="claude-haiku-4-5") == Decimal("0.0015")


def test_the_extra_is_asked_for_rows_only(dear):
    """It looks for names that look alike: a server of one's own is not the vendor."""
    assert asked(USAGE, "my-anthropic-proxy") is None


def test_the_extra_knows_tiers():
    low = asked(USAGE, model="claude-sonnet-4-5")
    high = asked(Usage(input_tokens=300_000, output_tokens=0), model="claude-sonnet-4-5")

    assert low == Decimal("0.0045")
    assert high == Decimal("1.8")


def test_the_extra_opens_no_connection(monkeypatch):
    def refuse(*args):
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)

    assert asked(USAGE) == Decimal("0.0075")


def test_the_first_tier_of_the_table_is_not_before_ours():
    """Where the extra knows at which prompt a tiered price of the table rises, it is not below `FIRST_TIER`."""
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
