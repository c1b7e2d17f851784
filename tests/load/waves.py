"""Short runs in waves through one agent; sessions are dropped and collected between the waves."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from tenuto import Agent, AsyncAgent
from tenuto.store.open import open_store
from tenuto.testing import Simulator

WAVE = 50


class Leaks(msgspec.Struct, frozen=True):
    """Additional resources after everything is closed, and the sessions that are still held after the last run."""

    tasks: int
    threads: int
    descriptors: int
    leases: int


def async_waves(store: str, runs: int) -> Leaks:
    """Run through one `AsyncAgent`, 50 at a time. Raise what a run raises."""
    return asyncio.run(_async_waves(store, runs))


async def _async_waves(store: str, runs: int) -> Leaks:
    await _play(store, 1)  # imports everything once
    before = _resources(len(asyncio.all_tasks()))
    leases = await _play(store, runs)
    return _leaks(before, _resources(len(asyncio.all_tasks())), leases)


async def _play(store: str, runs: int) -> int:
    """Run, and return how many sessions are held when no run is active."""
    async with Simulator() as sim, AsyncAgent("sim/anthropic", store=store, **_options(sim)) as agent:

        async def one(at: int) -> None:
            reply = await agent.session().send(f"hello {at}")
            assert reply.text

        for first in range(0, runs, WAVE):
            await asyncio.gather(*map(one, range(first, min(first + WAVE, runs))))
            gc.collect()
        return await _leases(store)


def sync_waves(store: str, runs: int) -> Leaks:
    """Run through one `Agent` from 50 threads. Raise what a run raises."""
    _play_in_threads(store, 1)
    before = _resources(0)
    leases = _play_in_threads(store, runs)
    return _leaks(before, _resources(0), leases)


def _play_in_threads(store: str, runs: int) -> int:
    with Simulator() as sim, Agent("sim/anthropic", store=store, **_options(sim)) as agent:

        def one(at: int) -> None:
            assert agent.session().send(f"hello {at}").text

        with ThreadPoolExecutor(WAVE) as pool:
            for first in range(0, runs, WAVE):
                list(pool.map(one, range(first, min(first + WAVE, runs))))
                gc.collect()
        return asyncio.run(_leases(store))


def _resources(tasks: int) -> tuple[int, int, int]:
    gc.collect()
    descriptors = Path("/proc/self/fd")
    return tasks, threading.active_count(), len([*descriptors.iterdir()]) if descriptors.exists() else 0


def _leaks(before: tuple[int, int, int], after: tuple[int, int, int], leases: int) -> Leaks:
    return Leaks(*(now - then for now, then in zip(after, before, strict=True)), leases)


def _options(sim: Simulator) -> dict:
    return {"providers": {"sim": {"base_url": sim.base_url}}}


async def _leases(store: str) -> int:
    """Count the sessions that a process still holds."""
    async with open_store(store) as opened:
        count, after = 0, ""
        while True:
            page = await opened.sessions(limit=500, after=after)
            count += sum(1 for session in page.sessions if session.holder)
            after = page.next
            if not after:
                return count
