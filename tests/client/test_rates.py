from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.handlers import FakeClock, Script, make_request, read_events, reply_events, run_middleware
from tenuto.client.middleware.rate_limit import _Waiter
from tenuto.core.events import ContentDelta, MessageStart, TextDelta, UsageUpdate
from tenuto.core.messages import Usage
from tenuto.errors import Unavailable
from tenuto.middleware import rate_limit

START = MessageStart("msg_1", "m")
HI = ContentDelta(0, 0, TextDelta("Hi"))


def limiting(clock, *args, **options):
    return rate_limit(*args, clock=clock, sleep=clock.sleep, **options)


def usage_event(count):
    return reply_events(usage=Usage(input_tokens=count, output_tokens=0))


def test_burst_passes_and_later_calls_are_spread():
    clock, times = FakeClock(), []
    limit = limiting(clock, 2, per=10.0)

    async def handler(request):
        times.append(clock.now)
        for event in reply_events():
            yield event

    for _ in range(5):
        assert run_middleware(limit, make_request(), handler).text == "Hi"

    assert times == pytest.approx([0, 0, 5, 10, 15], abs=1e-3)


def test_unused_rate_is_saved_up_to_the_limit():
    clock = FakeClock()
    limit = limiting(clock, 2, per=10.0)
    for _ in range(2):
        run_middleware(limit, make_request(), Script(reply_events()))
    clock.now += 1000
    for _ in range(3):
        run_middleware(limit, make_request(), Script(reply_events()))

    assert clock.slept == pytest.approx([5.0], abs=1e-3)


def test_tokens_are_charged_after_the_call():
    clock = FakeClock()
    limit = limiting(clock, tokens=600, per=60.0)  # 10 per second
    run_middleware(limit, make_request(), Script(usage_event(900)))
    assert clock.slept == []

    run_middleware(limit, make_request(), Script(usage_event(1)))
    assert clock.now == pytest.approx(30.1, abs=1e-3)


@pytest.mark.parametrize(
    "script",
    [
        [START, UsageUpdate(Usage(input_tokens=40)), UsageUpdate(Usage(input_tokens=50)), Unavailable("cut")],
        [START, UsageUpdate(Usage(input_tokens=30)), START, UsageUpdate(Usage(input_tokens=20)), Unavailable("cut")],
        [START, Unavailable("cut")],
    ],
    ids=["the last word", "two attempts", "a part"],
)
def test_failed_call_is_charged_its_reported_usage(script):
    error = script[-1]
    error.partial = usage_event(50)[-1].response if len(script) == 2 else None
    clock = FakeClock()
    limit = limiting(clock, tokens=10, per=10.0)
    run_middleware(limit, make_request(), Script(script))
    run_middleware(limit, make_request(), Script(reply_events()))

    assert sum(clock.slept) == pytest.approx(41.0, abs=1e-3)


def test_abandoned_call_is_charged_its_reported_usage():
    clock = FakeClock()
    limit = limiting(clock, tokens=10, per=10.0)

    async def run():
        script = Script([START, UsageUpdate(Usage(input_tokens=20)), HI, HI])
        async with aclosing(limit(make_request(stream=True), script)) as events:
            for _ in range(3):
                await anext(events)

    asyncio.run(run())
    run_middleware(limit, make_request(), Script(reply_events()))

    assert sum(clock.slept) == pytest.approx(11.0, abs=1e-3)


def test_reply_without_usage_is_not_charged():
    clock = FakeClock()
    limit = limiting(clock, tokens=1)
    for _ in range(3):
        run_middleware(limit, make_request(), Script(reply_events(usage=None)))

    assert clock.slept == []


