"""Branching off: the first messages of a conversation, and never a call without its result."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent import journals as j
from agent.acting import Held, add, agent, pay, running, scene, story
from agent.test_machine import WALKS
from tenuto.agent.session import fork_point
from tenuto.core.journal import transcript_of
from tenuto.core.transcript import Transcript
from tenuto.errors import RunCancelled
from tenuto.testing import call, turn

TALK = (turn(call("add", {"a": 1, "b": 2}), call("add", {"a": 1, "b": 2})), turn("3."), turn("And 4."))


@scene
async def test_a_fork_keeps_the_first_messages_and_goes_its_own_way(tenuto_sim, stores):
    """What it was forked off is not changed, byte for byte, and both go on."""
    tenuto_sim.script(*TALK)
    async with stores() as store, agent(add, store=store, system="Be brief.") as ai:
        session = ai.session("s")
        await session.send("A")
        await session.send("B")
        before = await session.entries()
        whole, first, answered, spoken = [await session.fork(at) for at in (None, 1, 3, 4)]

        assert [len(fork.transcript) for fork in (whole, first, answered, spoken)] == [6, 1, 3, 4]
        assert spoken.transcript.messages == session.transcript.messages[:4]
        assert [fork.has_pending_work for fork in (whole, first, answered, spoken)] == [False, True, True, False]
        assert [fork.status for fork in (whole, spoken)] == ["completed", "completed"]
        assert (await answered.continue_()).text == "3."
        assert (await spoken.send("C")).text == "And 4."
        assert spoken.model == session.model
        assert await session.entries() == before
        assert (await story(spoken))[:10] == (await story(session))[:10]
        assert not await store.verify()
    tenuto_sim.assert_clean()


@scene
async def test_a_call_is_not_cut_from_its_result(tenuto_sim):
    """The error says where a cut can be made."""
    tenuto_sim.script(turn(call("pay", {"amount": 5})), turn("Done."))
    async with agent(pay, store=None) as ai:
        session = ai.session()
        with pytest.raises(ValueError, match="nothing to fork"):
            await session.fork()
        await session.send("A")
        with pytest.raises(ValueError, match=r"calls have no result yet: continue first, or fork at an earlier"):
            await session.fork()
        await session.approve()
        with pytest.raises(ValueError, match=r"after message 2: a tool call would lose its result; choose 1 or 3"):
            await session.fork(at=2)
        for at in (0, 5, -1):
            with pytest.raises(ValueError, match=rf"after message {at}: choose 1 to 4"):
                await session.fork(at=at)


@scene
async def test_a_fork_in_the_midst_of_a_cancelled_run_goes_on(tenuto_sim):
    """The results that the end gave are there; also with other tools than before."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))
    held = Held()
    async with agent(held.tool) as ai:
        session = ai.session()
        async with running(session.send("Go.")) as run:
            await held.begun.wait()
            await session.cancel()
            with pytest.raises(RunCancelled):
                await run
        asked, said = await session.fork(at=3), await session.fork(at=3)
        await asked.close()
    async with agent(held.tool, add) as ai:
        assert (await (await ai.resume(asked.id)).continue_()).text == "I see."
        assert (await (await ai.resume(said.id)).send("Well?")).text == "I see."
    tenuto_sim.assert_clean()


@settings(max_examples=200)
@given(WALKS, st.integers(-1, 12))
def test_wherever_a_conversation_is_cut_its_beginning_stands(acts, count):
    """What is kept are the first messages as they are, every call with its result; or the cut is refused."""
    entries = j.entries_of(acts)
    whole = transcript_of(entries).messages
    try:
        place = fork_point(entries, count)
    except ValueError:
        assert not 0 < count <= len(whole) or _splits(whole, count)
        return
    kept = entries[:place]

    assert transcript_of(kept).messages == whole[:count]
    assert len(transcript_of(kept)) == count
    assert not j.machine_of(kept).open_calls


def _splits(messages, count: int) -> bool:
    """Whether a cut there would leave a call open."""
    return bool(Transcript(messages[:count]).open_calls())


def test_compacted_session_forks_at_any_message():
    talk = [j.SAID, j.ASKED, j.REPLIED, j.SAID, j.ASKED, j.REPLIED]
    entries = j.entries_of([*talk, j.compacted(3), j.SAID])

    assert [fork_point(entries, count) for count in (1, 2, 3, 4, 5)] == [1, 3, 4, 6, 8]
