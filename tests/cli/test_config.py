"""What is set once for all: the file, its profiles, the variables above it, and the command that changes it."""

from __future__ import annotations

import json
import re
import stat
import threading
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from tenuto.cli import config
from tenuto.cli.config import DEFAULTS, PARAMETERS
from tenuto.cli.config_schema import SCHEMA
from tenuto.cli.main import main
from tenuto.cli.options import EFFORTS
from tenuto.core.request import Effort
from tenuto.sim.simulator import Simulator


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Write the file; where nothing is configured otherwise."""
    for name in ("TENUTO_MODEL", "TENUTO_STORE", "TENUTO_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TENUTO_HOME", str(tmp_path / "home"))
    path = tmp_path / "home" / "config.toml"

    def put(text=""):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
        return path

    return put


@pytest.fixture
def told(here, file, monkeypatch):
    """Call a verb that takes note of its options and does nothing else."""
    seen = {}
    for verb in ("run", "resume"):
        monkeypatch.setattr(f"tenuto.cli.commands.{verb}.command.callback", lambda **given: seen.update(given))

    def call(*arguments):
        seen.clear()
        done = here(*arguments)
        assert done.code == 0, done.err
        return dict(seen)

    return call


# --- what holds -------------------------------------------------------------------------------------------------------

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


def test_every_setting_is_an_option_of_run(told, file):
    """By its name and its type; the table of options as `-o` would have them."""
    file(ALL)
    given = told("run", "Hi")

    assert set(tomllib.loads(ALL)) == set(DEFAULTS)
    assert {PARAMETERS.get(key, key) for key in DEFAULTS} <= set(given)
    expected = tomllib.loads(ALL)
    del expected["options"]
    expected |= {
        "fallback": "sim/anthropic,sim/gemini",
        "max_usd": "0.5",
        **{name: tuple(expected[name]) for name in ("allow", "deny")},
    }
    assert tuple(expected.pop("tools")) == given["tool"]
    assert ("temperature=0.2", 'stop=["END", "é"]', 'user="1"') == given["option"]
    assert expected == {name: given[name] for name in expected}


def test_typed_options_replace_settings(told, file):
    file(ALL)
    given = told(
        "run", "Hi", "-m", "sim/gemini", "-T", "list_files", "--approve", "auto", "-o", "seed=1", "--deny", "x"
    )

    assert ("sim/gemini", "auto") == (given["model"], given["approve"])
    assert (("list_files",), ("seed=1",), ("x",)) == (given["tool"], given["option"], given["deny"])
    assert "low" == given["effort"]


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
def test_precedence_is_environment_profile_file(told, file, monkeypatch, arguments, environment, expected):
    file(LEVELS)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    given = told(*arguments, "run", "Hi")

    assert expected == (given["model"], given["effort"], given["store"])


def test_resume_ignores_settings_for_new_sessions(told, file):
    """What only says how one begins does not reach `resume`; what bounds a run does."""
    file(ALL)
    given = told("resume")

    assert (None, None, None, ()) == tuple(given[name] for name in ("model", "system", "effort", "option"))
    assert (3, ("read_file", "shell"), "here.db") == (given["max_turns"], given["tool"], given["store"])


def test_setting_does_not_replace_an_argument(here, file, monkeypatch):
    """`handover SESSION MODEL` has to be told; so has whatever else calls something by the name of a key."""
    file('model = "sim/openai"\n')
    done = here("handover", "last")

    assert 2 == done.code
    assert "Missing argument 'MODEL'" in done.err


def test_subcommands_get_settings_too(file):
    """`store` reaches `sessions` and every verb below it, however it is called."""
    import click

    file('store = "x.db"\nmodel = "sim/openai"\n')
    verb = click.Group("v", params=[click.Option(["--store"])])
    verb.add_command(click.Command("list", params=[click.Option(["--store"]), click.Option(["--model"])]))
    verb.add_command(click.Command("other", params=[click.Argument(["store"])]))

    assert {"store": "x.db", "list": {"store": "x.db"}, "other": {}} == config.default_map(verb, "sessions", None)


def test_settings_have_types():
    assert set(DEFAULTS) == set(SCHEMA["profiles"]["*"]) <= set(SCHEMA)
    assert set(EFFORTS) == set(get_args(Effort))


def test_config_file_of_the_documentation_is_valid(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "command" / "settings.md").read_text("utf-8")
    [text] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)

    assert "mine/gpt-oss-120b" == config.parse_config(text, tmp_path)["profiles"]["work"]["model"]


# --- what is wrong ----------------------------------------------------------------------------------------------------

WRONG = [
    ('modle = "x"', "unknown setting 'modle': did you mean model?"),
    ("zzz = 1", "unknown setting 'zzz': use one of model, system,"),
    ('max_tokens = "many"', "max_tokens should be a whole number, 1 or more, not text"),
    ("max_turns = 0", "max_turns should be a whole number, 1 or more, not 0"),
    ("max_turns = true", "not true"),
    ("max_usd = 'much'", "max_usd should be a number above 0, not text"),
    ("timeout = nan", "timeout should be a number above 0, not nan"),
    ('tools = "shell"', 'tools should be a list of texts, such as ["a", "b"], not text'),
    ("tools = [1]", "tools should be a list of texts"),
    (
        'effort = "hihg"',
        "effort should be one of none, minimal, low, medium, high, xhigh, max, not 'hihg'; did you mean high or xhigh?",
    ),
    ('hide_thinking = "yes"', "hide_thinking should be true or false, not text"),
    ("model = 1979-05-27", "model should be text, not a date or a time"),
    ("options = 1", "options should be a table, [options], not 1"),
    (
        "options.stop = 1979-05-27",
        "options.stop should be text, a number, true or false, a list or a table, not a date or a time",
    ),
    ("options.temprature = 1", "unknown setting 'temprature' in options: did you mean temperature?"),
    ("[profiles.work]\nmodle = 1", "unknown setting 'modle' in profiles.work: did you mean model?"),
    ("[profiles.work]\nprofile = 'x'", "unknown setting 'profile' in profiles.work"),
    ("profiles = 1", "profiles should be a table, [profiles], not 1"),
    ("profiles.work = 1", "profiles.work should be a table, [profiles.work], not 1"),
    ("profile = 1", "profile should be text, not 1"),
    ("profile = 'wrk'\n[profiles.work]", "profile names 'wrk', but there is no [profiles.wrk]: did you mean work?"),
    ("[providers.mine]\nurl = 'x'", "unknown setting 'url' in providers.mine: "),
    (
        "[providers.mine]\nbase_url = 'localhost'",
        "providers.mine.base_url should be a URL, http://... or https://...",
    ),
    (
        "[providers.mine]\nkey_env = 'sk-1234'",
        "providers.mine.key_env should be the name of an environment variable, not text",
    ),
    ("[providers.mine]\nheaders = {a = 1}", "providers.mine.headers.a should be text, not 1"),
    ("[providers.mine]\ndialect = 'openai'", "not 'openai'; did you mean openai-chat?"),
    ("[providers.mine]\napi_key = 'sk-1234'", "use tenuto keys set PROVIDER instead"),
    ("[providers.'a/b']\nbase_url = 'http://x'", "is not empty and has no slash"),
    ("model =", "cannot be read as TOML: Invalid value (at line 1, column 8, the end of the file)"),
    ("\n\nmodel = a\n", "Invalid value (at line 3, column 9)"),
    ("model = 'a'\nmodel = 'b'", "at line 2"),
    ("a = " + "[" * 5000, "cannot be read as TOML"),
]


@pytest.mark.parametrize("text, message", WRONG, ids=[message[:40] for _, message in WRONG])
def test_wrong_setting_is_named_with_its_path(text, message, tmp_path):
    with pytest.raises(config.ConfigError) as raised:
        config.parse_config(text, tmp_path)

    assert raised.value.message.startswith(str(tmp_path))
    assert message in raised.value.message
    assert "sk-1234" not in raised.value.message


def test_wrong_file_is_one_message_with_a_hint(here, file):
    path = file('modle = "x"')

    assert (2, "") == here("sessions")[:2]
    assert here("sessions").err == (
        f"error: {path}: unknown setting 'modle': did you mean model?\n"
        "  run tenuto config edit, tenuto config set or tenuto config show\n"
    )


def test_unreadable_file_is_code_2(here, file):
    path = file()
    for content in (b"\xff", b"\xff\xfem\x00"):
        path.write_bytes(content)
        assert "not UTF-8 text (byte 0)" in here("sessions").err
    path.unlink()
    path.mkdir()
    done = here("show", "--", "--help")  # not a request for help

    assert (2, True) == (done.code, "config.toml cannot be read: Is a directory" in done.err)


def test_unknown_profile_is_code_2(here, file):
    assert "has no profile 'wrok': the file does not exist" in here("--profile", "wrok", "sessions").err
    file("[profiles.work]\n")
    for command in (["sessions"], ["config", "show"]):
        done = here("--profile", "wrok", *command)
        assert (2, True) == (done.code, "has no profile 'wrok': did you mean work?" in done.err)


def test_bom_and_crlf_are_accepted(told, file):
    file('\ufeffmodel = "sim/openai"\r\n# mine\r\n')

    assert "sim/openai" == told("run", "Hi")["model"]


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["run", "-h"], ["sessions", "--help"]],
    ids=" ".join,
)
def test_help_works_with_a_broken_file(here, file, arguments):
    file("model = [")

    assert 0 == here(*arguments).code


# --- servers of one's own ---------------------------------------------------------------------------------------------


def test_custom_providers_are_passed_to_the_client(file, monkeypatch):
    file(
        "[providers.mine]\nbase_url = 'http://localhost:1/v1'\ndialect = 'openai-responses'\nheaders = {a = 'b'}\n"
        "key_env = 'MINE_KEY'\n[providers.openai]\nkey_env = 'OTHER_KEY'\n"
    )
    monkeypatch.setenv("MINE_KEY", " k ")
    monkeypatch.delenv("OTHER_KEY", raising=False)

    assert {
        "mine": {
            "base_url": "http://localhost:1/v1",
            "dialect": "openai-responses",
            "headers": {"a": "b"},
            "api_key": "k",
        },
        "openai": {},
    } == config.configured_providers()


@pytest.mark.usefixtures("real_providers")
def test_custom_provider_uses_its_key_variable(here, file, monkeypatch):
    """Where that variable is not set, it is named, and nobody is asked."""
    with Simulator(keys={"k1"}) as server:
        file(f"[providers.mine]\nbase_url = '{server.base_url}/v1'\nkey_env = 'MINE_KEY'\n")
        monkeypatch.delenv("MINE_KEY", raising=False)
        without = here("run", "Hi", "-m", "mine/gpt-oss-120b", "-q")
        monkeypatch.setenv("MINE_KEY", "k1")
        asked = here("run", "Hi", "-m", "mine/gpt-oss-120b", "-q")

        assert (3, 0) == (without.code, asked.code), asked.err
        assert "MINE_KEY" in without.err
        assert 1 == len(server.requests)


# --- config show -----------------------------------------------------------------------------------------


def test_show_names_the_source_of_each_setting(here, file, monkeypatch):
    path = file(
        LEVELS
        + "\n[providers.mine]\nbase_url = 'http://me:secret@localhost/?key=secret'\nheaders = {X-Key = 'secret'}\n"
    )
    monkeypatch.setenv("TENUTO_STORE", "postgresql://me:secret@localhost/x")
    monkeypatch.setenv("TENUTO_PROFILE", "other")
    done = here("config", "show")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]

    assert (0, "") == (done.code, done.err)
    assert [
        f"file {path}",
        "profile other (others: usual)",
        "",
        "KEY VALUE FROM",
        'model "sim/a-file" config.toml',
    ] == lines[:5]
    assert 'effort "high" profile other' in lines
    assert "tools [] profile other" in lines
    assert 'store "postgresql://localhost/x" TENUTO_STORE' in lines
    assert 'approve "ask" default' in lines
    assert 'providers.mine.base_url "http://localhost/" config.toml' in lines
    assert 'providers.mine.headers {"X-Key": "***"} config.toml' in lines
    assert "secret" not in done.out


def test_show_json_masks_secrets(here, file):
    path = file('options = {seed = 1, extra_headers = {X-Key = "secret"}}\n[profiles.work]\neffort = "low"\n')
    done = here("--profile", "work", "config", "show", "--json")
    shown = json.loads(done.out)

    assert (str(path), True, "work", ["work"], {}) == tuple(
        shown[name] for name in ("path", "exists", "profile", "profiles", "providers")
    )
    assert {"value": "low", "source": "profile", "where": "work"} == shown["settings"]["effort"]
    assert {"seed": 1, "extra_headers": {"X-Key": "***"}} == shown["settings"]["options"]["value"]
    assert {"value": 100, "source": "default", "where": None} == shown["settings"]["max_turns"]
    assert set(DEFAULTS) == set(shown["settings"])


@pytest.mark.parametrize(
    "text, shown",
    [
        ('modle = 1\neffort = "low"\n[profiles]\nx = 1\nwork = {effort = 1}\n', 'effort "low" config.toml'),
        ("model = [", "effort - default"),
    ],
    ids=["unknown", "broken"],
)
def test_show_reports_problems_and_prints_the_rest(here, file, text, shown):
    """It says everything that is wrong, and shows the rest."""
    path = file(text)
    done = here("config", "show")

    assert 2 == done.code
    assert all(line.startswith(f"error: {path}") for line in done.err.splitlines())
    assert len(done.err.splitlines()) == (3 if "modle" in text else 1)
    assert shown in [" ".join(line.split()) for line in done.out.splitlines()]


def test_show_reports_a_provider_without_base_url(here, file):
    file('[providers.mine]\nkey_env = "MINE"\n')
    done = here("config", "show")

    assert 2 == done.code
    assert "providers.mine is an unknown provider and has no base_url" in done.err


def test_show_computes_the_default_model(here, file, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = here("config", "show", "--json")

    assert json.loads(done.out)["settings"]["model"]["value"].startswith("anthropic/claude-")


# --- config set -------------------------------------------------------------------------------------------------------

SET = [
    ("model", ["sim/openai"], "sim/openai"),
    ("model", ["claude-sonnet-4-5:high"], "claude-sonnet-4-5:high"),
    ("system", ['Be brief. Say "no"\n\u202e'], 'Be brief. Say "no"\n\u202e'),
    ("effort", ["xhigh"], "xhigh"),
    ("max_tokens", ["5"], 5),
    ("fallback", ["sim/openai", "sim/gemini:low"], ["sim/openai", "sim/gemini:low"]),
    ("tools", ["shell"], ["shell"]),
    ("timeout", ["1.5"], 1.5),
    ("max_usd", ["2.5"], 2.5),
    ("hide_thinking", ["true"], True),
    ("usage", ["false"], False),
    ("options.temperature", ["0.2"], 0.2),
    ("options.stop", ['["END"]'], ["END"]),
    ("options.user", ["ada"], "ada"),
    ("options.seed", ["--", "-1"], -1),
    ("profiles.work.model", ["sim/openai"], "sim/openai"),
    ('profiles."a.b".options.seed', ["1"], 1),
    ("profiles.größer.effort", ["low"], "low"),
    ("providers.mine.base_url", ["http://localhost:8000/v1"], "http://localhost:8000/v1"),
    ("providers.mine.headers.X-Team", ["blue"], "blue"),
    ("providers.mine.key_env", ["MINE_KEY"], "MINE_KEY"),
    ("aliases.fast", ["sim/openai:low"], "sim/openai:low"),
]


@pytest.mark.parametrize("key, words, value", SET, ids=[key for key, *_ in SET])
def test_set_writes_a_private_file(here, file, tmp_path, key, words, value):
    """Also where there was no file and no folder; only its owner can read either."""
    done = here("config", "set", key, *words)
    path = tmp_path / "home" / "config.toml"
    held = tomllib.loads(path.read_text("utf-8"))
    for step in [step.strip('"') for step in key.replace("a.b", "a%b").split(".")]:
        held = held[step.replace("%", ".")]

    assert (0, "", f"{key} set in {path}\n") == done
    assert (value, type(value)) == (held, type(held))
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert 0o700 == stat.S_IMODE(path.parent.stat().st_mode)


REFUSED = [
    (["modle", "x"], "unknown setting 'modle': did you mean model?"),
    (["model"], "Missing argument 'VALUE...'"),
    (["model", "sim/openai", "x"], "model should be text, not a list; quote a value that has spaces"),
    (["model", "anthropc/x"], "unknown provider 'anthropc'; did you mean 'anthropic'"),
    (["model", "claude"], "'claude' is not a model name: use provider/model"),
    (["fallback", "sim/openai", "x/y"], "unknown provider 'x'"),
    (["effort", "hihg"], "did you mean high or xhigh?"),
    (["max_turns", "many"], "max_turns should be a whole number, 1 or more, not text"),
    (["hide_thinking", "maybe"], "hide_thinking should be true or false"),
    (["profile", "work"], "there is no [profiles.work]: none are defined; nothing was changed"),
    (["profiles.work", "x"], "profiles.work should be a table, [profiles.work], not text"),
    (["options", "{seed = 1}"], "options should be a table, [options], not text"),
    (["options.temprature", "1"], "unknown setting 'temprature' in options: did you mean temperature?"),
    (["model.a", "1"], "model should be text, not a table"),
    (["aliases.fast", "x/y"], "unknown provider 'x'"),
    (["providers.mine.api_key", "sk-1234"], "use tenuto keys set PROVIDER instead"),
    (["providers.mine.key_env", "sk-1234"], "should be the name of an environment variable, not text"),
    (["providers.a/b.base_url", "http://x"], "is not empty and has no slash"),
    (["system", "\udcff"], "the value is not UTF-8 text"),
]


@pytest.mark.parametrize("arguments, message", REFUSED, ids=[" ".join(map(ascii, given)) for given, _ in REFUSED])
def test_set_refuses_wrong_values(here, file, arguments, message):
    path = file("# mine\n")
    done = here("config", "set", *arguments)

    assert (2, "") == (done.code, done.out)
    assert message in done.err
    assert "sk-1234" not in done.err
    assert "Traceback" not in done.err
    assert "# mine\n" == path.read_text("utf-8")


def test_unset_repairs_a_wrong_file(here, file):
    """What is unknown can be taken out, one after the other; nothing else gets worse."""
    path = file('modle = "x" # slip\neffrt = 1\n# mine\n')

    assert 0 == here("config", "unset", "modle").code
    assert 0 == here("config", "unset", "effrt").code
    assert "# mine\n" == path.read_text("utf-8")


def test_unset_removes_a_whole_table(here, file):
    path = file("# a\n[profiles.work]\neffort = 'low'\n[profiles.work.options]\nseed = 1\n# b\n[profiles.home]\n")

    assert 0 == here("config", "unset", "profiles.work").code
    assert "# a\n[profiles.home]\n" == path.read_text("utf-8")


def test_unset_keeps_the_selected_profile(here, file):
    text = 'profile = "work"\n[profiles.work]\n'
    path = file(text)
    done = here("config", "unset", "profiles.work")

    assert 2 == done.code
    assert "profile names 'work', but there is no [profiles.work]" in done.err
    assert text == path.read_text("utf-8")


@pytest.mark.parametrize("text", ["\ufeffeffort = 'low'\n", "effort = 'low'\r\n"])
def test_set_refuses_files_that_tomlkit_would_change(here, file, text):
    path = file()
    path.write_bytes(text.encode())
    done = here("config", "set", "effort", "high")

    assert (2, True) == (done.code, "use tenuto config edit" in done.err)
    assert text.encode() == path.read_bytes()


@pytest.mark.parametrize("key", ["model", "a.b.c"])
def test_unset_refuses_a_key_that_is_not_set(here, file, key):
    file("# mine\n")
    done = here("config", "unset", key)

    assert (2, True) == (done.code, f"{key} is not set in" in done.err)


@pytest.mark.parametrize(
    "edited, code, expected", [("effort = 'low'\n", 0, "effort = 'low'\n"), ("modle = 1\n", 2, "# mine\n")]
)
def test_edit_saves_only_a_valid_file(here, file, monkeypatch, edited, code, expected):
    path = file("# mine\n")
    monkeypatch.setattr("click.edit", lambda *_, **__: edited)
    done = here("config", "edit", stdin="")

    assert (code, expected) == (done.code, path.read_text("utf-8"))


def test_set_leaves_a_broken_file_alone(here, file):
    path = file("model = [")
    done = here("config", "set", "model", "sim/openai")

    assert 2 == done.code
    assert "at line 1" in done.err
    assert "fix it in an editor" in done.err
    assert "model = [" == path.read_text("utf-8")


def test_set_names_an_overriding_variable(here, file, monkeypatch):
    monkeypatch.setenv("TENUTO_MODEL", "sim/openai")
    done = here("config", "set", "profiles.work.model", "sim/gemini")

    assert "note: TENUTO_MODEL is set in the environment and overrides it\n" in done.err


def test_set_follows_a_symbolic_link(here, file, tmp_path):
    """As those who keep all such files in one place have it."""
    path, real = file(), tmp_path / "dotfiles.toml"
    path.unlink()
    real.write_text("# mine\n", "utf-8")
    path.symlink_to(real)

    assert 0 == here("config", "set", "effort", "low").code
    assert path.is_symlink()
    assert '# mine\neffort = "low"\n' == real.read_text("utf-8")


def test_full_disk_leaves_the_file_unchanged(here, file, monkeypatch):
    """A full disk: nothing is half written, nothing is left behind."""
    path = file("# mine\n")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    done = here("config", "set", "effort", "low")

    assert 1 == done.code
    assert f"error: {path} cannot be written and is unchanged: No space left on device\n" in done.err
    assert 2 == len(done.err.splitlines())
    assert "# mine\n" == path.read_text("utf-8")
    assert {"config.toml", ".config.toml.lock"} == {one.name for one in path.parent.iterdir()}


def test_simultaneous_writers_lose_nothing(file):
    path = file("# mine\n")
    calls = [["config", "set", f"profiles.p{number}.effort", "low"] for number in range(8)]
    threads = [threading.Thread(target=main, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {f"p{number}" for number in range(8)} == set(tomllib.loads(path.read_text("utf-8"))["profiles"])


# --- as it is called --------------------------------------------------------------------------------------------------


def test_config_file_is_in_xdg_config_home(tenuto):
    """What is set holds for the next call; the file is where the platform has such files."""
    del tenuto.env["TENUTO_HOME"], tenuto.env["TENUTO_MODEL"]
    tenuto.env |= {"HOME": str(tenuto.folder), "XDG_CONFIG_HOME": str(tenuto.folder / "etc")}
    done = tenuto.run("config", "set", "model", "sim/openai")
    shown = tenuto.run("config", "show", "--json")

    assert (0, "") == (done.code, done.out)
    assert "sim/openai" == json.loads(shown.out)["settings"]["model"]["value"]
    assert 'model = "sim/openai"\n' == (tenuto.folder / "etc" / "tenuto" / "config.toml").read_text("utf-8")
