"""API keys in a private file: set, list and rm; no key is ever printed."""

from __future__ import annotations

import json
import os
import stat

import pytest

from tenuto import Client
from tenuto.cli.config import ConfigError
from tenuto.cli.keys_file import key_source, key_variables, load_keys, read_keys
from tenuto.errors import MissingKey
from tenuto.sim.simulator import Simulator

KEY = "sk-secret-1234567890"


@pytest.mark.parametrize(
    "alias, name", [("anthropic", "anthropic"), ("gemini", "google"), ("openai-chat", "openai"), ("mine", "mine")]
)
def test_set_stores_a_key_under_its_provider(here, config, home, alias, name):
    """The file is private, for every umask and mode."""
    config("[providers.mine]\nbase_url = 'http://localhost:1'\n")
    file = home / "keys.json"
    file.write_text("{}")
    file.chmod(0o600)
    mask = os.umask(0)
    try:
        done = here("keys", "set", alias, stdin=f"  {KEY}\r\n")
    finally:
        os.umask(mask)

    assert (0, "", f"key for {name} saved in {file}\n") == done
    assert {name: KEY} == json.loads(file.read_text("utf-8")) == load_keys()
    assert (0o600, 0o700) == (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(home.stat().st_mode))


def test_set_works_with_a_broken_config_file(here, config):
    """Unless only the config file has the provider."""
    config("modle = 1\n")
    known, custom = here("keys", "set", "anthropic", stdin=KEY), here("keys", "set", "mine", stdin=KEY)

    assert (0, {"anthropic": KEY}) == (known.code, read_keys())
    assert "note: " in known.err
    assert (2, True) == (custom.code, "unknown setting 'modle'" in custom.err)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_key_file_that_others_can_read_is_refused(here, keys, mode):
    file = keys({"anthropic": KEY}, mode)
    done = here("keys", "list")

    assert 2 == done.code
    assert f"{file} can be read by others (mode {mode:04o}), so its keys are not used\n  chmod 600 {file}\n" in done.err
    with pytest.raises(ConfigError):
        load_keys()


@pytest.mark.parametrize("text", ["", f"{{{KEY}", "[]", '{"anthropic": 1}', '{"a": null}', "[" * 100_000], ids=range(6))
def test_invalid_key_file_is_neither_used_nor_overwritten(here, keys, text):
    file = keys(text)
    done = here("keys", "set", "anthropic", stdin=KEY)

    assert (2, False) == (done.code, KEY in done.err)
    assert text == file.read_text("utf-8")
    with pytest.raises(ConfigError, match=r"keys\.json is not a JSON object"):
        load_keys()


def test_environment_overrides_the_file(here, keys, monkeypatch):
    keys({"anthropic": KEY, "openai": KEY, "gone": KEY})
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "t")
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)

    assert {"openai": KEY} == load_keys()
    assert ("ANTHROPIC_AUTH_TOKEN", "keys.json", "") == tuple(map(key_source, ("anthropic", "openai", "xai")))
    done = here("keys", "set", "gemini", stdin=KEY)
    assert "note: GOOGLE_API_KEY is set in the environment and overrides it" in done.err


def test_other_host_gets_the_key_of_the_file_only(keys, config, monkeypatch):
    """The catalog's variables are for the provider's own hosts."""
    keys({"openai": KEY, "google": KEY})
    config(
        "[providers.openai]\nbase_url = 'http://localhost:1/v1'\n"
        "[providers.gemini]\nbase_url = 'https://generativelanguage.googleapis.com/v9'\nkey_env = 'MINE'\n"
    )
    monkeypatch.setenv("OPENAI_API_KEY", "e")
    monkeypatch.setenv("MINE", "e")

    assert {"openai": KEY} == load_keys()
    assert ((), "MINE") == (key_variables("openai"), key_variables("google")[0])


@pytest.mark.usefixtures("real_providers")
def test_run_uses_a_stored_key(here, config):
    """The library does not read the file."""
    model = "anthropic/claude-sonnet-5-5"
    with Simulator(keys={KEY}) as server:
        config(f"[providers.anthropic]\nbase_url = '{server.base_url}/v1'\n")
        here("keys", "set", "anthropic", stdin=KEY)
        done = here("run", "Hi", "-m", model, "-q")
        with Client() as ai, pytest.raises(MissingKey):
            ai.chat(model, "Hi")
        here("keys", "rm", "anthropic")
        without = here("run", "Hi", "-m", model, "-q")

        assert (0, 3) == (done.code, without.code), done.err
        assert ["/v1/messages"] == [request.path for request in server.requests]
        assert KEY not in done.out + done.err


def test_list_names_the_source_of_each_key(here, keys, home, monkeypatch):
    empty = here("keys", "list")
    file = keys({"anthropic": KEY, "openai": KEY, "gone": KEY})
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("XAI_API_KEY", KEY)
    done, document = here("keys"), json.loads(here("keys", "list", "--json").out)

    assert (0, "", f"no key; add one with tenuto keys set PROVIDER\nfile: {file}\n") == empty
    assert (0, f"file: {file}\n") == (done.code, done.err)
    assert [line.rstrip() for line in done.out.splitlines()] == [
        "PROVIDER   KEY IN",
        "openai     keys.json",
        "anthropic  ANTHROPIC_API_KEY",
        "anthropic  keys.json          not used: ANTHROPIC_API_KEY overrides it",
        "xai        XAI_API_KEY",
        "gone       keys.json          not used: unknown provider",
    ]
    assert str(file) == document["path"]
    first = {"provider": "openai", "source": "file", "where": "keys.json", "used": True, "why_not": None}
    assert first == document["keys"][0]
    assert KEY not in f"{done}{document}"
    assert (0, "", f"key for openai removed from {file}\n") == here("keys", "rm", "openai-chat")
    assert 0 == here("keys", "rm", "gone").code
    assert {"anthropic": KEY} == read_keys()


@pytest.mark.parametrize("answer", ["key", "ctrl-c"])
def test_terminal_prompt_hides_the_key(tenuto, answer):
    file = tenuto.folder / "home" / "keys.json"
    terminal = tenuto.terminal("keys", "set", "anthropic")
    terminal.expect(r"key for anthropic \(hidden\): ")
    if answer == "ctrl-c":
        terminal.interrupt()
        assert (130, False) == (terminal.end()[0], file.exists())
        return
    terminal.type(f"{KEY}\n")

    assert (0, f"key for anthropic (hidden):\nkey for anthropic saved in {file}\n") == terminal.end()
    assert {"anthropic": KEY} == json.loads(file.read_text("utf-8"))
