"""Every program in README and docs/ runs unchanged: the simulator imitates its models."""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAM = re.compile(r"```python\n(?!# \w+\.py\n)(.*?)```", re.DOTALL)
"""Programs without a file name: files of docs/command are run by the tests of the command."""
PROGRAMS = [
    pytest.param(found[1], id=f"{page.stem}-{number}")
    for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
    for number, found in enumerate(PROGRAM.finditer(page.read_text("utf-8")), 1)
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs(program, tenuto_sim, monkeypatch, tmp_path):
    """Each program runs in its own directory: tests with pytest, `main` as a function."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\nsunset")
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.7\n")
    names = {"__name__": "page"}
    exec(program, names)
    for name, made in [*names.items()]:
        if name.startswith("test_"):
            made(tenuto_sim)
        elif name == "main" and inspect.iscoroutinefunction(made) and "asyncio.run(" not in program:
            asyncio.run(made())

    tenuto_sim.assert_clean()
