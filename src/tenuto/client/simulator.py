"""The simulator that a client asks: one that runs elsewhere, or one of its own that it starts when it is first asked."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from tenuto import settings
from tenuto.errors import TenutoError

if TYPE_CHECKING:
    from tenuto.sim.simulator import Simulator

__all__ = ["LocalSimulator"]

_ADDED = ("/v1", "/v1beta")
"""What some SDKs want at the end of an address."""


class LocalSimulator:
    """Finds the simulator: at the address that was given, at `TENUTO_SIM_URL`, or in this process.

    One's own belongs to the loop in which it was started; in another loop, another one is started. That makes no
    difference to who asks: what it answers depends on its seed and the request.
    """

    def __init__(self) -> None:
        self.given = ""
        self._own: dict[asyncio.AbstractEventLoop, _Own] = {}

    async def address(self) -> str:
        """Return where it is. Raise `TenutoError` if it cannot be started as the environment says."""
        named = self.given or settings.getenv("TENUTO_SIM_URL")
        if named:
            return _bare(named)
        loop = asyncio.get_running_loop()
        if loop not in self._own:
            for other in [other for other, own in self._own.items() if own.orphaned]:
                self._own.pop(other).leave()
            self._own[loop] = _Own(loop)
        return await self._own[loop].address()

    async def close(self) -> None:
        """Stop those that were started here."""
        here = asyncio.get_running_loop()
        while self._own:
            loop, own = self._own.popitem()
            if loop is here:
                await own.stop()
            else:
                own.leave()


class _Own:
    """The simulator of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pid = os.getpid()
        self._lock = asyncio.Lock()
        self._simulator: Simulator | None = None
        self._ending: asyncio.Task[None] | None = None

    @property
    def orphaned(self) -> bool:
        """Whether its loop will never run again: it was closed, or is that of the process this one was forked off."""
        return self._loop.is_closed() or self._pid != os.getpid()

    async def address(self) -> str:
        async with self._lock:
            if self._simulator is None:
                made = _simulator()
                await made.__aenter__()
                self._simulator = made
            return self._simulator.base_url

    async def stop(self) -> None:
        if self._simulator is not None:
            await self._simulator.__aexit__(None, None, None)

    def leave(self) -> None:
        """Stop it from outside its loop. A socket that a loop still waits for can only be closed by that loop."""
        if not self.orphaned:
            self._loop.call_soon_threadsafe(self._end)
        elif self._simulator is not None:
            self._simulator.leave()

    def _end(self) -> None:
        self._ending = self._loop.create_task(self.stop())


def _simulator() -> Simulator:
    from pathlib import Path

    from tenuto.sim.script import load
    from tenuto.sim.simulator import Simulator, parse_pace

    path = settings.getenv("TENUTO_SIM_SCRIPT")
    try:
        script = load(Path(path).read_bytes()) if path else ()
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else exc
        raise TenutoError(f"TENUTO_SIM_SCRIPT names {path}: {why}") from exc
    try:
        pace = parse_pace(settings.getenv("TENUTO_SIM_PACE"))
    except ValueError as exc:
        raise TenutoError(f"TENUTO_SIM_PACE: {exc}") from exc
    return Simulator(settings.getenv("TENUTO_SIM_SEED") or "tenuto", script, pace)


def _bare(address: str) -> str:
    address = address.rstrip("/")
    for ending in _ADDED:
        address = address.removesuffix(ending)
    return address if "://" in address else f"http://{address}"
