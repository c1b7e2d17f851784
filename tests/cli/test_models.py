"""Models, providers and tools that the command lists, suggests and uses by default."""

from __future__ import annotations

import json
from datetime import date

import pytest

from cli.canned_provider import answering
from tenuto.agent.config import admit, refusal
from tenuto.catalog import PROVIDERS, resolve
from tenuto.catalog.model_rows import AS_OF
from tenuto.cli.commands.models import model_details
from tenuto.cli.session.models import (
    SIMULATOR_MODEL,
    default_model,
    list_models,
    model_ids,
    split_effort,
    suggest_models,
)
from tenuto.tools.builtin import BUILTIN

KNOWN = list_models()
ROWS = {name: row for name, row in PROVIDERS.items() if name == row.name}
DEFAULTS = {f"{row.name}/{row.default_model}": row for row in ROWS.values() if row.default_model}
SECRET = "sk-not-to-be-printed"


def lines_of(out):
    """Return the lines of a table by their first word."""
    return {line.split()[0]: line for line in out.splitlines()[1:]}


SUGGESTED = {
    "claude-sonet-5-5": "anthropic/claude-sonnet-5-5",
    "antropic/claude-opus-5-5": "anthropic/claude-opus-5-5",
    "anthropic/gpt-5.2": "openai/gpt-5.2",
    "openai/gpt5.2": "openai/gpt-5.2",
    "OPUS": "anthropic/claude-opus-5-5",
    "oppus": "anthropic/claude-opus-5-5",
    "sim/antropic": "sim/anthropic",
    "openai/gpt-4o": "openai/gpt-6.1-sol",
    "gpt-4o": "openai/gpt-6.1-sol",
    "openai/gpt-4o-mini": "openai/gpt-5.4-mini",
    "openai/gpt-5.1-codex-max": "openai/gpt-5.3-codex",
    "openai/o3": "openai/gpt-6.1-sol",
    "anthropic/claude-3-5-sonnet-20241022": "anthropic/claude-sonnet-5-5",
    "anthropic/claude-3-opus-latest": "anthropic/claude-opus-5-5",
    "google/gemini-2.5-flash": "google/gemini-3.8-flash",
    "google/gemini-2.5-pro-preview-tts": "google/gemini-3.1-pro-preview",
}
"""For mistyped models the one that is meant; for those that agents refuse, the newest of the family."""


@pytest.mark.parametrize("typed", SUGGESTED)
def test_first_suggestion_for_a_model(typed):
    assert SUGGESTED[typed] == suggest_models(typed)[0]


def is_admitted(model: str) -> bool:
    """Tell whether an agent with tools can use a model."""
    return not refusal(resolve(model))


def test_suggestions_for_refused_models_are_admitted():
    """For every refused model of the tables, with its provider and without it."""
    refused = [known.id for known in KNOWN if not is_admitted(known.id)]
    names = [*refused, *(id.partition("/")[2] for id in refused)]
    near = {name: suggest_models(name, 5) for name in names}

    assert len(refused) > 50
    assert {one for ids in near.values() for one in ids} <= set(model_ids())
    assert {} == {name: ids for name, ids in near.items() if not all(map(is_admitted, ids))}
    assert [] == [id for ids in near.values() for id in ids if "tts" in id or "audio" in id]


@pytest.mark.parametrize(
    "model, expected",
    [
        ("anthropic/claude-sonnet-5-5:high", ("anthropic/claude-sonnet-5-5", "high")),
        ("anthropic/claude-sonnet-5-5", ("anthropic/claude-sonnet-5-5", None)),
        ("ollama/llama3:8b", ("ollama/llama3:8b", None)),
        ("ollama/llama3:8b:low", ("ollama/llama3:8b", "low")),
        ("openrouter/a/b:free", ("openrouter/a/b:free", None)),
        ("x/y:HIGH", ("x/y:HIGH", None)),
        (":high", (":high", None)),
    ],
)
def test_split_effort_splits_known_efforts_only(model, expected):
    assert expected == split_effort(model)


@pytest.fixture
def bare(home, monkeypatch):
    monkeypatch.delenv("TENUTO_MODEL", raising=False)


@pytest.mark.parametrize("model", DEFAULTS)
def test_key_selects_the_default_of_its_provider(bare, monkeypatch, model):
    """It suits agents, and is available for some weeks after the day of the table."""
    row, target = DEFAULTS[model], resolve(model)
    monkeypatch.setenv((*row.key_env, *row.bearer_env)[-1], "k")
    admit(model, target, allow_unverified=False, tools=True)

    assert (model, "") == default_model(None)
    assert target.traits.known
    assert target.traits.confidence in ("high", "medium")
    assert "families to come" not in target.traits.notes
    assert not target.traits.retires or target.traits.retires > AS_OF
    assert not target.provider.retired


@pytest.mark.parametrize(
    "variables, given, model",
    [
        (["GROQ_API_KEY", "XAI_API_KEY"], None, "xai/"),  # the first in the catalog
        (["GITHUB_TOKEN", "HF_TOKEN"], None, SIMULATOR_MODEL),  # providers without a default model
        ([], "", SIMULATOR_MODEL),
        ([], "x/y:high", "x/y:high"),
    ],
)
def test_keys_select_the_default_model(bare, monkeypatch, variables, given, model):
    for name in variables:
        monkeypatch.setenv(name, "k")
    choice = default_model(given)

    assert choice.model.startswith(model)
    assert choice.note.startswith("no API key: using the simulator. Set OPENAI_API_KEY,") == (model == SIMULATOR_MODEL)


