"""Models that the catalog does not list: a notice, once; `--strict` refuses them."""

from __future__ import annotations

import os

import pytest

from tenuto.catalog import resolve
from tenuto.cli.session.models import model_notice

SERVER = '[providers.mine]\nbase_url = "{url}/v1"\ndialect = "openai-chat"\n{more}'


@pytest.fixture
def mine(tenuto_sim, tmp_path):
    """Write a config file with a custom provider that the simulator answers."""

    def write(more=""):
        (tmp_path / "home").mkdir(exist_ok=True)
        (tmp_path / "home" / "config.toml").write_text(SERVER.format(url=os.environ["TENUTO_SIM_URL"], more=more))

    write()
    return write


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("anthropic/claude-sonet-5-5", "is not in the model table; did you mean anthropic/claude-sonnet-5-5?"),
        ("openai/gpt-99", "openai/gpt-99 is not in the model table; did you mean openai/gpt-"),
        ("vllm/foo", "vllm/foo is not in the catalog; its reasoning is sent back as received"),
        ("anthropic/claude-sonnet-5-5", ""),
        ("anthropic/claude-sonnet-5-5-20261001", ""),
        ("sim/anthropic", ""),
    ],
)
def test_model_notice_names_the_closest_model(model, words):
    notice = model_notice(resolve(model))

    assert words in notice
    assert bool(words) == bool(notice)


def test_unlisted_model_has_one_notice(here, mine):
    first, second = [here("run", "Hi", "-m", "mine/anthropic") for _ in range(2)]

    assert (first.code, second.code) == (0, 0)
    assert "! mine/anthropic is not in the catalog; its reasoning is sent back as received\n" in first.err
    assert "catalog" not in second.err


def test_ephemeral_prompt_has_no_notice(here, mine):
    assert here("run", "Hi", "-m", "mine/anthropic", "--ephemeral", "-q")[1:] == ("Hi\n", "")


def test_strict_refuses_unlisted_models(here, mine):
    typed = here("run", "Hi", "-m", "mine/anthropic", "--strict")
    fallback = here("run", "Hi", "-m", "sim/anthropic", "--fallback", "mine/anthropic", "--strict")
    listed = here("run", "Hi", "-m", "sim/anthropic", "--strict", "-n", "listed")
    mine("")
    here("config", "set", "strict", "true")
    configured, undone = [here("run", "Hi", "-m", "mine/anthropic", *more) for more in ([], ["--no-strict"])]

    assert [done.code for done in (typed, fallback, listed, configured, undone)] == [2, 2, 0, 2, 0]
    assert "error: --strict: mine/anthropic is not in the catalog" in typed.err


def test_provider_allows_its_unverified_models(here, tmp_path, monkeypatch, tenuto_sim):
    (tmp_path / "home").mkdir()
    file = tmp_path / "home" / "config.toml"
    codes = []
    for line in ("", "allow_unverified = true\n"):
        file.write_text(f"[providers.anthropic]\n{line}")
        codes.append(here("run", "Hi", "-m", "anthropic/claude-3-opus", "-q").code)

    assert codes[0] == 2
    assert codes[1] in (0, 3)  # accepted; the fixture may answer without a key
