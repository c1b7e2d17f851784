"""A provider that fails: asked again by the rules of `retry`, and given up so that the session can go on later."""

from __future__ import annotations

import asyncio

import pytest

from agent.acting import QUICK, add, agent, running, scene, story
from tenuto import Timeouts
from tenuto.agent.events import Retrying, RunStopped
from tenuto.client.middleware.retry import Retry
from tenuto.core.journal import RequestFailed, RequestStarted
from tenuto.errors import BadRequest, ContextTooLong, MissingKey, RateLimited, RunCancelled, StoreError, Unavailable
from tenuto.store.memory import MemoryStore
from tenuto.testing import call, cut, deny, fail, say, stall, turn


@pytest.mark.parametrize(
    "steps, error",
    [
        ([deny(429, retry_after=0)], "RateLimited"),
        ([deny(500)], "Unavailable"),
        ([deny(529)], "Unavailable"),
        ([say("So"), fail(529)], "Unavailable"),
        ([say("So"), cut()], "IncompleteResponse"),
        ([say("So"), stall(times=1)], "TimedOut"),
    ],
    ids=["429", "500", "529", "failed", "cut", "stalled"],
)
@scene
async def test_an_error_that_may_pass_is_tried_again(tenuto_sim, steps, error):
    """The attempt is in the journal with what it used, and who listens knows that what came of it is void."""
    tenuto_sim.script(turn(*steps, say("Done.")), turn("Done."))
    told = []
    async with agent(store=None, timeout=Timeouts(read=0.2)) as ai:
        session = ai.session()
        session.on_event(told.append)
        reply = await session.send("Go.")
        acts = [entry.payload for entry in await session.entries()]

        assert reply.text.endswith("Done.")
        assert (await story(session))[2:] == [
            "request_started",
            f"failed {error}",
            "request_started",
            "reply_received",
            "completed",
        ]
    assert [(event.error, event.delay) for event in told if isinstance(event, Retrying)] == [(error, 0.0)]
    [failed] = [act for act in acts if isinstance(act, RequestFailed)]
    assert (failed.attempt, failed.retryable) == (1, True)
    assert [act.attempt for act in acts if isinstance(act, RequestStarted)] == [1, 2]
    began = error != "RateLimited" and len(steps) > 1
    assert bool(failed.usage and failed.usage.total_tokens) is began
    assert failed.cost == ("0" if began else "")  # the simulator is free
    assert bool(began and failed.usage.total_tokens < session.usage.total_tokens) is began


@scene
async def test_a_provider_that_says_how_long_is_waited_for(tenuto_sim):
    """By the clock that the retry was given."""
    tenuto_sim.script(turn(deny(429, retry_after=3)), turn("Done."))
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    async with agent(store=None, retry=Retry(2, sleep=sleep, random=lambda: 0.5)) as ai:
        assert (await ai.session().send("Go.")).text == "Done."
    assert slept == [3.05]


@scene
async def test_giving_up_raises_the_error_and_the_session_goes_on_later(tenuto_sim, stores):
    """In this process or in another, with as much patience as before."""
    tenuto_sim.script(turn(deny(500, times=5)), turn("Done."))
    told = []
    async with stores() as store, agent(store=store, retry=Retry(2, base=0.0), listeners=[told.append]) as ai:
        session = ai.session("s")
        with pytest.raises(Unavailable) as caught:
            await session.send("Go.")
        assert "gave up after 3 attempts" in caught.value.__notes__
        assert (session.status, session.has_pending_work) == ("failed", True)
        assert (await story(session))[-1].startswith("failed(Unavailable: ")
        assert (told[-1].reason, isinstance(told[-1], RunStopped)) == ("failed", True)
    async with stores() as store, agent(store=store) as ai:
        session = await ai.resume("s")
        assert (await session.continue_()).text
        attempts = [
            entry.payload.attempt for entry in await session.entries() if isinstance(entry.payload, RequestStarted)
        ]
        assert attempts == [1, 2, 3, 4, 5, 6]


