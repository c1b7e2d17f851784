"""The pages about performance say what bench/results.json says, and nothing else."""

from __future__ import annotations

import importlib
import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/performance.md", "docs/performance.svg")
WHITE, BLACK = "#ffffff", "#0d1117"
"""The two backgrounds on which a page is read."""


@pytest.fixture
def bench(monkeypatch):
    """The modules that make the pages; they belong to the project, not to the package."""
    monkeypatch.syspath_prepend(str(ROOT))
    return {name: importlib.import_module(f"bench.{name}") for name in ("chart", "bars", "results")}


@pytest.fixture
def chart(bench):
    return bench["chart"]


@pytest.fixture
def row(bench):
    def make(name="burst anthropic: ours / somebody", run="peers", **more):
        told = {"value": 4.0, "unit": "ms CPU per 1,000 events", "ratio": 0.05, **more}
        return bench["results"].Result(name=name, run=run, **told)

    return make


def kept(folder, *rows):
    """A file of results."""
    path = folder / "results.json"
    path.write_bytes(msgspec.json.encode({"results": rows, "machine": {}, "runs": {}}))
    return path


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_what_the_results_make(chart, page):
    """`python -m bench.chart` writes them; whoever measures anew, or edits one by hand, has to run it."""
    there = (ROOT / page).read_bytes().decode() if (ROOT / page).exists() else None

    assert there == chart.made().get(ROOT / page), f"{page} is stale: python -m bench.chart"


def test_what_the_pages_name_was_measured(chart):
    """A row that was renamed, or is measured no more, would leave the table and the chart without a word."""
    assert [] == chart.absent(chart.loaded())


def test_every_row_is_on_the_page_and_no_other(chart):
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    tables = page[page.index("## How it is measured") :]
    shown = [unescape(name) for name in re.findall(r"(?m)^\| ([^|]+?) \|", tables) if set(name) != {"-"}]

    assert sorted(shown) == sorted(result.name for result in chart.loaded().results)


def test_another_figure_makes_other_pages(chart, row, tmp_path):
    """Each of the three shows it."""
    before, after = (
        chart.made(results=kept(tmp_path, row(ratio=ratio, value=value))) for ratio, value in ((0.05, 4.0), (0.1, 8.0))
    )

    assert {str(path.relative_to(ROOT)) for path in before} == set(PAGES)
    assert [] == [path for path in before if before[path] == after[path]]


def test_what_was_not_measured_is_left_out(chart, row, tmp_path):
    """Without others there is no chart; a peer without a figure has its reason on the page, and no place in the table."""
    soak = row("soak 1 s: memory", run="soak", ratio=None, unit="MB")
    silent = row("burst anthropic: ours / quidam", value=0.0, ratio=None, unit="not measured", detail="no such | thing")
    alone = chart.made(results=kept(tmp_path, soak))
    beside = chart.made(results=kept(tmp_path, soak, row(), silent))

    assert ROOT / "docs" / "performance.svg" not in alone
    assert "performance.svg" not in alone[ROOT / "docs" / "performance.md"]
    assert "quidam" not in beside[ROOT / "README.md"]
    assert "quidam" not in beside[ROOT / "docs" / "performance.svg"]
    assert "| burst anthropic: ours / quidam | | | | | no such \\| thing |" in beside[ROOT / "docs" / "performance.md"]


def test_a_topic_is_missed_once_its_run_was_made(chart, row, tmp_path):
    """Not before: others are measured on another day."""
    assert [] == chart.absent(chart.loaded(kept(tmp_path, row("soak 1 s: memory", run="soak"))))
    assert "burst chat" in chart.absent(chart.loaded(kept(tmp_path, row())))
    assert "burst anthropic" not in chart.absent(chart.loaded(kept(tmp_path, row())))


def test_a_noisy_row_has_met_nothing(chart, row):
    assert chart.verdict(row(goal=0.1, passed=True)) == "met"
    assert chart.verdict(row(goal=0.1, passed=False)) == "**missed**"
    assert chart.verdict(row(goal=0.1, passed=False, noisy=True)) == "noisy"
    assert chart.multiple(row(noisy=True)) == "~20 x"


def test_readme_without_a_place_for_the_table_is_told(chart, row, tmp_path):
    with pytest.raises(SystemExit, match="no place for the table"):
        chart.readme("# tenuto\n", chart.loaded(kept(tmp_path, row())))


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("ground", [WHITE, BLACK])
def test_the_chart_can_be_read_on_any_ground(bench, ground):
    """3 is what bars need, and 4.2 is as much as text can have on both."""
    colours = bench["bars"].COLOURS

    assert all(contrast(colour, ground) >= 3 for colour in colours.values())
    assert contrast(colours["text"], ground) >= 4.2


def test_the_chart_is_whole(chart, row, tmp_path):
    """It is XML, whatever a peer is called; bars are as long as their figures, and none leaves the picture."""
    rows = [row(ratio=0.5), row("burst anthropic: ours / <&>", ratio=0.25)]
    made = chart.made(results=kept(tmp_path, *rows))[ROOT / "docs" / "performance.svg"]
    picture = ET.fromstring(made)
    named = "{http://www.w3.org/2000/svg}"
    bars = [float(bar.get("width")) for bar in picture.iter(f"{named}rect") if bar.get("height") == "13"]

    assert "<&>" in [text.text for text in picture.iter(f"{named}text")]
    assert bars == pytest.approx([max(bars) / 4, max(bars) / 2, max(bars)], abs=0.1)
    assert max(bars) + 210 < float(picture.get("width"))
