"""A worker process: `python tests/temporal/worker_program.py ADDRESS STORE SIMULATOR LEDGER`.

It prints `ready` when it accepts work. The tools append a line for each effect to LEDGER.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time

from temporalio.client import Client

from tenuto import AsyncAgent, Limits, ToolContext, tool
from tenuto.client.middleware.retry import Retry
from tenuto.store.open import open_store
from tenuto.store.protocol import Store
from tenuto.temporal import worker

LEASE = 2.0  # seconds
LEDGER = sys.argv[4] if __name__ == "__main__" else ""


def write(effect: str, context: ToolContext) -> None:
    file = os.open(LEDGER, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, f"{effect} {context.key} {context.attempt}\n".encode())
    os.fsync(file)
    os.close(file)


@tool(effect="once")
async def charge(context: ToolContext) -> str:
    """Charge the card."""
    write("charge", context)
    await asyncio.sleep(random.uniform(0, 0.2))
    return "charged"


@tool(effect="pure")
async def look(context: ToolContext) -> str:
    """Look."""
    write("look", context)
    return "seen"


@tool(effect="once")
async def hold(context: ToolContext) -> str:
    """Write a line, and wait until a file with the name of the ledger and `.go` exists."""
    write("hold", context)
    try:
        while not os.path.exists(f"{LEDGER}.go"):  # noqa: ASYNC240, PTH110 - one look at a local file
            await asyncio.sleep(0.05)
    except asyncio.CancelledError:
        write("cancelled", context)
        raise
    write("held", context)
    return "held"


@tool(effect="once", approval=True)
def pay(context: ToolContext) -> str:
    """Pay."""
    write("pay", context)
    return "paid"


def agents(store: str | Store, simulator: str) -> list[AsyncAgent]:
    """Return an agent for each scene; its name is that of its tools."""
    options = {
        "store": store,
        "providers": {"sim": {"base_url": simulator}},
        "retry": Retry(4, base=0.01),
        "limits": Limits(turns=50),
    }
    return [
        AsyncAgent("sim/anthropic", name=name, tools=tools, **options)
        for name, tools in {"charge": [charge, look], "hold": [hold], "pay": [pay], "look": [look]}.items()
    ]


async def main(address: str, store: str, simulator: str) -> None:
    client = await Client.connect(address)
    async with worker(client, agents(open_store(store, ttl=LEASE), simulator), steps=20, shutdown=5):
        print("ready", time.time(), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
