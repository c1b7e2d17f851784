"""API keys in a private file: set, list and rm; no key is ever printed."""

from __future__ import annotations

import json
import os
import stat

import pytest

from tenuto.cli import keys_file
from tenuto.cli.config import ConfigError
from tenuto.sim.simulator import Simulator

KEY = "sk-secret-1234567890"
PART = "1234567890"


@pytest.fixture(autouse=True)
def keys(tmp_path, monkeypatch):
    """The file of the keys."""
    monkeypatch.setenv("TENUTO_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir(mode=0o755)
    return tmp_path / "home" / "keys.json"


def write_keys(keys, stored, mode=0o600):
    keys.write_text(stored if isinstance(stored, str) else json.dumps(stored), "utf-8")
    keys.chmod(mode)


def write_config(keys, text):
    (keys.parent / "config.toml").write_text(text, "utf-8")


# --- set --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "alias, name", [("anthropic", "anthropic"), ("gemini", "google"), ("openai-chat", "openai"), ("mine", "mine")]
)
def test_set_stores_a_key_under_its_provider(here, keys, alias, name):
    write_config(keys, "[providers.mine]\nbase_url = 'http://localhost:1'\n")
    done = here("keys", "set", alias, stdin=f"  {KEY}\r\n")

    assert (0, "", f"key for {name} saved in {keys}\n") == done
    assert {name: KEY} == json.loads(keys.read_text("utf-8")) == keys_file.load_keys()


def test_key_file_is_private(here, keys):
    """Whatever the umask is and the mode was."""
    keys.parent.rmdir()
    mask = os.umask(0)
    try:
        here("keys", "set", "openai", stdin=KEY)
        keys.chmod(0o644)
        here("keys", "set", "anthropic", stdin=KEY)
    finally:
        os.umask(mask)

    assert (0o600, 0o700) == (stat.S_IMODE(keys.stat().st_mode), stat.S_IMODE(keys.parent.stat().st_mode))
    assert {"openai", "anthropic"} == set(keys_file.read_keys())


REFUSED = [
    (["anthropic"], "", "no key: the input is empty"),
    (["anthropic"], " \n", "no key: the input is empty"),
    (["anthropic"], f"{KEY} x", "invalid key: it is too long, or has a space"),
    (["anthropic"], f"{KEY}\n{KEY}\n", "invalid key"),
    (["anthropic"], f"{KEY}\x07", "invalid key"),
    (["anthropic"], f"{KEY}é", "invalid key"),
    (["anthropic"], "k" * 20_000, "invalid key: it is too long, or has a space"),
    (["anthropic"], b"\xff\xfe" + KEY.encode("utf-16-le"), "invalid key: it is too long, or has a space"),
    (["anthropic", KEY], "other", "keys are not accepted as arguments"),
    (["anthropc"], KEY, "did you mean 'anthropic'"),
    (["minrva"], KEY, "did you mean 'minerva'"),
    (["zzz"], KEY, "unknown provider 'zzz'; list them with tenuto providers"),
    ([KEY + KEY], KEY, "unknown provider (not shown); list them with tenuto providers"),
]


@pytest.mark.parametrize("arguments, stdin, message", REFUSED, ids=range(len(REFUSED)))
def test_set_neither_stores_nor_prints_an_unusable_key(here, keys, arguments, stdin, message):
    write_config(keys, "[providers.minerva]\nbase_url = 'http://localhost:1'\n")
    done = here("keys", "set", *arguments, stdin=stdin)

    assert (2, "", True) == (done.code, done.out, message in done.err), done.err
    assert PART not in done.err
    assert not keys.exists()


def test_set_works_with_a_broken_config_file(here, keys):
    """Unless only the config file could say which provider it is."""
    write_config(keys, "modle = 1\n")
    known, custom = here("keys", "set", "anthropic", stdin=KEY), here("keys", "set", "mine", stdin=KEY)

    assert (0, {"anthropic": KEY}) == (known.code, keys_file.read_keys())
    assert "note: " in known.err
    assert (2, True) == (custom.code, "unknown setting 'modle'" in custom.err)


def test_set_names_an_overriding_variable(here, monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)

    assert (
        "note: GOOGLE_API_KEY is set in the environment and overrides it"
        in here("keys", "set", "gemini", stdin=KEY).err
    )


# --- use --------------------------------------------------------------------------------------------------------------


def test_environment_overrides_the_file(keys, monkeypatch):
    write_keys(keys, {"anthropic": KEY, "openai": KEY, "gone": KEY})
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "t")

    assert {"openai": KEY} == keys_file.load_keys()
    assert ("ANTHROPIC_AUTH_TOKEN", "keys.json", "") == tuple(map(keys_file.key_source, ("anthropic", "openai", "xai")))


