from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.handlers import USAGE, Script, Time, played, question, reply, response, told
from tenuto.core.blocks import Text
from tenuto.core.events import ContentDelta, ContentStart, ErrorEvent, MessageDone, MessageStart, TextDelta, UsageUpdate
from tenuto.core.messages import AssistantMessage, Usage
from tenuto.core.response import ChatResponse, Choice
from tenuto.errors import (
    BadRequest,
    ConnectionFailed,
    IncompleteResponse,
    LimitReached,
    MissingKey,
    RateLimited,
    TimedOut,
    TranscriptError,
    Unavailable,
    UnknownProvider,
    UnsupportedModel,
)
from tenuto.middleware import LogEntry, compose, fallback, logger, response_middleware, retry, timeout

START = MessageStart("msg_1", "claude-sonnet-4-5")
HI = ContentDelta(0, 0, TextDelta("Hi"))
FAILURE = ErrorEvent("Overloaded", "{}")
DONE = MessageDone(response())


def test_it_is_a_module_of_its_own_and_cheap():
    """Nothing heavy comes with the names; sqlite3 only with a cache in a file."""
    code = "import sys, tenuto.middleware as m; m.retry(), m.cache(), m.budget(1); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert set() == set(loaded) & {"aiohttp", "rich", "click", "sqlite3", "pydantic", "genai_prices", "httpx2"}


# --- the specified shape ----------------------------------------------------------------------------------------------


def test_a_middleware_of_responses_sees_and_changes_both_ways():
    @response_middleware
    async def shouting(request, next):
        found = await next(question(text="changed"))
        return ChatResponse(found.id, found.provider, found.model, (Choice(AssistantMessage((Text("HI"),))),))

    handler = Script(reply())
    found = played(shouting, question(stream=True), handler)

    assert found.text == "HI"
    assert [event.delta for event in found if isinstance(event, ContentDelta)] == [TextDelta("HI")]
    assert handler.asked == [question(text="changed")]
    assert handler.closed == 1


def test_a_middleware_of_responses_need_not_ask():
    @response_middleware
    async def canned(request, next):
        return response("canned")

    assert played(canned, question(), Script([AssertionError()])).text == "canned"


def test_a_middleware_of_responses_sees_errors():
    @response_middleware
    async def patient(request, next):
        try:
            return await next(request)
        except Unavailable:
            return await next(request)

    assert played(patient, question(), Script([START, Unavailable("x")], reply("two"))).text == "two"
    assert isinstance(played(patient, question(), Script([START])).error, IncompleteResponse)


def test_the_first_is_the_outermost():
    order = []

    def named(name):
        async def middleware(request, next):
            order.append(name)
            async for event in next(request):
                yield event

        return middleware

    async def run():
        return await told(compose([named("a"), named("b")], Script(reply()))(question()))

    assert asyncio.run(run()).text == "Hi"
    assert order == ["a", "b"]


# --- retry ------------------------------------------------------------------------------------------------------------


def retrying(clock, *args, draw=1.0, **options):
    return retry(*args, sleep=clock.sleep, random=lambda: draw, **options)


def limited(seconds):
    error = RateLimited("slow down", status=429)
    error.retry_after = seconds
    return error


@pytest.mark.parametrize("stream", [True, False])
def test_a_passing_error_is_tried_again(stream):
    clock, handler = Time(), Script([Unavailable("x")], [ConnectionFailed("y")], reply())

    found = played(retrying(clock), question(stream=stream), handler)

    assert (found, found.error) == (reply(), None)
    assert (clock.slept, handler.closed) == ([1.0, 2.0], 3)


def test_tries_are_counted_and_the_last_error_is_raised():
    clock, errors = Time(), [Unavailable(str(n)) for n in range(4)]
    handler = Script(*[[error] for error in errors])

    found = played(retrying(clock), question(), handler)

    assert found.error is errors[3]
    assert found.error.__notes__ == ["gave up after 4 attempts"]
    assert not hasattr(errors[0], "__notes__")
    assert (clock.slept, len(handler.asked)) == ([1.0, 2.0, 4.0], 4)


