"""Measure tenuto without other libraries; print a table and write `bench/results.json`.

    python -m bench [--corpus DIR] [SECTION ...]

A figure is a ratio of tenuto to a program that does less or the same, measured in turns in one run (`bench.turns`); its
goal applies to the median of five (`bench.results`). The same run checks the results: events are counted, values are
compared. Exits with 1 if a goal is missed or a row with a goal is noisy. A run with SECTIONs is printed and not written,
because the page must not mix the rows of several runs. `scaling` alone is written: its rows are a run with its own date.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import agent, audit, chart, client, decoding, imports, installation, scaling, sim, soak, startup, store
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
    "installation": installation.run,
    "soak": soak.run,
}
"""In the order in which they run: the sections most sensitive to noise first, those that cause noise last."""


def cpu_with_children() -> float:
    """Return the CPU seconds of this process and of its finished child processes."""
    return sum(os.times()[:4])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.partition("\n")[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"{', '.join(SECTIONS)} (default: all)")
    parser.add_argument(
        "--corpus", type=Path, default=Path("../shared/corpus"), help="directory of recorded streams to compare with"
    )
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.sections if name not in SECTIONS]:
        parser.error(f"unknown section {unknown[0]!r}: use {', '.join(SECTIONS)}")
    board, started = Board(), time.perf_counter()
    for name in arguments.sections or SECTIONS:
        section_start, section_cpu = time.perf_counter(), cpu_with_children()
        SECTIONS[name](board)
        if name == "decoding":
            decoding.print_recorded(arguments.corpus)
        print(
            f"-- {name}: {time.perf_counter() - section_start:.0f} s, {cpu_with_children() - section_cpu:.0f} s CPU",
            flush=True,
        )
    if not arguments.sections or arguments.sections == ["scaling"]:
        board.write()
        chart.write_pages()
    print(f"{len(board.results)} rows in {time.perf_counter() - started:.0f} s")
    print("all goals met" if not board.missed else f"{len(board.missed)} goals missed: {'; '.join(board.missed)}")
    return 1 if board.missed else 0


if __name__ == "__main__":
    sys.exit(main())
