"""Summaries by a model or a function: unusable summaries, and summaries that lose a fact."""

from __future__ import annotations

import functools

import pytest

from compaction.scene import (
    BOUND,
    FACT,
    GPT,
    UNBOUND,
    Bill,
    agent,
    compactions,
    failures,
    kinds,
    play,
    scene,
    window,
)
from tenuto import Compaction
from tenuto.agent.events import CompactionFinished, CompactionStarted
from tenuto.core.journal import CompactionRequested, RequestFailed, RequestStarted
from tenuto.errors import ContextTooLong, RunCancelled, UnknownProvider
from tenuto.sim.script import HttpError
from tenuto.testing import call, compact, deny, say, stall, stop, think, turn

LOCAL = Compaction(by="model", background=False)
CHAT = "deepseek/deepseek-chat"

UNUSABLE = {
    "empty": lambda request: (say(""),),
    "blank": lambda request: (say("  \n"),),
    "cut off": lambda request: (say("Goal: lo"), stop("length")),
    "tool call": lambda request: (say("Goal: look."), call("look", {"number": 1})),
    "error": lambda request: (deny(500, times=9),),
    "refusal": lambda request: (deny(400),),
}


def play_with(summary):
    return functools.partial(play, summary=summary)


async def talk(session, turns: int, start: int = 0):
    for number in range(start, start + turns):
        reply = await session.send(f"Question {number}" + (f": {FACT}." if number == 3 else "."))
    return reply


@pytest.mark.parametrize("kind", UNUSABLE)
@scene
async def test_unusable_summary_leaves_the_whole_conversation(tenuto_sim, kind):
    """The session continues; all of it is sent, and the failed requests are charged."""
    tenuto_sim._scripts.turn = play_with(UNUSABLE[kind])
    bill = Bill(tenuto_sim)
    with window(8000):
        async with agent(CHAT, word_count=150, compaction=LOCAL) as own:
            session = own.session("s")
            await talk(session, 15)
            entries = await session.entries()
            full = [record for record in tenuto_sim.requests if "Write a summary" not in str(record.body)][-1]

            assert failures(entries)
            assert {one.purpose for one in kinds(entries, RequestFailed)} == {"compaction"}
            assert compactions(entries) == []
            assert str(full.body).count("Question") == 15
            assert session.cost == bill.total
            assert (await session.audit()).clean


@pytest.mark.parametrize("kind", ["empty", "tool call", "refusal"])
@scene
async def test_session_waits_if_no_summary_is_possible(tenuto_sim, kind):
    """The context is full and there is no summary: the session waits, and continues when there is one."""
    tenuto_sim._scripts.turn = play_with(UNUSABLE[kind])
    with window(8000):
        async with agent(UNBOUND, word_count=150, compaction=LOCAL) as own:
            session = own.session("s")
            with pytest.raises(ContextTooLong) as caught:
                await talk(session, 40)
            assert (session.status, session.waiting_for) == ("waiting", "context")
            assert compactions(await session.entries()) == []
            assert "session.compact()" in "".join(caught.value.__notes__)

            tenuto_sim._scripts.turn = play
            assert await session.compact() is not None
            assert (await session.continue_()).text
            assert (await session.send("What is my locker?")).text == "4711"


@scene
async def test_failed_summary_is_not_repeated_at_once(tenuto_sim, tmp_path):
    """After a failure the next attempt waits until the conversation has grown; a new process knows that, too."""
    tenuto_sim._scripts.turn = play_with(UNUSABLE["refusal"])
    with window(8000):
        async with agent(CHAT, word_count=150, compaction=LOCAL, store=tmp_path / "s.db") as own:
            await talk(own.session("s"), 14)
        for number in range(3):
            async with agent(CHAT, word_count=1, compaction=LOCAL, store=tmp_path / "s.db") as own:
                session = await own.resume("s")
                await talk(session, 1, 14 + number)
                entries = await session.entries()
        requests = [entry.seq for entry in entries if isinstance(entry.payload, CompactionRequested)]
        sent = [entry.seq for entry in entries if isinstance(entry.payload, RequestStarted)]

        assert 1 <= len(requests) < len([seq for seq in sent if seq > requests[0]]) / 2


@scene
async def test_unusable_summary_is_requested_a_second_time(tenuto_sim):
    answers = iter(["", "Goal: look. Facts: my locker is 4711."])
    tenuto_sim._scripts.turn = play_with(lambda request: (say(next(answers, "Goal: none.")),))
    async with agent(CHAT, compaction=LOCAL) as own:
        session = own.session("s")
        await talk(session, 6)
        entry = await session.compact()
        requests = kinds(await session.entries(), CompactionRequested)

        assert entry.summary.endswith("4711.")
        assert len(requests) == 2
        assert requests[0].digest == requests[1].digest != ""


