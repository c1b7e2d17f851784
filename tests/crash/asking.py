"""For tests: a sweep in a process of its own, which has no thread when it forks; and a program that is to be killed."""

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


class Swept(NamedTuple):
    """How it ended, what it said, and for each of its parts what was killed, not reached, and violated."""

    code: int
    said: str
    parts: dict[str, tuple[int, int, int]]


def swept(*given: str) -> Swept:
    """Run `python tests/crash`; print what it says, for whoever looks into a failure."""
    done = subprocess.run([sys.executable, str(CRASH), *given], capture_output=True, text=True, timeout=55, check=False)
    print(done.stdout, done.stderr)
    found = re.findall(r"(?m)^(\S.*): killed (\d+), not reached (\d+), violations (\d+)$", done.stdout)
    return Swept(done.returncode, done.stdout, {name: (int(a), int(b), int(c)) for name, a, b, c in found})


SOME = 20
"""Points for each database besides its commits, at one of which it dies; which ones is printed as a seed."""


def sampled(part: str, kind: str, *given: str) -> int:
    """Sweep the commits of a part and some of its other points; nothing may be wrong. Return how many were killed."""
    seed = random.SystemRandom().randrange(1 << 32)
    chosen = ("--some", f"{SOME}", "--seed", f"{seed}", "--hands", "1")
    done = swept("--part", part, "--only", kind, *chosen, *given)
    [(killed, missed, violations)] = done.parts.values()
    assert (done.code, violations) == (0, 0), done.said
    assert missed < 5, done.said  # threads take turns as they like: a last time may not come again
    return killed


@contextlib.contextmanager
def running(program: ModuleType, *given: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program that tells what it does; it is ended with the block, if nobody ended it before."""
    command = [sys.executable, str(program.__file__), *given]
    paths = os.pathsep.join(path for path in (str(CRASH.parent), os.environ.get("PYTHONPATH", "")) if path)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], *words: str) -> None:
    """Wait until the program has said all of these, whatever else it says."""
    missing = list(words)
    assert process.stdout is not None
    while missing:
        line = process.stdout.readline()
        if not line:
            raise AssertionError(f"it ended ({process.wait()}), and had not said {missing}")
        if line.strip() in missing:
            missing.remove(line.strip())


def faults(where: str) -> list[str]:
    """Return what `verify` finds in a store."""

    async def found() -> list[str]:
        async with open_store(where) as store:
            return [str(fault) for fault in await store.verify()]

    return asyncio.run(found())
