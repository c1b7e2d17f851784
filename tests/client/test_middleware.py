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

from client.handlers import (
    USAGE,
    FakeClock,
    Script,
    make_request,
    make_response,
    read_events,
    reply_events,
    run_middleware,
)
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
DONE = MessageDone(make_response())


def test_import_of_middleware_is_cheap():
    """No heavy library is imported; sqlite3 only for a cache in a file."""
    code = "import sys, tenuto.middleware as m; m.retry(), m.cache(), m.budget(1); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert set() == set(loaded) & {"aiohttp", "rich", "click", "sqlite3", "pydantic", "genai_prices", "httpx2"}


# --- middleware of responses -----------------------------------------------------------------------------------------


def test_response_middleware_changes_request_and_response():
    @response_middleware
    async def shouting(request, next):
        found = await next(make_request(text="changed"))
        return ChatResponse(found.id, found.provider, found.model, (Choice(AssistantMessage((Text("HI"),))),))

    handler = Script(reply_events())
    found = run_middleware(shouting, make_request(stream=True), handler)

    assert found.text == "HI"
    assert [event.delta for event in found if isinstance(event, ContentDelta)] == [TextDelta("HI")]
    assert handler.requests == [make_request(text="changed")]
    assert handler.closed == 1


def test_response_middleware_may_answer_itself():
    @response_middleware
    async def canned(request, next):
        return make_response("canned")

    assert run_middleware(canned, make_request(), Script([AssertionError()])).text == "canned"


def test_response_middleware_sees_errors():
    @response_middleware
    async def patient(request, next):
        try:
            return await next(request)
        except Unavailable:
            return await next(request)

    assert run_middleware(patient, make_request(), Script([START, Unavailable("x")], reply_events("two"))).text == "two"
    assert isinstance(run_middleware(patient, make_request(), Script([START])).error, IncompleteResponse)


def test_first_middleware_is_the_outermost():
    order = []

    def named(name):
        async def middleware(request, next):
            order.append(name)
            async for event in next(request):
                yield event

        return middleware

    async def run():
        return await read_events(compose([named("a"), named("b")], Script(reply_events()))(make_request()))

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
def test_retry_repeats_a_temporary_error(stream):
    clock, handler = FakeClock(), Script([Unavailable("x")], [ConnectionFailed("y")], reply_events())

    found = run_middleware(retrying(clock), make_request(stream=stream), handler)

    assert (found, found.error) == (reply_events(), None)
    assert (clock.slept, handler.closed) == ([1.0, 2.0], 3)


def test_retry_raises_the_last_error_after_all_attempts():
    clock, errors = FakeClock(), [Unavailable(str(n)) for n in range(4)]
    handler = Script(*[[error] for error in errors])

    found = run_middleware(retrying(clock), make_request(), handler)

    assert found.error is errors[3]
    assert found.error.__notes__ == ["gave up after 4 attempts"]
    assert not hasattr(errors[0], "__notes__")
    assert (clock.slept, len(handler.requests)) == ([1.0, 2.0, 4.0], 4)


def test_retry_without_attempts_does_not_repeat():
    error = Unavailable("x")
    found = run_middleware(retry(0), make_request(), Script([error]))

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
def test_retry_raises_a_permanent_error_at_once(error):
    clock, handler = FakeClock(), Script([error])

    assert run_middleware(retrying(clock), make_request(), handler).error is error
    assert (len(handler.requests), clock.slept) == (1, [])


def test_retry_repeats_an_unknown_exception():
    assert (
        run_middleware(retrying(FakeClock()), make_request(), Script([ValueError("bug")], reply_events())).text == "Hi"
    )


@pytest.mark.parametrize("error", [asyncio.CancelledError(), KeyboardInterrupt()], ids=["cancelled", "interrupt"])
def test_retry_raises_interrupts_at_once(error):
    handler = Script([error])

    with pytest.raises(type(error)):
        run_middleware(retrying(FakeClock()), make_request(), handler)
    assert len(handler.requests) == 1


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
def test_retry_pauses_grow(options, draw, delays):
    clock = FakeClock()
    run_middleware(retrying(clock, draw=draw, **options), make_request(), Script([Unavailable("x")]))

    assert clock.slept == pytest.approx(delays)


def test_retry_pauses_stay_finite():
    clock = FakeClock()
    run_middleware(retrying(clock, 1500, budget=1e9), make_request(), Script([Unavailable("x")]))

    assert (len(clock.slept), clock.slept[-1]) == (1500, 60.0)


