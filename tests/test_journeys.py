"""`python -m bench.journeys` records the functions that a frame and a request pass through."""

from __future__ import annotations

import ast
import asyncio
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def journeys(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("bench.journeys")


@pytest.mark.parametrize(
    ("dialect", "decoder"),
    [
        ("anthropic-messages", "tenuto.wire.anthropic"),
        ("openai-responses", "tenuto.wire.responses"),
        ("openai-chat", "tenuto.wire.chat"),
        ("gemini", "tenuto.wire.gemini"),
    ],
)
def test_journey_of_a_frame_is_part_of_the_request(journeys, dialect, decoder):
    recorded = asyncio.run(journeys.record(dialect))
    frame, first, second = (set(recorded[name]) for name in ("frame", "first call", "second call"))

    assert frame < first & second
    assert any(station.module.startswith(decoder) for station in frame)
    assert any(station.name == "AsyncClient.stream" for station in second - frame)
    assert all(station.lines > 0 and "<" not in station.name for station in second)
    assert sys.getprofile() is None


def test_printed_counts_are_those_of_the_listed_functions():
    command = [sys.executable, "-m", "bench.journeys", "openai-chat"]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    sections = {name: lines.splitlines() for name, _, lines in (part.partition(":\n") for part in output.split("\n\n"))}
    summary = output.split("\n\n")[-1]

    for name in ("frame", "first call", "second call", "agent send"):
        modules = {line.split()[1] for line in sections[name]}
        assert f"{name}: {len(modules)} modules, {len(sections[name])} functions," in summary
    assert len(sections["first call"]) > len(sections["frame"]) > 5
    forwarding = {
        tuple(line.split()[1:3]) for name in sections for line in sections[name] if line.endswith("  forwards")
    }
    assert f"functions that only forward: {len(forwarding)}\n" in summary


@pytest.mark.parametrize(
    "code",
    [
        "def f(a, b): return g(a, b)",
        "def f(a, *, b=1): return g(a, b=b)",
        "def f(*args, **kwargs): g(*args, **kwargs)",
        "def f(self, a): return self.inner.f(a)",
        "def f(self): return self.inner.f()",
        "async def f(self, a):\n    'Docstring.'\n    return await self.inner.f(a)",
        "def f(a): yield from g(a)",
    ],
)
def test_function_that_passes_its_parameters_on_forwards(journeys, code):
    assert journeys.is_forwarding(ast.parse(code).body[0])


@pytest.mark.parametrize(
    "code",
    [
        "def f(a, b): return g(a)",
        "def f(a): return g(a, 1)",
        "def f(a): return g(a + 1)",
        "def f(a): return g(h(a))",
        "def f(a):\n    b = g(a)\n    return b",
        "def f(self): return self.a",
        "def f(a): return a",
    ],
)
def test_function_that_does_more_does_not_forward(journeys, code):
    assert not journeys.is_forwarding(ast.parse(code).body[0])
