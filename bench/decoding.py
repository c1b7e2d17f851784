"""What reading a stream costs in memory: CPU of bytes -> events -> assembled message, beside the floor of `bench.floors`:
split on blank lines, untyped msgspec, 64 KB at a time. Deltas are counted and the text is compared, so a faster way to
do nothing is no win.
"""

from __future__ import annotations

import json
import statistics
from functools import partial
from pathlib import Path

from bench.floors import READ, in_memory
from bench.results import Board, judged
from bench.streams import DIALECTS, MAKERS, expected
from bench.turns import cpu, in_turns
from tenuto.core.events import ContentDelta, MessageDone
from tenuto.core.provider import Provider, Target
from tenuto.wire.registry import codec_for

GOALS = {"anthropic-messages": 2.2, "openai-responses": 2.2, "openai-chat": 2.8, "gemini": 2.8}
LINEAR = 1.3
LARGE = 100_000
UNIT = "ms CPU per 1,000 events"


def ours(dialect: str, body: bytes) -> tuple[int, str]:
    """Read the stream as a caller would; return the number of deltas delivered and the text assembled."""
    target = Target(Provider("bench", dialect, ""), "", dialect)
    decoder = codec_for(dialect).decoder(target)
    deltas = 0
    for at in range(0, len(body), READ):
        for event in decoder.feed(body[at : at + READ]):
            deltas += type(event) is ContentDelta
    last = decoder.finish()[-1]
    assert isinstance(last, MessageDone)
    return deltas, last.response.text


def checked(dialect: str, count: int, size: int) -> bytes:
    """Make a stream, and see that all of it is read."""
    body = MAKERS[dialect](count, size)
    deltas, text = ours(dialect, body)
    if (deltas, text) != (count, expected(count, size)):
        raise SystemExit(
            f"{dialect}: delivered {deltas} of {count} deltas, text equal: {text == expected(count, size)}"
        )
    return body


def fixed(board: Board, size: int) -> None:
    """The fixed streams: 1,000 deltas of so many bytes."""
    for dialect in DIALECTS:
        body = checked(dialect, 1000, size)
        acts = {"ours": partial(cpu, ours, dialect, body), "floor": partial(cpu, in_memory, body)}
        turns = in_turns(acts, 5)
        name = f"in memory, {size} B, {dialect}: ours / floor"
        board.add(turns.judged(name, "ours", "floor", goal=GOALS[dialect], unit=UNIT))


def _least(act, *args) -> float:
    return min(cpu(act, *args) for _ in range(5))


def linear(board: Board) -> None:
    """What an event costs in a stream a hundred times as long, both beside the floor."""
    for dialect in DIALECTS:
        small, large = checked(dialect, 1000, 100), checked(dialect, LARGE, 100)
        acts = {
            "small": partial(_least, ours, dialect, small),
            "small floor": partial(_least, in_memory, small),
            "large": partial(cpu, ours, dialect, large),
            "large floor": partial(cpu, in_memory, large),
        }
        turns = in_turns(acts, 1)
        pairs = zip(turns.ratios("large", "large floor"), turns.ratios("small", "small floor"), strict=True)
        value = turns.least("large") / LARGE * 1e6
        detail = f"against {turns.least('small') * 1e3:.3g}; each beside the floor"
        growth = [long / short for long, short in pairs]
        board.add(
            judged(f"in memory, {LARGE:,} deltas, {dialect}: an event / of 1,000", growth, value=value, unit=UNIT,
                   goal=LINEAR, run="bench", calibrations=turns.calibrations, detail=detail)
        )  # fmt: skip


def recorded(corpus: Path) -> None:
    """Print the recorded streams with the most events of each dialect, for comparison with the fixed ones."""
    if not (corpus / "manifest.jsonl").exists():
        print(f"no recorded streams: {corpus} is not there")
        return
    rows = [json.loads(line) for line in (corpus / "manifest.jsonl").read_text().splitlines()]
    for dialect in DIALECTS:
        streams = [r for r in rows if r["dialect"] == dialect and r["transport"] == "sse" and r["status"] == 200]
        bodies = {r["path"]: (corpus / r["path"] / r["response_file"]).read_bytes() for r in streams}
        for path in sorted(bodies, key=lambda path: -bodies[path].count(b"data:"))[:3]:
            body = bodies[path].replace(b"\r\n", b"\n")
            deltas, _ = ours(dialect, body)
            acts = {"ours": partial(cpu, ours, dialect, body), "floor": partial(cpu, in_memory, body)}
            turns = in_turns(acts, 1, judged=False)
            ratio = statistics.median(turns.ratios("ours", "floor"))
            print(f"{dialect:20} recorded {ratio:5.2f} x floor  {in_memory(body):5} events {deltas:5} deltas  {path}")


def run(board: Board) -> None:
    """Measure, and add the rows."""
    fixed(board, 100)
    fixed(board, 20)
    linear(board)
