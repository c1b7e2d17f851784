"""Measure the store: appends to sessions of any length, concurrent sessions, opening and folding a long session.

Appends are compared with a plain INSERT and with rewriting the whole session.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.results import Board, Result, calibrate
from bench.turns import Turns, run_in_process
from tenuto.core import stored
from tenuto.core.blocks import Text, ToolUse
from tenuto.core.journal import EntryPayload, MessageAdded, ReplyReceived, transcript_of
from tenuto.core.messages import AssistantMessage, Usage, UserMessage
from tenuto.store.open import open_store

LENGTHS = (10, 100, 1_000, 10_000)
APPENDS = 50
"""Consecutive appends: measures a busy store, not its wake-up."""
PROCESSES = 9
"""Turns of an append that count: each is a new process, and their costs differ by 10 % and more."""
_DISTANT = 1 << 32
TABLES = ("end", "middle")
SESSIONS = 100
BODY = 4_000
LENGTH_GOAL = 1.2
INSERT_GOAL = 3.0
FOLD_GOAL = 3.0
SPEEDUP_GOAL = 4.0


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


def make_prose(at: int, size: int) -> str:
    """Make text of `size` characters with words, quotes, line breaks and characters outside ASCII."""
    words = WORDS[at % len(WORDS) :] + WORDS[: at % len(WORDS)]
    return (" ".join(words) * (size // 80 + 1))[:size]


def make_entry(at: int, size: int = 400):
    """Make the draft of an entry: a user message or a reply, with `size` characters."""
    entry: EntryPayload = MessageAdded(UserMessage(f"Question {at}: {make_prose(at, size)}"))
    if at % 2:
        blocks = (Text(make_prose(at, size)), ToolUse(id=f"call_{at}", name="weather", args='{"city": "Oslo"}'))
        entry = ReplyReceived(AssistantMessage(blocks), usage=Usage(input_tokens=10, output_tokens=5))
    now = 1_700_000_000_000 + at
    return stored.make_draft(
        entry, id=f"{now:012x}{hash((at, size)) % 2**64:016x}", time_ms=now
    )  # the form of an agent's ids


async def fill_session(store, session: str, count: int, size: int = 400):
    """Append entries until the session has `count`; return the lease."""
    lease = await store.lease(session)
    for start in range(lease.head, count, 500):
        lease = await store.append(lease, [make_entry(at, size) for at in range(start, min(start + 500, count))])
    return lease


async def append_entries(store, lease, count: int) -> tuple[object, float, float]:
    """Append entries one by one; return the lease, and the CPU and wall seconds of each."""
    drafts = [make_entry(lease.head + at) for at in range(count)]
    cpu, wall = time.process_time(), time.perf_counter()
    for one in drafts:
        lease = await store.append(lease, [one])
    return lease, (time.process_time() - cpu) / count, (time.perf_counter() - wall) / count


class PlainTable:
    """Insert the same bytes with the same pragmas, each in its own transaction, without the store.

    Rows are inserted at the end of the table, or in the middle if `kind` is "middle".
    """

    def __init__(self, directory: Path, kind: str = "end") -> None:
        self._db = sqlite3.connect(directory / f"{kind}.db", isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=0"):
            self._db.execute(f"PRAGMA {pragma}").fetchall()
        self._db.execute("CREATE TABLE IF NOT EXISTS entries (n INTEGER PRIMARY KEY, body BLOB)")
        [[last_id]] = self._db.execute("SELECT max(n) FROM entries WHERE n < ?", (_DISTANT,)).fetchall()
        self._at = last_id if kind == "middle" else None

    def fill(self, rows: int, last_id: int = 0) -> None:
        """Insert rows in one transaction, so that the table is as long as that of the store."""
        self._db.execute("BEGIN")
        rows_to_insert = ((last_id + at, make_entry(at).body) for at in range(1, rows + 1))
        self._db.executemany("INSERT INTO entries (n, body) VALUES (?, ?)", rows_to_insert)
        self._db.execute("COMMIT")

    def insert_rows(self, bodies: list[bytes]) -> float:
        """Insert rows one by one; return the CPU seconds of each."""
        db = self._db
        ids = [None] * len(bodies)
        if self._at is not None:
            ids = list(range(self._at + 1, self._at + 1 + len(bodies)))
            self._at += len(bodies)
        start = time.process_time()
        for row in zip(ids, bodies, strict=True):
            db.execute("INSERT INTO entries (n, body) VALUES (?, ?)", row)
        return (time.process_time() - start) / len(bodies)

    def close(self) -> None:
        self._db.close()


def rewrite_session(directory: Path, transcript: object) -> float:
    """Write the whole session as a JSON file; return the wall seconds."""
    start = time.perf_counter()
    with (directory / "session.json").open("wb") as file:
        file.write(msgspec.json.encode(transcript))
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - start


def measure_lengths(directory: Path, board: Board) -> None:
    """Measure appends to sessions of several lengths and plain INSERTs, in turns."""
    asyncio.run(_make_sessions(directory))
    names = [*TABLES, *map(str, LENGTHS)]
    turns = Turns(dict.fromkeys(names), turns=PROCESSES)
    walls: dict[str, list[float]] = {str(length): [] for length in LENGTHS}
    while turns.needs_turn:
        calibration = calibrate()
        costs, turn_walls = run_in_process(_measure_lengths_turn, directory, names)
        turns.add(costs, calibration)
        for length, values in turn_walls.items():
            walls[length] += values
    options = {"unit": "us CPU", "scale": 1e6}
    for length in LENGTHS[1:]:
        name = f"append, session of {length:,} entries / of {LENGTHS[0]}"
        rewrite_time = rewrite_session(directory, asyncio.run(_transcript(directory, length)))
        detail = f"{min(walls[str(length)]) * 1e3:.2f} ms wall time; session as JSON {rewrite_time * 1e3:.1f} ms"
        board.add(turns.make_result(name, str(length), str(LENGTHS[0]), goal=LENGTH_GOAL, detail=detail, **options))
    for name, length, table, goal in (
        ("newest session / plain INSERT", LENGTHS[-1], "end", INSERT_GOAL),
        ("older session / plain INSERT in the middle of a table", LENGTHS[-2], "middle", INSERT_GOAL),
        ("older session / plain INSERT", LENGTHS[-2], "end", None),
    ):
        board.add(turns.make_result(f"append, {name}", str(length), table, goal=goal, **options))


async def _make_sessions(directory: Path) -> None:
    """Make the files that each turn copies."""
    async with open_store(directory / "lengths.db") as store:
        for length in LENGTHS:
            await store.release(await fill_session(store, f"s{length}", length))
    for kind in TABLES:
        table = PlainTable(directory, kind)
        table.fill(sum(LENGTHS[:-1]))
        table.fill(LENGTHS[-1], _DISTANT if kind == "middle" else sum(LENGTHS[:-1]))
        table.close()


async def _transcript(directory: Path, length: int) -> object:
    async with open_store(directory / "lengths.db") as store:
        return transcript_of(await store.read(f"s{length}"))


def _measure_lengths_turn(directory: Path, names: list[str]) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Measure a turn on copies; return the CPU seconds of an append by name, and the wall seconds."""
    with tempfile.TemporaryDirectory(dir=directory) as name:
        for file in directory.glob("*.db"):
            shutil.copyfile(file, Path(name) / file.name)
        os.sync()  # else the copies are written during the turn
        return asyncio.run(_measure_lengths_async(Path(name), names))