@given(st.floats(0, 60), st.floats(0, 1, exclude_max=True))
def test_retry_waits_as_long_as_the_provider_requests(seconds, draw):
    """Never shorter, and not much longer."""
    clock = FakeClock()
    run_middleware(retrying(clock, 1, draw=draw), make_request(), Script([limited(seconds)], reply_events()))

    assert seconds <= sum(clock.slept) <= seconds + 0.1


def test_retry_raises_if_the_requested_pause_is_too_long():
    clock, handler = FakeClock(), Script([limited(61.0)])
    found = run_middleware(retrying(clock), make_request(), handler)

    assert (found.error.retry_after, clock.slept, len(handler.requests)) == (61.0, [], 1)


def test_retry_limits_the_sum_of_its_pauses():
    clock, handler = FakeClock(), Script([limited(50.0)])
    found = run_middleware(retrying(clock, 9, draw=0.0, budget=120.0), make_request(), handler)

    assert (clock.slept, len(handler.requests)) == ([50.0, 50.0], 3)
    assert found.error.__notes__ == ["gave up after 3 attempts"]


def test_retry_hides_the_start_of_a_failed_stream():
    """An overloaded provider starts a stream with status 200 before it sends the error."""
    broken = [START, UsageUpdate(Usage(input_tokens=1)), FAILURE, Unavailable("overloaded")]
    whole = [MessageStart("msg_2", "m"), ContentStart(0, 0, Text("")), HI, DONE]

    found = run_middleware(retrying(FakeClock()), make_request(stream=True), Script(broken, whole))

    assert (found, found.error) == (whole, None)


def test_retry_emits_held_events_if_no_attempt_succeeds():
    error = Unavailable("overloaded")
    broken = [START, FAILURE, error]

    found = run_middleware(retrying(FakeClock(), 0), make_request(stream=True), Script(broken))

    assert (found, found.error) == ([START, FAILURE], error)


def test_retry_emits_held_events_at_the_end():
    assert run_middleware(retry(), make_request(stream=True), Script([START])) == [START]


@pytest.mark.parametrize("seen", [ContentStart(0, 0, Text("")), HI], ids=["start", "delta"])
def test_retry_does_not_repeat_a_visible_reply(seen):
    error = ConnectionFailed("cut")
    handler = Script([START, seen, FAILURE, error], reply_events())

    found = run_middleware(retrying(FakeClock()), make_request(stream=True), handler)

    assert (found, found.error) == ([START, seen, FAILURE], error)
    assert len(handler.requests) == 1


def test_retry_repeats_a_drained_call_until_its_end():
    """The reader sees a second start, but not the error."""
    handler = Script([START, HI, FAILURE, ConnectionFailed("cut")], [START, HI, DONE])

    assert run_middleware(retrying(FakeClock()), make_request(), handler) == [START, HI, START, HI, DONE]


def test_retry_does_not_hold_events_of_a_drained_call():
    handler = Script([START, FAILURE, Unavailable("x")], [START, DONE])

    assert run_middleware(retrying(FakeClock()), make_request(), handler) == [START, START, DONE]


def test_retry_emits_events_at_once():
    """Only the start is held: each later event is emitted before the next one arrives."""

    async def run():
        gone_on = asyncio.Event()
        handler = Script([START, HI, gone_on.wait, DONE])
        async with aclosing(retry()(make_request(stream=True), handler)) as events:
            first = [await anext(events), await anext(events)]
            gone_on.set()
            return [*first, await anext(events)]

    assert asyncio.run(run()) == [START, HI, DONE]


@pytest.mark.parametrize(
    "middleware", [retry(), fallback(["a/b"]), timeout(9), logger()], ids=["retry", "fallback", "timeout", "logger"]
)
def test_closing_the_outer_iterator_closes_the_inner(middleware):
    handler = Script([START, HI, HI, DONE])

    async def run():
        async with aclosing(middleware(make_request(stream=True), handler)) as events:
            await anext(events)
        assert handler.closed == 1

    asyncio.run(run())


def test_handler_may_return_any_async_iterator():
    class Events:
        def __init__(self, request):
            self._left = iter(reply_events())

        def __aiter__(self):
            return self

        async def __anext__(self):
            try:
                return next(self._left)
            except StopIteration:
                raise StopAsyncIteration from None

    found = run_middleware(retry(0), make_request(), Events)

    assert (found, found.error) == (reply_events(), None)


def test_log_of_retry_has_no_text_of_the_provider(caplog):
    caplog.set_level(logging.INFO, "tenuto")
    run_middleware(
        retrying(FakeClock(), 2), make_request(), Script([RateLimited("key sk-canary", status=429)], reply_events())
    )

    assert caplog.messages == ["retry in 1.0 s after RateLimited (429), 1 of 2"]


