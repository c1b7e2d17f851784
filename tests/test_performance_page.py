"""The performance pages show the content of bench/results.json."""

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
"""The backgrounds of the light and the dark theme."""


@pytest.fixture
def bench(monkeypatch):
    """The modules that render the pages; they are not part of the package."""
    monkeypatch.syspath_prepend(str(ROOT))
    return {name: importlib.import_module(f"bench.{name}") for name in ("chart", "bars", "results")}


@pytest.fixture
def chart(bench):
    return bench["chart"]


@pytest.fixture
def row(bench):
    def make(name="burst anthropic: tenuto / anthropic", run="peers", **more):
        fields = {"value": 4.0, "unit": "ms CPU per 1,000 events", "ratio": 0.05, **more}
        return bench["results"].Result(name=name, run=run, **fields)

    return make


def write_results(folder, *rows):
    """Write a file of results."""
    path = folder / "results.json"
    path.write_bytes(msgspec.json.encode({"results": rows, "machine": {}, "runs": {}}))
    return path


@pytest.mark.parametrize("page", PAGES)
def test_page_is_up_to_date(chart, page):
    """Run `python -m bench.chart` after a measurement or a change of the texts."""
    current = (ROOT / page).read_bytes().decode() if (ROOT / page).exists() else None

    assert current == chart.render_pages().get(ROOT / page), f"{page} is stale: python -m bench.chart"


def test_each_topic_has_a_row(chart):
    """A renamed row would silently disappear from the table and the chart."""
    assert [] == chart.find_missing_topics(chart.load_results())


def test_page_shows_all_rows_and_no_others(chart):
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    tables = page[page.index("## Method") :]
    shown = [unescape(name) for name in re.findall(r"(?m)^\| ([^|]+?) \|", tables) if set(name) != {"-"}]

    assert sorted(shown) == sorted(result.name for result in chart.load_results().results)


def test_pages_change_with_the_figures(chart, row, tmp_path):
    before, after = (
        chart.render_pages(path=write_results(tmp_path, row(ratio=ratio, value=value)))
        for ratio, value in ((0.05, 4.0), (0.1, 8.0))
    )

    assert {str(path.relative_to(ROOT)) for path in before} == set(PAGES)
    assert [] == [path for path in before if before[path] == after[path]]


def test_unmeasured_rows_are_left_out(chart, row, tmp_path):
    """Without other libraries there is no chart; one without a figure has its reason on the page and is not in the table."""
    soak = row("soak 1 s: memory", run="soak", ratio=None, unit="MB")
    unmeasured = row(
        "burst anthropic: tenuto / quidam", value=0.0, ratio=None, unit="not measured", detail="no such | thing"
    )
    without_peers = chart.render_pages(path=write_results(tmp_path, soak))
    with_peers = chart.render_pages(path=write_results(tmp_path, soak, row(), unmeasured))

    assert ROOT / "docs" / "performance.svg" not in without_peers
    assert "performance.svg" not in without_peers[ROOT / "docs" / "performance.md"]
    assert "quidam" not in with_peers[ROOT / "README.md"]
    assert "quidam" not in with_peers[ROOT / "docs" / "performance.svg"]
    assert (
        "| burst anthropic: tenuto / quidam | | | | | no such \\| thing |"
        in with_peers[ROOT / "docs" / "performance.md"]
    )


def test_topic_is_missing_after_its_run_was_measured(chart, row, tmp_path):
    """The runs are measured on different days."""
    assert [] == chart.find_missing_topics(
        chart.load_results(write_results(tmp_path, row("soak 1 s: memory", run="soak")))
    )
    assert "burst chat" in chart.find_missing_topics(chart.load_results(write_results(tmp_path, row())))
    assert "burst anthropic" not in chart.find_missing_topics(chart.load_results(write_results(tmp_path, row())))


def test_noisy_row_meets_no_goal(chart, row):
    assert chart.format_verdict(row(goal=0.1, passed=True)) == "met"
    assert chart.format_verdict(row(goal=0.1, passed=False)) == "**missed**"
    assert chart.format_verdict(row(goal=0.1, passed=False, noisy=True)) == "noisy"
    assert chart.format_multiple(row(noisy=True)) == "~20 x"


def test_readme_without_markers_is_an_error(chart, row, tmp_path):
    with pytest.raises(SystemExit, match="no markers"):
        chart.replace_section("# tenuto\n", chart.load_results(write_results(tmp_path, row())))


def luminance(color):
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("background", [WHITE, BLACK])
def test_chart_is_readable_on_each_background(bench, background):
    """Bars need a contrast of 3; 4.2 is the highest possible for text on both backgrounds."""
    colors = bench["bars"].COLORS

    assert all(contrast(color, background) >= 3 for color in colors.values())
    assert contrast(colors["text"], background) >= 4.2


def test_chart_is_complete(chart, row, tmp_path):
    """It is XML for any name of a library; the bars are proportional to the figures and inside the chart."""
    rows = [row(ratio=0.5), row("burst anthropic: tenuto / <&>", ratio=0.25)]
    render_pages = chart.render_pages(path=write_results(tmp_path, *rows))[ROOT / "docs" / "performance.svg"]
    chart_element = ET.fromstring(render_pages)
    namespace = "{http://www.w3.org/2000/svg}"
    bars = [float(bar.get("width")) for bar in chart_element.iter(f"{namespace}rect") if bar.get("height") == "13"]

    assert "<&>" in [text.text for text in chart_element.iter(f"{namespace}text")]
    assert bars == pytest.approx([max(bars) / 4, max(bars) / 2, max(bars)], abs=0.1)
    assert max(bars) + 210 < float(chart_element.get("width"))


@pytest.mark.parametrize(
    ("ratios", "text"),
    [
        ({"anthropic": 1 / 18.9}, "CPU per stream event, as a multiple of tenuto: `anthropic` more than 10 x.\n"),
        ({"anthropic": 1 / 5.9, "openai": 1 / 41}, ": `anthropic` more than 5 x, `openai` more than 40 x."),
        ({"anthropic": 1 / 1.9}, ""),
        ({}, ""),
    ],
)
def test_summary_rounds_figures_down(chart, row, tmp_path, ratios, text):
    rows = [row(f"burst anthropic: tenuto / {name}", ratio=ratio) for name, ratio in ratios.items()]
    summary = chart.render_summary(chart.load_results(write_results(tmp_path, *rows)))

    assert text in summary
    assert bool(summary) == bool(text)


def test_summary_uses_the_lowest_multiple_that_is_not_noisy(chart, row, tmp_path):
    rows = [
        row("burst chat: tenuto / openai", ratio=1 / 70),
        row("burst responses: tenuto / openai", ratio=1 / 35),
        row("burst anthropic: tenuto / anthropic", ratio=1 / 20, noisy=True),
    ]
    summary = chart.render_summary(chart.load_results(write_results(tmp_path, *rows)))

    assert summary == "CPU per stream event, as a multiple of tenuto: `openai` more than 30 x.\n"
