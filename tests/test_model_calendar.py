"""What models cost and when they end, on which day."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from tenuto import models
from tenuto.cli.catalogue import known_models

TODAY = date(2026, 11, 15)


# --- prices -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model, before, after, day",
    [
        ("gemini-4-argon", "2 10 0.1", "4 20 0.2", date(2026, 12, 1)),
        ("gemini-4-carbon", "2 10 0.1", "4 20 0.2", date(2026, 12, 1)),
        ("gemini-3.8-flash", "0.75 3.75 0.075", "1.5 7.5 0.15", date(2027, 1, 1)),
        ("gemini-3.7-flash", "0.75 3.75 0.075", "1.5 7.5 0.15", date(2027, 1, 1)),
        ("gemini-3.6-flash", "0.75 3.75 0.075", "1.5 7.5 0.15", date(2027, 1, 1)),
    ],
)
def test_a_price_changes_on_its_day(model, before, after, day):
    """The day before, the day itself, and long after."""

    def on(when: date) -> str:
        found = models.price("google", model, when)
        return f"{found.input} {found.output} {found.cache_read}"

    assert on(TODAY) == before
    assert on(day.replace(year=day.year - 1)) == before
    assert on(date.fromordinal(day.toordinal() - 1)) == before
    assert on(day) == after
    assert on(day.replace(year=day.year + 3)) == after


def test_a_launch_price_ends():
    """Mistral Large 4."""
    assert models.price("mistral", "mistral-large-4", date(2026, 10, 19)).input == Decimal("0.68")
    assert models.price("mistral", "mistral-large-4", date(2026, 10, 20)).output == Decimal("4.18")


def test_unknown_is_none_and_free_is_nought():
    """A budget must be able to tell the two apart."""
    assert models.price("anthropic", "claude-fable-5-2", TODAY) is None
    assert models.price("nobody", "some-model", TODAY) is None
    assert models.price("openrouter", "anthropic/claude-opus-4.6", TODAY) is None
    assert models.price("zai", "glm-4.7-flash", TODAY).input == 0
    assert models.price("ollama", "any-model", TODAY).output == 0
    assert models.price("vllm", "any-model", TODAY).output == 0
    pro = models.price("openai", "gpt-5.5-pro", TODAY)
    assert (pro.cache_read, pro.cache_write) == (None, None)


def test_prices_are_exact_and_say_whether_they_rise():
    """Decimals, with all four places where they are known."""
    known = models.price("anthropic", "claude-haiku-5-5", TODAY)

    assert (known.input, known.output) == (Decimal("0.1"), Decimal("0.5"))
    assert (known.cache_read, known.cache_write) == (Decimal("0.01"), Decimal("0.125"))
    assert known.tiered
    assert not models.price("anthropic", "claude-opus-4-8", TODAY).tiered
    assert models.price("minimax", "MiniMax-M2.7-highspeed", TODAY).input == Decimal("0.6")


# --- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "provider, model, day",
    [
        ("google", "gemini-2.5-pro-preview-tts", date(2026, 11, 17)),
        ("anthropic", "claude-sonnet-4-5-20250929", date(2026, 11, 30)),
        ("openai", "gpt-5", date(2026, 12, 11)),
        ("openai", "gpt-5-mini", date(2026, 12, 11)),
        ("openai", "gpt-5-nano", date(2026, 12, 11)),
        ("openai", "gpt-5-pro", date(2026, 12, 11)),
        ("openai", "o3", date(2026, 12, 11)),
        ("openai", "o3-pro", date(2026, 12, 11)),
        ("moonshot", "kimi-k2.6", date(2026, 12, 31)),
        ("openai", "gpt-4o", date(2027, 1, 14)),
        ("openai", "gpt-4o-mini", date(2027, 1, 14)),
        ("openai", "gpt-4.1", date(2027, 1, 14)),
        ("openai", "gpt-4.1-mini", date(2027, 1, 14)),
        ("openai", "gpt-audio", date(2027, 1, 20)),
        ("openai", "gpt-audio-mini", date(2027, 1, 20)),
        ("openai", "gpt-audio-1.5", None),
        ("openai", "gpt-5.1", date(2027, 4, 1)),
        ("openai", "gpt-5.3-codex", date(2027, 4, 1)),
        ("openai", "gpt-5.4-nano", date(2027, 4, 1)),
        ("google", "gemini-3.1-flash-lite", date(2027, 5, 7)),
        ("anthropic", "claude-opus-4-0", date(2026, 6, 15)),
        ("anthropic", "claude-opus-5-5", None),
        ("nobody", "some-model", None),
    ],
)
def test_the_calendar_is_data(provider, model, day):
    """A model has a last day, or none that is known."""
    assert models.retirement(provider, model) == day


# --- whose model it is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model, vendor",
    [
        ("claude-sonnet-4-5", "anthropic"),
        ("claude-lyra-7-1", "anthropic"),
        ("ft:gpt-4o:acme::1", "openai"),
        ("gpt-5.2", "openai"),
        ("gemini-3-flash-preview", "google"),
        ("grok-4.7", "xai"),
        ("kimi-k3", "moonshot"),
    ],
)
def test_vendor_owns_bare_model_name(model, vendor):
    """By its own table, including rules for families to come."""
    assert models.owners(model) == (vendor,)


@pytest.mark.parametrize("model", ["some-model", "llama-3.3-70b", "gpt-oss-120b", "openai", ""])
def test_bare_model_name_has_no_owner(model):
    """Hosts own nothing, and a vendor does not own open weights that it does not serve."""
    assert models.owners(model) == ()


def test_hosts_list_bare_model_name():
    """By rows of their own, not by a vendor's table or by what holds everywhere."""
    assert models.hosts("gpt-oss-120b") == ("cerebras", "sambanova", "ollama")
    assert models.hosts("claude-sonnet-4-5") == ()


def test_bare_model_names_of_the_catalog_have_one_owner():
    """No two vendors serve the same id."""
    ids = {known.model for known in known_models() if "/" not in known.model}

    assert [] == [id for id in ids if len(models.owners(id)) > 1]
