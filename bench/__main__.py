"""All that is measured without peers, as a table and in `bench/results.json`.

    python -m bench [--corpus DIR] [SECTION ...]

Everything is a ratio, ours to something that does less or the same, measured in turns in one run (`bench.turns`), and
judged on the median of five (`bench.results`). What is timed is checked in the same run: events are counted and values
compared. Ends with 1 where a goal is missed or a row that has one is noisy. A run of some sections only is printed and not
written: a row must not stand beside rows of another day as if they were one run. `scaling` alone is written: its rows are a
run of their own, with its own date on the page.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import agent, audit, chart, client, decoding, imports, installed, scaling, sim, soak, startup, store
from bench.results import Board

SECTIONS: dict[str, Callable[[Board], None]] = {
    "imports": imports.run,
    "startup": startup.run,
    "decoding": decoding.run,
    "scaling": scaling.run,
    "client": client.run,
    "sim": sim.run,
    "store": store.run,
    "agent": agent.run,
    "audit": audit.run,
    "installed": installed.run,
    "soak": soak.run,
}
"""In the order in which they run: what is nearest to the machine's noise first, what makes noise last."""


def _cpu() -> float:
    """CPU seconds of this process and of those that it waited for."""
    return sum(os.times()[:4])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.partition("\n")[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"some of {', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--corpus", type=Path, default=Path("../shared/corpus"), help="recorded streams, to be printed")
    given = parser.parse_args()
    if unknown := [name for name in given.sections if name not in SECTIONS]:
        parser.error(f"there is no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    board, began = Board(), time.perf_counter()
    for name in given.sections or SECTIONS:
        start, spent = time.perf_counter(), _cpu()
        SECTIONS[name](board)
        if name == "decoding":
            decoding.recorded(given.corpus)
        print(f"-- {name}: {time.perf_counter() - start:.0f} s, {_cpu() - spent:.0f} s CPU", flush=True)
    if not given.sections or given.sections == ["scaling"]:
        board.write()
        chart.write()
    print(f"{len(board.results)} rows in {time.perf_counter() - began:.0f} s")
    print("all goals met" if not board.missed else f"{len(board.missed)} goals missed: {'; '.join(board.missed)}")
    return 1 if board.missed else 0


if __name__ == "__main__":
    sys.exit(main())
