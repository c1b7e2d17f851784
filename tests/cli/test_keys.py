"""Keys in a file: only their owner can read it, and nobody is ever shown one."""

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
    return tmp_path / "home" / "keys.json"


def kept(keys, held, mode=0o600):
    keys.parent.mkdir(exist_ok=True)
    keys.write_text(held if isinstance(held, str) else json.dumps(held), "utf-8")
    keys.chmod(mode)


# --- set --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "named, name", [("anthropic", "anthropic"), ("gemini", "google"), ("openai-chat", "openai"), ("mine", "mine")]
)
def test_set_stores_a_key_under_its_provider(here, keys, named, name):
    """Whichever of its names is used. The space and the line's end around it are no part of it."""
    keys.parent.mkdir()
    (keys.parent / "config.toml").write_text("[providers.mine]\nbase_url = 'http://localhost:1'\n", "utf-8")
    done = here("keys", "set", named, stdin=f"  {KEY}\r\n")

    assert (0, "", f"key for {name} saved in {keys}\n") == done
    assert {name: KEY} == json.loads(keys.read_text("utf-8")) == keys_file.load_keys()


def test_key_file_is_private(here, keys):
    """Neither the file nor the folder, whatever the mask is and whatever the file was before."""
    mask = os.umask(0)
    try:
        here("keys", "set", "openai", stdin=KEY)
        keys.chmod(0o644)
        here("keys", "set", "anthropic", stdin=KEY)
    finally:
        os.umask(mask)

    assert 0o600 == stat.S_IMODE(keys.stat().st_mode)
    assert 0o700 == stat.S_IMODE(keys.parent.stat().st_mode)
    assert {"openai", "anthropic"} == set(keys_file.read_keys())


REFUSED = [
    ("", "no key: the input is empty"),
    (" \n", "no key: the input is empty"),
    (f"{KEY} x", "invalid key: it contains a space or a character that keys do not have"),
    (f"{KEY}\n{KEY}\n", "invalid key"),
    (f"{KEY}\x07", "invalid key"),
    (f"{KEY}é", "invalid key"),
    ("k" * 20_000, "invalid key: too long"),
    (b"\xff\xfe" + KEY.encode("utf-16-le"), "invalid key: not text"),
]


@pytest.mark.parametrize("given, message", REFUSED, ids=range(len(REFUSED)))
def test_invalid_key_is_neither_stored_nor_printed(here, keys, given, message):
    done = here("keys", "set", "anthropic", stdin=given)

    assert (2, "") == (done.code, done.out)
    assert message in done.err
    assert PART not in done.err
    assert not keys.exists()


def test_key_as_an_argument_is_refused(here, keys):
    done = here("keys", "set", "anthropic", KEY, stdin="other")

    assert (2, "") == (done.code, done.out)
    assert "keys are not accepted as arguments" in done.err
    assert "run tenuto keys set anthropic" in done.err
    assert PART not in done.err
    assert not keys.exists()


def test_unknown_provider_suggests_known_and_custom_ones(here, keys):
    keys.parent.mkdir()
    (keys.parent / "config.toml").write_text("[providers.minerva]\nbase_url = 'http://localhost:1'\n", "utf-8")

    for name, message in (
        ("anthropc", "did you mean 'anthropic'"),
        ("minrva", "did you mean 'minerva'"),
        ("zzz", "unknown provider 'zzz'; list them with tenuto providers"),
        (KEY + KEY, "unknown provider (not shown); list them with tenuto providers"),
    ):
        done = here("keys", "set", name, stdin=KEY)
        assert (2, True, False) == (done.code, message in done.err, PART in done.err)


def test_key_is_stored_with_a_broken_config_file(here, keys):
    """Unless only the configuration could say who is meant."""
    keys.parent.mkdir()
    (keys.parent / "config.toml").write_text("modle = 1\n", "utf-8")
    known, own = here("keys", "set", "anthropic", stdin=KEY), here("keys", "set", "mine", stdin=KEY)

    assert (0, {"anthropic": KEY}) == (known.code, keys_file.read_keys())
    assert "note: " in known.err
    assert 2 == own.code
    assert "unknown setting 'modle'" in own.err


def test_unreadable_key_file_is_not_overwritten(here, keys):
    kept(keys, f"{{{KEY}")
    done = here("keys", "set", "anthropic", stdin=KEY)

    assert 2 == done.code
    assert f"{keys} is not JSON" in done.err
    assert PART not in done.err
    assert f"{{{KEY}" == keys.read_text("utf-8")


def test_set_names_an_overriding_variable(here, monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    done = here("keys", "set", "gemini", stdin=KEY)

    assert "note: GOOGLE_API_KEY is set in the environment and overrides it" in done.err


# --- who gets them ----------------------------------------------------------------------------------------------------


def test_environment_overrides_the_file(keys, monkeypatch):
    kept(keys, {"anthropic": KEY, "openai": KEY, "gone": KEY})
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "t")

    assert {"openai": KEY} == keys_file.load_keys()
    assert ("ANTHROPIC_AUTH_TOKEN", "keys.json", "") == tuple(map(keys_file.key_source, ("anthropic", "openai", "xai")))