@scene
async def test_null_summary_of_the_provider_keeps_the_conversation(tenuto_sim):
    """It is not requested again at once, and no model writes one instead."""
    turns = [turn(call("look", {"number": 1}), compact(None)), *[turn(say("Seen."), compact(None))] * 30]
    tenuto_sim.script(*turns)
    async with agent(UNBOUND, compaction=Compaction(background=False, keep_tokens=0)) as own:
        session = own.session("s")
        for number in range(4):
            await session.send(f"Question {number}.")

        assert await session.compact() is None
        assert failures(await session.entries()) == ["NoSummary"]
        tenuto_sim.assert_clean()


@scene
async def test_provider_that_refuses_is_replaced_by_a_model(tenuto_sim):
    def answer(request):
        return (HttpError(status=400),) if request.compaction == "alone" else play(request)

    tenuto_sim._scripts.turn = answer
    async with agent(GPT, compaction=Compaction(background=False)) as own:
        session = own.session("s")
        await talk(session, 6)
        entry = await session.compact()
        methods = [one.method for one in kinds(await session.entries(), CompactionRequested)]

        assert (methods, entry.native) == (["provider", "model"], ())
        assert (await session.send("What is my locker?")).text == "4711"


@scene
async def test_busy_provider_is_requested_again(tenuto_sim):
    left = [1]

    def answer(request):
        if request.compaction == "alone" and left[0]:
            left[0] -= 1
            return (HttpError(status=529),)
        return play(request)

    tenuto_sim._scripts.turn = answer
    bill = Bill(tenuto_sim)
    async with agent(BOUND, compaction=Compaction(background=False)) as own:
        session = own.session("s")
        await talk(session, 6)

        assert (await session.compact()).native
        assert failures(await session.entries()) == ["Unavailable"]
        assert session.cost == bill.total


@pytest.mark.parametrize(
    "summary, expected", [(None, "4711"), ("Goal: look. The assistant has looked.", "I do not know.")]
)
@scene
async def test_fact_is_found_through_the_summary(tenuto_sim, summary, expected):
    """The retention test: a summary without the user's fact is noticed, and the journal still has the fact."""
    tenuto_sim._scripts.turn = play if summary is None else play_with(lambda request: (say(summary),))
    with window(8000):
        async with agent(CHAT, word_count=150, compaction=LOCAL) as own:
            session = own.session("s")
            await talk(session, 24)
            reply = await session.send("What is my locker?")

            assert reply.text == expected
            assert len(compactions(await session.entries())) >= 1
            assert FACT in str(session.transcript[12])


@pytest.mark.parametrize("by", ["anthropic/claude-opus-4-6", "function", "async function"])
@scene
async def test_another_model_or_a_function_writes_the_summary(tenuto_sim, by):
    tenuto_sim._scripts.turn = play
    bill = Bill(tenuto_sim)

    def summarize(transcript, focus):
        return f"{focus}: {[str(message) for message in transcript if FACT in str(message)]}"

    async def summarize_later(transcript, focus):
        return summarize(transcript, focus)

    way = {"function": summarize, "async function": summarize_later}.get(by, by)
    async with agent(CHAT, compaction=Compaction(by=way)) as own:
        session = own.session("s")
        await talk(session, 6)
        entry = await session.compact(focus="lockers")

        assert FACT in entry.summary
        assert (entry.summary.startswith("lockers: ")) == callable(way)
        assert entry.model == ("" if callable(way) else by)
        assert (await session.send("What is my locker?")).text == "4711"
        assert (await session.audit()).clean
        assert session.cost == bill.total


def broken(transcript, focus):
    raise ZeroDivisionError("no")


@pytest.mark.parametrize("by", [lambda transcript, focus: "", broken], ids=["no text", "exception"])
@scene
async def test_function_without_a_text_changes_nothing(tenuto_sim, by):
    tenuto_sim._scripts.turn = play
    async with agent(CHAT, compaction=Compaction(by=by)) as own:
        session = own.session("s")
        await talk(session, 6)

        assert await session.compact() is None
        assert compactions(await session.entries()) == []
        assert failures(await session.entries()) == ["NoSummary"]


@scene
async def test_unknown_model_for_summaries_is_refused_at_once(tenuto_sim):
    with pytest.raises(UnknownProvider):
        agent(CHAT, compaction=Compaction(by="missing/model"))


@scene
async def test_cached_summary_is_used(tenuto_sim, tmp_path):
    """Its request is in the journal, without a digest: nothing was sent."""
    from tenuto.middleware import cache

    tenuto_sim._scripts.turn = play
    for number in range(2):
        async with agent(
            CHAT, compaction=LOCAL, middleware=[cache(tmp_path / "cache")], store=tmp_path / f"{number}.db"
        ) as own:
            session = own.session("s")
            await talk(session, 6)
            entry = await session.compact()
            requests = kinds(await session.entries(), CompactionRequested)

            assert FACT in entry.summary
            assert [bool(one.digest) for one in requests] == [number == 0]


