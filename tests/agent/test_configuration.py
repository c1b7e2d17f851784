"""A session shows its settings, changes its effort, and takes messages back."""

from __future__ import annotations

import json

import pytest

from agent.helpers import add, agent, scene
from tenuto import Agent
from tenuto.testing import turn


@scene
async def test_effort_changes_later_requests(tenuto_sim, stores):
    tenuto_sim.script(turn("A."), turn("B."), turn("C."))
    async with stores() as store, agent(add, store=store, effort="low") as ai:
        session = ai.session("s")
        await session.set_effort("medium")
        await session.send("A")
        await session.set_effort("high")
        await session.set_effort("high")
        await session.send("B")
        await session.set_effort(None)
        await session.send("C")
        written = [entry.kind for entry in await session.entries()].count("configured")

        assert ("effort" in json.loads(session.configuration.parameters), session.tools) == (False, ("add",))
    efforts = [record.body.get("output_config", {}).get("effort") for record in tenuto_sim.requests]
    assert (efforts, written) == (["medium", "high", None], 3)
    tenuto_sim.assert_clean()


@scene
async def test_undo_returns_the_message_and_keeps_the_session(tenuto_sim, stores):
    tenuto_sim.script(turn("A."), turn("B."))
    async with stores() as store, agent(store=store) as ai:
        session = ai.session("s")
        with pytest.raises(ValueError, match="nothing to undo"):
            await session.undo()
        await session.send("A")
        await session.send("B")
        before = await session.entries()
        branch, message = await session.undo()

        assert (str(message), branch.text) == ("B", "A.")
        assert (branch.head, session.head) == (len(before) - 4, len(before))
        assert [str(m) for m in (await session.undo(2))[0].transcript.messages] == []
        assert [str(one) for one in (await branch.send("Or B")).session.transcript.messages][-2] == "Or B"
        assert await session.entries() == before
        with pytest.raises(ValueError, match="choose 1 to 2"):
            await session.undo(3)
    tenuto_sim.assert_clean()


def test_undo_of_a_synchronous_session(tenuto_sim):
    tenuto_sim.script(turn("A."))
    with Agent("sim/anthropic") as ai:
        session = ai.session()
        session.send("A")
        branch, message = session.undo()

        assert (branch.is_new, type(branch), str(message)) == (False, type(session), "A")
        assert (session.run_totals.turns, branch.run_totals.turns) == (1, 0)
