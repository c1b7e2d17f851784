"""Run the simulator in a separate process that survives the kills, and record its requests by experiment."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tenuto.sim.engine import RawRequest, RawResponse
from tenuto.sim.log import ExchangeRecord
from tenuto.sim.script import Script
from tenuto.sim.simulator import Simulator

TAG = "x-experiment"
"""The header with the name of the experiment, which the simulator ignores."""


class Exchange(NamedTuple):
    """One exchange: the digest of the request body, both bodies as text, the refusal, and the rules that were checked."""

    digest: str
    status: int
    request: str
    response: str
    refused: str
    rules_checked: list[str]


class SimulatorProcess(NamedTuple):
    """The URL of the simulator and the directory of its records."""

    url: str
    directory: Path

    def exchanges(self, tag: str) -> list[Exchange]:
        """Return the exchanges of an experiment in order."""
        path = self.directory / tag
        return [Exchange(*json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []

    def forget(self, tag: str) -> None:
        """Remove the exchanges of an experiment."""
        (self.directory / tag).unlink(missing_ok=True)


@contextlib.contextmanager
def run_simulator(base: Path, scripts: Sequence[Script]) -> Iterator[SimulatorProcess]:
    """Run the simulator in a fork until the block or this process ends."""
    directory = base / "heard"
    directory.mkdir(exist_ok=True)
    read_end, write_end = os.pipe()
    parent_ended, keep_alive = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(read_end)
        os.close(keep_alive)
        with contextlib.ExitStack() as ends:
            ends.callback(os._exit, 1)
            asyncio.run(_serve(scripts, directory, write_end, parent_ended))
    os.close(write_end)
    os.close(parent_ended)
    try:
        with os.fdopen(read_end) as line:
            url = line.readline().strip()
        if not url:
            raise RuntimeError("the simulator did not start")
        yield SimulatorProcess(url, directory)
    finally:
        os.close(keep_alive)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


async def _serve(scripts: Sequence[Script], directory: Path, write_end: int, parent_ended: int) -> None:
    simulator = Simulator(script=scripts)
    _record_exchanges(simulator, directory)
    async with simulator:
        os.write(write_end, simulator.base_url.encode() + b"\n")
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_reader(parent_ended, stopped.set)  # the parent has exited
        await stopped.wait()


def _record_exchanges(simulator: Simulator, directory: Path) -> None:
    """Write each exchange to the file of its experiment before the response is sent."""
    engine = simulator._engine
    real = engine.answer
    written: list[ExchangeRecord] = []
    simulator.on_exchange = written.append

    def answer(call: RawRequest) -> RawResponse:
        done = real(call)
        record = written.pop()
        body = call.body or b""
        refused = "" if record.refused is None else str(record.refused)
        rules_checked = [] if record.judgement is None else sorted(record.judgement.exercised)
        exchanges = Exchange(
            sha256(body).hexdigest(), record.status, body.decode(), record.reply, refused, rules_checked
        )
        file = os.open(directory / call.headers.get(TAG, "other"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, json.dumps(exchanges).encode() + b"\n")
        os.close(file)
        return done

    engine.answer = answer