@pytest.mark.parametrize("options", [{"times": -1}, {"base": -1.0}, {"jitter": 1.5}, {"budget": -1.0}])
def test_invalid_retry_is_refused(options):
    with pytest.raises(ValueError, match=r"negative|from 0 to 1"):
        retry(**options)


# --- fallback ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [BadRequest("x"), Unavailable("x"), MissingKey("openai"), UnknownProvider("x"), UnsupportedModel("m", "x")],
    ids=lambda error: type(error).__name__,
)
def test_fallback_uses_the_next_model(error):
    handler = Script([error], reply_events())
    found = run_middleware(fallback(["b/two", "c/three"]), make_request("a/one"), handler)

    assert (found.text, handler.models) == ("Hi", ["a/one", "b/two"])


def test_fallback_changes_only_the_model():
    handler = Script(reply_events())
    asked = make_request("x/asked", temperature=0.5, stream=True)
    run_middleware(fallback(["a/one"], asked_first=False), asked, handler)

    assert handler.requests == [make_request("a/one", temperature=0.5, stream=True)]


@pytest.mark.parametrize(
    "listed, models", [(["a/one"], ["x/asked", "a/one"]), (["a/one", "x/asked"], ["x/asked", "a/one"])]
)
def test_fallback_tries_model_of_request_first(listed, models):
    handler = Script([Unavailable("x")])
    run_middleware(fallback(listed), make_request("x/asked"), handler)

    assert handler.models == models


def test_fallback_may_replace_model_of_request():
    handler = Script([Unavailable("x")], reply_events())
    run_middleware(fallback(["a/one", "b/two"], asked_first=False), make_request("x/asked"), handler)

    assert handler.models == ["a/one", "b/two"]


def test_fallback_raises_the_last_error_with_held_events():
    first, last = Unavailable("1"), BadRequest("2")
    found = run_middleware(
        fallback(["a/1", "b/2"]), make_request("a/1", stream=True), Script([START, FAILURE, first], [FAILURE, last])
    )

    assert (found, found.error) == ([FAILURE], last)


@pytest.mark.parametrize(
    "error", [TranscriptError("x"), LimitReached("usd"), ValueError("bug")], ids=lambda error: type(error).__name__
)
def test_fallback_raises_an_error_that_all_models_share(error):
    handler = Script([error], reply_events())

    assert run_middleware(fallback(["a/1", "b/2"]), make_request("a/1"), handler).error is error
    assert handler.models == ["a/1"]


def test_fallback_does_not_follow_a_cancellation():
    handler = Script([asyncio.CancelledError()], reply_events())

    with pytest.raises(asyncio.CancelledError):
        run_middleware(fallback(["a/1", "b/2"]), make_request("a/1"), handler)
    assert handler.models == ["a/1"]


def test_fallback_does_not_replace_a_visible_reply():
    error = ConnectionFailed("cut")
    handler = Script([START, HI, error], reply_events())

    found = run_middleware(fallback(["a/1", "b/2"]), make_request("a/1", stream=True), handler)

    assert (found, found.error, handler.models) == ([START, HI], error, ["a/1"])


def test_fallback_starts_each_call_with_the_first_model():
    handler = Script([Unavailable("x")], reply_events())
    middleware = fallback(["a/1", "b/2"])
    run_middleware(middleware, make_request("a/1"), handler)
    run_middleware(middleware, make_request("a/1"), handler)

    assert handler.models == ["a/1", "b/2", "a/1"]


def test_fallback_is_logged(caplog):
    caplog.set_level(logging.INFO, "tenuto")
    run_middleware(
        fallback(["a/1", "b/2"]), make_request("a/1"), Script([Unavailable("key", status=529)], reply_events())
    )

    assert caplog.messages == ["a/1 failed with Unavailable (529); trying b/2"]


def test_fallback_without_models_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        fallback([])
    with pytest.raises(TypeError, match=r"fallback\(\['a/b'\]\)"):
        fallback("a/b")


# --- timeout ----------------------------------------------------------------------------------------------------------


def one_turn():
    return asyncio.sleep(0)


def never():
    return asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("before", [[], [START, HI]], ids=["nothing", "a part"])
def test_timeout_raises_if_no_event_arrives(before):
    handler = Script([*before, never, DONE])
    found = run_middleware(timeout(1e-6), make_request("groq/m", stream=True), handler)

    assert (type(found.error), found.error.provider, found.error.retryable) == (TimedOut, "groq", True)
    assert str(found.error) == "groq/m: no complete reply within 1e-06 s"
    assert (found, handler.closed) == (before, 1)


