"""The simulator that a client sends requests to: a running one, or one that the first request starts.

During an `override`, one simulator answers every model name, and other hosts are not reached.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from tenuto import settings
from tenuto.client.http import safe_url
from tenuto.errors import ClosedError, NetworkForbidden, TenutoError

if TYPE_CHECKING:
    from tenuto.sim.simulator import Simulator


class Override(msgspec.Struct, eq=False, frozen=True):
    """A simulator that answers every model name: see `tenuto.testing.override`."""

    url: str
    network: bool | Collection[str]
    """The hosts that are reached as usual; True allows all."""

    def allows(self, url: str) -> bool:
        """Tell whether the test lists the host of a URL."""
        host = _host(url)
        return not isinstance(self.network, bool) and not {host, host.rpartition(":")[0]}.isdisjoint(self.network)


overrides: list[Override] = []
"""The active overrides of this process. The last one is in effect."""
_simulator_hosts: dict[int, str] = {}
"""Host and port of the simulator on this machine that each open `LocalSimulator` uses, by its `id`."""


def simulator_for(url: str) -> str:
    """Return the URL of the simulator that answers in place of a URL; empty if none does."""
    return next((active.url for active in overrides[-1:] if not active.allows(url)), "")


def check_network(url: str) -> None:
    """Raise `NetworkForbidden` if an override or `TENUTO_OFFLINE` forbids a request to a URL."""
    is_forbidden = any(active.network is not True and not active.allows(url) for active in overrides[-1:])
    if not is_forbidden and not settings.is_offline():
        return
    if _host(url) not in [*_simulator_hosts.values(), *(_host(active.url) for active in overrides)]:
        raise NetworkForbidden(safe_url(url))


def _host(url: str) -> str:
    """Return host and port of a URL as it has them; empty for an invalid URL."""
    return urlsplit(safe_url(url)).netloc.lower()


class LocalSimulator:
    """Find the simulator: at the URL that was passed, of an override, at `TENUTO_SIM_URL`, or in a thread.

    `greeting` is for the simulator in this process (see `Simulator`).
    """

    def __init__(self, url: str = "", greeting: str = "") -> None:
        self._url = url
        self._greeting = greeting
        self._lock = threading.Lock()
        self._simulator: Simulator | None = None
        self._pid = 0
        self._is_closed = False
        weakref.finalize(self, _simulator_hosts.pop, id(self), None)  # for clients that are never closed

    async def url(self) -> str:
        """Return the URL. Raise `TenutoError` if the simulator cannot start with the settings of the environment."""
        url = self._url or simulator_for("") or settings.getenv("TENUTO_SIM_URL")
        if url:
            url = url.rstrip("/").removesuffix("/v1").removesuffix("/v1beta")  # some SDKs need these
            url = url if "://" in url else f"http://{url}"
        else:
            if self._simulator is None or self._pid != os.getpid():  # a forked process has no threads of its parent
                await asyncio.to_thread(self._start)
            if self._simulator is None:  # closed while it started
                raise ClosedError("the client is closed")
            url = self._simulator.base_url
        if urlsplit(url).hostname in settings.LOCAL_HOSTS:
            _simulator_hosts[id(self)] = _host(url)
        return url

    async def close(self) -> None:
        """Stop the simulator, if it was started here."""
        self._is_closed = True
        _simulator_hosts.pop(id(self), None)
        if self._simulator is not None or self._lock.locked():  # locked: it starts in another thread
            await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        with self._lock:
            simulator, self._simulator = self._simulator, None
            if simulator is not None and self._pid == os.getpid():
                simulator.__exit__(None, None, None)

    def _start(self) -> None:
        from pathlib import Path

        from tenuto.sim.script import load
        from tenuto.sim.simulator import Simulator, parse_pace

        with self._lock:
            if self._is_closed:
                raise ClosedError("the client is closed")
            if self._simulator is not None and self._pid == os.getpid():
                return
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
            seed = settings.getenv("TENUTO_SIM_SEED") or "tenuto"
            simulator = Simulator(seed, script, pace, greeting=self._greeting)
            simulator.__enter__()
            self._simulator, self._pid = simulator, os.getpid()
