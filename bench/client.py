"""The client over a socket: starts the server, and measures each mode of `bench.network` in a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.network import CROWD, MODES, UNIT
from bench.results import Board, Result, judged
from bench.turns import Beside


@contextlib.contextmanager
def served(folder: Path) -> Iterator[tuple[str, str]]:
    """Run the server; give its addresses, plain and with TLS."""
    command = [sys.executable, "-m", "bench.server", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            plain, tls = server.stdout.readline().split()
            yield f"http://127.0.0.1:{plain}", f"https://127.0.0.1:{tls}"
        finally:
            server.kill()


def _measured(folder: Path, base: str, mode: str) -> bytes:
    environment = {**os.environ, "SSL_CERT_FILE": str(folder / "cert.pem"), "NO_PROXY": "127.0.0.1"}
    command = [sys.executable, "-m", "bench.network", base, mode]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, env=environment, timeout=300)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[1:])} broke off: see above")
    return done.stdout


def crowd(board: Board, folder: Path, base: str) -> None:
    """Many streams at once: CPU and memory, each time in a fresh process."""
    turns: list[dict[str, dict[str, float]]] = []
    beside = Beside(judged=False)
    while beside.wanting:
        turns.append(
            {which: msgspec.json.decode(_measured(folder, base, f"crowd:{which}")) for which in ("ours", "floor")}
        )
        beside.add(min(one["beside"] for one in turns[-1].values()))
    turns = [turns[at] for at in beside.stillest]
    for figure, unit in (("cpu", UNIT), ("peak", "MB")):
        mine, theirs = (min(turn[which][figure] for turn in turns) for which in ("ours", "floor"))
        detail = f"against {theirs:.3g}"
        if figure == "peak":
            detail += f"; from {turns[-1]['ours']['before']:.1f} and {turns[-1]['floor']['before']:.1f}"
        what = "CPU" if figure == "cpu" else "peak memory"
        board.add(
            judged(f"{CROWD} streams, {what}: ours / aiohttp + json.loads",
                   [turn["ours"][figure] / turn["floor"][figure] for turn in turns], value=mine, unit=unit, goal=None,
                   run="bench", calibrations=beside.counted, detail=detail)
        )  # fmt: skip


def run(board: Board) -> None:
    """Measure, and add the rows."""
    with tempfile.TemporaryDirectory() as name, served(Path(name)) as (plain, tls):
        for mode in MODES:
            base = tls if mode == "tls" else plain
            for row in msgspec.json.decode(_measured(Path(name), base, mode), type=list[Result]):
                board.add(row)
        crowd(board, Path(name), plain)
