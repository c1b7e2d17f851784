"""`tenuto sim`: the simulator as a server."""

from __future__ import annotations

import json
import signal
import socket
import urllib.request


def test_sim_serves_until_ctrl_c(tenuto, tmp_path):
    (tmp_path / "script.json").write_text('{"turns": [[{"do": "say", "text": "scripted"}]]}')
    terminal = tenuto.terminal("sim", "--script", "script.json")
    url = terminal.expect(r"listening at (\S+)\r").partition("listening at ")[2].split()[0]
    terminal.expect("Press Ctrl-C to stop")
    asked = {"model": "claude-opus-4-6", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
    with urllib.request.urlopen(f"{url}/v1/messages", json.dumps(asked).encode()) as response:
        said = json.load(response)["content"][0]["text"]
    terminal.type("\x03")
    code, screen = terminal.end()

    assert (0, "scripted") == (code, said)
    assert f"export TENUTO_SIM_URL={url}\n" in screen
    assert "POST /v1/messages anthropic claude-opus-4-6 200" in screen


def test_sim_serves_on_a_port_quietly(here, tenuto, monkeypatch):
    """A port in use is an error."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = str(held.getsockname()[1])
        refused = here("sim", "--port", port)
    process = tenuto.start("sim", "--quiet", "--port", port)
    first = process.stdout.readline()
    urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models").close()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=20)

    assert first == f"tenuto.sim is listening at http://127.0.0.1:{port}\n"
    assert (0, "") == (process.returncode, errors)
    assert (2, "") == refused[:2]
    assert f"error: port {port} cannot be used: " in refused.err
    monkeypatch.setenv("TENUTO_SIM_PACE", "soon")
    assert "invalid pause 'soon'" in here("sim").err


def test_sim_rules_equal_the_documentation(here):
    from tenuto.rules.page import rules_page

    assert (0, rules_page(), "") == here("sim", "--rules")
