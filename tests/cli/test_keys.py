"""Keys in a file: only their owner can read it, and nobody is ever shown one."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import threading

import pytest

from tenuto.catalog import PROVIDERS
from tenuto.cli import keys_file
from tenuto.cli.config import ConfigError
from tenuto.errors import UnknownProvider
from tenuto.sim.simulator import Simulator

KEY = "sk-secret-1234567890"
PART = "1234567890"


@pytest.fixture(autouse=True)
def keys(tmp_path, monkeypatch):
    """Where the keys are kept; nothing is in the environment."""
    for row in PROVIDERS.values():
        for name in (*row.key_env, *row.bearer_env):
            monkeypatch.delenv(name, raising=False)
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
def test_a_key_is_kept_under_its_providers_name(here, keys, named, name):
    """Whichever of its names is used. The space and the line's end around it are no part of it."""
    keys.parent.mkdir()
    (keys.parent / "config.toml").write_text("[providers.mine]\nbase_url = 'http://localhost:1'\n", "utf-8")
    done = here("keys", "set", named, stdin=f"  {KEY}\r\n")

    assert (0, "", f"key for {name} saved in {keys}\n") == done
    assert {name: KEY} == json.loads(keys.read_text("utf-8")) == keys_file.load_keys()


def test_only_the_owner_can_read_it(here, keys):
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
    (b"\xff\xfe" + KEY.encode("utf-16-le"), "invalid key: not text"),
]


