"""A failing provider: retried by the rules of `retry`, then given up so that the session can continue later."""

from __future__ import annotations

import asyncio

import pytest

from agent.helpers import QUICK, add, agent, journal_labels, running_task, scene
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
async def test_temporary_error_is_retried(tenuto_sim, steps, error):
    """The attempt is recorded with its usage, and listeners learn that its events are void."""
    tenuto_sim.script(turn(*steps, say("Done.")), turn("Done."))
    events = []
    async with agent(store=None, timeout=Timeouts(read=0.2)) as ai:
        session = ai.session()
        session.on_event(events.append)
        reply = await session.send("Go.")
        acts = [entry.payload for entry in await session.entries()]

        assert reply.text.endswith("Done.")
        assert (await journal_labels(session))[2:] == [
            "request_started",
            f"failed {error}",
            "request_started",
            "reply_received",
            "completed",
        ]
    assert [(event.error, event.delay) for event in events if isinstance(event, Retrying)] == [(error, 0.0)]
    [failed] = [act for act in acts if isinstance(act, RequestFailed)]
    assert (failed.attempt, failed.retryable) == (1, True)
    assert [act.attempt for act in acts if isinstance(act, RequestStarted)] == [1, 2]
    began = error != "RateLimited" and len(steps) > 1
    assert bool(failed.usage and failed.usage.total_tokens) is began
    assert failed.cost == ("0" if began else "")  # the simulator is free
    assert bool(began and failed.usage.total_tokens < session.usage.total_tokens) is began


@scene
async def test_retry_waits_as_long_as_the_provider_requests(tenuto_sim):
    """With the `sleep` of the retry."""
    tenuto_sim.script(turn(deny(429, retry_after=3)), turn("Done."))
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    async with agent(store=None, retry=Retry(2, sleep=sleep, random=lambda: 0.5)) as ai:
        assert (await ai.session().send("Go.")).text == "Done."
    assert slept == [3.05]


@scene
async def test_error_after_all_retries_is_raised(tenuto_sim, stores):
    """The session can continue in any process, with all retries again."""
    tenuto_sim.script(turn(deny(500, times=5)), turn("Done."))
    events = []
    async with stores() as store, agent(store=store, retry=Retry(2, base=0.0), listeners=[events.append]) as ai:
        session = ai.session("s")
        with pytest.raises(Unavailable) as caught:
            await session.send("Go.")
        assert "gave up after 3 attempts" in caught.value.__notes__
        assert (session.status, session.has_pending_work) == ("failed", True)
        assert (await journal_labels(session))[-1].startswith("failed(Unavailable: ")
        assert (events[-1].reason, isinstance(events[-1], RunStopped)) == ("failed", True)
    async with stores() as store, agent(store=store) as ai:
        session = await ai.resume("s")
        assert (await session.continue_()).text
        attempts = [
            entry.payload.attempt for entry in await session.entries() if isinstance(entry.payload, RequestStarted)
        ]
        assert attempts == [1, 2, 3, 4, 5, 6]


@scene
async def test_permanent_error_is_raised_at_once(tenuto_sim):
    """Another message can follow."""
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
async def test_session_with_a_full_context_waits(tenuto_sim):
    """The session is stored, and the error has the remedy."""
    message = "prompt is too long: 200001 tokens > 200000 maximum"
    tenuto_sim.script(turn(call("add", {"a": 1, "b": 2})), turn(deny(400, message=message, times=0)))
    async with agent(add, store=None) as ai:
        session = ai.session()
        with pytest.raises(ContextTooLong) as caught:
            await session.send("Go.")

        assert (session.status, (await journal_labels(session))[-1]) == ("waiting", "waiting(context)")
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
async def test_cancel_during_the_pause_of_a_retry(tenuto_sim):
    """The session still needs the reply."""
    tenuto_sim.script(turn(deny(429, retry_after=1000)), turn("Done."))
    async with agent(store=None, retry=Retry(2, max_delay=2000, budget=5000)) as ai:
        session = ai.session()
        pausing = asyncio.Event()
        session.on_event(lambda event: pausing.set() if isinstance(event, Retrying) else None)
        async with running_task(session.send("Go.")) as run:
            await pausing.wait()
            await session.cancel()
            with pytest.raises(RunCancelled):
                await run
        assert (await journal_labels(session))[-2:] == ["cancelling", "cancelled"]
        assert (await session.continue_()).text == "Done."


@scene
async def test_cached_reply_is_recorded_as_an_attempt(tenuto_sim):
    """No request is sent; the journal has the request and a reply without cost."""
    from tenuto.middleware import cache

    cached = cache()
    tenuto_sim.script(turn("Done."))
    for _ in range(2):
        async with agent(store=None, middleware=[cached]) as ai:
            session = ai.session()
            assert (await session.send("Go.")).text == "Done."
            assert await journal_labels(session) == [
                "configured",
                "message_added",
                "request_started",
                "reply_received",
                "completed",
            ]
    assert len(tenuto_sim.requests) == 1


@scene
async def test_request_is_recorded_before_it_is_sent(tenuto_sim):
    """A failing store causes no cost."""

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
async def test_rate_limit_retries_are_bounded(tenuto_sim):
    """A pause above the limit raises the provider's error at once."""
    tenuto_sim.script(turn(deny(429, retry_after=500)), turn("Done."))
    async with agent(store=None) as ai:
        with pytest.raises(RateLimited) as caught:
            await ai.session().send("Go.")
    assert caught.value.retry_after == 500
    assert len(tenuto_sim.requests) == 1
