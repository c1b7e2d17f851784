"""Command line: judge the codecs by the exchanges of one or more corpus directories."""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

from conformance.corpus import DIALECTS, recorded
from conformance.judge import Case, judge
from conformance.report import Report

__all__ = ["conversations", "main", "run"]


def conversations(*roots: Path) -> list[list[Path]]:
    """Return the folders of each conversation, the largest conversation first.

    A conversation may span several dialects. Equal conversation names in two corpora are two conversations.
    """
    groups: dict[Any, list[Path]] = collections.defaultdict(list)
    for exchange in recorded(*roots):
        groups[exchange.corpus, exchange.about.get("conversation") or exchange.folder].append(exchange.folder)
    return sorted(groups.values(), key=lambda folders: (-sum(map(_size, folders)), folders))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("response.*") if path.suffix == ".sse")


def run(groups: list[list[Path]], *, jobs: int = 1, selected: frozenset[Path] | None = None) -> Iterator[list[Case]]:
    """Judge the conversations, `jobs` at a time; yield the cases of each as it is done."""
    if jobs <= 1:
        for folders in groups:
            yield judge(folders, selected)
        return
    fresh = multiprocessing.get_context("spawn")  # a fork would copy the caller's threads
    workers = futures.ProcessPoolExecutor(jobs, mp_context=fresh, initializer=_quiet)
    try:
        for done in futures.as_completed([workers.submit(judge, folders, selected) for folders in groups]):
            yield done.result()
    finally:
        workers.shutdown(cancel_futures=True)


def _quiet() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="conformance", description="Judge the codecs by recorded traffic.")
    parser.add_argument(
        "corpus", type=Path, nargs="+", help="directory with <dialect>/<provider>/<case>/exchange.json (repeatable)"
    )
    parser.add_argument("--dialect", choices=DIALECTS, action="append", help="only this dialect (repeatable)")
    parser.add_argument("--case", default="", help="only cases whose name contains this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="number of processes [all cores]")
    parser.add_argument("--all", action="store_true", help="print every failure")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run, print the report, and return the exit code: 0 passed, 1 failed, 2 no exchanges, 130 interrupted."""
    options = _options(arguments)
    found = [exchange for exchange in recorded(*options.corpus) if _chosen(exchange.name, options)]
    selected = frozenset(exchange.folder for exchange in found if exchange.judged)
    groups = [folders for folders in conversations(*options.corpus) if not selected.isdisjoint(folders)]
    where = ", ".join(map(str, options.corpus))
    if not groups:
        print(f"conformance: no exchanges of {', '.join(DIALECTS)} in {where}", file=sys.stderr)
        return 2
    started = time.monotonic()
    cases: list[Case] = []
    try:
        for done in run(groups, jobs=options.jobs, selected=selected):
            cases += done
            _progress(len(cases), len(selected))
    except KeyboardInterrupt:
        _progress(0, 0)
        print(f"conformance: interrupted after {len(cases)} of {len(selected)} exchanges", file=sys.stderr)
        return 130
    _progress(0, 0)
    report = Report(cases, [exchange for exchange in found if not exchange.judged], full=_full(options))
    print(f"{len(cases)} exchanges of {where}, in {time.monotonic() - started:.1f} s")
    for line in report.lines(sys.maxsize if options.all else 40):
        print(line)
    return 1 if report.faults else 0


def _full(options: argparse.Namespace) -> bool:
    """Whether the run covers several corpora without a filter: only then each rule must match several sources."""
    return len(options.corpus) > 1 and not options.dialect and not options.case


def _chosen(name: str, options: argparse.Namespace) -> bool:
    dialect = name.split("/", maxsplit=1)[0]
    return dialect in (options.dialect or [dialect]) and options.case in name


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        text = f"{done}/{total}" if total else ""
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
