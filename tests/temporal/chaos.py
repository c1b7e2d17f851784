"""Run sessions on workers that are killed and stopped at random, and check the store and the effects of the tools.

python tests/temporal/chaos.py [--sessions 1000] [--seed N]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import real_postgres
from temporal.services import Services, Workers, running
from tenuto.core.journal import CallFinished, CallStarted, MessageAdded, ReplyReceived
from tenuto.temporal import SessionClient

TURNS = 3
AT_ONCE = 150
WORKERS = 3


@dataclass
class Outcome:
    sessions: int = 0
    seconds: float = 0.0
    killed: int = 0
    stopped: int = 0
    calls: int = 0
    unknown: int = 0
    """Calls of `once` tools that were reported as unknown."""
    late: int = 0
    """Results that arrived later."""
    problems: list[str] = field(default_factory=list)


async def run(folder: Path, store: str, sessions: int, seed: int) -> Outcome:
    outcome, chance = Outcome(sessions), random.Random(seed)
    async with running(folder, store) as services:
        services.workers.start(WORKERS)
        started = time.monotonic()
        async with _disturbing(services.workers, outcome, chance):
            client = SessionClient(services.client, services.agent("charge"), heartbeat_timeout=3)
            slots = asyncio.Semaphore(AT_ONCE)
            await asyncio.gather(*(_converse(client, f"s{number}", slots, outcome) for number in range(sessions)))
        outcome.seconds = time.monotonic() - started
        await _check(services, sessions, outcome)
    return outcome


async def _converse(client: SessionClient, id: str, slots: asyncio.Semaphore, outcome: Outcome) -> None:
    async with slots:
        for turn in range(TURNS):
            await client.send(id, f"{id} turn {turn}", key=f"turn-{turn}")
            result = await client.result(id)
            if result.progress.status != "completed":
                outcome.problems.append(f"{id} turn {turn}: {result.progress}")


@contextlib.asynccontextmanager
async def _disturbing(workers: Workers, outcome: Outcome, chance: random.Random) -> AsyncIterator[None]:
    """Kill or stop a worker every few seconds, and start another one."""
    task = asyncio.create_task(_disturb(workers, outcome, chance))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for process in workers.processes:
            workers.wake(process)


async def _disturb(workers: Workers, outcome: Outcome, chance: random.Random) -> None:
    asleep: list[tuple[float, subprocess.Popen[str]]] = []
    while True:
        await asyncio.sleep(chance.uniform(2, 5))
        for at, process in [*asleep]:
            if time.monotonic() > at:
                asleep.remove((at, process))
                workers.wake(process)
                await asyncio.sleep(1)  # it notices that it was replaced
                workers.kill(process)
        awake = [process for process in workers.processes if process not in [one for _, one in asleep]]
        victim = chance.choice(awake)
        if chance.random() < 0.5:
            outcome.killed += 1
            workers.kill(victim)
        else:
            outcome.stopped += 1
            workers.stop(victim)
            asleep.append((time.monotonic() + 8, victim))
        await asyncio.to_thread(workers.start)


async def _check(services: Services, sessions: int, outcome: Outcome) -> None:
    agent, problems = services.agent("charge"), outcome.problems
    charged = Counter(services.workers.lines("charge"))
    problems += [f"{key} was charged {count} times" for key, count in charged.items() if count > 1]
    problems += [str(problem) for problem in await agent.store.verify()]
    for number in range(sessions):
        id = f"s{number}"
        session = await agent.resume(id)
        entries = await session.entries()
        prompts = [str(one.payload.message) for one in entries if isinstance(one.payload, MessageAdded)]
        if prompts != [f"{id} turn {turn}" for turn in range(TURNS)]:
            problems.append(f"{id}: prompts {prompts}")
        if session.status != "completed":
            problems.append(f"{id}: {session.status}")
        reply, results = 0, Counter[tuple[int, int]]()
        begun: set[tuple[int, int]] = set()
        for entry in entries:
            payload = entry.payload
            if isinstance(payload, ReplyReceived):
                reply = entry.seq
            elif isinstance(payload, CallStarted):
                begun.add((reply, payload.call_index))
            elif isinstance(payload, CallFinished):
                results[reply, payload.call_index] += 1
                outcome.unknown += payload.outcome == "interrupted"
        outcome.calls += len(begun)
        if begun != set(results) or max(results.values(), default=1) > 1:
            problems.append(f"{id}: calls {begun}, results {results}")
        outcome.late += len(await agent.store.inbox(id))
        report = await session.audit()
        if not report.clean:
            problems.append(f"{id}: {report.findings}")
    await agent.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/temporal/chaos.py", description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=29)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, real_postgres.using(Path(name) / "postgres") as server:
        outcome = asyncio.run(run(Path(name), server.url("temporal"), options.sessions, options.seed))
    print(
        f"{outcome.sessions} sessions of {TURNS} turns in {outcome.seconds:.0f} s: {outcome.killed} workers killed, "
        f"{outcome.stopped} stopped; {outcome.calls} calls, {outcome.unknown} reported as unknown, {outcome.late} late "
        f"results; {len(outcome.problems)} problems"
    )
    print(*outcome.problems[:20], sep="\n")
    return bool(outcome.problems)


if __name__ == "__main__":
    sys.exit(main())
