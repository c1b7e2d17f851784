"""Measure the agent loop: the cost of a turn without the time of the model and the tools.

A scripted transport answers at once with bytes of the chat dialect, and a tool returns at once. A turn is a request, a
reply with one call and its result: four entries, each with its own commit. Each request contains the whole conversation,
so a turn costs more in a longer session. Turns in sessions of 10 and 100 turns are compared with single appends to the
same store, measured alternately in one run.

The last turns of a long session are compared with `json.dumps` of the same request, and streamed turns with others.
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

from bench.results import Board, calibrate
from bench.store import append_entries, fill_session
from bench.turns import Turns, measure_cpu
from tenuto import Limits, Provider, tool
from tenuto.agent.agent import AsyncAgent
from tenuto.client.client import AsyncClient
from tenuto.store.memory import MemoryStore
from tenuto.store.open import open_store
from tenuto.testing import ScriptedResponse, ScriptedTransport

LENGTHS = (10, 100)
APPENDS = 100
LONG, LAST = 505, 12
"""The number of turns of a long session, and of measured turns at its end, with about 1,000 messages each."""
DUMPS_GOAL, STREAM_GOAL = 4, 1.15
PROVIDER = Provider("bench", "openai-chat", "https://bench.test/v1")


@tool(effect="pure")
async def look(turn: int) -> str:
    """Look."""
    return f"seen {turn}"


def _frames(delta: dict, reason: str) -> ScriptedResponse:
    chunk = {"id": "c", "model": "m", "object": "chat.completion.chunk"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    chunks = [
        {**chunk, "choices": [{"index": 0, "delta": delta}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
    ]
    return ScriptedResponse.stream(
        b"".join(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks) + b"data: [DONE]\n\n"
    )


def make_tool_replies(turns: int, run: str = "") -> list[ScriptedResponse]:
    calls = [
        {
            "index": 0,
            "id": f"call_{run}{at}",
            "type": "function",
            "function": {"name": "look", "arguments": f'{{"turn": {at}}}'},
        }
        for at in range(turns - 1)
    ]
    last = _frames({"role": "assistant", "content": "It is done."}, "stop")
    return [*(_frames({"role": "assistant", "tool_calls": [one]}, "tool_calls") for one in calls), last]


async def _play_session(store, turns: int) -> tuple[float, float]:
    """Run a session; return the CPU and wall seconds of each turn."""
    client = AsyncClient(transport=ScriptedTransport(*make_tool_replies(turns)), providers=[PROVIDER], middleware=[])
    options = {
        "tools": [look],
        "store": store,
        "client": client,
        "limits": Limits(turns=None),
        "allow_unverified": True,
    }
    async with AsyncAgent("bench/m", **options) as agent:
        session = agent.session()
        gc.collect()
        cpu, wall = time.process_time(), time.perf_counter()
        reply = await session.send("Go.")
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        if reply.text != "It is done." or len(session.transcript.messages) != 2 * turns:
            raise SystemExit("the session lost messages")
        return cpu / turns, wall / turns


async def measure_turns(store, board: Board, name: str, turns: int) -> None:
    """Measure turns and single appends alternately."""
    lease = await fill_session(store, f"append-{turns}", 1)
    turn_walls, append_walls = [], []
    costs = Turns({"turn": 0, "append": 0}, has_goal=False)
    await _play_session(store, LENGTHS[0])
    while costs.needs_turn:
        calibration = calibrate()
        cpu, wall = await _play_session(store, turns)
        lease, append_cpu, append_wall = await append_entries(store, lease, APPENDS)
        costs.add({"turn": [cpu], "append": [append_cpu]}, calibration)
        turn_walls.append(wall)
        append_walls.append(append_wall)
    detail = f"wall time {min(turn_walls) * 1e3:.2f} vs {min(append_walls) * 1e3:.2f} ms"
    row = f"agent turn, session of {turns} turns, {name}: turn / append"
    board.add(costs.make_result(row, "turn", "append", goal=None, unit="us CPU", scale=1e6, detail=detail))


async def _play_late_turns(*, streamed: bool) -> dict[str, list[float]]:
    """Run a long session; return the CPU seconds of its last turns and of `json.dumps` of their requests."""
    costs: dict[str, list[float]] = {"turn": [], "dumps": []}
    transport = ScriptedTransport(*make_tool_replies(LONG))
    began = 0.0

    @tool(effect="pure", name="look")
    async def look_late(turn: int) -> str:
        """Look."""
        nonlocal began
        if turn >= LONG - LAST:
            costs["turn"].append(time.process_time() - began)
            body = json.loads(transport.requests[-1].body)
            costs["dumps"].append(min(measure_cpu(json.dumps, body) for _ in range(3)))
        began = time.process_time()
        return f"seen {turn}"

    client = AsyncClient(transport=transport, providers=[PROVIDER], middleware=[])
    options = {"tools": [look_late], "client": client, "limits": Limits(turns=None), "allow_unverified": True}
    async with AsyncAgent("bench/m", store=MemoryStore(), **options) as agent:
        session = agent.session()
        if streamed:
            async with session.stream("Go.") as run:
                async for _ in run:
                    pass
        else:
            await session.send("Go.")
    if len(session.transcript.messages) != 2 * LONG:
        raise SystemExit("the session lost messages")
    return costs


def measure_late_turns(board: Board) -> None:
    """Measure the last turns of a long session."""
    costs = Turns({"sent": 0, "streamed": 0, "dumps": 0})
    while costs.needs_turn:
        calibration = calibrate()
        sent, streamed = (asyncio.run(_play_late_turns(streamed=one)) for one in (False, True))
        costs.add({"sent": sent["turn"], "streamed": streamed["turn"], "dumps": sent["dumps"]}, calibration)
    name = f"agent turn at {2 * (LONG - LAST)} messages"
    board.add(costs.make_result(f"{name} / json.dumps", "sent", "dumps", goal=DUMPS_GOAL, unit="ms CPU"))
    board.add(costs.make_result(f"{name}: stream() / send()", "streamed", "sent", goal=STREAM_GOAL, unit="ms CPU"))


def _profile_turn(turns: int) -> str:
    """Return the share of each package in the CPU time of a turn."""
    profile = cProfile.Profile()
    profile.enable()
    asyncio.run(_play_session(MemoryStore(), turns))
    profile.disable()
    spent: Counter[str] = Counter()
    for (file, _, _), (_, _, own, _, _) in pstats.Stats(profile).stats.items():
        inside = file.partition("/tenuto/")[2]
        spent[inside.split("/")[0].removesuffix(".py") if inside else "outside tenuto"] += own
    whole = spent.total()
    return ", ".join(f"{name} {own / whole:.0%}" for name, own in spent.most_common(6))


def run(board: Board) -> None:
    """Measure this section and add its rows."""
    for turns in LENGTHS:
        asyncio.run(measure_turns(MemoryStore(), board, "memory", turns))
    with tempfile.TemporaryDirectory() as name:

        async def measure_sqlite() -> None:
            async with open_store(Path(name) / "sessions.db") as store:
                for turns in LENGTHS:
                    await measure_turns(store, board, "SQLite", turns)

        asyncio.run(measure_sqlite())
    measure_late_turns(board)
    for turns in LENGTHS:
        print(f"CPU of a turn by package, session of {turns} turns, memory: {_profile_turn(turns)}")
