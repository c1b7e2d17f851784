"""Measure the client over a socket: start the server and run each mode of `bench.network` in a new process."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.network import CONCURRENT, MODES, UNIT
from bench.results import Board, Result, make_result
from bench.turns import Calibrations


@contextlib.contextmanager
def start_server(directory: Path) -> Iterator[tuple[str, str]]:
    """Run the server; yield its URLs, plain and with TLS."""
    command = [sys.executable, "-m", "bench.server", str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            plain, tls = server.stdout.readline().split()
            yield f"http://127.0.0.1:{plain}", f"https://127.0.0.1:{tls}"
        finally:
            server.kill()


def _measure_mode(directory: Path, base: str, mode: str) -> bytes:
    environment = {**os.environ, "SSL_CERT_FILE": str(directory / "cert.pem"), "NO_PROXY": "127.0.0.1"}
    command = [sys.executable, "-m", "bench.network", base, mode]
    process = subprocess.run(command, stdout=subprocess.PIPE, check=False, env=environment, timeout=300)
    if process.returncode:
        raise SystemExit(f"{' '.join(command[1:])} failed: see above")
    return process.stdout


def measure_concurrent(board: Board, directory: Path, base: str) -> None:
    """Measure CPU and memory of many concurrent streams, each time in a new process."""
    turns: list[dict[str, dict[str, float]]] = []
    calibrations = Calibrations(has_goal=False)
    while calibrations.needs_turn:
        turns.append(
            {
                which: msgspec.json.decode(_measure_mode(directory, base, f"concurrent:{which}"))
                for which in ("tenuto", "minimal")
            }
        )
        calibrations.add(min(one["calibration"] for one in turns[-1].values()))
    turns = [turns[at] for at in calibrations.quietest]
    for figure, unit in (("cpu", UNIT), ("peak", "MB")):
        value, other_value = (min(turn[which][figure] for turn in turns) for which in ("tenuto", "minimal"))
        detail = f"vs {other_value:.3g}"
        if figure == "peak":
            detail += f"; before: {turns[-1]['tenuto']['before']:.1f} vs {turns[-1]['minimal']['before']:.1f}"
        what = "CPU" if figure == "cpu" else "peak memory"
        board.add(
            make_result(
                f"{CONCURRENT} streams, {what}: tenuto / aiohttp + json.loads",
                [turn["tenuto"][figure] / turn["minimal"][figure] for turn in turns],
                value=value,
                unit=unit,
                goal=None,
                run="bench",
                calibrations=calibrations.selected,
                detail=detail,
            )
        )


def run(board: Board) -> None:
    """Measure this section and add its rows."""
    with tempfile.TemporaryDirectory() as name, start_server(Path(name)) as (plain, tls):
        for mode in MODES:
            base = tls if mode == "tls" else plain
            for row in msgspec.json.decode(_measure_mode(Path(name), base, mode), type=list[Result]):
                board.add(row)
        measure_concurrent(board, Path(name), plain)
