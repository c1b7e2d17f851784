"""Forks: the first messages of a conversation, and never a call without its result."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent import journals as j
from agent.helpers import HeldTool, add, agent, journal_labels, pay, running_task, scene
from agent.test_machine import WALKS
from tenuto.agent.session import fork_point
from tenuto.core.journal import transcript_of
from tenuto.core.transcript import Transcript
from tenuto.errors import RunCancelled
from tenuto.testing import call, turn

TALK = (turn(call("add", {"a": 1, "b": 2}), call("add", {"a": 1, "b": 2})), turn("3."), turn("And 4."))


@scene
async def test_fork_has_the_first_messages_and_is_independent(tenuto_sim, stores):
    """The original is unchanged, byte for byte, and both can continue."""
    tenuto_sim.script(*TALK)
    async with stores() as store, agent(add, store=store, system="Be brief.") as ai:
        session = ai.session("s")
        await session.send("A")
        await session.send("B")
        before = await session.entries()
        full, first, after_results, after_reply = [await session.fork(at) for at in (None, 1, 3, 4)]

        assert [len(fork.transcript) for fork in (full, first, after_results, after_reply)] == [6, 1, 3, 4]
        assert after_reply.transcript.messages == session.transcript.messages[:4]
        assert [fork.has_pending_work for fork in (full, first, after_results, after_reply)] == [
            False,
            True,
            True,
            False,
        ]
        assert [fork.status for fork in (full, after_reply)] == ["completed", "completed"]
        assert (await after_results.continue_()).text == "3."
        assert (await after_reply.send("C")).text == "And 4."
        assert after_reply.model == session.model
        assert await session.entries() == before
        assert (await journal_labels(after_reply))[:10] == (await journal_labels(session))[:10]
        assert not await store.verify()
    tenuto_sim.assert_clean()


@scene
async def test_fork_between_call_and_result_is_refused(tenuto_sim):
    """The error has the possible positions."""
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
async def test_fork_within_a_cancelled_run_can_continue(tenuto_sim):
    """It has the results that the cancellation wrote; the tools may differ."""
    tenuto_sim.script(turn(call("hold")), turn("I see."))
    held_tool = HeldTool()
    async with agent(held_tool.tool) as ai:
        session = ai.session()
        async with running_task(session.send("Go.")) as run:
            await held_tool.begun.wait()
            await session.cancel()
            with pytest.raises(RunCancelled):
                await run
        first, second = await session.fork(at=3), await session.fork(at=3)
        await first.close()
    async with agent(held_tool.tool, add) as ai:
        assert (await (await ai.resume(first.id)).continue_()).text == "I see."
        assert (await (await ai.resume(second.id)).send("Well?")).text == "I see."
    tenuto_sim.assert_clean()


@settings(max_examples=200)
@given(WALKS, st.integers(-1, 12))
def test_fork_at_any_position_is_a_prefix_or_refused(acts, count):
    """The first messages are unchanged, with a result for every call."""
    entries = j.entries_of(acts)
    messages = transcript_of(entries).messages
    try:
        point = fork_point(entries, count)
    except ValueError:
        assert not 0 < count <= len(messages) or _cuts_a_call(messages, count)
        return
    prefix = entries[:point]

    assert transcript_of(prefix).messages == messages[:count]
    assert len(transcript_of(prefix)) == count
    assert not j.machine_of(prefix).open_calls


def _cuts_a_call(messages, count: int) -> bool:
    """Return whether a cut at this position leaves a call open."""
    return bool(Transcript(messages[:count]).open_calls())


def test_compacted_session_forks_at_any_message():
    talk = [j.MESSAGE_ADDED, j.REQUEST_STARTED, j.REPLY_RECEIVED, j.MESSAGE_ADDED, j.REQUEST_STARTED, j.REPLY_RECEIVED]
    entries = j.entries_of([*talk, j.compacted_up_to(3), j.MESSAGE_ADDED])

    assert [fork_point(entries, count) for count in (1, 2, 3, 4, 5)] == [1, 3, 4, 6, 8]
