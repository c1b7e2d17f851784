"""The models that the command lists and suggests."""

from __future__ import annotations

import json
import re
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.canned_provider import answering
from tenuto.agent.config import refusal
from tenuto.catalog import find_provider, resolve
from tenuto.cli.commands.models import model_details
from tenuto.cli.session.models import list_models, model_ids, suggest_models

KNOWN = list_models()

# --- names -----------------------------------------------------------------------------------------------------------


def test_listed_models_are_known_and_resolve():
    ids = [known.id for known in KNOWN]
    defaults = {f"{row.name}/{row.default_model}" for _, row in models_rows() if row.default_model}

    assert len(ids) == len(set(ids)) > 200
    assert defaults <= set(ids)
    assert "anthropic/claude-2" in {*model_ids(ended=True)} - {*model_ids()}
    for known in KNOWN:
        target = resolve(known.id)

        assert target.provider.name == known.provider
        if not find_provider(known.provider).plays:
            assert re.fullmatch(target.traits.pattern, known.model)
            assert "families to come" not in target.traits.notes, known


def models_rows():
    from tenuto.catalog import PROVIDERS

    return [(name, row) for name, row in PROVIDERS.items() if name == row.name]


NEAR = {
    "claude-sonet-5-5": "anthropic/claude-sonnet-5-5",
    "antropic/claude-opus-5-5": "anthropic/claude-opus-5-5",
    "anthropic/gpt-5.2": "openai/gpt-5.2",
    "openai/gpt5.2": "openai/gpt-5.2",
    "OPUS": "anthropic/claude-opus-5-5",
    "oppus": "anthropic/claude-opus-5-5",
    "sim/antropic": "sim/anthropic",
}


@pytest.mark.parametrize("typed", NEAR)
def test_mistyped_model_gets_a_suggestion(typed):
    """The provider may be wrong, or missing."""
    assert NEAR[typed] == suggest_models(typed)[0]


def is_admitted(model: str) -> bool:
    """Tell whether an agent with tools can use a model."""
    return not refusal(resolve(model))


REFUSED = [known.id for known in KNOWN if not is_admitted(known.id)]


def test_suggestions_for_refused_models_are_admitted():
    """For every refused model of the tables, with its provider and without it."""
    names = [*REFUSED, *(id.partition("/")[2] for id in REFUSED)]
    near = {name: suggest_models(name, 5) for name in names}

    assert len(REFUSED) > 50
    assert {one for ids in near.values() for one in ids} <= set(model_ids())
    assert {} == {name: ids for name, ids in near.items() if not all(map(is_admitted, ids))}
    assert [] == [id for ids in near.values() for id in ids if "tts" in id or "audio" in id]


@settings(max_examples=50)
@given(st.sampled_from([known.id for known in KNOWN]), st.data())
def test_suggestions_for_mistyped_models_are_admitted(id, data):
    """A character is lost anywhere in the name."""
    at = data.draw(st.integers(0, len(id) - 1))

    assert all(map(is_admitted, suggest_models(id[:at] + id[at + 1 :])))


@pytest.mark.parametrize(
    "refused, first",
    [
        ("openai/gpt-4o", "openai/gpt-6.1-sol"),
        ("gpt-4o", "openai/gpt-6.1-sol"),
        ("openai/gpt-4o-mini", "openai/gpt-5.4-mini"),
        ("openai/gpt-5.1-codex-max", "openai/gpt-5.3-codex"),
        ("openai/o3", "openai/gpt-6.1-sol"),
        ("anthropic/claude-3-5-sonnet-20241022", "anthropic/claude-sonnet-5-5"),
        ("anthropic/claude-3-opus-latest", "anthropic/claude-opus-5-5"),
        ("google/gemini-2.5-flash", "google/gemini-3.8-flash"),
        ("google/gemini-2.5-pro-preview-tts", "google/gemini-3.1-pro-preview"),
    ],
)
def test_newest_model_of_family_is_suggested_first(refused, first):
    assert suggest_models(refused)[0] == first


# --- the list ---------------------------------------------------------------------------------------------------------


def test_models_lists_limits_and_prices(here):
    done = here("models", "opus", "anthropic", "5-5", "--provider", "anthropic")

    assert (0, "") == (done.code, done.err)
    assert done.out.splitlines() == [
        "MODEL                      CONTEXT  OUTPUT  EFFORTS, THINKING           IN $/M  OUT $/M  RETIRES",
        "anthropic/claude-opus-5-5       1M    128K  low medium* high xhigh max       4       20",
    ]


