"""Measure programs in turns: in each turn, all of them run one after the other, several times, and the lowest cost counts.

A ratio compares two costs of the same turn. Five turns count, or more if each turn is a process. If the machine was busy
in some turns, according to their calibrations, further turns are measured, for at most half as long again. The turns with
the lowest calibrations count, whatever their figures are.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from bench import results
from bench.results import NOISE_LIMIT, Result, calibrate

T = TypeVar("T")
TURNS = 5
EXTRA_SHARE = 0.5
"""How long further turns may take, as a share of the time of the first ones."""
EXTRA_SECONDS = 1.5
"""How long they may take at least: many turns are short."""


class Calibrations:
    """The calibrations of all turns; select the turns that count.

    `has_goal`: measure further turns if some are noisy. `turns`: how many turns count.
    """

    def __init__(self, *, has_goal: bool = True, turns: int = TURNS) -> None:
        self._has_goal = has_goal
        self._turns = turns
        self._all: list[float] = []
        self._start = time.monotonic()
        self._deadline = 0.0

    def add(self, calibration: float) -> None:
        """Add the calibration of a finished turn."""
        self._all.append(calibration)
        if len(self._all) == self._turns:
            now = time.monotonic()
            self._deadline = now + max((now - self._start) * EXTRA_SHARE, EXTRA_SECONDS)

    @property
    def needs_turn(self) -> bool:
        """Whether another turn must be measured."""
        if len(self._all) < self._turns:
            return True
        quiet = [one for one in self._all if one <= min(self._all) * (1 + NOISE_LIMIT)]
        return self._has_goal and len(quiet) < self._turns and time.monotonic() < self._deadline

    @property
    def quietest(self) -> list[int]:
        """The indexes of the turns that count: those with the lowest calibrations."""
        return sorted(sorted(range(len(self._all)), key=self._all.__getitem__)[: self._turns])

    @property
    def selected(self) -> list[float]:
        """The calibrations of the turns that count."""
        return [self._all[at] for at in self.quietest]


class Turns:
    """The costs of each program in all turns, in seconds. `turns`: how many of them count."""

    def __init__(self, names: Mapping[str, object], *, has_goal: bool = True, turns: int = TURNS) -> None:
        self.costs: dict[str, list[float]] = {name: [] for name in names}
        self._calibrations = Calibrations(has_goal=has_goal, turns=turns)

    @property
    def needs_turn(self) -> bool:
        """Whether another turn must be measured."""
        return self._calibrations.needs_turn

    @property
    def calibrations(self) -> list[float]:
        """The calibrations of the turns that count."""
        return self._calibrations.selected

    def add(self, costs: Mapping[str, list[float]], calibration: float) -> None:
        """Add a turn: the lowest cost of each program, and the lower of the calibrations before and after."""
        for name, values in costs.items():
            self.costs[name].append(min(values))
        self._calibrations.add(min(calibration, calibrate()))

    def selected_costs(self, name: str) -> list[float]:
        """Return the costs in the turns that count."""
        return [self.costs[name][at] for at in self._calibrations.quietest]

    def lowest(self, name: str) -> float:
        return min(self.selected_costs(name))

    def ratios(self, name: str, other: str) -> list[float]:
        return [one / two for one, two in zip(self.selected_costs(name), self.selected_costs(other), strict=True)]

    def make_result(
        self, row: str, name: str, other: str, *, goal: float | None, unit: str, scale: float = 1e3, detail: str = ""
    ) -> Result:
        """Make a row of `name` divided by `other`; `scale` converts their seconds to `unit`."""
        return results.make_result(
            row,
            self.ratios(name, other),
            value=self.lowest(name) * scale,
            unit=unit,
            goal=goal,
            run="bench",
            calibrations=self.calibrations,
            detail=f"vs {self.lowest(other) * scale:.3g}" + (f"; {detail}" if detail else ""),
        )


def run_in_process(function: Callable[..., T], *args: object) -> T:
    """Call a function in a new process.

    The memory layout and the processors of a process change the cost of the same code by 10 % and more for as long as the
    process lives, so each turn uses a new one.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *args).result()


def measure_cpu(function: Callable[..., object], *args: object) -> float:
    """Return the CPU seconds of a call."""
    start = time.process_time()
    function(*args)
    return time.process_time() - start


async def measure_async_cpu(function: Callable[..., Awaitable[object]], *args: object) -> float:
    """Return the CPU seconds of this process while a call is awaited."""
    start = time.process_time()
    await function(*args)
    return time.process_time() - start


def _iterate_turns(
    turns: Turns, functions: Mapping[str, Callable[[], T]], repeat: int
) -> Iterator[tuple[Callable[[], T], Callable[[float], None]]]:
    """Yield each function when it must run, and the callback that takes its cost."""
    while turns.needs_turn:
        gc.collect()
        calibration = calibrate()
        costs: dict[str, list[float]] = {name: [] for name in functions}
        for _ in range(repeat):
            for name, function in functions.items():
                yield function, costs[name].append
        turns.add(costs, calibration)


def measure_in_turns(functions: Mapping[str, Callable[[], float]], repeat: int, *, has_goal: bool = True) -> Turns:
    """Run the functions in turns; each returns its own cost."""
    turns = Turns(functions, has_goal=has_goal)
    for function, add in _iterate_turns(turns, functions, repeat):
        add(function())
    return turns


async def measure_async_in_turns(
    functions: Mapping[str, Callable[[], Awaitable[float]]], repeat: int, *, has_goal: bool = True
) -> Turns:
    """Run coroutine functions in turns; each returns its own cost."""
    turns = Turns(functions, has_goal=has_goal)
    for function, add in _iterate_turns(turns, functions, repeat):
        add(await function())
    return turns
