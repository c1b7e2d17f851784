"""A program that holds a session, to be killed from outside: `python holder.py DATABASE LEDGER [deaf]`.

It prints a word for each step. With `deaf` it does not look at its inbox while tools run.
"""

from __future__ import annotations

import asyncio
import os
import sys

from tenuto import Agent, tool
from tenuto.agent import agent as agent_module
from tenuto.errors import RunCancelled

KEY = "job-7"


def write(step: str) -> None:
    sys.stdout.write(f"{step}\n")
    sys.stdout.flush()


def make_agent(database: str, ledger: str) -> Agent:
    @tool(approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"{amount}\n".encode())
        os.fsync(file)
        os.close(file)
        write("paid")
        return f"paid {amount}"

    @tool
    async def hold() -> str:
        """Wait."""
        write("holding")
        await asyncio.sleep(60)
        return "held"

    return Agent("sim/anthropic", tools=[pay, hold], store=database)


def main() -> None:
    database, ledger, *options = sys.argv[1:]
    if "deaf" in options:
        agent_module.INBOX_INTERVAL = 600.0
    with make_agent(database, ledger) as agent:
        try:
            agent.session("run").send("Go.", key=KEY)
        except RunCancelled:
            write("cancelled")


if __name__ == "__main__":
    main()
