"""Run the orders of the benchmark with one library. Runs in its environment and imports only the standard library.

    python -m bench.peers.NAME PORT

A line of input is an order as JSON, `{"action", "dialect", "shape", "kind", "repeat", "warm"}`; a line of output has its
figures. A driver has a class for each dialect that implements `Peer`, and, for libraries that store sessions, a function
`open_session`. CPU is that of all threads of this process, the lowest of the repetitions; a loop of `json.loads` is timed
with each measurement, as a calibration.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

PROMPT = "hi"
REQUESTS = 20
APPENDS = 20
TURNS = 5
MAX_SECONDS = 0.5
"""Seconds after which no further append starts: some are slow in a long session."""
MESSAGE = ("A session is a list of messages, and each of them has its own text. " * 60)[:4_000]
"""The messages of a session: 4 KB each."""
CONCURRENT = 200
_EVENT = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "the quick brown fox"}}
_BYTES = json.dumps(_EVENT).encode()

TOOL = {
    "name": "look",
    "description": "Look.",
    "parameters": {"type": "object", "properties": {}, "additionalProperties": True},
}


class Peer(Protocol):
    """A client of one library for one dialect and URL."""

    async def count_events(self) -> int:
        """Read a stream to its end; return the number of events."""

    async def read_content(self) -> tuple[str, str]:
        """Read a stream; return the text and the arguments of the calls."""

    async def request_once(self) -> str:
        """Send a request without streaming; return the text."""


Append = Callable[[], Awaitable[None]]
OpenSession = Callable[[Path, int], Awaitable[Append]]
Peers = dict[str, Callable[[str], Peer]]
"""For each dialect, a function that makes a client from the base URL without the version."""


def calibrate() -> float:
    """Return the CPU seconds of a fixed loop, as `bench.results.calibrate` does, without its imports."""
    loads = json.loads
    runs = []
    for _ in range(5):
        start = time.process_time()
        for _ in range(1_000):
            loads(_BYTES)
        runs.append(time.process_time() - start)
    return min(runs)


def peak_memory() -> float:
    """Return the peak resident memory of this process in MB."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def _cpu(function: Callable[[], Awaitable[object]]) -> tuple[float, object]:
    gc.collect()
    start = time.process_time()
    result = await function()
    return time.process_time() - start, result


class Worker:
    """Execute orders; each client is created once."""

    def __init__(self, peers: Peers, open_session: OpenSession | None, port: int, directory: Path) -> None:
        self._peers = peers
        self._open_session = open_session
        self._port = port
        self._directory = directory
        self._append_functions: dict[int, Append] = {}
        self._cache: dict[tuple[str, str, str], Peer] = {}

    def _get_peer(self, order: dict) -> Peer:
        key = (order["dialect"], order["shape"], order["kind"])
        if key not in self._cache:
            self._cache[key] = self._peers[key[0]](f"http://127.0.0.1:{self._port}/{key[1]}/{key[2]}")
        return self._cache[key]

    async def check(self, order: dict) -> dict:
        """Read a stream once; return its content and number of events."""
        peer = self._get_peer(order)
        text, arguments = await peer.read_content()
        return {"text": text, "arguments": arguments, "events": await peer.count_events(), "resident": peak_memory()}

    async def measure_stream(self, order: dict) -> dict:
        """Read a stream `repeat` times."""
        peer = self._get_peer(order)
        if order["warm"]:  # other libraries ran since the last turn, which affects a fast one more than a slow one
            await peer.count_events()
        calibrations = [calibrate()]
        runs = [await _cpu(peer.count_events) for _ in range(order["repeat"])]
        calibrations.append(calibrate())
        return {
            "cpu": min(cpu for cpu, _ in runs),
            "events": [count for _, count in runs],
            "calibration": min(calibrations),
        }

    async def request_once(self, order: dict) -> dict:
        """Send requests without streaming; return the CPU of one."""
        peer = self._get_peer(order)
        text = await peer.request_once()

        async def run_many() -> bool:
            return all([await peer.request_once() == text for _ in range(REQUESTS)])

        calibrations = [calibrate()]
        runs = [await _cpu(run_many) for _ in range(order["repeat"])]
        calibrations.append(calibrate())
        if not all(is_same for _, is_same in runs):
            raise ValueError("the text differs")
        return {"cpu": min(cpu for cpu, _ in runs) / REQUESTS, "text": text, "calibration": min(calibrations)}

    async def read_concurrent(self, order: dict) -> dict:
        """Read one stream, then many concurrent ones; return CPU and peak memory. Needs a new process."""
        peer = self._get_peer(order)
        events = await peer.count_events()
        memory_before, calibration = peak_memory(), calibrate()

        async def run_many() -> list[int]:
            return await asyncio.gather(*(peer.count_events() for _ in range(CONCURRENT)))

        cpu, counts = await _cpu(run_many)
        if set(counts) != {events}:
            raise ValueError(f"{events} events in one stream, {sorted(set(counts))} in concurrent streams")
        calibration = min(calibration, calibrate())
        return {
            "cpu": cpu,
            "events": counts,
            "before": memory_before,
            "peak": peak_memory(),
            "calibration": calibration,
        }

    async def append(self, order: dict) -> dict:
        """Append messages one by one to a session of `count`; return the mean of one append."""
        count = order["count"]
        if count not in self._append_functions:
            self._append_functions[count] = await self._open_session(self._directory, count)
            await self._append_functions[count]()
        append_message = self._append_functions[count]

        async def run_many() -> int:
            deadline = time.perf_counter() + MAX_SECONDS
            appends = 0
            while appends < APPENDS and time.perf_counter() < deadline:
                await append_message()
                appends += 1
            return appends

        calibration = calibrate()
        start = time.perf_counter()
        cpu, appends = await _cpu(run_many)
        wall = time.perf_counter() - start
        return {"cpu": cpu / appends, "wall": wall / appends, "calibration": min(calibration, calibrate())}


async def _serve(worker: Worker, output: int) -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        (result,) = await asyncio.gather(getattr(worker, order["action"])(order), return_exceptions=True)
        if isinstance(result, BaseException):  # any error is reported in the row of this library
            result = {"failed": f"{type(result).__name__}: {result}"[:300]}
        os.write(output, json.dumps(result).encode() + b"\n")


def main(peers: Peers, open_session: OpenSession | None = None) -> None:
    """Serve orders until the input ends. Text printed by a library goes to stderr."""
    output = os.dup(1)
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(_serve(Worker(peers, open_session, int(sys.argv[1]), Path(directory)), output))
