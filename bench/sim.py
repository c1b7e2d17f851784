"""Compare the simulator's cost of sending a reply of 1,000 deltas with the client's cost of reading it.

Also measure 500 concurrent streams.

    python -m bench.sim serve       runs the simulator; prints its CPU seconds for each line of input
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

from bench.results import Board, Result, calibrate
from bench.turns import Turns
from tenuto import AsyncClient
from tenuto.core.events import ContentDelta
from tenuto.sim import Simulator
from tenuto.sim.script import Say

COUNT = 1000
STREAMS = 500
REPEAT = 4
TEXTS = [f"{at % 100:02} and eighteen more." for at in range(COUNT)]
MODELS = {
    "anthropic-messages": "sim/anthropic",
    "openai-responses": "sim/openai",
    "openai-chat": "sim/chat",
    "gemini": "sim/gemini",
}
EVENTS_PER_WRITE = 16
"""At least 8."""


def serve() -> None:
    with Simulator(script=((Say(TEXTS),),), burst=EVENTS_PER_WRITE) as sim:
        print(sim.base_url, flush=True)
        for _ in sys.stdin:
            print(time.process_time(), flush=True)


class Server:
    """The simulator in another process."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "bench.sim", "serve"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def cpu_seconds(self) -> float:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait()


async def read_reply(ai: AsyncClient, model: str) -> None:
    """Read one reply and check that it is complete."""
    deltas = 0
    async with ai.stream(model, "hi") as stream:
        async for event in stream:
            deltas += type(event) is ContentDelta
    if deltas < COUNT or stream.reply.text != "".join(TEXTS):
        raise SystemExit(f"{model}: {deltas} of {COUNT} deltas, or the text differs")


async def measure_replies(server: Server) -> dict[str, Turns]:
    """Measure the cost of a reply for the simulator and the client, in each dialect."""
    turns_by_dialect = {}
    async with AsyncClient(providers={"sim": {"base_url": f"{server.url}/v1"}}, middleware=[]) as ai:
        for dialect, model in MODELS.items():
            await read_reply(ai, model)
            turns = turns_by_dialect[dialect] = Turns({"simulator": 0, "client": 0})
            while turns.needs_turn:
                calibration = calibrate()
                server_start, client_start = server.cpu_seconds(), time.process_time()
                for _ in range(REPEAT):
                    await read_reply(ai, model)
                client = (time.process_time() - client_start) / REPEAT
                turns.add(
                    {"simulator": [(server.cpu_seconds() - server_start) / REPEAT], "client": [client]}, calibration
                )
    return turns_by_dialect


async def measure_concurrent(server: Server) -> tuple[float, float]:
    """Read many concurrent streams; return the wall seconds and the CPU seconds of the simulator."""
    async with AsyncClient(providers={"sim": {"base_url": f"{server.url}/v1"}}, middleware=[]) as ai:
        cpu_start, wall_start = server.cpu_seconds(), time.perf_counter()
        await asyncio.gather(*(read_reply(ai, list(MODELS.values())[at % len(MODELS)]) for at in range(STREAMS)))
        return time.perf_counter() - wall_start, server.cpu_seconds() - cpu_start


def run(board: Board) -> None:
    """Measure this section and add its rows."""
    server = Server()
    try:
        for dialect, turns in asyncio.run(measure_replies(server)).items():
            name, unit = f"simulator, {dialect}: sending a reply / reading it", "ms CPU per 1,000 deltas"
            board.add(turns.make_result(name, "simulator", "client", goal=1.0, unit=unit))
        seconds, cpu_seconds = asyncio.run(measure_concurrent(server))
        board.add(
            Result(
                name=f"simulator, {STREAMS} concurrent streams of 1,000 deltas",
                value=cpu_seconds,
                unit="s CPU",
                run="bench",
                detail=f"wall time {seconds:.1f} s",
            )
        )
    finally:
        server.stop()


if __name__ == "__main__" and sys.argv[1:] == ["serve"]:
    serve()
