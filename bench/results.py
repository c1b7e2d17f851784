"""Define the rows of `bench/results.json`, decide whether they meet their goals, and write them.

The goal applies to the median of ratios. Each ratio compares tenuto and the other program in the same turn, so that a
change of the machine's load affects both. A fixed loop, the calibration, is timed with each turn: if it varies by more
than 15 % between turns, the machine was busy and the row is noisy. A noisy row meets no goal.
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
NOISE_LIMIT = 0.15
_EVENT = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "the quick brown fox"}}
_BYTES = json.dumps(_EVENT).encode()
_REPEAT = 1_000
_TRIES = 5


class Result(msgspec.Struct, kw_only=True, rename={"passed": "pass"}):
    """One measured figure and, if it has a goal, whether the goal is met."""

    name: str
    value: float
    """The figure of tenuto, in `unit`."""
    unit: str
    ratio: float | None = None
    """The figure of tenuto divided by that of the other program."""
    goal: float | None = None
    """Upper limit of `ratio`, or of `value` if there is no ratio."""
    passed: bool | None = None
    """None without a goal; never True if `noisy`."""
    run: str
    """"bench", "scaling" (a section of `make bench` that is also written alone), "peers" or "soak"."""
    noisy: bool = False
    detail: str = ""


def calibrate() -> float:
    """Return the CPU seconds of a fixed loop of `json.loads`, the lowest of five."""
    loads = json.loads
    least = float("inf")
    for _ in range(_TRIES):
        start = time.process_time()
        for _ in range(_REPEAT):
            loads(_BYTES)
        least = min(least, time.process_time() - start)
    return least


def spread(calibrations: Sequence[float]) -> float:
    """Return how much slower the slowest calibration is than the fastest: 0.15 is 15 %."""
    return max(calibrations) / min(calibrations) - 1 if calibrations else 0.0


def make_result(
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
    """Make a row. It passes if the median of `ratios`, or `value` without ratios, is at most `goal`.

    `calibrations` are those of the turns; empty for figures that do not depend on the load of the machine, such as counts.
    """
    ratio = statistics.median(ratios) if ratios else None
    noisy = spread(calibrations) > NOISE_LIMIT
    passed = None if goal is None else (value if ratio is None else ratio) <= goal and not noisy
    return Result(
        name=name, value=value, unit=unit, ratio=ratio, goal=goal, passed=passed, run=run, noisy=noisy, detail=detail
    )


class Board:
    """Collect results, print each one as it is added, and write them all."""

    def __init__(self) -> None:
        self.results: list[Result] = []

    @property
    def missed(self) -> list[str]:
        """The names of the rows that did not meet their goal; a noisy row did not."""
        return [result.name for result in self.results if result.passed is False]

    def add(self, result: Result) -> None:
        """Add a row and print it."""
        if any(result.name == other.name and result.run == other.run for other in self.results):
            raise ValueError(f"two rows are named {result.name!r} in run {result.run!r}: rename one")
        self.results.append(result)
        print(format_result(result), flush=True)

    def write(self, path: Path = PATH) -> None:
        """Write the rows. In an existing file, rows of the same `run` are replaced and the others stay."""
        runs = {result.run for result in self.results}
        others: list[Result] = []
        machines: dict[str, dict[str, object]] = {}
        if path.exists():
            old = json.loads(path.read_bytes())
            others = [row for row in msgspec.convert(old["results"], list[Result]) if row.run not in runs]
            machines = {run: one for run, one in old.get("runs", {}).items() if run not in runs}
        description = describe_machine()
        content = {
            "results": [*others, *self.results],
            "machine": description,
            "runs": {**machines, **dict.fromkeys(sorted(runs), description)},
        }
        text = msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(text)
        temporary.replace(path)


def format_result(result: Result) -> str:
    """Return one line of the printed table."""
    figure = f"{result.value:.4g} {result.unit}" if result.unit != "x" else ""
    ratio = f"{result.ratio:.3f} x" if result.ratio is not None else ""
    goal = f"goal {result.goal:.4g}" if result.goal is not None else ""
    verdict = {None: "", True: "ok", False: "MISSED"}[result.passed]
    if result.noisy:
        verdict = "noisy"
    return f"{result.name:52} {ratio:>10}  {goal:10} {verdict:6} {figure:>32}  {result.detail}".rstrip()


def describe_machine() -> dict[str, object]:
    """Return the Python version, the system, the number of cores and the date, without a host name."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
    }
