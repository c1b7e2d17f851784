"""What the client costs over a real socket, beside aiohttp with the readers of `bench.floors`.

    python -m bench.network BASE_URL burst|tls|long|arguments|each|paced|first|whole
    python -m bench.network BASE_URL crowd:ours|crowd:floor

Each mode measures both in turns in one process, and prints its rows as JSON; a crowd prints the CPU and the memory of a
process that read 200 streams and did nothing else. Only this process's CPU is counted: the server has its own. Every
time, what came is compared with what was sent.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from functools import partial
from pathlib import Path

import aiohttp
import msgspec

from bench import floors
from bench.peers.streams import KINDS, MAKERS, spoken
from bench.results import Result, calibration, judged
from bench.streams import DIALECTS
from bench.turns import Beside, awaited_cpu, awaited_in_turns
from tenuto import AsyncClient, Provider
from tenuto.core.events import ContentDelta

PATHS = {
    "anthropic-messages": "/messages",
    "openai-responses": "/responses",
    "openai-chat": "/chat/completions",
    "gemini": "/models/m:streamGenerateContent?alt=sse",
}
SHORT = {"anthropic-messages": "anthropic", "openai-responses": "responses", "openai-chat": "chat", "gemini": "gemini"}
"""What a dialect is called beside the peers."""
UNIT = "ms CPU per 1,000 events"
TYPED = 1.8
LONG, ARGUMENTS = 1.1, 1.2
FIRST_MS = 1.0
CROWD = 200
REQUESTS = 50


class Way:
    """One stream, read by us and by the floors: its address, its size, and what is to come of it."""

    def __init__(self, base: str, shape: str, kind: str, dialect: str) -> None:
        self.dialect = dialect
        self.address = f"{base}/{shape}/{kind}/v1"
        self.url = self.address + PATHS[dialect]
        self.events = MAKERS[SHORT[dialect]](KINDS[kind]).count(b"\n\n")
        self.spoken = spoken(KINDS[kind])
        size = KINDS[kind]
        self.deltas = size.thinking + size.text + size.calls * (size.arguments if dialect != "gemini" else 0)
        self.ai = AsyncClient(providers=[Provider("bench", dialect, self.address)])

    async def ours(self) -> None:
        """Read it typed and assembled; see that everything came."""
        deltas = 0
        async with self.ai.stream("bench/m", "hi", max_tokens=4096) as stream:
            async for event in stream:
                deltas += type(event) is ContentDelta
        calls = "".join(call.args for call in stream.reply.tool_calls)
        if deltas < self.deltas or (stream.reply.text, calls) != self.spoken:
            raise SystemExit(f"{self.url}: {deltas} of {self.deltas} deltas, or another text, or other arguments")

    async def floor(self, session: aiohttp.ClientSession, decode: floors.Decode = json.loads) -> None:
        count = await floors.read(session, self.url, decode)
        if count != self.events:
            raise SystemExit(f"{self.url}: the floor read {count} of {self.events} events")

    def acts(self, session: aiohttp.ClientSession) -> dict:
        """What is measured in turns."""
        return {
            "ours": partial(awaited_cpu, self.ours),
            "json": partial(awaited_cpu, self.floor, session),
            "typed": partial(awaited_cpu, self.floor, session, floors.TYPED[self.dialect]),
        }


async def _warm(*ways: Way, session: aiohttp.ClientSession) -> None:
    for way in ways:
        await way.ours()
        await way.floor(session)


async def burst(base: str, name: str = "burst") -> list[Result]:
    """All events in one write. Over TLS, only the comparison with `json.loads` is measured."""
    rows = []
    async with aiohttp.ClientSession() as session:
        for dialect in DIALECTS:
            way = Way(base, "burst", "std", dialect)
            await _warm(way, session=session)
            turns = await awaited_in_turns(way.acts(session), 5)
            told = {"unit": UNIT, "scale": 1e6 / way.events}
            rows.append(
                turns.judged(f"{name}, {dialect}: ours / aiohttp + json.loads", "ours", "json", goal=None, **told)
            )
            if name == "burst":
                what = f"{name}, {dialect}: ours / aiohttp + typed decode"
                rows.append(turns.judged(what, "ours", "typed", goal=TYPED, **told))
            await way.ai.close()
    return rows


async def tls(base: str) -> list[Result]:
    return await burst(base, "burst over TLS")


async def grown(base: str, kind: str, dialects: tuple[str, ...], goal: float) -> list[Result]:
    """What an event costs in a long stream, beside an event of the standard one."""
    rows = []
    async with aiohttp.ClientSession() as session:
        for dialect in dialects:
            small, large = Way(base, "burst", "std", dialect), Way(base, "burst", kind, dialect)
            await _warm(small, large, session=session)

            async def short(small: Way = small) -> float:
                return min([await awaited_cpu(small.ours) for _ in range(3)]) / small.events

            async def long(large: Way = large) -> float:
                return await awaited_cpu(large.ours) / large.events

            turns = await awaited_in_turns({"long": long, "short": short}, 2)
            what = "4,000 argument deltas" if kind == "args" else "10,000 events"
            name = f"{what}, {dialect}: an event / of 1,000"
            rows.append(turns.judged(name, "long", "short", goal=goal, unit=UNIT, scale=1e6))
            await small.ai.close()
            await large.ai.close()
    return rows


async def long(base: str) -> list[Result]:
    return await grown(base, "long", DIALECTS, LONG)


async def arguments(base: str) -> list[Result]:
    return await grown(base, "args", tuple(one for one in DIALECTS if one != "gemini"), ARGUMENTS)


async def shaped(base: str, shape: str, what: str, repeat: int) -> list[Result]:
    """One event a write."""
    async with aiohttp.ClientSession() as session:
        way = Way(base, shape, "std", "anthropic-messages")
        await _warm(way, session=session)
        acts = {name: act for name, act in way.acts(session).items() if name != "typed"}
        turns = await awaited_in_turns(acts, repeat, judged=False)
        await way.ai.close()
        name = f"{what}, anthropic-messages: ours / aiohttp + json.loads"
        return [turns.judged(name, "ours", "json", goal=None, unit=UNIT, scale=1e6 / way.events)]


async def each(base: str) -> list[Result]:
    return await shaped(base, "each", "one event a write", 5)


async def paced(base: str) -> list[Result]:
    return await shaped(base, "paced", "one event a millisecond", 1)


async def first(base: str) -> list[Result]:
    """How much later than bare aiohttp has its bytes our first event is there, by the clock.

    The event that begins the first block: what only announces a reply is held back until then, so that a server that has
    second thoughts can be asked again.
    """
    rows = []
    for shape, what in (("paced", "alone"), ("burst", "with all the others")):
        way = Way(base, shape, "std", "anthropic-messages")

        async def ours(way: Way = way) -> None:
            async with way.ai.stream("bench/m", "hi", max_tokens=4096) as stream:
                async for _ in stream:
                    return

        async def clocked(act, *args) -> float:
            start = time.perf_counter()
            await act(*args)
            return time.perf_counter() - start

        times: list[tuple[float, float]] = []
        beside = Beside()
        async with aiohttp.ClientSession() as session:
            await clocked(ours)
            while beside.wanting:
                before = calibration()
                pairs = [(await clocked(ours), await clocked(floors.first, session, way.url)) for _ in range(20)]
                times.append(tuple(statistics.median(each) * 1e3 for each in zip(*pairs, strict=True)))
                beside.add(min(before, calibration()))
        await way.ai.close()
        counted = [times[at] for at in beside.stillest]
        value = statistics.median(mine - bare for mine, bare in counted)
        mine, bare = counted[-1]
        detail = f"the last turn: {mine:.2f} against {bare:.2f} ms, from the question to the first event"
        rows.append(
            judged(f"first event, {what}: later than bare aiohttp", [], value=value, unit="ms", goal=FIRST_MS,
                   run="bench", calibrations=beside.counted, detail=detail)
        )  # fmt: skip
    return rows


async def whole(base: str) -> list[Result]:
    """Requests without a stream, one after the other."""
    way = Way(base, "burst", "std", "anthropic-messages")

    async def floor() -> None:
        for _ in range(REQUESTS):
            await floors.once(session, way.url)

    async def ours() -> None:
        for _ in range(REQUESTS):
            reply = await way.ai.chat("bench/m", "hi", max_tokens=4096)
            if reply.text != text:
                raise SystemExit("another text came")

    async with aiohttp.ClientSession() as session:
        text = (await floors.once(session, way.url))["content"][0]["text"]
        await ours()
        turns = await awaited_in_turns({"ours": partial(awaited_cpu, ours), "json": partial(awaited_cpu, floor)}, 3)
        start = time.perf_counter()
        await ours()
        rate = REQUESTS / (time.perf_counter() - start)
    await way.ai.close()
    name, unit = "without a stream, anthropic-messages: ours / aiohttp + json.loads", "ms CPU per request"
    detail = f"{rate:.0f} requests a second, one after the other"
    return [turns.judged(name, "ours", "json", goal=None, unit=unit, scale=1e3 / REQUESTS, detail=detail)]


def resident() -> float:
    """The most memory that this process ever had, in MB."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


async def crowd(base: str, which: str) -> dict[str, float]:
    """Read many streams at once, after one."""
    way = Way(base, "crowd", "crowd", "anthropic-messages")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        act = way.ours if which == "ours" else partial(way.floor, session)
        await act()
        before, beside = resident(), calibration()
        cost = await awaited_cpu(lambda: asyncio.gather(*(act() for _ in range(CROWD))))
    await way.ai.close()
    return {"cpu": cost / CROWD / way.events * 1e6, "before": before, "peak": resident(), "beside": beside}


MODES = {
    "burst": burst, "tls": tls, "long": long, "arguments": arguments, "each": each, "paced": paced, "first": first,
    "whole": whole,
}  # fmt: skip

if __name__ == "__main__":
    address, mode = sys.argv[1:3]
    kind, _, which = mode.partition(":")
    found = asyncio.run(crowd(address, which) if kind == "crowd" else MODES[mode](address))
    sys.stdout.buffer.write(msgspec.json.encode(found))
