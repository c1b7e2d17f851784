"""Kill processes with SIGKILL at every line of the stores and of the agent, and check what they leave (`make crash`).

    python tests/crash [OPTION ...]

A child of a prepared parent process runs a scenario and is killed: before each line that it reaches, the first and the
last time in each thread; before and after each commit; at each event. Another process opens the store and continues.
There are four parts:

* `store`: a workload of leases, appends, forks and other operations (`crash.workload`), at every line of `store/`. All
  acknowledged data must be stored, nothing that was not sent, no partial append; leases must be free at once, `verify`
  must find nothing, and the workload must run to its end.
* `agent`: runs with tools (`crash.scenarios`), at every line of `agent/`, `tools/` and the transport, with a simulator in
  a process that is not killed. The run must continue to the same end (`crash.agent_check` describes the conditions).
* `dialects`: sessions of two and of fifty turns with every simulated provider, killed at random moments and continued in
  new processes (`crash.dialects`).
* `switching`: a session of sixty turns that switches to another provider at every turn (`crash.switching`).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import tempfile
import time
from pathlib import Path
from typing import TypeAlias

from crash import dialects, scenarios, switching
from crash.agent_work import AgentWork
from crash.experiments import KINDS, find_memory_directory, shrink_log_limit
from crash.provider import run_simulator
from crash.store_work import StoreWork
from crash.sweep import Counts, Result, Sweep, list_points, run_parallel
from crash.tracing import MARKS, Point, WatchedFiles
from crash.work import Work
from real_postgres import Postgres, using

ReachedLines: TypeAlias = set[tuple[str, int]]
MAX_SHOWN = 20
PARTS = ("store", "agent", "dialects", "switching")


def main() -> int:
    """Run the selected parts; return 1 if a check failed."""
    options = _parse_options()
    shrink_log_limit()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    wrong = 0
    with contextlib.ExitStack() as stack:
        base = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="tenuto-crash-", dir=find_memory_directory()))
        )
        servers = {
            kind: _server(kind, base, options, stack) for kind in ([options.database] if options.database else KINDS)
        }
        for part in [options.part] if options.part else PARTS:
            if part == "store":
                wrong += _run_part(StoreWork(), base, servers, options, seed)
                continue
            with run_simulator(base, [*scenarios.SCRIPTS, *dialects.SCRIPTS, *switching.SCRIPTS]) as provider:
                if part == "agent":
                    wrong += _run_part(AgentWork(provider), base, servers, options, seed)
                elif part == "switching":
                    wrong += switching.run_sweep(base, provider, seed)
                else:
                    wrong += dialects.run_sweep(
                        base, provider, seed, options.processes, is_brief=options.sample is not None
                    )
    return 1 if wrong else 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/crash", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--part", choices=PARTS, help="part to run (default: all)")
    parser.add_argument("--database", choices=KINDS, help="database to use (default: all)")
    parser.add_argument(
        "--sample",
        type=int,
        metavar="N",
        help="only the first scenario: all commits and N random lines; one long session (default: all points)",
    )
    parser.add_argument("--scenario", action="append", metavar="NAME", help="only this scenario; repeatable")
    parser.add_argument("--lines", default="", metavar="TEXT", help="only lines of files with this in their names")
    parser.add_argument("--seed", type=int, help="seed of all random choices (default: random, printed)")
    parser.add_argument(
        "--processes",
        type=int,
        metavar="N",
        default=os.cpu_count() or 1,
        help="parallel processes (default: %(default)s)",
    )
    parser.add_argument("--server", metavar="DIRECTORY", help="directory of a running Postgres (default: start one)")
    parser.add_argument(
        "--break",
        dest="breaks",
        action="append",
        choices=[*StoreWork.breakages, *AgentWork.breakages],
        default=[],
        help="break tenuto in one way, to see that the checks fail; repeatable",
    )
    return parser.parse_args()


def _server(kind: str, base: Path, options: argparse.Namespace, stack: contextlib.ExitStack) -> Postgres | None:
    if kind != "postgres" or options.part in ("dialects", "switching"):
        return None
    return stack.enter_context(using(base / "server")) if options.server is None else Postgres(Path(options.server))


def _run_part(
    work: Work, base: Path, servers: dict[str, Postgres | None], options: argparse.Namespace, seed: int
) -> int:
    reached_lines: ReachedLines = set()
    wrong = 0
    for kind, server in servers.items():
        wrong += _run_sweep(Sweep(work, kind, base, server), options, seed, reached_lines)
    if options.sample is None:
        _print_unreached(work.watched, reached_lines)
    return wrong


def _run_sweep(sweep: Sweep, options: argparse.Namespace, seed: int, reached_lines: ReachedLines) -> int:
    started = time.monotonic()
    kind, work = f"{sweep.work.name}, {sweep.kind}", sweep.work
    counts: Counts = {}
    sweep.make()
    sweep.brief = options.sample is not None
    commits: list[Point] = []
    lines: list[Point] = []
    for scenario in options.scenario or (work.scenarios if options.sample is None else work.brief):
        # Each line is killed in one scenario only, commits and events in every scenario.
        found = {at: times for at, times in sweep.count_lines(scenario).items() if at[0] in MARKS or at not in counts}
        for points, more in zip((commits, lines), list_points(scenario, found, work.watched), strict=True):
            points += [point for point in more if point.file in MARKS or options.lines in point.file]
        counts |= found
    reached_lines |= {(file, line) for file, line, _ in counts}
    if options.breaks:
        revealing = [point for point in (*commits, *lines) if work.is_revealing(point)]
        return sum(_run_broken(sweep, name, revealing, options.processes) for name in options.breaks)
    chosen = (
        lines if options.sample is None else random.Random(f"{seed}").sample(lines, min(options.sample, len(lines)))
    )
    result = run_parallel(sweep, [*commits, *chosen], options.processes)
    which = f"all {len(lines)}" if options.sample is None else f"{len(chosen)} of {len(lines)} (seed {seed})"
    print(
        f"{kind}: {len(commits)} points at commits, {which} points at lines and events, {time.monotonic() - started:.1f} s"
    )
    _print_counts(result)
    _print_end(kind, result)
    return len(result.wrong)


def _run_broken(sweep: Sweep, name: str, points: list[Point], processes: int) -> int:
    """Break tenuto in one way and kill it at some points."""
    sweep.breakage = sweep.work.breakages[name]
    result = run_parallel(sweep, points, processes)
    _print_end(f"{sweep.work.name}, {sweep.kind}, {name}", result)
    return len(result.wrong)


def _print_counts(result: Result) -> None:
    print(f"  killed: {result.killed.total()}, of these at a second attempt: {result.retried}")
    for file, times in sorted(result.killed.items()):
        print(f"    {times:5}  {f'{file}s' if file in MARKS else file}")


def _print_unreached(watched: WatchedFiles, reached_lines: ReachedLines) -> None:
    print("lines never reached, on any database:")
    for file, lines in watched.lines.items():
        if file in watched.excluded:
            print(f"    {file}: excluded, it {watched.excluded[file]}")
            continue
        never = sorted(line for line in lines if (file, line) not in reached_lines)
        if never:
            print(f"    {file}: {len(never)} of {len(lines)}: {_ranges(never)}")


def _ranges(numbers: list[int]) -> str:
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges)


def _print_end(kind: str, result: Result) -> None:
    for point in result.missed:
        print(f"  not reached: {point}")
    if result.waiting:
        print(f"  leases whose dead holder could not be detected after a takeover: {result.waiting}")
    for point, what in result.wrong[:MAX_SHOWN]:
        print(f"  VIOLATION at {point}: {what[-2000:]}")
    print(f"{kind}: killed {result.killed.total()}, not reached {len(result.missed)}, violations {len(result.wrong)}")