@scene
async def test_an_error_that_does_not_pass_is_raised_at_once(tenuto_sim):
    """Waiting would not help; something else can be said."""
    tenuto_sim.script(turn(deny(400)))
    async with agent(store=None) as ai:
        session = ai.session()
        with pytest.raises(BadRequest):
            await session.send("Go.")
        assert session.status == "failed"
        assert len(tenuto_sim.requests) == 1
        tenuto_sim.script(turn("Fine."))
        assert (await session.send("Something else.")).text == "Fine."


@scene
async def test_a_conversation_that_grew_too_long_waits(tenuto_sim):
    """The session is saved, and the error says how to continue."""
    words = "prompt is too long: 200001 tokens > 200000 maximum"
    tenuto_sim.script(turn(call("add", {"a": 1, "b": 2})), turn(deny(400, message=words, times=0)))
    async with agent(add, store=None) as ai:
        session = ai.session()
        with pytest.raises(ContextTooLong) as caught:
            await session.send("Go.")

        assert (session.status, (await story(session))[-1]) == ("waiting", "waiting(context)")
        assert "session.handover(model)" in caught.value.__notes__[-1]
        tenuto_sim.script(turn("Short."))
        fork = await session.fork(at=1)
        assert (await fork.continue_()).text == "Short."


@scene
async def test_missing_key_leaves_no_session():
    async with agent(model="anthropic/claude-opus-4-6", keys={"anthropic": ""}, store=None) as ai:
        session = ai.session()
        with pytest.raises(MissingKey):
            await session.send("Go.")
        assert session.status == "new"
        assert (await ai.store.sessions()).sessions == ()


@scene
async def test_a_run_is_cancelled_in_the_pause_before_the_next_attempt(tenuto_sim):
    """What it owes is the answer, as before."""
    tenuto_sim.script(turn(deny(429, retry_after=1000)), turn("Done."))
    async with agent(store=None, retry=Retry(2, max_delay=2000, budget=5000)) as ai:
        session = ai.session()
        pausing = asyncio.Event()
        session.on_event(lambda event: pausing.set() if isinstance(event, Retrying) else None)
        async with running(session.send("Go.")) as run:
            await pausing.wait()
            await session.cancel()
            with pytest.raises(RunCancelled):
                await run
        assert (await story(session))[-2:] == ["cancelling", "cancelled"]
        assert (await session.continue_()).text == "Done."


@scene
async def test_a_reply_from_a_cache_is_an_attempt_like_any_other(tenuto_sim):
    """Nothing went out, and the journal is whole all the same: asked, and replied for nothing."""
    from tenuto.middleware import cache

    kept = cache()
    tenuto_sim.script(turn("Done."))
    for _ in range(2):
        async with agent(store=None, middleware=[kept]) as ai:
            session = ai.session()
            assert (await session.send("Go.")).text == "Done."
            assert await story(session) == [
                "configured",
                "message_added",
                "request_started",
                "reply_received",
                "completed",
            ]
    assert len(tenuto_sim.requests) == 1


@scene
async def test_nothing_goes_out_before_it_is_written_that_it_does(tenuto_sim):
    """A store that fails then costs nothing."""

    class Full(MemoryStore):
        async def append(self, lease, drafts, **how):
            if full and any(draft.kind == "request_started" for draft in drafts):
                raise StoreError("the disk is full")
            return await super().append(lease, drafts, **how)

    full = [True]
    async with agent(store=Full(), retry=QUICK) as ai:
        session = ai.session()
        with pytest.raises(StoreError, match="full"):
            await session.send("Go.")
        assert not tenuto_sim.requests
        assert session.status == "interrupted"
        full.clear()
        assert (await session.continue_()).text


@scene
async def test_a_limit_on_rates_is_not_retried_without_end(tenuto_sim):
    """When the provider wants more patience than there is, its word is raised at once."""
    tenuto_sim.script(turn(deny(429, retry_after=500)), turn("Done."))
    async with agent(store=None) as ai:
        with pytest.raises(RateLimited) as caught:
            await ai.session().send("Go.")
    assert caught.value.retry_after == 500
    assert len(tenuto_sim.requests) == 1
