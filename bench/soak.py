"""Run the jobs of `bench.load` for a long time in one process, and check for leaks and slowdown.

    python -m bench.soak [--seconds N]      default: half an hour

The jobs run in equal rounds. After each round, while the process is idle, memory, tasks, threads and descriptors are
counted, and again after everything is closed. The first rounds warm up. The others are divided into ten parts, and each
of the last five is compared with its counterpart among the first five: a figure is the median of five ratios, for a
minute as for half an hour. The cost of a job is taken from the quietest fifth of each part, by the calibrations before
and after each round. Received data is compared with the data sent, and the simulator refuses requests that break a rule.
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
from bench.results import Board, calibrate, make_result
from tenuto.store.open import open_store
from tenuto.store.protocol import Store

LONG = 1800.0
SHORT = 60.0
WORKERS = 16
WARM_UP = 0.25
"""The share of the rounds that warm up: lazy imports, connections, the caches of SQLite and of the allocator."""
PARTS = 5
MEMORY_GOAL = 1.03
OBJECTS_GOAL = 1.005
CPU_GOAL = 1.1
WALL_GOAL = 1.2


class RoundStats(msgspec.Struct):
    """The resources of the idle process after a round, and the cost of the round."""

    jobs: float
    deltas: float
    cpu: float
    wall: float
    resident_mb: float
    blocks: float
    tasks: float
    threads: float
    descriptors: float
    calibration: float


FIELDS = len(RoundStats.__struct_fields__)


class SoakResult(msgspec.Struct):
    """The result of a soak."""

    seconds: float
    rounds: list[RoundStats]
    remaining: dict[str, int]
    """Additional tasks, threads and descriptors after everything is closed."""
    refused: int
    """Requests that the simulator refused."""
    simulator: float
    """Resident memory of the simulator in MB."""
    stored_mb: float
    """Size of the store in MB."""


def resident_mb(process: int | str = "self") -> float:
    """Return the resident memory of a process in MB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def list_files(directory: Path) -> list[Path]:
    return list(directory.iterdir())


def count_resources() -> dict[str, int]:
    """Count tasks, threads and descriptors."""
    gc.collect()
    opened = len(list_files(Path("/proc/self/fd")))
    return {"tasks": len(asyncio.all_tasks()), "threads": threading.active_count(), "descriptors": opened}


