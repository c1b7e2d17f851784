"""A hundred concurrent sessions in one process and one file: each completes with its own messages."""

from __future__ import annotations

import asyncio

from tenuto import tool
from tenuto.agent.agent import AsyncAgent
from tenuto.testing import call, say, think, turn

MANY = 100


@tool(effect="pure")
async def look(who: str) -> str:
    """Look."""
    return f"{who} was seen"


@tool
def pay(who: str) -> str:
    """Pay."""
    return f"{who} was paid"


async def _play(where):
    async with AsyncAgent("sim/anthropic", tools=[look, pay], store=where) as agent:
        sessions = [agent.session() for _ in range(MANY)]
        await asyncio.gather(*(session.send(f"I am number-{at}.") for at, session in enumerate(sessions)))
        return sessions, await agent.store.verify(), await agent.store.sessions(limit=MANY + 1)


def test_hundred_sessions_complete_independently(tenuto_sim, tmp_path):
    for at in range(MANY):
        who = {"who": f"number-{at}"}
        turns = (turn(think("Hm."), call("look", who), call("pay", who)), turn(say(f"Goodbye, number-{at}.")))
        tenuto_sim.script(*turns, when=f"number-{at}.")

    sessions, faults, page = asyncio.run(_play(tmp_path / "sessions.db"))

    assert faults == []
    assert {session.status for session in sessions} == {"completed"}
    assert [session.text for session in sessions] == [f"Goodbye, number-{at}." for at in range(MANY)]
    assert len({session.id for session in sessions}) == len(page.sessions) == MANY
    for at, session in enumerate(sessions):
        results = session.transcript.messages[2].results
        assert [str(result.content) for result in results] == [f"number-{at} was seen", f"number-{at} was paid"]
    assert len(tenuto_sim.requests) == 2 * MANY
    tenuto_sim.assert_clean()
