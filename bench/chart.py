"""Render the performance pages from `bench/results.json`.

    python -m bench.chart [--check]

Writes docs/performance.svg, docs/performance.md, and the section of README.md between its two marker comments. With
`--check`, it writes nothing and exits with 1 if a page is stale. Rows without a figure are omitted. Each topic in
`TOPICS` must have a row if its run was measured: `find_missing_topics` returns the others.
"""

from __future__ import annotations

import re
import sys
from html import escape
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.bars import Bar, Panel, draw_chart
from bench.results import PATH, Result

ROOT = Path(__file__).parent.parent
BEGIN = "<!-- performance: made by `python -m bench.chart` from bench/results.json -->"
END = "<!-- performance: end -->"
TENUTO = "tenuto"
SDKS = ("anthropic", "openai", "google-genai")
"""The libraries in the summary of README.md."""
CHART_TEXT = "CPU per stream event compared with other libraries"
NOT_MEASURED = "not measured"
RUNS = {
    "peers": ("Compared with other libraries", "make bench-peers"),
    "bench": ("Compared with a minimal implementation", "make bench"),
    "scaling": ("Growth with the input, without the garbage collector", "python -m bench scaling"),
    "soak": ("Long runs", "make soak"),
}


class Topic(NamedTuple):
    """The rows named `NAME: tenuto / OTHER` or `NAME DIALECT: tenuto / OTHER`."""

    run: str
    name: str
    title: str

    def has_row(self, row: Result) -> bool:
        return row.run == self.run and f"{row.name.partition(': ')[0]} ".startswith(f"{self.name} ")


COLUMNS = (
    Topic("peers", "burst anthropic", "Anthropic stream, ms CPU"),
    Topic("peers", "burst responses", "Responses stream"),
    Topic("peers", "burst chat", "Chat stream"),
    Topic("peers", "burst gemini", "Gemini stream"),
    Topic("peers", "non-streaming anthropic", "one reply, ms CPU"),
    Topic("peers", "200 streams, peak memory", "200 streams, MB"),
    Topic("peers", "loading", "loading, ms CPU"),
    Topic("peers", "installed packages", "packages"),
    Topic("peers", "installed size", "MB unpacked"),
)
"""The columns of the table."""
PANELS = (
    (Topic("peers", "burst anthropic", "Anthropic Messages"), Topic("bench", "burst, anthropic-messages", "")),
    (Topic("peers", "burst responses", "OpenAI Responses"), Topic("bench", "burst, openai-responses", "")),
    (Topic("peers", "burst chat", "OpenAI Chat Completions"), Topic("bench", "burst, openai-chat", "")),
    (Topic("peers", "burst gemini", "Gemini"), Topic("bench", "burst, gemini", "")),
)
"""The panels of the chart: other libraries, and minimal implementations."""
TOPICS = (*COLUMNS, *(topic for panel in PANELS for topic in panel))
CHEAPEST = "cheapest that normalizes"
"""A row that repeats that of another library."""


class ResultsFile(msgspec.Struct):
    """The content of `bench/results.json`."""

    results: list[Result]
    machine: dict[str, str | int | None] = {}
    runs: dict[str, dict[str, str | int | None]] = {}

    def rows_of(self, topic: Topic) -> dict[str, Result]:
        """Return the measured rows of a topic by the name of the other library."""
        rows = {}
        for row in self.results:
            other = row.name.partition(f": {TENUTO} / ")[2]
            if topic.has_row(row) and row.ratio and other not in ("", CHEAPEST):
                rows[other] = row
        return rows


def load_results(path: Path = PATH) -> ResultsFile:
    """Read the file. Raise `SystemExit` if it does not exist."""
    if not path.exists():
        raise SystemExit(f"{path} not found: run `make bench`")
    return msgspec.json.decode(path.read_bytes(), type=ResultsFile)


def find_missing_topics(results: ResultsFile) -> list[str]:
    """Return the topics that have no row although their run was measured."""
    runs = {row.run for row in results.results}
    return [
        topic.name
        for topic in dict.fromkeys(TOPICS)
        if topic.run in runs and not any(map(topic.has_row, results.results))
    ]


# --- figures ----------------------------------------------------------------------------------------------------------