async def _run_round(jobs: list[tuple[str, Job]]) -> RoundStats:
    """Run the jobs of a round with all workers; count resources after the last one."""
    waiting = iter(jobs)
    deltas = 0

    async def worker() -> None:
        nonlocal deltas
        for _, job in waiting:
            count = await job()
            deltas += count

    calibration = calibrate()
    cpu, wall = time.process_time(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(WORKERS):
            group.create_task(worker())
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    calibration = min(calibration, calibrate())
    await asyncio.sleep(0.02)  # the loop closes aborted connections
    resources = count_resources()
    return RoundStats(
        jobs=len(jobs),
        deltas=deltas,
        cpu=cpu,
        wall=wall,
        resident_mb=resident_mb(),
        blocks=sys.getallocatedblocks(),
        calibration=calibration,
        **resources,
    )


@contextlib.asynccontextmanager
async def _open_load(server: Server, directory: Path) -> AsyncIterator[tuple[Store, Load]]:
    async with open_store(directory / "sessions.db") as store:
        load = Load(server.url, store)
        try:
            yield store, load
        finally:
            await load.close()


async def run_soak(seconds: float) -> SoakResult:
    """Run rounds for `seconds`."""
    server = Server()
    figures = array("d")  # one object for all rounds: the soak itself must not add objects
    try:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            async with _open_load(server, directory) as (
                store,
                load,
            ):  # a first round creates the objects that live as long as the loop
                await _run_round(load.jobs())
            await asyncio.sleep(0.1)
            before = count_resources()
            start = reported = time.monotonic()
            async with _open_load(server, directory) as (store, load):
                while (now := time.monotonic()) - start < seconds or len(figures) < 4 * PARTS * FIELDS:
                    stats = await _run_round(load.jobs())
                    figures.extend(msgspec.structs.astuple(stats))
                    if now - reported > 60:
                        reported = now
                        sys.stderr.write(f"{now - start:.0f} s: {_format_stats(stats)}\n")
                if faults := await store.verify():
                    raise SystemExit(f"the store is damaged: {faults[:3]}")
                stored_mb = sum(file.stat().st_size for file in list_files(directory)) / 1e6
            await asyncio.sleep(0.1)
            remaining = {what: count - before[what] for what, count in count_resources().items()}
        rounds = [RoundStats(*figures[at : at + FIELDS]) for at in range(0, len(figures), FIELDS)]
        return SoakResult(
            time.monotonic() - start,
            rounds,
            remaining,
            server.count_refused(),
            resident_mb(server.process.pid),
            stored_mb,
        )
    finally:
        server.stop()


def _format_stats(stats: RoundStats) -> str:
    return (
        f"{stats.jobs / stats.wall:.0f} jobs per second, {stats.cpu / stats.jobs * 1e3:.1f} ms CPU each, {stats.resident_mb:.1f} MB, "
        f"{stats.blocks:.0f} objects, {stats.tasks:.0f} tasks, {stats.threads:.0f} threads, {stats.descriptors:.0f} descriptors"
    )


# --- evaluation ----------------------------------------------------------------------------------------------------------


def median_slope(values: Sequence[float]) -> float:
    """Return the median growth between consecutive values over all pairs, which is robust against single jumps."""
    thin = max(1, len(values) // 200)
    points = list(enumerate(values))[::thin]
    return statistics.median((b - a) / (y - x) for i, (x, a) in enumerate(points) for y, b in points[i + 1 :])


def _fit_line(values: Sequence[float]) -> tuple[float, float]:
    """Return the first and the last value of a line fitted to the values."""
    median, half = statistics.median(values), median_slope(values) * (len(values) - 1) / 2
    return median - half, median + half


def _compare_halves(parts: Sequence[Sequence[float]]) -> list[float]:
    """Divide the medians of the last five parts by those of the first five."""
    middles = [statistics.median(part) for part in parts]
    return [later / earlier for earlier, later in zip(middles[:PARTS], middles[PARTS:], strict=True)]


def _select_parts(rounds: Sequence[RoundStats]) -> list[list[RoundStats]]:
    """Divide the rounds into ten parts and return the fifth of each with the lowest calibrations."""
    edges = [round(at * len(rounds) / (2 * PARTS)) for at in range(2 * PARTS + 1)]
    parts = [rounds[begin:end] for begin, end in itertools.pairwise(edges)]
    return [sorted(part, key=lambda stats: stats.calibration)[: -(-len(part) // 5)] for part in parts]


def add_rows(result: SoakResult, board: Board, run_name: str) -> None:
    """Add the rows of a soak to the board."""
    rounds = result.rounds[int(len(result.rounds) * WARM_UP) :]
    jobs, wall = sum(stats.jobs for stats in rounds), sum(stats.wall for stats in rounds)
    name = f"soak {_format_seconds(result.seconds)}"
    parts = _select_parts(rounds)
    calibrations = [statistics.median(stats.calibration for stats in part) for part in parts]

    add = board.add
    memory, objects = _fit_line([stats.resident_mb for stats in rounds]), _fit_line([stats.blocks for stats in rounds])
    add(
        make_result(
            f"{name}: memory at the end / after the warm-up",
            [memory[1] / memory[0]],
            value=memory[1],
            unit="MB",
            goal=MEMORY_GOAL,
            run=run_name,
            calibrations=(),
            detail=f"{(memory[1] - memory[0]) / jobs * 1e6:.0f} bytes per job over {jobs:.0f} jobs; "
            f"the process of the simulator has {result.simulator:.0f} MB",
        )
    )
    add(
        make_result(
            f"{name}: objects at the end / after the warm-up",
            [objects[1] / objects[0]],
            value=objects[1],
            unit="objects",
            goal=OBJECTS_GOAL,
            run=run_name,
            calibrations=(),
            detail=f"{(objects[1] - objects[0]) / jobs:.3f} per job",
        )
    )
    for what in ("tasks", "threads", "descriptors"):
        values = [getattr(stats, what) for stats in rounds]
        detail = f"after closing; idle between rounds: {min(values):.0f} to {max(values):.0f}"
        add(
            make_result(
                f"{name}: remaining {what}",
                (),
                value=result.remaining[what],
                unit=what,
                goal=0,
                run=run_name,
                calibrations=(),
                detail=detail,
            )
        )
    values = [stats.descriptors for stats in rounds]
    half = len(values) // 2
    add(
        make_result(
            f"{name}: additional descriptors when idle",
            (),
            value=max(0, max(values[half:]) - max(values[:half])),
            unit="descriptors",
            goal=WORKERS,
            run=run_name,
            calibrations=(),
            detail=f"at most {max(values):.0f}; idle connections stay open",
        )
    )
    costs = [[stats.cpu / stats.jobs for stats in part] for part in parts]
    median = statistics.median(itertools.chain(*costs)) * 1e3
    add(
        make_result(
            f"{name}: CPU per job, second half / first half",
            _compare_halves(costs),
            value=median,
            unit="ms CPU per job",
            goal=CPU_GOAL,
            run=run_name,
            calibrations=calibrations,
            detail=f"{jobs:.0f} jobs, all data received as sent",
        )
    )
    walls = [[stats.wall / stats.jobs for stats in part] for part in parts]
    add(
        make_result(
            f"{name}: wall time per job, second half / first half",
            _compare_halves(walls),
            value=jobs / wall,
            unit="jobs per second",
            goal=WALL_GOAL,
            run=run_name,
            calibrations=calibrations,
            detail=f"{sum(stats.deltas for stats in rounds) / wall:.0f} deltas per second; store of {result.stored_mb:.0f} MB",
        )
    )
    add(
        make_result(
            f"{name}: refused requests",
            (),
            value=result.refused,
            unit="requests",
            goal=0,
            run=run_name,
            calibrations=(),
        )
    )


def _format_seconds(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def run(board: Board, seconds: float = SHORT, run_name: str = "bench") -> None:
    """Run a soak in a new process and add its rows to the board, as rows of the run `run_name`."""
    command = [sys.executable, "-m", "bench.soak", "--figures", "--seconds", f"{seconds:g}"]
    process = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if process.returncode:
        raise SystemExit("the soak failed: see above")
    result = msgspec.json.decode(process.stdout, type=SoakResult)
    result.seconds = seconds  # the requested time, so that the names of rows do not change
    add_rows(result, board, run_name)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=LONG, help=f"duration in seconds (default: {LONG:g})")
    parser.add_argument("--figures", action="store_true", help="print the figures as JSON, without rows")
    arguments = parser.parse_args()
    if arguments.figures:
        print(json.dumps(msgspec.to_builtins(asyncio.run(run_soak(arguments.seconds)))))
        return 0
    board = Board()
    run(board, arguments.seconds, "soak")
    board.write()
    chart.write_pages()
    print("all goals met" if not board.missed else f"missed: {', '.join(board.missed)}")
    return 1 if board.missed else 0


if __name__ == "__main__":
    sys.exit(main())
