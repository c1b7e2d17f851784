"""`make fuzz`: mutate recorded replies and check what the codecs make of them, on all cores.

    python tests/fuzz [--runs N] [--seed N] [--only N] [--jobs N] [DIR ...]

Run number N of a seed is always the same reply with the same mutations, so `--only N` repeats it. Faults are grouped by
dialect, property and place; each group is printed once, with its shortest reproduction. `fuzz.properties` lists the
properties. Exit code: 0 no fault, 1 some, 2 nothing to mutate.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import TypeAlias

from fuzz.cases import RECORDED, Mutant, mutant, recorded
from fuzz.properties import Fault, check
from fuzz.shrink import shrink

__all__ = ["Failure", "Part", "fuzz", "main", "reproduction", "run_part"]

SEED = 20
_PART = 250
Group: TypeAlias = tuple[str, str, str]


@dataclasses.dataclass(frozen=True)
class Failure:
    """One fault of one run."""

    number: int
    dialect: str
    fault: Fault

    @property
    def group(self) -> Group:
        """What failures of the same cause share."""
        return (self.dialect, self.fault.property, self.fault.where)


@dataclasses.dataclass
class Part:
    """The result of some runs: how the replies ended, the faults, and the slowest run with its seconds."""

    ends: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    failures: list[Failure] = dataclasses.field(default_factory=list)
    slowest: tuple[float, int] = (0.0, -1)

    def add(self, other: Part) -> None:
        """Take in the result of other runs."""
        self.ends += other.ends
        self.failures += other.failures
        self.slowest = max(self.slowest, other.slowest)


def _check(made: Mutant, body: bytes, *, cuts: bool = True) -> tuple[str, list[Fault]]:
    return check(made.target, body, random.Random(0), streamed=made.streamed, cuts=cuts)


def run_part(roots: tuple[Path, ...], seed: int, numbers: range) -> Part:
    """Do the runs with these numbers, in this process."""
    part = Part()
    for number in numbers:
        start = time.perf_counter()
        made = mutant(roots, seed, number)
        end, faults = _check(made, made.body)
        part.ends[f"{made.dialect} {end}"] += 1
        part.failures += [Failure(number, made.dialect, fault) for fault in faults]
        part.slowest = max(part.slowest, (time.perf_counter() - start, number))
    return part


def fuzz(roots: tuple[Path, ...], seed: int, runs: int, jobs: int) -> Iterator[Part]:
    """Do `runs` runs, `jobs` at a time; yield the result of each part as it ends."""
    parts = [range(start, min(start + _PART, runs)) for start in range(0, runs, _PART)]
    if jobs <= 1:
        yield from (run_part(roots, seed, numbers) for numbers in parts)
        return
    workers = futures.ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))
    try:
        for done in futures.as_completed([workers.submit(run_part, roots, seed, numbers) for numbers in parts]):
            yield done.result()
    finally:
        workers.shutdown(cancel_futures=True)


def reproduction(roots: tuple[Path, ...], seed: int, failure: Failure) -> tuple[Mutant, bytes]:
    """Return the mutant of a failure, and the shortest bytes found that fail in the same way."""
    made = mutant(roots, seed, failure.number)

    def broken(body: bytes) -> bool:
        faults = _check(made, body, cuts=failure.fault.property == "cuts")[1]
        return any((fault.property, fault.where) == failure.group[1:] for fault in faults)

    return made, shrink(made.body, made.transport, broken)


def lines_of(roots: tuple[Path, ...], seed: int, failures: list[Failure]) -> Iterator[str]:
    """Describe each group of failures: the most frequent first."""
    groups: dict[Group, list[Failure]] = collections.defaultdict(list)
    for failure in failures:
        groups[failure.group].append(failure)
    for (dialect, name, where), found in sorted(groups.items(), key=lambda item: -len(item[1])):
        first = min(found, key=lambda failure: failure.number)
        made, shortest = reproduction(roots, seed, first)
        yield f"\n{len(found)} x {dialect}, {name}: {where}"
        yield f"  {first.fault.detail}"
        yield f"  make fuzz SEED={seed} ONLY={first.number}  ({made.case}: {'; '.join(made.mutations)})"
        yield f"  shortest, {len(shortest)} bytes, streamed={made.streamed}: {shortest[:1500]!r}"


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description="Mutate recorded replies and check the codecs.")
    parser.add_argument("corpus", type=Path, nargs="*", default=RECORDED, help="directories of recorded exchanges")
    parser.add_argument("--runs", type=int, default=2_000, help="number of mutated replies [2000]")
    parser.add_argument("--seed", type=int, default=SEED, help=f"seed of all mutations [{SEED}]")
    parser.add_argument("--only", type=int, help="repeat one run, by its number")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes [all cores]")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run, print the failures, and return the exit code."""
    options = _options(arguments)
    roots, started = recorded(options.corpus), time.monotonic()
    total = Part()
    if options.only is not None:
        total.add(run_part(roots, options.seed, range(options.only, options.only + 1)))
        made = mutant(roots, options.seed, options.only)
        print(f"{made.case}: {'; '.join(made.mutations)}\n{made.body!r}")
    else:
        for part in fuzz(roots, options.seed, options.runs, options.jobs):
            total.add(part)
            _progress(total.ends.total(), options.runs)
    _progress(0, 0)
    seconds, number = total.slowest
    print(f"{total.ends.total()} runs, seed {options.seed}, in {time.monotonic() - started:.0f} s")
    print(f"from {', '.join(map(str, roots))}; slowest: run {number}, {seconds:.2f} s")
    for name, count in sorted(total.ends.items()):
        print(f"{count:8} {name}")
    for line in lines_of(roots, options.seed, total.failures):
        print(line, flush=True)
    print(f"{len(total.failures)} faults in {len({failure.group for failure in total.failures})} groups")
    return 1 if total.failures else 0


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        text = f"{done}/{total}" if total else ""
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
