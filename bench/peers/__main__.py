"""Compare tenuto with other libraries: the same replies from the same server, in one run.

    python -m bench.peers [NAME ...] [--only SECTION]

Each library has an environment under `.peers/`, created if it is missing, and a driver that runs in it. With NAMEs, only
these libraries are measured; with `--only`, only sections with this prefix. If everything was measured, the rows are
written to `bench/results.json` as the run "peers". Exits with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import sys
import time

from bench import chart
from bench.peers import local, sections
from bench.peers.driver_process import start_server
from bench.peers.environments import PEERS, TENUTO, make_environments
from bench.results import Board


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"libraries: {', '.join(name for name in PEERS if name != TENUTO)}"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="SECTION", help="prefix of the sections to measure; repeatable"
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in PEERS]
    if unknown:
        parser.error(f"unknown library: {', '.join(unknown)}")
    start = time.perf_counter()
    environments = make_environments(
        [name for name in PEERS if not arguments.names or name in arguments.names or name == TENUTO]
    )
    if environments[TENUTO].python is None:
        raise SystemExit(f"{TENUTO} {environments[TENUTO].reason}")
    print(f"environments: {time.perf_counter() - start:.0f} s", flush=True)
    board = Board()
    with start_server() as port:
        comparison = sections.Comparison(environments, port, board)
        try:
            _measure_all(comparison, arguments.only)
        finally:
            comparison.stop()
    if not arguments.names and not arguments.only:
        board.write()
        chart.write_pages()
    print(
        f"{time.perf_counter() - start:.0f} s; "
        + (f"missed: {', '.join(board.missed)}" if board.missed else "all goals met")
    )
    return 1 if board.missed else 0


def _measure_all(comparison: sections.Comparison, only: list[str]) -> None:
    def is_selected(name: str) -> bool:
        return not only or name.startswith(tuple(only))

    contenders = comparison.check()
    jobs = [
        (section.name, lambda section=section: section.run(comparison, contenders)) for section in sections.SECTIONS
    ]
    jobs += [
        ("200 streams", lambda: sections.measure_concurrent(comparison, contenders)),
        ("loading", lambda: local.measure_loading(comparison)),
        ("installed", lambda: local.measure_installation(comparison)),
        ("append", lambda: local.measure_append(comparison)),
    ]
    for name, job in jobs:
        if is_selected(name):
            job_start = time.perf_counter()
            job()
            print(f"-- {name}: {time.perf_counter() - job_start:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
