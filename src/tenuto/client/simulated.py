"""The simulator that a client asks: one that runs elsewhere, or one of its own that it starts when it is first asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from tenuto import settings
from tenuto.errors import TenutoError

if TYPE_CHECKING:
    from tenuto.sim.simulator import Simulator

__all__ = ["Simulated"]

_ADDED = ("/v1", "/v1beta")
"""What some SDKs want at the end of an address."""


class Simulated:
    """Finds the simulator: at `TENUTO_SIM_URL`, at the address that was given, or in this process.

    One's own belongs to the loop in which it was started; in another loop, another one is started. That makes no
    difference to who asks: what it answers depends on its seed and the request.
    """

    def __init__(self) -> None:
        self.given = ""
        self._own: Simulator | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock: asyncio.Lock | None = None

    async def address(self) -> str:
        """Return where it is. Raise `TenutoError` if it cannot be started as the environment says."""
        named = settings.value("TENUTO_SIM_URL") or self.given
        return _bare(named) if named else await self._started()

    async def close(self) -> None:
        """Stop the one that was started here."""
        own, self._own = self._own, None
        if own is None:
            return
        if self._loop is asyncio.get_running_loop():
            await own.__aexit__(None, None, None)
        else:
            own.leave()

    async def _started(self) -> str:
        loop = asyncio.get_running_loop()
        if self._loop is not loop or self._lock is None:
            await self.close()
            self._loop, self._lock = loop, asyncio.Lock()
        async with self._lock:
            if self._own is None:
                own = _simulator()
                await own.__aenter__()
                self._own = own
            return self._own.base_url


def _simulator() -> Simulator:
    from tenuto.sim.script import load
    from tenuto.sim.simulator import Simulator, parse_pace

    path = settings.value("TENUTO_SIM_SCRIPT")
    try:
        script = load(Path(path).read_bytes()) if path else ()
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else exc
        raise TenutoError(f"TENUTO_SIM_SCRIPT names {path}: {why}") from exc
    try:
        pace = parse_pace(settings.value("TENUTO_SIM_PACE"))
    except ValueError as exc:
        raise TenutoError(f"TENUTO_SIM_PACE: {exc}") from exc
    return Simulator(settings.value("TENUTO_SIM_SEED") or "tenuto", script, pace)


def _bare(address: str) -> str:
    address = address.rstrip("/")
    for ending in _ADDED:
        address = address.removesuffix(ending)
    return address if "://" in address else f"http://{address}"
