"""The simulator that a client sends requests to: a running one, or one that is started with the first request."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from tenuto import settings
from tenuto.errors import TenutoError

if TYPE_CHECKING:
    from tenuto.sim.simulator import Simulator


class LocalSimulator:
    """Find the simulator: at the URL that was passed, at `TENUTO_SIM_URL`, or in this process.

    A simulator in this process belongs to an event loop; another loop starts another one. Both give the same replies,
    because a reply depends only on the seed and the request.
    """

    def __init__(self, url: str = "") -> None:
        self._url = url
        self._started: dict[asyncio.AbstractEventLoop, _LoopSimulator] = {}

    async def url(self) -> str:
        """Return the URL. Raise `TenutoError` if the simulator cannot start with the settings of the environment."""
        if url := self._url or settings.getenv("TENUTO_SIM_URL"):
            url = url.rstrip("/").removesuffix("/v1").removesuffix("/v1beta")  # some SDKs need these
            return url if "://" in url else f"http://{url}"
        loop = asyncio.get_running_loop()
        if loop not in self._started:
            for other in [other for other, simulator in self._started.items() if simulator.is_orphaned]:
                self._started.pop(other).abandon()
            self._started[loop] = _LoopSimulator(loop)
        return await self._started[loop].url()

    async def close(self) -> None:
        """Stop the simulators that were started here."""
        running = asyncio.get_running_loop()
        while self._started:
            loop, simulator = self._started.popitem()
            if loop is running:
                await simulator.stop()
            else:
                simulator.abandon()


class _LoopSimulator:
    """The simulator of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pid = os.getpid()
        self._lock = asyncio.Lock()
        self._simulator: Simulator | None = None
        self._stop_task: asyncio.Task[None] | None = None

    @property
    def is_orphaned(self) -> bool:
        """Whether the loop will never run again: it is closed, or it belongs to the parent of a forked process."""
        return self._loop.is_closed() or self._pid != os.getpid()

    async def url(self) -> str:
        async with self._lock:
            if self._simulator is None:
                simulator = _create_simulator()
                await simulator.__aenter__()
                self._simulator = simulator
            return self._simulator.base_url

    async def stop(self) -> None:
        if self._simulator is not None:
            await self._simulator.__aexit__(None, None, None)

    def abandon(self) -> None:
        """Stop the simulator from outside its loop. If the loop runs, only the loop can close the sockets."""
        if not self.is_orphaned:
            self._loop.call_soon_threadsafe(self._stop_soon)
        elif self._simulator is not None:
            self._simulator.leave()

    def _stop_soon(self) -> None:
        self._stop_task = self._loop.create_task(self.stop())


def _create_simulator() -> Simulator:
    from pathlib import Path

    from tenuto.sim.script import load
    from tenuto.sim.simulator import Simulator, parse_pace

    path = settings.getenv("TENUTO_SIM_SCRIPT")
    try:
        script = load(Path(path).read_bytes()) if path else ()
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        raise TenutoError(f"TENUTO_SIM_SCRIPT: cannot load {path}: {reason}") from exc
    try:
        pace = parse_pace(settings.getenv("TENUTO_SIM_PACE"))
    except ValueError as exc:
        raise TenutoError(f"TENUTO_SIM_PACE: {exc}") from exc
    return Simulator(settings.getenv("TENUTO_SIM_SEED") or "tenuto", script, pace)
