"""An approval policy from a database: it allows, denies or leaves to a person each tool call.

A rule has a tool, an optional limit for `amount`, and a decision. The rules are read for each call, so a change holds at once,
in every process.
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from tenuto import Agent, Hooks, tool
from tenuto.hooks import CallInfo

RULES = """
CREATE TABLE IF NOT EXISTS rules (
    tool TEXT NOT NULL,
    at_most INTEGER, -- NULL: any amount
    decision TEXT NOT NULL CHECK (decision IN ('allow', 'deny', 'ask')),
    reason TEXT NOT NULL DEFAULT ''
)
"""
FIND = """
SELECT decision, reason FROM rules WHERE tool = ? AND (at_most IS NULL OR ? <= at_most)
ORDER BY at_most IS NULL, at_most LIMIT 1
"""


class Policy(Hooks):
    def __init__(self, database: Path) -> None:
        self.database = database

    async def permit(self, call: CallInfo) -> bool | str | None:
        arguments = call.call.parse() if not call.call.broken else {}
        decision, reason = await asyncio.to_thread(self._find, call.call.name, arguments.get("amount", 0))
        if decision == "deny":
            return reason or "the policy denies this call"
        return True if decision == "allow" else None  # None: a person decides if the tool needs approval

    def _find(self, name: str, amount: int) -> tuple[str, str]:
        with sqlite3.connect(self.database) as db:
            db.execute(RULES)
            found = db.execute(FIND, (name, amount)).fetchone()
        db.close()
        return found or ("ask", "")


@tool(approval=True)
def refund(order: str, amount: int) -> str:
    """Refund an order."""
    return f"refunded {amount} EUR for {order}"


def make_agent(database: Path) -> Agent:
    return Agent("anthropic/claude-sonnet-5-5", name="policy", tools=[refund], hooks=[Policy(database)])


if __name__ == "__main__":
    with make_agent(Path("policy.db")) as agent:
        session = agent.session()
        session.send("Refund 20 EUR for order A-17.")
        print(session.text or f"waiting for approval: {session.pending}")
