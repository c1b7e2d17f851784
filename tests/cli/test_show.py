"""Looking around: providers, tools, and the simulator as a server."""

from __future__ import annotations

import json
import signal
import socket
import urllib.request

import pytest

from tenuto.catalog import PROVIDERS
from tenuto.tools.builtin import BUILTIN

ROWS = {name: row for name, row in PROVIDERS.items() if name == row.name}
SECRET = "sk-not-to-be-seen-anywhere"


@pytest.fixture
def keyless(tmp_path):
    """The directory of the settings."""
    home = tmp_path / "home"
    home.mkdir()
    return home


def lines_of(out):
    """A table by the first word of each line."""
    return {line.split()[0]: line for line in out.splitlines()[1:]}


# --- providers --------------------------------------------------------------------------------------------------------


def test_providers_lists_dialect_and_key_variable(here, keyless):
    done = here("providers")
    lines = lines_of(done.out)

    assert (0, "") == (done.code, done.err)
    assert list(lines) == list(ROWS)
    assert lines["anthropic"].split()[1:3] == ["anthropic-messages", "anthropic/claude-sonnet-5-5"]
    assert lines["anthropic"].endswith("missing: set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN")
    assert lines["ollama"].endswith("not needed")
    assert lines["github"].endswith("retired 2026-07-30")


def test_providers_names_the_source_of_a_key(here, keyless, monkeypatch):
    """From a variable, from the file, from the variable of a server of one's own."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("MINE", SECRET)
    keys = keyless / "keys.json"
    keys.write_text(json.dumps({"groq": SECRET}))
    keys.chmod(0o600)
    (keyless / "config.toml").write_text(
        '[providers.mine]\nbase_url = "http://127.0.0.1:9/v1"\nkey_env = "MINE"\n'
        '[providers.other]\nbase_url = "http://127.0.0.1:9/v1"\ndialect = "anthropic-messages"\n'
    )
    table, document = here("providers"), here("providers", "--json")
    lines = lines_of(table.out)

    assert lines["openai"].endswith("set in OPENAI_API_KEY")
    assert lines["groq"].endswith("saved in keys.json")
    assert lines["mine"].split()[1:] == ["(yours)", "openai-chat", "-", "set", "in", "MINE"]
    assert lines["other"].split()[1:] == ["(yours)", "anthropic-messages", "-", "not", "needed"]
    assert {"name": "groq", "state": "kept", "where": "keys.json"} in [
        {"name": one["name"], "state": one["key"]["state"], "where": one["key"]["where"]}
        for one in json.loads(document.out)
    ]
    assert SECRET not in f"{table}{document}"


def test_providers_are_found_by_name_alias_and_variable(here, keyless):
    assert ["vertex"] == list(lines_of(here("providers", "vertex_ai").out))
    assert ["groq"] == list(lines_of(here("providers", "GROQ_API_KEY").out))


def test_unknown_provider_is_code_1(here, keyless):
    done = here("providers", "antropic")

    assert (1, "") == (done.code, done.out)
    assert "no matching provider 'antropic': did you mean anthropic?" in done.err


# --- tools ------------------------------------------------------------------------------------------------------------


def test_tools_lists_builtin_tools(here):
    done = here("tools")
    lines = lines_of(done.out)

    assert (0, "") == (done.code, done.err)
    assert list(lines) == list(BUILTIN)
    assert lines["shell"].startswith("shell         yes             no                 Run a shell command")
    assert lines["read_file"].startswith("read_file     no              yes                Read a text file")


def test_tools_prints_a_definition(here):
    done = here("tools", "write_file")

    assert 0 == done.code
    assert "  needs approval: yes; retry after crash: yes; timeout 60 s\n" in done.out
    assert '"required": [' in done.out


def test_tools_prints_a_user_tool_without_calling_it(here, tmp_path):
    (tmp_path / "my_looking_tools.py").write_text(
        "from tenuto import tool\nprint('loaded')\n"
        "@tool(effect='pure', approval=lambda city: city == 'Oslo')\n"
        "def weather(city: str) -> str:\n"
        '    """The weather in a \\x1b[31mcity."""\n'
        "    raise SystemExit('it was called')\n"
    )
    [told] = json.loads(here("tools", "my_looking_tools:weather", "--json").out)
    page = here("tools", "my_looking_tools:weather")

    assert (told["name"], told["effect"], told["approval"]) == ("weather", "pure", "depends")
    assert told["parameters"]["required"] == ["city"]
    assert "The weather in a \\x1b[31mcity." in page.out
    assert "approval: depends on the call" in page.out


# --- the simulator ----------------------------------------------------------------------------------------------------


def test_sim_serves_until_ctrl_c(tenuto, tmp_path):
    """It ends as it should: nobody did anything wrong."""
    (tmp_path / "script.json").write_text('{"turns": [[{"do": "say", "text": "scripted"}]]}')
    terminal = tenuto.terminal("sim", "--script", "script.json")
    url = terminal.expect(r"listening at (\S+)\r").partition("listening at ")[2].split()[0]
    terminal.expect("Press Ctrl-C to stop")
    asked = {"model": "claude-opus-4-6", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
    with urllib.request.urlopen(f"{url}/v1/messages", json.dumps(asked).encode()) as response:
        said = json.load(response)["content"][0]["text"]
    terminal.type("\x03")
    code, screen = terminal.end()

    assert said == "scripted"
    assert 0 == code
    assert f"export TENUTO_SIM_URL={url}\n" in screen
    assert "POST /v1/messages anthropic claude-opus-4-6 200" in screen


def test_sim_serves_on_a_port_quietly(tenuto):
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    process = tenuto.start("sim", "--quiet", "--port", str(port))
    first = process.stdout.readline()
    urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models").close()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=20)

    assert first == f"tenuto.sim is listening at http://127.0.0.1:{port}\n"
    assert (0, "") == (process.returncode, errors)


def test_sim_port_in_use_is_code_2(here):
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        done = here("sim", "--port", str(port))

    assert (2, "") == (done.code, done.out)
    assert f"error: port {port} cannot be used: " in done.err
    assert len(done.err.splitlines()) == 2


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([], "invalid pause 'soon'"),
        (["--pace", "late"], "invalid pause 'late'"),
        (["--pace", "1ms", "--script", "nowhere.json"], "nowhere.json: No such file"),
        (["--port", "99999"], "99999 is not in the range"),
        (["--burst", "0"], "0 is not in the range"),
    ],
)
def test_unusable_sim_options_are_code_2(here, monkeypatch, arguments, said):
    monkeypatch.setenv("TENUTO_SIM_PACE", "soon")
    done = here("sim", *arguments)

    assert 2 == done.code
    assert said in done.err


def test_sim_rules_equal_the_documentation(here):
    from tenuto.rules.page import rules_page

    assert (0, rules_page(), "") == here("sim", "--rules")
