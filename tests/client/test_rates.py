from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.handlers import Script, Time, played, question, reply, told
from tenuto.client.middleware.rate_limit import _Waiter
from tenuto.core.events import ContentDelta, MessageStart, TextDelta, UsageUpdate
from tenuto.core.messages import Usage
from tenuto.errors import Unavailable
from tenuto.middleware import rate_limit

START = MessageStart("msg_1", "m")
HI = ContentDelta(0, 0, TextDelta("Hi"))


def limiting(clock, *args, **options):
    return rate_limit(*args, clock=clock, sleep=clock.sleep, **options)


def used(count):
    return reply(usage=Usage(input_tokens=count, output_tokens=0))


def test_a_burst_passes_and_the_rest_is_spread():
    clock, times = Time(), []
    limit = limiting(clock, 2, per=10.0)

    async def handler(request):
        times.append(clock.now)
        for event in reply():
            yield event

    for _ in range(5):
        assert played(limit, question(), handler).text == "Hi"

    assert times == pytest.approx([0, 0, 5, 10, 15], abs=1e-3)


def test_a_pause_is_saved_up_to_the_whole_limit():
    clock = Time()
    limit = limiting(clock, 2, per=10.0)
    for _ in range(2):
        played(limit, question(), Script(reply()))
    clock.now += 1000
    for _ in range(3):
        played(limit, question(), Script(reply()))

    assert clock.slept == pytest.approx([5.0], abs=1e-3)


def test_tokens_are_charged_when_they_are_known_and_a_debt_is_waited_off():
    clock = Time()
    limit = limiting(clock, tokens=600, per=60.0)  # ten a second
    played(limit, question(), Script(used(900)))
    assert clock.slept == []

    played(limit, question(), Script(used(1)))
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
def test_a_failed_call_is_charged_what_it_told(script):
    error = script[-1]
    error.partial = used(50)[-1].response if len(script) == 2 else None
    clock = Time()
    limit = limiting(clock, tokens=10, per=10.0)
    played(limit, question(), Script(script))
    played(limit, question(), Script(reply()))

    assert sum(clock.slept) == pytest.approx(41.0, abs=1e-3)


def test_a_call_that_is_left_early_is_charged_what_it_told():
    clock = Time()
    limit = limiting(clock, tokens=10, per=10.0)

    async def run():
        script = Script([START, UsageUpdate(Usage(input_tokens=20)), HI, HI])
        async with aclosing(limit(question(stream=True), script)) as events:
            for _ in range(3):
                await anext(events)

    asyncio.run(run())
    played(limit, question(), Script(reply()))

    assert sum(clock.slept) == pytest.approx(11.0, abs=1e-3)


def test_a_reply_without_usage_is_charged_nothing():
    clock = Time()
    limit = limiting(clock, tokens=1)
    for _ in range(3):
        played(limit, question(), Script(reply(usage=None)))

    assert clock.slept == []


