"""Prompts that are posted to a session at rest: `continue_()` of any process runs them."""

from __future__ import annotations

import pytest

from agent.helpers import HeldTool, agent, journal_labels, running_task, scene
from tenuto.agent.runner import Done
from tenuto.core.journal import MessageAdded
from tenuto.core.messages import user
from tenuto.errors import SessionNotFound
from tenuto.testing import call, turn


async def messages(session) -> list[tuple[str, str]]:
    """Return the user messages of a session, with their keys."""
    return [
        (str(entry.payload.message), entry.payload.key)
        for entry in await session.entries()
        if isinstance(entry.payload, MessageAdded)
    ]


@scene
async def test_another_handle_runs_an_enqueued_prompt(tenuto_sim, stores):
    tenuto_sim.script(turn("One."), turn("Two."), turn("Three."))
    async with stores() as store, stores() as other, agent(store=store) as ai, agent(store=other) as worker:
        session = ai.session("s")
        await session.send("First.")
        await session.enqueue("Second.")
        await session.enqueue("Third.")
        assert len(tenuto_sim.requests) == 1
        assert await messages(session) == [("First.", "")]

        handle = await worker.resume("s")
        assert (await handle.continue_()).text == "Three."
        assert await messages(handle) == [("First.", ""), ("Second.", ""), ("Third.", "")]
        assert [str(one) for one in handle.transcript][2:] == ["Second.", "Two.", "Third.", "Three."]
        assert (handle.status, await other.inbox("s")) == ("completed", [])
        assert await handle.continue_() is None
        assert not await other.verify()


@scene
async def test_prompt_with_a_key_is_run_once(tenuto_sim, stores):
    """Also if it is posted again while it waits, or after it was run; `send` with the key returns its reply."""
    tenuto_sim.script(turn("One."), turn("Two."))
    async with stores() as store, stores() as other, agent(store=store) as ai, agent(store=other) as worker:
        session = ai.session("s")
        await session.send("First.")
        for _ in range(2):
            await session.enqueue("Second.", key="k")
        assert len(await store.inbox("s")) == 1
        handle = await worker.resume("s")
        assert (await handle.continue_()).text == "Two."
        await session.enqueue("Second.", key="k")
        assert await handle.continue_() is None
        assert await messages(handle) == [("First.", ""), ("Second.", "k")]
        assert (await session.send("Second.", key="k")).text == "Two."
    assert len(tenuto_sim.requests) == 2


@scene
async def test_prompt_that_was_sent_with_its_key_is_not_run(tenuto_sim, stores):
    tenuto_sim.script(turn("One."), turn("Two."))
    async with stores() as store, agent(store=store) as ai:
        session = ai.session("s")
        await session.send("First.", key="k")
        await session.enqueue("First.", key="k")
        assert await session.continue_() is None
        assert await messages(session) == [("First.", "k")]
        assert await store.inbox("s") == []
    assert len(tenuto_sim.requests) == 1


@scene
async def test_each_message_with_a_key_is_enqueued_alone(tenuto_sim):
    async with agent(store=None) as ai:
        session = ai.session()
        await session.send("First.")
        with pytest.raises(ValueError, match="2 messages for the key 'k'"):
            await session.enqueue([user("Second."), user("Third.")], key="k")
        await session.enqueue([user("Second."), user("Third.")])
        await session.continue_()
        assert [text for text, _ in await messages(session)] == ["First.", "Second.", "Third."]


@scene
async def test_prompt_waits_for_the_end_of_the_turns(tenuto_sim, stores):
    """A prompt is not steering: the active run completes first."""
    tenuto_sim.script(turn(call("hold")), turn("One."), turn("Two."))
    held_tool = HeldTool()
    async with stores() as store, agent(held_tool.tool, store=store) as ai:
        session = ai.session("s")
        async with running_task(session.send("First.")) as run:
            await held_tool.begun.wait()
            await session.enqueue("Second.")
            held_tool.go.set()
            assert (await run).text == "Two."
        assert (await journal_labels(session))[-6:] == [
            *("request_started", "reply_received", "message_added", "request_started", "reply_received", "completed"),
        ]


@scene
async def test_prompt_before_the_first_message_starts_the_session(tenuto_sim, stores):
    """The store has no session yet, so this handle keeps the prompt and runs it."""
    tenuto_sim.script(turn("One."))
    async with stores() as store, agent(store=store) as ai:
        session = ai.session("s")
        await session.enqueue("First.", key="k")
        assert (await session.continue_()).text == "One."
        assert await messages(session) == [("First.", "k")]


@scene
async def test_step_runs_an_enqueued_prompt(tenuto_sim, stores):
    tenuto_sim.script(turn("One."), turn("Two."))
    async with stores() as store, agent(store=store) as ai:
        session = ai.session("s")
        await session.send("First.")
        await session.enqueue("Second.")
        steps = [await session.step() for _ in range(2)]
        assert steps[-1] == Done("completed")
        assert session.text == "Two."


@scene
async def test_deleted_session_takes_no_prompt(tenuto_sim, stores):
    async with stores() as store, agent(store=store) as ai:
        session = ai.session("s")
        await session.send("First.")
        await store.delete("s")
        with pytest.raises(SessionNotFound):
            await session.enqueue("Second.")


@scene
async def test_prompt_for_a_new_session_is_stored(tenuto_sim, stores):
    """By a process that never runs it."""
    tenuto_sim.script(turn("One."))
    async with stores() as store, stores() as other, agent(store=store) as ai, agent(store=other) as worker:
        for _ in range(2):
            await ai.session("s").enqueue("First.", key="k")
        handle = worker.session("s")
        assert (await handle.continue_()).text == "One."
        assert await messages(handle) == [("First.", "k")]
        assert not await other.verify()
