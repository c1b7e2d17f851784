"""Every program on README and in docs/ runs, against the simulator: the same text, but for the names of models."""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path

import pytest

from tenuto.catalog import PROVIDERS

ROOT = Path(__file__).parent.parent
MODELS = {
    name: f"sim/{name}"
    for name in (
        "anthropic/claude-opus-4-6",
        "anthropic/claude-sonnet-5-5",
        "google/gemini-3-flash-preview",
        "groq/llama-3.3-70b-versatile",
        "openai/gpt-5.2",
        "openai/text-embedding-3-small",
    )
}
MODELS |= {"anthropic": "sim"}  # who is asked for a list of models
"""Whom the pages ask, and who answers here."""
PROGRAM = re.compile(r"```python\n(?!# \w+\.py\n)(.*?)```", re.DOTALL)
"""One that is no file for a command to use: those stand in docs/command and are run there."""
PROGRAMS = [
    pytest.param(found[1], id=f"{page.stem}-{number}")
    for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
    for number, found in enumerate(PROGRAM.finditer(page.read_text("utf-8")), 1)
]
SIMULATED = {f"sim/{name}" for name in PROVIDERS} | {"sim/gemini"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs(program, tenuto_sim, monkeypatch, tmp_path):
    """By itself, in a folder of its own; a test in it as a test, a `main` as it would be called."""
    for name, played in MODELS.items():
        program = program.replace(f'"{name}"', f'"{played}"')
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


def test_no_page_asks_anybody_else():
    """A model that is missing in the table would be asked over the network; one that nobody asks has no place in it."""
    programs = "\n".join(param.values[0] for param in PROGRAMS)
    rows = "|".join(sorted(PROVIDERS))

    assert {name for name in MODELS if "/" in name} == set(re.findall(rf'"((?:{rows})/[\w.-]+)"', programs)) - SIMULATED
