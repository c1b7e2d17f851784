"""Settings: the config file, its profiles, the environment above it, and `tenuto config`."""

from __future__ import annotations

import json
import re
import stat
import threading
import tomllib
from pathlib import Path
from typing import get_args

import click
import pytest

from tenuto.cli.config import DEFAULTS, PARAMETERS, ConfigError, configured_providers, default_map, parse_config
from tenuto.cli.config_schema import SCHEMA
from tenuto.cli.main import main
from tenuto.cli.options import EFFORTS
from tenuto.core.request import Effort
from tenuto.errors import MissingKey


@pytest.fixture(autouse=True)
def _bare(here, monkeypatch):
    for name in ("TENUTO_MODEL", "TENUTO_STORE", "TENUTO_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def options(here, monkeypatch):
    """Call a command that returns its options and does nothing else."""
    seen = {}
    for command in ("run", "resume"):
        monkeypatch.setattr(f"tenuto.cli.commands.{command}.command.callback", lambda **given: seen.update(given))

    def call(*arguments):
        seen.clear()
        done = here(*arguments)
        assert done.code == 0, done.err
        return dict(seen)

    return call


ALL = """
model = "sim/openai"
system = "Be brief."
effort = "low"
max_tokens = 100
allow_unverified = true
fallback = ["sim/anthropic", "sim/gemini"]
tools = ["read_file", "shell"]
root = "/tmp"
approve = "never"
allow = ["shell(git *)"]
deny = ["shell(rm *)"]
max_turns = 3
max_usd = 0.5
strict = true
max_tokens_total = 1000
timeout = 60
quiet = true
hide_thinking = true
usage = true
store = "here.db"
color = "never"

[options]
temperature = 0.2
stop = ["END", "é"]
user = "1"
"""


def test_every_setting_is_an_option_of_run(options, config):
    config(ALL)
    given = options("run", "Hi")
    expected = tomllib.loads(ALL)

    assert set(expected) == set(DEFAULTS) == set(SCHEMA["profiles"]["*"]) <= set(SCHEMA)
    assert set(EFFORTS) == set(get_args(Effort))
    assert ("temperature=0.2", 'stop=["END", "é"]', 'user="1"') == given["option"]
    del expected["options"]
    expected |= {"fallback": "sim/anthropic,sim/gemini"}
    for key, value in expected.items():
        assert (tuple(value) if isinstance(value, list) else value) == given[PARAMETERS.get(key, key)]


OVERRIDDEN = [
    (["run", "Hi", "-m", "sim/gemini", "-T", "list_files"], {"model": "sim/gemini", "tool": ("list_files",)}),
    (["run", "Hi", "-o", "seed=1", "--deny", "x"], {"effort": "low", "option": ("seed=1",), "deny": ("x",)}),
    (["run", "Hi", "--no-allow-unverified", "--no-quiet"], {"allow_unverified": False, "quiet": False}),
    (["run", "Hi", "--no-hide-thinking", "--no-usage"], {"hide_thinking": False, "usage": False}),
    (["run", "Hi", "--no-tools"], {"no_tools": True}),
    (["resume"], {"model": None, "system": None, "effort": None, "option": ()}),  # only for new sessions
    (["resume"], {"max_turns": 3, "tool": ("read_file", "shell"), "store": "here.db"}),
]


@pytest.mark.parametrize("arguments, expected", OVERRIDDEN)
def test_options_override_settings(options, config, arguments, expected):
    config(ALL)
    given = options(*arguments)

    assert expected == {name: given[name] for name in expected}


LEVELS = """
model = "sim/a-file"
effort = "low"
store = "file.db"
profile = "usual"

[profiles.usual]
model = "sim/a-profile"

[profiles.other]
effort = "high"
tools = []
"""


@pytest.mark.parametrize(
    "arguments, environment, expected",
    [
        ((), {}, ("sim/a-profile", "low", "file.db")),
        (("--profile", "other"), {}, ("sim/a-file", "high", "file.db")),
        (("--profile", ""), {}, ("sim/a-file", "low", "file.db")),
        ((), {"TENUTO_PROFILE": "other"}, ("sim/a-file", "high", "file.db")),
        (("--profile", "usual"), {"TENUTO_PROFILE": "other"}, ("sim/a-profile", "low", "file.db")),
        ((), {"TENUTO_MODEL": "sim/env", "TENUTO_STORE": "env.db"}, ("sim/env", "low", "env.db")),
        (("--profile", "usual"), {"TENUTO_MODEL": "sim/env"}, ("sim/env", "low", "file.db")),
    ],
)
def test_precedence_is_environment_profile_file(options, config, monkeypatch, arguments, environment, expected):
    config(f"\ufeff{LEVELS}".replace("\n", "\r\n"))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    given = options(*arguments, "run", "Hi")

    assert expected == (given["model"], given["effort"], given["store"])


def test_settings_reach_options_of_subcommands_but_no_arguments(here, config):
    config('store = "x.db"\nmodel = "sim/openai"\n')
    group = click.Group("v", params=[click.Option(["--store"])])
    group.add_command(click.Command("list", params=[click.Option(["--store"]), click.Option(["--model"])]))
    group.add_command(click.Command("other", params=[click.Argument(["store"])]))

    assert {"store": "x.db", "list": {"store": "x.db"}, "other": {}} == default_map(group, "sessions", None)
    assert "Missing argument 'MODEL'" in here("handover", "last").err


def test_config_file_of_the_documentation_is_valid(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "command" / "settings.md").read_text("utf-8")
    [text] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)

    assert "mine/gpt-oss-120b" == parse_config(text, tmp_path)["profiles"]["work"]["model"]


