"""`tenuto sim` as a process, and its log."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

COMMAND = (str(Path(sys.executable).with_name("tenuto")), "sim", "--quiet")

Json = Any


class Exchange(msgspec.Struct, frozen=True):
    """A request and its response."""

    method: str
    path: str
    status: int
    refused: dict[str, Json] | None
    body: Json
    reply: str

    @property
    def messages(self) -> list[Json]:
        """The conversation in the request."""
        body = self.body if isinstance(self.body, dict) else {}
        return next((body[name] for name in ("messages", "input", "contents") if name in body), [])

    @property
    def frames(self) -> list[Json]:
        """The JSON documents of the response, without items of the Responses API that are not complete."""
        lines = [line[6:] for line in self.reply.splitlines() if line.startswith("data: {")]
        frames = [json.loads(line) for line in lines or [self.reply]]
        return [frame for frame in frames if frame.get("type") != "response.output_item.added"]

    def __str__(self) -> str:
        refused = self.refused or {}
        return f"{self.method} {self.path}: {self.status} {refused.get('rule', '')} {refused.get('message', '')}"


class Simulation:
    """A running simulator."""

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def log(self) -> bytes:
        """The log as JSON."""
        with urllib.request.urlopen(f"{self.url}/_sim/log", timeout=30) as response:
            return bytes(response.read())

    @property
    def exchanges(self) -> list[Exchange]:
        """The log, oldest first."""
        return msgspec.convert(json.loads(self.log)["exchanges"], list[Exchange])


@contextmanager
def start_simulation(scripts: list[Json], directory: Path) -> Iterator[Simulation]:
    """Run `tenuto sim`, with scripts if there are any; its other output is a file in `directory`."""
    script = directory / "script.json"
    script.write_text(json.dumps(scripts))
    command = (*COMMAND, "--script", str(script)) if scripts else COMMAND
    with (directory / "sim.stderr").open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if "http://" not in line:
            raise RuntimeError(f"tenuto sim did not start: {(directory / 'sim.stderr').read_text()}")
        yield Simulation(line.split()[-1])
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
