"""Run over a folder of recorded exchanges, on all cores."""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

from conformance.audited import refusals
from conformance.corpus import DIALECTS, exchanges
from conformance.judge import Case, judge
from conformance.report import Report

__all__ = ["conversations", "main", "run"]


def conversations(root: Path) -> list[list[Path]]:
    """Group the folders of a corpus: a conversation stays together, whatever dialects it spans; the longest first."""
    groups: dict[Any, list[Path]] = collections.defaultdict(list)
    for path in sorted(root.glob("*/*/*/exchange.json")):
        about = json.loads(path.read_bytes())
        groups[about.get("conversation") or path].append(path.parent)
    return sorted(groups.values(), key=lambda folders: (-sum(map(_size, folders)), folders))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("response.*") if path.suffix == ".sse")


def run(groups: list[list[Path]], *, jobs: int = 1, wanted: frozenset[str] | None = None) -> Iterator[list[Case]]:
    """Judge each conversation, `jobs` at a time; yield what came of it as it is done."""
    if jobs <= 1:
        for folders in groups:
            yield judge(folders, wanted)
        return
    fresh = multiprocessing.get_context("spawn")  # a fork would copy whatever threads the caller runs
    workers = futures.ProcessPoolExecutor(jobs, mp_context=fresh, initializer=_quiet)
    try:
        for done in futures.as_completed([workers.submit(judge, folders, wanted) for folders in groups]):
            yield done.result()
    finally:
        workers.shutdown(cancel_futures=True)


def _quiet() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C and starts nothing more


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="conformance", description="Judge the codecs by recorded traffic.")
    parser.add_argument("corpus", type=Path, help="a folder <dialect>/<provider>/<case>/exchange.json, ...")
    parser.add_argument("--dialect", choices=DIALECTS, action="append", help="only this dialect (may be repeated)")
    parser.add_argument("--case", default="", help="only cases whose name holds this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes; all cores by default")
    parser.add_argument("--all", action="store_true", help="tell every failure in full")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run, print, and return the exit code: 0 all passed, 1 something failed, 2 nothing to run, 130 interrupted."""
    options = _options(arguments)
    groups = conversations(options.corpus) if options.corpus.is_dir() else []
    wanted = frozenset(exchange.name for exchange in exchanges(options.corpus) if _chosen(exchange.name, options))
    groups = [folders for folders in groups if any("/".join(f.parts[-3:]) in wanted for f in folders)]
    if not groups:
        print(f"conformance: no exchanges of {', '.join(DIALECTS)} in {options.corpus}", file=sys.stderr)
        return 2
    started = time.monotonic()
    cases: list[Case] = []
    try:
        for done in run(groups, jobs=options.jobs, wanted=wanted):
            cases += done
            _progress(len(cases), len(wanted))
    except KeyboardInterrupt:
        _progress(0, 0)
        print(f"conformance: interrupted after {len(cases)} of {len(wanted)} exchanges", file=sys.stderr)
        return 130
    _progress(0, 0)
    report = Report(cases, [one for one in refusals(options.corpus) if _chosen(one.name, options)])
    print(f"{len(cases)} exchanges of {options.corpus}, in {time.monotonic() - started:.1f} s")
    for line in report.lines(sys.maxsize if options.all else 40):
        print(line)
    return 1 if report.faults else 0


def _chosen(name: str, options: argparse.Namespace) -> bool:
    dialect = name.split("/", maxsplit=1)[0]
    return dialect in (options.dialect or DIALECTS) and options.case in name


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        text = f"{done}/{total}" if total else ""
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
