"""The programs of tenuto in bench/tasks do their tasks, and docs/comparison.md has the lines of all programs."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMES = sorted(path.parent.name for path in ROOT.glob("bench/tasks/*/tenuto.py"))


@pytest.fixture
def bench_tasks(monkeypatch):
    """Return the modules of the benchmark, which are not part of the package."""
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("bench.tasks.cases"), importlib.import_module("bench.tasks.__main__")


@pytest.mark.parametrize("name", NAMES)
def test_task_ends_with_the_expected_output(bench_tasks, name):
    cases, _ = bench_tasks

    assert cases.run_task(name, "tenuto") == ""


def test_each_task_has_a_program_or_a_reason(bench_tasks):
    cases, _ = bench_tasks
    programs = {(path.parent.name, path.stem) for path in ROOT.glob("bench/tasks/*/*.py")}

    assert sorted(cases.TASKS) == NAMES
    assert {(name, library) for name in NAMES for library in cases.LIBRARIES} == programs | cases.GAPS.keys()


def test_comparison_page_is_current(bench_tasks):
    """`python -m bench.tasks` updates it."""
    _, main = bench_tasks
    page = main.PAGE.read_text("utf-8")
    (header,) = [line for line in page.splitlines() if line.startswith("| task |")]
    titles = tuple(cell.strip() for cell in header.strip("|").split("|")[1:])

    assert main.write_table(page, main.make_table(titles)) == page
