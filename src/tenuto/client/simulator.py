"""The simulator that a client sends requests to: a running one, or one that the first request starts."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

from tenuto import settings
from tenuto.errors import TenutoError

if TYPE_CHECKING:
    from tenuto.sim.simulator import Simulator


class LocalSimulator:
    """Find the simulator: at the URL that was passed, at `TENUTO_SIM_URL`, or in a thread of this process."""

    def __init__(self, url: str = "") -> None:
        self._url = url
        self._lock = threading.Lock()
        self._simulator: Simulator | None = None
        self._pid = 0

    async def url(self) -> str:
        """Return the URL. Raise `TenutoError` if the simulator cannot start with the settings of the environment."""
        if url := self._url or settings.getenv("TENUTO_SIM_URL"):
            url = url.rstrip("/").removesuffix("/v1").removesuffix("/v1beta")  # some SDKs need these
            return url if "://" in url else f"http://{url}"
        if self._simulator is None or self._pid != os.getpid():  # a forked process has no threads of its parent
            await asyncio.to_thread(self._start)
        assert self._simulator is not None
        return self._simulator.base_url

    async def close(self) -> None:
        """Stop the simulator, if it was started here."""
        simulator, self._simulator = self._simulator, None
        if simulator is not None and self._pid == os.getpid():
            await asyncio.to_thread(simulator.__exit__, None, None, None)

    def _start(self) -> None:
        with self._lock:
            if self._simulator is None or self._pid != os.getpid():
                simulator = _create_simulator()
                simulator.__enter__()
                self._simulator, self._pid = simulator, os.getpid()


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
