"""The pages are correct: names, tests and modules exist, and promises have their tests."""

from __future__ import annotations

import ast
import functools
import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from cli.test_page import pattern
from tenuto.core import journal
from tenuto.store import schema

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "specifications.md").read_text("utf-8")
DEVIATIONS = PAGE[PAGE.index("\n## Deviations") : PAGE.index("\n## S0:")]
TABLES = PAGE[PAGE.index("\n## S0:") :]
PITFALLS = (ROOT / "docs" / "pitfalls.md").read_text("utf-8")
LAST = {"S0-": 150, "S1-": 27, "S2-": 48, "S3-": 155, "S4-": 20, "C": 66}
PROMISES = [f"{head}{number}" for head, last in LAST.items() for number in range(1, last + 1)]
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.name != "__init__.py")


def rows(text: str) -> list[list[str]]:
    """Return the rows of all tables as cells, without headers."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [
        cells for line in lines if (cells := [cell.strip() for cell in line.strip("|").split("|")]) and _numbered(cells)
    ]


def _numbered(cells: list[str]) -> bool:
    return re.match(r"(S\d-|C)\d", cells[0]) is not None


def numbers(cell: str) -> list[str]:
    """Return the numbers in a cell, with ranges expanded: `S0-25 to S0-28, S0-30`."""
    found: list[str] = []
    for head, first, _, last in re.findall(r"(S\d-|C)(\d+)(?: ≠)?(?: to (S\d-|C)(\d+))?", cell):
        found += [f"{head}{number}" for number in range(int(first), int(last or first) + 1)]
    return found


PLACED = [number for cells in rows(TABLES) for number in numbers(cells[0])]


def test_specifications_page_lists_every_promise():
    """No other promise is listed."""
    assert [] == sorted(set(PROMISES) - set(PLACED))
    assert [] == sorted(set(PLACED) - set(PROMISES))


def test_every_promise_has_a_module_a_test_or_a_part():
    neither = {"C8", "C66", "S4-20"}
    bare = [
        cells[0]
        for cells in rows(TABLES)
        if not re.search(r"\.py|\.md|\*\*later\*\*", " ".join(cells[2:])) and not set(numbers(cells[0])) <= neither
    ]

    assert [] == bare


def test_deviations_are_marked_and_explained():
    """Each mark has an explanation, and each explanation a mark."""
    explained = {number for cells in rows(DEVIATIONS) for number in numbers(cells[0])}
    marked = [numbers(cells[0]) for cells in rows(TABLES) if "≠" in cells[0]]

    assert [] == sorted(explained - {number for row in marked for number in row})
    assert [] == [row for row in marked if explained.isdisjoint(row)]
    assert all(len(cells) == 4 and all(cells) for cells in rows(DEVIATIONS))


@functools.cache
def functions_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8")) if path.is_file() else ast.Module([], [])
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("page", [PAGE, PITFALLS], ids=["specifications", "pitfalls"])
def test_every_named_test_exists(page):
    """With its file and its name."""
    named = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", page)))

    assert named
    assert [] == [f"{path}::{name}" for path, name in named if name not in functions_in(ROOT / "tests" / path)]


def test_every_pitfall_has_its_test_or_its_part():
    """In order, each once; a mark has an explanation with a link back."""
    ways, tables = PITFALLS.split("\n## Anthropic\n")
    lines = [line.strip("|").split("|") for line in tables.splitlines() if re.match(r"\| [PR]\d", line)]
    expected = [f"P{number}" for number in range(1, 103)] + [f"R{number}" for number in range(1, 26)]

    assert [number for cells in lines for number in re.findall(r"[PR]\d+", cells[0])] == expected
    assert [] == [cells[0] for cells in lines if "::test_" not in cells[2] and "**later**" not in cells[2]]
    assert [cells[0].split()[0] for cells in lines if "≠" in cells[0]] == re.findall(r"^\| (P\d+) ", ways, re.MULTILINE)


def test_architecture_page_names_the_modules():
    """Each name exists, and each module of a package is named, by itself or by its directory."""
    package = ROOT / "src" / "tenuto"
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = set(re.findall(r"`(\w+/[\w/]*(?:\.py)?)`", page))
    modules = {str(path.relative_to(package)) for path in package.glob("*/**/*.py") if not path.name.startswith("__")}
    unnamed = {module for module in modules if not any(module == name or module.startswith(name) for name in named)}

    assert {name for name in named if not (package / name).exists() and not name.startswith("tests/")} == set()
    assert {module for module in unnamed if not module.startswith("cli/")} == set()


def test_every_module_and_name_exists():
    """A module with the name in it, or a file of the project."""
    named = sorted(set(re.findall(r"`([\w/]+\.py)(?::([\w.]+))?`", PAGE)))

    assert named
    assert [] == [f"{path}:{name}" for path, name in named if not _exists(path, name)]


def _exists(path: str, name: str) -> bool:
    if path.startswith("tests/"):
        return (ROOT / path).is_file()
    if not (ROOT / "src" / "tenuto" / path).is_file():
        return False
    found: object = importlib.import_module(
        ".".join(["tenuto", *Path(path).with_suffix("").parts]).removesuffix(".__init__")
    )
    for step in name.split(".") if name else ():
        found = getattr(found, step, None)
    return found is not None


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
def test_every_linked_page_exists(page):
    """In links and in text."""
    named = set(re.findall(r"`(docs/[\w./-]+\.md)`", page.read_text("utf-8")))

    assert [] == sorted(name for name in named if not (ROOT / name).is_file())


def test_journal_page_names_every_kind_and_field():
    page = (ROOT / "docs" / "journal.md").read_text("utf-8")
    fields_on_page = {}
    for tag, name, fields in re.findall(r"(?m)^\| `(\w+)` \| `(\w+)` \| (.*) \|$", page):
        fields_on_page[tag] = (name, re.findall(r"(\[?)`(\w+)`", fields))
    kinds = {
        kind.__struct_config__.tag: (
            kind.__name__,
            [("" if field.required else "[", field.name) for field in msgspec.structs.fields(kind)],
        )
        for kind in get_args(journal.EntryPayload)
    }
    own = {tag: (name, [one for one in fields if one[1] != "unknown_fields"]) for tag, (name, fields) in kinds.items()}

    assert own == fields_on_page
    for version in (journal.VERSION, schema.VERSION, schema.EXPORT_FORMAT):
        assert f"now {version})" in page


# --- examples ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_has_at_most_40_lines(example):
    assert len(example.read_text("utf-8").splitlines()) <= 40


def test_demo_prints_the_output_in_readme():
    """Without a terminal; `...` on a separate line stands for any lines."""
    demo = [sys.executable, "-m", "examples.demo"]
    done = subprocess.run(demo, capture_output=True, text=True, encoding="utf-8", cwd=ROOT, check=False)
    page = (ROOT / "README.md").read_text("utf-8")
    (expected,) = re.findall(r"```text\n(1\. .*?)```", page, re.DOTALL)

    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(pattern(expected), done.stdout.removeprefix("\n")), done.stdout
    assert "\x1b" not in done.stdout
