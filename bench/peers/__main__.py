"""Ours beside others: the same replies from the same server, one run, ratios.

    python -m bench.peers [NAME ...] [--only SECTION]

Each peer has an environment of its own under `.peers/`, made when it is not there, and a driver that runs in it. With
names, only those peers; with `--only`, only the sections whose names begin so. Rows go to `bench/results.json` as those
of the run "peers" when everything was measured. Ends with 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import sys
import time

from bench import chart
from bench.peers import sections, standing
from bench.peers.driving import server
from bench.peers.environments import OURS, PEERS, made
from bench.results import Board


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"peers: {', '.join(name for name in PEERS if name != OURS)}"
    )
    parser.add_argument("--only", action="append", default=[], metavar="SECTION", help="sections whose names begin so")
    asked = parser.parse_args()
    unknown = [name for name in asked.names if name not in PEERS]
    if unknown:
        parser.error(f"no such peer: {', '.join(unknown)}")
    began = time.perf_counter()
    environments = made([name for name in PEERS if not asked.names or name in asked.names or name == OURS])
    if environments[OURS].python is None:
        raise SystemExit(f"{OURS} {environments[OURS].reason}")
    print(f"environments: {time.perf_counter() - began:.0f} s", flush=True)
    board = Board()
    with server() as port:
        field = sections.Field(environments, port, board)
        try:
            _measured(field, asked.only)
        finally:
            field.stop()
    if not asked.names and not asked.only:
        board.write()
        chart.write()
    print(
        f"{time.perf_counter() - began:.0f} s; "
        + (f"missed: {', '.join(board.missed)}" if board.missed else "all goals met")
    )
    return 1 if board.missed else 0


def _measured(field: sections.Field, only: list[str]) -> None:
    def wanted(name: str) -> bool:
        return not only or name.startswith(tuple(only))

    contenders = field.check()
    jobs = [(section.name, lambda section=section: section.run(field, contenders)) for section in sections.SECTIONS]
    jobs += [
        ("200 streams", lambda: sections.crowd(field, contenders)),
        ("loading", lambda: standing.loading(field)),
        ("installed", lambda: standing.installed(field)),
        ("checkpoint", lambda: standing.keeping(field)),
    ]
    for name, job in jobs:
        if wanted(name):
            start = time.perf_counter()
            job()
            print(f"-- {name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
