"""Deadlines: whoever has one is rung when it is due, by one timer for all."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from tenuto.client.deadlines import Clock


class Loop:
    """A loop whose time is moved by hand; it keeps its timers, as asyncio's does."""

    def __init__(self):
        self.now = 0.0
        self.timers = []

    def time(self):
        return self.now

    def call_at(self, at, act):
        handle = asyncio.TimerHandle(at, act, (), self)
        self.timers.append(handle)
        return handle

    def get_debug(self):
        return False

    def _timer_handle_cancelled(self, handle):
        self.timers.remove(handle)

    def until(self, now):
        while due := [handle for handle in self.timers if handle.when() <= now]:
            first = min(due, key=asyncio.TimerHandle.when)
            self.timers.remove(first)
            self.now = max(self.now, first.when())
            first._callback()
        self.now = now


class Bell:
    """Notes when it rings; `again` is what it answers, once each."""

    def __init__(self, *again):
        self.rung = []
        self.again = list(again)

    def ring(self, now):
        self.rung.append(now)
        return self.again.pop(0) if self.again else None


def test_it_rings_when_it_is_due_and_not_again():
    loop, bell = Loop(), Bell()
    Clock(loop).set(bell, 5.0)
    loop.until(4.9)
    assert bell.rung == []
    loop.until(50.0)
    assert bell.rung == [5.0]


def test_who_is_rung_can_put_it_off():
    loop, bell = Loop(), Bell(7.0, 9.0)
    Clock(loop).set(bell, 5.0)
    loop.until(50.0)
    assert bell.rung == [5.0, 7.0, 9.0]


def test_the_earlier_time_holds():
    loop, bell = Loop(), Bell()
    clock = Clock(loop)
    clock.set(bell, 5.0)
    clock.set(bell, 3.0)
    clock.set(bell, 8.0)
    loop.until(50.0)
    assert bell.rung == [3.0]


def test_many_have_one_timer():
    loop, bells = Loop(), [Bell() for _ in range(100)]
    clock = Clock(loop)
    for at, bell in enumerate(bells):
        clock.set(bell, 100.0 - at)
        assert len(loop.timers) == 1
    loop.until(200.0)
    assert [bell.rung for bell in bells] == [[100.0 - at] for at in range(100)]
    assert loop.timers == []


def test_one_that_rings_can_silence_another():
    loop, other = Loop(), Bell()
    clock = Clock(loop)

    class Silencing(Bell):
        def ring(self, now):
            clock.drop(other)
            return super().ring(now)

    clock.set(Silencing(), 5.0)
    clock.set(other, 5.0)
    loop.until(50.0)
    assert other.rung == []


def test_a_closed_clock_rings_nobody_and_has_no_timer():
    loop, bell = Loop(), Bell()
    clock = Clock(loop)
    clock.set(bell, 5.0)
    clock.close()
    assert loop.timers == []
    loop.until(50.0)
    assert bell.rung == []


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 4), st.integers(1, 20)),
        st.tuples(st.just("drop"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("wait"), st.just(0), st.integers(1, 10)),
    ),
    max_size=40,
)


@given(STEPS)
def test_each_rings_once_at_the_first_time_that_was_set(steps):
    loop, bells, due = Loop(), [Bell() for _ in range(5)], {}
    expected = [[] for _ in bells]
    clock = Clock(loop)
    for what, who, number in steps:
        if what == "set":
            at = loop.now + number
            due[who] = min(at, due.get(who, at))
            clock.set(bells[who], at)
        elif what == "drop":
            due.pop(who, None)
            clock.drop(bells[who])
        else:
            until = loop.now + number
            for one in [one for one, at in due.items() if at <= until]:
                expected[one].append(due.pop(one))
            loop.until(until)
    assert [bell.rung for bell in bells] == expected
