"""The programs of users type-check under `mypy --strict`, and their errors are found."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAMS = ROOT / "tests" / "typing"
MISTAKES = PROGRAMS / "mistakes.py"
COMPLAINT = re.compile(r"(.+?):(\d+): error: .*\[([a-z-]+)\]")


def find_errors(*more: Path) -> dict[str, dict[int, set[str]]]:
    """Run mypy once over `src`, the examples, tests/typing and other paths: its codes by file and line.

    `src` is named, too, so that mypy uses the cache of `make check`.
    """
    command = [sys.executable, "-m", "mypy", "--no-pretty", "--hide-error-context", "src", "examples", "tests/typing"]
    done = subprocess.run([*command, *more], capture_output=True, text=True, encoding="utf-8", cwd=ROOT, check=False)
    found: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for line in done.stdout.splitlines():
        if match := COMPLAINT.fullmatch(line):
            found[Path(match[1]).as_posix()][int(match[2])].add(match[3])
    assert 1 == done.returncode, done.stdout + done.stderr  # it ran to its end and found errors
    return {path: dict(lines) for path, lines in found.items()}


def test_programs_examples_and_pages_type_check(tmp_path):
    """They have no errors; each error of `mistakes.py` is found, and no other."""
    marked = [line.partition("  # expect: ")[2] for line in MISTAKES.read_text("utf-8").splitlines()]
    expected = {at: set(codes.split(", ")) for at, codes in enumerate(marked, 1) if codes}

    pages = [
        (ROOT / name).read_text("utf-8")
        for name in (
            "README.md",
            "docs/agent.md",
            "docs/client.md",
            "docs/handover.md",
            "docs/simulator.md",
            "docs/store.md",
            "docs/testing.md",
        )
    ]
    readme = re.findall(r"```python\n(.*?)```", "".join(pages), re.DOTALL)
    program_paths = [tmp_path / f"readme_{at}.py" for at in range(len(readme))]
    for path, program in zip(program_paths, readme, strict=True):
        path.write_text(program, "utf-8")

    found = find_errors(*program_paths)

    assert expected == found.pop("tests/typing/mistakes.py")
    assert {} == {path: lines for path, lines in found.items() if not path.startswith("src/")}


def test_programs_pass_pyright(tmp_path):
    """In strict mode. `pip install pyright[nodejs]` has the command."""
    pyright = shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed")
    settings = {
        "include": [os.path.relpath(PROGRAMS, tmp_path)],
        "exclude": [os.path.relpath(MISTAKES, tmp_path)],
        "extraPaths": [str(ROOT / "src")],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
    }
    config = tmp_path / "pyrightconfig.json"
    config.write_text(json.dumps(settings), "utf-8")
    command = [pyright, "--project", str(config), "--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", cwd=ROOT, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_programs_check_types_and_are_short():
    """At least fifteen, of at most 66 lines, each with `assert_type`."""
    programs = {path.name: path.read_text("utf-8") for path in PROGRAMS.glob("*.py") if path != MISTAKES}

    assert 15 <= len(programs)
    assert {} == {name: text for name, text in programs.items() if len(text.splitlines()) > 66}
    assert [] == [name for name, text in programs.items() if "assert_type(" not in text]