WRONG = [
    ('modle = "x"', "unknown setting 'modle': did you mean model?"),
    ("zzz = 1", "unknown setting 'zzz': use one of model, system,"),
    ('max_tokens = "many"', "max_tokens should be a whole number, 1 or more, not text"),
    ("max_turns = 0", "max_turns should be a whole number, 1 or more, not 0"),
    ("timeout = nan", "timeout should be a number above 0, not nan"),
    ('tools = "shell"', 'tools should be a list of texts, such as ["a", "b"], not text'),
    ('effort = "hihg"', "effort should be one of none, minimal, low, "),
    ('hide_thinking = "yes"', "hide_thinking should be true or false, not text"),
    ("model = 1979-05-27", "model should be text, not a date or a time"),
    ("options = 1", "options should be a table, [options], not 1"),
    (
        "options.stop = 1979-05-27",
        "options.stop should be text, a number, true or false, a list or a table, not a date",
    ),
    ("[profiles.work]\nmodle = 1", "unknown setting 'modle' in profiles.work: did you mean model?"),
    ("profiles = 1", "profiles should be a table, [profiles], not 1"),
    ("profiles.work = 1", "profiles.work should be a table, [profiles.work], not 1"),
    ("profile = 'wrk'\n[profiles.work]", "profile names 'wrk', but there is no [profiles.wrk]: did you mean work?"),
    ("[providers.mine]\nurl = 'x'", "unknown setting 'url' in providers.mine: "),
    ("[providers.mine]\nbase_url = 'localhost'", "providers.mine.base_url should be a URL, http://... or https://..."),
    ("[providers.mine]\nkey_env = 'sk-1234'", "providers.mine.key_env should be the name of an environment variable"),
    ("[providers.mine]\nheaders = {a = 1}", "providers.mine.headers.a should be text, not 1"),
    ("[providers.mine]\ndialect = 'openai'", "not 'openai'; did you mean openai-chat?"),
    ("model =", "cannot be read as TOML: Invalid value (at end of document)"),
    ("\n\nmodel = a\n", "Invalid value (at line 3, column 9)"),
    ("a = " + "[" * 5000, "cannot be read as TOML"),
]


@pytest.mark.parametrize("text, message", WRONG, ids=[message[:40] for _, message in WRONG])
def test_wrong_setting_is_named_with_its_path(text, message, tmp_path):
    with pytest.raises(ConfigError) as raised:
        parse_config(text, tmp_path)

    assert raised.value.message.startswith(str(tmp_path))
    assert message in raised.value.message
    assert "sk-1234" not in raised.value.message