def test_timeout_does_not_change_a_fast_reply():
    assert run_middleware(timeout(60), make_request(), Script(reply_events())) == reply_events()


def test_timeout_does_not_count_the_readers_time():
    """Only the wait for an event is measured and interrupted, not the time between two events."""

    async def run():
        loop = asyncio.get_running_loop()
        real, ahead = loop.time, [0.0]
        loop.time = lambda: real() + ahead[0]
        seen = []
        async for event in timeout(60)(make_request(), Script([START, one_turn, HI, one_turn, DONE])):
            seen.append(event)
            ahead[0] += 100
            await one_turn()
        return seen

    assert asyncio.run(run()) == [START, HI, DONE]


def test_timeout_adds_all_waits():
    async def run():
        loop = asyncio.get_running_loop()
        real, ahead = loop.time, [0.0]
        loop.time = lambda: real() + ahead[0]

        async def wait():
            ahead[0] += 25
            await asyncio.sleep(0)

        return await read_events(timeout(60)(make_request(), Script([wait, START, wait, HI, wait, never, DONE])))

    found = asyncio.run(run())
    assert (found, type(found.error)) == ([START, HI], TimedOut)


def test_timeout_error_of_the_handler_is_unchanged():
    error = TimeoutError("a file server's")

    assert run_middleware(timeout(60), make_request(), Script([error])).error is error


def test_timeout_passes_a_cancellation_on():
    async def run():
        waiting = asyncio.Event()

        async def wait():
            waiting.set()
            await never()

        task = asyncio.create_task(read_events(timeout(60)(make_request(), Script([wait]))))
        await waiting.wait()
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_timeout_must_be_positive(seconds):
    with pytest.raises(ValueError, match="above 0"):
        timeout(seconds)


# --- logger -----------------------------------------------------------------------------------------------------------


def entries(handler, request=None, **options):
    clock, found = FakeClock(), []
    run_middleware(logger(found.append, clock=clock), request or make_request(), handler(clock))
    return found


def after(seconds, *items):
    """Return a script that moves the clock before it ends."""

    def make_script(clock):
        return Script([lambda: clock.sleep(seconds), *items])

    return make_script


def test_logger_logs_a_call():
    assert entries(after(1.5, *reply_events())) == [LogEntry("anthropic", "claude-sonnet-4-5", 1500.0, "ok", USAGE)]


def test_logger_logs_an_error_and_raises_it():
    error, found = BadRequest("no such thing"), []

    assert (
        run_middleware(logger(found.append, clock=FakeClock()), make_request(), Script([START, error])).error is error
    )
    assert found == [LogEntry("anthropic", "claude-sonnet-4-5", 0.0, "error", None, "no such thing")]


def test_logger_uses_the_type_of_an_error_without_message():
    assert entries(after(0, KeyError()))[0].error == "KeyError"


@pytest.mark.parametrize("model, names", [("bare", ("", "bare")), ("a/b/c", ("a", "b/c"))])
def test_logger_accepts_any_model_name(model, names):
    (entry,) = entries(after(0, *reply_events()), make_request(model))

    assert (entry.provider, entry.model) == names


def test_logger_logs_an_abandoned_call_once():
    found = []

    async def run(count):
        async with aclosing(logger(found.append)(make_request(stream=True), Script([START, HI, DONE]))) as events:
            for _ in range(count):
                await anext(events)

    asyncio.run(run(1))
    asyncio.run(run(3))

    assert [(entry.status, entry.error) for entry in found] == [("error", "closed by the reader"), ("ok", None)]


def test_logger_logs_a_cancelled_call():
    found = []

    with pytest.raises(asyncio.CancelledError):
        run_middleware(logger(found.append), make_request(), Script([asyncio.CancelledError()]))
    assert [(entry.status, entry.error) for entry in found] == [("error", "cancelled")]


def test_logger_logs_events_without_an_end():
    assert [(entry.status, entry.usage) for entry in entries(after(0, START))] == [("ok", None)]


def test_logger_writes_json_by_default(caplog):
    caplog.set_level(logging.INFO, "tenuto")
    run_middleware(logger(clock=FakeClock()), make_request(), Script(reply_events()))
    (line,) = caplog.messages

    assert json.loads(line) == {
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "latency_ms": 0.0,
        "status": "ok",
        "usage": {"input_tokens": 1000, "output_tokens": 100},
    }
