"""Helpers for tests: run a sweep in a new process, which forks without threads; start programs that are killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from tenuto.store.open import open_store

CRASH = Path(__file__).resolve().parent


class SweepOutput(NamedTuple):
    """The exit code, the output, and for each part the numbers of kills, unreached points and violations."""

    code: int
    output: str
    parts: dict[str, tuple[int, int, int]]


def run_sweep(*arguments: str) -> SweepOutput:
    """Run `python tests/crash` and print its output."""
    done = subprocess.run(
        [sys.executable, str(CRASH), *arguments], capture_output=True, text=True, timeout=55, check=False
    )
    print(done.stdout, done.stderr)
    found = re.findall(r"(?m)^(\S.*): killed (\d+), not reached (\d+), violations (\d+)$", done.stdout)
    return SweepOutput(done.returncode, done.stdout, {name: (int(a), int(b), int(c)) for name, a, b, c in found})


SAMPLE_SIZE = 20
"""The number of random points for each database, in addition to its commits."""


def run_sample(part: str, kind: str, *arguments: str) -> int:
    """Sweep the commits and some other points of a part without violations; return the number of kills."""
    seed = random.SystemRandom().randrange(1 << 32)
    chosen = ("--sample", f"{SAMPLE_SIZE}", "--seed", f"{seed}", "--processes", "1")
    done = run_sweep("--part", part, "--database", kind, *chosen, *arguments)
    [(killed, missed, violations)] = done.parts.values()
    assert (done.code, violations) == (0, 0), done.output
    assert missed < 5, done.output  # the order of threads varies, so a line may run fewer times
    return killed


@contextlib.contextmanager
def start_program(program: ModuleType, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program that prints its progress; kill it at the end of the block."""
    command = [sys.executable, str(program.__file__), *arguments]
    paths = os.pathsep.join(path for path in (str(CRASH.parent), os.environ.get("PYTHONPATH", "")) if path)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], *words: str) -> None:
    """Wait until the program has printed all of these words."""
    missing = list(words)
    assert process.stdout is not None
    while missing:
        line = process.stdout.readline()
        if not line:
            raise AssertionError(f"it exited with {process.wait()} and did not print {missing}")
        if line.strip() in missing:
            missing.remove(line.strip())


def find_problems(where: str) -> list[str]:
    """Return the problems that `verify` finds in a store."""

    async def found() -> list[str]:
        async with open_store(where) as store:
            return [str(fault) for fault in await store.verify()]

    return asyncio.run(found())
