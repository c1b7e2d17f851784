"""Measuring in turns: in each turn everything that is compared runs, one after the other, several times over, and the
least of each counts. A ratio is of two costs of the same turn; there are five turns, with a calibration beside each.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable, Mapping

from bench.results import Result, calibration, judged

ROUNDS = 5


class Turns:
    """What was found: for each name the costs of the turns, in seconds, and the calibrations."""

    def __init__(self, names: Mapping[str, object]) -> None:
        self.costs: dict[str, list[float]] = {name: [] for name in names}
        self.calibrations: list[float] = []

    def keep(self, costs: Mapping[str, list[float]], beside: float) -> None:
        """Keep a turn: the least of each, and of the calibrations at both its ends."""
        for name, found in costs.items():
            self.costs[name].append(min(found))
        self.calibrations.append(min(beside, calibration()))

    def least(self, name: str) -> float:
        return min(self.costs[name])

    def ratios(self, ours: str, other: str) -> list[float]:
        return [one / two for one, two in zip(self.costs[ours], self.costs[other], strict=True)]

    def judged(
        self, name: str, ours: str, other: str, *, goal: float | None, unit: str, scale: float = 1e3, detail: str = ""
    ) -> Result:
        """A row: ours by the other, and what both cost, times `scale`, in `unit`."""
        mine, theirs = self.least(ours) * scale, self.least(other) * scale
        return judged(
            name,
            self.ratios(ours, other),
            value=mine,
            unit=unit,
            goal=goal,
            run="bench",
            calibrations=self.calibrations,
            detail=f"against {theirs:.3g}" + (f"; {detail}" if detail else ""),
        )


def cpu(act: Callable[..., object], *args: object) -> float:
    """CPU seconds of a call."""
    start = time.process_time()
    act(*args)
    return time.process_time() - start


async def awaited_cpu(act: Callable[..., Awaitable[object]], *args: object) -> float:
    """CPU seconds of this process while a call is awaited."""
    start = time.process_time()
    await act(*args)
    return time.process_time() - start


def in_turns(acts: Mapping[str, Callable[[], float]], repeat: int, rounds: int = ROUNDS) -> Turns:
    """Run the acts in turns; each returns its own cost."""
    turns = Turns(acts)
    for _ in range(rounds):
        gc.collect()
        beside = calibration()
        costs: dict[str, list[float]] = {name: [] for name in acts}
        for _ in range(repeat):
            for name, act in acts.items():
                costs[name].append(act())
        turns.keep(costs, beside)
    return turns


async def awaited_in_turns(
    acts: Mapping[str, Callable[[], Awaitable[float]]], repeat: int, rounds: int = ROUNDS
) -> Turns:
    """The same for acts that are awaited."""
    turns = Turns(acts)
    for _ in range(rounds):
        gc.collect()
        beside = calibration()
        costs: dict[str, list[float]] = {name: [] for name in acts}
        for _ in range(repeat):
            for name, act in acts.items():
                costs[name].append(await act())
        turns.keep(costs, beside)
    return turns