@scene
async def test_cancelled_run_stops_its_background_compaction(tenuto_sim):
    tenuto_sim._scripts.turn = lambda request: (
        (stall(), compact("So far.")) if request.compaction == "alone" else play(request)
    )
    with window(8000):
        async with agent(BOUND, word_count=150, compaction=Compaction()) as own:
            session = own.session("s")
            forget = session.on_event(
                lambda event: session.cancel_local() if isinstance(event, CompactionStarted) else None
            )
            with pytest.raises(RunCancelled):
                await talk(session, 20)
            assert session.status == "cancelled"
            assert compactions(await session.entries()) == []

            forget()
            tenuto_sim._scripts.turn = play
            assert (await session.send("Question 30.")).text


@scene
async def test_too_long_request_is_compacted_and_sent_again(tenuto_sim, tmp_path):
    """The window is not known, or the estimate was too low."""
    tenuto_sim._scripts.turn = play
    async with agent(UNBOUND, word_count=150, compaction=LOCAL, store=tmp_path / "s.db") as own:
        session = own.session("s")
        await talk(session, 20)
    with window(6000):
        async with agent(
            UNBOUND, word_count=150, compaction=Compaction(by="model", at=1.0), store=tmp_path / "s.db"
        ) as own:
            session = await own.resume("s")
            session._log.size.retry_above = 10**9  # as if the estimate were too low
            reply = await session.send("What is my locker?")
            entries = await session.entries()

            assert reply.text == "4711"
            assert [one.reason for one in compactions(entries)] == ["context"]
            assert failures(entries) == ["ContextTooLong"]
            assert session.status == "completed"


@scene
async def test_refused_size_is_compacted(tenuto_sim):
    """413: too many bytes."""
    left = [1]

    def answer(request):
        if left[0] and "Question 6" in request.messages[-1].text:
            left[0] -= 1
            return (HttpError(status=413),)
        return play(request)

    tenuto_sim._scripts.turn = answer
    async with agent(UNBOUND, compaction=LOCAL) as own:
        session = own.session("s")
        await talk(session, 7)

        assert [one.reason for one in compactions(await session.entries())] == ["context"]
        assert session.status == "completed"


@scene
async def test_without_compaction_the_session_waits(tenuto_sim):
    tenuto_sim._scripts.turn = play
    with window(8000):
        async with agent(UNBOUND, word_count=150, compaction=None) as own:
            session = own.session("s")
            with pytest.raises(ContextTooLong):
                await talk(session, 40)

            assert (session.status, session.waiting_for) == ("waiting", "context")
            assert kinds(await session.entries(), CompactionRequested) == []


@scene
async def test_old_results_are_cleared_first(tenuto_sim):
    """Without a summary, if that is enough; a model that binds its thinking gets all results."""
    tenuto_sim._scripts.turn = play
    with window(8000):
        for model, is_cleared in ((UNBOUND, True), (BOUND, False)):
            settings = Compaction(keep_results=2, background=False)
            async with agent(model, word_count=150, compaction=settings) as own:
                session = own.session(f"s-{is_cleared}")
                await talk(session, 14)
                made = compactions(await session.entries())
                last = tenuto_sim.requests[-1].body

                assert bool(made[0].cleared) == is_cleared
                assert bool(made[0].summary) != is_cleared
                assert ("removed to save space" in str(last)) == is_cleared
                assert "removed to save space" not in str(session.transcript)
                assert (await session.audit()).clean
    tenuto_sim.assert_clean()


@scene
async def test_events_and_audit_name_the_compaction(tenuto_sim):
    tenuto_sim._scripts.turn = play
    events = []
    async with agent(CHAT, compaction=LOCAL) as own:
        session = own.session("s")
        await talk(session, 6)
        session.on_event(
            lambda event: events.append(event) if isinstance(event, CompactionStarted | CompactionFinished) else None
        )
        plan = (await session.audit(compaction=True)).plan
        entry = await session.compact()
        report = await session.audit()

        assert [type(event) for event in events] == [CompactionStarted, CompactionFinished]
        assert events[0].tokens == events[1].before > events[1].after
        assert plan.startswith("compaction: ")
        assert f"compacted up to entry {entry.up_to_seq} (user: summary)" in str(report)


@scene
async def test_summary_of_think_only_reply_is_not_used(tenuto_sim):
    tenuto_sim._scripts.turn = play_with(lambda request: (think("Hm."), say("")))
    async with agent(BOUND, compaction=LOCAL) as own:
        session = own.session("s")
        await talk(session, 6)

        assert await session.compact() is None


@scene
async def test_limits_count_the_summary(tenuto_sim):
    """Usage and cost of the session and of the run include it."""
    tenuto_sim._scripts.turn = play
    bill = Bill(tenuto_sim)
    with window(8000):
        async with agent(CHAT, word_count=150, compaction=LOCAL) as own:
            session = own.session("s")
            await talk(session, 24)
            entries = await session.entries()
            stored = await own.store.session("s")
            made = compactions(entries)[0]

            assert made.usage.total_tokens > 0
            assert session.usage == stored.meta.usage
            assert session.cost == bill.total
