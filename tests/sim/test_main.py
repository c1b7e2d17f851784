"""`python -m tenuto.sim`, as a user starts, asks and ends it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from tenuto import AsyncClient, Client
from tenuto.errors import LLMError
from tenuto.events import ContentDelta, TextDelta
from tenuto.sim.__main__ import main


@pytest.fixture
def start(monkeypatch):
    """Start the command, and return it with its address once it listens."""
    for name in ("TENUTO_SIM_PACE", "TENUTO_SIM_SEED", "TENUTO_SIM_SCRIPT"):
        monkeypatch.delenv(name, raising=False)
    running = []

    def started(*arguments: str) -> tuple[subprocess.Popen, str, list[str]]:
        command = [sys.executable, "-m", "tenuto.sim", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        running.append(process)
        lines = []
        while not lines or "Ctrl-C" not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1], process.stderr.read()
        return process, re.search(r"http://\S+", lines[0])[0], lines

    yield started
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def ended(process: subprocess.Popen, by: signal.Signals = signal.SIGINT) -> tuple[int, str]:
    process.send_signal(by)
    _, errors = process.communicate(timeout=20)
    return process.returncode, errors


def ask(url: str, model: str = "claude-opus-4-6") -> dict:
    body = {"model": model, "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
    with urllib.request.urlopen(f"{url}/v1/messages", json.dumps(body).encode()) as response:
        return json.load(response)


def test_it_serves_until_ctrl_c_and_says_what_it_did(start, tmp_path):
    script = tmp_path / "script.json"
    script.write_text('{"turns": [[{"do": "say", "text": "scripted"}]]}')
    process, url, lines = start("--script", str(script))
    text = ask(url)["content"][0]["text"]
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(url, "gpt-4")
    caught.value.close()
    code, errors = ended(process)

    assert text == "scripted"
    assert {line.partition("=")[0].strip() for line in lines if line.startswith("export")} == {
        *("export TENUTO_SIM_URL", "export ANTHROPIC_BASE_URL", "export OPENAI_BASE_URL"),
        "export GOOGLE_GEMINI_BASE_URL",
    }
    assert code == 0
    first, second = errors.splitlines()
    assert first == "POST /v1/messages anthropic claude-opus-4-6 200"
    assert second.startswith("POST /v1/messages anthropic gpt-4 404 ANT-PARAM-15")


def test_quiet_is_quiet_and_the_port_is_the_one_that_was_asked_for(start):
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    process, url, _ = start("--quiet", "--port", str(port), "--seed", "x", "--pace", "1ms", "--burst", "4")
    urllib.request.urlopen(f"{url}/v1/models").close()

    assert url == f"http://127.0.0.1:{port}"
    assert ended(process, signal.SIGTERM) == (0, "")


def test_it_serves_on_when_nobody_reads_what_it_says(start):
    process, url, _ = start()
    process.stderr.close()
    for _ in range(3):
        urllib.request.urlopen(f"{url}/v1/models").close()
    process.send_signal(signal.SIGINT)

    assert process.wait(timeout=20) == 0
    process.stderr = None  # there is nothing left to be read


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--port", "99999999"], "not 99999999"), (["--script", __file__], "test_main.py: invalid script")],
)
def test_invalid_option_is_an_error(arguments, message, capsys):
    """`tenuto sim` has the same options: tests/cli/test_refusals.py."""
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


# --- many streams, and a killed process -------------------------------------------------------------------------------

STREAMS = 500
STYLES = ("anthropic", "openai", "chat", "gemini")


def script_of(tmp_path, turns) -> tuple[str, str]:
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"turns": turns}))
    return "--script", str(path)


def test_five_hundred_streams_at_once_come_whole(start, tmp_path):
    words = [f"word {at} " for at in range(20)]

    async def read(ai, model):
        async with ai.stream(f"sim/{model}", "Hi") as stream:
            said = [
                event.delta.text
                async for event in stream
                if isinstance(event, ContentDelta) and isinstance(event.delta, TextDelta)
            ]
        return [piece for piece in said if piece] == words and stream.reply.text == "".join(words)

    async def main(url):
        async with AsyncClient(providers={"sim": {"base_url": url}}, middleware=[]) as ai:
            return await asyncio.gather(*(read(ai, STYLES[at % len(STYLES)]) for at in range(STREAMS)))

    _, url, _ = start("--quiet", *script_of(tmp_path, [[{"do": "say", "text": words}]]))
    assert asyncio.run(main(url)) == [True] * STREAMS


def test_it_may_die_in_mid_run_and_another_goes_on(start, tmp_path):
    """The second process has never seen the first one's signatures, and takes them."""
    later = [{"do": "think", "text": "Hm again."}, {"do": "say", "text": ["Two", "."] * 50}]
    script = script_of(tmp_path, [[{"do": "think", "text": "Hm."}, {"do": "say", "text": "One."}], later])
    _, url, _ = start("--quiet", *script)
    with Client(providers={"sim": {"base_url": url}}) as ai:
        first = {style: ai.chat(f"sim/{style}", "Count.").transcript for style in STYLES}
    process, url, _ = start("--quiet", "--pace", "5ms", *script)
    with (
        Client(providers={"sim": {"base_url": url}}, middleware=[]) as ai,
        pytest.raises(LLMError),
        ai.stream("sim/anthropic", first["anthropic"] + "And?") as stream,
    ):
        for event in stream:
            if isinstance(event, ContentDelta) and isinstance(event.delta, TextDelta):
                process.kill()
    _, url, _ = start("--quiet", *script)
    with Client(providers={"sim": {"base_url": url}}) as ai:
        for style, said in first.items():
            assert ai.chat(f"sim/{style}", said + "And?").text == "Two." * 50
