"""`make crash`: kill -9 at every line of the stores, and what became of it.

A workload of leases, appends, forks and all else is played in a child of a warm parent, and dies: before each line of
`store/` that it comes to, at the first and the last time, in each thread; before and after each commit. Then another
process opens what is left. It must have everything that was acknowledged, nothing that was not sent, no half of an append,
leases that can be taken over at once, nothing for `verify` to find; and the work must go on to its end.

    python tests/crash [--only sqlite|postgres] [--some N] [--seed N] [--hands N] [--server FOLDER] [--hurry]

There are two stories: `writing` (leases, appends, forks) and `keeping` (names, removing, searching, moving, and what is
done by itself). `--some`: of the first story, every commit, and so many of the other points by chance;
only after the latter is the work brought to its end. `--server` is the folder of a Postgres that runs
already. `--hurry` shows that a loss is seen: a store that acknowledges too soon dies
before each of its commits, and violations have to be found.
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

import msgspec

from crash import tracing
from crash.places import KINDS, hasten, quick_folder
from crash.sweep import Counts, Result, Sweep, points_of, shared
from crash.tracing import COMMIT, Point
from real_postgres import Postgres, using
from tenuto.store import entries
from tenuto.store.sql import SqlStore

Hit: TypeAlias = set[tuple[str, int]]
SHOWN = 20


def main() -> int:
    """Do what was asked for; return 1 if anything was wrong."""
    given = _given()
    hasten()
    seed = random.SystemRandom().randrange(1 << 32) if given.seed is None else given.seed
    wrong = 0
    hit: Hit = set()
    with contextlib.ExitStack() as ends:
        base = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="tenuto-crash-", dir=quick_folder())))
        for kind in [given.only] if given.only else KINDS:
            server = None
            if kind == "postgres":
                where = using(base / "server") if given.server is None else None
                server = Postgres(Path(given.server)) if where is None else ends.enter_context(where)
            wrong += _swept(kind, Sweep(kind, base, server, _hurry if given.hurry else None), given, seed, hit)
    if given.some is None:
        _print_unhit(hit)
    return 1 if wrong else 0


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--some", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--hands", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--server")
    parser.add_argument("--hurry", action="store_true")
    return parser.parse_args()


def _swept(kind: str, sweep: Sweep, given: argparse.Namespace, seed: int, hit: Hit) -> int:
    began = time.monotonic()
    counts: Counts = {}
    sweep.make()
    sweep.brief = given.some is not None
    commits: list[Point] = []
    lines: list[Point] = []
    for story in ["writing", "keeping", "making"] if given.some is None else ["writing", "making"]:
        # A line that was come to in one story is not come to again in the next: but every commit is.
        found = {at: times for at, times in sweep.counted(story).items() if at[0] == COMMIT or at not in counts}
        for points, more in zip((commits, lines), points_of(story, found), strict=True):
            points += more
        counts |= found
    chosen = lines if given.some is None else random.Random(f"{seed}").sample(lines, min(given.some, len(lines)))
    if given.hurry:
        commits, chosen = [point for point in commits if (point.role, point.which) == ("writer", "before")], []
    result = shared(sweep, [*commits, *chosen], given.hands)
    which = f"all {len(lines)}" if given.some is None else f"{len(chosen)} of {len(lines)} (seed {seed})"
    print(f"{kind}: {len(commits)} points at commits, {which} points at lines, {time.monotonic() - began:.1f} s")
    _print_counts(result)
    hit |= {(file, line) for file, line, _ in counts}
    _print_end(kind, result)
    return len(result.wrong)


def _print_counts(result: Result) -> None:
    print(f"  killed: {result.killed.total()}, of these at the second attempt: {result.again}")
    for file, times in sorted(result.killed.items()):
        print(f"    {times:5}  {'commits' if file == COMMIT else file}")


def _print_unhit(hit: Hit) -> None:
    print("lines never hit by the workload, on any database:")
    for file in tracing.FILES.values():
        lines = tracing.LINES[file]
        if file in tracing.NOT_SWEPT:
            print(f"    {file}: not swept, it {tracing.NOT_SWEPT[file]}")
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
        print(f"  VIOLATION at {point}: {what[:2000]}")
    print(f"{kind}: killed {result.killed.total()}, not reached {len(result.missed)}, violations {len(result.wrong)}")


def _hurry(_: type) -> None:
    """Make a store that acknowledges an append before it is done."""

    async def append(self, lease, drafts):
        crew = self._here()
        crew.writer.post(lambda driver: entries.append(driver, crew.leases, lease, tuple(drafts)))
        return msgspec.structs.replace(lease, head=lease.head + len(drafts))

    SqlStore.append = append
