"""What loading costs: CPU of a fresh process, measured in turns.

The time before the first line of the program (Python's own start) is measured as `nothing` and taken off everywhere.
"""

from __future__ import annotations

import os
import sys
from functools import partial

from bench.results import Board, judged
from bench.startup import spent
from bench.turns import in_turns

REPEAT = 2
IMPORT_MS = 5.0
CLIENT = 1.0
FIRST = 1.2
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
    "import msgspec": "import msgspec",
    "import msgspec, asyncio": "import msgspec, asyncio",
    "Client()": "from tenuto import Client; Client()",
    "import aiohttp": "import aiohttp",
    "first request ready": READY,
}
LAST_LINE = "\nimport os; os._exit(0)"
"""Taking a process down is nobody's start."""


def run(board: Board) -> None:
    """Measure, and add the rows."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    acts = {
        name: partial(spent, [sys.executable, "-c", program + LAST_LINE], environment)
        for name, program in PROGRAMS.items()
    }
    for act in acts.values():
        act()  # the first writes the compiled files
    turns = in_turns(acts, REPEAT)
    own = turns.least("import tenuto") - turns.least("nothing")  # so little that turns one by one would tell of noise
    bare = turns.costs.pop("nothing")
    for costs in turns.costs.values():
        costs[:] = [cost - start for cost, start in zip(costs, bare, strict=True)]
    board.add(
        judged("import tenuto", [], value=own * 1e3, unit="ms CPU", goal=IMPORT_MS, run="bench",
               calibrations=turns.calibrations, detail=f"beside Python's own start of {min(bare) * 1e3:.0f}")
    )  # fmt: skip
    for name, floor, goal in (
        ("Client()", "import msgspec, asyncio", CLIENT),
        ("Client()", "import msgspec", None),  # the loop is loaded by the first question
        ("first request ready", "import aiohttp", FIRST),
    ):
        board.add(turns.judged(f"{name}: ours / {floor}", name, floor, goal=goal, unit="ms CPU"))
