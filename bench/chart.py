"""The pages about performance, made of `bench/results.json` and of nothing else.

    python -m bench.chart [--check]

Writes docs/performance.svg, docs/performance.md, and the table in README.md between its two marker comments; with
`--check` it writes nothing, and ends with 1 where one of them is not what would be written. A row that was not measured
is left out. What the pages ask for by name, `TOPICS`, has to be there as soon as its run is: `absent` says what is not.
"""

from __future__ import annotations

import re
import sys
from html import escape
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.bars import Bar, Panel, drawn
from bench.results import PATH, Result

ROOT = Path(__file__).parent.parent
BEGIN = "<!-- performance: made by `python -m bench.chart` from bench/results.json -->"
END = "<!-- performance: end -->"
OURS = "ours"
NOT_MEASURED = "not measured"
RUNS = {
    "peers": ("Beside others", "make bench-peers"),
    "bench": ("Beside the floor, and beside itself", "make bench"),
    "scaling": ("Growth with the input, without the garbage collector", "python -m bench scaling"),
    "soak": ("For a long time", "make soak"),
}


class Topic(NamedTuple):
    """Rows that belong together: those named `NAME: ours / SOMEBODY`, or `NAME DIALECT: ours / SOMEBODY`."""

    run: str
    name: str
    title: str

    def covers(self, row: Result) -> bool:
        """Tell whether a row belongs to it."""
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
"""Of the table: one column each, one line for each peer."""
PANELS = (
    (Topic("peers", "burst anthropic", "Anthropic Messages"), Topic("bench", "burst, anthropic-messages", "")),
    (Topic("peers", "burst responses", "OpenAI Responses"), Topic("bench", "burst, openai-responses", "")),
    (Topic("peers", "burst chat", "OpenAI Chat Completions"), Topic("bench", "burst, openai-chat", "")),
    (Topic("peers", "burst gemini", "Gemini"), Topic("bench", "burst, gemini", "")),
)
"""Of the chart: each beside its peers, and beside its floors."""
TOPICS = (*COLUMNS, *(topic for panel in PANELS for topic in panel))
CHEAPEST = "cheapest that normalises"
"""A row that says once more what another one says."""


class Held(msgspec.Struct):
    """What is in the file."""

    results: list[Result]
    machine: dict[str, str | int | None] = {}
    runs: dict[str, dict[str, str | int | None]] = {}

    def of(self, topic: Topic) -> dict[str, Result]:
        """The measured rows of a topic, by whom we are compared with."""
        found = {}
        for row in self.results:
            other = row.name.partition(f": {OURS} / ")[2]
            if topic.covers(row) and row.ratio and other not in ("", CHEAPEST):
                found[other] = row
        return found


def loaded(path: Path = PATH) -> Held:
    """Read the file. Raise `SystemExit` that says how to make it, if it is not there."""
    if not path.exists():
        raise SystemExit(f"{path} is not there: `make bench` writes it")
    return msgspec.json.decode(path.read_bytes(), type=Held)


def absent(held: Held) -> list[str]:
    """Topics that the pages name and that no row has, though their run was made."""
    made = {row.run for row in held.results}
    wanted = dict.fromkeys(TOPICS)
    return [topic.name for topic in wanted if topic.run in made and not any(map(topic.covers, held.results))]


# --- figures ----------------------------------------------------------------------------------------------------------


