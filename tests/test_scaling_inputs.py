"""The inputs of `python -m bench scaling` are read and written completely, and its rows have a table of their own."""

from __future__ import annotations

import importlib
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def scaling(monkeypatch):
    """The module; it belongs to the project, not to the package."""
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("bench.scaling")


def test_scaling_inputs_are_complete(scaling):
    """Each input counts what was decoded or encoded, and stops the run if something is missing."""
    for name, (make, _) in scaling.rows().items():
        short, long = make(30), make(300)
        assert 8 < long.size / short.size < 12, name
        long.act()


def test_scaling_input_stops_the_run_when_calls_are_missing(scaling):
    with pytest.raises(SystemExit, match="calls decoded: 29 of 30"):
        scaling.decoded_calls("gemini", 30, lambda count: scaling.CALL_MAKERS["gemini"](count - 1))


def test_scaling_rows_have_a_table_of_their_own(scaling, tmp_path):
    """Written alone, they leave the rows of other runs as they are."""
    chart, results = importlib.import_module("bench.chart"), importlib.import_module("bench.results")
    path = tmp_path / "results.json"
    for run in ("bench", scaling.RUN):
        board = results.Board()
        board.add(
            results.Result(name=f"a row of {run}", value=1.0, unit="ms", ratio=1.0, goal=1.3, passed=True, run=run)
        )
        board.write(path)
    held = chart.loaded(path)

    assert [row.run for row in held.results] == ["bench", scaling.RUN]
    assert set(held.runs) == {"bench", scaling.RUN}
    table = chart.page(held).partition("## Growth with the input")[2]
    assert "a row of scaling" in table
    assert msgspec.json.decode(path.read_bytes())["results"][0]["name"] == "a row of bench"
