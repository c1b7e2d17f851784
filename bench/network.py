"""What the client costs over a real socket, beside aiohttp with a naive reader: split on blank lines, json.loads.

    python -m bench.network BASE_URL stream|whole|many|memory:naive|memory:ours

Each mode measures both in turns in one process and prints the figures as JSON. Only this process's CPU is counted: the
server has its own.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import sys
import time
from pathlib import Path

import aiohttp

from bench.streams import DIALECTS, expected
from tenuto import AsyncClient, Provider
from tenuto.core.events import ContentDelta

SIZE = 20
PATHS = {
    "anthropic-messages": "/messages",
    "openai-responses": "/responses",
    "openai-chat": "/chat/completions",
    "gemini": "/models/m:streamGenerateContent?alt=sse",
}
TEXTS = {count: expected(count, SIZE) for count in (600, 1000)}
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1000}


async def naive(session: aiohttp.ClientSession, url: str) -> int:
    """Read a stream as most people first write it; return the number of events."""
    count = 0
    async with session.post(url, json={**BODY, "stream": True}) as response:
        tail = b""
        async for piece in response.content.iter_any():
            *events, tail = (tail + piece).split(b"\n\n")
            for event in events:
                data = event[event.find(b"data: ") + 6 :]
                if data != b"[DONE]":
                    json.loads(data)
                count += 1
    return count


async def ours(ai: AsyncClient, dialect: str, count: int = 1000) -> None:
    """Read the same stream, typed and assembled; check that everything came."""
    deltas = 0
    async with ai.stream(f"{dialect}/m", "hi", max_tokens=1000) as stream:
        async for event in stream:
            deltas += type(event) is ContentDelta
    if (deltas, stream.reply.text) != (count, TEXTS[count]):
        raise SystemExit(f"{dialect}: {deltas} of {count} deltas, or another text")


async def once(session: aiohttp.ClientSession, url: str) -> str:
    async with session.post(url, json=BODY) as response:
        return json.loads(await response.read())["content"][0]["text"]


def client(url: str) -> AsyncClient:
    return AsyncClient(providers=[Provider(dialect, dialect, url) for dialect in DIALECTS])


async def cpu(act, *args) -> float:
    gc.collect()
    start = time.process_time()
    await act(*args)
    return time.process_time() - start


async def turns(floor, act, rounds: int, repeat: int) -> tuple[list[float], float, float]:
    """Measure in turns; return the ratios, and the least CPU seconds of both."""
    ratios, floors, costs = [], [], []
    for _ in range(rounds):
        floors.append(min([await cpu(*floor) for _ in range(repeat)]))
        costs.append(min([await cpu(*act) for _ in range(repeat)]))
        ratios.append(costs[-1] / floors[-1])
    return ratios, min(floors), min(costs)


async def stream(url: str) -> dict[str, object]:
    found = {}
    async with client(url) as ai, aiohttp.ClientSession() as session:
        for dialect in DIALECTS:
            await ours(ai, dialect)
            if await naive(session, url + PATHS[dialect]) < 1000:
                raise SystemExit("the naive reader lost events")
            ratios, floor, cost = await turns((naive, session, url + PATHS[dialect]), (ours, ai, dialect), 7, 7)
            found[dialect] = (statistics.median(ratios), floor, cost)
    return found


async def whole(url: str) -> dict[str, object]:
    async def many_naive() -> None:
        for _ in range(50):
            await once(session, url + "/messages")

    async def many_ours() -> None:
        for _ in range(50):
            reply = await ai.chat("anthropic-messages/m", "hi", max_tokens=1000)
            assert reply.text == text

    async with client(url) as ai, aiohttp.ClientSession() as session:
        text = await once(session, url + "/messages")
        await many_ours()
        ratios, floor, cost = await turns((many_naive,), (many_ours,), 7, 3)
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < 1.0:
            await many_ours()
            count += 50
        return {"whole": (statistics.median(ratios), floor / 50, cost / 50), "rps": count / 1.0}


def resident() -> float:
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


async def memory(url: str, which: str) -> dict[str, object]:
    slow = url.replace("/v1", "/slow/v1")
    async with client(slow) as ai, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        if which == "ours":
            await ours(ai, "anthropic-messages", 600)
            before = resident()
            await asyncio.gather(*(ours(ai, "anthropic-messages", 600) for _ in range(200)))
        else:
            await naive(session, slow + "/messages")
            before = resident()
            await asyncio.gather(*(naive(session, slow + "/messages") for _ in range(200)))
    return {"before": before, "peak": resident()}


if __name__ == "__main__":
    address, mode = sys.argv[1:3]
    run = {"stream": stream, "whole": whole}.get(mode)
    print(json.dumps(asyncio.run(run(address) if run else memory(address, mode.partition(":")[2]))))