def test_no_tries_means_none():
    error = Unavailable("x")
    found = played(retry(0), question(), Script([error]))

    assert found.error is error
    assert not hasattr(error, "__notes__")


@pytest.mark.parametrize(
    "error",
    [
        BadRequest("x"),
        Unavailable("x", retryable=False),
        MissingKey("openai"),
        UnknownProvider("x"),
        UnsupportedModel("m", "x"),
        TranscriptError("x"),
        LimitReached("usd"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_waiting_does_not_help_is_raised_at_once(error):
    clock, handler = Time(), Script([error])

    assert played(retrying(clock), question(), handler).error is error
    assert (len(handler.asked), clock.slept) == (1, [])


def test_an_unknown_exception_may_pass():
    assert played(retrying(Time()), question(), Script([ValueError("bug")], reply())).text == "Hi"


@pytest.mark.parametrize("error", [asyncio.CancelledError(), KeyboardInterrupt()], ids=["cancelled", "interrupt"])
def test_whoever_wants_out_is_let_out(error):
    handler = Script([error])

    with pytest.raises(type(error)):
        played(retrying(Time()), question(), handler)
    assert len(handler.asked) == 1


@pytest.mark.parametrize(
    "options, draw, delays",
    [
        ({}, 0.0, []),
        ({}, 0.5, [0.5, 1.0, 2.0]),
        ({"base": 2.0, "max_delay": 5.0}, 1.0, [2.0, 4.0, 5.0]),
        ({"jitter": 0.1}, 1.0, [1.1, 2.1, 4.1]),
        ({"jitter": 0.1, "base": 2.0}, 0.5, [2.1, 4.1, 8.1]),
        ({"jitter": 0.0}, 1.0, [1.0, 2.0, 4.0]),
    ],
)
def test_pauses_grow(options, draw, delays):
    clock = Time()
    played(retrying(clock, draw=draw, **options), question(), Script([Unavailable("x")]))

    assert clock.slept == pytest.approx(delays)


def test_pauses_stay_numbers_however_often_is_tried():
    clock = Time()
    played(retrying(clock, 1500, budget=1e9), question(), Script([Unavailable("x")]))

    assert (len(clock.slept), clock.slept[-1]) == (1500, 60.0)


@given(st.floats(0, 60), st.floats(0, 1, exclude_max=True))
def test_what_the_provider_asks_for_is_waited(seconds, draw):
    """Never less, and little more."""
    clock = Time()
    played(retrying(clock, 1, draw=draw), question(), Script([limited(seconds)], reply()))

    assert seconds <= sum(clock.slept) <= seconds + 0.1


def test_a_provider_that_asks_for_too_long_is_not_waited_for():
    clock, handler = Time(), Script([limited(61.0)])
    found = played(retrying(clock), question(), handler)

    assert (found.error.retry_after, clock.slept, len(handler.asked)) == (61.0, [], 1)


def test_the_waiting_in_one_call_has_a_budget():
    clock, handler = Time(), Script([limited(50.0)])
    found = played(retrying(clock, 9, draw=0.0, budget=120.0), question(), handler)

    assert (clock.slept, len(handler.asked)) == ([50.0, 50.0], 3)
    assert found.error.__notes__ == ["gave up after 3 attempts"]


def test_an_error_right_after_the_start_leaves_no_trace():
    """An overloaded provider begins a stream with 200, and only then says so."""
    broken = [START, UsageUpdate(Usage(input_tokens=1)), FAILURE, Unavailable("overloaded")]
    whole = [MessageStart("msg_2", "m"), ContentStart(0, 0, Text("")), HI, DONE]

    found = played(retrying(Time()), question(stream=True), Script(broken, whole))

    assert (found, found.error) == (whole, None)


def test_what_was_held_back_is_told_if_nothing_follows():
    error = Unavailable("overloaded")
    broken = [START, FAILURE, error]

    found = played(retrying(Time(), 0), question(stream=True), Script(broken))

    assert (found, found.error) == ([START, FAILURE], error)


def test_events_that_only_announce_are_not_lost_at_a_quiet_end():
    assert played(retry(), question(stream=True), Script([START])) == [START]


@pytest.mark.parametrize("seen", [ContentStart(0, 0, Text("")), HI], ids=["start", "delta"])
def test_a_reply_that_was_seen_is_not_tried_again(seen):
    error = ConnectionFailed("cut")
    handler = Script([START, seen, FAILURE, error], reply())

    found = played(retrying(Time()), question(stream=True), handler)

    assert (found, found.error) == ([START, seen, FAILURE], error)
    assert len(handler.asked) == 1


def test_a_drained_call_is_tried_again_until_its_end():
    """Its reader sees that it began anew, and nothing of the failure."""
    handler = Script([START, HI, FAILURE, ConnectionFailed("cut")], [START, HI, DONE])

    assert played(retrying(Time()), question(), handler) == [START, HI, START, HI, DONE]


def test_the_events_of_a_drained_call_are_not_held_back():
    handler = Script([START, FAILURE, Unavailable("x")], [START, DONE])

    assert played(retrying(Time()), question(), handler) == [START, START, DONE]


def test_the_events_before_the_first_pause_come_at_once():
    """Nothing but the announcement is held back: each event passes before the next is there."""

    async def run():
        gone_on = asyncio.Event()
        handler = Script([START, HI, gone_on.wait, DONE])
        async with aclosing(retry()(question(stream=True), handler)) as events:
            first = [await anext(events), await anext(events)]
            gone_on.set()
            return [*first, await anext(events)]

    assert asyncio.run(run()) == [START, HI, DONE]


@pytest.mark.parametrize(
    "middleware", [retry(), fallback(["a/b"]), timeout(9), logger()], ids=["retry", "fallback", "timeout", "logger"]
)
def test_closing_the_outer_closes_the_inner(middleware):
    handler = Script([START, HI, HI, DONE])

    async def run():
        async with aclosing(middleware(question(stream=True), handler)) as events:
            await anext(events)
        assert handler.closed == 1

    asyncio.run(run())


def test_an_iterator_need_not_be_a_generator():
    class Events:
        def __init__(self, request):
            self._left = iter(reply())

        def __aiter__(self):
            return self

        async def __anext__(self):
            try:
                return next(self._left)
            except StopIteration:
                raise StopAsyncIteration from None

    found = played(retry(0), question(), Events)

    assert (found, found.error) == (reply(), None)


def test_a_retry_is_logged_without_foreign_words(caplog):
    caplog.set_level(logging.INFO, "tenuto")
    played(retrying(Time(), 2), question(), Script([RateLimited("key sk-canary", status=429)], reply()))

    assert caplog.messages == ["retry in 1.0 s after RateLimited (429), 1 of 2"]


@pytest.mark.parametrize("options", [{"times": -1}, {"base": -1.0}, {"jitter": 1.5}, {"budget": -1.0}])
def test_a_retry_that_makes_no_sense_is_refused(options):
    with pytest.raises(ValueError, match=r"negative|from 0 to 1"):
        retry(**options)


# --- fallback ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [BadRequest("x"), Unavailable("x"), MissingKey("openai"), UnknownProvider("x"), UnsupportedModel("m", "x")],
    ids=lambda error: type(error).__name__,
)
def test_the_next_model_is_asked(error):
    handler = Script([error], reply())
    found = played(fallback(["b/two", "c/three"]), question("a/one"), handler)

    assert (found.text, handler.models) == ("Hi", ["a/one", "b/two"])


def test_nothing_but_the_model_changes():
    handler = Script(reply())
    asked = question("x/asked", temperature=0.5, stream=True)
    played(fallback(["a/one"], asked_first=False), asked, handler)

    assert handler.asked == [question("a/one", temperature=0.5, stream=True)]


@pytest.mark.parametrize(
    "listed, models", [(["a/one"], ["x/asked", "a/one"]), (["a/one", "x/asked"], ["x/asked", "a/one"])]
)
def test_fallback_tries_model_of_request_first(listed, models):
    handler = Script([Unavailable("x")])
    played(fallback(listed), question("x/asked"), handler)

    assert handler.models == models


def test_fallback_may_replace_model_of_request():
    handler = Script([Unavailable("x")], reply())
    played(fallback(["a/one", "b/two"], asked_first=False), question("x/asked"), handler)

    assert handler.models == ["a/one", "b/two"]


def test_the_last_error_is_raised_with_what_was_held_back():
    first, last = Unavailable("1"), BadRequest("2")
    found = played(
        fallback(["a/1", "b/2"]), question("a/1", stream=True), Script([START, FAILURE, first], [FAILURE, last])
    )

    assert (found, found.error) == ([FAILURE], last)


@pytest.mark.parametrize(
    "error", [TranscriptError("x"), LimitReached("usd"), ValueError("bug")], ids=lambda error: type(error).__name__
)
def test_an_error_that_no_model_cures_is_raised_at_once(error):
    handler = Script([error], reply())

    assert played(fallback(["a/1", "b/2"]), question("a/1"), handler).error is error
    assert handler.models == ["a/1"]


def test_a_cancelled_call_asks_nobody_else():
    handler = Script([asyncio.CancelledError()], reply())

    with pytest.raises(asyncio.CancelledError):
        played(fallback(["a/1", "b/2"]), question("a/1"), handler)
    assert handler.models == ["a/1"]


def test_a_reply_that_was_seen_stays_with_its_model():
    error = ConnectionFailed("cut")
    handler = Script([START, HI, error], reply())

    found = played(fallback(["a/1", "b/2"]), question("a/1", stream=True), handler)

    assert (found, found.error, handler.models) == ([START, HI], error, ["a/1"])


def test_the_second_call_begins_with_the_first_model():
    """Nothing is remembered from one call to the next."""
    handler = Script([Unavailable("x")], reply())
    middleware = fallback(["a/1", "b/2"])
    played(middleware, question("a/1"), handler)
    played(middleware, question("a/1"), handler)

    assert handler.models == ["a/1", "b/2", "a/1"]


def test_a_fallback_is_logged(caplog):
    caplog.set_level(logging.INFO, "tenuto")
    played(fallback(["a/1", "b/2"]), question("a/1"), Script([Unavailable("key", status=529)], reply()))

    assert caplog.messages == ["a/1 failed with Unavailable (529); trying b/2"]


def test_a_fallback_needs_models():
    with pytest.raises(ValueError, match="at least one"):
        fallback([])
    with pytest.raises(TypeError, match=r"fallback\(\['a/b'\]\)"):
        fallback("a/b")


# --- timeout ----------------------------------------------------------------------------------------------------------


def breath():
    return asyncio.sleep(0)


def never():
    return asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("before", [[], [START, HI]], ids=["nothing", "a part"])
def test_a_reply_that_does_not_come_in_time_is_an_error(before):
    handler = Script([*before, never, DONE])
    found = played(timeout(1e-6), question("groq/m", stream=True), handler)

    assert (type(found.error), found.error.provider, found.error.retryable) == (TimedOut, "groq", True)
    assert str(found.error) == "groq/m: no complete reply within 1e-06 s"
    assert (found, handler.closed) == (before, 1)


def test_a_reply_in_time_passes_untouched():
    assert played(timeout(60), question(), Script(reply())) == reply()


def test_the_readers_own_time_does_not_count():
    """However long a reader takes between two events, only the waiting is measured, and only it is broken off."""

    async def run():
        loop = asyncio.get_running_loop()
        real, ahead = loop.time, [0.0]
        loop.time = lambda: real() + ahead[0]
        seen = []
        async for event in timeout(60)(question(), Script([START, breath, HI, breath, DONE])):
            seen.append(event)
            ahead[0] += 100
            await breath()
        return seen

    assert asyncio.run(run()) == [START, HI, DONE]


def test_the_waiting_adds_up():
    async def run():
        loop = asyncio.get_running_loop()
        real, ahead = loop.time, [0.0]
        loop.time = lambda: real() + ahead[0]

        async def wait():
            ahead[0] += 25
            await asyncio.sleep(0)

        return await told(timeout(60)(question(), Script([wait, START, wait, HI, wait, never, DONE])))

    found = asyncio.run(run())
    assert (found, type(found.error)) == ([START, HI], TimedOut)


def test_a_timeout_of_somebody_else_stays_what_it_is():
    error = TimeoutError("a file server's")

    assert played(timeout(60), question(), Script([error])).error is error


def test_a_cancelled_wait_is_cancelled():
    async def run():
        waiting = asyncio.Event()

        async def wait():
            waiting.set()
            await never()

        task = asyncio.create_task(told(timeout(60)(question(), Script([wait]))))
        await waiting.wait()
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_timeout_is_above_zero(seconds):
    with pytest.raises(ValueError, match="above 0"):
        timeout(seconds)


# --- logger -----------------------------------------------------------------------------------------------------------


def entries(handler, request=None, **options):
    clock, found = Time(), []
    played(logger(found.append, clock=clock), request or question(), handler(clock))
    return found


def after(seconds, *items):
    """Play a script that takes its time."""

    def made(clock):
        return Script([lambda: clock.sleep(seconds), *items])

    return made


def test_a_call_is_logged():
    assert entries(after(1.5, *reply())) == [LogEntry("anthropic", "claude-sonnet-4-5", 1500.0, "ok", USAGE)]


def test_an_error_is_logged_and_raised():
    error, found = BadRequest("no such thing"), []

    assert played(logger(found.append, clock=Time()), question(), Script([START, error])).error is error
    assert found == [LogEntry("anthropic", "claude-sonnet-4-5", 0.0, "error", None, "no such thing")]


def test_an_error_without_words_is_logged_by_its_name():
    assert entries(after(0, KeyError()))[0].error == "KeyError"


@pytest.mark.parametrize("model, names", [("bare", ("", "bare")), ("a/b/c", ("a", "b/c"))])
def test_any_name_of_a_model_can_be_logged(model, names):
    (entry,) = entries(after(0, *reply()), question(model))

    assert (entry.provider, entry.model) == names


def test_a_call_that_its_reader_leaves_is_logged_once():
    found = []

    async def run(count):
        async with aclosing(logger(found.append)(question(stream=True), Script([START, HI, DONE]))) as events:
            for _ in range(count):
                await anext(events)

    asyncio.run(run(1))
    asyncio.run(run(3))

    assert [(entry.status, entry.error) for entry in found] == [("error", "closed by the reader"), ("ok", None)]


def test_a_cancelled_call_is_logged():
    found = []

    with pytest.raises(asyncio.CancelledError):
        played(logger(found.append), question(), Script([asyncio.CancelledError()]))
    assert [(entry.status, entry.error) for entry in found] == [("error", "cancelled")]


def test_events_that_just_end_are_logged():
    assert [(entry.status, entry.usage) for entry in entries(after(0, START))] == [("ok", None)]


def test_the_default_is_a_line_of_json(caplog):
    caplog.set_level(logging.INFO, "tenuto")
    played(logger(clock=Time()), question(), Script(reply()))
    (line,) = caplog.messages

    assert json.loads(line) == {
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "latency_ms": 0.0,
        "status": "ok",
        "usage": {"input_tokens": 1000, "output_tokens": 100},
    }
