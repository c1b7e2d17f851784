"""What the loop costs: everything of a turn but the model's time and the tools'.

A scripted transport answers at once with bytes of the chat dialect, and a tool returns at once. A turn is a question, an
answer with one call, and the call's result: four entries, each with a commit of its own (asked, replied, started,
returned). The whole conversation is written into each question, so a turn costs more the longer the session is: it is
measured in sessions of 10 and of 100 turns, beside bare appends of one entry to the same store, one after the other in
one run, so that the machine's mood cancels out.
"""

from __future__ import annotations

import asyncio
import cProfile
import gc
import json
import pstats
import tempfile
import time
from collections import Counter
from pathlib import Path

from bench.results import Board, calibration
from bench.store import appended, filled
from bench.turns import Turns
from tenuto import Limits, Provider, tool
from tenuto.agent.agent import AsyncAgent
from tenuto.client.client import AsyncClient
from tenuto.store.memory import MemoryStore
from tenuto.store.open import open_store
from tenuto.testing import Answer, ScriptedTransport

LENGTHS = (10, 100)
APPENDS = 100
ROW = Provider("bench", "openai-chat", "https://bench.test/v1")


@tool(effect="pure")
async def look(turn: int) -> str:
    """Look."""
    return f"seen {turn}"


def _frames(delta: dict, reason: str) -> Answer:
    chunk = {"id": "c", "model": "m", "object": "chat.completion.chunk"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    pieces = [
        {**chunk, "choices": [{"index": 0, "delta": delta}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
    ]
    return Answer.stream(b"".join(f"data: {json.dumps(piece)}\n\n".encode() for piece in pieces) + b"data: [DONE]\n\n")


def tool_answers(turns: int) -> list[Answer]:
    called = [
        {
            "index": 0,
            "id": f"call_{at}",
            "type": "function",
            "function": {"name": "look", "arguments": f'{{"turn": {at}}}'},
        }
        for at in range(turns - 1)
    ]
    last = _frames({"role": "assistant", "content": "It is done."}, "stop")
    return [*(_frames({"role": "assistant", "tool_calls": [one]}, "tool_calls") for one in called), last]


async def _run(store, turns: int) -> tuple[float, float]:
    """Play a session; return CPU and wall seconds for each turn."""
    client = AsyncClient(transport=ScriptedTransport(*tool_answers(turns)), providers=[ROW], middleware=[])
    told = {"tools": [look], "store": store, "client": client, "limits": Limits(turns=None), "allow_unverified": True}
    async with AsyncAgent("bench/m", **told) as agent:
        session = agent.session()
        gc.collect()
        cpu, wall = time.process_time(), time.perf_counter()
        reply = await session.send("Go.")
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        if reply.text != "It is done." or len(session.transcript.messages) != 2 * turns:
            raise SystemExit("the loop lost something")
        return cpu / turns, wall / turns


async def measured(store, board: Board, name: str, turns: int) -> None:
    """Measure turns, and bare appends in between."""
    lease = await filled(store, f"bare-{turns}", 1)
    walls, slow = [], []
    found = Turns({"turn": 0, "append": 0}, judged=False)
    await _run(store, LENGTHS[0])
    while found.wanting:
        beside = calibration()
        cpu, wall = await _run(store, turns)
        lease, one, one_wall = await appended(store, lease, APPENDS)
        found.keep({"turn": [cpu], "append": [one]}, beside)
        walls.append(wall)
        slow.append(one_wall)
    detail = f"{min(walls) * 1e3:.2f} against {min(slow) * 1e3:.2f} ms by the clock"
    what = f"a turn of {turns}, {name}: the loop / a bare append"
    board.add(found.judged(what, "turn", "append", goal=None, unit="us CPU", scale=1e6, detail=detail))


def _dominates(turns: int) -> str:
    """Say where the CPU of a turn goes, by the parts of the package that it is spent in."""
    profile = cProfile.Profile()
    profile.enable()
    asyncio.run(_run(MemoryStore(), turns))
    profile.disable()
    spent: Counter[str] = Counter()
    for (file, _, _), (_, _, own, _, _) in pstats.Stats(profile).stats.items():
        inside = file.partition("/tenuto/")[2]
        spent[inside.split("/")[0].removesuffix(".py") if inside else "python itself"] += own
    whole = spent.total()
    return ", ".join(f"{name} {own / whole:.0%}" for name, own in spent.most_common(6))


def run(board: Board) -> None:
    """Measure, and add the rows."""
    for turns in LENGTHS:
        asyncio.run(measured(MemoryStore(), board, "memory", turns))
    with tempfile.TemporaryDirectory() as name:

        async def kept() -> None:
            async with open_store(Path(name) / "sessions.db") as store:
                for turns in LENGTHS:
                    await measured(store, board, "SQLite", turns)

        asyncio.run(kept())
    for turns in LENGTHS:
        print(f"where the CPU of a turn of {turns} goes, in memory: {_dominates(turns)}")