def test_unusable_file_is_code_2_with_a_hint(here, config):
    path = config('modle = "x"')
    message = f"error: {path}: unknown setting 'modle': did you mean model?\n"

    assert (2, "", f"{message}  run tenuto config edit, tenuto config set or tenuto config show\n") == here("sessions")
    assert [0, 0] == [here("--help").code, here("run", "-h").code]
    for content in (b"\xff", b"\xff\xfem\x00"):
        path.write_bytes(content)
        assert "not UTF-8 text (byte 0)" in here("sessions").err
    path.unlink()
    assert "has no profile 'wrok': the file does not exist" in here("--profile", "wrok", "sessions").err
    path.mkdir()
    done = here("show", "--", "--help")  # not a request for help
    assert (2, True) == (done.code, "config.toml cannot be read: Is a directory" in done.err)


def test_custom_providers_are_passed_to_the_client(config, monkeypatch):
    config(
        "[providers.mine]\nbase_url = 'http://localhost:1/v1'\ndialect = 'openai-responses'\nheaders = {a = 'b'}\n"
        "key_env = 'MINE_KEY'\n[providers.openai]\nkey_env = 'NO_KEY'\n"
        "[providers.own]\nbase_url = 'http://localhost:2'\nkey_env = 'NO_KEY'\n"
    )
    monkeypatch.setenv("MINE_KEY", " k ")
    monkeypatch.delenv("NO_KEY", raising=False)
    mine = {"base_url": "http://localhost:1/v1", "dialect": "openai-responses", "headers": {"a": "b"}, "api_key": "k"}

    providers = configured_providers()

    with pytest.raises(MissingKey, match="NO_KEY"):
        providers.pop("own")["api_key"]()
    assert {"mine": mine, "openai": {}} == providers


def test_show_names_the_source_of_each_setting(here, config, monkeypatch):
    path = config(
        LEVELS
        + "\n[providers.mine]\nbase_url = 'http://me:secret@localhost/?key=secret'\nheaders = {X-Key = 'secret'}\n"
        + "[aliases]\nfast = 'sim/openai:low'\n"
    )
    monkeypatch.setenv("TENUTO_STORE", "postgresql://me:secret@localhost/x")
    monkeypatch.setenv("TENUTO_PROFILE", "other")
    done = here("config", "show")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]

    assert (0, "") == (done.code, done.err)
    assert [f"file {path}", "profile other (others: usual)", "", "KEY VALUE FROM"] == lines[:4]
    assert {
        'model "sim/a-file" config.toml',
        'effort "high" profile other',
        "tools [] profile other",
        'store "postgresql://localhost/x" TENUTO_STORE',
        'approve "ask" default',
        'providers.mine.base_url "http://localhost/" config.toml',
        'providers.mine.headers {"X-Key": "***"} config.toml',
        'aliases.fast "sim/openai:low" config.toml',
    } <= {*lines}
    assert "secret" not in done.out


def test_show_json_masks_secrets(here, config, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    config('options = {seed = 1, extra_headers = {X-Key = "secret"}}\n[profiles.work]\neffort = "low"\n')
    shown = json.loads(here("config", "show", "--json", "--profile", "work").out)
    settings = shown["settings"]

    assert (True, "work", ["work"]) == (shown["exists"], shown["profile"], shown["profiles"])
    assert {"value": "low", "source": "profile", "where": "work"} == settings["effort"]
    assert {"seed": 1, "extra_headers": {"X-Key": "***"}} == settings["options"]["value"]
    assert {"value": 100, "source": "default", "where": None} == settings["max_turns"]
    assert settings["model"]["value"].startswith("anthropic/claude-")  # of the provider with a key


SET = [
    ("model", ["sim/openai"], "sim/openai"),
    ("system", ['Be brief. Say "no"\n\u202e'], 'Be brief. Say "no"\n\u202e'),
    ("fallback", ["sim/openai", "sim/gemini:low"], ["sim/openai", "sim/gemini:low"]),
    ("tools", ["shell"], ["shell"]),
    ("timeout", ["1.5"], 1.5),
    ("hide_thinking", ["true"], True),
    ("options.temperature", ["0.2"], 0.2),
    ("options.stop", ['["END"]'], ["END"]),
    ("options.seed", ["--", "-1"], -1),
    ("profiles.größer.effort", ["low"], "low"),
    ("providers.mine.base_url", ["http://localhost:8000/v1"], "http://localhost:8000/v1"),
    ("providers.mine.headers.X-Team", ["blue"], "blue"),
    ("aliases.fast", ["sim/openai:low"], "sim/openai:low"),
]


@pytest.mark.parametrize("key, values, value", SET, ids=[key for key, *_ in SET])
def test_set_writes_a_private_file(here, tmp_path, key, values, value):
    done = here("config", "set", key, *values)
    path = tmp_path / "home" / "config.toml"
    stored = tomllib.loads(path.read_text("utf-8"))
    for step in key.split("."):
        stored = stored[step]

    assert (0, "", f"{key} set in {path}\n") == done
    assert (value, type(value)) == (stored, type(stored))
    assert (0o600, 0o700) == (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode))


