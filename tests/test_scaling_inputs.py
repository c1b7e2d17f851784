"""The inputs of `python -m bench scaling` are complete, and its rows have a separate table."""

from __future__ import annotations

import importlib
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def scaling(monkeypatch):
    """Return the module, which is not part of the package."""
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("bench.scaling")


def test_scaling_inputs_are_complete(scaling):
    """Each input counts what was decoded or encoded, and stops the run if something is missing."""
    for name, (make, _) in scaling.make_rows().items():
        short, long = make(30), make(300)
        assert 8 < long.size / short.size < 12, name
        long.process()


def test_scaling_input_stops_the_run_when_calls_are_missing(scaling):
    with pytest.raises(SystemExit, match="calls decoded: 29 of 30"):
        scaling.make_decoded_calls("gemini", 30, lambda count: scaling.CALL_MAKERS["gemini"](count - 1))


def test_scaling_rows_have_a_separate_table(scaling, tmp_path):
    """Writing them does not change the rows of other runs."""
    chart, results = importlib.import_module("bench.chart"), importlib.import_module("bench.results")
    path = tmp_path / "results.json"
    for run in ("bench", scaling.RUN):
        board = results.Board()
        board.add(
            results.Result(name=f"a row of {run}", value=1.0, unit="ms", ratio=1.0, goal=1.3, passed=True, run=run)
        )
        board.write(path)
    results_file = chart.load_results(path)

    assert [row.run for row in results_file.results] == ["bench", scaling.RUN]
    assert set(results_file.runs) == {"bench", scaling.RUN}
    table = chart.render_page(results_file).partition("## Growth with the input")[2]
    assert "a row of scaling" in table
    assert msgspec.json.decode(path.read_bytes())["results"][0]["name"] == "a row of bench"