class CallGate:
    """A limit around a handler whose calls run until the test ends them."""

    def __init__(self, limit):
        self._limit = limit
        self.inside = []
        self._doors = {}
        self.tasks = {}

    async def _handle(self, request):
        self.inside.append(request.user)
        try:
            await self._doors[request.user].wait()
        finally:
            self.inside.remove(request.user)
        for event in reply_events():
            yield event

    async def start(self, name):
        self._doors[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(read_events(self._limit(make_request(user=name), self._handle)))
        await self.run_tasks()

    async def finish(self, name):
        self._doors[name].set()
        assert (await self.tasks[name]).text == "Hi"
        await self.run_tasks()

    async def cancel(self, name):
        self.tasks[name].cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.tasks[name]
        await self.run_tasks()

    async def run_tasks(self):
        """Run every task until it waits."""
        for _ in range(10):
            await asyncio.sleep(0)


def test_calls_are_limited_and_start_in_their_order():
    async def run():
        gate = CallGate(rate_limit(concurrent=2))
        for name in "abcd":
            await gate.start(name)
        assert gate.inside == ["a", "b"]
        await gate.finish("b")
        assert gate.inside == ["a", "c"]
        await gate.finish("a")
        assert gate.inside == ["c", "d"]
        await gate.finish("c")
        await gate.finish("d")

    asyncio.run(run())


@pytest.mark.parametrize("cancelled", ["b", "c", "d"])
def test_cancelled_waiter_leaves_no_gap(cancelled):
    async def run():
        gate = CallGate(rate_limit(concurrent=1))
        for name in "abcd":
            await gate.start(name)
        await gate.cancel(cancelled)
        for name in "abcd".replace(cancelled, ""):
            assert gate.inside == [name]
            await gate.finish(name)

    asyncio.run(run())


def test_cancelled_call_releases_its_slot():
    async def run():
        gate = CallGate(rate_limit(concurrent=1))
        await gate.start("a")
        await gate.start("b")
        await gate.cancel("a")
        assert gate.inside == ["b"]
        await gate.finish("b")

    asyncio.run(run())


def test_cancelled_wait_for_time_starts_the_next_wait():
    clock = FakeClock()

    async def run():
        asleep = asyncio.Event()

        async def sleep(seconds):
            asleep.set()
            if not clock.slept:
                clock.slept.append(seconds)
                await asyncio.get_running_loop().create_future()
            await clock.sleep(seconds)

        gate = CallGate(rate_limit(1, per=10.0, clock=clock, sleep=sleep))
        await gate.start("a")
        await gate.finish("a")
        await gate.start("b")
        await asleep.wait()
        await gate.start("c")
        assert gate.inside == []
        await gate.cancel("b")
        assert gate.inside == ["c"]
        await gate.finish("c")

    asyncio.run(run())
    assert clock.now == pytest.approx(10.0)


@given(st.lists(st.tuples(st.sampled_from(["start", "finish", "cancel"]), st.integers(0, 9)), max_size=14))
def test_limit_is_never_exceeded_and_every_call_starts(acts):
    """After each step, the running calls are the first of all calls."""

    async def run():
        gate, active = CallGate(rate_limit(concurrent=2)), []
        for at, (act, pick) in enumerate(acts):
            if act == "start":
                active.append(str(at))
                await gate.start(str(at))
            elif active:
                name = active.pop(pick % min(2, len(active)) if act == "finish" else pick % len(active))
                await getattr(gate, act)(name)
            assert sorted(gate.inside) == sorted(active[:2])
        for name in active:
            await gate.cancel(name)

    asyncio.run(run())


def test_one_limit_serves_several_loops():
    """Threads with their own loops share it: no call is lost, and two calls never run at the same time."""
    limit, most, inside, lock = rate_limit(concurrent=1), [0], [0], threading.Lock()

    async def handler(request):
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        await asyncio.sleep(0)
        with lock:
            inside[0] -= 1
        for event in reply_events():
            yield event

    answered = []

    async def several():
        answered.extend(await asyncio.gather(*(read_events(limit(make_request(), handler)) for _ in range(20))))

    threads = [threading.Thread(target=lambda: asyncio.run(several()), daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)

    assert [found.text for found in answered] == ["Hi"] * 60
    assert most == [1]


@pytest.mark.parametrize("seats", [1, 2])
def test_waiter_on_a_closed_loop_is_skipped(seats):
    """A loop may be closed while a task waits on it: later tasks continue, in any loop."""
    limit, closed_loop = rate_limit(concurrent=seats), asyncio.new_event_loop()

    async def dead():
        return _Waiter()

    async def run():
        gate = CallGate(limit)
        await gate.start("a")
        limit._queue.append(waiter)
        await gate.start("b")
        assert gate.inside == ["a", "b"][:seats]
        await gate.finish("a")
        assert gate.inside == ["b"]
        limit._queue.appendleft(waiter)
        await gate.finish("b")
        assert not limit._queue

    waiter = closed_loop.run_until_complete(dead())
    closed_loop.close()
    asyncio.run(run())


def test_call_of_another_thread_wakes_a_sleeping_loop():
    limit, answered = rate_limit(concurrent=1), []

    def answer():
        answered.append(run_middleware(limit, make_request(), Script(reply_events())))

    thread = threading.Thread(target=answer, daemon=True)

    async def run():
        async with aclosing(limit(make_request(), Script(reply_events()))) as events:
            await anext(events)
            thread.start()
            while not limit._queue:
                await asyncio.sleep(0)
        await asyncio.to_thread(thread.join, 5)

    asyncio.run(run())
    assert [found.text for found in answered] == ["Hi"]


def test_two_calls_that_end_together_start_the_next_once():
    faults = []

    async def run():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
        gate = CallGate(rate_limit(concurrent=2))
        for name in "abc":
            await gate.start(name)
        await asyncio.gather(gate.finish("a"), gate.finish("b"))
        assert gate.inside == ["c"]
        await gate.finish("c")

    asyncio.run(run())
    assert faults == []


def test_waiter_that_starts_wakes_the_next():
    """No call has to end: if only time counts, the next task starts its own wait."""
    clock = FakeClock()

    async def run():
        gate = CallGate(limiting(clock, 1, per=10.0))
        await asyncio.gather(*map(gate.start, "abc"))
        await gate.run_tasks()
        assert gate.inside == ["a", "b", "c"]
        for name in "abc":
            await gate.finish(name)

    asyncio.run(run())
    assert clock.slept == pytest.approx([10.0, 10.0])


def test_clock_may_go_back():
    clock = FakeClock(100.0)
    limit = limiting(clock, 1, per=10.0)
    run_middleware(limit, make_request(), Script(reply_events()))
    clock.now = 50.0
    run_middleware(limit, make_request(), Script(reply_events()))

    assert clock.slept == pytest.approx([10.0])


@pytest.mark.parametrize("options", [{}, {"requests": 0}, {"tokens": 10, "per": 0}, {"concurrent": 0}])
def test_invalid_limit_is_refused(options):
    with pytest.raises(ValueError, match="at least one of"):
        rate_limit(**options)
