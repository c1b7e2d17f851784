"""Steering: messages during a run, which the model receives at the next boundary between turns."""

from __future__ import annotations

import asyncio

import pytest

from agent.helpers import HeldTool, add, agent, journal_labels, running_task, scene
from tenuto.agent.events import SteeringInjected
from tenuto.errors import RunCancelled, StoreError
from tenuto.store.memory import MemoryStore
from tenuto.testing import call, pause, say, turn


def last_text(record) -> list[str]:
    """Return the last message of a request as text."""
    content = record.body["messages"][-1]["content"]
    return [block.get("text", block["type"]) for block in content] if isinstance(content, list) else [content]


@scene
async def test_steering_is_injected_after_the_results_of_a_turn(tenuto_sim, stores):
    """In the order of the messages."""
    tenuto_sim.script(turn(call("hold")), turn("Done."))
    held_tool, events = HeldTool(), []
    async with stores() as store, agent(held_tool.tool, store=store) as ai:
        session = ai.session()
        session.on_event(
            lambda event: events.append(str(event.message)) if isinstance(event, SteeringInjected) else None
        )
        async with running_task(session.send("Go.")) as run:
            await held_tool.begun.wait()
            await session.steer("Only Celsius.")
            await session.steer("And quick.")
            held_tool.go.set()
            await run

        assert events == ["Only Celsius.", "And quick."]
        assert (await journal_labels(session))[4:] == [
            *(
                "started 0",
                "done 0",
                "steering_added",
                "steering_added",
                "request_started",
                "reply_received",
                "completed",
            ),
        ]
    assert last_text(tenuto_sim.requests[1]) == ["tool_result", "Only Celsius.", "And quick."]
    tenuto_sim.assert_clean()


@scene
async def test_steering_during_the_last_reply_continues_the_run(tenuto_sim):
    """The reply of the run is the answer to it."""
    tenuto_sim.script(turn(say(["So ", "far."])), turn("Fine."))
    async with agent(store=None) as ai:
        session = ai.session()
        once, posts = iter(["And now?"]), []

        def hear(event):
            if type(event).__name__ == "ContentDelta":
                for text in once:
                    posts.append(asyncio.ensure_future(session.steer(text)))

        session.on_event(hear)
        reply = await session.send("Go.")

        assert reply.text == "Fine."
        assert (await journal_labels(session))[2:] == [
            "request_started",
            "reply_received",
            "steering_added",
            "request_started",
            "reply_received",
            "completed",
        ]
    tenuto_sim.assert_clean()


@scene
async def test_steering_after_the_end_waits_for_the_next_run(tenuto_sim):
    """`RunStopped` is the last event of a run."""
    tenuto_sim.script(turn("So far."), turn("Fine."))
    async with agent(store=None) as ai:
        session = ai.session()
        once, posts, events = iter(["And now?"]), [], []

        def hear(event):
            events.append(type(event).__name__)
            if events[-1] == "RunStopped":
                for text in once:
                    posts.append(asyncio.ensure_future(session.steer(text)))

        session.on_event(hear)
        assert (await session.send("Go.")).text == "So far."
        await asyncio.gather(*posts)
        assert events[-1] == "RunStopped"
        assert events.count("RunStopped") == 1
        assert (await session.continue_()).text == "Fine."
        assert (await journal_labels(session))[-5:] == [
            "completed",
            "steering_added",
            "request_started",
            "reply_received",
            "completed",
        ]


@scene
async def test_steering_without_a_run_waits_for_the_next_run(tenuto_sim):
    """It is injected at its first boundary, not before its message."""
    tenuto_sim.script(turn("One."), turn("Two."), turn("Three."))
    async with agent(store=None) as ai:
        session = ai.session()
        await session.send("A")
        await session.steer("B")
        assert len(tenuto_sim.requests) == 1
        assert (await session.send("C")).text == "Three."

    assert [last_text(record) for record in tenuto_sim.requests] == [["A"], ["C"], ["B"]]


@scene
async def test_steering_starts_a_run_without_a_message(tenuto_sim, stores):
    """Also the first one of a session, which is configured before it."""
    async with stores() as store, agent(add, store=store) as ai:
        session = ai.session()
        await session.steer("Hi")

        assert (await session.continue_()).text
        assert (await journal_labels(session))[:3] == ["configured", "steering_added", "request_started"]
    tenuto_sim.assert_clean()


@scene
async def test_steering_does_not_interrupt_a_paused_turn(tenuto_sim):
    """The provider gets its turn back unchanged; the message follows after it."""
    tenuto_sim.script(turn(say("Wait."), pause()), turn("Done."))
    async with agent(store=None) as ai:
        session = ai.session()
        once, posts = iter(["Well?"]), []

        def hear(event):
            if type(event).__name__ == "ContentDelta":
                for text in once:
                    posts.append(asyncio.ensure_future(session.steer(text)))

        session.on_event(hear)
        await session.send("Go.")

    roles = [[message["role"] for message in record.body["messages"]] for record in tenuto_sim.requests]
    assert roles[:2] == [["user"], ["user", "assistant"]]
    assert last_text(tenuto_sim.requests[2]) == ["Well?"]
    tenuto_sim.assert_clean()


@scene
async def test_steering_from_another_thread(tenuto_sim):
    tenuto_sim.script(turn(call("hold")), turn("Done."))
    held_tool = HeldTool()
    async with agent(held_tool.tool, store=None) as ai:
        session = ai.session()
        async with running_task(session.send("Go.")) as run:
            await held_tool.begun.wait()
            loop = asyncio.get_running_loop()
            steer = asyncio.run_coroutine_threadsafe(session.steer("Hurry."), loop)
            await asyncio.to_thread(steer.result)
            held_tool.go.set()
            await run

    assert last_text(tenuto_sim.requests[1]) == ["tool_result", "Hurry."]


@scene
async def test_steering_written_during_a_cancel_is_sent_once(tenuto_sim):
    """It is in the journal, so it is removed from the queue."""
    tenuto_sim.script(turn("One."), turn("Two."), turn("Three."))

    class Slow(MemoryStore):
        async def append(self, lease, drafts, **how):
            if any(draft.kind == "steering_added" for draft in drafts):
                writing.set()
                await go.wait()
            return await super().append(lease, drafts, **how)

    writing, go = asyncio.Event(), asyncio.Event()
    async with agent(store=Slow()) as ai:
        session = ai.session()
        await session.steer("Psst.")
        async with running_task(session.send("Go.")) as run:
            await writing.wait()
            await session.cancel()
            go.set()
            with pytest.raises(RunCancelled):
                await run
        await session.continue_()

        assert [line for line in await journal_labels(session) if line == "steering_added"] == ["steering_added"]


@scene
async def test_steering_that_was_not_written_is_sent_later(tenuto_sim):
    """A full disk must not lose it."""
    tenuto_sim.script(turn("One."), turn("Two."), turn("Three."))

    class Full(MemoryStore):
        async def append(self, lease, drafts, **how):
            if full and any(draft.kind == "steering_added" for draft in drafts):
                raise StoreError("the disk is full")
            return await super().append(lease, drafts, **how)

    full = [True]
    async with agent(store=Full()) as ai:
        session = ai.session()
        await session.steer("A")
        await session.steer("B")
        with pytest.raises(StoreError, match="full"):
            await session.send("Go.")
        full.clear()
        await session.continue_()

        assert [line for line in await journal_labels(session) if line == "steering_added"] == [
            "steering_added",
            "steering_added",
        ]
        assert [str(message) for message in session.transcript][2:4] == ["A", "B"]