def test_models_finds_family_names(here):
    """`DeepSeek V4.1 Flash` is how people call it."""
    done = here("models", "V4.1", "-p", "deepseek")

    assert "deepseek/deepseek-flash " in done.out


def test_retired_models_need_all(here):
    without, with_them = here("models", "claude-3-opus"), here("models", "claude-3-opus", "--all")

    assert (1, "", "no matching model: 2 matches, all retired (use --all)\n") == without
    assert 0 == with_them.code
    assert "2026-01-05 (retired)" in with_them.out


def test_no_match_is_code_1_with_suggestions(here):
    done, empty = here("models", "claude", "sonett"), here("models", "zzzz", "--json")

    assert (1, "") == (done.code, done.out)
    assert "did you mean anthropic/claude-sonnet-" in done.err
    assert (1, "[]\n") == (empty.code, empty.out)


def test_unknown_provider_gets_a_suggestion(here):
    assert "the catalog has none of lmstudio; use --online" in here("models", "-p", "lmstudio").err
    done = here("models", "--provider", "antropic")

    assert 2 == done.code
    assert "did you mean 'anthropic'" in done.err


def test_models_json_has_limits_and_prices(here):
    [told] = json.loads(here("models", "--json", "claude-haiku-5-5", "-p", "anthropic").out)

    assert told["id"] == "anthropic/claude-haiku-5-5"
    assert told["price"] == {"input": 0.1, "output": 0.5, "cache_read": 0.01, "cache_write": 0.125, "tiered": True}
    assert (told["effort_default"], told["context_window"], told["retires"]) == ("medium", 1_000_000, None)


def test_price_depends_on_the_day():
    argon = ("google", "gemini-4-argon")

    assert ["2", "4"] == [model_details(*argon, day).cells()[4] for day in (date(2026, 11, 30), date(2026, 12, 1))]


def test_model_is_retired_from_its_date():
    sonnet = ("anthropic", "claude-sonnet-4-5")

    assert [False, True] == [
        model_details(*sonnet, date(2026, 11, day), retires="2026-11-30").is_retired for day in (29, 30)
    ]


# --- asking -----------------------------------------------------------------------------------------------------------


def own(tmp_path, text):
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text)


@pytest.mark.usefixtures("real_providers")
def test_online_list_overrides_the_catalog(here, tmp_path, monkeypatch):
    """What the list says counts. Without the key that it wants the provider is not asked."""
    listed = b'{"data": [{"id": "claude-opus-5-5"}, {"id": "claude-new", "max_input_tokens": 7000}]}'
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with answering(200, listed) as (url, heard):
        own(tmp_path, f'[providers.anthropic]\nbase_url = "{url}"\nkey_env = "MINE"\n')
        without = here("models", "--online", "--provider", "anthropic", "--json")
        monkeypatch.setenv("MINE", "the-key")
        done = here("models", "--online", "--provider", "anthropic", "--json")

    assert (3, "[]\n") == (without.code, without.out)
    assert "no API key for anthropic" in without.err
    assert len(without.err.splitlines()) == 2
    assert ["the-key"] == [headers["x-api-key"] for headers in heard]
    assert {"anthropic/claude-opus-5-5": 1_000_000, "anthropic/claude-new": 7000} == {
        model["id"]: model["context_window"] for model in json.loads(done.out)
    }


@pytest.mark.usefixtures("real_providers")
def test_online_lists_custom_servers(here, tenuto_sim, tmp_path):
    """All are asked for whom there is a key or who need none; who fails is told, and gives the code."""
    base = f'[providers.mine]\nbase_url = "{tenuto_sim.base_url}/v1"\n'
    own(tmp_path, base)
    alone = here("models", "--online", "-p", "mine", "--json")
    own(tmp_path, f'{base}[providers.gone]\nbase_url = "http://127.0.0.1:9/v1"\n')
    both = here("models", "--online", "--json")

    assert 0 == alone.code
    assert all(model["id"].startswith("mine/") for model in json.loads(alone.out))
    assert len(json.loads(alone.out)) > 10
    assert (1, alone.out) == (both.code, both.out)
    assert "cannot connect to 127.0.0.1:9 (connection refused)" in both.err


def test_online_without_a_key_is_code_2(here):
    done = here("models", "--online")

    assert 2 == done.code
    assert "no API key is set" in done.err


# --- as a process -----------------------------------------------------------------------------------------------------
