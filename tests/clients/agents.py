"""The interface of a client that is an agent: its configuration, its command line and its answer."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from clients.checks import ScenarioError
from clients.packages import Package
from clients.simulation import Simulation

Json = Any
TIMEOUT = 90
NO_NETWORK = {
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
}
"""A proxy that does not exist: clients reach this machine only."""


class AgentClient:
    """A client in one configuration."""

    package: ClassVar[str]
    pinned: ClassVar[str]
    program: ClassVar[str]

    def __init__(self, variant: str, model: str) -> None:
        self.variant = variant
        self.model = model

    def expected_refusals(self, scenario: str) -> frozenset[str]:
        """Return the refusals that the real provider would return, too: ids of rules, and status codes of other
        refusals.
        """
        return frozenset()

    def configure(self, home: Path, url: str) -> dict[str, str]:
        """Write the configuration files; return the environment."""
        raise NotImplementedError

    def arguments(self, prompt: str, *, resume: bool) -> list[str]:
        raise NotImplementedError

    def read_answer(self, stdout: str) -> str:
        """Return the final text. Raise `ScenarioError` if the output contains an error."""
        raise NotImplementedError

    def shell_calls(self, *commands: str) -> list[Json]:
        """Return the steps of a script that run commands in parallel."""
        raise NotImplementedError

    @property
    def summary_prompt(self) -> str:
        """A text that only the client's request for a summary contains; empty: the provider compacts."""
        return ""

    def compact(self, session: Session) -> None:
        """Compact the session, or make the client do it in its next process."""
        raise NotImplementedError


class Session:
    """A client in a temporary home and working directory, with its simulator."""

    def __init__(self, client: AgentClient, package: Package, root: Path, simulation: Simulation) -> None:
        self.client = client
        self.simulation = simulation
        self.work = root / "work"
        self.home = root / "home"
        for directory in (self.work, self.home):
            directory.mkdir(exist_ok=True)
        self._program = package.root / "node_modules" / ".bin" / client.program
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            **NO_NETWORK,
            **client.configure(self.home, simulation.url),
        }

    def ask(self, prompt: str, *, resume: bool = False) -> str:
        """Run the client with a prompt and return the final text."""
        return self.client.read_answer(self.run(*self.client.arguments(prompt, resume=resume)))

    def run(self, *arguments: str) -> str:
        """Run the client and return its output. Raise `ScenarioError` if it fails or does not end in time."""
        with subprocess.Popen(
            (str(self._program), *arguments), cwd=self.work, env=self._environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            try:
                stdout, stderr = process.communicate(timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                raise ScenarioError(f"no answer after {TIMEOUT} s") from None
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode:
            raise ScenarioError(f"exit code {process.returncode}: {(stderr or stdout).strip()[-400:]}")
        return stdout