async def _measure_lengths_async(
    directory: Path, names: list[str]
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    costs: dict[str, list[float]] = {name: [] for name in names}
    walls: dict[str, list[float]] = {str(length): [] for length in LENGTHS}
    tables = {kind: PlainTable(directory, kind) for kind in TABLES}
    async with open_store(directory / "lengths.db") as store:
        leases = {str(length): await store.lease(f"s{length}") for length in LENGTHS}
        gc.collect()
        for name in _rotate(names):
            if name in tables:
                costs[name].append(tables[name].insert_rows([make_entry(at).body for at in range(APPENDS)]))
                continue
            leases[name], cpu, wall = await append_entries(store, leases[name], APPENDS)
            costs[name].append(cpu)
            walls[name].append(wall)
        for length, lease in leases.items():
            entries = await store.read(f"s{length}")
            if len(entries) != lease.head:
                raise SystemExit(f"read {len(entries)} of {lease.head} entries")
    for table in tables.values():
        table.close()
    # the mean, because some work is done only every few appends
    return {name: [statistics.fmean(values)] for name, values in costs.items()}, walls


def _rotate(names: list[str]) -> Iterator[str]:
    """Yield all names once per name, each time in another order: the cost depends on the previous program."""
    for first in range(len(names)):
        yield from names[first:] + names[:first]


def measure_new_store(directory: Path, board: Board) -> None:
    """Compare an append to a new store with plain INSERTs into a new file."""
    turns = Turns({"insert": 0, "append": 0}, turns=PROCESSES)
    while turns.needs_turn:
        calibration = calibrate()
        turns.add(run_in_process(_measure_new_store_turn, directory), calibration)
    name = "append, new store / plain INSERT into a new file"
    board.add(turns.make_result(name, "append", "insert", goal=INSERT_GOAL, unit="us CPU", scale=1e6))


def _measure_new_store_turn(directory: Path) -> dict[str, list[float]]:
    return asyncio.run(_measure_new_store_async(directory))


async def _measure_new_store_async(directory: Path) -> dict[str, list[float]]:
    costs: dict[str, list[float]] = {"insert": [], "append": []}
    with tempfile.TemporaryDirectory(dir=directory) as name:
        table = PlainTable(Path(name))
        async with open_store(Path(name) / "new.db") as store:
            lease = await store.append(await store.lease("new"), [make_entry(0)])
            gc.collect()
            for program in (*_rotate(["insert", "append"]), *_rotate(["append", "insert"])) * 3:
                if program == "insert":
                    costs[program].append(table.insert_rows([make_entry(at).body for at in range(APPENDS)]))
                else:
                    lease, cpu, _ = await append_entries(store, lease, APPENDS)
                    costs[program].append(cpu)
        table.close()
    return {name: [statistics.fmean(values)] for name, values in costs.items()}


async def measure_writes(directory: Path, board: Board) -> None:
    """Count the bytes that an append writes to all files, from the counters of Linux."""
    async with open_store(directory / "writes.db") as store:
        lease = await fill_session(store, "writes", 20)
        before, start = _bytes_written(), lease.head
        lease, _, _ = await append_entries(store, lease, 20)
        each, size = (_bytes_written() - before) / (lease.head - start), len(make_entry(1).body)
        board.add(
            Result(
                name="append: bytes written / bytes of the entry",
                value=each,
                unit="bytes",
                ratio=each / size,
                run="bench",
                detail=f"for an entry of {size} bytes",
            )
        )


def _bytes_written() -> int:
    values = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(values["wchar"])


async def measure_concurrent(directory: Path, board: Board) -> None:
    """Compare appends to one session with concurrent appends to many, which share the waits for the disk."""
    async with open_store(directory / "many.db") as store:
        leases = [await fill_session(store, f"m{at}", 1) for at in range(SESSIONS)]
        turns = Turns({"alone": 0, "together": 0})
        while turns.needs_turn:
            calibration = calibrate()
            leases[0], _, one = await append_entries(store, leases[0], 40)
            start = time.perf_counter()
            appended = await asyncio.gather(*(append_entries(store, lease, 10) for lease in leases))
            each = (time.perf_counter() - start) / SESSIONS / 10
            leases = [lease for lease, _, _ in appended]
            turns.add({"alone": [one], "together": [each]}, calibration)
        name = f"{SESSIONS} concurrent sessions: time per append / in one session"
        detail = f"{1 / turns.lowest('together'):.0f} vs {1 / turns.lowest('alone'):.0f} appends per second"
        unit = "ms wall time"
        board.add(turns.make_result(name, "together", "alone", goal=1 / SPEEDUP_GOAL, unit=unit, detail=detail))


async def measure_open(directory: Path, board: Board) -> None:
    """Compare reading and folding a long session with decoding its entries, kept or dropped."""
    async with open_store(directory / "long.db") as store:
        await store.release(await fill_session(store, "long", 10_000, BODY))
    async with open_store(directory / "long.db") as store:  # reopened, after the search index was built
        bodies = [entry.body for entry in await store.read("long")]
        decode = msgspec.json.Decoder(EntryPayload).decode
        turns = Turns({"tenuto": 0, "kept": 0, "dropped": 0})
        while turns.needs_turn:
            calibration = calibrate()
            gc.collect()
            start = time.process_time()
            for body in bodies:
                decode(body)
            dropped_time = time.process_time() - start
            gc.collect()
            start = time.process_time()
            values = [decode(body) for body in bodies]
            kept_time = time.process_time() - start
            del values
            gc.collect()
            start = time.process_time()
            entries = await store.read("long")
            if len(transcript_of(entries).messages) != 10_000:
                raise SystemExit("the fold lost messages")
            turns.add(
                {"tenuto": [time.process_time() - start], "kept": [kept_time], "dropped": [dropped_time]}, calibration
            )
            del entries
        detail = f"10,000 entries, {sum(map(len, bodies)) / 1e6:.0f} MB"
        for what, name, goal in (
            ("kept", "decode and keep entries", FOLD_GOAL),
            ("dropped", "decode and drop entries", None),
        ):
            row = turns.make_result(
                f"open and fold: tenuto / {name}", "tenuto", what, goal=goal, unit="ms CPU", detail=detail
            )
            board.add(row)


def run(board: Board) -> None:
    """Measure this section and add its rows."""
    with tempfile.TemporaryDirectory() as name:
        measure_lengths(Path(name), board)
        measure_new_store(Path(name), board)
        for part in (measure_writes, measure_concurrent, measure_open):
            asyncio.run(part(Path(name), board))
