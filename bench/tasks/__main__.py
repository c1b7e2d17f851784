"""Run the programs of all tasks and write their lines of code into docs/comparison.md.

    python -m bench.tasks [TASK ...]

The programs of other libraries run in environments of their own under `.peers`. With names of tasks, only those run, and
nothing is written. The exit code is 1 if a program fails.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import tenuto
from bench.peers.environments import ROOT, Environment, Peer, make_environments
from bench.tasks.cases import GAPS, LIBRARIES, PROGRAMS, TASKS, count_lines, run_task

PAGE = ROOT / "docs" / "comparison.md"
BEGIN, END = "<!-- bench.tasks: begin -->\n", "<!-- bench.tasks: end -->\n"
PEERS = {
    "tasks-pydantic-ai": Peer(("pydantic-ai-slim[anthropic,openai,dbos]", "pytest"), ""),
    "tasks-openai-agents": Peer(("openai-agents[litellm]", "dbos-openai-agents", "pytest"), ""),
}


def make_table(titles: tuple[str, ...]) -> str:
    """Return the table of the lines of all programs."""
    rows = [("task", *titles), ("---", *(["---:"] * len(titles)))]
    for name, task in TASKS.items():
        programs = [PROGRAMS / name / f"{library}.py" for library in LIBRARIES]
        lines = [str(count_lines(program)) if program.exists() else "-" for program in programs]
        rows.append((f"`{name}`: {task.description}", *lines))
    gaps = [f"`{name}`: {reason}." for (name, _), reason in GAPS.items()]
    return "\n".join(["".join(f"| {cell} " for cell in row) + "|" for row in rows] + ["", *gaps]) + "\n"


def write_table(page: str, table: str) -> str:
    """Return the page with a new table between its markers."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table + END + rest.partition(END)[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tasks", description="Ten tasks, three libraries.")
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"tasks: {', '.join(TASKS)}")
    names = parser.parse_args().tasks
    environments: dict[str, Environment] = make_environments([*PEERS], PEERS)
    pythons: list[Path | str | None] = [sys.executable, *(each.python for each in environments.values())]
    failed = 0
    for name in names or TASKS:
        for library, python in zip(LIBRARIES, pythons, strict=True):
            if (name, library) in GAPS:
                continue
            error = run_task(name, library, python) if python else "the library cannot be installed"
            failed += bool(error)
            print(f"{name:14}{library:15}{error or 'ok'}", flush=True)
    versions = (tenuto.__version__, *(each.version for each in environments.values()))
    titles = tuple(
        f"{library.replace('_', '-')} {version}" for library, version in zip(LIBRARIES, versions, strict=True)
    )
    table = make_table(titles)
    print(table)
    if not names and not failed:
        PAGE.write_text(write_table(PAGE.read_text("utf-8"), table), "utf-8")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
