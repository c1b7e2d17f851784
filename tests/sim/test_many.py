"""Five hundred streams at once from one process; a process that is killed in mid-run, and another that goes on."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tenuto import AsyncClient, Client
from tenuto.errors import LLMError
from tenuto.events import ContentDelta, TextDelta

STREAMS = 500
STYLES = ("anthropic", "openai", "chat", "gemini")


@contextmanager
def process(tmp_path, script, *options):
    """Run the command; yield its address and the process."""
    path = tmp_path / "script.json"
    path.write_text(json.dumps(script))
    command = [sys.executable, "-m", "tenuto.sim", "--port", "0", "--script", str(path), "--quiet", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            line = next(line for line in running.stdout if "http://" in line)
            yield f"http://{line.split('http://')[1].split()[0].rstrip('/')}", running
        finally:
            running.kill()


def test_five_hundred_streams_at_once_come_whole(tmp_path):
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

    with process(tmp_path, {"turns": [[{"do": "say", "text": words}]]}) as (url, _):
        assert asyncio.run(main(url)) == [True] * STREAMS


def test_it_may_die_in_mid_run_and_another_goes_on(tmp_path):
    """The second process has never seen the first one's signatures, and takes them."""
    script = {
        "turns": [
            [{"do": "think", "text": "Hm."}, {"do": "say", "text": "One."}],
            [{"do": "think", "text": "Hm again."}, {"do": "say", "text": ["Two", "."] * 50}],
        ]
    }  # fmt: skip
    with process(tmp_path, script) as (url, _), Client(providers={"sim": {"base_url": url}}) as ai:
        first = {style: ai.chat(f"sim/{style}", "Count.").transcript for style in STYLES}
    with (
        process(tmp_path, script, "--pace", "5ms") as (url, running),
        Client(providers={"sim": {"base_url": url}}, middleware=[]) as ai,
        pytest.raises(LLMError),
        ai.stream("sim/anthropic", first["anthropic"] + "And?") as stream,
    ):
        for event in stream:
            if isinstance(event, ContentDelta) and isinstance(event.delta, TextDelta):
                running.kill()
    with process(tmp_path, script) as (url, _), Client(providers={"sim": {"base_url": url}}) as ai:
        for style, said in first.items():
            assert ai.chat(f"sim/{style}", said + "And?").text == "Two." * 50
