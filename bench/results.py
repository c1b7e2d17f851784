"""What was measured, how it is judged, and where it is kept: one row for each figure, in `bench/results.json`.

A figure is judged on the median of interleaved ratios, ours to the other's in the same turn, so that the machine's mood
cancels out. Beside each turn a fixed loop is timed, the calibration: where it moved by more than 15 % between turns, the
machine was busy with something else, the row is noisy, and a noisy row passes no goal.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

PATH = Path(__file__).with_name("results.json")
STILL = 0.15
_EVENT = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "the quick brown fox"}}
_BYTES = json.dumps(_EVENT).encode()
_LOADS = 1_000
_TRIES = 5


class Result(msgspec.Struct, kw_only=True, rename={"passed": "pass"}):
    """One figure, with its unit; where there is another to compare with, the ratio; where there is a goal, the verdict.

    `value` is ours in `unit`. `ratio` is ours by the other's, and is what `goal` bounds; without a ratio `goal` bounds
    `value`. `passed` is `None` without a goal, and never `True` where `noisy`. `run` names the make target: "bench",
    "scaling" (a section of `make bench` that is also written alone), "peers" or "soak".
    """

    name: str
    value: float
    unit: str
    ratio: float | None = None
    goal: float | None = None
    passed: bool | None = None
    run: str
    noisy: bool = False
    detail: str = ""


def calibration() -> float:
    """CPU seconds of a fixed loop: `json.loads` of the same bytes. The least of five, as what it stands beside is."""
    loads = json.loads
    least = float("inf")
    for _ in range(_TRIES):
        start = time.process_time()
        for _ in range(_LOADS):
            loads(_BYTES)
        least = min(least, time.process_time() - start)
    return least


def moved(calibrations: Sequence[float]) -> float:
    """By how much the slowest calibration was above the fastest: 0.15 is 15 %."""
    return max(calibrations) / min(calibrations) - 1 if calibrations else 0.0


def judged(
    name: str,
    ratios: Sequence[float],
    *,
    value: float,
    unit: str,
    goal: float | None,
    run: str,
    calibrations: Sequence[float],
    detail: str = "",
) -> Result:
    """Judge a figure: the median of `ratios`, or `value` where there are none, is to be at most `goal`.

    `calibrations` are those measured beside the turns; empty for what no mood of the machine can change, as a count.
    """
    ratio = statistics.median(ratios) if ratios else None
    noisy = moved(calibrations) > STILL
    passed = None if goal is None else (value if ratio is None else ratio) <= goal and not noisy
    return Result(
        name=name, value=value, unit=unit, ratio=ratio, goal=goal, passed=passed, run=run, noisy=noisy, detail=detail
    )


class Board:
    """Takes results one by one, shows each at once, and writes them all."""

    def __init__(self) -> None:
        self.results: list[Result] = []

    @property
    def missed(self) -> list[str]:
        """Names of the rows that have a goal and did not pass it; a noisy row did not."""
        return [result.name for result in self.results if result.passed is False]

    def add(self, result: Result) -> None:
        """Take a row, and print it at once."""
        if any(result.name == other.name and result.run == other.run for other in self.results):
            raise ValueError(f"two rows are named {result.name!r} in run {result.run!r}: give each a name of its own")
        self.results.append(result)
        print(shown(result), flush=True)

    def write(self, path: Path = PATH) -> None:
        """Write the rows; in a file that is there already, rows of the same `run` are replaced, and others stay."""
        runs = {result.run for result in self.results}
        kept: list[Result] = []
        machines: dict[str, dict[str, object]] = {}
        if path.exists():
            held = json.loads(path.read_bytes())
            kept = [row for row in msgspec.convert(held["results"], list[Result]) if row.run not in runs]
            machines = {run: one for run, one in held.get("runs", {}).items() if run not in runs}
        here = machine()
        content = {
            "results": [*kept, *self.results],
            "machine": here,
            "runs": {**machines, **dict.fromkeys(sorted(runs), here)},
        }
        text = msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
        fresh = path.with_suffix(".fresh")
        fresh.write_bytes(text)
        fresh.replace(path)


def shown(result: Result) -> str:
    """One row of the table."""
    figure = f"{result.value:.4g} {result.unit}" if result.unit != "x" else ""
    ratio = f"{result.ratio:.3f} x" if result.ratio is not None else ""
    aim = f"goal {result.goal:.4g}" if result.goal is not None else ""
    verdict = {None: "", True: "ok", False: "MISSED"}[result.passed]
    if result.noisy:
        verdict = "noisy"
    return f"{result.name:52} {ratio:>10}  {aim:10} {verdict:6} {figure:>32}  {result.detail}".rstrip()


def machine() -> dict[str, object]:
    """Where this was measured: what reads as much on any machine, and names none."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
    }