class Hall:
    """A handler whose calls stay until they are let go, and a limit around it."""

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
        for event in reply():
            yield event

    async def come(self, name):
        self._doors[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(told(self._limit(question(user=name), self._handle)))
        await self.rest()

    async def leave(self, name):
        self._doors[name].set()
        assert (await self.tasks[name]).text == "Hi"
        await self.rest()

    async def give_up(self, name):
        self.tasks[name].cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.tasks[name]
        await self.rest()

    async def rest(self):
        """Let every task go as far as it can."""
        for _ in range(10):
            await asyncio.sleep(0)


def test_so_many_at_once_and_first_come_first_served():
    async def run():
        hall = Hall(rate_limit(concurrent=2))
        for name in "abcd":
            await hall.come(name)
        assert hall.inside == ["a", "b"]
        await hall.leave("b")
        assert hall.inside == ["a", "c"]
        await hall.leave("a")
        assert hall.inside == ["c", "d"]
        await hall.leave("c")
        await hall.leave("d")

    asyncio.run(run())


@pytest.mark.parametrize("gone", ["b", "c", "d"])
def test_whoever_gives_up_leaves_no_hole(gone):
    async def run():
        hall = Hall(rate_limit(concurrent=1))
        for name in "abcd":
            await hall.come(name)
        await hall.give_up(gone)
        for name in "abcd".replace(gone, ""):
            assert hall.inside == [name]
            await hall.leave(name)

    asyncio.run(run())


def test_whoever_is_cancelled_inside_makes_room():
    async def run():
        hall = Hall(rate_limit(concurrent=1))
        await hall.come("a")
        await hall.come("b")
        await hall.give_up("a")
        assert hall.inside == ["b"]
        await hall.leave("b")

    asyncio.run(run())


def test_whoever_gives_up_waiting_for_time_lets_the_next_wait():
    clock = Time()

    async def run():
        asleep = asyncio.Event()

        async def sleep(seconds):
            asleep.set()
            if not clock.slept:
                clock.slept.append(seconds)
                await asyncio.get_running_loop().create_future()
            await clock.sleep(seconds)

        hall = Hall(rate_limit(1, per=10.0, clock=clock, sleep=sleep))
        await hall.come("a")
        await hall.leave("a")
        await hall.come("b")
        await asleep.wait()
        await hall.come("c")
        assert hall.inside == []
        await hall.give_up("b")
        assert hall.inside == ["c"]
        await hall.leave("c")

    asyncio.run(run())
    assert clock.now == pytest.approx(10.0)


@given(st.lists(st.tuples(st.sampled_from(["come", "leave", "give_up"]), st.integers(0, 9)), max_size=14))
def test_never_more_than_allowed_and_nobody_is_forgotten(acts):
    """Whatever comes, leaves or gives up: those inside are the first of those who are there."""

    async def run():
        hall, there = Hall(rate_limit(concurrent=2)), []
        for at, (act, pick) in enumerate(acts):
            if act == "come":
                there.append(str(at))
                await hall.come(str(at))
            elif there:
                name = there.pop(pick % min(2, len(there)) if act == "leave" else pick % len(there))
                await getattr(hall, act)(name)
            assert sorted(hall.inside) == sorted(there[:2])
        for name in there:
            await hall.give_up(name)

    asyncio.run(run())


def test_one_limit_serves_several_loops():
    """Threads with loops of their own share it: nobody is lost between them, and never two are inside."""
    limit, most, inside, lock = rate_limit(concurrent=1), [0], [0], threading.Lock()

    async def handler(request):
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        await asyncio.sleep(0)
        with lock:
            inside[0] -= 1
        for event in reply():
            yield event

    answered = []

    async def several():
        answered.extend(await asyncio.gather(*(told(limit(question(), handler)) for _ in range(20))))

    threads = [threading.Thread(target=lambda: asyncio.run(several()), daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)

    assert [found.text for found in answered] == ["Hi"] * 60
    assert most == [1]


@pytest.mark.parametrize("seats", [1, 2])
def test_a_place_on_a_loop_that_is_gone_is_skipped(seats):
    """A loop may be closed while somebody waits on it: those behind go on, whoever calls them."""
    limit, gone = rate_limit(concurrent=seats), asyncio.new_event_loop()

    async def dead():
        return _Waiter()

    async def run():
        hall = Hall(limit)
        await hall.come("a")
        limit._queue.append(place)
        await hall.come("b")
        assert hall.inside == ["a", "b"][:seats]
        await hall.leave("a")
        assert hall.inside == ["b"]
        limit._queue.appendleft(place)
        await hall.leave("b")
        assert not limit._queue

    place = gone.run_until_complete(dead())
    gone.close()
    asyncio.run(run())


def test_a_call_from_another_thread_wakes_a_loop_that_sleeps():
    limit, answered = rate_limit(concurrent=1), []

    def answer():
        answered.append(played(limit, question(), Script(reply())))

    thread = threading.Thread(target=answer, daemon=True)

    async def run():
        async with aclosing(limit(question(), Script(reply()))) as events:
            await anext(events)
            thread.start()
            while not limit._queue:
                await asyncio.sleep(0)
        await asyncio.to_thread(thread.join, 5)

    asyncio.run(run())
    assert [found.text for found in answered] == ["Hi"]


def test_two_who_leave_at_once_call_the_next_once():
    faults = []

    async def run():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
        hall = Hall(rate_limit(concurrent=2))
        for name in "abc":
            await hall.come(name)
        await asyncio.gather(hall.leave("a"), hall.leave("b"))
        assert hall.inside == ["c"]
        await hall.leave("c")

    asyncio.run(run())
    assert faults == []


def test_whoever_goes_through_calls_the_next():
    """Nobody has to leave for it: where only time counts, the next one begins to wait for its own."""
    clock = Time()

    async def run():
        hall = Hall(limiting(clock, 1, per=10.0))
        await asyncio.gather(*map(hall.come, "abc"))
        await hall.rest()
        assert hall.inside == ["a", "b", "c"]
        for name in "abc":
            await hall.leave(name)

    asyncio.run(run())
    assert clock.slept == pytest.approx([10.0, 10.0])


def test_the_clock_may_go_back():
    clock = Time(100.0)
    limit = limiting(clock, 1, per=10.0)
    played(limit, question(), Script(reply()))
    clock.now = 50.0
    played(limit, question(), Script(reply()))

    assert clock.slept == pytest.approx([10.0])


@pytest.mark.parametrize("options", [{}, {"requests": 0}, {"tokens": 10, "per": 0}, {"concurrent": 0}])
def test_a_limit_that_makes_no_sense_is_refused(options):
    with pytest.raises(ValueError, match="at least one of"):
        rate_limit(**options)