def format_number(value: float) -> str:
    """Format a number with three significant digits."""
    if value == round(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def format_multiple(row: Result) -> str:
    """Format how many times as much as tenuto the other library takes."""
    assert row.ratio
    times = 1 / row.ratio
    return f"{'~' if row.noisy else ''}{times:.{0 if times >= 9.5 else 1}f} x"


def format_verdict(row: Result) -> str:
    """Format whether the goal is met; a noisy row meets none."""
    if row.goal is None:
        return "noisy" if row.noisy else ""
    if row.noisy:
        return "noisy"
    return "met" if row.passed else "**missed**"


def _add_version(results: ResultsFile, peer: str) -> str:
    for row in results.results:
        if found := re.search(rf"(?<![\w-]){re.escape(peer)} (\d[\w.]*\w)", row.detail):
            return f"{peer} {found[1]}"
    return peer


def _describe_run(results: ResultsFile, run: str) -> str:
    run_info = results.runs.get(run) or results.machine
    return f"{run_info.get('date')}, Python {run_info.get('python')}, {run_info.get('system')}, {run_info.get('cores')} cores"


# --- the table --------------------------------------------------------------------------------------------------------


def _render_lines(rows: list[list[str]]) -> str:
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return "".join(f"| {' | '.join(cells)} |\n".replace("|  |", "| |").replace("|  |", "| |") for cells in lines)


def render_table(results: ResultsFile) -> str:
    """Render tenuto in figures and other libraries in multiples of them; a blank was not measured."""
    columns = [(topic, rows) for topic in COLUMNS if (rows := results.rows_of(topic))]
    if not columns:
        return "No other library was measured: run `make bench-peers`.\n"
    peers = list(dict.fromkeys(other for _, rows in columns for other in rows))
    tenuto = [format_number(next(iter(rows.values())).value) for _, rows in columns]
    others = [
        [_add_version(results, peer), *(format_multiple(rows[peer]) if peer in rows else "" for _, rows in columns)]
        for peer in peers
    ]
    return _render_lines([["", *(topic.title for topic, _ in columns)], ["tenuto", *tenuto], *others])


TABLE_NOTE = (
    "Streams: ms of CPU per 1,000 events of a stream sent in one write. One reply: ms of CPU without streaming. Loading: ms of\n"
    "CPU for `Client()`, or for the import of the other library. Other libraries are multiples of tenuto, measured in turns in\n"
    "one run with the same server; `~` marks figures that are too noisy to be exact."
)


def round_down(value: float) -> int:
    """Round a number above 1 down to one significant digit: 18 becomes 10, 5.1 becomes 5."""
    digits = str(int(value))
    return int(digits[0]) * 10 ** (len(digits) - 1)


def render_summary(results: ResultsFile) -> str:
    """Render one sentence with a lower limit for each SDK: the lowest multiple over the dialects, rounded down."""
    limits = []
    for sdk in SDKS:
        rows = [rows[sdk] for peers, _ in PANELS if sdk in (rows := results.rows_of(peers))]
        multiples = [1 / row.ratio for row in rows if row.ratio and not row.noisy]
        if multiples and min(multiples) >= 2:
            limits.append(f"`{sdk}` more than {round_down(min(multiples))} x")
    return f"CPU per stream event, as a multiple of tenuto: {', '.join(limits)}.\n" if limits else ""


def render_section(results: ResultsFile) -> str:
    """Render the section of README.md with its markers: the chart, a summary and a link."""
    link = "[docs/performance.md](docs/performance.md) has all figures and the method."
    chart = f"![{CHART_TEXT}](docs/performance.svg)\n\n" if make_panels(results) else ""
    return f"{BEGIN}\n\n{chart}{render_summary(results)}{link}\n\n{END}"


def replace_section(text: str, results: ResultsFile) -> str:
    """Return README.md with a new section. Raise `SystemExit` if it has no markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"README.md has no markers for the performance section: add {BEGIN} and {END}")
    return before + render_section(results) + after


# --- the page ---------------------------------------------------------------------------------------------------------

INTRODUCTION = """\
# Performance

<!-- Made by `python -m bench.chart` from bench/results.json: change that, or bench/chart.py. -->

The cost of tenuto compared with other libraries and with a minimal implementation, and after half an hour of load. To
repeat the measurements: `make bench` (4 minutes, needs no other library), `make bench-peers` (15 minutes, installs each
library in its own environment), `make soak` (half an hour). They write `bench/results.json`, and `python -m bench.chart`
writes this page.
"""
METHOD = """\
## Method

- A server in a separate process sends fixed replies; only the CPU of the process that reads them is counted.
- The programs are measured in turns in one run, so that a change of the machine's load affects all of them. A ratio
  divides two figures of the same turn, each the lowest of several repetitions; the goal applies to the median of five
  ratios.
- A fixed loop is timed with each turn. If it varies by more than 15 % between turns, further turns are measured: for half
  as long again, or up to eight in the comparison with other libraries. The five turns with the fastest loop count,
  whatever their figures are. If these still vary, the row is noisy and meets no goal.
- The same run checks the results: events are counted, and text and arguments are compared with those sent.
- "aiohttp + json.loads" splits the response at blank lines and parses each event as JSON; it has no types, assembles no
  message and detects no errors. "typed decode" decodes events into msgspec structs of the dialect. "untyped decode" splits
  bytes in memory and decodes each event with msgspec.
- The goal is an upper limit of the ratio, or of the figure if there is no ratio.
"""


def _render_rows(results: ResultsFile, run: str) -> str:
    cells = [["", "tenuto", "ratio", "goal", "", "details"]]
    for row in results.results:
        if row.run != run:
            continue
        figure = f"{format_number(row.value)} {row.unit}" if row.unit not in ("x", NOT_MEASURED) else ""
        ratio = f"{row.ratio:.3g}" if row.ratio is not None else ""
        goal = f"{row.goal:.3g}" if row.goal is not None else ""
        cells.append(
            [_escape_cell(row.name), _escape_cell(figure), ratio, goal, format_verdict(row), _escape_cell(row.detail)]
        )
    return _render_lines(cells)


def _escape_cell(text: str) -> str:
    return " ".join(escape(text, quote=False).replace("|", "\\|").split())


def render_page(results: ResultsFile) -> str:
    """Render docs/performance.md: the chart, the table, the method and every row."""
    parts = [INTRODUCTION]
    if make_panels(results):
        parts.append(f"![{CHART_TEXT}](performance.svg)\n")
    if any(row.run == "peers" for row in results.results):
        parts += [f"{TABLE_NOTE}\n", render_table(results)]
    parts.append(METHOD)
    for run, (title, command) in RUNS.items():
        rows = [row for row in results.results if row.run == run]
        if rows:
            with_goal = [row for row in rows if row.goal is not None]
            met = sum(row.passed is True for row in with_goal)
            goals = f" {met} of {len(with_goal)} goals are met." if with_goal else ""
            parts.append(
                f"## {title}\n\n`{command}`, {_describe_run(results, run)}.{goals}\n\n{_render_rows(results, run)}"
            )
    return "\n".join(parts)


# --- the chart --------------------------------------------------------------------------------------------------------


def make_panels(results: ResultsFile) -> list[Panel]:
    """Make a panel for each measured dialect: the CPU per event, as a multiple of tenuto."""
    panels = []
    for peers, minimal in PANELS:
        others = [(_add_version(results, other), row, "other") for other, row in results.rows_of(peers).items()]
        others += [(other, row, "minimal") for other, row in results.rows_of(minimal).items()]
        if others:
            bars = [Bar(name, 1 / row.ratio, format_multiple(row), kind) for name, row, kind in others if row.ratio]
            tenuto = Bar("tenuto", 1.0, f"{format_number(others[0][1].value)} ms CPU per 1,000 events", "tenuto")
            panels.append(Panel(peers.title, sorted([tenuto, *bars], key=lambda bar: bar.length)))
    return panels


def render_pages(root: Path = ROOT, path: Path = PATH) -> dict[Path, str]:
    """Render all pages from the results in `path`."""
    results = load_results(path)
    pages = {
        root / "docs" / "performance.md": render_page(results),
        root / "README.md": replace_section((root / "README.md").read_text("utf-8"), results),
    }
    if panels := make_panels(results):
        pages[root / "docs" / "performance.svg"] = draw_chart(panels)
    return pages


def find_stale() -> dict[Path, str]:
    """Return the pages whose file is missing or different."""
    pages = render_pages()
    return {path: text for path, text in pages.items() if not path.exists() or path.read_bytes().decode() != text}


def write_pages() -> None:
    """Write the stale pages and print their names."""
    for path, text in find_stale().items():
        path.write_bytes(text.encode())
        print(f"wrote {path.relative_to(ROOT)}")
    for name in find_missing_topics(load_results()):
        sys.stderr.write(f"the pages need a row named {name!r}\n")


def main() -> int:
    if "--check" not in sys.argv[1:]:
        write_pages()
        return 0
    messages = [f"{path.relative_to(ROOT)} is stale: python -m bench.chart" for path in find_stale()]
    print("\n".join(messages) or "up to date")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
