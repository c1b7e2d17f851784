"""The simulator as a source of load: what a reply of 1,000 deltas costs it, beside what it costs our client to read it;
and 500 streams at once.

    python -m bench.sim serve       runs the simulator; answers each line of input with its CPU seconds so far
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time

from tenuto import AsyncClient
from tenuto.core.events import ContentDelta
from tenuto.sim import Simulator
from tenuto.sim.script import Say

COUNT = 1000
STREAMS = 500
ROUNDS = 7
REPEAT = 20
PIECES = [f"{at % 100:02} and eighteen more." for at in range(COUNT)]
MODELS = {
    "anthropic-messages": "sim/anthropic",
    "openai-responses": "sim/openai",
    "openai-chat": "sim/chat",
    "gemini": "sim/gemini",
}
BURST = 16
"""Events a write: at least 8."""


def serve() -> None:
    with Simulator(script=((Say(PIECES),),), burst=BURST) as sim:
        print(sim.base_url, flush=True)
        for _ in sys.stdin:
            print(time.process_time(), flush=True)


class Server:
    """The simulator in a process of its own."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "bench.sim", "serve"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def cpu(self) -> float:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait()


async def read(ai: AsyncClient, model: str) -> None:
    """Read one reply; check that everything came."""
    deltas = 0
    async with ai.stream(model, "hi") as stream:
        async for event in stream:
            deltas += type(event) is ContentDelta
    if deltas < COUNT or stream.reply.text != "".join(PIECES):
        raise SystemExit(f"{model}: {deltas} of {COUNT} deltas, or another text")


async def measure(server: Server) -> dict[str, tuple[float, float, float]]:
    """Return, for each dialect, the median ratio, and the least CPU seconds of the simulator and of the client."""
    found = {}
    async with AsyncClient(providers={"sim": {"base_url": f"{server.url}/v1"}}, middleware=[]) as ai:
        for dialect, model in MODELS.items():
            await read(ai, model)
            theirs, ours = [], []
            for _ in range(ROUNDS):
                start, began = server.cpu(), time.process_time()
                for _ in range(REPEAT):
                    await read(ai, model)
                ours.append((time.process_time() - began) / REPEAT)
                theirs.append((server.cpu() - start) / REPEAT)
            ratios = [mine / reader for mine, reader in zip(theirs, ours, strict=True)]
            found[dialect] = (statistics.median(ratios), min(theirs), min(ours))
    return found


async def crowd(server: Server) -> tuple[float, float]:
    """Read many streams at once; return seconds, and the simulator's CPU seconds."""
    async with AsyncClient(providers={"sim": {"base_url": f"{server.url}/v1"}}, middleware=[]) as ai:
        start, began = server.cpu(), time.perf_counter()
        await asyncio.gather(*(read(ai, list(MODELS.values())[at % len(MODELS)]) for at in range(STREAMS)))
        return time.perf_counter() - began, server.cpu() - start


def run(row) -> None:
    """Measure, and hand each figure to `row(name, ratio, goal, detail)`."""
    server = Server()
    try:
        for dialect, (ratio, cost, reader) in asyncio.run(measure(server)).items():
            detail = f"{cost * 1e3:.2f} against {reader * 1e3:.2f} ms CPU for the client, per reply of 1,000 deltas"
            row(f"simulator, {dialect}", ratio, 1.0, detail)
        seconds, cpu = asyncio.run(crowd(server))
        detail = (
            f"{STREAMS} streams of 1,000 deltas at once, all whole: {seconds:.1f} s, {cpu:.1f} s of the simulator's CPU"
        )
        row("simulator, 500 streams", cpu / seconds, None, detail)
    finally:
        server.stop()


if __name__ == "__main__" and sys.argv[1:] == ["serve"]:
    serve()