@pytest.mark.parametrize("given, message", REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_key_is_not_kept_and_not_repeated(here, keys, given, message):
    done = here("keys", "set", "anthropic", stdin=given)

    assert (2, "") == (done.code, done.out)
    assert message in done.err
    assert PART not in done.err
    assert not keys.exists()


def test_a_key_as_an_argument_is_refused_and_not_repeated(here, keys):
    done = here("keys", "set", "anthropic", KEY, stdin="other")

    assert (2, "") == (done.code, done.out)
    assert "keys are not accepted as arguments" in done.err
    assert "run tenuto keys set anthropic" in done.err
    assert PART not in done.err
    assert not keys.exists()


@pytest.mark.parametrize("verb", ["set", "rm"])
def test_a_key_in_the_place_of_the_provider_is_not_repeated(here, verb):
    done = here("keys", verb, KEY + KEY)

    assert 2 == done.code
    assert "unknown provider (not shown); list them with tenuto providers" in done.err
    assert PART not in done.err


def test_what_is_far_too_long_is_not_kept_in_part(here, keys):
    done = here("keys", "set", "anthropic", stdin="k" * 20_000)

    assert (2, "error: invalid key: too long") == (done.code, done.err.splitlines()[0])
    assert not keys.exists()


def test_an_unknown_provider_suggests_near_ones_and_ones_own(here, keys):
    keys.parent.mkdir()
    (keys.parent / "config.toml").write_text("[providers.minerva]\nbase_url = 'http://localhost:1'\n", "utf-8")

    assert "did you mean 'anthropic'" in here("keys", "set", "anthropc", stdin=KEY).err
    assert "did you mean 'minerva'" in here("keys", "set", "minrva", stdin=KEY).err
    assert 2 == here("keys", "set", "anthropc", stdin=KEY).code
    assert "unknown provider 'zzz'; list them with tenuto providers" in here("keys", "set", "zzz", stdin=KEY).err


def test_a_wrong_configuration_does_not_keep_a_key_from_being_kept(here, keys):
    """Unless only the configuration could say who is meant."""
    keys.parent.mkdir()
    (keys.parent / "config.toml").write_text("modle = 1\n", "utf-8")
    known, own = here("keys", "set", "anthropic", stdin=KEY), here("keys", "set", "mine", stdin=KEY)

    assert (0, {"anthropic": KEY}) == (known.code, keys_file.read_keys())
    assert "note: " in known.err
    assert 2 == own.code
    assert "unknown setting 'modle'" in own.err


def test_a_file_that_cannot_be_read_is_not_written_over(here, keys):
    kept(keys, f"{{{KEY}")
    done = here("keys", "set", "anthropic", stdin=KEY)

    assert 2 == done.code
    assert f"{keys} is not JSON" in done.err
    assert PART not in done.err
    assert f"{{{KEY}" == keys.read_text("utf-8")


def test_two_who_write_at_once_lose_nothing(keys):
    names = ["anthropic", "openai", "google", "xai", "groq", "mistral", "deepseek", "zai"]
    threads = [threading.Thread(target=keys_file.save_key, args=(name, KEY)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(names) == set(keys_file.read_keys())


def test_a_variable_that_wins_is_named(here, monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    done = here("keys", "set", "gemini", stdin=KEY)

    assert "note: GOOGLE_API_KEY is set in the environment and overrides it" in done.err


# --- who gets them ----------------------------------------------------------------------------------------------------


def test_the_environment_wins_over_the_file(keys, monkeypatch):
    kept(keys, {"anthropic": KEY, "openai": KEY, "gone": KEY})
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "t")

    assert {"openai": KEY} == keys_file.load_keys()
    assert ("ANTHROPIC_AUTH_TOKEN", "keys.json", "") == tuple(map(keys_file.key_source, ("anthropic", "openai", "xai")))


def test_a_row_at_another_address_has_the_key_from_the_file(keys, monkeypatch):
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
def test_the_command_asks_with_a_key_from_the_file(here, keys):
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


def test_the_library_does_not_look_into_the_file(keys):
    from tenuto import Client
    from tenuto.errors import MissingKey

    kept(keys, {"anthropic": KEY})
    with Client() as ai, pytest.raises(MissingKey):
        ai.chat("anthropic/claude-sonnet-5-5", "Hi")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_can_read_is_refused_with_what_to_run(here, keys, mode):
    """As ssh does."""
    kept(keys, {"anthropic": KEY}, mode)
    done = here("keys", "list")

    assert 2 == done.code
    assert f"{keys} can be read by others (mode {mode:04o}), so its keys are not used\n  chmod 600 {keys}\n" in done.err
    with pytest.raises(ConfigError):
        keys_file.load_keys()


@pytest.mark.parametrize("held", ["", "[]", '{"anthropic": 1}', '{"anthropic": null}', "[" * 100_000], ids=range(5))
def test_a_file_that_holds_something_else_is_refused(keys, held):
    kept(keys, held)

    with pytest.raises(ConfigError, match=r"keys\.json (is not JSON|must be one object)"):
        keys_file.load_keys()


def test_a_name_that_is_none_is_an_error_with_near_ones():
    with pytest.raises(UnknownProvider) as raised:
        keys_file.canonical_provider("opnai")

    assert "openai" in raised.value.suggestions


# --- list, rm, path ---------------------------------------------------------------------------------------------------


def test_list_says_where_each_key_is_and_shows_none(here, keys, monkeypatch):
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


def test_list_of_none_says_what_to_do(here, keys):
    assert (0, "", f"no key; add one with tenuto keys set PROVIDER\nfile: {keys}\n") == here("keys", "list")


def test_rm_takes_out_one_and_leaves_the_others(here, keys):
    kept(keys, {"google": KEY, "openai": KEY, "gone": KEY})

    assert (0, "", f"key for google removed from {keys}\n") == here("keys", "rm", "gemini")
    assert 0 == here("keys", "rm", "gone").code
    assert {"openai": KEY} == keys_file.read_keys()


def test_rm_of_what_is_not_there_says_so(here, keys):
    done = here("keys", "rm", "anthropic")

    assert 2 == done.code
    assert f"no key for anthropic in {keys}; list keys with tenuto keys" in done.err
    assert not keys.exists()


# --- as it is called --------------------------------------------------------------------------------------------------


def test_in_a_pipe(tenuto, keys):
    process = tenuto.start("keys", "set", "anthropic", stdin=subprocess.PIPE)
    out, err = process.communicate(f"{KEY}\n")

    assert (0, "", f"key for anthropic saved in {keys}\n") == (process.returncode, out, err)
    assert {"anthropic": KEY} == json.loads(keys.read_text("utf-8"))


def test_on_a_terminal_it_is_asked_for_and_not_shown(tenuto, keys):
    terminal = tenuto.terminal("keys", "set", "anthropic")
    terminal.expect(r"key for anthropic \(hidden\): ")
    terminal.type(f"{KEY}\n")
    code, screen = terminal.end()

    assert 0 == code
    assert f"key for anthropic (hidden):\nkey for anthropic saved in {keys}\n" == screen
    assert {"anthropic": KEY} == json.loads(keys.read_text("utf-8"))


def test_who_thinks_better_of_it_keeps_nothing(tenuto, keys):
    """Ctrl-C at the question."""
    terminal = tenuto.terminal("keys", "set", "anthropic")
    terminal.expect(r"key for anthropic \(hidden\): ")
    terminal.interrupt()
    code, _ = terminal.end()

    assert 130 == code
    assert not keys.exists()
