"""The client's part of the benchmark: sockets, requests, memory, imports; each a ratio measured in one run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import agent, audit, imports, sim, startup, store

SOCKET = 0.9
IMPORT_MS = 5.0
CLIENT = 1.5
READY = 1.2


class Verdicts:
    """Prints rows and remembers what was missed."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def row(self, name: str, ratio: float, goal: float | None, detail: str) -> None:
        verdict = "" if goal is None else "ok" if ratio <= goal else "MISSED"
        if verdict == "MISSED":
            self.missed.append(name)
        aim = f"goal {goal:g}" if goal is not None else ""
        print(f"{name:42} {ratio:6.2f}  {aim:10} {verdict:6} {detail}")


def run() -> list[str]:
    verdicts = Verdicts()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with subprocess.Popen([sys.executable, "-m", "bench.server", name], stdin=subprocess.PIPE) as server:
            try:
                _over_the_wire(folder, verdicts)
            finally:
                server.kill()
    sim.run(verdicts.row)
    store.run(verdicts.row)
    agent.run(verdicts.row)
    audit.run(verdicts.row)
    startup.run(verdicts.row)
    _imports(verdicts)
    return verdicts.missed


def _over_the_wire(folder: Path, verdicts: Verdicts) -> None:
    for name, scheme in (("plain", "http"), ("tls", "https")):
        while not (folder / f"{name}.port").exists():
            time.sleep(0.05)
        url = f"{scheme}://127.0.0.1:{(folder / f'{name}.port').read_text()}/v1"
        for dialect, (ratio, floor, cost) in _measured(folder, url, "stream").items():
            detail = f"{cost * 1e3:.2f} against {floor * 1e3:.2f} ms CPU per 1,000 deltas"
            verdicts.row(f"socket, {name}, {dialect}", ratio, SOCKET, detail)
    url = f"http://127.0.0.1:{(folder / 'plain.port').read_text()}/v1"
    found = _measured(folder, url, "whole")
    ratio, floor, cost = found["whole"]
    detail = f"{cost * 1e3:.3f} against {floor * 1e3:.3f} ms CPU per request; {found['rps']:.0f} requests a second"
    verdicts.row("without streaming", ratio, None, detail)
    ours, naive = _measured(folder, url, "memory:ours"), _measured(folder, url, "memory:naive")
    detail = f"peak {ours['peak']:.1f} MB (from {ours['before']:.1f}) against {naive['peak']:.1f} (from {naive['before']:.1f})"
    verdicts.row("resident memory at 200 streams", ours["peak"] / naive["peak"], None, detail)


def _measured(folder: Path, url: str, mode: str) -> dict:
    environment = {**os.environ, "SSL_CERT_FILE": str(folder / "cert.pem"), "NO_PROXY": "127.0.0.1"}
    command = [sys.executable, "-m", "bench.network", url, mode]
    return json.loads(subprocess.run(command, capture_output=True, check=True, env=environment, timeout=300).stdout)


def _imports(verdicts: Verdicts) -> None:
    cost = imports.measure()
    print(f"Python's own start taken off; least of {imports.ROUNDS}, CPU:")
    least = cost["import tenuto"]
    verdict = "ok" if least <= IMPORT_MS else "MISSED"
    print(f"{'import tenuto':42} {least:6.2f} ms  goal {IMPORT_MS:g} ms  {verdict}")
    if verdict != "ok":
        verdicts.missed.append("import tenuto")
    for name, floor, goal in (
        ("Client()", "import msgspec, asyncio", CLIENT),
        ("first request ready", "import aiohttp", READY),
    ):
        verdicts.row(name, cost[name] / cost[floor], goal, f"{cost[name]:.1f} against {cost[floor]:.1f} ms for {floor}")
