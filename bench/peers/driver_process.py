"""Run drivers as processes: send orders, receive figures."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from bench.peers.environments import DIRECTORY, ROOT, make_variables


class DriverError(Exception):
    """Raised if a library fails at an order."""


class Driver:
    """The driver of a library, in its environment."""

    def __init__(self, name: str, python: Path, port: int) -> None:
        self.errors = DIRECTORY / f"{name}.log"
        command = [str(python), "-m", f"bench.peers.{name.replace('-', '_')}", str(port)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with self.errors.open("w") as errors:  # the process keeps it open
            self.process = subprocess.Popen(command, cwd=ROOT, env=make_variables(), stderr=errors, **pipes)

    def run(self, action: str, **order: object) -> dict:
        """Send an order and return its figures; raise `DriverError` with the message of the library."""
        try:
            self.process.stdin.write(json.dumps({"action": action, **order}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise DriverError(self._last_error()) from None
        line = self.process.stdout.readline()
        if not line:
            raise DriverError(self._last_error())
        figures = json.loads(line)
        if "failed" in figures:
            raise DriverError(figures["failed"])
        return figures

    def _last_error(self) -> str:
        lines = self.errors.read_text(errors="replace").strip().splitlines()
        return ("it exited: " + (lines or ["no message"])[-1])[:300]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@contextmanager
def start_server():
    """Run the server of the benchmark; yield its port."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "bench.server", directory]
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            yield int(process.stdout.readline().split()[0])
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
