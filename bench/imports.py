"""What loading costs: CPU of a fresh process, the least of 15, measured in turns.

The time before the first line of the program (Python's own start) is measured as `nothing` and taken off everywhere.
"""

from __future__ import annotations

import os
import subprocess
import sys

ROUNDS = 15
READY = """
import asyncio
from tenuto import AsyncClient
from tenuto.errors import ConnectionFailed
async def main():  # to an address where nobody listens: everything up to the first byte is done
    async with AsyncClient(providers={"anthropic": {"base_url": "http://127.0.0.1:9", "api_key": "k"}}, middleware=[]) as ai:
        try:
            await ai.chat("anthropic/claude-sonnet-4-5", "hi")
        except ConnectionFailed:
            pass
asyncio.run(main())
"""
PROGRAMS = {
    "nothing": "pass",
    "import tenuto": "import tenuto",
    "import msgspec, asyncio": "import msgspec, asyncio",
    "Client()": "from tenuto import Client; Client()",
    "import aiohttp": "import aiohttp",
    "first request ready": READY,
}
LAST_LINE = "\nimport resource, os; u = resource.getrusage(resource.RUSAGE_SELF); os.write(1, str(u.ru_utime + u.ru_stime).encode()); os._exit(0)"


def measure() -> dict[str, float]:
    """Return the least CPU milliseconds of each program, Python's own start taken off."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for at in range(ROUNDS + 1):
        for name, program in PROGRAMS.items():
            command = [sys.executable, "-c", program + LAST_LINE]
            done = subprocess.run(command, capture_output=True, check=True, env=environment)
            if at:  # the first turn writes the compiled files
                found[name].append(float(done.stdout) * 1e3)
    start = min(found["nothing"])
    return {name: min(times) - start for name, times in found.items()}
