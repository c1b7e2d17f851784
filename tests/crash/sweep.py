"""Fork a child for each point and kill it there; fork another one that checks what is left.

The parent has no threads and no connections, so a child starts in a clean state.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pickle
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias

from crash import tracing
from crash.experiments import Experiment
from crash.tracing import COMMIT, EVENT, MARKS, Point, WatchedFiles
from crash.work import Verdict, Work, run_create_tables
from real_postgres import Postgres

Counts: TypeAlias = dict[tuple[str, int, str], int]
"""How often a role runs a line of a file."""
BATCH_SIZE = 12
"""How many killed processes are checked by one process: connecting takes longer than checking."""
TIMEOUT = 40
"""Seconds until a child is ended."""


@dataclass
class Result:
    """How many processes were killed at some points, and the violations found."""

    killed: Counter[str] = field(default_factory=Counter)
    retried: int = 0
    missed: list[Point] = field(default_factory=list)
    waiting: int = 0
    wrong: list[tuple[Point, str]] = field(default_factory=list)

    def add(self, other: Result) -> None:
        self.killed += other.killed
        self.retried += other.retried
        self.missed += other.missed
        self.waiting += other.waiting
        self.wrong += other.wrong


class Sweep:
    """Run the work with one kind of database. `spoil` breaks tenuto in the killed or in the checking process."""

    def __init__(self, work: Work, kind: str, base: Path, server: Postgres | None) -> None:
        self.work = work
        self.kind = kind
        self.base = base
        self.server = server
        self.breakage: Callable[[bool], None] = _break_nothing
        self.brief = False
        """Whether to skip the rest of the work after a kill at a commit."""
        self._template = ""

    def make(self) -> None:
        """Create a store without sessions, in a child because the parent must have no connection."""
        experiment = self._make_experiment("making")
        run_in_child(lambda: run_create_tables(experiment))
        self._template = (
            str(experiment.directory / "home" / "sessions.db") if self.kind == "sqlite" else experiment.schema
        )

    def _make_experiment(self, scenario: str) -> Experiment:
        return Experiment(self.kind, self.base, self.server, scenario, "" if scenario == "making" else self._template)

    # --- points ---

    def count_lines(self, scenario: str) -> Counts:
        """Run the scenario here, to load everything, then in a child, to count the lines."""
        experiment = self._make_experiment(scenario)
        self.work.play(experiment)
        self.work.record_reference(self.kind, experiment)
        experiment.remove()
        _clear_caches(self.work.packages)
        gc.collect()
        gc.freeze()
        experiment = self._make_experiment(scenario)
        status, value = run_in_child(lambda: self._count_lines(experiment))
        experiment.remove()
        if status or isinstance(value, str):
            raise RuntimeError(f"the workload fails without a kill on {self.kind}: {status} {value}")
        return value

    # --- kills ---

    def kill_at_points(self, points: Sequence[Point]) -> Result:
        """Kill a child at each point and check what it left."""
        result = Result()
        if self.kind == "postgres":
            self.make()  # one schema per process: only one process can write at a time
        killed: list[tuple[Experiment, Point]] = []
        for point in points:
            experiment = self._run_one(point, result)
            killed += [(experiment, point)] if experiment is not None else []
            if len(killed) >= BATCH_SIZE:
                self._check_dead(killed, result)
                killed = []
        if killed:
            self._check_dead(killed, result)
        return result

    def _run_one(self, point: Point, result: Result) -> Experiment | None:
        """Kill a process at a point; return its experiment."""
        for attempt in (0, 1, 2):
            experiment = self._make_experiment(point.scenario)
            status, reached = run_in_child(
                lambda experiment=experiment, point=point: self._kill_child(experiment, point)
            )
            if status == signal.SIGKILL:
                result.killed[point.file] += 1
                result.retried += attempt > 0
                return experiment
            experiment.remove()
            if status or isinstance(reached, str):
                result.wrong.append((point, f"ended in another way: {status} {reached}"))
                return None
            # The order of threads varies, so the line may run fewer times.
            point = point._replace(nth=min(point.nth, max(reached, 1)))
        result.missed.append(point)
        return None

    def _check_dead(self, killed: Sequence[tuple[Experiment, Point]], result: Result) -> None:
        """Check what was left, in a new process."""
        finish = [not self.brief or point.file != COMMIT for _, point in killed]
        status, found = run_in_child(lambda: self._run_checks([experiment for experiment, _ in killed], finish))
        for experiment, _ in killed:
            experiment.remove()
        if status or isinstance(found, str):
            result.wrong.append((killed[-1][1], f"the check failed: {status} {found}"))
            return
        for (_, point), (wrong, waiting) in zip(killed, found, strict=True):
            result.waiting += waiting
            result.wrong += [(point, what) for what in wrong]

    # --- in a child ---

    def _count_lines(self, experiment: Experiment) -> Counts:
        found = tracing.count(self.work.watched, self.work.marked(self.kind))
        self.work.play(experiment)
        tracing.stop()
        return dict(found)

    def _kill_child(self, experiment: Experiment, point: Point) -> int:
        self.breakage(False)
        reached = tracing.kill_at(point, self.work.watched, self.work.marked(self.kind))
        self.work.play(experiment)
        tracing.stop()
        return reached[0]

    def _run_checks(self, experiments: Sequence[Experiment], finish: Sequence[bool]) -> list[Verdict]:
        self.breakage(True)
        separate = [[at] for at, experiment in enumerate(experiments) if not experiment.prefix]
        shared = [at for at, experiment in enumerate(experiments) if experiment.prefix]  # in one schema
        found: dict[int, Verdict] = {}
        for part in [*separate, *([shared] if shared else [])]:
            work = self.work.check_all([experiments[at] for at in part], [finish[at] for at in part])
            found |= zip(part, asyncio.run(work), strict=True)
        return [found[at] for at in range(len(experiments))]


def run_parallel(sweep: Sweep, points: Sequence[Point], processes: int) -> Result:
    """Distribute the points over several processes."""
    result = Result()
    waiting = [
        Child(lambda part=part: sweep.kill_at_points(points[part::processes]), timeout=0) for part in range(processes)
    ]
    for started in waiting:
        status, value = started.end()
        if status or not isinstance(value, Result):
            raise RuntimeError(f"a process of the sweep ended with {status}: {value}")
        result.add(value)
    return result


def list_points(scenario: str, counts: Counts, watched: WatchedFiles) -> tuple[list[Point], list[Point]]:
    """Return the points before and after each commit, and the others: before each event, and each line at its first and
    last execution in each role.
    """
    commits: list[Point] = []
    lines: list[Point] = []
    for (file, line, role), times in sorted(counts.items()):
        if file in MARKS:
            which = "after" if line else "before"
            every = [Point(scenario, file, line, role, nth, which) for nth in range(1, times + 1)]
            commits += every if file == COMMIT else []
            lines += every if (file, line) == (EVENT, 0) else []
        elif file not in watched.excluded:
            lines.append(Point(scenario, file, line, role, 1, "first"))
            if times > 1:
                lines.append(Point(scenario, file, line, role, times, "last"))
    return commits, lines


# --- in a child -------------------------------------------------------------------------------------------------------


def _clear_caches(packages: Sequence[str]) -> None:
    """Clear the caches of modules, so that the lines that fill them run again."""
    for name, module in list(sys.modules.items()):
        if name.startswith(tuple(packages)):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def _break_nothing(_: bool) -> None:
    """Break nothing."""


class Child:
    """A forked child that runs a function and sends its result, or its traceback, to the parent."""

    def __init__(self, work: Callable[[], Any], timeout: int = TIMEOUT) -> None:
        self._answer, ask = os.pipe()
        sys.stdout.flush()
        self._pid = os.fork()
        if self._pid:
            os.close(ask)
            return
        signal.alarm(timeout)
        os.close(self._answer)
        with contextlib.ExitStack() as ends:
            ends.callback(os._exit, 0)
            line = ends.enter_context(os.fdopen(ask, "wb"))
            ends.push(lambda _kind, exc, _trace: _send_error(line, exc))  # any error is sent to the parent
            pickle.dump(work(), line)

    def end(self) -> tuple[int, Any]:
        """Wait for the child; return the signal that killed it, or 0, and its result."""
        with os.fdopen(self._answer, "rb") as line:
            data = line.read()
        _, status = os.waitpid(self._pid, 0)
        ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        return ended, pickle.loads(data) if data and not ended else None


def _send_error(line: IO[bytes], exc: BaseException | None) -> None:
    if exc is not None:
        pickle.dump("".join(traceback.format_exception(exc)), line)


def run_in_child(work: Callable[[], Any]) -> tuple[int, Any]:
    """Run a function in a child; see `Started`."""
    return Child(work).end()
