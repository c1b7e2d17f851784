"""The simulator as a source of load: what a reply of 1,000 deltas costs it, beside what it costs our client to read it;
and 500 streams at once.

    python -m bench.sim serve       runs the simulator; answers each line of input with its CPU seconds so far
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

from bench.results import Board, Result, calibration
from bench.turns import Turns
from tenuto import AsyncClient
from tenuto.core.events import ContentDelta
from tenuto.sim import Simulator
from tenuto.sim.script import Say

COUNT = 1000
STREAMS = 500
REPEAT = 4
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


async def measure(server: Server) -> dict[str, Turns]:
    """Return, for each dialect, what the simulator and the client cost for a reply."""
    found = {}
    async with AsyncClient(providers={"sim": {"base_url": f"{server.url}/v1"}}, middleware=[]) as ai:
        for dialect, model in MODELS.items():
            await read(ai, model)
            turns = found[dialect] = Turns({"simulator": 0, "client": 0})
            while turns.wanting:
                beside = calibration()
                start, began = server.cpu(), time.process_time()
                for _ in range(REPEAT):
                    await read(ai, model)
                client = (time.process_time() - began) / REPEAT
                turns.keep({"simulator": [(server.cpu() - start) / REPEAT], "client": [client]}, beside)
    return found


async def crowd(server: Server) -> tuple[float, float]:
    """Read many streams at once; return seconds, and the simulator's CPU seconds."""
    async with AsyncClient(providers={"sim": {"base_url": f"{server.url}/v1"}}, middleware=[]) as ai:
        start, began = server.cpu(), time.perf_counter()
        await asyncio.gather(*(read(ai, list(MODELS.values())[at % len(MODELS)]) for at in range(STREAMS)))
        return time.perf_counter() - began, server.cpu() - start


def run(board: Board) -> None:
    """Measure, and add the rows."""
    server = Server()
    try:
        for dialect, turns in asyncio.run(measure(server)).items():
            name, unit = f"simulator, {dialect}: a reply / reading it", "ms CPU per 1,000 deltas"
            board.add(turns.judged(name, "simulator", "client", goal=1.0, unit=unit))
        seconds, cpu = asyncio.run(crowd(server))
        board.add(
            Result(name=f"simulator, {STREAMS} streams of 1,000 deltas at once, all whole", value=cpu, unit="s CPU",
                   run="bench", detail=f"in {seconds:.1f} s by the clock")
        )  # fmt: skip
    finally:
        server.stop()


if __name__ == "__main__" and sys.argv[1:] == ["serve"]:
    serve()
