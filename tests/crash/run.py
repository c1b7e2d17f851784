"""`make crash`: kill -9 at every line of the stores and of the agent, and what became of it.

Work is done in a child of a warm parent, and dies: before each line that it comes to, at the first and the last time, in
each thread; before and after each commit; at each event that is told. Then another process opens what is left, and goes
on. There are four parts:

* `store`: a workload of leases, appends, forks and all else (`crash.workload`), at every line of `store/`. What is left
  must have everything that was acknowledged, nothing that was not sent, no half of an append, leases that can be taken
  over at once, nothing for `verify` to find; and the work must go on to its end.
* `agent`: runs with tools (`crash.stories`), at every line of `agent/`, `tools/` and the transport, against a simulator
  in a process that lives on. The run must go on to the same end (`crash.agent_judge` says how that is judged).
* `dialects`: sessions of two and of fifty turns in the style of every provider, killed at moments that a seed chooses and
  gone on with in new processes, again and again (`crash.dialects`).
* `changing`: a session of sixty turns that goes on with another provider at every turn (`crash.changing`).

    python tests/crash [--part store|agent|dialects|changing] [--only sqlite|postgres] [--some N] [--seed N] [--hands N]
                       [--server FOLDER] [--spoil NAME | --hurry]

`--some`: every commit of the first story, and so many of the other points by chance; of the sessions of fifty turns, one
whose dialect the seed chooses. `--server` is the folder of a Postgres that runs already. `--spoil` shows that a fault is seen: the
product is broken in one way after the other, dies at points that tell, and violations have to be found (`hurry` is a store
that acknowledges too soon; the agent's are in `crash.agents`).
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

from crash import changing, dialects, stories
from crash.agents import AgentWork
from crash.places import KINDS, hasten, quick_folder
from crash.provider import playing
from crash.stores import StoreWork
from crash.sweep import Counts, Result, Sweep, points_of, shared
from crash.tracing import MARKS, Point, Watched
from crash.work import Work
from real_postgres import Postgres, using

Hit: TypeAlias = set[tuple[str, int]]
SHOWN = 20


def main() -> int:
    """Do what was asked for; return 1 if anything was wrong."""
    given = _given()
    hasten()
    seed = random.SystemRandom().randrange(1 << 32) if given.seed is None else given.seed
    wrong = 0
    with contextlib.ExitStack() as ends:
        base = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="tenuto-crash-", dir=quick_folder())))
        servers = {kind: _server(kind, base, given, ends) for kind in ([given.only] if given.only else KINDS)}
        for part in [given.part] if given.part else ["store", "agent", "dialects", "changing"]:
            if part == "store":
                wrong += _part(StoreWork(), base, servers, given, seed)
                continue
            with playing(base, [*stories.SCRIPTS, *dialects.SCRIPTS, *changing.SCRIPTS]) as provider:
                if part == "agent":
                    wrong += _part(AgentWork(provider), base, servers, given, seed)
                elif part == "changing":
                    wrong += changing.swept(base, provider, seed)
                else:
                    wrong += dialects.swept(base, provider, seed, given.hands, few=given.some is not None)
    return 1 if wrong else 0


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=("store", "agent", "dialects", "changing"))
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--some", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--hands", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--server")
    parser.add_argument("--spoil", action="append", default=[])
    parser.add_argument("--hurry", action="append_const", dest="spoil", const="hurry")
    return parser.parse_args()


def _server(kind: str, base: Path, given: argparse.Namespace, ends: contextlib.ExitStack) -> Postgres | None:
    if kind != "postgres" or given.part in ("dialects", "changing"):
        return None
    return ends.enter_context(using(base / "server")) if given.server is None else Postgres(Path(given.server))


def _part(work: Work, base: Path, servers: dict[str, Postgres | None], given: argparse.Namespace, seed: int) -> int:
    hit: Hit = set()
    wrong = 0
    for kind, server in servers.items():
        wrong += _swept(Sweep(work, kind, base, server), given, seed, hit)
    if given.some is None:
        _print_unhit(work.watched, hit)
    return wrong


def _swept(sweep: Sweep, given: argparse.Namespace, seed: int, hit: Hit) -> int:
    began = time.monotonic()
    kind, work = f"{sweep.work.name}, {sweep.kind}", sweep.work
    counts: Counts = {}
    sweep.make()
    sweep.brief = given.some is not None
    commits: list[Point] = []
    lines: list[Point] = []
    for story in work.stories if given.some is None else work.brief:
        # A line that was come to in one story is not come to again in the next: but every mark is.
        found = {at: times for at, times in sweep.counted(story).items() if at[0] in MARKS or at not in counts}
        for points, more in zip((commits, lines), points_of(story, found, work.watched), strict=True):
            points += more
        counts |= found
    hit |= {(file, line) for file, line, _ in counts}
    if given.spoil:
        telling = [point for point in (*commits, *lines) if work.tells(point)]
        return sum(_spoilt(sweep, spoil, telling, given.hands) for spoil in given.spoil)
    chosen = lines if given.some is None else random.Random(f"{seed}").sample(lines, min(given.some, len(lines)))
    result = shared(sweep, [*commits, *chosen], given.hands)
    which = f"all {len(lines)}" if given.some is None else f"{len(chosen)} of {len(lines)} (seed {seed})"
    print(
        f"{kind}: {len(commits)} points at commits, {which} points at lines and events, {time.monotonic() - began:.1f} s"
    )
    _print_counts(result)
    _print_end(kind, result)
    return len(result.wrong)


def _spoilt(sweep: Sweep, spoil: str, points: list[Point], hands: int) -> int:
    """Break the product in one way, and go through some points."""
    sweep.spoil = sweep.work.spoils[spoil]
    result = shared(sweep, points, hands)
    _print_end(f"{sweep.work.name}, {sweep.kind}, {spoil}", result)
    return len(result.wrong)


def _print_counts(result: Result) -> None:
    print(f"  killed: {result.killed.total()}, of these at the second attempt: {result.again}")
    for file, times in sorted(result.killed.items()):
        print(f"    {times:5}  {f'{file}s' if file in MARKS else file}")


def _print_unhit(watched: Watched, hit: Hit) -> None:
    print("lines never hit, on any database:")
    for file, lines in watched.lines.items():
        if file in watched.not_swept:
            print(f"    {file}: not swept, it {watched.not_swept[file]}")
            continue
        never = sorted(line for line in lines if (file, line) not in hit)
        if never:
            print(f"    {file}: {len(never)} of {len(lines)}: {_ranges(never)}")


def _ranges(numbers: list[int]) -> str:
    said: list[list[int]] = []
    for number in numbers:
        if said and number == said[-1][1] + 1:
            said[-1][1] = number
        else:
            said.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in said)


def _print_end(kind: str, result: Result) -> None:
    for point in result.missed:
        print(f"  not reached: {point}")
    if result.waiting:
        print(f"  leases taken by force whose dead holder could not be told dead: {result.waiting}")
    for point, what in result.wrong[:SHOWN]:
        print(f"  VIOLATION at {point}: {what[-2000:]}")
    print(f"{kind}: killed {result.killed.total()}, not reached {len(result.missed)}, violations {len(result.wrong)}")