def number(value: float) -> str:
    """Three figures, and no more zeros than there are."""
    if value == round(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def multiple(row: Result) -> str:
    """How many times ours another one takes."""
    assert row.ratio
    times = 1 / row.ratio
    return f"{'~' if row.noisy else ''}{times:.{0 if times >= 9.5 else 1}f} x"


def verdict(row: Result) -> str:
    """Whether a goal is met; what is noisy has not met it."""
    if row.goal is None:
        return "noisy" if row.noisy else ""
    if row.noisy:
        return "noisy"
    return "met" if row.passed else "**missed**"


def _version(held: Held, peer: str) -> str:
    for row in held.results:
        if found := re.search(rf"(?<![\w-]){re.escape(peer)} (\d[\w.]*\w)", row.detail):
            return f"{peer} {found[1]}"
    return peer


def _machine(held: Held, run: str) -> str:
    there = held.runs.get(run) or held.machine
    return f"{there.get('date')}, Python {there.get('python')}, {there.get('system')}, {there.get('cores')} cores"


# --- the table --------------------------------------------------------------------------------------------------------


def _lines(rows: list[list[str]]) -> str:
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return "".join(f"| {' | '.join(cells)} |\n".replace("|  |", "| |").replace("|  |", "| |") for cells in lines)


def table(held: Held) -> str:
    """Ours in figures, the others in multiples of ours; a blank is what somebody does not speak or was not asked."""
    columns = [(topic, rows) for topic in COLUMNS if (rows := held.of(topic))]
    if not columns:
        return "The others were not measured yet: `make bench-peers` does it.\n"
    peers = list(dict.fromkeys(other for _, rows in columns for other in rows))
    ours = [number(next(iter(rows.values())).value) for _, rows in columns]
    return _lines(
        [
            ["", *(topic.title for topic, _ in columns)],
            ["tenuto", *ours],
            *(
                [_version(held, peer), *(multiple(rows[peer]) if peer in rows else "" for _, rows in columns)]
                for peer in peers
            ),
        ]
    )


SAID = (
    "ms of CPU per 1,000 events of a stream that comes at once, or per reply; loading is `Client()`, or the import of the other.\n"
    "The others are in multiples of tenuto's: in turns against the same server, in one run; `~` marks what the machine was not\n"
    "still enough for."
)


def section(held: Held) -> str:
    """What stands in README between the markers, the markers included. Ours alone are no comparison, and stay out."""
    more = "`docs/performance.md` has every figure, and how it is measured."
    if "peers" not in {row.run for row in held.results}:
        return f"{BEGIN}\n\n{more}\n\n{END}"
    chart = "![CPU for an event of a stream, beside others](docs/performance.svg)\n\n" if panels(held) else ""
    return f"{BEGIN}\n\n{chart}{SAID} ({_machine(held, 'peers')})\n\n{table(held)}\n{more}\n\n{END}"


def readme(text: str, held: Held) -> str:
    """README with the section made anew. Raise `SystemExit` if it has no place for it."""
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise SystemExit(f"README.md has no place for the table: two lines, {BEGIN} and {END}")
    return before + section(held) + after


# --- the page ---------------------------------------------------------------------------------------------------------

HEAD = """\
# Performance

<!-- Made by `python -m bench.chart` from bench/results.json: change that, or bench/chart.py. -->

What it costs, beside other libraries, beside the least that can be done, and after half an hour. Everything here can be
measured again: `make bench` (4 minutes, no other library is needed), `make bench-peers` (15 minutes, installs each in an
environment of its own), `make soak` (half an hour). They write `bench/results.json`, and `python -m bench.chart` this page.
"""
METHOD = """\
## How it is measured

- A server in a process of its own sends fixed replies; only the CPU of the process that reads is counted.
- Who is compared takes turns in one run, so that the machine's mood cancels out. A ratio is of two figures of the same
  turn, the least of several repetitions each; what is judged is the median of five ratios.
- Beside each turn a fixed loop is timed. Where it moved by more than 15 % between turns, the machine was busy with other
  things, and more turns are taken (for half as long again; beside others, eight); the five count in which the loop was
  fastest, whatever they say. Where it moved all the same, the row is noisy, and meets no goal.
- What is timed is checked in the same run: events are counted, and the text and the arguments compared with those sent. A
  faster way to do nothing is no win.
- "aiohttp + json.loads" splits what comes on blank lines and reads each event as JSON, and nothing else: no types, no
  message put together, no errors. "typed decode" reads events into msgspec structs of the dialect.
- The goal is for the ratio where there is one, else for the figure.
"""


def _rows(held: Held, run: str) -> str:
    cells = [["", "tenuto", "ratio", "goal", "", "what else"]]
    for row in held.results:
        if row.run != run:
            continue
        figure = f"{number(row.value)} {row.unit}" if row.unit not in ("x", NOT_MEASURED) else ""
        ratio = f"{row.ratio:.3g}" if row.ratio is not None else ""
        goal = f"{row.goal:.3g}" if row.goal is not None else ""
        cells.append([_cell(row.name), _cell(figure), ratio, goal, verdict(row), _cell(row.detail)])
    return _lines(cells)


def _cell(text: str) -> str:
    return " ".join(escape(text, quote=False).replace("|", "\\|").split())


def page(held: Held) -> str:
    """docs/performance.md: the chart, the table, how it is measured, and every row."""
    parts = [HEAD]
    if panels(held):
        parts.append("![CPU for an event of a stream, beside others](performance.svg)\n")
    if any(row.run == "peers" for row in held.results):
        parts += [f"{SAID}\n", table(held)]
    parts.append(METHOD)
    for run, (title, command) in RUNS.items():
        mine = [row for row in held.results if row.run == run]
        if mine:
            aimed = [row for row in mine if row.goal is not None]
            met = sum(row.passed is True for row in aimed)
            goals = f" {met} of {len(aimed)} goals are met." if aimed else ""
            parts.append(f"## {title}\n\n`{command}`, {_machine(held, run)}.{goals}\n\n{_rows(held, run)}")
    return "\n".join(parts)


# --- the chart --------------------------------------------------------------------------------------------------------


def panels(held: Held) -> list[Panel]:
    """One for each dialect that was measured: the others' CPU for an event, in multiples of ours."""
    found = []
    for peers, floors in PANELS:
        others = [(_version(held, other), row, "other") for other, row in held.of(peers).items()]
        others += [(other, row, "floor") for other, row in held.of(floors).items()]
        if others:
            bars = [Bar(name, 1 / row.ratio, multiple(row), kind) for name, row, kind in others if row.ratio]
            own = Bar("tenuto", 1.0, f"{number(others[0][1].value)} ms CPU per 1,000 events", "ours")
            found.append(Panel(peers.title, sorted([own, *bars], key=lambda bar: bar.length)))
    return found


def made(root: Path = ROOT, results: Path = PATH) -> dict[Path, str]:
    """Everything that is made, by where it belongs."""
    held = loaded(results)
    pages = {
        root / "docs" / "performance.md": page(held),
        root / "README.md": readme((root / "README.md").read_text("utf-8"), held),
    }
    if shown := panels(held):
        pages[root / "docs" / "performance.svg"] = drawn(shown)
    return pages


def stale() -> dict[Path, str]:
    """What is not as it would be made, by where it belongs."""
    return {path: text for path, text in made().items() if not path.exists() or path.read_bytes().decode() != text}


def write() -> None:
    """Write what is stale, and say so; whoever measured calls this."""
    for path, text in stale().items():
        path.write_bytes(text.encode())
        print(f"{path.relative_to(ROOT)} is written")
    for name in absent(loaded()):
        sys.stderr.write(f"the pages name {name!r}, and no row is named so\n")


def main() -> int:
    if "--check" not in sys.argv[1:]:
        write()
        return 0
    found = [f"{path.relative_to(ROOT)} is stale: python -m bench.chart" for path in stale()]
    print("\n".join(found) or "up to date")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
