"""What reading a stream costs: CPU of bytes -> events -> assembled message, as a ratio to the floor; and what the client
costs over a real socket, beside aiohttp with a naive reader (`bench/client.py`).

The floor splits the bytes on blank lines and decodes each event with untyped msgspec, reading 64 KB at a time. Both are
measured in turns in one run, so that the machine's mood cancels out; a figure is the median of 7 ratios. Each run counts
the events that were delivered and compares the text that was assembled, so a faster way to do nothing is no win.

    python -m bench [CORPUS]        CORPUS adds recorded streams of that folder
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from pathlib import Path

import msgspec

from bench import client
from bench.streams import DIALECTS, MAKERS, expected
from tenuto.core.events import ContentDelta, MessageDone
from tenuto.core.target import Provider, Target
from tenuto.wire.dialects import DECODERS

READ = 64 * 1024
GOALS = {"anthropic-messages": 2.2, "openai-responses": 2.2, "openai-chat": 2.8, "gemini": 2.8}
LINEAR = 1.3


def floor(body: bytes) -> int:
    """Split on blank lines, decode untyped; return the number of events."""
    decode = msgspec.json.Decoder().decode
    tail: list[bytes] = []
    count = 0
    for at in range(0, len(body), READ):
        tail.append(body[at : at + READ])
        if b"\n" in tail[-1]:  # joining only what can end here keeps the floor linear in the size of an event
            *events, rest = b"".join(tail).split(b"\n\n")
            tail = [rest]
            for event in events:
                at_data = event.find(b"data: ")
                if at_data >= 0 and event[at_data + 6 :] != b"[DONE]":
                    decode(event[at_data + 6 :])
                count += 1
    return count


def ours(dialect: str, body: bytes) -> tuple[int, str]:
    """Read the stream as a caller would; return the number of deltas delivered and the text assembled."""
    target = Target(Provider("bench", dialect, ""), "", dialect)
    decoder = DECODERS[dialect](target)
    deltas = 0
    for at in range(0, len(body), READ):
        for event in decoder.feed(body[at : at + READ]):
            deltas += type(event) is ContentDelta
    last = decoder.finish()[-1]
    assert isinstance(last, MessageDone)
    return deltas, last.response.text


def cpu(run, *args) -> float:
    gc.collect()
    start = time.process_time()
    run(*args)
    return time.process_time() - start


def ratios(dialect: str, body: bytes, rounds: int, repeat: int) -> tuple[list[float], list[float]]:
    """Measure floor and ours in turns; return the ratios and our CPU seconds per pass."""
    found, costs = [], []
    for _ in range(rounds):
        base = min(cpu(floor, body) for _ in range(repeat))
        cost = min(cpu(ours, dialect, body) for _ in range(repeat))
        found.append(cost / base)
        costs.append(cost)
    return found, costs


def fixed(size: int) -> list[str]:
    missed = []
    for dialect in DIALECTS:
        body = MAKERS[dialect](1000, size)
        deltas, text = ours(dialect, body)
        if (deltas, text) != (1000, expected(1000, size)):
            raise SystemExit(
                f"{dialect}: delivered {deltas} of 1000 deltas, text equal: {text == expected(1000, size)}"
            )
        found, costs = ratios(dialect, body, 7, 15)
        ratio, goal = statistics.median(found), GOALS[dialect]
        verdict = "ok" if ratio <= goal else "MISSED"
        print(
            f"{dialect:20} {size:4} B  {ratio:5.2f} x floor  goal {goal}  {verdict:6} {min(costs) * 1e3:6.2f} ms/1000"
        )
        if verdict != "ok":
            missed.append(f"{dialect} {size} B")
    return missed


def linear() -> list[str]:
    missed = []
    for dialect in DIALECTS:
        small, _ = ratios(dialect, MAKERS[dialect](1000, 100), 7, 15)
        large, _ = ratios(dialect, MAKERS[dialect](100_000, 100), 7, 1)
        growth = min(large) / min(small)
        verdict = "ok" if growth <= LINEAR else "MISSED"
        print(f"{dialect:20} 100,000 deltas cost {growth:4.2f} x per event what 1,000 cost  goal {LINEAR}  {verdict}")
        if verdict != "ok":
            missed.append(f"{dialect} linear")
    return missed


def recorded(corpus: Path) -> None:
    """The recorded streams with the most events of each dialect, for comparison with the fixed ones."""
    rows = [json.loads(line) for line in (corpus / "manifest.jsonl").read_text().splitlines()]
    for dialect in DIALECTS:
        streams = [r for r in rows if r["dialect"] == dialect and r["transport"] == "sse" and r["status"] == 200]
        bodies = {r["path"]: (corpus / r["path"] / r["response_file"]).read_bytes() for r in streams}
        for path in sorted(bodies, key=lambda path: -bodies[path].count(b"data:"))[:3]:
            body = bodies[path].replace(b"\r\n", b"\n")
            deltas, _ = ours(dialect, body)
            found, _ = ratios(dialect, body, 7, 3)
            ratio = statistics.median(found)
            print(f"{dialect:20} recorded {ratio:5.2f} x floor  {floor(body):5} events {deltas:5} deltas  {path}")


def main() -> int:
    missed = fixed(100) + fixed(20)
    missed += linear()
    missed += client.run()
    corpus = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("../shared/corpus")
    if (corpus / "manifest.jsonl").exists():
        recorded(corpus)
    else:
        print(f"no recorded streams: {corpus} is not there")
    print("all goals met" if not missed else f"missed: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
