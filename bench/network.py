"""Compare the client with aiohttp and the readers of `bench.minimal` over a real socket.

    python -m bench.network BASE_URL burst|tls|long|arguments|each|paced|first|whole
    python -m bench.network BASE_URL concurrent:tenuto|concurrent:minimal

Each mode measures both in turns in one process and prints its rows as JSON; `concurrent` prints the CPU and the memory of
a process that only reads 200 streams. Only the CPU of this process is counted, not that of the server. The data received
are always compared with the data sent.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import aiohttp
import msgspec

from bench import minimal
from bench.peers.streams import KINDS, MAKERS, join_content
from bench.results import Result, calibrate, make_result
from bench.streams import DIALECTS
from bench.turns import Calibrations, measure_async_cpu, measure_async_in_turns
from tenuto import AsyncClient, Provider
from tenuto.core.events import ContentDelta

PATHS = {
    "anthropic-messages": "/messages",
    "openai-responses": "/responses",
    "openai-chat": "/chat/completions",
    "gemini": "/models/m:streamGenerateContent?alt=sse",
}
PEER_NAMES = {
    "anthropic-messages": "anthropic",
    "openai-responses": "responses",
    "openai-chat": "chat",
    "gemini": "gemini",
}
"""The names of the dialects in `bench.peers`."""
UNIT = "ms CPU per 1,000 events"
TYPED_GOAL = 1.8
LONG_GOAL, ARGUMENTS_GOAL = 1.1, 1.2
FIRST_EVENT_GOAL_MS = 1.0
CONCURRENT = 200
REQUESTS = 50


class Source:
    """One stream of the server, with the methods that read and check it."""

    def __init__(self, base: str, shape: str, kind: str, dialect: str) -> None:
        self.dialect = dialect
        self.base_url = f"{base}/{shape}/{kind}/v1"
        self.url = self.base_url + PATHS[dialect]
        self.events = MAKERS[PEER_NAMES[dialect]](KINDS[kind]).count(b"\n\n")
        self.content = join_content(KINDS[kind])
        size = KINDS[kind]
        self.deltas = size.thinking + size.text + size.calls * (size.arguments if dialect != "gemini" else 0)
        self.ai = AsyncClient(providers=[Provider("bench", dialect, self.base_url)])

    async def read(self) -> None:
        """Read the stream with tenuto; check the deltas, the text and the arguments."""
        deltas = 0
        async with self.ai.stream("bench/m", "hi", max_tokens=4096) as stream:
            async for event in stream:
                deltas += type(event) is ContentDelta
        calls = "".join(call.args for call in stream.reply.tool_calls)
        if deltas < self.deltas or (stream.reply.text, calls) != self.content:
            raise SystemExit(f"{self.url}: {deltas} of {self.deltas} deltas, or the text or the arguments differ")

    async def read_minimal(self, session: aiohttp.ClientSession, decode: minimal.Decode = json.loads) -> None:
        """Read the stream with the minimal implementation; check the number of events."""
        count = await minimal.read_stream(session, self.url, decode)
        if count != self.events:
            raise SystemExit(f"{self.url}: the minimal implementation read {count} of {self.events} events")

    def functions(self, session: aiohttp.ClientSession) -> dict[str, Callable[[], Awaitable[float]]]:
        """Return the functions to measure in turns."""
        typed = minimal.TYPED[self.dialect]
        return {
            "tenuto": partial(measure_async_cpu, self.read),
            "json": partial(measure_async_cpu, self.read_minimal, session),
            "typed": partial(measure_async_cpu, self.read_minimal, session, typed),
        }


async def _warm_up(*sources: Source, session: aiohttp.ClientSession) -> None:
    for source in sources:
        await source.read()
        await source.read_minimal(session)


async def measure_burst(base: str, name: str = "burst") -> list[Result]:
    """Measure streams with all events in one write. Over TLS, compare with `json.loads` only."""
    rows = []
    async with aiohttp.ClientSession() as session:
        for dialect in DIALECTS:
            source = Source(base, "burst", "std", dialect)
            await _warm_up(source, session=session)
            turns = await measure_async_in_turns(source.functions(session), 5)
            scale = 1e6 / source.events
            row = f"{name}, {dialect}: tenuto / aiohttp + json.loads"
            rows.append(turns.make_result(row, "tenuto", "json", goal=None, unit=UNIT, scale=scale))
            if name == "burst":
                row = f"{name}, {dialect}: tenuto / aiohttp + typed decode"
                rows.append(turns.make_result(row, "tenuto", "typed", goal=TYPED_GOAL, unit=UNIT, scale=scale))
            await source.ai.close()
    return rows


async def measure_tls(base: str) -> list[Result]:
    return await measure_burst(base, "burst over TLS")


async def _measure_growth(base: str, kind: str, name: str, dialects: tuple[str, ...], goal: float) -> list[Result]:
    """Compare the cost per event of a long stream with that of the standard one."""
    rows = []
    async with aiohttp.ClientSession() as session:
        for dialect in dialects:
            standard, long = Source(base, "burst", "std", dialect), Source(base, "burst", kind, dialect)
            await _warm_up(standard, long, session=session)

            async def read_standard(source: Source = standard) -> float:
                return min([await measure_async_cpu(source.read) for _ in range(3)]) / source.events

            async def read_long(source: Source = long) -> float:
                return await measure_async_cpu(source.read) / source.events

            turns = await measure_async_in_turns({"long": read_long, "standard": read_standard}, 2)
            row = f"{name}, {dialect}: CPU per event / with 1,000"
            rows.append(turns.make_result(row, "long", "standard", goal=goal, unit=UNIT, scale=1e6))
            await standard.ai.close()
            await long.ai.close()
    return rows


async def measure_long(base: str) -> list[Result]:
    return await _measure_growth(base, "long", "10,000 events", DIALECTS, LONG_GOAL)


async def measure_arguments(base: str) -> list[Result]:
    dialects = tuple(dialect for dialect in DIALECTS if dialect != "gemini")
    return await _measure_growth(base, "args", "4,000 argument deltas", dialects, ARGUMENTS_GOAL)


async def _measure_single_writes(base: str, shape: str, name: str, repeat: int) -> list[Result]:
    """Measure a stream with one event per write."""
    async with aiohttp.ClientSession() as session:
        source = Source(base, shape, "std", "anthropic-messages")
        await _warm_up(source, session=session)
        functions = {name: function for name, function in source.functions(session).items() if name != "typed"}
        turns = await measure_async_in_turns(functions, repeat, has_goal=False)
        await source.ai.close()
        row = f"{name}, anthropic-messages: tenuto / aiohttp + json.loads"
        return [turns.make_result(row, "tenuto", "json", goal=None, unit=UNIT, scale=1e6 / source.events)]


async def measure_each(base: str) -> list[Result]:
    return await _measure_single_writes(base, "each", "one event per write", 5)


async def measure_paced(base: str) -> list[Result]:
    return await _measure_single_writes(base, "paced", "one event per millisecond", 1)


async def measure_first_event(base: str) -> list[Result]:
    """Measure the delay of the first event after the first bytes in aiohttp, in wall time.

    The first event starts the first block. The event that only announces a reply is delayed until then, so that the
    request can be retried if the server fails before.
    """
    rows = []
    for shape, name in (("paced", "written alone"), ("burst", "written with all others")):
        source = Source(base, shape, "std", "anthropic-messages")

        async def read_first(source: Source = source) -> None:
            async with source.ai.stream("bench/m", "hi", max_tokens=4096) as stream:
                async for _ in stream:
                    return

        async def measure_wall(function, *args) -> float:
            start = time.perf_counter()
            await function(*args)
            return time.perf_counter() - start

        times: list[tuple[float, ...]] = []
        calibrations = Calibrations()
        async with aiohttp.ClientSession() as session:
            await measure_wall(read_first)
            read_minimal = partial(minimal.read_until_first_event, session, source.url)
            while calibrations.needs_turn:
                calibration = calibrate()
                pairs = [(await measure_wall(read_first), await measure_wall(read_minimal)) for _ in range(20)]
                times.append(tuple(statistics.median(column) * 1e3 for column in zip(*pairs, strict=True)))
                calibrations.add(min(calibration, calibrate()))
        await source.ai.close()
        selected = [times[at] for at in calibrations.quietest]
        value = statistics.median(tenuto - aiohttp_only for tenuto, aiohttp_only in selected)
        tenuto, aiohttp_only = selected[-1]
        rows.append(
            make_result(
                f"first event, {name}: delay compared with aiohttp",
                [],
                value=value,
                unit="ms",
                goal=FIRST_EVENT_GOAL_MS,
                run="bench",
                calibrations=calibrations.selected,
                detail=f"last turn: {tenuto:.2f} vs {aiohttp_only:.2f} ms from the request to the first event",
            )
        )
    return rows


async def measure_requests(base: str) -> list[Result]:
    """Measure sequential requests without streaming."""
    source = Source(base, "burst", "std", "anthropic-messages")

    async def send_minimal() -> None:
        for _ in range(REQUESTS):
            await minimal.request_once(session, source.url)

    async def send() -> None:
        for _ in range(REQUESTS):
            reply = await source.ai.chat("bench/m", "hi", max_tokens=4096)
            if reply.text != text:
                raise SystemExit("the text differs")

    async with aiohttp.ClientSession() as session:
        text = (await minimal.request_once(session, source.url))["content"][0]["text"]
        await send()
        functions = {"tenuto": partial(measure_async_cpu, send), "json": partial(measure_async_cpu, send_minimal)}
        turns = await measure_async_in_turns(functions, 3)
        start = time.perf_counter()
        await send()
        rate = REQUESTS / (time.perf_counter() - start)
    await source.ai.close()
    row, unit = "without streaming, anthropic-messages: tenuto / aiohttp + json.loads", "ms CPU per request"
    detail = f"{rate:.0f} sequential requests per second"
    return [turns.make_result(row, "tenuto", "json", goal=None, unit=unit, scale=1e3 / REQUESTS, detail=detail)]


def peak_memory() -> float:
    """Return the peak resident memory of this process in MB."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


async def measure_concurrent(base: str, which: str) -> dict[str, float]:
    """Read one stream, then many concurrent ones; return CPU and memory."""
    source = Source(base, "concurrent", "concurrent", "anthropic-messages")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        read = source.read if which == "tenuto" else partial(source.read_minimal, session)
        await read()
        before, calibration = peak_memory(), calibrate()
        cpu = await measure_async_cpu(lambda: asyncio.gather(*(read() for _ in range(CONCURRENT))))
    await source.ai.close()
    cpu *= 1e6 / CONCURRENT / source.events
    return {"cpu": cpu, "before": before, "peak": peak_memory(), "calibration": calibration}


MODES = {
    "burst": measure_burst,
    "tls": measure_tls,
    "long": measure_long,
    "arguments": measure_arguments,
    "each": measure_each,
    "paced": measure_paced,
    "first": measure_first_event,
    "whole": measure_requests,
}

if __name__ == "__main__":
    base_url, mode = sys.argv[1:3]
    name, _, which = mode.partition(":")
    output = asyncio.run(measure_concurrent(base_url, which) if which else MODES[name](base_url))
    sys.stdout.buffer.write(msgspec.json.encode(output))
