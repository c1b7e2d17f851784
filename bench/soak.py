"""The soak: the load of `bench.load` for a long time, in one process, and what is left behind by it.

    python -m bench.soak [--seconds N]      half an hour, unless told otherwise

The load is made in rounds that are all alike. At the end of each, when nobody does anything, memory, tasks, threads and
descriptors are counted; and at the very end once more, when everything is closed. The first rounds warm up. What is left
is cut into ten parts, and each of the last five is compared with its counterpart among the first five: so a figure is
the median of five ratios, and a soak of a minute is judged as one of half an hour is. For what a job costs, the stillest
fifth of each part counts, by the calibrations at both ends of a round. What is read is compared with what
was sent, and the simulator refuses whatever breaks a rule.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from bench import chart
from bench.load import Job, Load, Server
from bench.results import Board, calibration, judged
from tenuto.store.open import open_store
from tenuto.store.protocol import Store

LONG = 1800.0
SHORT = 60.0
WORKERS = 16
WARM = 0.25
"""The share of the time that warms up: what is loaded at the first use, connections, SQLite's pages, the allocator's."""
PARTS = 5
GROWTH = 1.03
OBJECTS = 1.005
CPU = 1.1
WALL = 1.2


class Rest(msgspec.Struct):
    """What there is at the end of a round, when nobody does anything; and what the round took."""

    jobs: float
    deltas: float
    cpu: float
    wall: float
    resident: float
    blocks: float
    tasks: float
    threads: float
    descriptors: float
    calibration: float


FIELDS = len(Rest.__struct_fields__)


class Soaked(msgspec.Struct):
    """Everything that a soak found out; `left` are tasks, threads and descriptors more than before, when all is closed."""

    seconds: float
    rounds: list[Rest]
    left: dict[str, int]
    refused: int
    simulator: float
    kept: float


def resident(process: int | str = "self") -> float:
    """MB of memory that a process has in use."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def counted() -> dict[str, int]:
    """Tasks, threads and descriptors."""
    gc.collect()
    opened = len(files(Path("/proc/self/fd")))
    return {"tasks": len(asyncio.all_tasks()), "threads": threading.active_count(), "descriptors": opened}


