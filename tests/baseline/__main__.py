"""`python tests/baseline write|check|coverage|coverage-check`: see CONTRIBUTING.md."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from baseline import commands, comparison, files, renames, runs, suite_coverage, traffic

_PARTS = ("events", "requests", "runs", "commands")
_SHOWN = 40
Sections = dict[str, list[str]]


def main(arguments: list[str] | None = None) -> int:
    """Record or compare; return the exit code: 1 if something differs or could not be recorded."""
    options = _options(arguments)
    if options.task.startswith("coverage"):
        return _coverage(options)
    started = time.monotonic()
    roots = [root for root in options.corpus if root.is_dir()]
    parts = [part for part in _PARTS if not options.only or part in options.only]
    missing = [str(root) for root in options.corpus if root not in roots]
    if (missing or not roots) and {"events", "requests"} & set(parts):
        print(
            f"baseline: no recorded traffic in {', '.join(missing) or 'no directory'}: events and requests of it are left out"
        )
    current, cases = _record(parts, roots, options.jobs)
    if options.task == "write":
        if missing:
            current = {part: sections for part, sections in current.items() if part not in ("events", "requests")}
        for part, sections in current.items():
            print(f"wrote {files.write(part, sections)}: {sum(map(len, sections.values()))} lines")
        return 1 if len(current) < len(parts) else 0
    differing = sum(_check(part, sections, cases, roots, options) for part, sections in current.items())
    print(
        f"baseline: {differing} differences in {', '.join(current) or 'nothing'} ({time.monotonic() - started:.0f} s)"
    )
    return 1 if differing else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="baseline", description=main.__doc__)
    parser.add_argument(
        "task",
        choices=["write", "check", "coverage", "coverage-check"],
        help="record the behavior, compare with it, record the coverage, compare with it",
    )
    parser.add_argument("--corpus", type=Path, nargs="*", default=[], help="directories of recorded traffic")
    parser.add_argument("--only", nargs="*", choices=_PARTS, help="parts to record or to compare")
    parser.add_argument("--jobs", type=int, default=2, help="processes  [default: 2]")
    parser.add_argument("--exit-codes", action="store_true", help="compare only the exit codes of commands")
    parser.add_argument("--all", action="store_true", help=f"print every difference, not the first {_SHOWN} of a part")
    parser.add_argument("--tests", nargs="*", default=["tests"], help="tests whose coverage is measured")
    return parser.parse_args(arguments)


def _record(parts: list[str], roots: list[Path], jobs: int) -> tuple[dict[str, Sections], dict[str, str]]:
    """Return the sections of each part that can be recorded, and the names of the cases."""
    current: dict[str, Sections] = {}
    cases: dict[str, str] = {}
    traffic_parts = [part for part in ("events", "requests") if part in parts]
    if traffic_parts and roots:
        events, requests, cases = traffic.record(roots, jobs)
        both = {"events": events, "requests": requests}
        current |= {part: both[part] for part in traffic_parts}
    if "runs" in parts:
        current["runs"] = runs.record(jobs)
    if "commands" in parts:
        current["commands"] = commands.record(jobs)
    return current, cases


def _check(part: str, current: Sections, cases: dict[str, str], roots: list[Path], options: argparse.Namespace) -> int:
    recorded = files.read(part)
    if recorded is None:
        print(f"{part}: not recorded: run make baseline")
        return 1
    if part in ("events", "requests"):
        present = {root.name for root in roots}
        recorded = {group: lines for group, lines in recorded.items() if group.partition("/")[0] in present}
        compare = comparison.compare_events if part == "events" else comparison.compare_requests
        found = compare(recorded, current, cases)
    elif part == "runs":
        found = comparison.compare_runs(recorded, current)
    else:
        found = comparison.compare_commands(recorded, current, exit_codes=options.exit_codes)
    _print(part, found, everything=options.all)
    if part == "requests" and found:
        print(f"  by target: {comparison.count_targets(found) or 'none'}")
    return len(found)


def _print(part: str, found: list[str], *, everything: bool = False) -> None:
    print(f"{part}: {len(found)} differences" if found else f"{part}: no difference")
    printed = found if everything else found[:_SHOWN]
    for one in printed:
        print(f"- {one}")
    if len(found) > len(printed):
        print(f"- ... and {len(found) - len(printed)} more: --all prints them")


def _coverage(options: argparse.Namespace) -> int:
    current = suite_coverage.measure(options.tests, options.jobs)
    if current is None:
        print("baseline: coverage was not measured: a test failed")
        return 1
    recorded = files.read("coverage")
    if options.task == "coverage":
        print(f"wrote {files.write('coverage', comparison.within_tolerance(recorded, current))}")
        return 0
    if recorded is None:
        print("coverage: not recorded: run make baseline-coverage")
        return 1
    found = comparison.compare_coverage(recorded, current, renames.PACKAGES)
    _print("coverage", found, everything=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
