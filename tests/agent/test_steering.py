"""Something is said while the agent is at work: the model hears it at the next boundary between turns."""

from __future__ import annotations

import asyncio

import pytest

from agent.acting import Held, add, agent, running, scene, story
from tenuto.agent.events import SteeringInjected
from tenuto.errors import RunCancelled, StoreError
from tenuto.store.memory import MemoryStore
from tenuto.testing import call, pause, say, turn


def words(record) -> list[str]:
    """What the last message of a request says, as text."""
    content = record.body["messages"][-1]["content"]
    return [block.get("text", block["type"]) for block in content] if isinstance(content, list) else [content]


@scene
async def test_steering_is_heard_when_the_calls_of_the_turn_are_answered(tenuto_sim, stores):
    """In the order in which it was said, behind the results."""
    tenuto_sim.script(turn(call("hold")), turn("Done."))
    held, heard = Held(), []
    async with stores() as store, agent(held.tool, store=store) as ai:
        session = ai.session()
        session.on_event(
            lambda event: heard.append(str(event.message)) if isinstance(event, SteeringInjected) else None
        )
        async with running(session.send("Go.")) as run:
            await held.begun.wait()
            await session.steer("Only Celsius.")
            await session.steer("And quick.")
            held.go.set()
            await run

        assert heard == ["Only Celsius.", "And quick."]
        assert (await story(session))[4:] == [
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
    assert words(tenuto_sim.requests[1]) == ["tool_result", "Only Celsius.", "And quick."]
    tenuto_sim.assert_clean()


@scene
async def test_steering_at_the_end_makes_the_run_go_on(tenuto_sim):
    """Said while the last answer streams, it is answered, too: the reply is the answer to it."""
    tenuto_sim.script(turn(say(["So ", "far."])), turn("Fine."))
    async with agent(store=None) as ai:
        session = ai.session()
        once, posts = iter(["And now?"]), []

        def hear(event):
            if type(event).__name__ == "ContentDelta":
                for word in once:
                    posts.append(asyncio.ensure_future(session.steer(word)))

        session.on_event(hear)
        reply = await session.send("Go.")

        assert reply.text == "Fine."
        assert (await story(session))[2:] == [
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
                for word in once:
                    posts.append(asyncio.ensure_future(session.steer(word)))

        session.on_event(hear)
        assert (await session.send("Go.")).text == "So far."
        await asyncio.gather(*posts)
        assert events[-1] == "RunStopped"
        assert events.count("RunStopped") == 1
        assert (await session.continue_()).text == "Fine."
        assert (await story(session))[-5:] == [
            "completed",
            "steering_added",
            "request_started",
            "reply_received",
            "completed",
        ]


@scene
async def test_steering_where_nothing_runs_waits_for_the_next_run(tenuto_sim):
    """It is heard at that one's first boundary, not before what is said."""
    tenuto_sim.script(turn("One."), turn("Two."), turn("Three."))
    async with agent(store=None) as ai:
        session = ai.session()
        await session.send("A")
        await session.steer("B")
        assert len(tenuto_sim.requests) == 1
        assert (await session.send("C")).text == "Three."

    assert [words(record) for record in tenuto_sim.requests] == [["A"], ["C"], ["B"]]


@scene
async def test_steering_begins_a_run_that_goes_on_without_a_word(tenuto_sim, stores):
    """Also a session's very first: it is configured before anything is said."""
    async with stores() as store, agent(add, store=store) as ai:
        session = ai.session()
        await session.steer("Hi")

        assert (await session.continue_()).text
        assert (await story(session))[:3] == ["configured", "steering_added", "request_started"]
    tenuto_sim.assert_clean()


@scene
async def test_nothing_is_said_between_a_paused_turn_and_its_continuation(tenuto_sim):
    """The provider gets its turn back as it is; what was said is heard behind it."""
    tenuto_sim.script(turn(say("Wait."), pause()), turn("Done."))
    async with agent(store=None) as ai:
        session = ai.session()
        once, posts = iter(["Well?"]), []

        def hear(event):
            if type(event).__name__ == "ContentDelta":
                for word in once:
                    posts.append(asyncio.ensure_future(session.steer(word)))

        session.on_event(hear)
        await session.send("Go.")

    roles = [[message["role"] for message in record.body["messages"]] for record in tenuto_sim.requests]
    assert roles[:2] == [["user"], ["user", "assistant"]]
    assert words(tenuto_sim.requests[2]) == ["Well?"]
    tenuto_sim.assert_clean()


@scene
async def test_steering_from_another_thread(tenuto_sim):
    """Any thread may."""
    tenuto_sim.script(turn(call("hold")), turn("Done."))
    held = Held()
    async with agent(held.tool, store=None) as ai:
        session = ai.session()
        async with running(session.send("Go.")) as run:
            await held.begun.wait()
            loop = asyncio.get_running_loop()
            steer = asyncio.run_coroutine_threadsafe(session.steer("Hurry."), loop)
            await asyncio.to_thread(steer.result)
            held.go.set()
            await run

    assert words(tenuto_sim.requests[1]) == ["tool_result", "Hurry."]


@scene
async def test_what_is_being_written_when_the_run_is_cancelled_is_not_said_twice(tenuto_sim):
    """It is in the journal by then, and in nobody's hand any more."""
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
        async with running(session.send("Go.")) as run:
            await writing.wait()
            await session.cancel()
            go.set()
            with pytest.raises(RunCancelled):
                await run
        await session.continue_()

        assert [line for line in await story(session) if line == "steering_added"] == ["steering_added"]


@scene
async def test_what_could_not_be_written_is_said_the_next_time(tenuto_sim):
    """A disk that is full loses nobody's words."""
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

        assert [line for line in await story(session) if line == "steering_added"] == [
            "steering_added",
            "steering_added",
        ]
        assert [str(message) for message in session.transcript][2:4] == ["A", "B"]