LISTED = [
    (["claude-haiku-5-5", "-p", "anthropic", "--json"], 0, '"cache_read":0.01,"cache_write":0.125,"tiered":true}'),
    (["V4.1", "-p", "deepseek"], 0, "deepseek/deepseek-flash "),
    (["claude-3-opus", "--all"], 0, "2026-01-05 (retired)"),
    (["claude-3-opus"], 1, "no matching model: 2 matches, all retired (use --all)"),
    (["zzzz", "--json"], 1, "[]"),
    (["--online"], 2, "no API key is set"),
]


@pytest.mark.parametrize("arguments, code, text", LISTED)
def test_models_finds_words(here, arguments, code, text):
    done = here("models", *arguments)

    assert (code, True) == (done.code, text in done.out + done.err), done
    assert bool(done.out) == (code == 0 or "--json" in arguments)


def test_prices_and_retirement_depend_on_the_day():
    argon, sonnet = ("google", "gemini-4-argon"), ("anthropic", "claude-sonnet-4-5")
    days = [date(2026, 11, 29), date(2026, 11, 30), date(2026, 12, 1)]

    assert ["2", "2", "4"] == [model_details(*argon, day).cells()[4] for day in days]
    assert [False, True, True] == [model_details(*sonnet, day, retires="2026-11-30").is_retired for day in days]


@pytest.mark.usefixtures("real_providers")
def test_online_list_overrides_the_catalog(here, tenuto_sim, config, monkeypatch):
    """A provider whose key is missing gets no request; one that fails is reported."""
    listed = b'{"data": [{"id": "claude-opus-5-5"}, {"id": "claude-new", "max_input_tokens": 7000}]}'
    with answering(200, listed) as (url, heard):
        config(
            f'[providers.anthropic]\nbase_url = "{url}"\nkey_env = "MINE"\n'
            f'[providers.mine]\nbase_url = "{tenuto_sim.base_url}/v1"\n[providers.gone]\nbase_url = "http://127.0.0.1:9/v1"\n'
        )
        without = here("models", "--online", "--provider", "anthropic", "--json")
        monkeypatch.setenv("MINE", "the-key")
        done = here("models", "--online", "--json")
    windows = {model["id"]: model["context_window"] for model in json.loads(done.out)}

    assert (3, "[]\n") == (without.code, without.out)
    assert "no API key for anthropic" in without.err
    assert ["the-key"] == [headers["x-api-key"] for headers in heard]
    assert (1_000_000, 7000) == (windows["anthropic/claude-opus-5-5"], windows["anthropic/claude-new"])
    assert len([id for id in windows if id.startswith("mine/")]) > 10
    assert (1, True) == (done.code, "cannot connect to 127.0.0.1:9 (connection refused)" in done.err)


def test_providers_names_dialect_and_source_of_the_key(here, config, keys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("MINE", SECRET)
    keys({"groq": SECRET})
    config(
        '[providers.mine]\nbase_url = "http://127.0.0.1:9/v1"\nkey_env = "MINE"\n'
        '[providers.other]\nbase_url = "http://127.0.0.1:9/v1"\ndialect = "anthropic-messages"\n'
    )
    table, document = here("providers"), here("providers", "--json")
    lines = lines_of(table.out)

    assert (0, "") == (table.code, table.err)
    assert {*ROWS, "mine", "other"} == set(lines)
    assert ["anthropic-messages", "anthropic/claude-sonnet-5-5"] == lines["anthropic"].split()[1:3]
    for name, state in (
        ("anthropic", "missing: set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"),
        ("ollama", "not needed"),
        ("github", "retired 2026-07-30"),
        ("openai", "set in OPENAI_API_KEY"),
        ("groq", "saved in keys.json"),
    ):
        assert lines[name].endswith(state)
    assert lines["mine"].split()[1:] == ["(yours)", "openai-chat", "-", "set", "in", "MINE"]
    assert lines["other"].split()[1:] == ["(yours)", "anthropic-messages", "-", "not", "needed"]
    [groq] = [one["key"] for one in json.loads(document.out) if one["name"] == "groq"]
    assert ("kept", "keys.json") == (groq["state"], groq["where"])
    assert SECRET not in f"{table}{document}"
    assert ["vertex"] == list(lines_of(here("providers", "vertex_ai").out))
    assert ["groq"] == list(lines_of(here("providers", "GROQ_API_KEY").out))


def test_tools_prints_a_user_tool_without_calling_it(here, module):
    name = module(
        "from tenuto import tool\nprint('loaded')\n"
        "@tool(effect='pure', approval=lambda city: city == 'Oslo')\n"
        "def weather(city: str) -> str:\n"
        '    """The weather in a \\x1b[31mcity."""\n'
        "    raise SystemExit('it was called')\n"
    )
    [described] = json.loads(here("tools", f"{name}:weather", "--json").out)
    page = here("tools", f"{name}:weather").out

    assert (described["name"], described["effect"], described["approval"]) == ("weather", "pure", "depends")
    assert described["parameters"]["required"] == ["city"]
    assert "The weather in a \\x1b[31mcity." in page
    assert "approval: depends on the call" in page
    assert list(BUILTIN) == list(lines_of(here("tools").out))
    assert "  needs approval: yes; retry after crash: yes; timeout 60 s\n" in here("tools", "write_file").out
