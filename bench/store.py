"""What keeping a session costs: an append at any length, beside a bare INSERT and beside writing the whole session anew;
many sessions at once; opening and folding a long one.
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

from bench.results import Board, Result, calibration
from bench.turns import Turns, apart
from tenuto.core import stored
from tenuto.core.blocks import Text, ToolUse
from tenuto.core.journal import EntryPayload, MessageAdded, ReplyReceived, transcript_of
from tenuto.core.messages import AssistantMessage, Usage, UserMessage
from tenuto.store.open import open_store

LENGTHS = (10, 100, 1_000, 10_000)
APPENDS = 50
"""In a row: what a store costs that is at work, and not what it costs to wake it."""
PROCESSES = 9
"""How many turns of an append count: each is in a process of its own, and they differ by a tenth and more."""
_FAR = 1 << 32
KINDS = ("bare", "between")
SESSIONS = 100
BODY = 4_000
FLAT = 1.2
BARE = 3.0
FOLD = 3.0
SHARED = 4.0


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
    act: EntryPayload = MessageAdded(UserMessage(f"Question {at}: {prose(at, size)}"))
    if at % 2:
        blocks = (Text(prose(at, size)), ToolUse(id=f"call_{at}", name="weather", args='{"city": "Oslo"}'))
        act = ReplyReceived(AssistantMessage(blocks), usage=Usage(input_tokens=10, output_tokens=5))
    now = 1_700_000_000_000 + at
    return stored.make_draft(act, id=f"{now:012x}{hash((at, size)) % 2**64:016x}", time_ms=now)  # as an agent's ids are


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


class Bare:
    """Inserts the same bytes with the same pragmas, each in a statement that is a transaction by itself, and does nothing
    else. The kind `between` puts its rows in the middle of the table.
    """

    def __init__(self, folder: Path, kind: str = "bare") -> None:
        self._db = sqlite3.connect(folder / f"{kind}.db", isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=0"):
            self._db.execute(f"PRAGMA {pragma}").fetchall()
        self._db.execute("CREATE TABLE IF NOT EXISTS entries (n INTEGER PRIMARY KEY, body BLOB)")
        [[behind]] = self._db.execute("SELECT max(n) FROM entries WHERE n < ?", (_FAR,)).fetchall()
        self._at = behind if kind == "between" else None

    def fill(self, rows: int, behind: int = 0) -> None:
        """Insert so many rows at once: as many as there are in what it is compared with."""
        self._db.execute("BEGIN")
        told = ((behind + at, draft(at).body) for at in range(1, rows + 1))
        self._db.executemany("INSERT INTO entries (n, body) VALUES (?, ?)", told)
        self._db.execute("COMMIT")

    def inserted(self, bodies: list[bytes]) -> float:
        """Insert one by one; return CPU seconds for each."""
        db = self._db
        places = [None] * len(bodies)
        if self._at is not None:
            places = list(range(self._at + 1, self._at + 1 + len(bodies)))
            self._at += len(bodies)
        start = time.process_time()
        for row in zip(places, bodies, strict=True):
            db.execute("INSERT INTO entries (n, body) VALUES (?, ?)", row)
        return (time.process_time() - start) / len(bodies)

    def close(self) -> None:
        self._db.close()


def rewritten(folder: Path, transcript: object) -> float:
    """Write the whole session as JSON, as many do; return wall seconds."""
    start = time.perf_counter()
    with (folder / "session.json").open("wb") as file:
        file.write(msgspec.json.encode(transcript))
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - start


def by_length(folder: Path, board: Board) -> None:
    """An append to sessions of any length, and bare INSERTs, in turns; the session is as long as it is said to be."""
    asyncio.run(_sessions(folder))
    names = [*KINDS, *map(str, LENGTHS)]
    turns = Turns(dict.fromkeys(names), rounds=PROCESSES)
    walls: dict[str, list[float]] = {str(length): [] for length in LENGTHS}
    while turns.wanting:
        beside = calibration()
        costs, clock = apart(_lengths_turn, folder, names)
        turns.keep(costs, beside)
        for length, found in clock.items():
            walls[length] += found
    told = {"unit": "us CPU", "scale": 1e6}
    for length in LENGTHS[1:]:
        name = f"checkpoint at {length:,} entries: an append / at {LENGTHS[0]}"
        whole = rewritten(folder, asyncio.run(_transcript(folder, length)))
        detail = f"{min(walls[str(length)]) * 1e3:.2f} ms by the clock; the whole as JSON {whole * 1e3:.1f} ms"
        board.add(turns.judged(name, str(length), str(LENGTHS[0]), goal=FLAT, detail=detail, **told))
    for name, ours, other, goal in (
        ("to the newest session / a bare INSERT", LENGTHS[-1], "bare", BARE),
        ("to an older session / a bare INSERT in the middle of its table", LENGTHS[-2], "between", BARE),
        ("to an older session / a bare INSERT", LENGTHS[-2], "bare", None),
    ):
        board.add(turns.judged(f"checkpoint: an append {name}", str(ours), other, goal=goal, **told))


async def _sessions(folder: Path) -> None:
    """Make what each turn begins with."""
    async with open_store(folder / "lengths.db") as store:
        for length in LENGTHS:
            await store.release(await filled(store, f"s{length}", length))
    for kind in KINDS:
        other = Bare(folder, kind)
        other.fill(sum(LENGTHS[:-1]))
        other.fill(LENGTHS[-1], _FAR if kind == "between" else sum(LENGTHS[:-1]))
        other.close()


async def _transcript(folder: Path, length: int) -> object:
    async with open_store(folder / "lengths.db") as store:
        return transcript_of(await store.read(f"s{length}"))


def _lengths_turn(folder: Path, names: list[str]) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Take a turn, on copies: return CPU seconds of an append by name, and seconds by the clock."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        for kept in folder.glob("*.db"):
            shutil.copyfile(kept, Path(name) / kept.name)
        os.sync()  # or what was copied is written while the turn is measured
        return asyncio.run(_lengths_turned(Path(name), names))


async def _lengths_turned(here: Path, names: list[str]) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    costs: dict[str, list[float]] = {name: [] for name in names}
    walls: dict[str, list[float]] = {str(length): [] for length in LENGTHS}
    others = {kind: Bare(here, kind) for kind in KINDS}
    async with open_store(here / "lengths.db") as store:
        leases = {str(length): await store.lease(f"s{length}") for length in LENGTHS}
        gc.collect()
        for name in _by_turns(names):
            if name in others:
                costs[name].append(others[name].inserted([draft(at).body for at in range(APPENDS)]))
                continue
            leases[name], cpu, wall = await appended(store, leases[name], APPENDS)
            costs[name].append(cpu)
            walls[name].append(wall)
        for length, lease in leases.items():
            entries = await store.read(f"s{length}")
            if len(entries) != lease.head:
                raise SystemExit(f"{len(entries)} entries came back of {lease.head}")
    for other in others.values():
        other.close()
    # what is paid now and then counts
    return {name: [statistics.fmean(found)] for name, found in costs.items()}, walls


def _by_turns(names: list[str]) -> Iterator[str]:
    """Yield each name as often as there are names, at another place each time: who follows whom has its price."""
    for first in range(len(names)):
        yield from names[first:] + names[:first]


def young(folder: Path, board: Board) -> None:
    """An append to a store that was just made, beside bare INSERTs into a file that was just made."""
    turns = Turns({"bare": 0, "ours": 0}, rounds=PROCESSES)
    while turns.wanting:
        beside = calibration()
        turns.keep(apart(_young_turn, folder), beside)
    name = "checkpoint: an append to a new store / a bare INSERT into a new file"
    board.add(turns.judged(name, "ours", "bare", goal=BARE, unit="us CPU", scale=1e6))


def _young_turn(folder: Path) -> dict[str, list[float]]:
    return asyncio.run(_young_turned(folder))


async def _young_turned(folder: Path) -> dict[str, list[float]]:
    costs: dict[str, list[float]] = {"bare": [], "ours": []}
    with tempfile.TemporaryDirectory(dir=folder) as name:
        other = Bare(Path(name))
        async with open_store(Path(name) / "new.db") as store:
            lease = await store.append(await store.lease("new"), [draft(0)])
            gc.collect()
            for who in (*_by_turns(["bare", "ours"]), *_by_turns(["ours", "bare"])) * 3:
                if who == "bare":
                    costs[who].append(other.inserted([draft(at).body for at in range(APPENDS)]))
                else:
                    lease, cpu, _ = await appended(store, lease, APPENDS)
                    costs[who].append(cpu)
        other.close()
    return {name: [statistics.fmean(found)] for name, found in costs.items()}


async def written(folder: Path, board: Board) -> None:
    """Count what an append writes, to whatever file: Linux does."""
    async with open_store(folder / "young.db") as store:
        lease = await filled(store, "young", 20)
        before, start = _bytes_written(), lease.head
        lease, _, _ = await appended(store, lease, 20)
        each, size = (_bytes_written() - before) / (lease.head - start), len(draft(1).body)
        board.add(
            Result(name="checkpoint: bytes written / bytes appended", value=each, unit="bytes", ratio=each / size,
                   run="bench", detail=f"for an entry of {size}")
        )  # fmt: skip


def _bytes_written() -> int:
    found = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(found["wchar"])


async def at_once(folder: Path, board: Board) -> None:
    """Appends a second of one session, and of many at once: what waits for the disk waits together."""
    async with open_store(folder / "many.db") as store:
        leases = [await filled(store, f"m{at}", 1) for at in range(SESSIONS)]
        turns = Turns({"alone": 0, "together": 0})
        while turns.wanting:
            beside = calibration()
            leases[0], _, one = await appended(store, leases[0], 40)
            start = time.perf_counter()
            done = await asyncio.gather(*(appended(store, lease, 10) for lease in leases))
            each = (time.perf_counter() - start) / SESSIONS / 10
            leases = [lease for lease, _, _ in done]
            turns.keep({"alone": [one], "together": [each]}, beside)
        name = f"{SESSIONS} sessions at once: time of an append / in one session"
        detail = f"{1 / turns.least('together'):.0f} against {1 / turns.least('alone'):.0f} appends a second"
        unit = "ms by the clock"
        board.add(turns.judged(name, "together", "alone", goal=1 / SHARED, unit=unit, detail=detail))


async def opened(folder: Path, board: Board) -> None:
    """Read and fold a long session, beside decoding its entries: kept, as we do, or dropped at once."""
    async with open_store(folder / "long.db") as store:
        await store.release(await filled(store, "long", 10_000, BODY))
    async with open_store(folder / "long.db") as store:  # anew: by now, what searches look into was made
        bodies = [entry.body for entry in await store.read("long")]
        decode = msgspec.json.Decoder(EntryPayload).decode
        turns = Turns({"ours": 0, "kept": 0, "dropped": 0})
        while turns.wanting:
            beside = calibration()
            gc.collect()
            start = time.process_time()
            for body in bodies:
                decode(body)
            dropped = time.process_time() - start
            gc.collect()
            start = time.process_time()
            values = [decode(body) for body in bodies]
            kept = time.process_time() - start
            del values
            gc.collect()
            start = time.process_time()
            entries = await store.read("long")
            if len(transcript_of(entries).messages) != 10_000:
                raise SystemExit("the fold lost something")
            turns.keep({"ours": [time.process_time() - start], "kept": [kept], "dropped": [dropped]}, beside)
            del entries
        detail = f"10,000 entries, {sum(map(len, bodies)) / 1e6:.0f} MB"
        for what, name, goal in (("kept", "decoding and keeping", FOLD), ("dropped", "decoding and dropping", None)):
            row = turns.judged(f"open and fold: ours / {name}", "ours", what, goal=goal, unit="ms CPU", detail=detail)
            board.add(row)


def run(board: Board) -> None:
    """Measure, and add the rows."""
    with tempfile.TemporaryDirectory() as name:
        by_length(Path(name), board)
        young(Path(name), board)
        for part in (written, at_once, opened):
            asyncio.run(part(Path(name), board))
