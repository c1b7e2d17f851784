"""What every driver shares: it is run in a peer's own environment, and so stands on the standard library alone.

    python -m bench.peers.NAME PORT

A line of input is one order as JSON, `{"act", "dialect", "shape", "kind", "repeat", "warm"}`; a line of output is its figures.
A driver is a class for each dialect, with `read` (read a stream to its end, count what is delivered), `said` (the same,
and give back the text and the arguments of the calls) and `once` (a request without a stream; give back the text).
What keeps sessions has `keep` (make a session of so many messages in a folder; give back what saves one more).
CPU is that of this process, all threads, the least of the repetitions; a loop of `json.loads` is timed beside each, so
that the machine's mood is seen.
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

QUESTION = "hi"
REQUESTS = 20
SAVES = 20
TURNS = 5
LONGEST = 0.5
"""Seconds after which no further save is begun: some take long in a long session."""
MESSAGE = ("It keeps what was said, every entry in its place; nothing is lost. " * 60)[:4_000]
"""What a session is made of: 4 KB."""
CROWD = 200
_EVENT = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "the quick brown fox"}}
_BYTES = json.dumps(_EVENT).encode()

TOOL = {
    "name": "look",
    "description": "Look.",
    "parameters": {"type": "object", "properties": {}, "additionalProperties": True},
}


class Peer(Protocol):
    """One way to ask one server; made anew for each address."""

    async def read(self) -> int: ...
    async def said(self) -> tuple[str, str]: ...
    async def once(self) -> str: ...


Save = Callable[[], Awaitable[None]]
Keep = Callable[[Path, int], Awaitable[Save]]
Peers = dict[str, Callable[[str], Peer]]
"""For each dialect, what makes a peer of an address: that of the shape and the kind, without a version."""


def calibration() -> float:
    """CPU seconds of a fixed loop, the least of five: the same as `bench.results.calibration`, without its imports."""
    loads = json.loads
    found = []
    for _ in range(5):
        start = time.process_time()
        for _ in range(1_000):
            loads(_BYTES)
        found.append(time.process_time() - start)
    return min(found)


def resident() -> float:
    """The most memory that this process ever had, in MB."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def _cpu(act: Callable[[], Awaitable[object]]) -> tuple[float, object]:
    gc.collect()
    start = time.process_time()
    given = await act()
    return time.process_time() - start, given


class Worker:
    """Carries out orders; a peer is made once for each address, and kept."""

    def __init__(self, peers: Peers, keep: Keep | None, port: int, folder: Path) -> None:
        self._peers = peers
        self._keep = keep
        self._port = port
        self._folder = folder
        self._saves: dict[int, Save] = {}
        self._made: dict[tuple[str, str, str], Peer] = {}

    def _peer(self, order: dict) -> Peer:
        key = (order["dialect"], order["shape"], order["kind"])
        if key not in self._made:
            self._made[key] = self._peers[key[0]](f"http://127.0.0.1:{self._port}/{key[1]}/{key[2]}")
        return self._made[key]

    async def check(self, order: dict) -> dict:
        """Read once, so that everything is loaded; say what came."""
        peer = self._peer(order)
        text, arguments = await peer.said()
        return {"text": text, "arguments": arguments, "events": await peer.read(), "resident": resident()}

    async def stream(self, order: dict) -> dict:
        """Read a stream so many times; every time, as many events are to come."""
        peer = self._peer(order)
        if order["warm"]:  # others ran since the last turn: who is quick would else pay more for it than who is slow
            await peer.read()
        beside = [calibration()]
        found = [await _cpu(peer.read) for _ in range(order["repeat"])]
        beside.append(calibration())
        return {"cpu": min(cpu for cpu, _ in found), "events": [count for _, count in found], "beside": min(beside)}

    async def once(self, order: dict) -> dict:
        """Ask so many times without a stream; the figure is for one."""
        peer = self._peer(order)
        text = await peer.once()

        async def many() -> bool:
            return all([await peer.once() == text for _ in range(REQUESTS)])

        beside = [calibration()]
        found = [await _cpu(many) for _ in range(order["repeat"])]
        beside.append(calibration())
        if not all(same for _, same in found):
            raise ValueError("another text came")
        return {"cpu": min(cpu for cpu, _ in found) / REQUESTS, "text": text, "beside": min(beside)}

    async def crowd(self, order: dict) -> dict:
        """Read many streams at once, after one: CPU, and the most memory. For a process that did nothing else."""
        peer = self._peer(order)
        alone = await peer.read()
        before, beside = resident(), calibration()

        async def many() -> list[int]:
            return await asyncio.gather(*(peer.read() for _ in range(CROWD)))

        cpu, counts = await _cpu(many)
        if set(counts) != {alone}:
            raise ValueError(f"alone {alone} events came, in the crowd {sorted(set(counts))}")
        beside = min(beside, calibration())
        return {"cpu": cpu, "events": counts, "before": before, "peak": resident(), "beside": beside}

    async def save(self, order: dict) -> dict:
        """Save one message after the other into a session of so many; the figure is the mean of one."""
        count = order["count"]
        if count not in self._saves:
            self._saves[count] = await self._keep(self._folder, count)
            await self._saves[count]()
        save = self._saves[count]

        async def many() -> int:
            until = time.perf_counter() + LONGEST
            saves = 0
            while saves < SAVES and time.perf_counter() < until:
                await save()
                saves += 1
            return saves

        beside = calibration()
        start = time.perf_counter()
        cpu, saves = await _cpu(many)
        wall = time.perf_counter() - start
        return {"cpu": cpu / saves, "wall": wall / saves, "beside": min(beside, calibration())}


async def _serve(worker: Worker, answers: int) -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        (done,) = await asyncio.gather(getattr(worker, order["act"])(order), return_exceptions=True)
        if isinstance(done, BaseException):  # whatever it is, it is the peer's row that says so
            done = {"failed": f"{type(done).__name__}: {done}"[:300]}
        os.write(answers, json.dumps(done).encode() + b"\n")


def main(peers: Peers, keep: Keep | None = None) -> None:
    """Serve orders until the input ends. What a peer prints does not get among the answers."""
    answers = os.dup(1)
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_serve(Worker(peers, keep, int(sys.argv[1]), Path(folder)), answers))
