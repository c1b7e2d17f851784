"""What keeping a session costs: an append at any length, beside a bare INSERT and beside writing the whole session anew;
many sessions at once; opening and folding a long one.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

import msgspec

from tenuto.core import stored
from tenuto.core.blocks import Text, ToolUse
from tenuto.core.journal import Act, Replied, Said, transcript_of, usage_of
from tenuto.core.messages import AssistantMessage, Usage, UserMessage
from tenuto.store.opening import open_store

LENGTHS = (10, 100, 1_000, 10_000)
APPENDS = 60
ROUNDS = 5
SESSIONS = 100
BODY = 4_000
FLAT = 1.2
BARE = 1.6
FOLD = 3.0
SHARED = 5.0


WORDS = (
    "The",
    "store",
    "keeps",
    '"what',
    "was",
    'said"',
    "—",
    "every",
    "entry,",
    "in",
    "its",
    "place;\nnothing",
    "is",
    "lost,",
    "æøå.",
)


def prose(at: int, size: int) -> str:
    """Make text of so many letters that looks like text: words, quotes, lines, letters outside ASCII."""
    words = WORDS[at % len(WORDS) :] + WORDS[: at % len(WORDS)]
    return (" ".join(words) * (size // 80 + 1))[:size]


def draft(at: int, size: int = 400):
    """Make an entry: what a user or a model says, of so many letters."""
    act: Act = Said(UserMessage(f"Question {at}: {prose(at, size)}"))
    if at % 2:
        blocks = (Text(prose(at, size)), ToolUse(id=f"call_{at}", name="weather", args='{"city": "Oslo"}'))
        act = Replied(AssistantMessage(blocks), usage=Usage(input_tokens=10, output_tokens=5))
    return stored.drafted(act, id=f"e{at:08}", at=1_700_000_000_000 + at)


async def filled(store, session: str, count: int, size: int = 400):
    """Give a session so many entries; return the lease."""
    lease = await store.lease(session)
    for start in range(lease.head, count, 500):
        lease = await store.append(lease, [draft(at, size) for at in range(start, min(start + 500, count))])
    return lease


async def appended(store, lease, count: int) -> tuple[object, float, float]:
    """Append one by one; return the lease, and CPU and wall seconds for each."""
    drafts = [draft(lease.head + at) for at in range(count)]
    cpu, wall = time.process_time(), time.perf_counter()
    for one in drafts:
        lease = await store.append(lease, [one])
    return lease, (time.process_time() - cpu) / count, (time.perf_counter() - wall) / count


def bare(folder: Path, bodies: list[bytes]) -> float:
    """Insert the same bytes with the same pragmas and nothing else; return CPU seconds for each."""
    db = sqlite3.connect(folder / "bare.db", isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=0"):
        db.execute(f"PRAGMA {pragma}").fetchall()
    db.execute("CREATE TABLE IF NOT EXISTS entries (n INTEGER PRIMARY KEY, body BLOB)")
    gc.collect()
    start = time.process_time()
    for body in bodies:
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO entries (body) VALUES (?)", (body,))
        db.execute("COMMIT")
    cost = (time.process_time() - start) / len(bodies)
    db.close()
    return cost


def rewritten(folder: Path, transcript: object) -> float:
    """Write the whole session as JSON, as many do; return wall seconds."""
    start = time.perf_counter()
    with (folder / "session.json").open("wb") as file:
        file.write(msgspec.json.encode(transcript))
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - start


async def by_length(folder: Path, row) -> None:
    async with open_store(folder / "lengths.db") as store:
        leases = {length: await filled(store, f"s{length}", length) for length in LENGTHS}
        costs: dict[int, list[float]] = {length: [] for length in LENGTHS}
        walls: dict[int, list[float]] = {length: [] for length in LENGTHS}
        bares: list[float] = []
        for _ in range(ROUNDS):
            for length in LENGTHS:
                leases[length], cpu, wall = await appended(store, leases[length], APPENDS)
                costs[length].append(cpu)
                walls[length].append(wall)
            bares.append(bare(folder, [draft(at).body for at in range(APPENDS)]))
        for length in LENGTHS[1:]:
            ratio = statistics.median(a / b for a, b in zip(costs[length], costs[LENGTHS[0]], strict=True))
            whole = rewritten(folder, transcript_of(await store.read(f"s{length}")))
            detail = f"{min(costs[length]) * 1e6:.0f} us CPU, {min(walls[length]) * 1e3:.2f} ms an append; the whole as JSON {whole * 1e3:.1f} ms"
            row(f"append at {length} entries, against {LENGTHS[0]}", ratio, FLAT, detail)
        ratio = statistics.median(ours / theirs for ours, theirs in zip(costs[1_000], bares, strict=True))
        row(
            "append, against a bare INSERT",
            ratio,
            BARE,
            f"{min(costs[1_000]) * 1e6:.0f} against {min(bares) * 1e6:.0f} us CPU",
        )


async def written(folder: Path, row) -> None:
    """Count what an append writes: the log of a store that is too young to have it copied."""
    async with open_store(folder / "young.db") as store:
        lease = await filled(store, "young", 20)
        log = folder / "young.db-wal"
        before, start = log.stat().st_size, lease.head
        lease, _, _ = await appended(store, lease, 20)
        each = (log.stat().st_size - before) / (lease.head - start)
        row(
            "bytes written for each byte appended",
            each / len(draft(1).body),
            None,
            f"{each:.0f} bytes an append of {len(draft(1).body)}",
        )


async def at_once(folder: Path, row) -> None:
    async with open_store(folder / "many.db") as store:
        leases = [await filled(store, f"m{at}", 1) for at in range(SESSIONS)]
        ratios, rates = [], []
        for _ in range(ROUNDS):
            leases[0], _, one = await appended(store, leases[0], 40)
            start = time.perf_counter()
            done = await asyncio.gather(*(appended(store, lease, 10) for lease in leases))
            rate = SESSIONS * 10 / (time.perf_counter() - start)
            leases = [lease for lease, _, _ in done]
            ratios.append(rate * one)
            rates.append((1 / one, rate))
        alone, together = rates[ratios.index(statistics.median(ratios))]
        detail = f"{together:.0f} against {alone:.0f} appends a second, {SESSIONS} sessions at once against one"
        row(
            "sessions at once, as a share",
            SHARED / statistics.median(ratios),
            1.0,
            f"{statistics.median(ratios):.1f} times, goal {SHARED:g}; {detail}",
        )


async def opened(folder: Path, row) -> None:
    async with open_store(folder / "long.db") as store:
        await store.release(await filled(store, "long", 10_000, BODY))
    async with open_store(folder / "long.db") as store:  # anew: by now, what searches look into was made
        bodies = [entry.body for entry in await store.read("long")]
        ours, kept, dropped = [], [], []
        decode = msgspec.json.Decoder(Act).decode
        for _ in range(ROUNDS):
            gc.collect()
            start = time.process_time()
            for body in bodies:
                decode(body)
            dropped.append(time.process_time() - start)
            gc.collect()
            start = time.process_time()
            values = [decode(body) for body in bodies]
            kept.append(time.process_time() - start)
            del values
            gc.collect()
            start = time.process_time()
            entries = await store.read("long")
            if len(transcript_of(entries).messages) != 10_000 or not usage_of(entries).input_tokens:
                raise SystemExit("the fold lost something")
            ours.append(time.process_time() - start)
            del entries
        size = sum(map(len, bodies)) / 1e6
        for name, goal, theirs in (("kept", FOLD, kept), ("dropped at once", None, dropped)):
            ratio = statistics.median(one / other for one, other in zip(ours, theirs, strict=True))
            detail = f"{min(ours) * 1e3:.0f} against {min(theirs) * 1e3:.0f} ms CPU, 10,000 entries, {size:.0f} MB"
            row(f"open and fold, against decoding, {name}", ratio, goal, detail)


def run(row) -> None:
    """Measure, and hand each figure to `row(name, ratio, goal, detail)`."""
    with tempfile.TemporaryDirectory() as name:
        for part in (by_length, written, at_once, opened):
            asyncio.run(part(Path(name), row))


if __name__ == "__main__":
    run(lambda name, ratio, goal, detail: print(f"{name:42} {ratio:6.2f}  {goal}  {detail}"))