async def _round(jobs: list[tuple[str, Job]]) -> Rest:
    """Let the workers share the jobs of a round; count when the last one is done."""
    waiting = iter(jobs)
    deltas = 0

    async def worker() -> None:
        nonlocal deltas
        for _, job in waiting:
            read = await job()
            deltas += read

    still = calibration()
    cpu, wall = time.process_time(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(WORKERS):
            group.create_task(worker())
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    still = min(still, calibration())
    await asyncio.sleep(0.02)  # lines that were broken off are closed by the loop
    there = counted()
    return Rest(
        jobs=len(jobs),
        deltas=deltas,
        cpu=cpu,
        wall=wall,
        resident=resident(),
        blocks=sys.getallocatedblocks(),
        calibration=still,
        **there,
    )


@contextlib.asynccontextmanager
async def _opened(server: Server, folder: Path) -> AsyncIterator[tuple[Store, Load]]:
    async with open_store(folder / "sessions.db") as store:
        load = Load(server.url, store)
        try:
            yield store, load
        finally:
            await load.close()


async def soaked(seconds: float) -> Soaked:
    """Make the load for so long."""
    server = Server()
    figures = array("d")  # one object, however many rounds: the soak itself leaves nothing behind either
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            async with _opened(server, folder) as (store, load):  # a rehearsal: what lives as long as the loop is there
                await _round(load.jobs())
            await asyncio.sleep(0.1)
            before = counted()
            start = told = time.monotonic()
            async with _opened(server, folder) as (store, load):
                while (now := time.monotonic()) - start < seconds or len(figures) < 4 * PARTS * FIELDS:
                    rest = await _round(load.jobs())
                    figures.extend(msgspec.structs.astuple(rest))
                    if now - told > 60:
                        told = now
                        sys.stderr.write(f"{now - start:.0f} s: {_line(rest)}\n")
                if faults := await store.verify():
                    raise SystemExit(f"the store is damaged: {faults[:3]}")
                kept = sum(file.stat().st_size for file in files(folder)) / 1e6
            await asyncio.sleep(0.1)
            left = {what: count - before[what] for what, count in counted().items()}
        rounds = [Rest(*figures[at : at + FIELDS]) for at in range(0, len(figures), FIELDS)]
        return Soaked(time.monotonic() - start, rounds, left, server.refused(), resident(server.process.pid), kept)
    finally:
        server.stop()


def _line(rest: Rest) -> str:
    return (
        f"{rest.jobs / rest.wall:.0f} jobs a second, {rest.cpu / rest.jobs * 1e3:.1f} ms CPU each, {rest.resident:.1f} MB, "
        f"{rest.blocks:.0f} objects, {rest.tasks:.0f} tasks, {rest.threads:.0f} threads, {rest.descriptors:.0f} descriptors"
    )


# --- judging ----------------------------------------------------------------------------------------------------------


def slope(values: Sequence[float]) -> float:
    """How much a value grows from one to the next: the median over all pairs, which no single leap can move."""
    thin = max(1, len(values) // 200)
    points = list(enumerate(values))[::thin]
    return statistics.median((b - a) / (y - x) for i, (x, a) in enumerate(points) for y, b in points[i + 1 :])


def _grown(values: Sequence[float]) -> tuple[float, float]:
    """Where a line through the values begins and ends."""
    middle, half = statistics.median(values), slope(values) * (len(values) - 1) / 2
    return middle - half, middle + half


def _halves(parts: Sequence[Sequence[float]]) -> list[float]:
    """The medians of ten parts, the last five each by its counterpart among the first five."""
    middles = [statistics.median(part) for part in parts]
    return [later / earlier for earlier, later in zip(middles[:PARTS], middles[PARTS:], strict=True)]


def _parts(rounds: Sequence[Rest]) -> list[list[Rest]]:
    """Ten parts, and of each the stillest fifth: the rounds with the least calibrations, whatever else they say."""
    edges = [round(at * len(rounds) / (2 * PARTS)) for at in range(2 * PARTS + 1)]
    parts = [rounds[begin:end] for begin, end in itertools.pairwise(edges)]
    return [sorted(part, key=lambda rest: rest.calibration)[: -(-len(part) // 5)] for part in parts]


def judge(found: Soaked, board: Board, target: str) -> None:
    """Make rows of what was found."""
    rounds = found.rounds[int(len(found.rounds) * WARM) :]
    jobs, wall = sum(rest.jobs for rest in rounds), sum(rest.wall for rest in rounds)
    name = f"soak {_length(found.seconds)}"
    parts = _parts(rounds)
    calibrations = [statistics.median(rest.calibration for rest in part) for part in parts]

    add = board.add
    memory, objects = _grown([rest.resident for rest in rounds]), _grown([rest.blocks for rest in rounds])
    add(judged(f"{name}: memory, at the end / after the warm-up", [memory[1] / memory[0]], value=memory[1], unit="MB",
               goal=GROWTH, run=target, calibrations=(),
               detail=f"{(memory[1] - memory[0]) / jobs * 1e6:.0f} bytes a job over {jobs:.0f} jobs; "
                      f"the simulator, in its own process, has {found.simulator:.0f} MB"))  # fmt: skip
    add(judged(f"{name}: objects, at the end / after the warm-up", [objects[1] / objects[0]], value=objects[1], unit="objects",
               goal=OBJECTS, run=target, calibrations=(), detail=f"{(objects[1] - objects[0]) / jobs:.3f} a job"))  # fmt: skip
    for what in ("tasks", "threads", "descriptors"):
        resting = [getattr(rest, what) for rest in rounds]
        detail = f"when all is closed; at rest between rounds {min(resting):.0f} to {max(resting):.0f}"
        add(judged(f"{name}: {what} left behind", (), value=found.left[what], unit=what, goal=0, run=target,
                   calibrations=(), detail=detail))  # fmt: skip
    resting = [rest.descriptors for rest in rounds]
    half = len(resting) // 2
    add(judged(f"{name}: descriptors more than before, at rest", (), value=max(0, max(resting[half:]) - max(resting[:half])),
               unit="descriptors", goal=WORKERS, run=target, calibrations=(),
               detail=f"at most {max(resting):.0f}; lines that wait for the next request are kept"))  # fmt: skip
    costs = [[rest.cpu / rest.jobs for rest in part] for part in parts]
    middle = statistics.median(itertools.chain(*costs)) * 1e3
    add(judged(f"{name}: CPU of a job, later / earlier", _halves(costs), value=middle, unit="ms CPU per job",
               goal=CPU, run=target, calibrations=calibrations, detail=f"{jobs:.0f} jobs, all that was read is what was sent"))  # fmt: skip
    walls = [[rest.wall / rest.jobs for rest in part] for part in parts]
    add(judged(f"{name}: time of a job, later / earlier", _halves(walls), value=jobs / wall, unit="jobs per second",
               goal=WALL, run=target, calibrations=calibrations,
               detail=f"{sum(rest.deltas for rest in rounds) / wall:.0f} deltas a second; {found.kept:.0f} MB on the disk"))  # fmt: skip
    add(judged(f"{name}: requests that broke a rule", (), value=found.refused, unit="requests", goal=0, run=target,
               calibrations=()))  # fmt: skip


def _length(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def run(board: Board, seconds: float = SHORT, target: str = "bench") -> None:
    """Soak in a process of its own, and add rows to the board; `target` is the make target that asks for it."""
    command = [sys.executable, "-m", "bench.soak", "--figures", "--seconds", f"{seconds:g}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise SystemExit("the soak broke off: see above")
    found = msgspec.json.decode(done.stdout, type=Soaked)
    found.seconds = seconds  # as it was asked for: rows keep their names
    judge(found, board, target)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=LONG, help=f"how long (default: {LONG:g})")
    parser.add_argument("--figures", action="store_true", help="print what was found as JSON, and judge nothing")
    given = parser.parse_args()
    if given.figures:
        print(json.dumps(msgspec.to_builtins(asyncio.run(soaked(given.seconds)))))
        return 0
    board = Board()
    run(board, given.seconds, "soak")
    board.write()
    chart.write()
    print("all goals met" if not board.missed else f"missed: {', '.join(board.missed)}")
    return 1 if board.missed else 0


if __name__ == "__main__":
    sys.exit(main())
