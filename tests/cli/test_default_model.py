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
    monkeypatch.delenv("TENUTO_MODEL", raising=False)
    monkeypatch.setenv("TENUTO_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize(
    "keys, model",
    [(["GROQ_API_KEY", "XAI_API_KEY"], "xai/"), (["GITHUB_TOKEN", "HF_TOKEN"], SIMULATOR_MODEL)],
    ids=["first of the catalog", "providers without a default"],
)
def test_keys_select_the_default_model(monkeypatch, keys, model):
    for name in keys:
        monkeypatch.setenv(name, "k")

    assert default_model(None).model.startswith(model)
    assert ModelChoice("x/y:high", "") == default_model("x/y:high")


@pytest.mark.parametrize("given", [None, ""])
def test_simulator_is_the_default_without_a_key(given):
    note = "no API key: using the simulator. Set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, or pass -m"

    assert ModelChoice(SIMULATOR_MODEL, note) == default_model(given)


@pytest.mark.parametrize("row", [row for row in ROWS if row.default_model], ids=lambda row: row.name)
def test_key_selects_the_default_of_its_provider(monkeypatch, row):
    monkeypatch.setenv((*row.key_env, *row.bearer_env)[-1], "k")

    assert ModelChoice(f"{row.name}/{row.default_model}", "") == default_model(None)


def test_stored_key_selects_its_provider(tmp_path):
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
def test_default_models_suit_agents(model):
    """It is known, takes tools, carries its reasoning on, and is served, also some weeks from the table's day."""
    target = resolve(model)
    admit(model, target, allow_unverified=False, tools=True)

    assert target.traits.known
    assert target.traits.confidence in ("high", "medium")
    assert "families to come" not in target.traits.notes
    assert not target.traits.retires or target.traits.retires > AS_OF
    assert not target.provider.retired


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
def test_split_effort_splits_known_efforts_only(model, expected):
    assert expected == split_effort(model)
