"""Which model is asked if nobody names one."""

from __future__ import annotations

import json

import pytest

from tenuto.agent.config import admit
from tenuto.catalog import PROVIDERS, resolve
from tenuto.catalog.model_rows import AS_OF
from tenuto.cli.config import ConfigError
from tenuto.cli.session.models import SIMULATOR_MODEL, ModelChoice, default_model, split_effort

ROWS = [row for name, row in PROVIDERS.items() if name == row.name]
DEFAULTS = [f"{row.name}/{row.default_model}" for row in ROWS if row.default_model]


@pytest.fixture(autouse=True)
def _bare(tmp_path, monkeypatch):
    for row in ROWS:
        for name in (*row.key_env, *row.bearer_env):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("TENUTO_MODEL", raising=False)
    monkeypatch.setenv("TENUTO_HOME", str(tmp_path / "home"))


def test_a_model_that_is_named_is_asked(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")

    assert ModelChoice("x/y:high", "") == default_model("x/y:high")


@pytest.mark.parametrize("given", [None, ""])
def test_without_a_key_the_simulator_answers_and_says_what_would_make_it_real(given):
    note = "no API key: using the simulator. Set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, or pass -m"

    assert ModelChoice(SIMULATOR_MODEL, note) == default_model(given)


@pytest.mark.parametrize("row", [row for row in ROWS if row.default_model], ids=lambda row: row.name)
def test_with_a_key_it_is_that_providers_default(monkeypatch, row):
    monkeypatch.setenv((*row.key_env, *row.bearer_env)[-1], "k")

    assert ModelChoice(f"{row.name}/{row.default_model}", "") == default_model(None)


def test_of_several_the_first_in_the_table_is_asked(monkeypatch):
    monkeypatch.setenv("GROQ_API_KEY", "k")
    monkeypatch.setenv("XAI_API_KEY", "k")

    assert default_model(None).model.startswith("xai/")


def test_a_key_for_somebody_without_a_default_is_none(monkeypatch):
    """Many have such a token for something else."""
    monkeypatch.setenv("GITHUB_TOKEN", "k")
    monkeypatch.setenv("HF_TOKEN", "k")

    assert SIMULATOR_MODEL == default_model(None).model


def test_a_key_from_the_file_counts(tmp_path):
    keys = tmp_path / "home" / "keys.json"
    keys.parent.mkdir()
    keys.write_text(json.dumps({"deepseek": "k"}), "utf-8")
    keys.chmod(0o600)

    assert default_model(None).model.startswith("deepseek/")
    keys.chmod(0o644)
    with pytest.raises(ConfigError):
        default_model(None)


def test_first_run_without_key_names_simulator_and_next_step(here, unset):
    done = here("run", "What is 6 * 7?")

    assert 0 == done.code
    assert "simulator, not a model" in done.out
    assert "tenuto keys set" in done.out
    assert done.out.endswith("\n\nWhat is 6 * 7?\n")
    assert "And now?\n" == here("resume", "last", "And now?", "-q").out
    assert 1 == done.err.count("no API key: using the simulator. Set OPENAI_API_KEY,")


@pytest.mark.parametrize("model", DEFAULTS)
def test_a_default_model_is_one_that_an_agent_can_rely_on(model):
    """It is known, takes tools, carries its reasoning on, and is served, also some weeks from the table's day."""
    target = resolve(model)
    admit(model, target, allow_unverified=False, tools=True)

    assert target.traits.known
    assert target.traits.confidence in ("high", "medium")
    assert "families to come" not in target.traits.notes
    assert not target.traits.retires or target.traits.retires > AS_OF
    assert not target.provider.retired


def test_the_well_known_have_a_default():
    wanted = {"anthropic", "openai", "google", "xai", "deepseek", "mistral", "groq", "openrouter"}

    assert wanted <= {model.partition("/")[0] for model in DEFAULTS}


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
        ("", ("", None)),
    ],
)
def test_only_an_effort_is_split_off(model, expected):
    assert expected == split_effort(model)