EFFORT = ["set", "effort", "high"]
UNCHANGED = [
    (["unset", "profiles.work"], 'profile = "work"\n[profiles.work]\n', 2, "but there is no [profiles.work]"),
    (EFFORT, "\ufeffeffort = 'low'\n", 2, "use tenuto config edit"),
    (EFFORT, "effort = 'low'\r\n", 2, "use tenuto config edit"),
    (EFFORT, "model = [", 2, "fix it in an editor"),
    (EFFORT, "# mine\n", 1, "config.toml cannot be written and is unchanged: No space left on device\n"),
    (["show"], "modle = 1\n", 2, "config.toml: unknown setting 'modle': did you mean model?"),
    (["show"], "model = [", 2, "cannot be read as TOML"),
    (["show"], "[providers.opnai]\ndialect = 'openai-chat'\n", 2, "has no base_url: did you mean openai"),
]


@pytest.mark.parametrize("arguments, text, code, message", UNCHANGED)
def test_unusable_file_is_reported_and_unchanged(here, config, monkeypatch, arguments, text, code, message):
    def full(_):
        raise OSError(28, "No space left on device")

    path = config(text)
    monkeypatch.setattr("os.fsync", full)
    done = here("config", *arguments)

    assert (code, "", True) == (done.code, done.out, message in done.err), done.err
    assert text.encode() == path.read_bytes()
    assert {"config.toml", ".config.toml.lock"} >= {one.name for one in path.parent.iterdir()}


def test_unset_repairs_a_wrong_file_and_removes_tables(here, home, tmp_path):
    """Through a symbolic link, which stays one."""
    path, real = home / "config.toml", tmp_path / "dotfiles.toml"
    real.write_text(
        'modle = "x" # slip\neffrt = 1\n# mine\n[profiles.work]\n[profiles.work.options]\nseed = 1\n[profiles.home]\n'
    )
    path.symlink_to(real)

    assert [0, 0, 0] == [here("config", "unset", key).code for key in ("modle", "effrt", "profiles.work")]
    assert (True, "# mine\n[profiles.home]\n") == (path.is_symlink(), real.read_text("utf-8"))


@pytest.mark.parametrize("edited, code", [("effort = 'low'\n", 0), ("modle = 1\n", 2)])
def test_edit_saves_only_a_valid_file(here, config, monkeypatch, edited, code):
    path = config("# mine\n")
    monkeypatch.setattr("click.edit", lambda *_, **__: edited)
    done = here("config", "edit", stdin="")

    assert (code, "# mine\n" if code else edited) == (done.code, path.read_text("utf-8"))


def test_simultaneous_writers_lose_nothing(config):
    path = config("# mine\n")
    calls = [["config", "set", f"profiles.p{number}.effort", "low"] for number in range(8)]
    threads = [threading.Thread(target=main, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {f"p{number}" for number in range(8)} == set(tomllib.loads(path.read_text("utf-8"))["profiles"])


def test_config_file_is_in_xdg_config_home(tenuto):
    del tenuto.env["TENUTO_HOME"], tenuto.env["TENUTO_MODEL"]
    tenuto.env |= {"HOME": str(tenuto.folder), "XDG_CONFIG_HOME": str(tenuto.folder / "etc")}
    done = tenuto.run("config", "set", "model", "sim/openai")

    assert (0, "") == (done.code, done.out)
    assert '"sim/openai"' in tenuto.run("config").out
    assert 'model = "sim/openai"\n' == (tenuto.folder / "etc" / "tenuto" / "config.toml").read_text("utf-8")