def test_other_host_gets_the_key_of_the_file_only(keys, monkeypatch):
    """The catalog's variables are for the provider's own hosts."""
    write_keys(keys, {"openai": KEY, "google": KEY})
    write_config(
        keys,
        "[providers.openai]\nbase_url = 'http://localhost:1/v1'\n"
        "[providers.gemini]\nbase_url = 'https://generativelanguage.googleapis.com/v9'\nkey_env = 'MINE'\n",
    )
    monkeypatch.setenv("OPENAI_API_KEY", "e")
    monkeypatch.setenv("MINE", "e")

    assert {"openai": KEY} == keys_file.load_keys()
    assert ((), "MINE") == (keys_file.key_variables("openai"), keys_file.key_variables("google")[0])


@pytest.mark.usefixtures("real_providers")
def test_run_uses_a_stored_key(here, keys):
    with Simulator(keys={KEY}) as server:
        write_config(keys, f"[providers.anthropic]\nbase_url = '{server.base_url}/v1'\n")
        here("keys", "set", "anthropic", stdin=KEY)
        done = here("run", "Hi", "-m", "anthropic/claude-sonnet-5-5", "-q")
        here("keys", "rm", "anthropic")
        without = here("run", "Hi", "-m", "anthropic/claude-sonnet-5-5", "-q")

        assert (0, 3) == (done.code, without.code), done.err
        assert ["/v1/messages"] == [request.path for request in server.requests]
        assert PART not in done.out + done.err


def test_library_does_not_read_the_key_file(keys):
    from tenuto import Client
    from tenuto.errors import MissingKey

    write_keys(keys, {"anthropic": KEY})
    with Client() as ai, pytest.raises(MissingKey):
        ai.chat("anthropic/claude-sonnet-5-5", "Hi")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_key_file_that_others_can_read_is_refused(here, keys, mode):
    write_keys(keys, {"anthropic": KEY}, mode)
    done = here("keys", "list")

    assert 2 == done.code
    assert f"{keys} can be read by others (mode {mode:04o}), so its keys are not used\n  chmod 600 {keys}\n" in done.err
    with pytest.raises(ConfigError):
        keys_file.load_keys()


@pytest.mark.parametrize("text", ["", f"{{{KEY}", "[]", '{"anthropic": 1}', '{"a": null}', "[" * 100_000], ids=range(6))
def test_invalid_key_file_is_neither_used_nor_overwritten(here, keys, text):
    write_keys(keys, text)
    done = here("keys", "set", "anthropic", stdin=KEY)

    assert (2, False) == (done.code, PART in done.err)
    assert text == keys.read_text("utf-8")
    with pytest.raises(ConfigError, match=r"keys\.json is not a JSON object"):
        keys_file.load_keys()


# --- list, rm ---------------------------------------------------------------------------------------------------------


def test_list_names_the_source_of_each_key(here, keys, monkeypatch):
    assert (0, "", f"no key; add one with tenuto keys set PROVIDER\nfile: {keys}\n") == here("keys", "list")
    write_keys(keys, {"anthropic": KEY, "openai": KEY, "gone": KEY})
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("XAI_API_KEY", KEY)
    done, document = here("keys"), json.loads(here("keys", "list", "--json").out)

    assert (0, f"file: {keys}\n") == (done.code, done.err)
    assert [line.rstrip() for line in done.out.splitlines()] == [
        "PROVIDER   KEY IN",
        "openai     keys.json",
        "anthropic  ANTHROPIC_API_KEY",
        "anthropic  keys.json          not used: ANTHROPIC_API_KEY overrides it",
        "xai        XAI_API_KEY",
        "gone       keys.json          not used: unknown provider",
    ]
    assert str(keys) == document["path"]
    first = {"provider": "openai", "source": "file", "where": "keys.json", "used": True, "why_not": None}
    assert first == document["keys"][0]
    assert PART not in f"{done}{document}"


def test_rm_deletes_one_key(here, keys):
    write_keys(keys, {"google": KEY, "openai": KEY, "gone": KEY})

    assert (0, "", f"key for google removed from {keys}\n") == here("keys", "rm", "gemini")
    assert 0 == here("keys", "rm", "gone").code
    assert {"openai": KEY} == keys_file.read_keys()
    missing = here("keys", "rm", "anthropic")
    assert (2, True) == (missing.code, f"no key for anthropic in {keys}; list keys with tenuto keys" in missing.err)


# --- terminal ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["key", "ctrl-c"])
def test_terminal_prompt_hides_the_key(tenuto, keys, answer):
    terminal = tenuto.terminal("keys", "set", "anthropic")
    terminal.expect(r"key for anthropic \(hidden\): ")
    if answer == "ctrl-c":
        terminal.interrupt()
        assert (130, False) == (terminal.end()[0], keys.exists())
        return
    terminal.type(f"{KEY}\n")
    code, screen = terminal.end()

    assert (0, f"key for anthropic (hidden):\nkey for anthropic saved in {keys}\n") == (code, screen)
    assert {"anthropic": KEY} == json.loads(keys.read_text("utf-8"))