def test_other_host_gets_the_key_of_the_file_only(keys, monkeypatch):
    """What is in the environment belongs to the row's own address, and a client does not send it to others."""
    kept(keys, {"openai": KEY, "google": KEY})
    (keys.parent / "config.toml").write_text(
        "[providers.openai]\nbase_url = 'http://localhost:1/v1'\n"
        "[providers.gemini]\nbase_url = 'https://generativelanguage.googleapis.com/v9'\nkey_env = 'MINE'\n",
        "utf-8",
    )
    monkeypatch.setenv("OPENAI_API_KEY", "e")
    monkeypatch.setenv("MINE", "e")

    assert {"openai": KEY} == keys_file.load_keys()
    assert ((), "MINE") == (keys_file.key_variables("openai"), keys_file.key_variables("google")[0])


@pytest.mark.usefixtures("real_providers")
def test_run_uses_a_stored_key(here, keys):
    """A server that takes no other key takes it; without, nobody is asked."""
    with Simulator(keys={KEY}) as server:
        keys.parent.mkdir()
        (keys.parent / "config.toml").write_text(f"[providers.anthropic]\nbase_url = '{server.base_url}/v1'\n", "utf-8")
        here("keys", "set", "anthropic", stdin=KEY)
        asked = here("run", "Hi", "-m", "anthropic/claude-sonnet-5-5", "-q")
        here("keys", "rm", "anthropic")
        without = here("run", "Hi", "-m", "anthropic/claude-sonnet-5-5", "-q")

        assert (0, 3) == (asked.code, without.code), asked.err
        assert ["/v1/messages"] == [request.path for request in server.requests]
        assert PART not in asked.out + asked.err


def test_library_does_not_read_the_key_file(keys):
    from tenuto import Client
    from tenuto.errors import MissingKey

    kept(keys, {"anthropic": KEY})
    with Client() as ai, pytest.raises(MissingKey):
        ai.chat("anthropic/claude-sonnet-5-5", "Hi")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_key_file_that_others_can_read_is_refused(here, keys, mode):
    """As ssh does."""
    kept(keys, {"anthropic": KEY}, mode)
    done = here("keys", "list")

    assert 2 == done.code
    assert f"{keys} can be read by others (mode {mode:04o}), so its keys are not used\n  chmod 600 {keys}\n" in done.err
    with pytest.raises(ConfigError):
        keys_file.load_keys()


@pytest.mark.parametrize("held", ["", "[]", '{"anthropic": 1}', '{"anthropic": null}', "[" * 100_000], ids=range(5))
def test_invalid_key_file_is_refused(keys, held):
    kept(keys, held)

    with pytest.raises(ConfigError, match=r"keys\.json (is not JSON|must be one object)"):
        keys_file.load_keys()


# --- list, rm, path ---------------------------------------------------------------------------------------------------


def test_list_names_the_source_of_each_key(here, keys, monkeypatch):
    kept(keys, {"anthropic": KEY, "openai": KEY, "gone": KEY})
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("XAI_API_KEY", KEY)
    done = here("keys", "list")

    assert (0, f"file: {keys}\n") == (done.code, done.err)
    assert [line.rstrip() for line in done.out.splitlines()] == [
        "PROVIDER   KEY IN",
        "openai     keys.json",
        "anthropic  ANTHROPIC_API_KEY",
        "anthropic  keys.json          not used: ANTHROPIC_API_KEY overrides it",
        "xai        XAI_API_KEY",
        "gone       keys.json          not used: unknown provider",
    ]


def test_list_as_json_has_no_key(here, keys):
    kept(keys, {"anthropic": KEY})
    done = here("keys", "list", "--json")

    assert json.loads(done.out) == {
        "path": str(keys),
        "keys": [{"provider": "anthropic", "source": "file", "where": "keys.json", "used": True, "why_not": None}],
    }
    assert PART not in done.out


def test_empty_list_has_a_hint(here, keys):
    assert (0, "", f"no key; add one with tenuto keys set PROVIDER\nfile: {keys}\n") == here("keys", "list")


def test_rm_deletes_one_key(here, keys):
    kept(keys, {"google": KEY, "openai": KEY, "gone": KEY})

    assert (0, "", f"key for google removed from {keys}\n") == here("keys", "rm", "gemini")
    assert 0 == here("keys", "rm", "gone").code
    assert {"openai": KEY} == keys_file.read_keys()


def test_rm_of_a_missing_key_is_code_2(here, keys):
    done = here("keys", "rm", "anthropic")

    assert 2 == done.code
    assert f"no key for anthropic in {keys}; list keys with tenuto keys" in done.err
    assert not keys.exists()


# --- as it is called --------------------------------------------------------------------------------------------------


def test_terminal_prompt_hides_the_key(tenuto, keys):
    terminal = tenuto.terminal("keys", "set", "anthropic")
    terminal.expect(r"key for anthropic \(hidden\): ")
    terminal.type(f"{KEY}\n")
    code, screen = terminal.end()

    assert 0 == code
    assert f"key for anthropic (hidden):\nkey for anthropic saved in {keys}\n" == screen
    assert {"anthropic": KEY} == json.loads(keys.read_text("utf-8"))


def test_ctrl_c_at_the_prompt_stores_nothing(tenuto, keys):
    """Ctrl-C at the question."""
    terminal = tenuto.terminal("keys", "set", "anthropic")
    terminal.expect(r"key for anthropic \(hidden\): ")
    terminal.interrupt()
    code, _ = terminal.end()

    assert 130 == code
    assert not keys.exists()
