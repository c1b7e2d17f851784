"""A worker: `python -m examples.temporal.support`. Start as many as you need, on any machine.

TEMPORAL is the address of the server, TENUTO_STORE the database of the sessions. Without MODEL, the simulator replies.
"""

import asyncio
import os
import sys

from temporalio.client import Client

from tenuto import AsyncAgent, ToolContext, tool
from tenuto.temporal import worker


@tool(effect="once")
async def refund(order: str, context: ToolContext) -> str:
    """Refund an order."""
    print(f"worker {os.getpid()}: refund of {order} begins", flush=True)
    await asyncio.sleep(float(os.environ.get("REFUND_SECONDS", "0")))
    print(f"worker {os.getpid()}: refund of {order} ends", flush=True)
    return f"refunded {order}"


@tool(effect="pure")
async def lookup(order: str) -> str:
    """Look up an order."""
    return f"{order} was delivered"


def make_agent() -> AsyncAgent:
    """Return the agent. Workers and clients need the same one."""
    url = os.environ.get("SIMULATOR")
    return AsyncAgent(
        os.environ.get("MODEL", "sim/anthropic"),
        name="support",
        system="You answer questions about orders.",
        tools=[refund, lookup],
        providers={"sim": {"base_url": url}} if url else {},
    )


async def main() -> None:
    client = await Client.connect(os.environ.get("TEMPORAL", "127.0.0.1:7233"))
    async with make_agent() as agent, worker(client, [agent]):
        print(f"worker {os.getpid()}: ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(130)
