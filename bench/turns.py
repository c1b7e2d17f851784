"""Measuring in turns: in each turn everything that is compared runs, one after the other, several times over, and the
least of each counts. A ratio is of two costs of the same turn; five turns count (or more, where each is a process of its
own), with a calibration beside each.

Where the machine was busy with something else in a turn, others are taken, for half as long again as these took. Those
count in which the calibration was least, whatever the figures say.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from bench.results import STILL, Result, calibration, judged

T = TypeVar("T")
ROUNDS = 5
MORE = 0.5
"""How long further turns may take, by what the first took; but `LEAST` seconds in any case: many turns are short."""
LEAST = 1.5


class Beside:
    """The calibrations of turns, one after the other, and which of the turns count. `judged`: whether there is a goal, and
    so a reason to take more turns than `rounds`.
    """

    def __init__(self, *, judged: bool = True, rounds: int = ROUNDS) -> None:
        self._judged = judged
        self._rounds = rounds
        self._all: list[float] = []
        self._began = time.monotonic()
        self._until = 0.0

    def add(self, one: float) -> None:
        """Take that of a turn which has just ended."""
        self._all.append(one)
        if len(self._all) == self._rounds:
            now = time.monotonic()
            self._until = now + max((now - self._began) * MORE, LEAST)

    @property
    def wanting(self) -> bool:
        """Whether another turn is to be taken."""
        if len(self._all) < self._rounds:
            return True
        still = [one for one in self._all if one <= min(self._all) * (1 + STILL)]
        return self._judged and len(still) < self._rounds and time.monotonic() < self._until

    @property
    def stillest(self) -> list[int]:
        """Which turns count, by number: those with the least calibrations."""
        return sorted(sorted(range(len(self._all)), key=self._all.__getitem__)[: self._rounds])

    @property
    def counted(self) -> list[float]:
        """The calibrations of those."""
        return [self._all[at] for at in self.stillest]


class Turns:
    """What was found: for each name the costs of the turns, in seconds, and the calibrations. `rounds`: how many count."""

    def __init__(self, names: Mapping[str, object], *, judged: bool = True, rounds: int = ROUNDS) -> None:
        self.costs: dict[str, list[float]] = {name: [] for name in names}
        self._beside = Beside(judged=judged, rounds=rounds)

    @property
    def wanting(self) -> bool:
        """Whether another turn is to be taken."""
        return self._beside.wanting

    @property
    def calibrations(self) -> list[float]:
        """Those of the turns that count."""
        return self._beside.counted

    def keep(self, costs: Mapping[str, list[float]], beside: float) -> None:
        """Keep a turn: the least of each, and of the calibrations at both its ends."""
        for name, found in costs.items():
            self.costs[name].append(min(found))
        self._beside.add(min(beside, calibration()))

    def counted(self, name: str) -> list[float]:
        """The costs of the turns that count."""
        return [self.costs[name][at] for at in self._beside.stillest]

    def least(self, name: str) -> float:
        return min(self.counted(name))

    def ratios(self, ours: str, other: str) -> list[float]:
        return [one / two for one, two in zip(self.counted(ours), self.counted(other), strict=True)]

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


def apart(act: Callable[..., T], *args: object) -> T:
    """Call something in a process of its own. Where a process lies in memory, and on which processors its threads run, moves
    what the same code costs by a tenth and more, for as long as that process lives: so each turn has another.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(act, *args).result()


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


def _rounds(
    turns: Turns, acts: Mapping[str, Callable[[], T]], repeat: int
) -> Iterator[tuple[Callable[[], T], Callable[[float], None]]]:
    """Yield each act when it is to run, and who takes its cost."""
    while turns.wanting:
        gc.collect()
        beside = calibration()
        costs: dict[str, list[float]] = {name: [] for name in acts}
        for _ in range(repeat):
            for name, act in acts.items():
                yield act, costs[name].append
        turns.keep(costs, beside)


def in_turns(acts: Mapping[str, Callable[[], float]], repeat: int, *, judged: bool = True) -> Turns:
    """Run the acts in turns; each returns its own cost."""
    turns = Turns(acts, judged=judged)
    for act, take in _rounds(turns, acts, repeat):
        take(act())
    return turns


async def awaited_in_turns(
    acts: Mapping[str, Callable[[], Awaitable[float]]], repeat: int, *, judged: bool = True
) -> Turns:
    """The same for acts that are awaited."""
    turns = Turns(acts, judged=judged)
    for act, take in _rounds(turns, acts, repeat):
        take(await act())
    return turns
