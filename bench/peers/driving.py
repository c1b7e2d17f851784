"""Drivers as processes: orders go in, figures come out."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from bench.peers.environments import FOLDER, ROOT, environment


class Failed(Exception):
    """A peer could not do what it was asked to."""


class Driver:
    """A peer's driver, in that peer's environment."""

    def __init__(self, name: str, python: Path, port: int) -> None:
        self.errors = FOLDER / f"{name}.log"
        command = [str(python), "-m", f"bench.peers.{name.replace('-', '_')}", str(port)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with self.errors.open("w") as errors:  # the process keeps it open
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment(), stderr=errors, **pipes)

    def ask(self, act: str, **order: object) -> dict:
        """Have it do something; what it cannot do is `Failed`, with its own words."""
        try:
            self.process.stdin.write(json.dumps({"act": act, **order}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed(self._last()) from None
        line = self.process.stdout.readline()
        if not line:
            raise Failed(self._last())
        figures = json.loads(line)
        if "failed" in figures:
            raise Failed(figures["failed"])
        return figures

    def _last(self) -> str:
        said = self.errors.read_text(errors="replace").strip().splitlines()
        return ("it ended: " + (said or ["without a word"])[-1])[:300]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@contextmanager
def server():
    """The server of the benchmark; gives its port."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.server", folder]
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            yield int(process.stdout.readline().split()[0])
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
