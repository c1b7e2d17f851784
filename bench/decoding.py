"""Measure decoding without a network: CPU from bytes to events and the assembled message.

It is compared with `bench.minimal`, which splits the bytes at blank lines and decodes each event with untyped msgspec,
64 KB at a time. Deltas are counted and the text is compared.
"""

from __future__ import annotations

import json
import statistics
from functools import partial
from pathlib import Path

from bench.minimal import READ, decode_untyped
from bench.results import Board, make_result
from bench.streams import DIALECTS, MAKERS, join_text
from bench.turns import measure_cpu, measure_in_turns
from tenuto.core.events import ContentDelta, MessageDone
from tenuto.core.provider import Provider, Target
from tenuto.wire.codec import codec_for

GOALS = {"anthropic-messages": 2.2, "openai-responses": 2.2, "openai-chat": 2.8, "gemini": 2.8}
GROWTH_GOAL = 1.3
LONG = 100_000
UNIT = "ms CPU per 1,000 events"


def decode_stream(dialect: str, body: bytes) -> tuple[int, str]:
    """Decode a stream; return the number of emitted deltas and the assembled text."""
    target = Target(Provider("bench", dialect, ""), "", dialect)
    decoder = codec_for(dialect).decoder(target)
    deltas = 0
    for at in range(0, len(body), READ):
        for event in decoder.feed(body[at : at + READ]):
            deltas += type(event) is ContentDelta
    last = decoder.finish()[-1]
    assert isinstance(last, MessageDone)
    return deltas, last.response.text


def make_checked_stream(dialect: str, count: int, size: int) -> bytes:
    """Make a stream and check that all of it is decoded."""
    body = MAKERS[dialect](count, size)
    deltas, text = decode_stream(dialect, body)
    if (deltas, text) != (count, join_text(count, size)):
        raise SystemExit(f"{dialect}: emitted {deltas} of {count} deltas, text equal: {text == join_text(count, size)}")
    return body


def measure_fixed(board: Board, size: int) -> None:
    """Measure streams of 1,000 deltas of `size` bytes."""
    for dialect in DIALECTS:
        body = make_checked_stream(dialect, 1000, size)
        functions = {
            "tenuto": partial(measure_cpu, decode_stream, dialect, body),
            "untyped": partial(measure_cpu, decode_untyped, body),
        }
        turns = measure_in_turns(functions, 5)
        name = f"in memory, {size} B, {dialect}: tenuto / untyped decode"
        board.add(turns.make_result(name, "tenuto", "untyped", goal=GOALS[dialect], unit=UNIT))


def _lowest_cpu(function, *args) -> float:
    return min(measure_cpu(function, *args) for _ in range(5))


def measure_growth(board: Board) -> None:
    """Compare the cost per event in a stream 100 times as long, each as a ratio to the untyped decode."""
    for dialect in DIALECTS:
        short, long = make_checked_stream(dialect, 1000, 100), make_checked_stream(dialect, LONG, 100)
        functions = {
            "short": partial(_lowest_cpu, decode_stream, dialect, short),
            "short untyped": partial(_lowest_cpu, decode_untyped, short),
            "long": partial(measure_cpu, decode_stream, dialect, long),
            "long untyped": partial(measure_cpu, decode_untyped, long),
        }
        turns = measure_in_turns(functions, 1)
        pairs = zip(turns.ratios("long", "long untyped"), turns.ratios("short", "short untyped"), strict=True)
        value = turns.lowest("long") / LONG * 1e6
        detail = f"vs {turns.lowest('short') * 1e3:.3g}; both relative to untyped decode"
        growth = [one / other for one, other in pairs]
        board.add(
            make_result(
                f"in memory, {LONG:,} deltas, {dialect}: CPU per event / with 1,000",
                growth,
                value=value,
                unit=UNIT,
                goal=GROWTH_GOAL,
                run="bench",
                calibrations=turns.calibrations,
                detail=detail,
            )
        )


def print_recorded(corpus: Path) -> None:
    """Print the cost of the longest recorded streams of each dialect, for comparison."""
    if not (corpus / "manifest.jsonl").exists():
        print(f"no recorded streams: {corpus} not found")
        return
    rows = [json.loads(line) for line in (corpus / "manifest.jsonl").read_text().splitlines()]
    for dialect in DIALECTS:
        streams = [r for r in rows if r["dialect"] == dialect and r["transport"] == "sse" and r["status"] == 200]
        bodies = {r["path"]: (corpus / r["path"] / r["response_file"]).read_bytes() for r in streams}
        for path in sorted(bodies, key=lambda path: -bodies[path].count(b"data:"))[:3]:
            body = bodies[path].replace(b"\r\n", b"\n")
            deltas, _ = decode_stream(dialect, body)
            functions = {
                "tenuto": partial(measure_cpu, decode_stream, dialect, body),
                "untyped": partial(measure_cpu, decode_untyped, body),
            }
            turns = measure_in_turns(functions, 1, has_goal=False)
            ratio = statistics.median(turns.ratios("tenuto", "untyped"))
            print(
                f"{dialect:20} recorded {ratio:5.2f} x untyped decode  {decode_untyped(body):5} events {deltas:5} deltas  {path}"
            )


def run(board: Board) -> None:
    """Measure this section and add its rows."""
    measure_fixed(board, 100)
    measure_fixed(board, 20)
    measure_growth(board)
