"""Measure imports: CPU of a new process, in turns.

The start of Python, measured as `nothing`, is subtracted.
"""

from __future__ import annotations

import os
import sys
from functools import partial

from bench.results import Board, make_result
from bench.startup import run_program
from bench.turns import measure_in_turns

REPEAT = 2
IMPORT_MS = 5.0
CLIENT_GOAL = 1.0
FIRST_GOAL = 1.2
READY = """
import asyncio
from tenuto import AsyncClient
from tenuto.errors import ConnectionFailed
async def main():  # no server listens at this URL: everything up to the first byte runs
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
    "import msgspec": "import msgspec",
    "import msgspec, asyncio": "import msgspec, asyncio",
    "Client()": "from tenuto import Client; Client()",
    "import aiohttp": "import aiohttp",
    "first request ready": READY,
}
LAST_LINE = "\nimport os; os._exit(0)"
"""Skip the shutdown of the interpreter, which is not part of a start."""


def run(board: Board) -> None:
    """Measure this section and add its rows."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    functions = {
        name: partial(run_program, [sys.executable, "-c", program + LAST_LINE], environment)
        for name, program in PROGRAMS.items()
    }
    for function in functions.values():
        function()  # the first run writes the compiled files
    turns = measure_in_turns(functions, REPEAT)
    tenuto_cpu = turns.lowest("import tenuto") - turns.lowest("nothing")  # too small for a ratio of single turns
    startup = turns.costs.pop("nothing")
    for costs in turns.costs.values():
        costs[:] = [cost - start for cost, start in zip(costs, startup, strict=True)]
    board.add(
        make_result(
            "import tenuto",
            [],
            value=tenuto_cpu * 1e3,
            unit="ms CPU",
            goal=IMPORT_MS,
            run="bench",
            calibrations=turns.calibrations,
            detail=f"without the start of Python: {min(startup) * 1e3:.0f}",
        )
    )
    for name, other, goal in (
        ("Client()", "import msgspec, asyncio", CLIENT_GOAL),
        ("Client()", "import msgspec", None),  # asyncio is loaded by the first request
        ("first request ready", "import aiohttp", FIRST_GOAL),
    ):
        board.add(turns.make_result(f"{name}: tenuto / {other}", name, other, goal=goal, unit="ms CPU"))
